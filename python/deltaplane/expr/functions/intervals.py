"""Intervals of months or of microseconds: added to dates and times, differences of two, sums and
multiples.

Months follow the calendar and are cut at a month's last day; days and shorter units have a fixed
length.
"""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import common, takes
from deltaplane.expr.registry import ENTRIES, admit
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import DATE, INT, LONG, TIMESTAMP, TIMESTAMP_NTZ, VOID, decimal, interval

__all__ = ["product", "sum_of"]

_FAMILY = "intervals"
_DAY = 86_400_000_000
_TIMES = (TIMESTAMP, TIMESTAMP_NTZ)
_DAYS, _MOMENTS = interval(False, 0, 0), interval(False, 0, 3)
_MONTHS = interval(True, 0, 1)


def sum_of(context: Context, sign: str, a: Typed, b: Typed) -> Typed | None:
    """`a + b` or `a - b` with dates, times or intervals; None for other types."""
    if a.type.interval and b.type.interval:
        return _added(context, sign, a, b)
    if sign == "+" and a.type.interval:
        a, b = b, a
    if b.type.interval:
        return _moved(context, sign, a, b)
    if sign == "+" and b.type == DATE:
        a, b = b, a
    if a.type == DATE and b.type.name in ("byte", "short", "integer"):
        return ENTRIES["date_add" if sign == "+" else "date_sub"].lower(context, [a, b])
    if sign == "-" and a.type in (DATE, *_TIMES) and b.type in (DATE, *_TIMES):
        return _between(context, a, b)
    if a.type in (DATE, *_TIMES) or b.type in (DATE, *_TIMES):
        refuse(f"`{sign}` on {a.type} and {b.type}")
    return None


def _added(context: Context, sign: str, a: Typed, b: Typed) -> Typed:
    to = common(a.type, b.type)
    if to is None:
        mistyped(sign, [a, b])
    return made(to, f"({a.sql} {sign} {b.sql})", a, b, throws=True)


def product(context: Context, a: Typed, b: Typed) -> Typed:
    """An interval times a whole number."""
    if b.type.interval:
        a, b = b, a
    if not b.type.integral:
        refuse(f"`*` on {a.type} and {b.type}")
    to = _MONTHS if a.type.name == "ym_interval" else _MOMENTS
    return made(to, f"CAST((CAST({a.sql} AS BIGINT) * CAST({b.sql} AS BIGINT)) AS {to.duck})", a, b, throws=True)


def _moved(context: Context, sign: str, value: Typed, by: Typed) -> Typed:
    if value.type not in (DATE, *_TIMES):
        refuse(f"`{sign}` on {value.type} and {by.type}")
    count = by if sign == "+" else ENTRIES["negative"].lower(context, [by])
    if by.type.name == "ym_interval":
        if value.type == DATE:
            return ENTRIES["add_months"].lower(
                context, [value, Typed(INT, count.sql, count.throws, constant=count.constant)]
            )
        return _by_calendar(context, value, f"to_months({count.sql})", count)
    if value.type == DATE and by.type == _DAYS:
        days = Typed(INT, f"CAST({count.sql} // {_DAY} AS INTEGER)", True, constant=count.constant)
        return ENTRIES["date_add"].lower(context, [value, days])
    moment = cast(context, value, TIMESTAMP) if value.type == DATE else value
    by_clock = by.literal is not None and abs(int(by.literal)) < _DAY
    if moment.type == TIMESTAMP and not by_clock:
        # Whole days are those of the session's zone; at a fixed distance from UTC they have one
        # length.
        context.shifted(moment.sql, to_local=True)
    return made(moment.type, f"({moment.sql} + to_microseconds({count.sql}))", moment, count, throws=True, partial=True)


def _by_calendar(context: Context, value: Typed, step: str, *args: Typed) -> Typed:
    """A time moved by the calendar in the session's time zone."""
    zoned = value.type == TIMESTAMP
    local = context.shifted(value.sql, to_local=True) if zoned else value.sql
    moved = f"({local} + {step})"
    moved = context.shifted(moved, to_local=False) if zoned else moved
    return made(value.type, moved, value, *args, throws=True, partial=True)


def _between(context: Context, a: Typed, b: Typed) -> Typed:
    context.intervals = True
    if a.type == b.type == DATE:
        return made(_DAYS, f"(CAST(({a.sql} - {b.sql}) AS BIGINT) * {_DAY})", a, b)
    a, b = (cast(context, x, TIMESTAMP) if x.type == DATE else x for x in (a, b))
    a, b = (cast(context, x, TIMESTAMP_NTZ) for x in (a, b))
    return made(_MOMENTS, f"(epoch_us({a.sql}) - epoch_us({b.sql}))", a, b)


@admit(_FAMILY, "make_ym_interval")
def _make_months(context: Context, args: list[Typed]) -> Typed:
    if len(args) > 2 or not all(takes(INT, a.type) for a in args):
        mistyped("make_ym_interval", args)
    counts = [cast(context, a, INT) for a in args]
    terms = [f"CAST({c.sql} AS HUGEINT) * {size}" for c, size in zip(counts, (12, 1), strict=False)]
    return made(_MONTHS, f"CAST(({' + '.join(terms) or '0'}) AS INTEGER)", *counts, throws=True)


@admit(_FAMILY, "make_dt_interval")
def _make_moments(context: Context, args: list[Typed]) -> Typed:
    parts = (INT, INT, INT, decimal(18, 6))
    if len(args) > 4 or not all(
        takes(p, a.type) or a.type.name == "decimal" for p, a in zip(parts, args, strict=False)
    ):
        mistyped("make_dt_interval", args)
    counts = [cast(context, a, to) for a, to in zip(args, parts, strict=False)]
    sizes = (_DAY, 3_600_000_000, 60_000_000)
    terms = [f"CAST({c.sql} AS HUGEINT) * {size}" for c, size in zip(counts, sizes, strict=False)]
    terms += [f"CAST({c.sql} * CAST(1000000 AS DECIMAL(7,0)) AS HUGEINT)" for c in counts[3:]]
    return made(_MOMENTS, f"CAST(({' + '.join(terms) or '0'}) AS BIGINT)", *counts, throws=True)


_STEPS = {
    **{u: ("months", n) for u, n in (("month", 1), ("quarter", 3), ("year", 12))},
    **{u: ("days", n) for u, n in (("day", 1), ("dayofyear", 1), ("week", 7))},
    **{u: ("us", n) for u, n in (("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))},
    "millisecond": ("us", 1000),
    "microsecond": ("us", 1),
}


def _moment(context: Context, name: str, value: Typed) -> Typed:
    if not takes(TIMESTAMP, value.type):
        mistyped(name, [value])
    return value if value.type == TIMESTAMP_NTZ else cast(context, value, TIMESTAMP)


def _unit(args: list[Typed]) -> str:
    """The unit that is the first argument, in lower case."""
    return (args[0].literal or "").lower() if args else ""


@admit(_FAMILY, "timestampadd")
def _add(context: Context, args: list[Typed]) -> Typed:
    unit = _unit(args)
    if len(args) != 3 or unit not in _STEPS or args[1].type.name not in ("byte", "short", "integer", "long"):
        mistyped("timestampadd", args)
    kind, size = _STEPS[unit]
    count, moment = cast(context, args[1], LONG), _moment(context, "timestampadd", args[2])
    steps = f"(CAST({count.sql} AS HUGEINT) * {size})"
    if kind == "us":
        moved = f"({moment.sql} + to_microseconds(CAST({steps} AS BIGINT)))"
        return made(moment.type, moved, moment, count, throws=True, partial=True)
    return _by_calendar(context, moment, f"to_{kind}(CAST({steps} AS INTEGER))", moment, count)


@admit(_FAMILY, "timestampdiff")
def _difference(context: Context, args: list[Typed]) -> Typed:
    unit = _unit(args)
    if unit == "dayofyear":
        refuse("the unit DAYOFYEAR in `timestampdiff`")
    if len(args) != 3 or unit not in _STEPS or VOID in (args[1].type, args[2].type):
        mistyped("timestampdiff", args)
    kind, size = _STEPS[unit]
    first, last = (cast(context, _moment(context, "timestampdiff", a), TIMESTAMP_NTZ) for a in args[1:])
    if kind != "months":
        length = _DAY * size if kind == "days" else size
        return made(LONG, f"((epoch_us({last.sql}) - epoch_us({first.sql})) // {length})", first, last)
    # Whole months: the last one counts if its day and time of day are reached.
    clock = [f"(epoch_us({x.sql}) - epoch_us(date_trunc('day', {x.sql})))" for x in (first, last)]
    late = (
        f"CASE WHEN {last.sql} > {first.sql} AND {clock[1]} < {clock[0]} THEN -1 "
        f"WHEN {last.sql} < {first.sql} AND {clock[1]} > {clock[0]} THEN 1 ELSE 0 END"
    )
    a, b = _packed(f"CAST({first.sql} AS DATE)"), _packed(f"(CAST({last.sql} AS DATE) + {late})")
    return made(LONG, f"CAST((({b} - {a}) // 32) // {size} AS BIGINT)", first, last)


def _packed(day: str) -> str:
    return f"((year({day}) * 12 + month({day})) * 32 + day({day}))"
