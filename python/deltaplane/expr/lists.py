"""Long lists of plain values after IN, read before the SQL parser sees them: it takes as long for each as all else together.

Owns what a plain value is: a number without exponent or suffix, or a string that `strings` has lifted. Called by `sql`
alone.
"""

from __future__ import annotations

import re

# Another private-use character than that of strings.
_MARK = "\ue001"
# Shorter lists are left to the parser.
_LONG = 50
_VALUE = r"(?:-?\d+(?:\.\d+)?|'\ue000\d+')"
_TOKEN = re.compile(
    rf"""
    (?P<name>`[^`]*(?:``[^`]*)*`)
  | (?P<in>\bin\s*\()\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE}){{{_LONG},}})\s*\)
    """,
    re.VERBOSE | re.IGNORECASE,
)


def lift(sql: str) -> tuple[str, list[list[str]]]:
    """The text with each long list replaced by a marker, and the values in order of their markers."""
    found: list[list[str]] = []

    def replace(match: re.Match[str]) -> str:
        if match["values"] is None:
            return match.group()
        found.append([value.strip() for value in match["values"].split(",")])
        return f"{match['in']}'{_MARK}{len(found) - 1}')"

    return _TOKEN.sub(replace, sql), found


def lower(text: str, found: list[list[str]]) -> list[str] | None:
    """The values of a marker; None for any other text."""
    return found[int(text[1:])] if text.startswith(_MARK) else None
