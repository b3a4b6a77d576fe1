"""The data source's streaming reader: offsets, bounds and splits of new rows, in Spark's public
Python API only.

One of it stays in a worker on the driver for as long as the query runs; tasks get a scan and a
split.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from deltaplane import _native
from deltaplane.exceptions import DeltaError, SchemaMismatchError
from deltaplane.spark.datasource.split_scan import SPLIT_BYTES, SplitScan
from deltaplane.spark.datasource.stream_columns import FollowedTable
from deltaplane.spark.datasource.stream_offsets import between, initial, moved, place
from deltaplane.spark.datasource.stream_options import StreamOptions
from deltaplane.spark.errors.spark_errors import with_condition
from deltaplane.spark.jvm.schema import shown
from deltaplane.table.follow import limits

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamReader"]

P = ParamSpec("P")
T = TypeVar("T")


def _with_condition(method: Callable[P, T]) -> Callable[P, T]:
    """A method whose errors say delta-spark's condition in their text, which is all that Spark
    keeps of them."""

    @functools.wraps(method)
    def named(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except DeltaError as e:
            raise with_condition(e, f"TableSource.{method.__name__}") from e.__cause__

    return named


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """New rows of a table, micro-batch by micro-batch."""

    def __init__(self, location: str, store: dict[str, str] | None, options: StreamOptions, schema: StructType) -> None:
        self._location = location
        self._store = store
        self._options = options
        # The table's columns as they were when the query was defined.
        self._columns = schema
        self._until: int | None = None
        self._begins: str | None = None
        self._opened: FollowedTable | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}

    def _table(self) -> FollowedTable:
        if self._opened is None:
            table = FollowedTable(self._location, self._store, self._options)
            snapshot = table.tail.snapshot
            now = StructType.fromJson(shown(self._table_schema(snapshot).to_value()))
            # Text without nullability, of which Spark keeps less than the table.
            if now.simpleString() != self._columns.simpleString():
                raise SchemaMismatchError(
                    "the table's columns changed since the query was defined: define and start it again to go on with "
                    "the new ones",
                    table=self._location,
                    version=snapshot.version,
                )
            self._opened = table
        return self._opened

    def _table_schema(self, snapshot: _native.Snapshot) -> _native.TableSchema:
        return snapshot.change_schema() if self._options.read_change_feed else snapshot.schema

    @_with_condition
    def initialOffset(self) -> dict[str, str]:
        """Where a new query begins; stays as it was until there is a first batch."""
        if self._begins is None:
            self._begins = self._table().tail.start(self._options.start)
        return initial(self._begins)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say of a micro-batch; where they bound both files and bytes,
        `latestOffset` heeds both."""
        if self._options.max_files is not None:
            return ReadMaxFiles(self._options.max_files)
        return ReadMaxBytes(self._options.max_bytes or 0)

    @_with_condition
    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """Where the next micro-batch ends."""
        taken = limits() if isinstance(limit, ReadAllAvailable) else self._options.limits
        table = self._table()
        table.begin(None, place(start), resumed="end" in start)
        end = table.tail.end(place(start), taken, self._until)
        if end == place(start):
            table.stop_before_others(None, end, self._until)
        return moved(start, end)

    @_with_condition
    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends with the version that is the newest one now."""
        self._until = self._table().tail.newest_version()

    @_with_condition
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The files with the rows between two offsets, in splits."""
        table = self._table()
        first, last = between(start, end)
        # A batch without rows may stand where the log hasn't come to yet.
        if first == last or not table.begin_with(None, first, last):
            return []
        tail = table.tail
        scan = SplitScan.of(tail.snapshot, self._store, self._columns, changes=self._options.read_change_feed)
        splits = tail.splits(first, last, SPLIT_BYTES)
        return [InputPartition((scan, split)) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        scan, split = partition.value
        rows: Iterator[pa.RecordBatch] = scan.rows(split)
        return rows
