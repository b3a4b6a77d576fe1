"""Literal intervals: converts their text to whole months or microseconds, as Spark's parser does.

Knows no expression.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deltaplane.expr.types import SparkType, interval

__all__ = ["UNITS", "from_fields", "from_units", "units_in"]

# Unit → whether it counts months, its length, and its field.
UNITS = {
    "year": (True, 12, 0),
    "month": (True, 1, 1),
    "week": (False, 7 * 86_400_000_000, 0),
    "day": (False, 86_400_000_000, 0),
    "hour": (False, 3_600_000_000, 1),
    "minute": (False, 60_000_000, 2),
    "second": (False, 1_000_000, 3),
    "millisecond": (False, 1000, 3),
    "microsecond": (False, 1, 3),
}
_FIELDS = {
    ("year", "month"): r"(?P<year>\d{1,9})-(?P<month>\d{1,2})",
    ("day", "hour"): r"(?P<day>\d{1,9})\s+(?P<hour>\d{1,2})",
    ("day", "minute"): r"(?P<day>\d{1,9})\s+(?P<hour>\d{1,2}):(?P<minute>\d{1,2})",
    (
        "day",
        "second",
    ): r"(?P<day>\d{1,9})\s+(?P<hour>\d{1,2}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(?:\.(?P<part>\d{1,9}))?",
    ("hour", "minute"): r"(?P<hour>\d{1,10}):(?P<minute>\d{1,2})",
    ("hour", "second"): r"(?P<hour>\d{1,10}):(?P<minute>\d{1,2}):(?P<second>\d{1,2})(?:\.(?P<part>\d{1,9}))?",
    ("minute", "second"): r"(?P<minute>\d{1,12}):(?P<second>\d{1,2})(?:\.(?P<part>\d{1,9}))?",
}
_MOST = {"month": 11, "hour": 23, "minute": 59, "second": 59}
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_SECONDS = re.compile(r"([+-]?)(\d{0,18})(?:\.(\d{0,9}))?")
_ONE = re.compile(r"([+-]?)\s*(\d+\.?\d*|\.\d+)\s+([a-zA-Z]+)(?=\s|$)\s*")


def _singular(unit: str) -> str:
    lower = unit.lower()
    return lower.removesuffix("s") if lower.removesuffix("s") in UNITS else lower


def units_in(text: str) -> list[tuple[str, str]]:
    """The counts and units in a text such as `1 day -2 hours`.

    Raises:
        ValueError: another kind of text.
    """
    parts, position = [], 0
    stripped = text.strip()
    while position < len(stripped):
        match = _ONE.match(stripped, position)
        if match is None:
            raise ValueError(f"{text!r} isn't a list of counts and units")
        parts.append((match[1] + match[2], match[3]))
        position = match.end()
    if not parts:
        raise ValueError("an interval needs a count and a unit")
    return parts


def from_units(counted: Sequence[tuple[str, str]]) -> tuple[int, SparkType]:
    """The months or microseconds of counts with their units, and the type from the widest to the
    narrowest of these.

    Raises:
        ValueError: an unknown unit, months mixed with other units, a fraction of a unit other than
            seconds, or overflow.
    """
    known = [(count.strip(), _singular(unit)) for count, unit in counted]
    for _, unit in known:
        if unit not in UNITS:
            raise ValueError(f"{unit} is no unit of an interval")
    kinds = {UNITS[unit][0] for _, unit in known}
    if len(kinds) > 1:
        raise ValueError("months and years don't go together with days and shorter units")
    fields = [UNITS[unit][2] for _, unit in known]
    (months,) = kinds
    total = sum(_amount(count, unit) for count, unit in known)
    return _checked(total, interval(months, min(fields), max(fields)))


def _amount(count: str, unit: str) -> int:
    length = UNITS[unit][1]
    if unit == "second":
        match = _SECONDS.fullmatch(count)
        if match is None or not (match[2] or match[3]):
            raise ValueError(f"{count!r} is no number of seconds")
        whole = int(match[2] or 0) * length + int((match[3] or "").ljust(6, "0")[:6])
        return -whole if match[1] == "-" else whole
    if _WHOLE.fullmatch(count) is None:
        raise ValueError(f"{count!r} is no whole number of {unit}s")
    return int(count) * length


def from_fields(text: str, first: str, last: str) -> tuple[int, SparkType]:
    """The months or microseconds of a text such as `1 02:03:04` with fields from one unit to
    another.

    Raises:
        ValueError: incompatible units, or a text without these fields.
    """
    first, last = _singular(first), _singular(last)
    pattern = _FIELDS.get((first, last))
    if pattern is None:
        raise ValueError(f"an interval doesn't go from {first} to {last}")
    match = re.fullmatch(rf"\s*(?P<sign>[+-]?){pattern}\s*", text)
    if match is None:
        raise ValueError(f"{text!r} has no fields from {first} to {last}")
    amounts = {name: value for name, value in match.groupdict().items() if name not in ("sign", "part") and value}
    for name, value in amounts.items():
        if name != first and int(value) > _MOST[name]:
            raise ValueError(f"{value} is no {name} in an interval")
    total = sum(int(value) * UNITS[name][1] for name, value in amounts.items())
    if part := match.groupdict().get("part"):
        total += int(part.ljust(6, "0")[:6])
    months, _, start = UNITS[first]
    return _checked(-total if match["sign"] == "-" else total, interval(months, start, UNITS[last][2]))


def _checked(total: int, data_type: SparkType) -> tuple[int, SparkType]:
    bound = 1 << (31 if data_type.name == "ym_interval" else 63)
    if not -bound <= total < bound:
        raise ValueError("an interval is too long")
    return total, data_type
