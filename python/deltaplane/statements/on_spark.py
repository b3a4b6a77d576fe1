"""A query's text on a Spark session: tables at locations and of the caller's become temp views, the rest is Spark's.

Finds the places where relations stand by the words before them and changes nothing else of the text. Called by `select`
and `insert`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.queries.grammar import GOES_ON, Grammar
from deltaplane.queries.sources import Catalog
from deltaplane.queries.syntax import TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["on_spark"]

# Words behind which no relation stands until the next FROM or JOIN.
_NO_RELATIONS = frozenset("select where group having order limit on using window values lateral sort cluster".split())
# Words behind which one does.
_BEFORE = ("from", "join")


@dataclass
class _Level:
    """One pair of parentheses: whether relations stand at this place of it, and whether it holds a query."""

    relations: bool = False
    query: bool = False


@contextmanager
def on_spark(spark: SparkSession, cursor: Grammar, start: int, catalog: Catalog) -> Iterator[DataFrame]:
    """The rows of a query, whose text begins at a token and ends the statement, as a frame.

    The frame is to be used inside of the block: the views behind it are dropped at its end.

    Raises:
        InvalidArgumentError: a table that nobody said where it is, or a name that is a query's and a table's.
    """
    replaced = list(_relations(cursor, start, catalog))
    views: list[str] = []
    text, at = "", cursor.tokens[start].start if start < len(cursor.tokens) else 0
    try:
        for name, begin, end in replaced:
            view = f"deltaplane_{uuid.uuid4().hex}"
            with cursor.located(name.token):
                _frame(spark, name, catalog).createOrReplaceTempView(view)
            views.append(view)
            text += cursor.sql[at:begin] + view + _alias(cursor, name, end)
            at = end
        yield spark.sql(text + cursor.sql[at:])
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def _frame(spark: SparkSession, name: TableName, catalog: Catalog) -> Any:
    from deltaplane.spark import read

    data = catalog.data(name)
    if data is not None:
        if name.version is not None:
            raise InvalidArgumentError(f"`{name.shown}` is data in memory, which has no versions")
        return spark.createDataFrame(data)
    table = catalog.table(name)
    return read(spark, table.location, table.version(), options=table.storage_options)


def _alias(cursor: Grammar, name: TableName, end: int) -> str:
    """The caller's own name for a relation, unless the text gives it one."""
    if name.path is not None:
        return ""
    i = next((i for i, token in enumerate(cursor.tokens) if token.start >= end), len(cursor.tokens))
    behind = cursor.tokens[i] if i < len(cursor.tokens) else None
    if behind is not None:
        word = behind.text.lower()
        if behind.kind == "quoted" or word == "as" or (behind.kind == "name" and word not in GOES_ON):
            return ""
    return " AS `" + name.parts[-1].replace("`", "``") + "`"


def _relations(cursor: Grammar, start: int, catalog: Catalog) -> Iterator[tuple[TableName, int, int]]:
    """The relations to be replaced, and where they begin and end."""
    named = _named_queries(cursor, start)
    levels = [_Level()]
    cursor.at = start
    while cursor.at < len(cursor.tokens):
        level, token = levels[-1], cursor.tokens[cursor.at]
        word = token.text.lower() if token.kind in ("name", "op") else ""
        if word == "(":
            # Behind a name it holds a function's arguments.
            behind = cursor.tokens[cursor.at - 1] if cursor.at else token
            calls = behind.kind == "quoted" or (behind.kind == "name" and behind.text.lower() not in _BEFORE)
            levels.append(_Level(level.relations and not calls))
        elif word == ")":
            if len(levels) > 1:
                levels.pop()
        elif word == "select":
            level.query, level.relations = True, False
        elif (word == "from" and level.query and not _is_distinct_from(cursor)) or word == "join":
            level.relations = True
        elif word in _NO_RELATIONS:
            level.relations = False
        elif level.relations and _begins_relation(cursor):
            begin = cursor.at
            name = _name(cursor, catalog)
            if name is not None:
                if name.path is None and name.parts[-1].lower() in named:
                    cursor.wrong(f"expected another name: `{name.shown}` is a query's and a table's", token.start)
                yield name, cursor.tokens[begin].start, cursor.tokens[cursor.at - 1].end
            else:
                cursor.at = begin + 1
            continue
        cursor.at += 1


def _is_distinct_from(cursor: Grammar) -> bool:
    before = [token.text.lower() for token in cursor.tokens[max(cursor.at - 2, 0) : cursor.at]]
    return before in (["is", "distinct"], ["not", "distinct"])


def _begins_relation(cursor: Grammar) -> bool:
    """Whether a relation's name may begin at the next token: behind FROM, JOIN, a comma or a parenthesis."""
    before = cursor.tokens[cursor.at - 1].text.lower() if cursor.at else ""
    return cursor.kind() in ("name", "quoted") and before in (*_BEFORE, ",", "(")


def _name(cursor: Grammar, catalog: Catalog) -> TableName | None:
    """The relation's name with its version, where it is one to be replaced; else nothing is passed."""
    token = cursor.at
    parts = cursor.names("a table")
    name = TableName(parts, token=token)
    if cursor.peek() == "(" or not (name.path is not None or catalog.knows(parts)):
        cursor.at = token
        return None
    return TableName(parts, cursor.version(), token=token)


def _named_queries(cursor: Grammar, start: int) -> set[str]:
    """The names in front of AS and a parenthesis, as WITH gives them."""
    found = set()
    for i in range(start, len(cursor.tokens) - 2):
        one, two, three = cursor.tokens[i : i + 3]
        if one.kind in ("name", "quoted") and two.text.lower() == "as" and three.text == "(":
            found.add(one.text.strip("`").lower())
    return found
