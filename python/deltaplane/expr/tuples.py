"""Converts predicates of `(column, operator, value)` tuples, deltalake's notation, to the JSON
tree.

Defines the meaning of Python values in a predicate; independent of SQL and of column types.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Sequence
from typing import Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr import tree
from deltaplane.expr.tree import Node
from deltaplane.expr.values import Moment, is_missing, plain_value

_SHAPE = 'tuples are (column, operator, value), for example [("day", ">=", "2024-01-01")]'
_OPERATORS = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_NAME_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def from_tuples(predicate: Any) -> Node | None:
    """The tree of a conjunction of tuples or of a list of such conjunctions; `None` for an empty
    list."""
    if not isinstance(predicate, list):
        raise InvalidArgumentError(f"a predicate is Spark SQL text or a list of tuples, not {predicate!r}: {_SHAPE}")
    if not predicate:
        return None
    if all(isinstance(part, tuple) for part in predicate):
        return _conjunction(predicate)
    if all(isinstance(part, list) for part in predicate):
        return tree.any_of([_conjunction(part) for part in predicate])
    raise InvalidArgumentError(f"a predicate mixes tuples with lists: {_SHAPE}, or a list of such lists")


def _conjunction(parts: Sequence[Any]) -> Node:
    if not parts:
        raise InvalidArgumentError(f"a predicate holds an empty list: {_SHAPE}")
    return tree.all_of([_condition(part) for part in parts])


def _condition(part: Any) -> Node:
    if not isinstance(part, tuple) or len(part) != 3 or not all(isinstance(p, str) for p in part[:2]):
        raise InvalidArgumentError(f"a predicate holds {part!r}: {_SHAPE}")
    name, operator, value = part
    column = tree.column(_name(name))
    op = " ".join(operator.lower().split())
    if op in ("in", "not in"):
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset) or not value:
            raise InvalidArgumentError(f"the predicate on `{name}` needs a list of values after {op!r}, not {value!r}")
        node = tree.is_in(column, [value_node(v, name) for v in value])
        return tree.negated(node) if op == "not in" else node
    cmp = _OPERATORS.get(op)
    if cmp is None:
        known = ", ".join([*_OPERATORS, "in", "not in"])
        raise InvalidArgumentError(f"the predicate on `{name}` has the operator {operator!r}: use one of {known}")
    if value is None and cmp in ("=", "!="):
        return {"op": "is_null" if cmp == "=" else "is_not_null", "arg": column}
    return tree.compare(cmp, column, value_node(value, name))


def _name(name: str) -> list[str]:
    """Dots separate the fields of structs; backticks keep them in a name, as in PySpark."""
    parts, position = [], 0
    while match := _NAME_PART.match(name, position):
        parts.append((match.group(1) or "").replace("``", "`") or match.group(2))
        position = match.end()
        if position == len(name):
            return parts
        if name[position] != ".":
            break
        position += 1
    raise InvalidArgumentError(f"the predicate's column name {name!r} isn't a name: put odd characters in backticks")


def value_node(value: Any, name: str) -> Node:
    """The literal of a Python value; a string takes the column's type."""
    if is_missing(value):
        raise InvalidArgumentError(f"the predicate on `{name}` has the missing value {value!r}: use None for null")
    value = plain_value(value)
    match value:
        case Moment():
            return tree.literal(value.text, value.type)
        case None:
            return tree.literal(None, "void")
        case str():
            return tree.literal(str(value), "text")
        case bool():
            return tree.literal("true" if value else "false", "boolean")
        case int():
            # Larger numbers exceed 38 digits, and Python refuses to write thousands of them.
            return _exact(str(int(value)) if value.bit_length() <= 128 else None, name)
        case float():
            return tree.literal(_double(float(value)), "double")
        case decimal.Decimal() if value.is_finite():
            # An exponent can represent more zeros than memory holds.
            plain = abs(value.adjusted()) <= tree.MAX_DIGITS and len(value.as_tuple().digits) <= 2 * tree.MAX_DIGITS
            return _exact(f"{value:f}" if plain else None, name)
        case bytes():
            return tree.literal(value.hex(), "binary")
    raise InvalidArgumentError(
        f"the predicate on `{name}` has a value of the type {type(value).__name__}: "
        "use str, int, float, bool, Decimal, date, datetime, bytes or None"
    )


def _double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else repr(value)


def _exact(text: str | None, name: str) -> Node:
    type_name = None if text is None else tree.exact_type(text)
    if text is None or type_name is None:
        raise InvalidArgumentError(f"the predicate on `{name}` has a number of more than {tree.MAX_DIGITS} digits")
    return tree.literal(text, type_name)
