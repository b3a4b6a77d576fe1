"""IN with a subquery: its position in an expression, which decides between null and false.

By itself in WHERE both mean the same. Anywhere else Spark joins the rows of the subquery, so that
IN and NOT IN are false where SQL's value is null, after NOT has moved to the tests below AND and
OR.
"""

from __future__ import annotations

from dataclasses import replace

from deltaplane.expr.syntax import Call, Cast, Syntax
from deltaplane.queries.scopes import contains
from deltaplane.queries.syntax import Aggregate, Subquery, Window

__all__ = ["MEMBERSHIPS", "placed"]

MEMBERSHIPS = ("in", "not in")
# Calls of which the arguments are evaluated as they are, so that a test in them is false where
# SQL's value is null. Spark moves negations into other calls, and turns some into others.
_KEEPING = ("and", "case", "coalesce", "if", "isnull", "isnotnull", "not", "or")


def placed(node: Syntax) -> Syntax:
    """A tree whose IN tests are marked as `decided` where Spark's value is known; a test without
    the mark can't be computed. NOT is moved below AND and OR that contain such tests."""
    return _placed(node, True) if contains(node, Subquery) else node


def _placed(node: Syntax, keeps: bool) -> Syntax:
    if isinstance(node, Cast):
        return Cast(_placed(node.arg, False), node.to, node.attempt)
    if isinstance(node, Subquery):
        if node.name not in MEMBERSHIPS or node.filters:
            return node
        return replace(node, decided=keeps or node.decided)
    if not isinstance(node, Call) or isinstance(node, (Aggregate, Window)):
        return node
    if node.name == "not" and contains(node.args[0], Subquery):
        return _denied(node.args[0], keeps)
    keeps = keeps and type(node) is Call and node.name in _KEEPING
    return replace(node, args=tuple(_placed(arg, keeps) for arg in node.args))


def _denied(node: Syntax, keeps: bool) -> Syntax:
    """The negation of a tree."""
    if type(node) is Call and node.name in ("and", "or"):
        return Call("or" if node.name == "and" else "and", tuple(_denied(arg, keeps) for arg in node.args))
    if type(node) is Call and node.name == "not":
        return _placed(node.args[0], keeps)
    if isinstance(node, Subquery) and node.name in MEMBERSHIPS and not node.filters:
        return replace(node, name="in" if node.name == "not in" else "not in", decided=keeps)
    return Call("not", (_placed(node, keeps),))
