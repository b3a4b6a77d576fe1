"""String literals of Spark SQL, read before the SQL parser sees them: it knows other escapes than Spark.

Owns quoting, escapes, raw strings and comments; knows no grammar. Called by `sql` alone.
"""

from __future__ import annotations

import re

# A private-use character: an SQL text outside of strings can't hold it.
_MARK = "\ue000"
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?\*/)
  | (?P<name>`[^`]*(?:``[^`]*)*`)
  | (?P<hex>\b[xX]'[^']*')
  | (?P<raw>\b[rR](?:'[^']*'|"[^"]*"))
  | (?P<single>'[^'\\]*(?:(?:\\.|'')[^'\\]*)*')
  | (?P<double>"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)


def lift(sql: str) -> tuple[str, list[str]]:
    """The text with each string literal replaced by a marker, and the strings in order of their markers."""
    found: list[str] = []

    def replace(match: re.Match[str]) -> str:
        text = match.group()
        kind = match.lastgroup
        if kind in ("name", "hex"):
            return text
        if kind == "comment":
            return " "
        if kind == "raw":
            found.append(text[2:-1])
        else:
            quote = text[0]
            found.append(unescape(text[1:-1], quote))
        return f"'{_MARK}{len(found) - 1}'"

    return _TOKEN.sub(replace, sql), found


def lower(text: str, found: list[str]) -> str:
    """The string of a marker; any other text is itself."""
    return found[int(text[1:])] if text.startswith(_MARK) else text


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
