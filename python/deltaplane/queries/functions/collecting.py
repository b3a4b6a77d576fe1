"""Aggregate functions that collect a group's values: admitted where the order of the rows makes no
difference to the result."""

from __future__ import annotations

from collections.abc import Callable

from deltaplane.expr.syntax import Call, Cast, Lambda, Syntax
from deltaplane.expr.typed import Context, Typed, mistyped, refuse
from deltaplane.expr.types import STRING, array
from deltaplane.queries.syntax import Aggregate

__all__ = ["COLLECTING", "LISTING", "check_order"]

Lowering = Callable[[Context, str, list[Typed], bool, str], Typed]
_COLLECTING = ("array_agg", "collect_list", "collect_set")
# Functions of WITHIN GROUP that make one text.
LISTING = ("listagg", "string_agg")
# Functions of an array to which the order of its elements makes no difference.
_ORDER_FREE = ("array_contains", "array_max", "array_min", "array_size", "cardinality", "size", "sort_array")


def check_order(node: Syntax) -> None:
    """Refuses collected values whose order would be that of the rows.

    Raises:
        UnsupportedExpressionError: such a value, with a remedy.
    """
    left: list[tuple[Syntax, bool]] = [(node, False)]
    while left:
        part, order_free = left.pop()
        if isinstance(part, Aggregate) and part.name in _COLLECTING and not order_free:
            refuse(f"`{part.name}` in the order of the rows, where `sort_array({part.name}(…))` has one order,")
        if isinstance(part, Cast):
            left.append((part.arg, False))
        elif isinstance(part, Call):
            sorts = part.name == "array_sort" and not isinstance(part.args[-1], Lambda)
            left.extend((arg, sorts or part.name in _ORDER_FREE) for arg in part.args)


def _collected(_: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    if len(args) != 1 or not args[0].type.atomic:
        mistyped(name, args)
    if over:
        refuse(f"`{name}` over a window")
    value, unique = args[0], distinct or name == "collect_set"
    if unique and value.type.fractional:
        refuse(f"different values of {value.type} in `{name}`")
    made = f"list({'DISTINCT ' if unique else ''}{value.sql} ORDER BY {value.sql})"
    to = array(value.type)
    sql = f"coalesce({made} FILTER (WHERE {value.sql} IS NOT NULL), CAST([] AS {to.duck}))"
    return Typed(to, sql, value.throws, value.partial)


def _listed(_: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    """Of the values, the delimiter, and whether the order descends."""
    value, delimiter, descends = args
    if over:
        refuse(f"`{name}` over a window")
    if value.type != STRING or delimiter.type != STRING or delimiter.literal is None:
        refuse(f"`{name}` of {value.type}, or with a delimiter that isn't a constant text")
    way = "DESC" if descends.literal == "true" else "ASC"
    each = f"{'DISTINCT ' if distinct else ''}{value.sql}"
    sql = f"string_agg({each}, {delimiter.sql} ORDER BY {value.sql} {way})"
    return Typed(STRING, sql, value.throws, value.partial)


COLLECTING: dict[str, Lowering] = {**dict.fromkeys(_COLLECTING, _collected), **dict.fromkeys(LISTING, _listed)}
