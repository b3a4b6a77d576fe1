"""The result of a statement: rows that are computed while they are read, or a table in memory.

Knows no engine: another module starts the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidTypeError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["QueryResult", "RunningQuery"]


class RunningQuery(Protocol):
    """A query that computes batches in the background."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches; ends the query where the reader leaves."""

    def cancel(self) -> None:
        """Ends the query; a thread that reads gets `QueryCancelledError`."""

    def close(self) -> None:
        """Ends the query and waits until it has ended."""


@checked()
class QueryResult:
    """The rows of a statement, which any Arrow library accepts: `pl.DataFrame(result)`,
    `duckdb.from_arrow(result)`, `pa.table(result)`.

    Iterating, `batches` and `to_reader` hold a few batches in memory while the query runs. All
    other methods and attributes are those of the `pyarrow.Table` with all rows (`num_rows`,
    `to_pylist`, `result["column"]`), which is made when the first of them is used and kept. Each
    stream after the first runs the query again, over the same versions of the tables.

    Raises:
        QueryCancelledError: in the reading thread, after `cancel` in another one.
        DeltaError: as `deltaplane.sql` for a row behind the first batch. Libraries that read the
            stream in C raise their own errors with this text.

    >>> import deltaplane
    >>> result = deltaplane.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(x, k)")
    >>> [batch.num_rows for batch in result], result.fetchall(), result["k"].to_pylist()
    ([2], [(1, 'a'), (2, 'b')], ['a', 'b'])
    """

    def __init__(self, schema: pa.Schema, start: Callable[[], RunningQuery]) -> None:
        """Starts the query and waits for its first rows, so that their errors are raised here."""
        self._schema = schema
        self._start = start
        self._table: pa.Table | None = None
        # The runs that some stream still reads, for `cancel`.
        self._runs: WeakSet[RunningQuery] = WeakSet()
        self._begun: tuple[RunningQuery, Iterator[pa.RecordBatch]] | None = self._begin()

    @classmethod
    def of(cls, table: pa.Table) -> QueryResult:
        """The result that has these rows.

        Raises:
            InvalidTypeError: `table` is no `pyarrow.Table`.
        """
        _check_table(table, "of: table")
        made = cls.__new__(cls)
        made._schema, made._table, made._begun, made._runs = table.schema, table, None, WeakSet()
        return made

    def _begin(self) -> tuple[RunningQuery, Iterator[pa.RecordBatch]]:
        running = self._start()
        self._runs.add(running)
        batches = iter(running)
        return running, chain(list(islice(batches, 1)), batches)

    # --- streams ------------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows, without reading any."""
        return self._schema

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, without reading any row."""
        return list(self._schema.names)

    def batches(self) -> Generator[pa.RecordBatch]:
        """The rows as record batches, one after the other."""
        if self._table is not None:
            yield from self._table.to_batches()
            return
        (running, batches), self._begun = self._begun or self._begin(), None
        try:
            yield from batches
        finally:
            running.close()

    __iter__ = batches

    def to_reader(self, max_chunksize: int | None = None) -> pa.RecordBatchReader:
        """A `pyarrow.RecordBatchReader`, which reads on demand; `max_chunksize` is the maximum
        number of rows of a batch."""
        import pyarrow as pa

        batches: Iterable[pa.RecordBatch] = self.batches()
        if max_chunksize is not None:
            batches = _sliced(batches, max_chunksize)
        return pa.RecordBatchReader.from_batches(self._schema, batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def cancel(self) -> None:
        """Ends the query in all of its streams, from any thread: one that reads rows gets
        `QueryCancelledError`."""
        for running in list(self._runs):
            running.cancel()

    # --- all rows -----------------------------------------------------------------------------------------------------

    def to_arrow(self) -> pa.Table:
        """All rows as a `pyarrow.Table`, which this object keeps."""
        import pyarrow as pa

        if self._table is None:
            self._table = pa.Table.from_batches(self.batches(), self._schema)
        return self._table

    # The method's name in `pyarrow.RecordBatchReader`.
    read_all = to_arrow

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """All rows as a pandas DataFrame; `options` are those of `pyarrow.Table.to_pandas`."""
        frame: pd.DataFrame = self.to_arrow().to_pandas(**options)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values."""
        return list(zip(*(column.to_pylist() for column in self.to_arrow().columns), strict=True))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and name not in ("__dataframe__", "_repr_html_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.to_arrow(), name)

    def __getitem__(self, key: Any) -> Any:
        return self.to_arrow()[key]

    def __len__(self) -> int:
        return len(self.to_arrow())

    def __bool__(self) -> bool:
        return len(self) > 0

    def equals(self, other: QueryResult | pa.Table, **options: Any) -> bool:
        """Whether another result or table has the same columns and rows in the same order;
        `options` are those of `pyarrow.Table.equals`.

        Raises:
            InvalidTypeError: `other` is neither.
        """
        table = other.to_arrow() if isinstance(other, QueryResult) else other
        _check_table(table, "equals: other")
        return bool(self.to_arrow().equals(table, **options))

    def __eq__(self, other: object) -> bool:
        return bool(self.to_arrow() == (other.to_arrow() if isinstance(other, QueryResult) else other))

    __hash__ = None  # type: ignore[assignment]  # As a table, which has no hash either.

    def __reduce__(self) -> tuple[Callable[[pa.Table], QueryResult], tuple[pa.Table]]:
        return QueryResult.of, (self.to_arrow(),)

    def __repr__(self) -> str:
        return f"QueryResult({', '.join(self.column_names)})"


def _check_table(value: object, argument: str) -> None:
    import pyarrow as pa

    if not isinstance(value, pa.Table):
        raise InvalidTypeError(f"QueryResult.{argument} is a table, not a {type(value).__name__}")


def _sliced(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)
