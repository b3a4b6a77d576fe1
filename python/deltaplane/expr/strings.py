"""String literals and comments of Spark SQL.

Handles quoting, escapes, raw strings and comments; independent of the grammar.
"""

from __future__ import annotations

import re

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
# Tokens that may contain any characters, as in Spark's lexer, to which a hexadecimal literal is a
# string.
_HELD = r"""
    (?P<name>`[^`]*(?:``[^`]*)*`)
  | (?P<raw>\b[rR](?:'[^']*'|"[^"]*"))
  | (?P<hex>\b[xX]'[^'\\]*')
  | (?P<single>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*')
  | (?P<double>"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
  | (?P<open>['"`])
"""
_LITERAL = re.compile(_HELD, re.VERBOSE | re.DOTALL)
# A line comment ends at a carriage return or line feed, and continues over a line feed after a
# backslash.
_COMMENT = re.compile(
    _HELD + r"  | (?P<line>--[^\r\n\\]*(?:\\\n?[^\r\n\\]*)*) | (?P<end>\*/) | (?P<block>/\*(?!\+))",
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"/\*(?!\+)|\*/")
_OPEN = {"'": "the string", '"': "the string", "`": "the name"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)


class WrongText(ValueError):
    """Text that Spark's lexer can't split into tokens; `place` is the position."""

    def __init__(self, why: str, place: int) -> None:
        super().__init__(why)
        self.place = place


def double_quoted(sql: str) -> list[tuple[int, int]]:
    """The ranges of double-quoted texts, without raw ones.

    Raises:
        WrongText: a comment, a string or a name without an end.

    >>> double_quoted('a = "b" -- "c"')
    [(4, 7)]
    """
    return [m.span() for m in _LITERAL.finditer(without_comments(sql)) if m.lastgroup == "double"]


def with_joined_texts(sql: str) -> str:
    """The text for a Spark that reads a doubled quote within a string as the end of one string and
    the beginning of the next, which follow each other as one: without these quotes.

    Raises:
        WrongText: a comment, a string or a name without an end.

    >>> with_joined_texts("a = 'it''s' AND b = ''")
    "a = 'its' AND b = ''"
    """
    made, copied = "", 0
    for match in _LITERAL.finditer(without_comments(sql)):
        if match.lastgroup in ("single", "double"):
            start, end = match.start() + 1, match.end() - 1
            made += sql[copied:start] + _with_pairs_as(sql[start:end], sql[match.start()], "")
            copied = end
    return made + sql[copied:]


def without_comments(sql: str) -> str:
    """The text with each comment replaced by blanks, so that positions stay the same.

    Bracketed comments nest; a hint isn't a comment.

    Raises:
        WrongText: a comment, a string or a name without an end.

    >>> without_comments("a = '--' /* b /* c */ */ -- d")
    "a = '--'                     "
    """
    if "--" not in sql and "/*" not in sql:
        return sql
    parts, copied, place = list[str](), 0, 0
    while (match := _COMMENT.search(sql, place)) is not None:
        place = match.end()
        if match.lastgroup == "open":
            raise unclosed(sql, match.start())
        if match.lastgroup == "block":
            place = _end_of_comment(sql, match.start())
        elif match.lastgroup != "line":
            continue
        parts += (sql[copied : match.start()], " " * (place - match.start()))
        copied = place
    return "".join(parts) + sql[copied:]


def _end_of_comment(sql: str, start: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(sql, start):
        depth += 1 if bracket.group() == "/*" else -1
        if depth == 0:
            return bracket.end()
    raise WrongText("the comment that begins here has no end: each /* in it needs a */ of its own", start)


def unclosed(sql: str, place: int) -> WrongText:
    """The error for a quote that nothing closes."""
    return WrongText(f"{_OPEN[sql[place]]} that begins here has no end: {sql[place]} is missing", place)


def unescape(body: str, quote: str) -> str:
    if "\\" not in body and quote not in body:
        return body
    return _ESCAPED.sub(_character, _with_pairs_as(body, quote, quote))


def _with_pairs_as(body: str, quote: str, new: str) -> str:
    """A string's content with each doubled quote replaced; an escaped quote isn't half of a
    pair."""
    parts = re.split(r"(\\.)", body, flags=re.DOTALL)
    return "".join(p if p.startswith("\\") else p.replace(quote * 2, new) for p in parts)


def _character(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) > 1:
        return chr(int(code, 8)) if code[0].isdigit() else chr(int(code[1:], 16))
    if code in "%_":
        return "\\" + code
    return _ESCAPES.get(code, code)
