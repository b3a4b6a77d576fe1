"""String literals and comments of Spark SQL.

Owns quoting, escapes, raw strings and comments; knows no grammar.
"""

from __future__ import annotations

import re

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
# What may hold signs of any kind, as Spark's lexer has it. A hexadecimal literal is a string to it.
_HELD = r"""
    (?P<name>`[^`]*(?:``[^`]*)*`)
  | (?P<raw>\b[rR](?:'[^']*'|"[^"]*"))
  | (?P<hex>\b[xX]'[^'\\]*')
  | (?P<single>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*')
  | (?P<double>"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
  | (?P<open>['"`])
"""
_LITERAL = re.compile(_HELD, re.VERBOSE | re.DOTALL)
# A comment of one line ends at either sign of a line's end, and goes on over a line feed behind a
# backslash.
_COMMENT = re.compile(
    _HELD + r"  | (?P<line>--[^\r\n\\]*(?:\\\n?[^\r\n\\]*)*) | (?P<end>\*/) | (?P<block>/\*(?!\+))",
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(r"/\*(?!\+)|\*/")
_OPEN = {"'": "the string", '"': "the string", "`": "the name"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)


class WrongText(ValueError):
    """Text that Spark's lexer can't divide into words; `place` is where that begins."""

    def __init__(self, why: str, place: int) -> None:
        super().__init__(why)
        self.place = place


def double_quoted(sql: str) -> list[tuple[int, int]]:
    """Where double-quoted texts begin and end, without raw ones.

    Raises:
        WrongText: a comment, a string or a name without an end.

    >>> double_quoted('a = "b" -- "c"')
    [(4, 7)]
    """
    return [m.span() for m in _LITERAL.finditer(without_comments(sql)) if m.lastgroup == "double"]


def without_comments(sql: str) -> str:
    """The text with spaces for each comment, so that everything else stays in its place.

    Comments in brackets nest; a hint is no comment.

    Raises:
        WrongText: a comment, a string or a name without an end.

    >>> without_comments("a = '--' /* b /* c */ */ -- d")
    "a = '--'                     "
    """
    if "--" not in sql and "/*" not in sql:
        return sql
    kept, at, place = list[str](), 0, 0
    while (match := _COMMENT.search(sql, place)) is not None:
        place = match.end()
        if match.lastgroup == "open":
            raise unclosed(sql, match.start())
        if match.lastgroup == "block":
            place = _end_of_comment(sql, match.start())
        elif match.lastgroup != "line":
            continue
        kept += (sql[at : match.start()], " " * (place - match.start()))
        at = place
    return "".join(kept) + sql[at:]


def _end_of_comment(sql: str, start: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(sql, start):
        depth += 1 if bracket.group() == "/*" else -1
        if depth == 0:
            return bracket.end()
    raise WrongText("the comment that begins here has no end: each /* in it needs a */ of its own", start)


def unclosed(sql: str, place: int) -> WrongText:
    """What is wrong with a quote at a place that nothing closes."""
    return WrongText(f"{_OPEN[sql[place]]} that begins here has no end: {sql[place]} is missing", place)


def unescape(body: str, quote: str) -> str:
    if "\\" not in body and quote not in body:
        return body
    # A doubled quote is one quote; an escaped one must not be taken for half of a pair.
    parts = re.split(r"(\\.)", body, flags=re.DOTALL)
    joined = "".join(p if p.startswith("\\") else p.replace(quote * 2, quote) for p in parts)
    return _ESCAPED.sub(_character, joined)


def _character(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) > 1:
        return chr(int(code, 8)) if code[0].isdigit() else chr(int(code[1:], 16))
    if code in "%_":
        return "\\" + code
    return _ESCAPES.get(code, code)
