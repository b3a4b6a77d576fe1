"""A query's text on a Spark session: tables at locations and of the caller's become temp views, the rest is Spark's.

Finds the places where relations stand by the words before them and changes nothing else of the text. Called by `select`,
`insert`, `create`, `delete`, `update` and `merge`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.written import conjuncts, written
from deltaplane.queries.finding import may_be_same
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.relations import GOES_ON
from deltaplane.queries.sources import Catalog
from deltaplane.queries.syntax import TableName
from deltaplane.queries.versions import version_of_path
from deltaplane.statements.statement import Clause, unqualified_names
from deltaplane.table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.spark._conditions import Subqueried

__all__ = ["condition_on_spark", "frame_of", "new_rows_on_spark", "on_spark"]

# Words behind which no relation stands until the next FROM or JOIN.
_NO_RELATIONS = frozenset("select where group having order limit on using window values lateral sort cluster".split())
# Words behind which one does.
_BEFORE = ("from", "join")


@dataclass
class _Level:
    """One pair of parentheses: whether relations stand at this place of it, and whether it holds a query."""

    relations: bool = False
    query: bool = False


@dataclass(frozen=True)
class _Relation:
    """A relation's name in a text, and where it begins and ends; an unknown one is Spark's."""

    name: TableName
    begin: int
    end: int
    known: bool


@contextmanager
def on_spark(
    spark: SparkSession, cursor: Grammar, start: int, catalog: Catalog, *, follows: bool = False
) -> Iterator[DataFrame]:
    """The rows of a query, whose text begins at a token and ends with the statement, as a frame.

    The frame is to be used inside of the block: the views behind it are dropped at its end. If it `follows` its tables,
    their newest versions are what it shows each time.

    Raises:
        InvalidArgumentError: a table that nobody said where it is, or a name that is a query's and a table's.
    """
    span = start, len(cursor.tokens)
    relations = list(_relations(cursor, *span, catalog))
    with _with_views(spark, cursor, span, relations, catalog, follows=follows) as text:
        yield spark.sql(text)


@contextmanager
def new_rows_on_spark(
    spark: SparkSession,
    cursor: Grammar,
    start: int,
    catalog: Catalog,
    table: DeltaTable | None,
    end: int | None = None,
) -> Iterator[tuple[DataFrame, int | None]]:
    """As `on_spark`, of a query that may end before another token and whose rows go to a table, if there is one; and the
    version of it that they're made of, as far as the catalog knows: a view of Spark's own isn't looked into.

    Raises:
        InvalidArgumentError: as `on_spark`.
    """
    if table is not None:
        catalog.hold(table)
    span = start, len(cursor.tokens) if end is None else end
    relations = list(_relations(cursor, *span, catalog))
    with _with_views(spark, cursor, span, relations, catalog) as text:
        read = table is not None and any(_may_be(one, catalog, table) for one in relations if one.known)
        yield spark.sql(text), table.version() if table is not None and read else None


@contextmanager
def condition_on_spark(
    spark: SparkSession, clause: Clause, name: TableName, table: DeltaTable, catalog: Catalog
) -> Iterator[Subqueried]:
    """A condition with subqueries on the rows of a table, to be used inside of the block.

    Raises:
        InvalidArgumentError: as `on_spark`.
    """
    cursor = clause.cursor
    catalog.hold(table)
    at = clause.token, clause.token + len(clause.tokens)
    relations = list(_relations(cursor, *at, catalog))
    # What Spark alone knows may be a view of the same table.
    others = any(not one.known or _may_be(one, catalog, table) for one in relations)
    known = [written(part) for part in conjuncts(unqualified_names(clause.tree, name, table))]
    with _with_views(spark, cursor, at, relations, catalog) as text:
        from deltaplane.spark._conditions import Subqueried

        yield Subqueried(text, clause.text, [part for part in known if part is not None], others)


def _may_be(one: _Relation, catalog: Catalog, table: DeltaTable) -> bool:
    return catalog.data(one.name) is None and may_be_same(catalog.table(one.name), table)


@contextmanager
def _with_views(
    spark: SparkSession,
    cursor: Grammar,
    span: tuple[int, int],
    relations: list[_Relation],
    catalog: Catalog,
    *,
    follows: bool = False,
) -> Iterator[str]:
    """The text of some tokens with views for the relations that are known; they are dropped at the block's end."""
    tokens, views = cursor.tokens[slice(*span)], list[str]()
    text, at = "", tokens[0].start if tokens else 0
    end = tokens[-1].end if span[1] < len(cursor.tokens) else len(cursor.sql)
    try:
        for one in relations:
            if not one.known:
                continue
            view = f"deltaplane_{uuid.uuid4().hex}"
            with cursor.located(one.name.token):
                frame_of(spark, one.name, catalog, follows=follows).createOrReplaceTempView(view)
            views.append(view)
            text += cursor.sql[at : one.begin] + view + _alias(cursor, one.name, one.end)
            at = one.end
        yield text + cursor.sql[at:end]
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def frame_of(spark: SparkSession, name: TableName, catalog: Catalog, *, follows: bool = False) -> Any:
    """The rows of a table or of the caller's data, by a name that the catalog knows; if it `follows` the table, those of its
    newest version at each query.

    Raises:
        InvalidArgumentError: a version of data.
    """
    from deltaplane.spark._read import newest_frame, read

    data = catalog.data(name)
    if data is not None:
        if name.version is not None:
            raise InvalidArgumentError(f"`{name.shown}` is data in memory, which has no versions")
        return spark.createDataFrame(data)
    table = catalog.table(name)
    if follows and name.version is None and (name.path is None or version_of_path(name.path)[1] is None):
        return newest_frame(spark, table.location, table.storage_options)
    return read(spark, table.location, table.version(), options=table.storage_options)


def _alias(cursor: Grammar, name: TableName, end: int) -> str:
    """The caller's own name for a relation, unless the text gives it one, or takes none, as behind TABLE."""
    if name.path is not None or (name.token > 0 and cursor.tokens[name.token - 1].text.lower() == "table"):
        return ""
    i = next((i for i, token in enumerate(cursor.tokens) if token.start >= end), len(cursor.tokens))
    behind = cursor.tokens[i] if i < len(cursor.tokens) else None
    if behind is not None:
        word = behind.text.lower()
        if behind.kind == "quoted" or word == "as" or (behind.kind == "name" and word not in GOES_ON):
            return ""
    return " AS `" + name.parts[-1].replace("`", "``") + "`"


def _relations(cursor: Grammar, start: int, end: int, catalog: Catalog) -> Iterator[_Relation]:
    """The relations that some tokens name, but for the text's own queries."""
    named = _named_queries(cursor, start)
    # A query may begin with FROM.
    levels = [_Level(query=start < end and cursor.tokens[start].text.lower() == "from")]
    cursor.at = start
    while cursor.at < end:
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
        elif word == "table" and _begins_query(cursor, start):
            level.query = level.relations = True
        elif word in _NO_RELATIONS:
            level.relations = False
        elif level.relations and _begins_relation(cursor):
            begin = cursor.at
            one = _relation(cursor, catalog)
            if not one.known:
                cursor.at = begin + 1
            own = one.name.path is None and one.name.parts[-1].lower() in named
            if own and one.known:
                cursor.wrong(f"expected another name: `{one.name.shown}` is a query's and a table's", token.start)
            if not own:
                yield one
            continue
        cursor.at += 1


def _is_distinct_from(cursor: Grammar) -> bool:
    before = [token.text.lower() for token in cursor.tokens[max(cursor.at - 2, 0) : cursor.at]]
    return before in (["is", "distinct"], ["not", "distinct"])


def _begins_relation(cursor: Grammar) -> bool:
    """Whether a relation's name may begin at the next token: behind FROM, JOIN, a comma or a parenthesis."""
    before = cursor.tokens[cursor.at - 1].text.lower() if cursor.at else ""
    return cursor.kind() in ("name", "quoted") and before in (*_BEFORE, "table", ",", "(")


def _begins_query(cursor: Grammar, start: int) -> bool:
    """Whether a query may begin at the next token, and go on with a name."""
    before = cursor.tokens[cursor.at - 1].text.lower() if cursor.at > start else "("
    return before in ("(", "union", "all", "distinct", "intersect", "except", "minus") and cursor.kind(1) in (
        "name",
        "quoted",
    )


def _relation(cursor: Grammar, catalog: Catalog) -> _Relation:
    """The relation that comes next, with its version."""
    token = cursor.at
    parts = cursor.names("a table")
    name = TableName(parts, token=token)
    known = cursor.peek() != "(" and (name.path is not None or catalog.knows(parts))
    if known:
        name = TableName(parts, cursor.version(), token=token)
    return _Relation(name, cursor.tokens[token].start, cursor.tokens[cursor.at - 1].end, known)


def _named_queries(cursor: Grammar, start: int) -> set[str]:
    """The names in front of AS and a parenthesis, as WITH gives them."""
    found = set()
    for i in range(start, len(cursor.tokens) - 2):
        one, two, three = cursor.tokens[i : i + 3]
        if one.kind in ("name", "quoted") and two.text.lower() == "as" and three.text == "(":
            found.add(one.text.strip("`").lower())
    return found
