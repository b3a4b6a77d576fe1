"""Plain conditions to the JSON tree by our own parser, which is imported in a fraction of the other one's time.

Comparisons, IN, BETWEEN, LIKE, tests for null, AND, OR and NOT over columns, literals and their sums. What isn't plain
is left to `sql`, whose tree is the same for what is, which a test holds. Called by `expr`.
"""

from __future__ import annotations

from deltaplane.exceptions import DeltaError
from deltaplane.expr import tree
from deltaplane.expr.syntax import Call, Cast, Literal, Name, Syntax
from deltaplane.expr.syntax import parse as parsed
from deltaplane.expr.tree import Node
from deltaplane.expr.written import conjuncts

__all__ = ["from_simple", "parts"]

# Longer texts hold long lists, which the other parser has a quick way for.
_LONGEST = 10_000
_COMPARED = {"=": "=", "==": "=", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<=>": "<=>"}
_SIGNS = ("+", "-", "*")
_TYPES = ("date", "timestamp", "timestamp_ntz")


class _NotPlain(Exception):
    """Something that is left to the other parser."""


def from_simple(text: str) -> Node | None:
    """The tree of a plain condition; None for any other text, also for a wrong one.

    >>> from_simple("day = DATE '2024-01-01'")["op"]
    'compare'
    >>> from_simple("length(name) = 3") is None
    True
    """
    node = _syntax(text)
    try:
        return None if node is None else _condition(node)
    except _NotPlain:
        return None


def parts(text: str) -> list[Node] | None:
    """The trees of the conditions that a plain one joins by AND; None for any other text."""
    node = _syntax(text)
    try:
        return None if node is None else [_condition(part) for part in conjuncts(node)]
    except _NotPlain:
        return None


def _syntax(text: str) -> Syntax | None:
    # As a function it has a tree of its own.
    if len(text) > _LONGEST or "isnotnull" in text.lower():
        return None
    try:
        return parsed(text)
    except DeltaError:
        return None


def _condition(node: Syntax) -> Node:
    if not isinstance(node, Call):
        return _value(node)
    if node.name in ("and", "or"):
        args = [_condition(arg) for arg in node.args]
        return tree.all_of(args) if node.name == "and" else tree.any_of(args)
    if node.name == "not":
        (arg,) = node.args
        if isinstance(arg, Call) and arg.name == "not":
            raise _NotPlain
        return tree.negated(_condition(arg))
    if node.name in ("isnull", "isnotnull") and len(node.args) == 1:
        test: Node = {"op": "is_null", "arg": _value(node.args[0])}
        return test if node.name == "isnull" else tree.negated(test)
    if node.name == "like" and all(isinstance(a, Literal) and isinstance(a.value, str) for a in node.args[1:]):
        pattern, *escape = [str(a.value) for a in node.args[1:] if isinstance(a, Literal)]
        if escape and len(escape[0]) != 1:
            raise _NotPlain
        return tree.like(_value(node.args[0]), pattern, *escape)
    values = [_value(arg) for arg in node.args]
    if node.name in _COMPARED:
        return tree.compare(_COMPARED[node.name], *values)
    if node.name == "in":
        return tree.is_in(values[0], values[1:])
    if node.name == "between":
        return tree.all_of([tree.compare(">=", values[0], values[1]), tree.compare("<=", values[0], values[2])])
    raise _NotPlain


def _value(node: Syntax) -> Node:
    if isinstance(node, Name):
        return tree.column(node.parts)
    if isinstance(node, Literal):
        return _literal(node)
    if isinstance(node, Cast) and isinstance(node.arg, Literal) and node.to.name in _TYPES and not node.attempt:
        return tree.cast(_literal(node.arg), node.to.name)
    if isinstance(node, Call) and node.name in _SIGNS:
        left, right = (_value(arg) for arg in node.args)
        return {"op": "arithmetic", "sign": node.name, "left": left, "right": right}
    raise _NotPlain


def _literal(node: Literal) -> Node:
    value, of = node.value, str(node.type)
    if value is None:
        return tree.literal(None, "void")
    if isinstance(value, bool):
        return tree.literal("true" if value else "false", "boolean")
    exact = node.type.name in ("integer", "long", "decimal")
    if isinstance(value, str) and (of == "string" or (exact and tree.exact_type(value) == of)):
        return tree.literal(value, of)
    raise _NotPlain
