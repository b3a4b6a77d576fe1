"""`deltaplane.sql`: statements in Spark SQL over Delta tables.

Each statement is one file, and its module's `STATEMENT` or `STATEMENTS` registers it. A statement
is parsed completely before it runs, so a syntax error changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from deltaplane.arguments import checked
from deltaplane.commands.duckdb_engine import Memory, memory_bytes
from deltaplane.exceptions import DeltaError, InvalidArgumentError, UnsupportedFeatureError
from deltaplane.expr.quoting import spark_texts
from deltaplane.expr.values.parameters import with_arguments
from deltaplane.io.storage_options import StorageOptions
from deltaplane.io.tracing import traced
from deltaplane.names import modules_in
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.results.query_result import QueryResult
from deltaplane.queries.sources import Catalog
from deltaplane.statements.common.statement import Command, Rehearsable, Session, Statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltaplane import catalogs
    from deltaplane.commands.dry_run import DryRun

__all__ = ["STATEMENTS", "command_of", "find_statements", "sql"]


def find_statements() -> tuple[Statement, ...]:
    """Imports the statements of all files in this folder; of two with a common beginning the longer
    one comes first."""
    statements: list[Statement] = []
    for module in modules_in(__name__, __path__):
        statements += getattr(module, "STATEMENTS", ()) or [s for s in [getattr(module, "STATEMENT", None)] if s]
    return tuple(sorted(statements, key=lambda statement: -len(statement.words)))


STATEMENTS = find_statements()
# Statements of Spark or delta-spark that this version doesn't support, with the replacement to name
# in the error.
_ABSENT = {
    "analyze": "statistics stand in the table's log, and every write keeps them",
    "cache": "cache() a frame of the table",
    "clear": "",
    "drop": "delete the table's folder",
    "msck": "the log says which partitions there are; FSCK REPAIR TABLE takes out files that are gone",
    "refresh": "",
    "set": "",
    "uncache": "unpersist() the frame that was cached",
    "use": "",
}
# SHOW statements of Spark that this version doesn't support.
_NOT_SHOWN = (
    "catalogs create current databases functions namespaces procedures schemas system table tables user views"
).split()


@overload
def sql(
    text: str,
    spark: SparkSession | None = None,
    *,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    tables: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    catalog: catalogs.Catalog | str | None = None,
    dry_run: Literal[False] = False,
    memory_limit: int | str | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> QueryResult: ...
@overload
def sql(
    text: str,
    spark: SparkSession | None = None,
    *,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    tables: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    catalog: catalogs.Catalog | str | None = None,
    dry_run: Literal[True],
) -> DryRun: ...
@checked(catalog="Catalog | str | None")
@traced("SQL", None)
def sql(
    text: str,
    spark: SparkSession | None = None,
    *,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    tables: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    catalog: catalogs.Catalog | str | None = None,
    dry_run: bool = False,
    memory_limit: int | str | None = None,
    temp_directory: str | PathLike[str] | None = None,
) -> QueryResult | DryRun:
    """Runs one statement in Spark SQL.

    Tables are written as delta.`their location`, also with a version behind it (delta.`path@v3`),
    or by names from `tables` or `catalog`; `VERSION AS OF 3` and `TIMESTAMP AS OF '2024-01-31'`
    (UTC) may follow either. Statements: SELECT (with WITH, joins, also LATERAL ones, PIVOT, groups,
    windows, set operations, subqueries), INSERT, UPDATE, DELETE, MERGE, COPY INTO, CREATE TABLE
    (also as a CLONE, or LIKE another one), REPLACE TABLE, ALTER TABLE, COMMENT ON TABLE, DESCRIBE,
    DESCRIBE HISTORY, DESCRIBE DETAIL, SHOW COLUMNS, SHOW TBLPROPERTIES, EXPLAIN, OPTIMIZE, REORG,
    RESTORE, VACUUM, CONVERT TO DELTA, FSCK REPAIR TABLE, GENERATE; over tables of a catalog BEGIN
    ATOMIC … END, and BEGIN TRANSACTION … COMMIT or ROLLBACK (see `transaction`).

    DuckDB (the extra `local`) runs queries, and only expressions for which its result equals
    Spark's; everything else is refused by name. Sums and averages of floating-point numbers depend
    on the order of the rows, in both engines. The session's time zone is UTC. A column without a
    name is named by its text; CREATE TABLE … AS requires a name. Bracketed comments nest, as in
    Spark.

    Args:
        text: the statement, with an optional final semicolon.
        spark: a session that runs queries instead of DuckDB, with all of Spark's functions, views
            and tables. SELECT returns its rows to this process; the executors write the rows of
            INSERT and CREATE TABLE … AS. Spark also evaluates MERGE, UPDATE and DELETE; all other
            statements run without Spark.
        args: values of the statement's parameters: a dict for `:name`, a list for `?`. Values
            become literals, so that no text of theirs is read as SQL. A `datetime` without a time
            zone is a TIMESTAMP_NTZ.
        tables: name → location, `DeltaTable` (read at its version; a change moves it to the new
            version) or Arrow data (read only).
        storage_options: access to the stores of tables that are named by their location.
        catalog: a `deltaplane.Catalog` or its URI, in which all names are found that `tables`
            doesn't have, such as `main.sales.orders`. CREATE TABLE creates a managed table there,
            and with LOCATION an external one.
        dry_run: whether to write nothing and return the planned changes of INSERT, UPDATE, DELETE,
            TRUNCATE, MERGE or REORG as a `DryRun`. With `spark`, the executors compute the rows of
            an INSERT for it.
        memory_limit: bytes, or a text such as `2GB`, beyond which the rows of a query (SELECT,
            WITH, VALUES, TABLE, and those that INSERT and CREATE TABLE … AS write) go to disk. None
            means 80 % of the machine's memory. Batches that the caller keeps don't count. With a
            limit, rows are written while they are computed, except those that INSERT compares with
            the table's rows (REPLACE USING, REPLACE ON).
        temp_directory: the directory in which the query makes a private one for these rows, deleted
            with the end of the query; None means the system's temporary directory.

    Returns:
        The rows of a query, which are computed while they are read: the call returns with the first
        ones, over the tables' versions of that moment, whatever is committed later. As from every
        statement, all attributes of a `pyarrow.Table` are there, too. INSERT, UPDATE, DELETE, MERGE
        and COPY INTO return one row: `num_affected_rows`, the command's metrics and the committed
        `version`; CREATE, ALTER and TRUNCATE return the `operation` and the `version`. The version
        is null if nothing was committed. EXPLAIN (also with EXTENDED or FORMATTED) returns one row
        with the text `plan`.

    Raises:
        SqlSyntaxError: not a statement; the message gives line, column, expectation and the actual
            token.
        InvalidArgumentError: a name or types that Spark would refuse, too, or a row for which Spark
            fails, too.
        UnsupportedExpressionError: the embedded engine can't compute the named construct with
            Spark's result.
        UnsupportedFeatureError: this version doesn't support the named statement.
        DeltaError: an error of the equivalent API method. An error in a row behind the first batch
            is raised where that batch is read.
        PySparkException: Spark refuses or fails a query that it runs.

    >>> import deltaplane
    >>> _ = deltaplane.sql("CREATE TABLE delta.`memory://doc-sql/t` (day DATE NOT NULL, x INT DEFAULT 7)")
    >>> done = deltaplane.sql("INSERT INTO t VALUES (DATE '2024-01-31', 1), ('2024-02-01', DEFAULT)",
    ...     tables={"t": "memory://doc-sql/t"})
    Traceback (most recent call last):
    deltaplane.exceptions.InvalidArgumentError: line 1, column 15: ...
    >>> done = deltaplane.sql("INSERT INTO t VALUES (DATE '2024-01-31', 1), (DATE '2024-02-01', DEFAULT)",
    ...     tables={"t": "memory://doc-sql/t"})
    >>> done.to_pylist()
    [{'num_affected_rows': 2, 'num_inserted_rows': 2, 'version': 1}]
    >>> deltaplane.sql("SELECT sum(x) AS total FROM delta.`memory://doc-sql/t` VERSION AS OF 1").to_pylist()
    [{'total': 8}]
    >>> deltaplane.sql("SELECT x FROM delta.`memory://doc-sql/t` WHERE x > :least", args={"least": 5}).to_pylist()
    [{'x': 7}]
    >>> deltaplane.sql("DELETE FORM t")
    Traceback (most recent call last):
    deltaplane.exceptions.SqlSyntaxError: line 1, column 8: expected FROM, found `FORM`
    """
    if args is not None:
        text = with_arguments(text, args)
    if spark is not None:
        from deltaplane.spark.datasource.session import session_text

        text = session_text(spark, text)
    command, known = command_of(text, spark is None), _catalog(tables, storage_options, spark, catalog)
    session = Session(known, spark, _memory(command, spark, memory_limit, temp_directory))
    with _in_words_of_sql() if spark is None else spark_texts():
        return _done(command, session, dry_run)


@contextmanager
def _in_words_of_sql() -> Iterator[None]:
    """Errors name what a statement can say, instead of arguments of Python."""
    try:
        yield
    except DeltaError as e:
        from deltaplane.report.caller_words import Door, in_words_of

        e.args = tuple(in_words_of(Door.SQL, part) if isinstance(part, str) else part for part in e.args)
        raise


def _memory(
    command: Command,
    spark: SparkSession | None,
    memory_limit: int | str | None,
    temp_directory: str | PathLike[str] | None,
) -> Memory | None:
    if memory_limit is None and temp_directory is None:
        return None
    if spark is not None or not getattr(command, "takes_memory", False):
        raise InvalidArgumentError(
            "memory_limit and temp_directory are for queries that DuckDB runs: methods of DeltaTable have them for commands"
        )
    if memory_limit is not None:
        memory_bytes(memory_limit)
    return Memory(memory_limit, None if temp_directory is None else str(fspath(temp_directory)))


def _done(command: Command, session: Session, dry_run: bool) -> QueryResult | DryRun:
    if not dry_run:
        made = command.run(session)
        return made if isinstance(made, QueryResult) else QueryResult.of(made)
    if not isinstance(command, Rehearsable):
        raise UnsupportedFeatureError(
            "only INSERT, UPDATE, DELETE, MERGE and REORG can be rehearsed: leave dry_run out, or use dry_run of "
            "DeltaTable.alter's methods"
        )
    return command.run_dry(session)


def _catalog(
    tables: Mapping[str, Any] | None,
    storage_options: StorageOptions | None,
    spark: SparkSession | None,
    catalog: catalogs.Catalog | str | None,
) -> Catalog:
    if isinstance(catalog, str):
        from deltaplane.catalogs import Catalog as Named

        catalog = Named(catalog, storage_options=storage_options)
    if spark is None:
        return Catalog(tables, storage_options, names=catalog)
    if catalog is not None:
        raise UnsupportedFeatureError("a Spark session finds names in its own catalogs: leave catalog out")
    from deltaplane.spark.datasource.time_travel import version_at

    return Catalog(tables, storage_options, version_at)


def command_of(text: str, own_queries: bool = True) -> Command:
    """Parses a statement completely without running it. `own_queries`: DuckDB runs its queries, so
    unsupported constructs are refused.

    Raises:
        SqlSyntaxError, UnsupportedFeatureError: as in `sql`.
    """
    cursor = Grammar(text, own_queries=own_queries)
    try:
        statement = _statement(cursor)
        made = statement.read(cursor)
        cursor.end()
    except RecursionError:
        cursor.wrong("nested too deeply: give parts of it names, or columns of their own", 0)
    return made


def _statement(cursor: Grammar) -> Statement:
    for statement in STATEMENTS:
        if cursor.take(*statement.words):
            return statement
    word = cursor.peek()
    if word in _ABSENT:
        _absent(word.upper(), _ABSENT[word], cursor)
    if cursor.take("show"):
        shown = " and ".join(sorted(s.name for s in STATEMENTS if s.words[0] == "show"))
        if cursor.peek() in _NOT_SHOWN:
            what = " TABLE" if (cursor.peek(), cursor.peek(1)) == ("create", "table") else ""
            _absent(f"SHOW {cursor.peek().upper()}{what}", f"there are {shown}", cursor)
        cursor.expected(shown.replace("SHOW ", "").replace(" and ", " or "))
    begins = sorted({s.words[0].upper() for s in STATEMENTS if s.words[0].isalpha()})
    cursor.expected(f"one of {', '.join(begins)}")


def _absent(name: str, advice: str, cursor: Grammar) -> NoReturn:
    line, column = cursor.line_and_column(cursor.tokens[0].start)
    raise UnsupportedFeatureError(
        f"line {line}, column {column}: {name} isn't a statement of this version of deltaplane"
        + (f": {advice}" if advice else "")
    )
