"""Frames of windows by RANGE with a distance: the key and the frame's bounds as DuckDB text.

Dates and times are compared as whole days and microseconds, in which a distance of days or shorter
units is a number; months follow the calendar.
"""

from __future__ import annotations

from decimal import Decimal

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.typed import Typed, refuse
from deltaplane.expr.types import SparkType
from deltaplane.queries.functions.choosing import one_zero
from deltaplane.queries.syntax import Distance, Frame

__all__ = ["ranged"]

_DAY = 86_400_000_000
_TIMES = ("timestamp", "timestamp_ntz")
_WHOLE_NUMBERS = ("byte", "short", "integer")
# How DuckDB adds a distance: to a number of the key's type, or months to a time.
_MONTHS = "months"


def ranged(key: Typed, frame: Frame) -> tuple[str, tuple[str, str]]:
    """The key of the order in the form for distances, and the frame's two bounds.

    Raises:
        InvalidArgumentError: Spark takes no such distance for a key of this type.
        UnsupportedExpressionError: deltaplane doesn't compute such a frame with Spark's result.
    """
    intervals = {b.type for b in (frame.start, frame.end) if isinstance(b, Distance) and b.type.interval}
    if len(intervals) > 1:
        shown = " and ".join(sorted(map(str, intervals)))
        raise InvalidArgumentError(f"a frame by RANGE needs distances of one type, not {shown}: use the same units")
    bounds = [_offset(key.type, bound) for bound in (frame.start, frame.end)]
    units = {unit for _, unit in bounds if unit}
    if len(units) > 1:
        refuse("a frame by RANGE with a distance of months and another one")
    (unit,) = units or {key.type.duck}
    start, end = (number for number, _ in bounds)
    if start is not None and end is not None and start > end:
        raise InvalidArgumentError("a frame's end is behind its beginning")
    texts = _bound(start, "PRECEDING", unit), _bound(end, "FOLLOWING", unit)
    return _key(key, unit), texts


def _offset(key: SparkType, bound: int | Distance | None) -> tuple[Decimal | None, str]:
    """A bound as a number, and its unit; no unit for a bound without distance."""
    if bound is None or bound == 0:
        return (None if bound is None else Decimal(0)), ""
    distance = bound if isinstance(bound, Distance) else None
    number = distance.number if distance is not None else Decimal(str(bound))
    name = distance.type.name if distance is not None else "integer"
    if key.numeric and name not in ("ym_interval", "dt_interval"):
        if key.integral and number != number.to_integral_value():
            refuse(f"a frame by RANGE over {key} with a fraction as distance")
        return number, key.duck
    if key.name in ("date", *_TIMES) and name == "ym_interval":
        return number, _MONTHS
    if key.name in _TIMES and name == "dt_interval":
        return number, "BIGINT"
    if key.name == "date" and name in _WHOLE_NUMBERS:
        return number, "BIGINT"
    if key.name == "date" and name == "dt_interval" and distance is not None and distance.type.scale == 0:
        return number / _DAY, "BIGINT"
    shown = distance.type if distance is not None else "int"
    raise InvalidArgumentError(f"a frame by RANGE over {key} takes no distance of type {shown}")


def _key(key: Typed, unit: str) -> str:
    if key.type.name == "date":
        return f"CAST({key.sql} AS TIMESTAMP)" if unit == _MONTHS else f"({key.sql} - DATE '1970-01-01')"
    if key.type.name in _TIMES:
        return key.sql if unit == _MONTHS else f"epoch_us({key.sql})"
    return one_zero(key)


def _bound(offset: Decimal | None, unbounded: str, unit: str) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    if offset == 0:
        return "CURRENT ROW"
    # A distance in the key's own type may overflow when it is added to a value, as in Spark.
    number = f"'{abs(offset)}'" if unit in ("DOUBLE", "FLOAT") else f"{abs(offset):f}"
    distance = f"to_months(CAST({number} AS INTEGER))" if unit == _MONTHS else f"CAST({number} AS {unit})"
    return f"{distance} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"
