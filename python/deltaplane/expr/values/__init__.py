"""Scalars of Python, NumPy, pandas and Arrow as literals of predicates, with all of their digits.

Defines how a time becomes text: it is never converted through Python's datetime if that would
truncate it. Imports no library.
"""

from __future__ import annotations

import datetime
import sys
from typing import Any

__all__ = ["Moment", "has_nanoseconds", "is_missing", "plain_value", "text_literal"]

_DAY_US = 86_400_000_000
_MICROSECOND = datetime.timedelta(microseconds=1)
# Ticks of a second.
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}
_SECONDS = {"m": 60, "h": 3600}
_DATES = ("D", "W", "M", "Y")
_DAYS_OF_400_YEARS = 146_097


class Moment:
    """A date or a timestamp as text: `type` is `date`, `timestamp` (an instant, in UTC) or
    `timestamp_ntz`."""

    def __init__(self, text: str, type: str) -> None:
        self.text = text
        self.type = type


def is_missing(value: Any) -> bool:
    """Whether it is a missing value of pandas or NumPy: NaT, or pandas' NA.

    >>> is_missing(None), is_missing(float("nan"))
    (False, False)
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and (value is pandas.NaT or value is pandas.NA):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.datetime64, numpy.timedelta64)) and bool(numpy.isnat(value))


def text_literal(value: str) -> str:
    """A text as a literal of Spark SQL.

    >>> print(text_literal("it's"))
    'it\\'s'
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def has_nanoseconds(value: Any) -> bool:
    """Whether it has pandas timestamps with digits below the microsecond, which Arrow's conversions
    truncate."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(has_nanoseconds, value))
    if isinstance(value, dict):
        return any(has_nanoseconds(part) for pair in value.items() for part in pair)
    # For pandas' NaT the attribute is NaN, and comparisons with NaN are false.
    return isinstance(value, datetime.datetime) and getattr(value, "nanosecond", 0) > 0


def plain_value(value: Any) -> Any:
    """A library's scalar as Python's own or as a `Moment`; any other value unchanged.

    >>> moment = plain_value(datetime.datetime(2024, 1, 1))
    >>> moment.text, moment.type
    ('2024-01-01 00:00:00.000000', 'timestamp_ntz')
    """
    if type(value) in (str, bool, int, float, bytes, type(None)):
        return value
    if _is(value, "numpy", "ndarray") and value.ndim == 0:
        value = value[()]
    if _is(value, "numpy", "datetime64"):
        return _of_numpy(value)
    if _is(value, "pyarrow", "Scalar"):
        return _of_arrow(value)
    if isinstance(value, datetime.datetime):
        return _of_datetime(value)
    if isinstance(value, datetime.date):
        return Moment(value.isoformat(), "date")
    if _is(value, "numpy", "generic"):
        number = value.item()
        return number if _is(number, "numpy", "generic") else plain_value(number)
    return value


def _is(value: Any, module: str, name: str) -> bool:
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(value, cls)


def _of_datetime(value: datetime.datetime) -> Moment:
    aware = value.tzinfo is not None
    if aware:
        try:
            value = value.astimezone(datetime.timezone.utc)
        except OverflowError:
            # In UTC it is in a year outside of Python's datetime.
            since = value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1) - (value.utcoffset() or _MICROSECOND * 0)
            return Moment(_moment(since // _MICROSECOND, 10**6), "timestamp")
    text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    # pandas' own timestamps have more digits, which this text lacks.
    below = getattr(value, "nanosecond", 0)
    text = f"{text}{below:03}" if below else text
    return Moment(text, "timestamp" if aware else "timestamp_ntz")


def _of_numpy(value: Any) -> Any:
    import numpy

    unit, count = numpy.datetime_data(value.dtype)
    if numpy.isnat(value):
        return value
    if unit in _DATES:
        return Moment(_date(int(value.astype("datetime64[D]").astype("int64"))), "date")
    ticks = int(value.astype("int64")) * count
    if unit in _SECONDS:
        return Moment(_moment(ticks * _SECONDS[unit], 1), "timestamp_ntz")
    return Moment(_moment(ticks, _TICKS[unit]), "timestamp_ntz")


def _of_arrow(value: Any) -> Any:
    import pyarrow as pa

    data_type = value.type
    if not value.is_valid:
        return None
    if pa.types.is_dictionary(data_type) or isinstance(value, pa.ExtensionScalar):
        inner = value.value
        return plain_value(inner) if isinstance(inner, pa.Scalar) else inner
    if pa.types.is_timestamp(data_type):
        return Moment(
            _moment(value.value, _TICKS[data_type.unit]), "timestamp" if data_type.tz is not None else "timestamp_ntz"
        )
    if pa.types.is_date32(data_type):
        return Moment(_date(value.value), "date")
    if pa.types.is_date64(data_type):
        return Moment(_date(value.value // (_DAY_US // 1000)), "date")
    return value.as_py()


def _moment(ticks: int, per_second: int) -> str:
    seconds, fraction = divmod(ticks, per_second)
    days, seconds = divmod(seconds, 86_400)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = str(fraction).rjust(len(str(per_second)) - 1, "0") if per_second > 1 else ""
    return f"{_date(days)} {time}.{digits.ljust(6, '0')}"


def _date(days: int) -> str:
    """The text of a date from days since 1970; also for years outside of Python's date."""
    eras, rest = divmod(days, _DAYS_OF_400_YEARS)
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=rest)
    year = day.year + 400 * eras
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{day.month:02}-{day.day:02}"
