"""Converts Arrow values to literals of the JSON tree, exactly: dates as days and timestamps as
microseconds since 1970-01-01, since Python's dates and calendar texts cover only a part of either
type's range.

Uses no table and no engine.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import UnsupportedExpressionError
from deltaplane.expr import tree
from deltaplane.expr.tuples import value_node

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.expr.types import SparkType

__all__ = ["date_text", "literal_nodes", "shown_value", "timestamp_text"]

# The calendar repeats after 400 years.
_CYCLE_DAYS = 146_097
_DAYS_TO_1970 = datetime.date(1970, 1, 1).toordinal() - 1
_DAY_US = 86_400_000_000
_COUNTED = {"date": "date_days", "timestamp": "timestamp_micros", "timestamp_ntz": "timestamp_ntz_micros"}


def literal_nodes(values: pa.Array | pa.ChunkedArray, data_type: SparkType) -> list[tree.Node]:
    """A literal for each value of this type, whatever its Arrow layout.

    Raises:
        UnsupportedExpressionError: a type without literals.

    >>> import pyarrow as pa
    >>> from deltaplane.expr.types import DATE, LONG
    >>> literal_nodes(pa.array([-800_000], pa.int32()).cast(pa.date32()), DATE)
    [{'op': 'literal', 'value': '-800000', 'type': 'date_days'}]
    >>> literal_nodes(pa.array([2**40, None]), LONG)[0]["value"]
    '1099511627776'
    """
    import pyarrow as pa

    if data_type.name in _COUNTED:
        if data_type.name == "date":
            numbers = values.cast(pa.date32()).cast(pa.int32())
        else:
            zone = values.type.tz if pa.types.is_timestamp(values.type) else None
            numbers = values.cast(pa.timestamp("us", zone)).cast(pa.int64())
        name = _COUNTED[data_type.name]
        return [tree.literal(None if n is None else str(n), name) for n in numbers.to_pylist()]
    if data_type.name == "string":
        return [tree.literal(text, "string") for text in values.cast(pa.large_string()).to_pylist()]
    if not (data_type.integral or data_type.fractional or data_type.name in ("decimal", "boolean", "binary")):
        raise UnsupportedExpressionError(f"values of type {data_type} can't be literals of a predicate")
    return [value_node(value, "") for value in values.to_pylist()]


def date_text(days: int) -> str:
    """A date as Spark writes it, from the days since 1970-01-01.

    >>> date_text(0), date_text(-719_164), date_text(2_932_897)
    ('1970-01-01', '0000-12-30', '+10000-01-01')
    """
    cycles, rest = divmod(days + _DAYS_TO_1970, _CYCLE_DAYS)
    within = datetime.date.fromordinal(rest + 1)
    year = within.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}-{within.month:02}-{within.day:02}"


def timestamp_text(micros: int) -> str:
    """A timestamp in its own time zone as Spark writes it, from the microseconds since 1970-01-01.

    >>> timestamp_text(253_402_318_799_000_000)
    '+10000-01-01 04:59:59'
    """
    days, micros = divmod(micros, _DAY_US)
    seconds, micros = divmod(micros, 1_000_000)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"{date_text(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def shown_value(value: pa.Scalar) -> str:
    """A value for display; `null` for null.

    >>> import pyarrow as pa
    >>> shown_value(pa.scalar(-719_164, pa.int32()).cast(pa.date32()))
    '0000-12-30'
    """
    import pyarrow as pa

    try:
        plain: Any = value.as_py()
    except (ValueError, OverflowError):
        if pa.types.is_date(value.type):
            return date_text(value.cast(pa.date32()).cast(pa.int32()).as_py())
        if pa.types.is_timestamp(value.type):
            return timestamp_text(value.cast(pa.timestamp("us", value.type.tz)).cast(pa.int64()).as_py())
        return f"a value of type {value.type} that Python has no form of"
    return "null" if plain is None else str(plain)
