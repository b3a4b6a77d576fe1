"""What an SQL text written for deltalake says otherwise in Spark SQL, by its tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from deltaplane.cli.migration.rules import FUNCTIONS
from deltaplane.deltalake._dialect import (
    CASTS,
    LITERALS,
    TYPES,
    Token,
    clause_words,
    near,
    spark_query,
    tokens_of,
    unnamed_columns,
)
from deltaplane.exceptions import DeltaError

__all__ = ["TextFinding", "findings_in"]


class TextFinding(NamedTuple):
    """A part of a text that a rule concerns: the lines before it, and what to write instead where
    that is more than the rule's own words."""

    rule: str
    part: str
    line: int
    write: str | None = None


def findings_in(sql: str, *, is_query: bool = False) -> Iterator[TextFinding]:
    """The parts of an expression, or of a query, that mean something else."""
    parts = tokens_of(sql)
    line = 0
    for index, token in enumerate(parts):
        for rule, part, write in _of_token(parts, index, is_query):
            yield TextFinding(rule, part, line, write)
        line += token.text.count("\n")
    if is_query:
        yield from _unnamed_columns(sql)


def _unnamed_columns(sql: str) -> Iterator[TextFinding]:
    try:
        query = spark_query(sql)
    except DeltaError:
        # Another rule concerns what has no form in Spark SQL.
        return
    for start, end, _ in unnamed_columns(query):
        yield TextFinding("column-name", query[start:end], query[:start].count("\n"))


def _of_token(parts: list[Token], index: int, is_query: bool) -> Iterator[tuple[str, str, str | None]]:
    token = parts[index]
    after, before = near(parts, index, 1), near(parts, index, -1)
    word = token.text.lower()
    previous = parts[before].text.lower() if before >= 0 else ""
    following = parts[after] if after >= 0 else Token("sign", "")
    if token.kind == "name" and token.text[0] == '"':
        inner = token.text[1:-1].replace('""', '"').replace("`", "``")
        yield "double-quotes", token.text, f"`` `{inner}` ``"
    elif token.kind == "text":
        yield from _of_text(token.text)
    elif token.kind == "sign" and token.text == "[" and _begins_list(parts, before):
        yield "list-literal", "[", None
    elif token.kind == "sign" and token.text == "/":
        if not _has_fraction(parts, before) and not _has_fraction(parts, after):
            yield "division", "/", None
    elif token.kind == "sign" and token.text == "~":
        yield "regex-operator", "~", None
    elif token.kind != "word":
        return
    elif word in CASTS and word not in LITERALS and following.kind == "text":
        yield "typed-literal", f"{token.text} {following.text}", None
    elif word in TYPES and _is_type(previous, following):
        yield "type-name", token.text, f"`{TYPES[word]}`"
    elif word in FUNCTIONS and following.text == "(" and re.search(FUNCTIONS[word].only, _arguments(parts, after)):
        yield "function", f"{token.text}(…)", FUNCTIONS[word].write
    elif is_query and word == "order" and following.text.lower() == "by" and not _says_nulls(parts, after):
        yield "null-order", "ORDER BY", None


def _of_text(text: str) -> Iterator[tuple[str, str, str | None]]:
    inner = text[1:-1]
    if "\\" in inner:
        yield "backslash", text, None


def _begins_list(parts: list[Token], before: int) -> bool:
    """Whether a bracket begins a list; after a value it reads an element."""
    if before < 0:
        return True
    token = parts[before]
    is_value = token.kind in ("name", "number", "text") or token.text in (")", "]")
    return not is_value and (token.kind != "word" or token.text.lower() in clause_words())


def _has_fraction(parts: list[Token], index: int) -> bool:
    return index >= 0 and parts[index].kind == "number" and not parts[index].text.isdigit()


def _is_type(previous: str, following: Token) -> bool:
    """Whether a word after AS or `::` is a type's name without a length."""
    return previous == "::" or (previous == "as" and following.text == ")")


def _arguments(parts: list[Token], opening: int) -> str:
    """The text of parentheses."""
    depth, text = 0, ""
    for token in parts[opening:]:
        text += token.text
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0:
            break
    return text


def _says_nulls(parts: list[Token], start: int) -> bool:
    """Whether every sorted expression says where nulls go."""
    depth, items, said = 0, 1, 0
    for token in parts[start:]:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        word = token.text.lower()
        if depth < 0 or (depth == 0 and word in ("limit", "offset", "union", "rows", "range")):
            break
        items += depth == 0 and word == ","
        said += depth == 0 and word == "nulls"
    return said >= items
