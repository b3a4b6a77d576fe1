"""The first words of a statement, behind blanks and comments."""

from __future__ import annotations

import re

__all__ = ["starting_with"]

# A comment ends at its first `*/`: a pattern that may end it later takes time that doubles with
# each comment of a text that doesn't match.
_COMMENT = r"--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/"


def starting_with(words: str, also: str = r"\s") -> re.Pattern[str]:
    r"""A pattern for statements that begin with one of some words.

    Args:
        words: the alternatives, as a regular expression.
        also: what may be before them besides comments, as alternatives.

    >>> begins = starting_with("begin|commit")
    >>> begins.match("-- a\n/* b * */ BEGIN ATOMIC") is not None, begins.match("/* begin */ SELECT 1") is not None
    (True, False)
    """
    return re.compile(rf"(?:{also}|{_COMMENT})*(?:{words})\b", re.IGNORECASE | re.DOTALL)
