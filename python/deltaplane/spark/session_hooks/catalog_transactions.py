"""Transactions over tables of a session's catalog: a block of Python, BEGIN … END in one text, and
BEGIN TRANSACTION … COMMIT over several statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql.types import StructType

from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.io.session_options import in_session, in_transaction
from deltaplane.properties import CommitProperties, Transaction
from deltaplane.queries.grammar import Grammar
from deltaplane.spark.jvm.parsed import Parsed
from deltaplane.spark.jvm.session_catalogs import (
    TRANSACTION,
    catalog_of,
    catalogs_of,
    current_schema,
    full_name,
    open_transaction,
    own_name,
)
from deltaplane.spark.jvm.thread_values import with_thread_value
from deltaplane.spark.session_hooks.catalog_tables import is_path, name_at
from deltaplane.spark.session_hooks.first_words import starting_with
from deltaplane.statements.begin import isolation_of
from deltaplane.statements.common.table_transaction import TableTransaction

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.catalogs import Catalog
    from deltaplane.table.delta_table import DeltaTable

__all__ = [
    "atomic_batch",
    "check_no_values",
    "check_statement",
    "end_session_transaction",
    "transaction",
    "transaction_statement",
]

Run = Callable[[str], object]

_BEGINS = starting_with(r"begin\s+(?:atomic|transaction)|commit|rollback")
# Statements that change nothing.
_READS = starting_with("select|values|table|explain|describe|desc|show", r"\s|\(")

# The open transactions of sessions, by the ids in their settings.
_open: dict[str, TableTransaction] = {}


@contextmanager
def transaction(
    spark: SparkSession, tables: Sequence[str] = (), *, isolation: Literal["serializable", "snapshot"] = "serializable"
) -> Iterator[TableTransaction]:
    """Makes the changes within a `with` block to tables of one of the session's catalogs one
    transaction: statements and DataFrame writes of this thread are committed together at the end of
    the block, or none of them if it raises an exception.

    Args:
        spark: a session with `enable(spark, catalogs=…)`.
        tables: full names of tables that are read at the same instant as the first one that is
            used, as in `deltaplane.transaction`.
        isolation: as in `deltaplane.transaction`.

    Raises:
        InvalidArgumentError: the tables are of several catalogs, or none is named and the session
            has several; or a transaction is open already.
        DeltaConcurrentModificationException: another writer's change conflicts; nothing is
            committed.

    >>> import tempfile
    >>> from deltaplane import Catalog
    >>> from deltaplane import spark as dp
    >>> catalog = Catalog(f"sqlite:///{tempfile.mkdtemp()}/lake.db")
    >>> catalog.create_catalog("main")
    >>> catalog.create_schema("main.bank")
    >>> dp.enable(spark, catalogs={"main": catalog})
    >>> spark.range(3).writeTo("main.bank.accounts").create()
    >>> spark.range(0).writeTo("main.bank.closed").create()
    >>> with dp.transaction(spark) as tx:
    ...     _ = spark.sql("INSERT INTO main.bank.closed SELECT * FROM main.bank.accounts WHERE id = 1")
    ...     _ = spark.sql("DELETE FROM main.bank.accounts WHERE id = 1")
    >>> tx.versions, spark.table("main.bank.accounts").count()
    ({'main.bank.accounts': 1, 'main.bank.closed': 1}, 2)
    >>> dp.disable(spark)
    """
    own = [_own(spark, name) for name in tables]
    with _block(spark, own, own, isolation) as begun:
        yield begun


def atomic_batch(function: Callable[[DataFrame, tuple[str, int]], object], tables: Sequence[str]) -> Any:
    """A function for `foreach_batch` that changes several tables of a catalog exactly once: what
    `function` does with a batch is one transaction, whose commit also records the batch's number.
    A batch that Spark repeats after its commit isn't passed to `function` again.

    Args:
        function: gets the batch, and a pair of the query's id and the batch's number. Its
            statements and writes name the tables; it must not start threads that write.
        tables: full names of the tables; the first one records the batches.

    Raises:
        InvalidArgumentError: no table.

    >>> from deltaplane import spark as dp
    >>> def each(batch, txn):
    ...     batch.writeTo("main.sales.orders").append()
    ...     batch.groupBy("item").count().writeTo("main.sales.counts").append()
    >>> once = dp.atomic_batch(each, ["main.sales.orders", "main.sales.counts"])
    >>> # dp.foreach_batch(stream, once, "/checkpoints/orders")
    """
    names = list(tables)
    if not names:
        raise InvalidArgumentError("atomic_batch needs the names of the tables, the first of which records the batches")

    def each(batch: DataFrame, txn: tuple[str, int]) -> None:
        spark = batch.sparkSession
        first = _own(spark, names[0])
        last = catalog_of(spark, first).table(first).transaction_version(txn[0])
        if last is not None and last >= txn[1]:
            return
        with transaction(spark, names) as begun:
            function(batch, txn)
            begun.write(
                first,
                _no_rows(begun.table(first)),
                commit_properties=CommitProperties(app_transactions=[Transaction(*txn)]),
            )

    return each


def transaction_statement(spark: SparkSession, text: str, run: Run) -> DataFrame | None:
    """Runs BEGIN ATOMIC … END and BEGIN TRANSACTION … COMMIT or ROLLBACK, whose statements `run`
    runs, and the parts of such a transaction in several calls; returns None for other statements.

    Raises:
        SqlSyntaxError: a missing end, or other clauses.
        UnsupportedFeatureError: the session has no catalogs.
        InvalidArgumentError: COMMIT without BEGIN, or a second BEGIN.
    """
    if not _BEGINS.match(text):
        return None
    cursor = Grammar(text, own_queries=False)
    if cursor.peek() in ("commit", "rollback"):
        return _ended(spark, cursor)
    cursor.expect("begin")
    if not catalogs_of(spark):
        raise UnsupportedFeatureError(
            "BEGIN needs a catalog, which commits several tables together: name it in enable(spark, catalogs={…})"
        )
    ends: tuple[str, ...] = ("end",)
    isolation = "serializable"
    if not cursor.take("atomic"):
        cursor.expect("transaction")
        isolation, ends = isolation_of(cursor), ("commit", "rollback")
        cursor.take(";")
        if cursor.at >= len(cursor.tokens):
            return _begun(spark, isolation)
    statements = _statements(cursor, ends)
    rolls_back = not cursor.take(ends[0]) and cursor.take(ends[-1])
    cursor.end()
    with _block(spark, _names(spark, cursor), [], isolation) as begun:
        for statement in statements:
            check_statement(spark, statement)
            run(statement)
        if rolls_back:
            begun.rollback()
    return _changed(spark, begun.versions)


def check_no_values(text: str) -> None:
    """Refuses values for a block's parameters, since its statements run one by one.

    Raises:
        UnsupportedFeatureError: a text that begins a transaction.
    """
    if _BEGINS.match(text):
        raise UnsupportedFeatureError(
            "BEGIN takes no args: run BEGIN TRANSACTION, each statement with its own args, and COMMIT in calls of their own"
        )


def check_statement(spark: SparkSession, text: str) -> None:
    """Refuses a statement that an open transaction can't be responsible for: one that changes
    something else than tables of its catalog.

    Raises:
        UnsupportedFeatureError: such a statement.
    """
    if _READS.match(text) or _BEGINS.match(text) or open_transaction(spark) is None:
        return
    parsed = Parsed.of(spark, text)
    if parsed is not None and not parsed.is_command and not parsed.targets:
        return
    if parsed is not None and parsed.targets:
        others = [".".join(name) for _, name in parsed.targets if full_name(spark, name) is None]
    else:
        # Spark's parser doesn't know the statement, such as OPTIMIZE.
        cursor = Grammar(text, own_queries=False)
        others = [] if _names(spark, cursor) and not _names_path(cursor) else ["it"]
    if others:
        raise UnsupportedFeatureError(
            "a transaction has statements over tables of its catalog only, which are committed together: this statement "
            f"({' '.join(text.split())[:80]}) changes something else; run it before BEGIN or after COMMIT"
        )


def end_session_transaction(spark: SparkSession) -> TableTransaction | None:
    """Takes a session's open transaction, which its caller ends."""
    identifier = spark.conf.get(TRANSACTION, None)
    if identifier is None:
        return None
    spark.conf.unset(TRANSACTION)
    return _open.pop(identifier, None)


@contextmanager
def _block(
    spark: SparkSession, names: Sequence[str], tables: Sequence[str], isolation: str
) -> Iterator[TableTransaction]:
    """A transaction of this thread over a catalog that has some names."""
    _check_none_open(spark)
    with in_session(spark), TableTransaction(_catalog(spark, names), tables, isolation) as begun:
        with in_transaction(begun.id), with_thread_value(spark, TRANSACTION, begun.id):
            yield begun


def _check_none_open(spark: SparkSession) -> None:
    if open_transaction(spark) is not None:
        raise InvalidArgumentError(
            "a transaction is open already, and transactions don't nest: COMMIT or ROLLBACK first"
        )


def _begun(spark: SparkSession, isolation: str) -> DataFrame:
    """Opens a transaction until the session's COMMIT or ROLLBACK."""
    _check_none_open(spark)
    begun = TableTransaction(_catalog(spark, []), (), isolation)
    _open[begun.id] = begun
    spark.conf.set(TRANSACTION, begun.id)
    return spark.createDataFrame([], StructType([]))


def _ended(spark: SparkSession, cursor: Grammar) -> DataFrame:
    commits = cursor.take("commit")
    if not commits:
        cursor.expect("rollback")
    cursor.take("transaction")
    cursor.end()
    begun = end_session_transaction(spark)
    if begun is None:
        raise InvalidArgumentError("no transaction is open in this session: BEGIN TRANSACTION opens one")
    if commits:
        begun.commit()
    else:
        begun.rollback()
    return _changed(spark, begun.versions)


def _changed(spark: SparkSession, versions: Mapping[str, int] | None) -> DataFrame:
    return spark.createDataFrame(sorted((versions or {}).items()), "table string, version bigint")


def _statements(cursor: Grammar, ends: Sequence[str]) -> list[str]:
    """The texts of a block's statements, up to one of the words that end it."""
    statements = []
    while cursor.peek() not in ends:
        first = cursor.at
        while cursor.at < len(cursor.tokens) and cursor.tokens[cursor.at].text != ";":
            cursor.at += 1
        if first >= len(cursor.tokens):
            cursor.expected(" or ".join(word.upper() for word in ends))
        if cursor.at >= len(cursor.tokens):
            cursor.expected("`;` after a statement")
        statements.append(cursor.sql[cursor.tokens[first].start : cursor.tokens[cursor.at].start])
        cursor.at += 1
    return statements


def _names(spark: SparkSession, cursor: Grammar) -> list[str]:
    """The full names of tables of the session's catalogs among a text's names."""
    names, index = set(), 0
    while index < len(cursor.tokens):
        parts = [part.strip("`") for part in name_at(cursor, index)]
        if len(parts) == 3 and own_name(spark, parts[0]) is not None:
            names.add(_own(spark, ".".join(parts)))
        index += max(1, 2 * len(parts) - 1)
    current = current_schema(spark)
    return sorted(names) if names or current is None else [f"{'.'.join(current)}.any"]


def _names_path(cursor: Grammar) -> bool:
    return any(is_path(name_at(cursor, index)) for index in range(len(cursor.tokens)))


def _own(spark: SparkSession, name: str) -> str:
    own = full_name(spark, name)
    if own is None:
        raise InvalidArgumentError(f"{name} isn't a table of one of the session's catalogs: give catalog.schema.table")
    return own


def _catalog(spark: SparkSession, names: Sequence[str]) -> Catalog:
    """The catalog that has all tables of a transaction."""
    current = current_schema(spark)
    known = catalogs_of(spark)
    chosen = [catalog_of(spark, name) for name in names] or ([known[current[0]]] if current else list(known.values()))
    if not chosen:
        raise InvalidArgumentError("a transaction needs a catalog: name it in enable(spark, catalogs={…})")
    if any(catalog.storage_options != chosen[0].storage_options for catalog in chosen):
        raise InvalidArgumentError(
            "a transaction has tables of one catalog, and the session has several: USE one of them first, or name its "
            "tables in one text"
        )
    return chosen[0]


def _no_rows(table: DeltaTable) -> pa.Table:
    """No rows of the columns that a writer gives values for."""
    columns = [
        field
        for field in table.schema().fields
        if not any(key.startswith(("delta.identity.", "delta.generationExpression")) for key in field.metadata)
    ]
    import pyarrow as pa

    schema = pa.schema(table.schema().to_arrow())
    return schema.empty_table().select([field.name for field in columns])
