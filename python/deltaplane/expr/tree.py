"""Nodes of the JSON tree, in the format of the Rust core (`rust/protocol/src/expr/mod.rs`).

Pure constructors; independent of SQL and of tuples.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Node = dict[str, Any]

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
MAX_DIGITS = 38


def column(name: Iterable[str]) -> Node:
    return {"op": "column", "name": list(name)}


def literal(value: str | None, type_name: str) -> Node:
    return {"op": "literal", "value": value, "type": type_name}


def compare(cmp: str, left: Node, right: Node) -> Node:
    return {"op": "compare", "cmp": cmp, "left": left, "right": right}


def all_of(args: list[Node]) -> Node:
    return args[0] if len(args) == 1 else {"op": "and", "args": args}


def any_of(args: list[Node]) -> Node:
    return args[0] if len(args) == 1 else {"op": "or", "args": args}


def negated(arg: Node) -> Node:
    return {"op": "not", "arg": arg}


def is_in(arg: Node, values: list[Node]) -> Node:
    return {"op": "in", "arg": arg, "list": values}


def like(arg: Node, pattern: str, escape: str = "\\") -> Node:
    return {"op": "like", "arg": arg, "pattern": pattern, "escape": escape}


def cast(arg: Node, type_name: str) -> Node:
    return {"op": "cast", "arg": arg, "type": type_name}


def exact_type(text: str) -> str | None:
    """Spark's type of a number without exponent, `None` if it has too many digits."""
    digits, _, fraction = text.lstrip("+-").partition(".")
    digits = digits.lstrip("0")
    # Python refuses to convert thousands of digits.
    if len(digits) > MAX_DIGITS:
        return None
    if "." not in text:
        value = int(digits or "0") * (-1 if text.startswith("-") else 1)
        if -INT_MAX - 1 <= value <= INT_MAX:
            return "integer"
        if -LONG_MAX - 1 <= value <= LONG_MAX:
            return "long"
    precision = max(len(digits) + len(fraction), len(fraction), 1)
    return f"decimal({precision},{len(fraction)})" if precision <= MAX_DIGITS else None
