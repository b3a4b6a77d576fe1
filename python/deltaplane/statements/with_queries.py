"""WITH at the beginning of a statement: before a query, or before INSERT or MERGE, whose source it
then belongs to."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import Nested, Query, Select, Star, TableName, Values
from deltaplane.statements import insert, merge, select
from deltaplane.statements.common.statement import Command, Statement

__all__ = ["STATEMENT"]

_Named = tuple[tuple[str, Nested], ...]
_STATEMENTS = ("insert", "merge", "update", "delete")


def _read(cursor: Grammar) -> Command:
    index = _behind(cursor)
    word = "" if index is None else cursor.tokens[index].text.lower()
    if index is None or word not in _STATEMENTS:
        return select.read_query(cursor)
    if word in ("update", "delete"):
        _refuse(cursor, index, "put it into the subquery that reads it")
    if not cursor.own_queries:
        return _of_others(cursor, index)
    named = cursor.named_queries()
    if cursor.take("insert"):
        return _insert(insert.read(cursor), named)
    cursor.expect("merge")
    return _merge(cursor, merge.read(cursor), named)


def _of_others(cursor: Grammar, index: int) -> Command:
    """Parses the statement behind WITH if another engine runs queries: the source's text is
    appended to the text of WITH."""
    named = cursor.sql[cursor.tokens[0].start : cursor.tokens[index].start]
    names = _names(cursor, index)
    cursor.at = index
    if cursor.take("insert"):
        return replace(insert.read(cursor), named=named)
    cursor.expect("merge")
    made = merge.read(cursor)
    if _is_one(made.table, names):
        cursor.wrong(
            f"expected a table: `{made.table.shown}` is a query of WITH", cursor.tokens[made.table.token].start
        )
    source = made.source
    if isinstance(source, Nested):
        return replace(made, named=named)
    if not _is_one(source, names) or source.version is not None:
        return made
    rows = Nested(Query(Values(())), source.alias or source.parts[0], source.columns, source.token)
    name = cursor.tokens[source.token].text
    return replace(
        made, source=rows, source_token=source.token, source_end=source.token, named=named, named_source=name
    )


def _names(cursor: Grammar, end: int) -> list[str]:
    """The names that WITH defines, up to a token: names outside of parentheses before AS, or before
    names of columns."""
    names, depth = list[str](), 0
    for index in range(1, end):
        token = cursor.tokens[index]
        before = cursor.tokens[index - 1].text.lower()
        if depth == 0 and token.kind in ("name", "quoted") and before in ("with", "recursive", ","):
            names.append(token.text.strip("`").lower())
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "op" else 0
    return names


def _behind(cursor: Grammar) -> int | None:
    """The index of the first token behind the named queries; None if nothing follows."""
    depth = 0
    for index in range(cursor.at, len(cursor.tokens)):
        token = cursor.tokens[index]
        if depth == 0 and token.kind == "name" and cursor.tokens[index - 1].text == ")" and token.text.lower() != "as":
            return index
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "op" else 0
    return None


def _refuse(cursor: Grammar, index: int, advice: str) -> NoReturn:
    line, column = cursor.place_of(index)
    raise UnsupportedFeatureError(
        f"line {line}, column {column}: WITH before {cursor.tokens[index].text.upper()} isn't in this version of "
        f"deltaplane: {advice}"
    )


def _insert(made: insert.Insert, named: _Named) -> insert.Insert:
    # Listed rows stay unchanged.
    listed = isinstance(made.rows.body, Values)
    return replace(made, rows=replace(made.rows, named=named) if listed else Query(made.rows, named))


def _merge(cursor: Grammar, made: merge.Merge, named: _Named) -> merge.Merge:
    names = [name.lower() for name, _ in named]
    if _is_one(made.table, names):
        cursor.wrong(
            f"expected a table: `{made.table.shown}` is a query of WITH", cursor.tokens[made.table.token].start
        )
    source = made.source
    if isinstance(source, Nested):
        return replace(made, source=replace(source, query=Query(source.query, named)))
    if not _is_one(source, names) or source.version is not None:
        return made
    token = source.token
    rows = Query(Select((Star(token=token),), TableName(source.parts, token=token), token=token), named)
    return replace(made, source=Nested(rows, source.alias or source.parts[0], source.columns, token))


def _is_one(table: TableName, names: list[str]) -> bool:
    return len(table.parts) == 1 and table.parts[0].lower() in names


STATEMENT = Statement(("with",), _read)
