"""Rewrites the text of a statement before it is parsed: names in IDENTIFIER(…), paths in quotes."""

from __future__ import annotations

import re

from deltaplane.exceptions import SqlSyntaxError
from deltaplane.expr.syntax import Token
from deltaplane.queries.grammar import Grammar
from deltaplane.spark.jvm.schema import quoted

__all__ = ["DESCRIBES", "in_own_syntax", "is_misread", "is_outside", "new_location", "with_names"]

# Matches quoted text and comments, and a table name that is a string or a concatenation of strings.
_TEXT = r"""(?:'[^'\\]*'|"[^"\\]*")"""
_IDENTIFIER = re.compile(
    rf"""\bidentifier\s*\(\s*(?P<texts>{_TEXT}(?:\s*\|\|\s*{_TEXT})*)\s*\)"""
    rf"""|\bidentifier\s*\(\s*concat\s*\(\s*(?P<listed>{_TEXT}(?:\s*,\s*{_TEXT})*)\s*\)\s*\)"""
    r"""|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/""",
    re.DOTALL | re.IGNORECASE,
)

# Keywords of statements whose table may be a path in quotes.
_BEFORE_PATHS = (
    *(["optimize"], ["vacuum"], ["describe", "history"], ["desc", "history"], ["describe", "detail"]),
    ["desc", "detail"],
)
# Keywords before QUERY, behind which a query follows.
DESCRIBES = ("describe", "desc")


def is_misread(text: str) -> bool:
    """Whether Spark's parser misreads a statement: DESCRIBE HISTORY and DETAIL, as a table with
    such a name."""
    words = [word.lower() for word in text.split(None, 2)[:2]]
    return len(words) == 2 and words[0] in DESCRIBES and words[1] in ("history", "detail")


def new_location(text: str) -> str | None:
    """The location in ALTER TABLE … SET LOCATION for a whole table."""
    cursor = Grammar(text, own_queries=False)
    cursor.take("alter", "table")
    cursor.names("a table")
    return cursor.text("a location") if cursor.take("set", "location") else None


def is_outside(cursor: Grammar, index: int) -> bool:
    """Whether a token is outside of parentheses."""
    depth = [{"(": 1, ")": -1}.get(token.text, 0) for token in cursor.tokens[:index]]
    return sum(depth) == 0


def in_own_syntax(text: str) -> str:
    """Translates a statement to the syntax of `deltaplane.sql`."""
    try:
        tokens = Grammar(text, own_queries=False).tokens
    except SqlSyntaxError:
        return text
    words = [token.text.lower() for token in tokens]
    for before in _BEFORE_PATHS:
        index = len(before)
        if words[:index] == before and index < len(tokens) and tokens[index].kind == "string":
            return f"{text[: tokens[index].start]}delta.{_quoted_path(tokens[index])}{text[tokens[index].end :]}"
    return text


def with_names(text: str) -> str:
    """A statement with IDENTIFIER(…) replaced by the name in its text."""

    def named(match: re.Match[str]) -> str:
        texts = match["texts"] or match["listed"]
        return match[0] if texts is None else "".join(literal[1:-1] for literal in re.findall(_TEXT, texts))

    return _IDENTIFIER.sub(named, text)


def _quoted_path(token: Token) -> str:
    return quoted(token.text[1:-1].replace("\\'", "'").replace("\\\\", "\\"))
