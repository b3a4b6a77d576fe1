"""The data source `deltaplane`: the portable implementation, which uses only Spark's public Python
API and also works on Spark Connect.

Spark pickles these classes to its planning and executing workers; the Rust core reads the rows. The
reader accepts no pushed filters, because all queries on one frame, and all scans within one query,
share the filters that Spark pushed last.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from deltaplane import _native, expr
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.expr import columns_of
from deltaplane.properties import CommitProperties, Transaction
from deltaplane.spark.datasource.file_options import BLOOM_FILTERS, file_properties, is_own
from deltaplane.spark.datasource.split_scan import SPLIT_BYTES, SplitScan
from deltaplane.spark.datasource.stream_columns import FollowedTable
from deltaplane.spark.datasource.stream_options import STREAM_OPTIONS, StreamOptions, flag
from deltaplane.spark.datasource.time_travel import asked_version, refuse_after_newest
from deltaplane.spark.datasource.writers import BatchWriter
from deltaplane.spark.jvm.location import absolute_location
from deltaplane.spark.jvm.query_id import query_id
from deltaplane.spark.jvm.schema import delta_schema_json, shown
from deltaplane.table.changes import ChangeRange, change_range
from deltaplane.write.intent import WriteIntent

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

    from deltaplane.io import records

__all__ = ["DeltaDataSource", "DeltaplaneDataSource"]

# The source's own options; all others go to the store. Names are case-insensitive, as in Spark.
_CHANGES = ("readchangefeed", "startingversion", "endingversion", "startingtimestamp", "endingtimestamp")
_READ = ("path", "location", "versionasof", "version", "timestampasof", "timestamp", "predicate", *_CHANGES)
# Options that the catalog adds for a registered table: Spark's own, and the mark of a managed one.
_HELD = (
    "collation",
    "comment",
    "deltaplane.managed",
    "external",
    "is_managed_location",
    "owner",
    "provider",
    "table_type",
)
_WRITE = (
    "partitionby",
    "mergeschema",
    "overwriteschema",
    "replacewhere",
    "txnappid",
    "txnversion",
    "usermetadata",
    "compression",
    "targetfilesize",
    "checkpointlocation",
    BLOOM_FILTERS,
)


class DeltaplaneDataSource(DataSource):
    """The format of `spark.read.format("deltaplane")` and `df.write.format("deltaplane")`.

    Read options: `versionAsOf` or `timestampAsOf`; `predicate`, a condition in Spark SQL that skips
    files and rows before Spark receives them (Spark applies a query's filters to the rows, but
    doesn't push them to this source). `readChangeFeed` with `startingVersion` or
    `startingTimestamp`, and optionally an end, reads the changed rows instead. Write options:
    `partitionBy` (names separated by commas), `mergeSchema`, `overwriteSchema`, `replaceWhere`,
    `txnAppId` with `txnVersion`, `userMetadata`, `compression`, `targetFileSize`, and Spark's
    `parquet.bloom.filter.enabled#column`, `….fpp#column` and `….expected.ndv#column`. All other
    options go to the store. The embedded engine evaluates constraints, generated columns and
    defaults in the tasks, and refuses by name expressions whose result may differ from Spark's;
    with `deltaplane.spark.write` Spark evaluates them.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        own = (*_READ, *_WRITE, *STREAM_OPTIONS)
        self._own = {k.lower(): v for k, v in options.items() if is_own(k, own)}
        self._store = {k: v for k, v in options.items() if k.lower() not in (*self._own, *_HELD)} or None

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "deltaplane"

    def _location(self) -> str:
        # Spark's catalog passes a table's path as `location`.
        path = self._own.get("path", self._own.get("location"))
        if path is None:
            raise InvalidArgumentError(f'the format "{self.name()}" needs a path: .load(path) or .save(path)')
        return absolute_location(path)

    def _snapshot(self) -> _native.Snapshot:
        version = self._own.get("versionasof", self._own.get("version"))
        timestamp = self._own.get("timestampasof", self._own.get("timestamp"))
        if version is not None and timestamp is not None:
            raise InvalidArgumentError("give versionAsOf or timestampAsOf, not both")
        if version is not None and not version.isdecimal():
            raise InvalidArgumentError(f"versionAsOf is a number, not {version!r}")
        location = self._location()
        number = asked_version(location, self._store, None if version is None else int(version), timestamp)
        return _native.Snapshot.open(location, self._store, number)

    def _range(self) -> ChangeRange | None:
        """The versions whose changes a batch reads."""
        own = self._own
        if not flag(own, "readchangefeed"):
            if misplaced := [name for name in _CHANGES if name in own and name != "readchangefeed"]:
                raise InvalidArgumentError(f"{', '.join(misplaced)}: these options go with readChangeFeed = true")
            return None
        for name in ("startingversion", "endingversion"):
            if name in own and not own[name].isdecimal():
                raise InvalidArgumentError(f"{name} is a number, not {own[name]!r}")
        newest = _native.Snapshot.open(self._location(), self._store)
        for bound in ("starting", "ending"):
            if f"{bound}version" not in own and f"{bound}timestamp" in own:
                refuse_after_newest(newest, own[f"{bound}timestamp"])
        return change_range(
            newest,
            int(own["startingversion"]) if "startingversion" in own else None,
            int(own["endingversion"]) if "endingversion" in own else None,
            own.get("startingtimestamp"),
            own.get("endingtimestamp"),
        )

    def schema(self) -> StructType:
        """The table's columns, or those of its change data feed."""
        own = self._own
        if "schematrackinglocation" in own or "schemalocation" in own:
            # Only a stream has these columns.
            last = FollowedTable(self._location(), self._store, StreamOptions.of(own)).tail.snapshot
            schema = last.change_schema() if flag(own, "readchangefeed") else last.schema
        elif flag(own, "readchangefeed"):
            # A stream uses this schema as well, so an invalid range of a batch is refused only when
            # it is read.
            ends = "endingversion" in own or "endingtimestamp" in own
            changes = self._range() if ends else None
            last = self._snapshot() if changes is None else changes.last
            schema = last.change_schema()
        else:
            schema = self._snapshot().schema
        columns: StructType = StructType.fromJson(shown(schema.to_value()))
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Plans and reads a version's rows."""
        changes, asked = self._range(), self._own.get("predicate")
        if changes is None:
            # Plans here, so that an unsupported predicate is refused before any task runs.
            snapshot = self._snapshot()
            predicate = expr.parse(asked, columns_of(lambda: snapshot.schema))
            splits = _native.scan_splits(snapshot, predicate, SPLIT_BYTES)
            return _Reader(SplitScan.of(snapshot, self._location(), self._store, schema, predicate), splits)
        predicate = expr.parse(asked, columns_of(changes.last.change_schema))
        splits = _native.change_splits(changes.last, changes.first, predicate, SPLIT_BYTES)
        return _Reader(
            SplitScan.of(changes.last, self._location(), self._store, schema, predicate, changes=True), splits
        )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader for the new rows of the table.

        Raises:
            UnsupportedFeatureError: PySpark is older than 4.2.
            InvalidArgumentError: an option that only a batch has.
        """
        options = StreamOptions.of(self._own)
        try:
            from deltaplane.spark.datasource.stream_source import StreamReader
        except ImportError as e:
            raise UnsupportedFeatureError(
                "following a table needs PySpark 4.2 or newer, which lets a source bound its micro-batches: upgrade, or "
                "read the new rows with DeltaTable.tail"
            ) from e

        return StreamReader(self._location(), self._store, options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer that writes rows and commits them."""
        own = self._own
        if ("txnappid" in own) != ("txnversion" in own):
            raise InvalidArgumentError("txnAppId and txnVersion go together")
        transactions = [Transaction(own["txnappid"], int(own["txnversion"]))] if "txnappid" in own else None
        columns = _native.TableSchema(delta_schema_json(schema))
        # The committing process plans the write again and must generate the same names.
        request = self._request(columns, overwrite, str(uuid.uuid4()), transactions)
        return BatchWriter(self._location(), self._store, columns, request)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """A writer that commits each micro-batch once. `overwrite`: each batch replaces all rows
        (output mode complete).

        Raises:
            UnsupportedFeatureError: PySpark is older than 4.1.
        """
        try:
            from deltaplane.spark.datasource.stream_writer import StreamWriter
        except ImportError as e:
            raise UnsupportedFeatureError(
                "a stream written by the format itself needs PySpark 4.1 or newer, which gives a source the rows as "
                "Arrow data: write it with deltaplane.spark.write_stream, or with foreachBatch and "
                "deltaplane.spark.foreach_batch"
            ) from e

        if "txnversion" in self._own:
            raise InvalidArgumentError("a stream's batches number themselves: leave txnVersion out")
        app_id = self._own.get("txnappid") or query_id(self._own.get("checkpointlocation"))
        schema_json = delta_schema_json(schema)
        # The committing process creates its own source and writer, which must generate the same
        # column names.
        seed = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{app_id} {schema_json}"))
        columns = _native.TableSchema(schema_json)
        request = self._request(columns, overwrite, seed)
        return StreamWriter(self._location(), self._store, columns, request, app_id, overwrite)

    def _request(
        self,
        columns: _native.TableSchema,
        overwrite: bool,
        names_seed: str,
        transactions: list[Transaction] | None = None,
    ) -> records.WriteRequest:
        own = self._own
        partition_by = own.get("partitionby")
        schema_mode = None
        if flag(own, "overwriteschema"):
            schema_mode = "overwrite"
        elif flag(own, "mergeschema"):
            schema_mode = "merge"
        user_metadata = own.get("usermetadata")
        intent = WriteIntent(
            mode="overwrite" if overwrite else "append",
            partition_by=None if partition_by is None else [c.strip() for c in partition_by.split(",")],
            schema_mode=schema_mode,
            schema=columns,
            predicate=own.get("replacewhere"),
            names_seed=names_seed,
            target_file_size=int(own["targetfilesize"]) if "targetfilesize" in own else None,
            writer_properties=file_properties(own),
            commit_properties=CommitProperties(
                custom_metadata=None if user_metadata is None else {"userMetadata": user_metadata},
                app_transactions=transactions,
            ),
        )
        return intent.request(self._location(), self._store)


class DeltaDataSource(DeltaplaneDataSource):
    """The data source under the format name `delta`, for sessions without another provider of that
    name."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "delta"


class _Reader(DataSourceReader):
    """One scan; each task receives only its own split."""

    def __init__(self, scan: SplitScan, splits: list[_native.Split]) -> None:
        self._scan = scan
        self._splits = splits

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_splits": []}

    def partitions(self) -> list[InputPartition]:
        """The splits with the files that may match."""
        return [InputPartition(s) for s in self._splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the rows of a split."""
        # Spark passes None if there are no partitions.
        return iter(()) if partition.value is None else self._scan.rows(partition.value)
