"""Statistical aggregate functions: variances, covariances, percentiles and bits of many rows.

Variances are computed by the same method in both engines, but the last digits of a floating-point
result depend on the order of the rows, as those of a sum do.
"""

from __future__ import annotations

from collections.abc import Callable

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.casts import cast
from deltaplane.expr.duckdb_values import constant_numbers
from deltaplane.expr.typed import Context, Typed, failing, guarded, mistyped, refuse
from deltaplane.expr.types import DOUBLE, SparkType, array

__all__ = ["APPROXIMATE", "PERCENTILES", "STATISTICS"]

Lowering = Callable[[Context, str, list[Typed], bool, str], Typed]
# Functions of a value and a constant share; WITHIN GROUP gives the value of some of them.
PERCENTILES = ("median", "percentile", "percentile_cont", "percentile_disc")
# Functions of a value, a constant share, and a constant accuracy.
APPROXIMATE = ("approx_percentile", "percentile_approx")
_MOMENTS = ("date", "timestamp", "timestamp_ntz")
# Squares of greater numbers overflow, for which DuckDB has an error and Spark infinity or NaN.
_LARGE = "1e150"
_NAN = "CAST('nan' AS DOUBLE)"


def _double(context: Context, name: str, args: list[Typed], value: Typed) -> Typed:
    if not (value.type.numeric or value.type.name == "void"):
        mistyped(name, args)
    return cast(context, value, DOUBLE)


def _finite(data_types: list[SparkType], values: list[Typed], sql: str, over: str, least: int) -> Typed:
    """An aggregate of doubles, which has a value for groups of at least `least` rows, with Spark's
    NaN where one of the doubles isn't finite."""
    throws, partial = any(v.throws for v in values), any(v.partial for v in values)
    if not any(t.fractional for t in data_types):
        return Typed(DOUBLE, sql, throws, partial)
    present = " AND ".join(f"({v.sql}) IS NOT NULL" for v in values)
    strange = " OR ".join(f"NOT isfinite({v.sql})" for v in values)
    large = " OR ".join(f"abs({v.sql}) >= CAST({_LARGE} AS DOUBLE)" for v in values)
    few = f"count(CASE WHEN {present} THEN 1 END){over} < {least}"
    error = failing("UNSUPPORTED_VALUE", "a number whose square overflows", DOUBLE)
    made = (
        f"CASE WHEN {few} THEN NULL WHEN bool_or({present} AND ({strange})){over} THEN {_NAN} "
        f"WHEN bool_or({present} AND ({large})){over} THEN {error} ELSE {sql} END"
    )
    return Typed(DOUBLE, made, throws, partial=True)


def _bounded(value: Typed, data_type: SparkType) -> str:
    """The value, without those that DuckDB's functions refuse: `_finite` has the results for
    them."""
    if not data_type.fractional:
        return value.sql
    return f"CASE WHEN isfinite({value.sql}) AND abs({value.sql}) < CAST({_LARGE} AS DOUBLE) THEN {value.sql} END"


def _variance(duck: str, least: int) -> Lowering:
    def lower(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
        if len(args) != 1:
            mistyped(name, args)
        value = _double(context, name, args, args[0])
        each = _bounded(value, args[0].type)
        sql = f"{duck}({'DISTINCT ' if distinct else ''}{each}){over}"
        return _finite([args[0].type], [value], sql, over, least)

    return lower


def _covariance(duck: str, least: int) -> Lowering:
    def lower(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
        if len(args) != 2:
            mistyped(name, args)
        if distinct:
            refuse(f"`{name}` of DISTINCT values")
        types = [a.type for a in args]
        a, b = (_double(context, name, args, arg) for arg in args)
        sql = f"{duck}({_bounded(a, types[0])}, {_bounded(b, types[1])}){over}"
        if duck == "corr":
            sql = _correlation(a, b, sql, over)
        made = _finite(types, [a, b], sql, over, least)
        return Typed(DOUBLE, made.sql, made.throws or duck == "corr", made.partial)

    return lower


def _correlation(a: Typed, b: Typed, sql: str, over: str) -> str:
    """A correlation with Spark's null for one row, and its error for equal values."""
    both = f"({a.sql}) IS NOT NULL AND ({b.sql}) IS NOT NULL"
    constant = []
    for value in (a, b):
        each = f"CASE WHEN {both} THEN {value.sql} END"
        constant.append(f"min({each}){over} = max({each}){over}")
    several = f"CASE WHEN {both} THEN 1 END"
    checked = guarded(" OR ".join(constant), "DIVIDE_BY_ZERO", "division by zero", sql, DOUBLE)
    return f"CASE WHEN count({several}){over} > 1 THEN {checked} END"


def _percentile(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    if over:
        refuse(f"`{name}` over a window")
    if name == "median" and len(args) == 1:
        args = [args[0], Typed(DOUBLE, "CAST(0.5 AS DOUBLE)", literal="0.5", constant=True)]
    if not 2 <= len(args) <= 3:
        mistyped(name, args)
    if len(args) == 3 and args[2].type.name != "boolean":
        refuse(f"`{name}` with frequencies")
    shares = _shares(name, args[1])
    value = _double(context, name, args, args[0])
    way = "DESC" if len(args) == 3 else "ASC"
    each = f"DISTINCT {value.sql}" if distinct else value.sql
    rows = f"list({each} ORDER BY {value.sql} {way}) FILTER (WHERE {value.sql} IS NOT NULL)"
    pick = _element if name == "percentile_disc" else _between
    return _picked(rows, DOUBLE, args[1], [pick(share) for share in shares], value)


def _shares(name: str, arg: Typed) -> list[float]:
    """The constant share, or the constant shares of an array."""
    of_many = arg.type.name == "array" and arg.type.parts[0].numeric
    if not arg.constant or not (arg.type.numeric or of_many):
        refuse(f"`{name}` with a share that isn't a number")
    shares = constant_numbers(arg.sql if of_many else f"[{arg.sql}]")
    for share in shares:
        if share is None or not 0 <= share <= 1:
            raise InvalidArgumentError(f"`{name}` takes a share from 0 to 1, not {'NULL' if share is None else share}")
    return [share for share in shares if share is not None]


def _element(share: float) -> str:
    """The first value at which at least this share of the sorted list `l` has passed."""
    return f"l[greatest(CAST(ceil(CAST({share!r} AS DOUBLE) * len(l)) AS BIGINT), 1)]"


def _between(share: float) -> str:
    """The value of the sorted list `l` at this share of the way, maybe between two elements."""
    position = f"((len(l) - 1) * CAST({share!r} AS DOUBLE))"
    low, high = (f"l[CAST({f}({position}) AS BIGINT) + 1]" for f in ("floor", "ceil"))
    between = f"(ceil({position}) - {position}) * {low} + ({position} - floor({position})) * {high}"
    return f"CASE WHEN {low} = {high} THEN {low} ELSE {between} END"


def _picked(rows: str, element: SparkType, shares: Typed, texts: list[str], value: Typed) -> Typed:
    """What the texts pick from the sorted list of a group's values: one, or an array if the shares
    are one; null for a group without values."""
    if shares.type.name != "array":
        sql = f"list_transform([{rows}], lambda l: {texts[0]})[1]"
        return Typed(element, sql, value.throws, value.partial)
    listed = f"CASE WHEN l IS NOT NULL THEN [{', '.join(texts)}] END"
    return Typed(array(element), f"list_transform([{rows}], lambda l: {listed})[1]", value.throws, value.partial)


def _approximate(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    """Spark's approximation is the exact element for groups of up to some thousand rows."""
    if over:
        refuse(f"`{name}` over a window")
    if not 2 <= len(args) <= 3 or not (args[0].type.numeric or args[0].type.name in _MOMENTS):
        mistyped(name, args)
    shares = _shares(name, args[1])
    accuracy = 10_000
    if len(args) == 3:
        if args[2].literal is None or not args[2].type.integral or int(args[2].literal) < 1:
            refuse(f"`{name}` with an accuracy that isn't a positive constant")
        accuracy = int(args[2].literal)
    value = args[0]
    each = f"DISTINCT {value.sql}" if distinct else value.sql
    rows = f"list({each} ORDER BY {value.sql}) FILTER (WHERE {value.sql} IS NOT NULL)"
    texts = []
    for share in shares:
        at_end = "1" if share <= 1 / accuracy else "len(l)" if share >= 1 - 1 / accuracy else ""
        texts.append(f"l[{at_end}]" if at_end else _element(share))
    return _picked(rows, value.type, args[1], texts, value)


def _bits(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
    if len(args) != 1 or not args[0].type.integral:
        mistyped(name, args)
    value, which = args[0], "DISTINCT " if distinct and name == "bit_xor" else ""
    return Typed(value.type, f"{name}({which}{value.sql}){over}", value.throws, value.partial)


STATISTICS: dict[str, Lowering] = {
    **{name: _variance("stddev_samp", 2) for name in ("std", "stddev", "stddev_samp")},
    **{name: _variance("var_samp", 2) for name in ("var_samp", "variance")},
    "stddev_pop": _variance("stddev_pop", 1),
    "var_pop": _variance("var_pop", 1),
    "covar_pop": _covariance("covar_pop", 1),
    "covar_samp": _covariance("covar_samp", 2),
    "corr": _covariance("corr", 2),
    **dict.fromkeys(PERCENTILES, _percentile),
    **dict.fromkeys(APPROXIMATE, _approximate),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), _bits),
}
