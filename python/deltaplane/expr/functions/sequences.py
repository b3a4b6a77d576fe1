"""`sequence`: an array of whole numbers or days from a first to a last one."""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import unified
from deltaplane.expr.registry import admit
from deltaplane.expr.typed import Context, Typed, failing, made, mistyped
from deltaplane.expr.types import DATE, LONG, array

# Maximum number of elements of an array that is computed.
_MOST = 10_000_000


@admit("collections", "sequence")
def _sequence(context: Context, args: list[Typed]) -> Typed:
    if len(args) in (2, 3) and all(arg.type.integral for arg in args):
        values = unified(context, "sequence", args)
        start, stop, *step = (cast(context, value, LONG).sql for value in values)
        to = array(values[0].type)
        numbers = _numbers(start, stop, *step)
        return made(to, f"CAST({numbers} AS {to.duck})", *values, throws=bool(step), partial=True)
    if len(args) == 2 and all(arg.type == DATE for arg in args):
        start, stop = (f"CAST({arg.sql} - DATE '1970-01-01' AS BIGINT)" for arg in args)
        days = f"list_transform({_numbers(start, stop)}, lambda d: DATE '1970-01-01' + CAST(d AS INTEGER))"
        return made(array(DATE), days, *args, partial=True)
    mistyped("sequence", args)


def _numbers(start: str, stop: str, step: str = "") -> str:
    """The whole numbers from one to another, by steps of one towards it or by a given step."""
    by = step or f"CASE WHEN {start} <= {stop} THEN 1 ELSE -1 END"
    nulls = " OR ".join(f"{value} IS NULL" for value in (start, stop, step) if value)
    wrong = (
        f"WHEN {step} = 0 AND {start} <> {stop} OR {step} > 0 AND {start} > {stop} OR {step} < 0 AND {start} < {stop}"
    )
    error = failing("INVALID_PARAMETER_VALUE", "a sequence whose step leads away from its last value", LONG)
    size = f"abs(CAST({stop} AS HUGEINT) - {start}) // greatest(abs(CAST({by} AS HUGEINT)), 1)"
    large = failing("UNSUPPORTED_VALUE", f"a sequence of more than {_MOST} elements", LONG)
    return (
        f"CASE WHEN {nulls} THEN NULL {f'{wrong} THEN [{error}] ' if step else ''}"
        f"WHEN {start} = {stop} THEN [{start}] WHEN {size} > {_MOST} THEN [{large}] "
        f"ELSE generate_series({start}, {stop}, {by}) END"
    )
