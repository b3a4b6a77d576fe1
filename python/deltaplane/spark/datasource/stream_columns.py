"""The columns of a stream's rows: the table's, or those in the schema log below
`schemaTrackingLocation`. A stream that reaches a commit with other columns records them in that log
and ends.

The log's files have the format of Spark's Delta source. Uses neither Spark nor rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deltaplane import _native
from deltaplane.exceptions import CorruptLogError, DeltaError, InvalidArgumentError, SchemaMismatchError
from deltaplane.io import records
from deltaplane.spark.datasource.schema_change_consent import Leave
from deltaplane.spark.datasource.stream_options import StreamOptions
from deltaplane.spark.jvm.location import absolute_location

__all__ = ["FollowedTable", "told_steps"]

_HEAD = "v1"
# delta-spark's setting that allows rows with other columns to be read under the newest ones, after
# columns were renamed or dropped.
_UNSAFE = "spark.databricks.delta.streaming.unsafeReadOnIncompatibleColumnMappingSchemaChanges.enabled"


@dataclass(frozen=True)
class _Entry:
    """An entry of the schema log: its number, the columns in the core's form, the query that wrote
    it, and the previous entry."""

    number: int
    columns: records.TrackedColumns
    query: str
    before: int

    @property
    def version(self) -> int:
        return self.columns.version

    @classmethod
    def parse(cls, number: int, data: bytes, place: str) -> _Entry:
        try:
            head, text = data.decode().split("\n", 1)
            entry = json.loads(text)
            protocol = json.loads(entry["protocolJson"])["protocol"]
            columns = records.TrackedColumns(
                version=entry["deltaCommitVersion"],
                id=entry["tableId"],
                schema=_native.TableSchema(entry["dataSchemaJson"]),
                partition_columns=_native.TableSchema(entry["partitionSchemaJson"]).names,
                configuration=entry.get("tableConfigurations") or {},
                min_reader_version=protocol["minReaderVersion"],
                min_writer_version=protocol["minWriterVersion"],
                reader_features=protocol.get("readerFeatures"),
                writer_features=protocol.get("writerFeatures"),
            )
            if head != _HEAD:
                raise ValueError(f"it begins with {head!r}")
        except (ValueError, KeyError, TypeError, DeltaError) as e:
            raise CorruptLogError(
                f"{place}/{number} is no entry of a stream's schema log ({e}): restore it, or restart the query with "
                "another checkpoint location"
            ) from e
        before = entry.get("previousMetadataSeqNum")
        query = entry.get("sourceMetadataPath") or ""
        return cls(number, columns, query, number - 1 if before is None else before)

    def text(self) -> str:
        columns = self.columns
        fields = {field["name"]: field for field in columns.schema.to_value()["fields"]}
        partitions = {"type": "struct", "fields": [fields[name] for name in columns.partition_columns]}
        protocol = {
            "minReaderVersion": columns.min_reader_version,
            "minWriterVersion": columns.min_writer_version,
            "readerFeatures": columns.reader_features,
            "writerFeatures": columns.writer_features,
        }
        listed = {key: value for key, value in protocol.items() if value is not None}
        entry = {
            "tableId": columns.id,
            "deltaCommitVersion": columns.version,
            "dataSchemaJson": columns.schema.to_json(),
            "partitionSchemaJson": json.dumps(partitions),
            "sourceMetadataPath": self.query,
            "tableConfigurations": columns.configuration,
            "protocolJson": json.dumps({"protocol": listed}),
        }
        return f"{_HEAD}\n{json.dumps(entry)}"


class _SchemaLog:
    """Numbered entries in a directory; the newest one is in force."""

    def __init__(self, root: str, table_id: str, tracking_id: str | None, store: Mapping[str, str] | None) -> None:
        name = f"_schema_log_{table_id}" + ("" if tracking_id is None else f"_{tracking_id}")
        self.place = f"{absolute_location(root).rstrip('/')}/{name}"
        self._store = _native.RawStore.open(self.place, store)

    def newest(self) -> _Entry | None:
        names = [path.rsplit("/", 1)[-1] for path, *_ in self._store.list_all("")]
        numbers = [int(name) for name in names if name.isdecimal()]
        return self.entry(max(numbers)) if numbers else None

    def entry(self, number: int) -> _Entry:
        return _Entry.parse(number, self._store.read(str(number)), self.place)

    def add(self, entry: _Entry) -> None:
        if not self._store.put_if_absent(str(entry.number), entry.text().encode()):
            raise InvalidArgumentError(
                f"another query moved the schema log {self.place} on: give each query a schemaTrackingLocation of its own, "
                "below its checkpoint location, and each source of one query a streamingSourceTrackingId"
            )


def told_steps(steps: records.ColumnSteps) -> str:
    """Describes renamed and dropped columns for an error message."""
    kinds = {"renamed": steps.renamed, "dropped": steps.dropped}
    return "; ".join(f"{kind}: {', '.join(paths)}" for kind, paths in kinds.items() if paths)


class FollowedTable:
    """A table that a stream follows, and the columns of the stream's rows.

    Args:
        location, store: the table.
        options: the source's.
        setting: reads the session's settings by name, if there is a session.

    Raises:
        TableNotFoundError: the location contains no table.
        CorruptLogError: the schema log has invalid content.
    """

    def __init__(
        self,
        location: str,
        store: dict[str, str] | None,
        options: StreamOptions,
        setting: Callable[[str], str | None] | None = None,
    ) -> None:
        self._location, self._store, self._options, self._setting = location, store, options, setting
        self.tail = _native.Tail.open(location, store, options.request)
        self._newest: _Entry | None = None
        self._log: _SchemaLog | None = None
        self._begun: set[str | None] = set()
        # Offsets at which a run, or a batch that Spark repeats at its start, begins with rows of
        # the stream's columns.
        self._same: set[tuple[str | None, bool]] = set()
        # The directory in which Spark stores this source's state for the calling thread's query, or
        # None if it is unknown.
        self.checkpoint: Callable[[], str | None] = lambda: None
        if options.schema_location is not None:
            table_id = self.tail.snapshot.info.id
            self._log = _SchemaLog(options.schema_location, table_id, options.tracking_id, store)
            if newest := self._log.newest():
                self._keep(newest)

    def _keep(self, entry: _Entry) -> None:
        self._newest = entry
        self.tail = _native.Tail.open(self._location, self._store, self._options.request_with(entry.columns))

    def begin(self, query: str | None, offset: _native.TailOffset, *, resumed: bool = False) -> None:
        """Checks, once for each run of a query, that rows at an offset can be read with the
        stream's columns. `resumed`: an earlier run reached the offset.

        Raises:
            SchemaMismatchError: the rows have other columns, which are now recorded in the schema
                log; the log has a newer entry; or its last change lacks consent.
            InvalidArgumentError: another query uses the log.
        """
        if self._log is None:
            self._refuse_renamed(query, offset.last_read() if resumed else offset)
            return
        if query in self._begun:
            return
        newest = self._log.newest()
        if newest is None:
            columns, same = self.tail.columns_at(offset)
            first = _Entry(0, columns, query or "", -1)
            self._log.add(first)
            if not same:
                raise self._moved_on(first)
            self._keep(first)
        elif self._newest is None or newest.number != self._newest.number:
            raise self._moved_on(newest)
        elif query and newest.query not in ("", query):
            raise InvalidArgumentError(
                f"the schema log {self._log.place} belongs to another query: give each query a schemaTrackingLocation of its "
                "own, below its checkpoint location, and each source of one query a streamingSourceTrackingId"
            )
        elif newest.before >= 0:
            self._check_leave(self._log.entry(newest.before), newest)
        self._begun.add(query)

    def _refuse_renamed(self, query: str | None, offset: _native.TailOffset, *, again: bool = False) -> None:
        """Checks, once for each run of a query, that no columns were renamed or dropped since the
        version of an offset, as Spark's Delta source does. `again`: the offset is the start of a
        batch that Spark may repeat.

        Raises:
            SchemaMismatchError: columns were renamed or dropped.
        """
        if (query, again) in self._same or self.tail.snapshot.column_mapping == "none":
            return
        unsafe = self._setting is not None and (self._setting(_UNSAFE) or "false").lower() == "true"
        older, same = self.tail.columns_at(offset)
        if not (unsafe or same):
            shown = self.tail.snapshot
            steps = _native.Tail.column_steps(older, shown.tracked_columns)
            if steps.renamed or steps.dropped:
                version = older.version
                raise SchemaMismatchError(
                    f"columns were renamed or dropped that rows of the stream had from version {version} on "
                    f"({told_steps(steps)}), so they can't be shown under the columns of version {shown.version}: give the "
                    "stream a schemaTrackingLocation from its first run on, restart it with another checkpoint location, or "
                    f"set {_UNSAFE} to true for the rows under the newest columns",
                    table=self._location,
                    version=shown.version,
                )
        self._same.add((query, again))

    def end(self, query: str | None) -> None:
        """Ends a run."""
        self._begun.discard(query)
        self._same -= {(query, False), (query, True)}

    def begin_with(self, query: str | None, start: _native.TailOffset, end: _native.TailOffset) -> bool:
        """Checks a batch between two offsets as `begin` does. Returns false if an earlier run
        already delivered all its rows under older columns, as for a batch that Spark repeats at a
        start."""
        if self._log is None:
            self._refuse_renamed(query, start, again=True)
            return True
        self.begin(query, end.last_read())
        previous = self._newest
        return not (end.is_between_versions and previous is not None and end.version <= previous.version)

    def stop_before_others(self, query: str | None, offset: _native.TailOffset, until: int | None) -> None:
        """Ends a stream without new rows before a commit with other columns, and records these
        columns in the schema log.

        Raises:
            SchemaMismatchError: the next commit has other columns.
        """
        if self._log is None or self._newest is None or (until is not None and offset.version > until):
            return
        columns = self.tail.next_columns(offset)
        if columns is not None:
            entry = _Entry(self._newest.number + 1, columns, query or "", self._newest.number)
            self._log.add(entry)
            raise self._moved_on(entry)

    def _moved_on(self, entry: _Entry) -> SchemaMismatchError:
        place = "" if self._log is None else self._log.place
        names = ", ".join(entry.columns.schema.names)
        return SchemaMismatchError(
            f"DELTA_STREAMING_METADATA_EVOLUTION: from version {entry.version} on rows have other columns, properties or protocol "
            f"({names}), which the schema log {place} holds now: define the stream again and start the query with the same "
            "checkpoint location to go on with them",
            table=self._location,
            version=entry.version,
        )

    def _check_leave(self, older: _Entry, newer: _Entry) -> None:
        steps = _native.Tail.column_steps(older.columns, newer.columns)
        if steps.incompatible is not None:
            raise SchemaMismatchError(
                f"{steps.incompatible}: no stream can go on over that; restart the query with another checkpoint location",
                table=self._location,
                version=newer.version,
            )
        # A new object for each run, since a frame may be started several times.
        leave = Leave(self._options.allowed, self._setting, self.checkpoint)
        if lacking := leave.lacking(steps.to_dict(), newer.version):
            what = "; ".join(f"{step.option}: {', '.join(step.columns)}" for step in lacking)
            raise SchemaMismatchError(
                "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION: between versions "
                f"{older.version} and {newer.version} columns were renamed, dropped or changed their type ({what}): see to what "
                f"reads the stream's rows, then {leave.ways(lacking, newer.version)}",
                table=self._location,
                version=newer.version,
            )
