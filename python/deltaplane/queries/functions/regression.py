"""Aggregate functions of a linear regression: `regr_count`, `regr_slope` and others, over the pairs
of which neither value is null.

Sums of squares are computed by the method of both engines, so that only the last digits depend on
the order of the rows.
"""

from __future__ import annotations

from collections.abc import Callable

from deltaplane.expr.casts import cast
from deltaplane.expr.typed import Context, Typed, failing, mistyped, refuse
from deltaplane.expr.types import DOUBLE, LONG

__all__ = ["REGRESSION"]

Lowering = Callable[[Context, str, list[Typed], bool, str], Typed]
# Squares of greater numbers overflow, for which DuckDB has an error and Spark infinity or NaN.
_LARGE = "1e150"
_NAN = "CAST('nan' AS DOUBLE)"


class _Pairs:
    """Text over the pairs (y, x) of doubles without nulls. `y` and `x` are null in other rows."""

    def __init__(self, context: Context, args: list[Typed], over: str) -> None:
        values = [cast(context, arg, DOUBLE).sql for arg in args]
        self.both = " AND ".join(f"({value}) IS NOT NULL" for value in values)
        self.y, self.x = (f"CASE WHEN {self.both} THEN {value} END" for value in values)
        self.over = over

    def of_finite(self, value: str) -> str:
        """A value that DuckDB's functions take."""
        return f"CASE WHEN isfinite({value}) AND abs({value}) < CAST({_LARGE} AS DOUBLE) THEN {value} END"

    def is_constant(self, value: str) -> str:
        """Whether the sum of squares of a value is zero: all are finite and equal."""
        return f"(min({value}){self.over} = max({value}){self.over} AND bool_and(isfinite({value})){self.over})"

    def call(self, duck: str, *values: str) -> str:
        """A function of DuckDB over finite values."""
        return f"{duck}({', '.join(map(self.of_finite, values))}){self.over}"

    def slope(self) -> str:
        """The slope of the line, if the values of x differ."""
        return f"({self.call('covar_pop', self.y, self.x)} / {self.call('var_pop', self.x)})"

    def count(self) -> str:
        """The number of pairs."""
        return f"count(CASE WHEN {self.both} THEN 1 END){self.over}"

    def checked(self, sql: str, *values: str) -> str:
        """A result, which is NaN if a value isn't finite, and refused if a square overflows."""
        strange = " OR ".join(f"bool_or(NOT isfinite({v})){self.over}" for v in values)
        large = " OR ".join(f"bool_or(abs({v}) >= CAST({_LARGE} AS DOUBLE)){self.over}" for v in values)
        error = failing("UNSUPPORTED_VALUE", "a number whose square overflows", DOUBLE)
        return f"CASE WHEN {strange} THEN {_NAN} WHEN {large} THEN {error} ELSE {sql} END"


def _slope(pairs: _Pairs) -> str:
    return f"CASE WHEN NOT {pairs.is_constant(pairs.x)} THEN {pairs.checked(pairs.slope(), pairs.y, pairs.x)} END"


def _intercept(pairs: _Pairs) -> str:
    means = [f"(sum({v}){pairs.over} / {pairs.count()})" for v in (pairs.y, pairs.x)]
    intercept = f"({means[0]} - {pairs.slope()} * {means[1]})"
    return f"CASE WHEN NOT {pairs.is_constant(pairs.x)} THEN {pairs.checked(intercept, pairs.y, pairs.x)} END"


def _determination(pairs: _Pairs) -> str:
    correlation = pairs.call("corr", pairs.y, pairs.x)
    squared = pairs.checked(f"({correlation} * {correlation})", pairs.y, pairs.x)
    return (
        f"CASE WHEN NOT {pairs.is_constant(pairs.x)} THEN CASE WHEN {pairs.is_constant(pairs.y)} "
        f"THEN CAST(1 AS DOUBLE) ELSE {squared} END END"
    )


def _squares(pairs: _Pairs, value: str) -> str:
    squares = f"({pairs.call('var_pop', value)} * {pairs.count()})"
    return f"CASE WHEN {pairs.count()} > 0 THEN {pairs.checked(squares, value)} END"


def _products(pairs: _Pairs) -> str:
    products = f"({pairs.call('covar_pop', pairs.y, pairs.x)} * {pairs.count()})"
    return f"CASE WHEN {pairs.count()} > 0 THEN {pairs.checked(products, pairs.y, pairs.x)} END"


def _regression(formula: Callable[[_Pairs], str], *, is_count: bool = False) -> Lowering:
    def lower(context: Context, name: str, args: list[Typed], distinct: bool, over: str = "") -> Typed:
        if len(args) != 2 or not all(arg.type.numeric for arg in args):
            mistyped(name, args)
        if distinct:
            refuse(f"`{name}` of DISTINCT values")
        pairs = _Pairs(context, args, over)
        throws, partial = any(a.throws for a in args), any(a.partial for a in args)
        overflows = not is_count and any(arg.type.fractional for arg in args)
        return Typed(LONG if is_count else DOUBLE, formula(pairs), throws, partial or overflows)

    return lower


REGRESSION: dict[str, Lowering] = {
    "regr_count": _regression(_Pairs.count, is_count=True),
    "regr_intercept": _regression(_intercept),
    "regr_r2": _regression(_determination),
    "regr_slope": _regression(_slope),
    "regr_sxx": _regression(lambda pairs: _squares(pairs, pairs.x)),
    "regr_sxy": _regression(_products),
    "regr_syy": _regression(lambda pairs: _squares(pairs, pairs.y)),
}
