"""The embedded engine: DuckDB over streams of Arrow batches, with bounded memory and a private
directory for spilled rows.

Uses relations and their types; reads no table and no log.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import DeltaError, InternalError, InvalidArgumentError
from deltaplane.expr.duckdb_values import (
    arrow_reader,
    connect,
    disable_optimizers,
    explained,
    register_rows,
    values_for_duckdb,
    zoneless,
)
from deltaplane.expr.functions.core_functions import register

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa

__all__ = ["LocalEngine", "Memory", "memory_bytes", "size_bytes"]

# Disabled optimizer rules. Rules for expressions move repeated parts out of TRY, and turn
# `x + 1 > 0` into a test that can't overflow. Rules for joins swap sides: the right side must be
# the one in memory, whatever DuckDB estimates for a stream's length.
_UNWANTED = (
    "common_subexpressions",
    "expression_rewriter",
    "statistics_propagation",
    "join_order",
    "build_side_probe_side",
)
# DuckDB uses some 15 to 22 % more memory than its limit.
_HEADROOM = 0.8
_ROWS_AT_ONCE = 1 << 16
_MEMORY_OF_THREADS = 500_000_000
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 1 << 10, "MIB": 1 << 20}
_UNITS |= {"GIB": 1 << 30, "TIB": 1 << 40}


def memory_bytes(limit: int | str) -> int:
    """A memory limit in bytes.

    Raises:
        InvalidArgumentError: neither a number of bytes nor a text such as `500MB` or `2GiB`; or
            less than 16 MB.

    >>> memory_bytes("1.5 GB"), memory_bytes(64_000_000)
    (1500000000, 64000000)
    """
    size = size_bytes(limit, "memory_limit")
    if size < 16_000_000:
        raise InvalidArgumentError(f"memory_limit is {limit}, but joins need 16 MB at least")
    return size


def size_bytes(size: int | str, name: str) -> int:
    """A size in bytes, from a number or a text.

    Raises:
        InvalidArgumentError: neither a number of bytes nor a text such as `500MB` or `2GiB`; the
            message has the argument's name.

    >>> size_bytes("2 KiB", "budget")
    2048
    """
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]{0,3})\s*", str(size))
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise InvalidArgumentError(f"{name} is a number of bytes or a text such as '500MB', not {size!r}")
    return int(float(match[1]) * unit)


@dataclass(frozen=True)
class Memory:
    """The memory and disk limits of a command.

    `limit`: bytes of memory, or a text such as `500MB`, beyond which rows go to disk; None means 80
    % of the machine's memory. `directory`: the directory for these rows; None means the system's
    temporary directory. `on_disk_bytes`: maximum bytes on disk.
    """

    limit: int | str | None = None
    directory: str | None = None
    on_disk_bytes: int | None = None


def _engine_limit(limit: int | str) -> str:
    return f"{int(memory_bytes(limit) * _HEADROOM)}B"


@contextmanager
def spilling(memory: Memory) -> Iterator[dict[str, Any]]:
    """The settings of a DuckDB connection for these limits. Rows beyond them go to a private
    directory, which is deleted at the end of the block.

    Raises:
        InvalidArgumentError: the limit is no size, or no such directory can be made.
    """
    config: dict[str, Any] = {}
    if memory.on_disk_bytes is not None:
        config["max_temp_directory_size"] = f"{memory.on_disk_bytes}B"
    if memory.limit is not None:
        config["memory_limit"] = _engine_limit(memory.limit)
        # Each thread holds blocks of its own.
        if memory_bytes(memory.limit) < _MEMORY_OF_THREADS:
            config["threads"] = 1
    try:
        directory = tempfile.TemporaryDirectory(prefix="deltaplane-", dir=memory.directory)
    except OSError as e:
        where = memory.directory or tempfile.gettempdir()
        raise InvalidArgumentError(
            f"no directory for rows that memory doesn't hold can be made in {where} ({e.strerror}): name another by temp_directory"
        ) from e
    with directory as path:
        yield {**config, "temp_directory": path}


class LocalEngine:
    """One command's session. Columns of relations are named `c0`, `c1`, …, so that users' names
    can't collide.

    >>> import pyarrow as pa
    >>> with LocalEngine() as engine:
    ...     data = pa.table({"any name": [3, 1]})
    ...     engine.adopt("s", data.to_batches(), data.schema)
    ...     engine.count("SELECT sum(c0) FROM s"), engine.values("SELECT max(c0) FROM s").to_pylist()
    (4, [3])
    """

    def __init__(self, memory: Memory | None = None) -> None:
        memory = memory or Memory()
        self._limit = None if memory.limit is None else _engine_limit(memory.limit)
        self._stack = ExitStack()
        config = self._stack.enter_context(spilling(memory))
        config["preserve_insertion_order"] = False
        self._connection = connect(**config)
        disable_optimizers(self._connection, _UNWANTED)
        self._functions: set[str] = set()
        self._failed: list[DeltaError] = []

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._stack.close()

    def adopt(self, name: str, rows: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Stores a user's rows in a table, once for any number of uses, since streams can't be read
        again.

        The table has the additional column `rowid`, the number of the row.
        """
        reader = self._converted(rows, schema)
        self._connection.register(name + "_given", reader)
        self.run(f"CREATE TABLE {name} AS SELECT * FROM {name}_given")
        self._connection.unregister(name + "_given")

    def stream(self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Makes batches a relation that can be read once. Their columns, by position, are converted
        to those of the schema.

        Instants become timestamps without a zone, in UTC.
        """
        reader = self._converted(batches, schema)
        register_rows(self._connection, name, reader, reader.schema)

    def _converted(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatchReader:
        import pyarrow as pa

        to = pa.schema([(f"c{i}", zoneless(f.type)) for i, f in enumerate(schema)] or [("c0", pa.int32())])
        return pa.RecordBatchReader.from_batches(to, self._storing_errors(_as(batch, to) for batch in batches))

    def run(self, sql: str) -> None:
        """Runs a statement and ignores its result."""
        with self._explaining():
            register(self._connection, sql, self._functions)
            self._connection.execute(sql)

    def count(self, sql: str) -> int:
        """The single number of a query's result."""
        (number,) = self.counts(sql)
        return number

    def counts(self, sql: str) -> tuple[int, ...]:
        """The single row of a query's result, of integers."""
        (row,) = self.count_rows(sql)
        return row

    def count_rows(self, sql: str) -> list[tuple[int, ...]]:
        """A small result of integers. Other values are returned as Arrow (`values`), because DuckDB
        returns other types for dates and timestamps outside of Python's calendar.

        Raises:
            InternalError: a value isn't an integer.
        """
        with self._explaining():
            register(self._connection, sql, self._functions)
            rows: list[tuple[Any, ...]] = self._connection.execute(sql).fetchall()
        if not all(isinstance(value, int) for row in rows for value in row):
            raise InternalError("a query for counts has other values than whole numbers")
        return rows

    def values(self, sql: str) -> pa.ChunkedArray:
        """The single column of a small result."""
        reader = self.reader(sql)
        with self._explaining():
            return reader.read_all().column(0)

    def reader(self, sql: str) -> pa.RecordBatchReader:
        """Streams the rows of a query that can't fail; until the end the engine accepts no other
        query."""
        with self._explaining():
            register(self._connection, sql, self._functions)
            return arrow_reader(self._connection.sql(sql), _ROWS_AT_ONCE)

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Streams the rows of a query; until the end the engine accepts no other query."""
        reader, joined = self.reader(sql), False
        try:
            while True:
                with self._explaining():
                    batch = next(reader, None)
                if batch is None:
                    return
                if not joined:
                    # The consumer of the rows needs memory now, and the memory for sorting and
                    # joining is free.
                    self._release()
                    joined = True
                yield batch
        finally:
            reader.close()

    def _release(self) -> None:
        """Returns freed memory to the operating system, which DuckDB would retain for longer; also
        while a query runs."""
        import duckdb

        # DuckDB releases memory whenever its limit is set, even to the same value; a failure to do
        # so affects no rows.
        with suppress(duckdb.Error), self._connection.cursor() as beside:
            statement = "RESET memory_limit" if self._limit is None else f"SET memory_limit = '{self._limit}'"
            beside.execute(statement)

    def _storing_errors(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Stores the stream's exception, since an Arrow stream transports only the text of an
        error."""
        try:
            yield from batches
        except DeltaError as e:
            self._failed.append(e)
            raise

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raises the exception that ended a stream, or converts DuckDB's own error to the
        user's."""
        try:
            yield
        except Exception as e:
            if self._failed:
                raise self._failed[-1] from self._failed[-1].__cause__
            if "Out of Memory" in str(e):
                raise InvalidArgumentError(
                    "the rows to be joined need more than memory_limit, also with disk: raise it"
                ) from e
            raise explained(e) from e


def _as(batch: pa.RecordBatch, to: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = batch.columns or [pa.nulls(batch.num_rows, pa.int32())]
    return pa.RecordBatch.from_arrays(
        [values_for_duckdb(c, f.type) for c, f in zip(columns, to, strict=True)], schema=to
    )
