"""Aggregate functions that choose one of a group's values (`max_by`, `min_by`, `mode`), and
`approx_count_distinct`.

Where Spark's answer depends on the order of the rows, the answer here is one of those that Spark
may give, and always the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.typed import Context, Typed, bounded, is_exact, mistyped, refuse, total
from deltaplane.expr.types import LONG

__all__ = ["CHOOSING", "OF_ONE_VALUE", "one_zero"]

Lowering = Callable[[Context, str, list[Typed], bool, str], Typed]
# Functions of a value and a constant.
OF_ONE_VALUE = ("approx_count_distinct", "mode")
# Greatest relative standard deviation for which Spark's sketch has a size.
_GREATEST_DEVIATION = Fraction(39, 100)


def one_zero(value: Typed) -> str:
    """The text of a value in the form for comparisons, in which both zeros are equal."""
    if not value.type.fractional:
        return value.sql
    return f"CASE WHEN {value.sql} = 0 THEN CAST(0 AS {value.type.duck}) ELSE {value.sql} END"


def _extreme_by(duck: str) -> Lowering:
    """The value of the row with the extreme key, which isn't null. Of several such rows the one
    with the same extreme of the value, and null only if no row has another value."""

    def lower(_: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
        if len(args) != 2 or not args[1].type.atomic or args[0].type.name == "void":
            mistyped(name, args)
        value, key = args
        if value.type.name == "map":
            refuse(f"`{name}` of a map")
        last = "IS NOT NULL" if duck == "arg_max_null" else "IS NULL"
        rows = f"row({one_zero(key)}, ({value.sql}) {last}, {one_zero(value)})"
        sql = f"{duck}({value.sql}, CASE WHEN ({key.sql}) IS NOT NULL THEN {rows} END){over}"
        throws, partial = any(a.throws for a in args), any(a.partial for a in args)
        made = Typed(value.type, sql, throws, partial)
        return bounded(made, value) if is_exact(value.type) else made

    return lower


def _mode(_: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    """The most frequent value, and the least of several ones."""
    if len(args) not in (1, 2) or not args[0].type.atomic:
        mistyped(name, args)
    if len(args) == 2 and args[1].literal not in ("true", "false"):
        refuse(f"`{name}` with a second argument that isn't true or false")
    if distinct or over:
        refuse(f"`{name}` {'of DISTINCT values' if distinct else 'over a window'}")
    value = args[0]
    if value.type.fractional:
        refuse(f"`{name}` of {value.type}, whose zeros it counts apart,")
    entries = f"map_entries(histogram({value.sql}))"
    ranked = f"list_transform({entries}, lambda e: {{'n': -CAST(e.value AS BIGINT), 'value': e.key}})"
    return Typed(value.type, f"list_min({ranked}).value", value.throws, value.partial)


def _distinct_number(_: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    """The exact number of different values."""
    if len(args) not in (1, 2) or not args[0].type.atomic:
        mistyped(name, args)
    if len(args) == 2:
        deviation = args[1]
        if deviation.literal is None or not (deviation.type.numeric):
            refuse(f"`{name}` with a deviation that isn't a constant")
        if not 0 < Fraction(deviation.literal) <= _GREATEST_DEVIATION:
            raise InvalidArgumentError(
                f"`{name}` takes a deviation above 0 and up to {float(_GREATEST_DEVIATION)}, not {deviation.literal}"
            )
    value = args[0]
    return Typed(
        LONG,
        f"count(DISTINCT {one_zero(value)}){over}",
        value.throws,
        value.partial,
        bounds=lambda: total((Fraction(0), Fraction(1))),
    )


CHOOSING: dict[str, Lowering] = {
    "approx_count_distinct": _distinct_number,
    "max_by": _extreme_by("arg_max_null"),
    "min_by": _extreme_by("arg_min_null"),
    "mode": _mode,
}
