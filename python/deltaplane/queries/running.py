"""Runs a planned query in DuckDB: passes it the rows of the sources, and returns the result as a
stream of Arrow batches.

DuckDB receives generated text and generated names only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.duckdb_engine import Memory, spilling
from deltaplane.exceptions import DeltaError, QueryCancelledError, UnsupportedExpressionError
from deltaplane.expr.duckdb_values import (
    arrow_reader,
    arrow_type,
    disable_optimizers,
    explained,
    is_interrupt,
    is_of_values,
    register_rows,
    returned,
    values_for_duckdb,
    zoneless,
)
from deltaplane.expr.program import context_at
from deltaplane.expr.types import SparkType
from deltaplane.queries.binding import Conversion, Planned
from deltaplane.queries.cursor import Cursor
from deltaplane.queries.engines import connected
from deltaplane.queries.metadata_aggregates import FileFacts, from_log
from deltaplane.queries.parquet.scan import parquet_scan
from deltaplane.queries.plan import Column, Source
from deltaplane.queries.planning import Planner
from deltaplane.queries.results.background import BackgroundBatches, Channel
from deltaplane.queries.results.explaining import explained_tables
from deltaplane.queries.results.query_result import QueryResult
from deltaplane.queries.scopes import condition_texts
from deltaplane.queries.sources import Catalog, DeltaSource, SourceRows
from deltaplane.queries.syntax import Query

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["Prepared", "bounded", "opened", "prepared"]

# Maximum number of rows of a result's batch.
_ROWS_AT_ONCE = 1 << 17
# Optimizer rules that evaluate no value on rows which a filter or CASE would have excluded.
_KEEPING_ORDER = frozenset(
    """
    build_side_probe_side column_lifetime deliminator empty_result_pullup in_clause join_order limit_pushdown top_n
    unnest_rewriter unused_columns
    """.split()
)
# Rules that move, merge and order conditions, or the rows between them.
_MOVING_CONDITIONS = frozenset(
    """
    common_aggregate common_subplan compressed_materialization cte_filter_pusher cte_inlining duplicate_groups
    filter_pullup filter_pushdown join_elimination join_filter_pushdown late_materialization materialized_cte
    outer_join_simplification redundant_order_keys regex_range reorder_filter row_group_pruner
    """.split()
)
# A source's name in a statement, or a quoted part, which may contain a similar text.
_NAME = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\b(s\d+)\b""")


class Prepared:
    """A query that is bound to its tables but not run yet."""

    def __init__(self, catalog: Catalog, planner: Planner, planned: Planned, memory: Memory | None = None) -> None:
        self._catalog = catalog
        self._planner = planner
        self._planned = planned
        self._memory = memory or Memory()

    @property
    def names(self) -> list[str]:
        """Names of the result's columns."""
        return [column.name for column in self._planned.columns]

    @property
    def types(self) -> list[SparkType | None]:
        """Types of the result's columns."""
        return [column.type for column in self._planned.columns]

    def stored(self, types: Sequence[SparkType], convert: Conversion) -> Prepared:
        """The same query with its columns converted."""
        planned = self._planner.stored(self._planned, types, convert)
        return Prepared(self._catalog, self._planner, planned, self._memory)

    def run(self) -> pa.Table:
        """All rows of the result.

        Raises:
            InvalidArgumentError: a row for which Spark fails too (overflow, division by zero, an
                impossible cast).
            UnsupportedExpressionError: a row without a known exact value; or the extra `local` is
                missing.
            FileMissingError, CorruptFileError: an error while reading; names the file.
        """
        return self.result().to_arrow()

    def result(self) -> QueryResult:
        """The rows of the result, which are computed while they are read. Errors are those of
        `run`."""
        import pyarrow as pa

        text, facts_of = self._text()
        facts = [(fact.name, table) for fact, table in facts_of]
        types = [arrow_type(of_column(column)) for column in self._planned.columns]
        schema = pa.schema([pa.field(name, t) for name, t in zip(self.names, types, strict=True)])
        return QueryResult(schema, lambda: BackgroundBatches(lambda to: self._compute(text, facts, schema, to)))

    def explain(self, *, statement: bool = False) -> str:
        """Which files of each table the query reads and why, and DuckDB's plan; with `statement`
        also the text that DuckDB gets."""
        text, facts = self._text()
        held = [(fact.name, table) for fact, table in facts]
        try:
            plan, scanned = self._plan(text, held, by_duckdb=True)
        except _UnreadableError:
            plan, scanned = self._plan(text, held, by_duckdb=False)
        tables = explained_tables(self._planner.sources, self._catalog.opened, [fact for fact, _ in facts], scanned)
        parts = [("Tables", tables or "none"), ("DuckDB's plan", plan.rstrip())]
        if statement:
            parts.append(("DuckDB's statement", text))
        return "\n\n".join(f"== {title} ==\n{part}" for title, part in parts)

    def _plan(self, text: str, held: Sequence[tuple[str, pa.Table]], *, by_duckdb: bool) -> tuple[str, set[str]]:
        """DuckDB's plan, and the relations whose files DuckDB reads."""
        scanned: set[str] = set()
        with (
            spilling(self._memory) as config,
            opened(self._planner, self._catalog, text, held, reads_files=by_duckdb, scanned=scanned, **config) as (
                connection,
                statement,
            ),
        ):
            plan: str = connection.sql(f"EXPLAIN {statement}").fetchall()[0][1]
        return plan, scanned

    def _text(self) -> tuple[str, list[tuple[FileFacts, pa.Table]]]:
        with bounded():
            node, facts = from_log(self._planned.node, self._catalog.opened)
            return self._planner.text(self._planned, node), facts

    def _compute(self, text: str, facts: Sequence[tuple[str, pa.Table]], schema: pa.Schema, channel: Channel) -> None:
        """Computes the rows, in a thread of their own."""
        started = False
        try:
            waiting: list[pa.RecordBatch] = []
            for batch in self._read(text, facts, schema, channel, by_duckdb=True):
                waiting.append(batch)
                # DuckDB fills all batches but the last one. That waits for the end of the query, so
                # that a reader who leaves after it doesn't interrupt what is done.
                if batch.num_rows < _ROWS_AT_ONCE and len(waiting) == 1:
                    continue
                for each in waiting:
                    channel.put(each)
                    started = True
                waiting.clear()
            for each in waiting:
                channel.put(each)
        except _UnreadableError as e:
            # Deltaplane's own reader names the file and the reason, or reads it.
            if started:
                self._raise_reader_error()
                raise explained(e.__cause__ if isinstance(e.__cause__, Exception) else e) from e
            for batch in self._read(text, facts, schema, channel, by_duckdb=False):
                channel.put(batch)

    def _read(
        self,
        text: str,
        facts: Sequence[tuple[str, pa.Table]],
        schema: pa.Schema,
        channel: Channel,
        *,
        by_duckdb: bool,
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with (
            spilling(self._memory) as config,
            opened(self._planner, self._catalog, text, facts, reads_files=by_duckdb, **config) as (
                connection,
                statement,
            ),
            channel.interruptible(connection.interrupt),
        ):
            for batch in arrow_reader(connection.sql(statement), _ROWS_AT_ONCE):
                columns = zip(batch.columns, self._planned.columns, strict=True)
                arrays = [returned(values, of_column(column)) for values, column in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _raise_reader_error(self) -> None:
        """Reads the tables without DuckDB, for the error that names the file and the reason."""
        for source in self._planner.sources:
            rows = self._catalog.opened[source.name]
            if isinstance(rows, DeltaSource):
                columns = [source.fields[id] for id in source.needed]
                for _ in rows.batches(columns, condition_texts(source)):
                    pass


def of_column(column: Column) -> SparkType:
    """The type of a result's column, which has one."""
    assert column.type is not None
    return column.type


def prepared(query: Query, cursor: Cursor, catalog: Catalog, memory: Memory | None = None) -> Prepared:
    """Binds a query to its tables; reads only their logs."""
    planner = Planner(cursor, catalog, context_at("UTC", time.time_ns() // 1000))
    with bounded():
        return Prepared(catalog, planner, planner.plan(query), memory)


@contextmanager
def opened(
    planner: Planner,
    catalog: Catalog,
    text: str,
    held: Sequence[tuple[str, pa.Table]] = (),
    *,
    reads_files: bool = False,
    scanned: set[str] | None = None,
    **config: str | bool | int,
) -> Iterator[tuple[Any, str]]:
    """A DuckDB connection with the relations and functions that the text of a plan uses, and with
    suitable optimizer rules; and the statement, with scans of files in place of their sources'
    names.

    `held` are further relations. With `reads_files` DuckDB reads files itself where it can, and
    `_UnreadableError` is raised if that fails; `scanned` gets the names of these relations. The
    block may only run queries on the connection.
    """
    streams: list[_Stream] = []
    scans: dict[str, str] = {}
    with connected(config) as engine:
        connection = engine.connection
        try:
            # Subqueries may be planned several times, so not every source is used.
            used = {name for name in _NAME.findall(text) if name}
            for source in planner.sources:
                if source.name not in used:
                    continue
                rows = catalog.opened[source.name]
                scan = _scan(connection, source, rows) if reads_files else None
                if scan is None:
                    streams.append(_Stream(source, rows))
                else:
                    scans[source.name] = scan
            if scanned is not None:
                scanned.update(scans)
            disable_optimizers(connection, _unwanted(connection, planner))
            for stream in streams:
                register_rows(connection, stream.name, stream, stream.schema)
            for name, table in (*held, *planner.held):
                register_rows(connection, name, table, table.schema)
            engine.make_functions(text)
            yield connection, _with_scans(text, scans)
        except (_UnreadableError, QueryCancelledError):
            raise
        except Exception as e:
            if is_interrupt(e):
                raise QueryCancelledError("the query was cancelled") from e
            for stream in streams:
                stream.raise_error()
            if reads_files and scans and not is_of_values(e):
                raise _UnreadableError from e
            raise explained(e) from e


def _with_scans(text: str, scans: Mapping[str, str]) -> str:
    """A statement with these scans instead of views of their names: to create a view DuckDB opens
    its files, which it does for the statement again."""

    def scan(match: re.Match[str]) -> str:
        name = match[1]
        return f"({scans[name]}) AS {name}" if name in scans else match[0]

    return _NAME.sub(scan, text)


class _UnreadableError(Exception):
    """DuckDB couldn't read a file itself."""


def _scan(connection: Any, source: Source, rows: SourceRows) -> str | None:
    if not isinstance(rows, DeltaSource):
        return None
    import duckdb
    import pyarrow as pa

    try:
        return parquet_scan(connection, source, rows, condition_texts(source))
    except (duckdb.Error, pa.ArrowException, DeltaError, OSError) as e:
        raise _UnreadableError from e


@contextmanager
def bounded() -> Iterator[None]:
    """Refuses, within its block, queries that are nested too deeply."""
    try:
        yield
    except RecursionError as e:
        raise UnsupportedExpressionError(
            "the query is nested too deeply for the embedded engine: give parts of it names with WITH, or give spark="
        ) from e


def _unwanted(connection: Any, planner: Planner) -> list[str]:
    if not planner.can_fail:
        return []
    every = [name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
    # DuckDB evaluates filters in one place in any order, so a guarded filter that can fail must
    # stay in its place.
    wanted = _KEEPING_ORDER if planner.filters_can_fail else _KEEPING_ORDER | _MOVING_CONDITIONS
    if planner.guards:
        # Pulls conditions up over those that can fail, before it pushes them down again.
        wanted -= {"filter_pullup"}
    return [name for name in every if name not in wanted]


class _Stream:
    """A source for DuckDB; each scan reads the source again."""

    def __init__(self, source: Source, rows: SourceRows) -> None:
        import pyarrow as pa

        self.name = source.name
        self._rows = rows
        wanted: Mapping[str, Any] = {f.name: f.type for f in pa.schema(_native.TableSchema(rows.schema_json))}
        self._columns = [source.fields[id] for id in source.needed]
        fields = [pa.field(id, zoneless(wanted[source.fields[id]])) for id in source.needed]
        self.schema = pa.schema([pa.field("r", pa.int8()), *fields])
        self._conditions = condition_texts(source)
        self._error: DeltaError | None = None

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches_with_errors()).__arrow_c_stream__(
            requested_schema
        )

    def _batches_with_errors(self) -> Iterator[pa.RecordBatch]:
        # An Arrow stream transports only the text of an error, so the exception is stored here.
        try:
            yield from self._batches()
        except DeltaError as e:
            self._error = e
            raise

    def _batches(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in self._rows.batches(self._columns, self._conditions):
            arrays = [pa.nulls(batch.num_rows, pa.int8())]
            types = [f.type for f in self.schema][1:]
            arrays += [values_for_duckdb(values, to) for values, to in zip(batch.columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def raise_error(self) -> None:
        """Raises the error that ended one of the reads, if any."""
        if self._error is not None:
            raise self._error from None
