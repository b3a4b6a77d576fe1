"""Formats numbers, sizes and times for people.

Formats plain values only.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

__all__ = ["amount", "bytes_text", "count_of", "duration", "moment", "number", "percent", "short_number"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def number(value: float) -> str:
    """A whole number with thousands separators.

    >>> number(1234567)
    '1,234,567'
    """
    return f"{value:,.0f}"


def amount(value: float) -> str:
    """A number with about three significant digits.

    >>> amount(1.25), amount(17.0), amount(1234.5)
    ('1.25', '17', '1,234')
    """
    return number(value) if value >= 100 or value == int(value) else f"{value:.3g}"


def short_number(value: float) -> str:
    """A short number for an axis.

    >>> short_number(1500), short_number(2_000_000), short_number(0.5)
    ('1.5k', '2M', '0.5')
    """
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:g}"


def count_of(value: int, what: str) -> str:
    """A count followed by its noun.

    >>> count_of(1, "file"), count_of(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{number(value)} {what}{'' if value == 1 else 's'}"


def percent(share: float) -> str:
    """A share as a percentage.

    >>> percent(0.05), percent(0.0004), percent(1)
    ('5 %', '0.04 %', '100 %')
    """
    return f"{100 * share:.2g} %" if share < 0.0995 else f"{100 * share:.0f} %"


def bytes_text(size: float) -> str:
    """A size in the largest fitting unit.

    >>> bytes_text(12), bytes_text(1536), bytes_text(2**28), bytes_text(2**50)
    ('12 B', '1.5 KiB', '256 MiB', '1 PiB')
    """
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1000 or (value < 1024 and unit == "B"):
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:,.3g} PiB" if value < 1000 else f"{value:,.0f} PiB"


def duration(ms: float) -> str:
    """A time span by its largest unit.

    >>> duration(90_000), duration(7 * 86_400_000), duration(3_600_000)
    ('2 minutes', '7 days', '1 hour')
    """
    for size, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if ms >= size:
            return count_of(round(ms / size), unit)
    return count_of(round(ms / 1000), "second")


def moment(ms: float | None, form: str = "%Y-%m-%d %H:%M UTC") -> str:
    """A time in UTC; logs may contain times that no calendar can represent.

    >>> moment(0), moment(10**18), moment(None)
    ('1970-01-01 00:00 UTC', '1000000000000000000 ms', '')
    """
    if ms is None:
        return ""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).strftime(form)
    except OverflowError:
        return f"{ms:.0f} ms"
