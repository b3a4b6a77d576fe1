"""Dates and times moved by a literal interval of one unit: months by the calendar, days and shorter ones by their length."""

from __future__ import annotations

from deltaplane.expr.casts import cast
from deltaplane.expr.registry import ENTRIES, admit
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import DATE, INT, TIMESTAMP, TIMESTAMP_NTZ

_FAMILY = "times"
_MONTHS = {"month": 1, "year": 12}
_MICROSECONDS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
# More is nobody's interval; the product with any unit stays in a long.
_MOST = 1_000_000


def _moving(name: str, sign: int) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        value, count, unit = args[0], sign * int(args[1].literal or 0), args[2].literal or ""
        if value.type not in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            mistyped(name, [value])
        if abs(count) > _MOST:
            refuse(f"an interval of {abs(count)} {unit}s")
        if value.type != DATE:
            return _moved_time(context, value, count, unit)
        if unit == "day":
            return ENTRIES["date_add"].lower(context, [value, _whole(count)])
        if unit in _MONTHS:
            return ENTRIES["add_months"].lower(context, [value, _whole(count * _MONTHS[unit])])
        return _moved_time(context, cast(context, value, TIMESTAMP), count, unit)


def _whole(count: int) -> Typed:
    return Typed(INT, f"CAST({count} AS INTEGER)", constant=True)


def _moved_time(context: Context, value: Typed, count: int, unit: str) -> Typed:
    if unit in _MICROSECONDS:
        moved = f"({value.sql} + to_microseconds(CAST({count * _MICROSECONDS[unit]} AS BIGINT)))"
        return made(value.type, moved, value, throws=True, partial=True)
    # The calendar is that of the session's time zone.
    zoned = value.type == TIMESTAMP
    local = context.shifted(value.sql, to_local=True) if zoned else value.sql
    moved = f"({local} + to_months(CAST({count * _MONTHS[unit]} AS INTEGER)))"
    moved = context.shifted(moved, to_local=False) if zoned else moved
    return made(value.type, moved, value, throws=True, partial=True)


_moving("+ interval", 1)
_moving("- interval", -1)
