"""The data source's streaming reader: offsets, limits and splits of new rows, with only Spark's
public Python API.

One instance stays in a worker on the driver while the query runs; tasks receive a scan and a split.
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
    """Wraps a method so that its errors contain delta-spark's error condition in their text, since
    Spark retains only the text."""

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
        # The table's columns when the query was defined.
        self._columns = schema
        self._until: int | None = None
        self._begins: _native.TailOffset | None = None
        self._opened: FollowedTable | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}

    def _table(self) -> FollowedTable:
        if self._opened is None:
            table = FollowedTable(self._location, self._store, self._options)
            snapshot = table.tail.snapshot
            now = StructType.fromJson(shown(self._table_schema(snapshot).to_value()))
            # Compares types without nullability, since Spark drops a part of it.
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
        """The offset of a new query; it stays the same until the first batch."""
        if self._begins is None:
            self._begins = self._table().tail.start(self._options.start)
        return initial(self._begins)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of a micro-batch; if the options limit both files and bytes, `latestOffset`
        applies both."""
        if self._options.max_files is not None:
            return ReadMaxFiles(self._options.max_files)
        return ReadMaxBytes(self._options.max_bytes or 0)

    @_with_condition
    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        """The end of the next micro-batch."""
        taken = limits() if isinstance(limit, ReadAllAvailable) else self._options.limits
        table = self._table()
        table.begin(None, place(start), resumed="end" in start)
        begins = place(start)
        end = table.tail.end(begins, taken, self._until)
        if end == begins:
            table.stop_before_others(None, end, self._until)
        return moved(start, end)

    @_with_condition
    def prepareForTriggerAvailableNow(self) -> None:
        """Makes the query end with the version that is the newest at this call."""
        self._until = self._table().tail.newest_version()

    @_with_condition
    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        """The splits of the files with the rows between two offsets."""
        table = self._table()
        first, last = between(start, end)
        # An empty batch may have an offset beyond the newest version.
        if first == last or not table.begin_with(None, first, last):
            return []
        tail = table.tail
        scan = SplitScan.of(
            tail.snapshot, self._location, self._store, self._columns, changes=self._options.read_change_feed
        )
        splits = tail.splits(first, last, SPLIT_BYTES)
        return [InputPartition((scan, split)) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a split."""
        scan, split = partition.value
        rows: Iterator[pa.RecordBatch] = scan.rows(split)
        return rows
