"""Statements in Spark SQL over Delta tables: `deltaplane.sql`.

One file per statement, found by itself: a module's `STATEMENT` or `STATEMENTS`. A statement is read
whole before anything of it is run, so that wrong text changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from deltaplane.arguments import checked
from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.expr.quoting import spark_texts
from deltaplane.io.storage_options import StorageOptions
from deltaplane.names import modules_in
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.sources import Catalog
from deltaplane.statements.common.statement import Command, Rehearsable, Session, Statement

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from deltaplane.commands.dry_run import DryRun

__all__ = ["STATEMENTS", "command_of", "find_statements", "sql"]


def find_statements() -> tuple[Statement, ...]:
    """The statements of all files in this folder; of two that begin alike the longer one comes
    first."""
    statements: list[Statement] = []
    for module in modules_in(__name__, __path__):
        statements += getattr(module, "STATEMENTS", ()) or [s for s in [getattr(module, "STATEMENT", None)] if s]
    return tuple(sorted(statements, key=lambda statement: -len(statement.words)))


STATEMENTS = find_statements()
# What Spark or delta-spark has and this version hasn't: what to use instead.
_ABSENT = {
    "analyze": "statistics stand in the table's log, and every write keeps them",
    "cache": "cache() a frame of the table",
    "clear": "",
    "drop": "delete the table's folder",
    "explain": "use DeltaTable.explain for what a scan reads",
    "from": "begin the query with SELECT, or the statement with INSERT",
    "msck": "the log says which partitions there are; FSCK REPAIR TABLE takes out files that are gone",
    "refresh": "",
    "set": "",
    "uncache": "unpersist() the frame that was cached",
    "use": "",
}
# What Spark shows and this version doesn't.
_NOT_SHOWN = (
    "catalogs create current databases functions namespaces procedures schemas system table tables user views"
).split()


@overload
def sql(
    text: str,
    spark: SparkSession | None = None,
    *,
    tables: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    dry_run: Literal[False] = False,
) -> pa.Table: ...
@overload
def sql(
    text: str,
    spark: SparkSession | None = None,
    *,
    tables: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    dry_run: Literal[True],
) -> DryRun: ...
@checked()
def sql(
    text: str,
    spark: SparkSession | None = None,
    *,
    tables: Mapping[str, Any] | None = None,
    storage_options: StorageOptions | None = None,
    dry_run: bool = False,
) -> pa.Table | DryRun:
    """Runs one statement in Spark SQL.

    Tables are written as delta.`their location`, also with a version behind it (delta.`path@v3`),
    or by names from `tables`; `VERSION AS OF 3` and `TIMESTAMP AS OF '2024-01-31'` (UTC) follow
    either. Statements: SELECT (with WITH, joins, also LATERAL ones, PIVOT, groups, windows, set
    operations, subqueries), INSERT, UPDATE, DELETE, MERGE, COPY INTO, CREATE TABLE (also as a
    CLONE, or LIKE another one), REPLACE TABLE, ALTER TABLE, COMMENT ON TABLE, DESCRIBE, DESCRIBE
    HISTORY, DESCRIBE DETAIL, SHOW COLUMNS, SHOW TBLPROPERTIES, OPTIMIZE, REORG, RESTORE, VACUUM,
    CONVERT TO DELTA, FSCK REPAIR TABLE, GENERATE.

    Queries are run by DuckDB (the extra `local`), and only as far as the result is what Spark
    gives; everything else is refused by name. Sums and averages of floating-point numbers depend on
    the order in which rows come, in both. The session's time zone is UTC. A column without a name
    is called by its text; CREATE TABLE … AS asks for a name then. Comments in brackets nest, as in
    Spark.

    Args:
        text: the statement; a semicolon may end it.
        spark: a session that runs queries instead of DuckDB, with all that Spark has: its views and
            tables can be named too. SELECT brings its rows here; those of INSERT and CREATE TABLE …
            AS are written by the executors. MERGE, UPDATE and DELETE are Spark's too, with all of
            its functions; everything else runs without it.
        tables: name → location, `DeltaTable` (read at its version; it shows the new one after a
            change) or Arrow data (read only).
        storage_options: how to reach the stores of tables that are named by their location.
        dry_run: whether to write nothing and tell what INSERT, UPDATE, DELETE, TRUNCATE, MERGE or
            REORG would do, as a `DryRun`. Rows of an INSERT that `spark` has are computed for it by
            the executors.

    Returns:
        The rows of a query. INSERT, UPDATE, DELETE, MERGE and COPY INTO give one row:
        `num_affected_rows`, the command's metrics and the `version` that was made; CREATE, ALTER
        and TRUNCATE the `operation` and the `version`. A version is null where nothing was to
        change.

    Raises:
        SqlSyntaxError: not a statement; says line, column, what was expected and what was found
            there.
        InvalidArgumentError: a name or types that Spark would refuse too, or a row for which it
            fails too.
        UnsupportedExpressionError: what the embedded engine doesn't do as Spark does, by name.
        UnsupportedFeatureError: a statement that this version doesn't have, by name.
        DeltaError: what the API's methods raise for the same call.
        PySparkException: what Spark says of a query that it runs.

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
    >>> deltaplane.sql("DELETE FORM t")
    Traceback (most recent call last):
    deltaplane.exceptions.SqlSyntaxError: line 1, column 8: expected FROM, found `FORM`
    """
    if spark is not None:
        from deltaplane.spark.datasource.session import session_text

        text = session_text(spark, text)
    command, session = command_of(text, spark is None), Session(_catalog(tables, storage_options, spark), spark)
    with nullcontext() if spark is None else spark_texts():
        return _done(command, session, dry_run)


def _done(command: Command, session: Session, dry_run: bool) -> pa.Table | DryRun:
    if not dry_run:
        return command.run(session)
    if not isinstance(command, Rehearsable):
        raise UnsupportedFeatureError(
            "only INSERT, UPDATE, DELETE, MERGE and REORG can be rehearsed: leave dry_run out, or use dry_run of "
            "DeltaTable.alter's methods"
        )
    return command.run_dry(session)


def _catalog(
    tables: Mapping[str, Any] | None, storage_options: StorageOptions | None, spark: SparkSession | None
) -> Catalog:
    if spark is None:
        return Catalog(tables, storage_options)
    from deltaplane.spark.datasource.time_travel import version_at

    return Catalog(tables, storage_options, version_at)


def command_of(text: str, own_queries: bool = True) -> Command:
    """A statement, read whole and not run. `own_queries`: its queries are DuckDB's to run, and
    judged so.

    Raises:
        SqlSyntaxError, UnsupportedFeatureError: as `sql`.
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
