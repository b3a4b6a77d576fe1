"""The data source `deltaplane`: the portable path, in Spark's public Python API only, also for Spark Connect.

Spark pickles these classes to its planning and executing workers. Rows are the Rust core's. Called by Spark. The reader
takes no pushed filters: all queries on one frame, and all scans within one, share what Spark remembers of the last push.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from deltaplane import _native, expr
from deltaplane.changes import ChangeRange, change_range
from deltaplane.declarations import check_declared
from deltaplane.exceptions import InvalidArgumentError, MetadataChangedException
from deltaplane.options import version_arguments
from deltaplane.properties import CommitProperties, Transaction, WriterProperties
from deltaplane.row_rules import RuledRows
from deltaplane.spark._internals import arrow_schema
from deltaplane.spark._location import absolute_location
from deltaplane.spark._schema import delta_schema_json, shown
from deltaplane.spark._tasks import raise_refusal, write_unjudged
from deltaplane.write import write_request

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeltaplaneDataSource"]

# Bytes of files that one task reads; Spark's own default for files.
_SPLIT_BYTES = 128 << 20

# The source's own options; all others go to the store. Names ignore case, as Spark's do.
_CHANGES = ("readchangefeed", "startingversion", "endingversion", "startingtimestamp", "endingtimestamp")
_READ = ("path", "versionasof", "version", "timestampasof", "timestamp", "predicate", *_CHANGES)
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
)


class DeltaplaneDataSource(DataSource):
    """`spark.read.format("deltaplane")` and `df.write.format("deltaplane")`.

    Read options: `versionAsOf` or `timestampAsOf`; `predicate`, a condition in Spark SQL that skips files and rows before
    Spark sees them (it applies the filters of a query to the rows, but doesn't tell this source). `readChangeFeed` with
    `startingVersion` or `startingTimestamp`, and optionally an end, shows the rows that changed instead. Write options: `partitionBy` (names separated by commas), `mergeSchema`,
    `overwriteSchema`, `replaceWhere`, `txnAppId` with `txnVersion`, `userMetadata`, `compression`, `targetFileSize`. The
    others reach the store. Constraints, generated columns and defaults are evaluated in the tasks by the embedded engine,
    which refuses by name what it doesn't do as Spark does; `deltaplane.spark.write` has Spark evaluate them.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._own = {k.lower(): v for k, v in options.items() if k.lower() in (*_READ, *_WRITE)}
        self._store = {k: v for k, v in options.items() if k.lower() not in self._own} or None

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "deltaplane"

    def _location(self) -> str:
        path = self._own.get("path")
        if path is None:
            raise InvalidArgumentError('the format "deltaplane" needs a path: .load(path) or .save(path)')
        return absolute_location(path)

    def _snapshot(self) -> _native.Snapshot:
        version = self._own.get("versionasof", self._own.get("version"))
        timestamp = self._own.get("timestampasof", self._own.get("timestamp"))
        if version is not None and timestamp is not None:
            raise InvalidArgumentError("give versionAsOf or timestampAsOf, not both")
        if version is not None and not version.isdecimal():
            raise InvalidArgumentError(f"versionAsOf is a number, not {version!r}")
        wanted = timestamp if version is None else int(version)
        return _native.Snapshot.open(self._location(), self._store, *version_arguments(wanted))

    def _range(self) -> ChangeRange | None:
        """The versions whose changes are asked for."""
        own = self._own
        if not _flag(own, "readchangefeed"):
            if given := [name for name in _CHANGES if name in own and name != "readchangefeed"]:
                raise InvalidArgumentError(f"{', '.join(given)}: these options go with readChangeFeed = true")
            return None
        for name in ("startingversion", "endingversion"):
            if name in own and not own[name].isdecimal():
                raise InvalidArgumentError(f"{name} is a number, not {own[name]!r}")
        return change_range(
            _native.Snapshot.open(self._location(), self._store),
            int(own["startingversion"]) if "startingversion" in own else None,
            int(own["endingversion"]) if "endingversion" in own else None,
            own.get("startingtimestamp"),
            own.get("endingtimestamp"),
        )

    def schema(self) -> StructType:
        """The table's columns, or those of its changes."""
        changes = self._range()
        text = self._snapshot().schema_json() if changes is None else changes.last.change_schema_json()
        columns: StructType = StructType.fromJson(shown(json.loads(text)))
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Plans and reads a version's rows."""
        predicate, changes = expr.parse(self._own.get("predicate")), self._range()
        if changes is None:
            # Planned here: a predicate that can't be evaluated is refused before any task runs.
            snapshot = self._snapshot()
            splits = _native.scan_splits(snapshot, predicate, _SPLIT_BYTES)
            return _Reader(snapshot, snapshot.schema_json(), splits, self._store, schema, predicate)
        splits = _native.change_splits(changes.last, changes.first, predicate, _SPLIT_BYTES)
        return _Reader(changes.last, changes.last.change_schema_json(), splits, self._store, schema, predicate)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Writes rows and commits them."""
        schema_json = delta_schema_json(schema)
        return _Writer(self._location(), self._store, schema_json, self._request(schema_json, overwrite))

    def _request(self, schema_json: str, overwrite: bool) -> str:
        own = self._own
        partition_by = own.get("partitionby")
        schema_mode = None
        if _flag(own, "overwriteschema"):
            schema_mode = "overwrite"
        elif _flag(own, "mergeschema"):
            schema_mode = "merge"
        if ("txnappid" in own) != ("txnversion" in own):
            raise InvalidArgumentError("txnAppId and txnVersion go together")
        user_metadata = own.get("usermetadata")
        transactions = [Transaction(own["txnappid"], int(own["txnversion"]))] if "txnappid" in own else None
        return write_request(
            mode="overwrite" if overwrite else "append",
            partition_by=None if partition_by is None else [c.strip() for c in partition_by.split(",")],
            schema_mode=schema_mode,
            schema_json=schema_json,
            predicate=own.get("replacewhere"),
            # The committing process plans again and must come to the same names.
            names_seed=str(uuid.uuid4()),
            target_file_size=int(own["targetfilesize"]) if "targetfilesize" in own else None,
            writer_properties=WriterProperties(compression=own.get("compression")),
            commit_properties=CommitProperties(
                custom_metadata=None if user_metadata is None else {"userMetadata": user_metadata},
                app_transactions=transactions,
            ),
            applies_row_rules=True,
        )


def _flag(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise InvalidArgumentError(f"the option {name} is true or false, not {value!r}")
    return value == "true"


class _Reader(DataSourceReader):
    """One scan. The snapshot stays where the scan is planned; splits and columns travel."""

    def __init__(
        self,
        snapshot: _native.Snapshot,
        schema_json: str,
        splits: list[str],
        store: dict[str, str] | None,
        schema: StructType,
        predicate: str | None,
    ) -> None:
        self._splits = splits
        self._location = snapshot.location
        self._store = store
        self._columns = schema
        self._table_schema = schema_json
        self._mapping = snapshot.column_mapping
        self._partition_columns = json.loads(snapshot.metadata_json())["partition_columns"]
        self._predicate = predicate

    def __getstate__(self) -> dict[str, Any]:
        # Tasks get their own split alone.
        return {**vars(self), "_splits": []}

    def partitions(self) -> list[InputPartition]:
        """The files that can match, in splits."""
        return [InputPartition(s) for s in self._splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split, in exactly the Arrow types that Spark expects."""
        import pyarrow as pa

        if partition.value is None:  # what Spark makes of no partitions
            return
        stream = _native.scan_split(
            self._location,
            self._store,
            self._table_schema,
            self._mapping,
            self._partition_columns,
            self._columns.fieldNames(),
            self._predicate,
            partition.value,
        )
        expected = arrow_schema(self._columns)
        for batch in pa.RecordBatchReader.from_stream(stream):
            yield batch.cast(expected)


@dataclass
class _Written(WriterCommitMessage):
    adds: list[str]
    refusal: str | None


class _Writer(DataSourceArrowWriter):
    """One write. The job can't travel to the committing process, so commit begins it again from the same request."""

    def __init__(self, location: str, store: dict[str, str] | None, schema_json: str, request: str) -> None:
        import pyarrow as pa

        self._location = location
        self._store = store
        self._schema_json = schema_json
        self._request = request
        job = self._begin()
        self._skip = job.skip
        self._spec = None if job.skip else job.spec
        self._now_us = time.time_ns() // 1000
        if self._spec is not None:
            # An expression that the embedded engine doesn't have is refused before any task runs.
            check_declared(self._spec, location)
            none = pa.schema(_native.schema_to_arrow(schema_json)).empty_table().to_reader()
            RuledRows(self._spec, none, location)

    def _begin(self) -> _native.WriteJob:
        return _native.WriteJob.begin(
            self._location, self._store, _native.schema_to_arrow(self._schema_json), self._request
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task's rows to files."""
        if self._spec is None:
            return _Written([], None)
        return _Written(*write_unjudged(self._location, self._store, self._spec, iterator, self._now_us))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the files of every task at once."""
        if self._spec is None:
            return
        written = [m for m in messages if isinstance(m, _Written)]
        adds = [add for m in written for add in m.adds]
        refusals = [m.refusal for m in written if m.refusal is not None]
        job = self._begin()
        if refusals or job.skip is not None:
            self._discard(adds)
            raise_refusal(refusals, self._location)
            return
        if _layout(job.spec) != _layout(self._spec):
            self._discard(adds)
            raise MetadataChangedException(
                "the table's columns, partitioning or rules for rows changed while the rows were written: write them again",
                table=self._location,
            )
        job.commit(adds)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes what successful tasks wrote, as far as it can."""
        self._discard([add for m in messages if isinstance(m, _Written) for add in m.adds])

    def _discard(self, adds: list[str]) -> None:
        _native.discard_files(self._location, self._store, adds)


def _layout(spec: str) -> list[Any]:
    """What the files that were written depend on: also how far identity columns went, and the rules of the rows."""
    parts = json.loads(spec)
    keys = ("schema", "partition_columns", "mapping", "partition_columns_in_files", "identity", "row_rules")
    return [parts[key] for key in keys]
