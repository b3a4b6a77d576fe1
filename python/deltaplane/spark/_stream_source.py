"""The data source's streaming reader: offsets, bounds and splits of new rows, in Spark's public Python API only.

One of it stays in a worker on the driver for as long as the query runs; tasks get a scan and a split. Called by Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
from deltaplane.exceptions import SchemaMismatchError
from deltaplane.spark._schema import shown
from deltaplane.spark._split_scan import SPLIT_BYTES, SplitScan
from deltaplane.spark._stream_options import StreamOptions
from deltaplane.tail import limits

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamReader"]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """New rows of a table, micro-batch by micro-batch."""

    def __init__(self, location: str, store: dict[str, str] | None, options: StreamOptions, schema: StructType) -> None:
        self._location = location
        self._store = store
        self._options = options
        # The table's columns as they were when the query was defined.
        self._columns = schema
        self._until: int | None = None
        self._opened: _native.Tail | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}

    def _tail(self) -> _native.Tail:
        if self._opened is None:
            tail = _native.Tail.open(self._location, self._store, self._options.request)
            now = StructType.fromJson(shown(json.loads(self._table_schema(tail.snapshot))))
            # Text without nullability, of which Spark keeps less than the table.
            if now.simpleString() != self._columns.simpleString():
                raise SchemaMismatchError(
                    "the table's columns changed since the query was defined: define and start it again to go on with "
                    "the new ones",
                    table=self._location,
                    version=tail.snapshot.version,
                )
            self._opened = tail
        return self._opened

    def _table_schema(self, snapshot: _native.Snapshot) -> str:
        return snapshot.change_schema_json() if self._options.read_change_feed else snapshot.schema_json()

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins."""
        return _offset(self._tail().start(self._options.start))

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say of a micro-batch; where they bound both files and bytes, `latestOffset` heeds both."""
        if self._options.max_files is not None:
            return ReadMaxFiles(self._options.max_files)
        return ReadMaxBytes(self._options.max_bytes or 0)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends."""
        taken = limits() if isinstance(limit, ReadAllAvailable) else self._options.limits
        return _offset(self._tail().end(json.dumps(start), taken, self._until))

    def prepareForTriggerAvailableNow(self) -> None:
        """The query ends with the version that is the newest one now."""
        self._until = self._tail().newest_version()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The files with the rows between two offsets, in splits."""
        tail = self._tail()
        scan = SplitScan.of(tail.snapshot, self._table_schema(tail.snapshot), self._store, self._columns)
        splits = tail.splits(json.dumps(start), json.dumps(end), SPLIT_BYTES)
        return [InputPartition((scan, split)) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split."""
        scan, split = partition.value
        rows: Iterator[pa.RecordBatch] = scan.rows(split)
        return rows


def _offset(text: str) -> dict[str, Any]:
    offset: dict[str, Any] = json.loads(text)
    return offset
