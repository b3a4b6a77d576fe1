"""Runs a query's text on a Spark session: tables named by location or defined by the caller become
temporary views, and Spark parses the rest.

Spark's own parser finds the positions of relations; for a Connect session, the words before them
do. Nothing else of the text is changed. A session that resolves the tables itself gets the
unchanged text.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.unparse import conjuncts, unparse
from deltaplane.queries.expressions import BEGINNINGS
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.relations import GOES_ON
from deltaplane.queries.row_finder import may_be_same
from deltaplane.queries.sources import Catalog
from deltaplane.queries.syntax import TableName
from deltaplane.queries.versions import version_of_path
from deltaplane.statements.common.statement import Clause, unqualified_names
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.spark.delta_api.relations import Seen
    from deltaplane.spark.dml.conditions import Subqueried

__all__ = ["condition_on_spark", "frame_of", "new_rows_on_spark", "on_spark", "values_on_spark"]

# Keywords behind which no relation occurs until the next FROM or JOIN.
_NO_RELATIONS = frozenset("select where group having order limit on using window values lateral sort cluster".split())
# Keywords behind which a relation occurs.
_BEFORE = ("from", "join")


@dataclass
class _Level:
    """One level of parentheses: whether a relation may occur at the present position, and whether
    the level contains a query."""

    relations: bool = False
    query: bool = False


@dataclass(frozen=True)
class _Relation:
    """A relation's name in a text, with its start and end; Spark resolves a name that the catalog
    doesn't know."""

    name: TableName
    begin: int
    end: int
    known: bool


@contextmanager
def on_spark(
    spark: SparkSession, cursor: Grammar, start: int, catalog: Catalog, *, follows: bool = False
) -> Iterator[DataFrame]:
    """A query as a frame; the text begins at a token and ends with the statement.

    The frame is valid within the block: the views behind it are dropped at its end. With `follows`,
    each use of the frame reads the newest versions of the tables.

    Raises:
        InvalidArgumentError: a table without a known location, or a name of both a query and a
            table.
    """
    span = start, len(cursor.tokens)
    relations = _relations_of(spark, cursor, span, catalog)
    with _with_views(spark, cursor, span, relations, catalog, follows=follows) as (text, _):
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
    """The new rows of a table as `on_spark` returns them, from a query that may end before another
    token; and the version of the table from which they are computed, as far as the catalog knows:
    Spark's own views aren't inspected.

    Raises:
        InvalidArgumentError: as in `on_spark`.
    """
    if table is not None:
        catalog.hold(table)
    span = start, len(cursor.tokens) if end is None else end
    relations = _relations_of(spark, cursor, span, catalog)
    with _with_views(spark, cursor, span, relations, catalog, table) as (text, seen):
        frame = spark.sql(text)
        read = table is not None and any(_may_be(relation, catalog, table) for relation in relations if relation.known)
        # If the session resolves the tables itself, Spark's own views were inspected as well.
        read = read or (table is not None and seen is not None and seen.reads(table.location))
        yield frame, table.version() if table is not None and read else None


@contextmanager
def condition_on_spark(
    spark: SparkSession, clause: Clause, name: TableName, table: DeltaTable, catalog: Catalog
) -> Iterator[Subqueried]:
    """A condition with subqueries on the rows of a table; valid within the block.

    Raises:
        InvalidArgumentError: as in `on_spark`.
    """
    cursor = clause.cursor
    catalog.hold(table)
    span = clause.token, clause.token + len(clause.tokens)
    relations = _relations_of(spark, cursor, span, catalog, expression=True)
    # A relation that only Spark knows may be a view of the same table.
    others = any(not relation.known or _may_be(relation, catalog, table) for relation in relations)
    tree = clause.tree
    known = [] if tree is None else [unparse(part) for part in conjuncts(unqualified_names(tree, name, table))]
    plain = clause.over(table, name) if tree is not None and not clause.has_subqueries else None
    with _with_views(spark, cursor, span, relations, catalog, table) as (text, _):
        from deltaplane.spark.dml.conditions import Subqueried

        yield Subqueried(text, clause.text, [part for part in known if part is not None], others, plain)


@contextmanager
def values_on_spark(
    spark: SparkSession, clauses: Sequence[Clause | str], table: DeltaTable, catalog: Catalog
) -> Iterator[tuple[list[str], bool]]:
    """The texts of new values, which may contain subqueries, and whether they may read the table;
    valid within the block.

    Raises:
        InvalidArgumentError: as in `on_spark`.
    """
    catalog.hold(table)
    texts, others = list[str](), False
    with ExitStack() as views:
        for clause in clauses:
            if isinstance(clause, str):
                texts.append(clause)
                continue
            span = clause.token, clause.token + len(clause.tokens)
            words = {token.text.lower() for token in clause.tokens}
            if not words & set(BEGINNINGS):
                texts.append(clause.text)
                continue
            relations = _relations_of(spark, clause.cursor, span, catalog, expression=True)
            others = others or any(not relation.known or _may_be(relation, catalog, table) for relation in relations)
            texts.append(views.enter_context(_with_views(spark, clause.cursor, span, relations, catalog, table))[0])
        yield texts, others


def _may_be(relation: _Relation, catalog: Catalog, table: DeltaTable) -> bool:
    return catalog.data(relation.name) is None and may_be_same(catalog.table(relation.name), table)


@contextmanager
def _with_views(
    spark: SparkSession,
    cursor: Grammar,
    span: tuple[int, int],
    relations: list[_Relation],
    catalog: Catalog,
    table: DeltaTable | None = None,
    *,
    follows: bool = False,
) -> Iterator[tuple[str, Seen | None]]:
    """Replaces known relations in the text of some tokens by views, which are dropped at the
    block's end. If the session resolves the tables itself, the text is unchanged, `table` is pinned
    to its version, and the session records the tables that it reads."""
    views = list[str]()
    position, end = _extent(cursor, span)
    if catalog.by_session:
        from deltaplane.spark.delta_api.relations import reading

        with reading(spark, {} if table is None or follows else {table.location: table.version()}) as seen:
            yield cursor.sql[position:end], seen
        return
    text = ""
    try:
        for relation in relations:
            if not relation.known:
                continue
            view = f"deltaplane_{uuid.uuid4().hex}"
            with cursor.located(relation.name.token):
                frame_of(spark, relation.name, catalog, follows=follows).createOrReplaceTempView(view)
            views.append(view)
            text += cursor.sql[position : relation.begin] + view + _alias(cursor, relation.name, relation.end)
            position = relation.end
        yield text + cursor.sql[position:end], None
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def _extent(cursor: Grammar, span: tuple[int, int]) -> tuple[int, int]:
    """Start and end of the text of some tokens, without a semicolon at the statement's end."""
    start, stop = span
    while stop > start and cursor.tokens[stop - 1].text == ";":
        stop -= 1
    tokens = cursor.tokens[start:stop]
    return (tokens[0].start, tokens[-1].end) if tokens else (0, 0)


def frame_of(spark: SparkSession, name: TableName, catalog: Catalog, *, follows: bool = False) -> Any:
    """The rows of a table or of the caller's data, by a name that the catalog knows; with
    `follows`, each query reads the table's newest version.

    Raises:
        InvalidArgumentError: data has no versions.
    """
    from deltaplane.spark.scan.read import newest_frame, read

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
    """An alias for a relation under the caller's name, unless the text contains an alias or allows
    none, as behind TABLE."""
    if name.path is not None or (name.token > 0 and cursor.tokens[name.token - 1].text.lower() == "table"):
        return ""
    i = next((i for i, token in enumerate(cursor.tokens) if token.start >= end), len(cursor.tokens))
    behind = cursor.tokens[i] if i < len(cursor.tokens) else None
    if behind is not None:
        word = behind.text.lower()
        if behind.kind == "quoted" or word == "as" or (behind.kind == "name" and word not in GOES_ON):
            return ""
    return " AS `" + name.parts[-1].replace("`", "``") + "`"


def _relations_of(
    spark: SparkSession, cursor: Grammar, span: tuple[int, int], catalog: Catalog, *, expression: bool = False
) -> list[_Relation]:
    """The relations that some tokens name, except the text's own queries, in the order of the
    text."""
    from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable

    begin, end = _extent(cursor, span)
    try:
        names = Jvm.of(spark).names_of(spark, cursor.sql[begin:end], expression=expression)
    except NativeScanUnavailable:
        return list(_relations(cursor, *span, catalog))
    # If Spark's parser refuses the text, Spark itself runs it in order to raise its own error.
    places = sorted({begin + int(place) for what, place, *_ in names or () if what == "reads" and place != "-1"})
    tokens = {token.start: i for i, token in enumerate(cursor.tokens)}
    relations = []
    for place in places:
        if place in tokens:
            cursor.at = tokens[place]
            relations.append(_relation(cursor, catalog))
    return relations


def _relations(cursor: Grammar, start: int, end: int, catalog: Catalog) -> Iterator[_Relation]:
    """The relations that some tokens name, found by the words before them, except the text's own
    queries."""
    named = _named_queries(cursor, start)
    # A query may begin with FROM.
    levels = [_Level(query=start < end and cursor.tokens[start].text.lower() == "from")]
    cursor.at = start
    while cursor.at < end:
        level, token = levels[-1], cursor.tokens[cursor.at]
        word = token.text.lower() if token.kind in ("name", "op") else ""
        if word == "(":
            # Parentheses behind a name contain a function's arguments.
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
            relation = _relation(cursor, catalog)
            if not relation.known:
                cursor.at = begin + 1
            own = relation.name.path is None and relation.name.parts[-1].lower() in named
            if own and relation.known:
                cursor.wrong(f"expected another name: `{relation.name.shown}` is a query's and a table's", token.start)
            if not own:
                yield relation
            continue
        cursor.at += 1


def _is_distinct_from(cursor: Grammar) -> bool:
    before = [token.text.lower() for token in cursor.tokens[max(cursor.at - 2, 0) : cursor.at]]
    return before in (["is", "distinct"], ["not", "distinct"])


def _begins_relation(cursor: Grammar) -> bool:
    """Whether a relation's name may begin at the next token: behind FROM, JOIN, a comma or a
    parenthesis."""
    before = cursor.tokens[cursor.at - 1].text.lower() if cursor.at else ""
    return cursor.kind() in ("name", "quoted") and before in (*_BEFORE, "table", ",", "(")


def _begins_query(cursor: Grammar, start: int) -> bool:
    """Whether a query may begin at the next token and continue with a name."""
    before = cursor.tokens[cursor.at - 1].text.lower() if cursor.at > start else "("
    return before in ("(", "union", "all", "distinct", "intersect", "except", "minus") and cursor.kind(1) in (
        "name",
        "quoted",
    )


def _relation(cursor: Grammar, catalog: Catalog) -> _Relation:
    """Parses the next relation with its version."""
    token = cursor.at
    parts = cursor.names("a table")
    name = TableName(parts, token=token)
    known = cursor.peek() != "(" and (name.path is not None or catalog.knows(parts))
    if known and not catalog.by_session:
        name = TableName(parts, cursor.version(), token=token)
    return _Relation(name, cursor.tokens[token].start, cursor.tokens[cursor.at - 1].end, known)


def _named_queries(cursor: Grammar, start: int) -> set[str]:
    """The names before AS and a parenthesis, as WITH defines them."""
    names = set()
    for i in range(start, len(cursor.tokens) - 2):
        first, two, three = cursor.tokens[i : i + 3]
        if first.kind in ("name", "quoted") and two.text.lower() == "as" and three.text == "(":
            names.add(first.text.strip("`").lower())
    return names
