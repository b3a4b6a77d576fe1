"""The admitted aggregate functions: their translations, with Spark's result types and overflow.

Excludes functions that depend on the order of rows, or whose formula differs from Spark's. `over`
is the window of a window function, as DuckDB text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import boolean
from deltaplane.expr.functions.decimals import operation
from deltaplane.expr.functions.numbers import half_up, rescaled, unscaled
from deltaplane.expr.typed import Context, Typed, bounded, bounds_of, fits, mistyped, narrow_of, refuse, total
from deltaplane.expr.types import BOOLEAN, DOUBLE, LONG, MAX_PRECISION, SparkType, decimal
from deltaplane.queries.functions.choosing import CHOOSING, one_zero
from deltaplane.queries.functions.collecting import COLLECTING
from deltaplane.queries.functions.regression import REGRESSION
from deltaplane.queries.functions.statistics import STATISTICS

__all__ = ["AGGREGATES", "normal"]

Lowering = Callable[[Context, str, list[Typed], bool, str], Typed]
# Number of digits that Spark adds to a decimal's precision for its sum.
_SUM_DIGITS = 10
_AVERAGE_DIGITS = 4


def normal(value: Typed) -> Typed:
    """A value normalised for Spark's grouping: one zero, and one NaN."""
    if not value.type.fractional:
        return value
    return Typed(value.type, one_zero(value), value.throws)


def _single(name: str, args: list[Typed]) -> Typed:
    if len(args) != 1 or not (args[0].type.atomic or args[0].type.name == "void"):
        mistyped(name, args)
    return args[0]


def _count(_: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    if not args or (distinct and not all(a.type.atomic for a in args)):
        mistyped(name, args)
    if not distinct and len(args) == 1:
        return _counted(f"count({args[0].sql}){over}")
    present = " AND ".join(f"({a.sql}) IS NOT NULL" for a in args)
    if not distinct:
        return _counted(f"count(CASE WHEN {present} THEN 1 END){over}")
    value = normal(args[0]).sql if len(args) == 1 else f"row({', '.join(normal(a).sql for a in args)})"
    return _counted(f"count(DISTINCT CASE WHEN {present} THEN {value} END){over}")


def _counted(sql: str) -> Typed:
    """A number of rows."""
    return Typed(LONG, sql, bounds=lambda: total((Fraction(0), Fraction(1))))


def _number(name: str, args: list[Typed]) -> Typed:
    value = _single(name, args)
    if not value.type.numeric:
        mistyped(name, args)
    return value


def _sum_type(data_type: SparkType) -> SparkType:
    if data_type.name == "decimal":
        return decimal(min(data_type.precision + _SUM_DIGITS, MAX_PRECISION), data_type.scale)
    return LONG if data_type.integral else DOUBLE


def _sum(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    value = _number(name, args)
    to = _sum_type(value.type)
    if to == DOUBLE:
        value = cast(context, value, DOUBLE)
        each = f"DISTINCT {normal(value).sql}" if distinct else value.sql
        return Typed(to, f"CAST(sum({each}){over} AS {to.duck})")
    each = f"DISTINCT {value.sql}" if distinct else (narrow_of(value) or value.sql)
    # Ten more digits than each value has hold the sum of any number of rows that a machine reads.
    known = total(bounds_of(value))
    room = to.name == "decimal" and to.precision >= value.type.precision + _SUM_DIGITS
    made = Typed(to, f"CAST(sum({each}){over} AS {to.duck})", throws=not room and not fits(known, to))
    return replace(made, bounds=lambda: known)


def _try_sum(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    """A sum that is null where it is out of range."""
    value = _number(name, args)
    if value.type.name == "decimal" and value.type.precision + _SUM_DIGITS > MAX_PRECISION:
        refuse(f"`{name}` of {value.type}")
    made = _sum(context, name, args, distinct, over)
    return replace(made, sql=f"TRY_{made.sql}", throws=value.throws)


def _try_average(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    value = _number(name, args)
    if value.type.name == "decimal" and value.type.precision + _SUM_DIGITS + _AVERAGE_DIGITS > MAX_PRECISION:
        refuse(f"`{name}` of {value.type}")
    return _average(context, name, args, distinct, over)


def _average(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    value = _number(name, args)
    if value.type.name != "decimal":
        value = cast(context, value, DOUBLE)
        each = f"DISTINCT {normal(value).sql}" if distinct else value.sql
        return Typed(DOUBLE, f"(sum({each}){over} / count({each}){over})")
    precision, scale = value.type.precision, value.type.scale
    each = f"DISTINCT {value.sql}" if distinct else (narrow_of(value) or value.sql)
    if precision + _SUM_DIGITS + _AVERAGE_DIGITS > MAX_PRECISION:
        sum_type = decimal(min(precision + _SUM_DIGITS, MAX_PRECISION), scale)
        whole = Typed(sum_type, f"CAST(sum({each}){over} AS {sum_type.duck})", throws=True)
        count = Typed(decimal(20, 0), f"CAST(nullif(count({each}){over}, 0) AS DECIMAL(20,0))")
        to = decimal(*(min(n + _AVERAGE_DIGITS, MAX_PRECISION) for n in (precision, scale)))
        return Typed(to, operation("/", whole, count, to), throws=True)
    to = decimal(precision + _AVERAGE_DIGITS, scale + _AVERAGE_DIGITS)
    whole = Typed(
        decimal(precision + _SUM_DIGITS, scale),
        f"CAST(sum({each}){over} AS DECIMAL({precision + _SUM_DIGITS},{scale}))",
    )
    # Rounds half up, with integer arithmetic.
    top = f"(abs({unscaled(whole)}) * {10**_AVERAGE_DIGITS})"
    bottom = f"CAST(nullif(count({each}){over}, 0) AS HUGEINT)"
    rounded = half_up(top, bottom, precision + _SUM_DIGITS + _AVERAGE_DIGITS)
    sign = f"CASE WHEN {whole.sql} < 0 THEN -1 ELSE 1 END"
    # An average is no greater than the greatest value, so that it fits.
    made = Typed(to, rescaled(f"({rounded} * {sign})", to), value.throws, value.partial)
    return bounded(made, value)


def _average_of_pairs(index: int) -> Lowering:
    """The average of one of two numbers, over the rows in which neither is null."""

    def lower(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
        if len(args) != 2 or not all(arg.type.numeric for arg in args):
            mistyped(name, args)
        if distinct:
            refuse(f"`{name}` of DISTINCT values")
        both = " AND ".join(f"({arg.sql}) IS NOT NULL" for arg in args)
        value = args[index]
        throws, partial = any(a.throws for a in args), any(a.partial for a in args)
        each = Typed(value.type, f"CASE WHEN {both} THEN {value.sql} END", throws, partial, bounds=value.bounds)
        return _average(context, name, [each], False, over)

    return lower


def _extreme(_: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    # Duplicates don't change an extreme.
    value = _single(name, args)
    return bounded(Typed(value.type, f"{name}({value.sql}){over}"), value)


def _condition(context: Context, name: str, args: list[Typed]) -> Typed:
    return boolean(context, name, _single(name, args))


def _count_if(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    value = _condition(context, name, args)
    which = "DISTINCT " if distinct else ""
    return Typed(LONG, f"count({which}CASE WHEN {value.sql} THEN 1 END){over}")


def _all(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    return Typed(BOOLEAN, f"bool_and({_condition(context, name, args).sql}){over}")


def _any(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    return Typed(BOOLEAN, f"bool_or({_condition(context, name, args).sql}){over}")


AGGREGATES: dict[str, Lowering] = {
    **CHOOSING,
    **COLLECTING,
    **REGRESSION,
    **STATISTICS,
    "avg": _average,
    "bool_and": _all,
    "bool_or": _any,
    "any": _any,
    "count": _count,
    "count_if": _count_if,
    "every": _all,
    "max": _extreme,
    "mean": _average,
    "min": _extreme,
    "regr_avgx": _average_of_pairs(1),
    "regr_avgy": _average_of_pairs(0),
    "some": _any,
    "sum": _sum,
    "try_avg": _try_average,
    "try_sum": _try_sum,
}
