"""A table as a streaming frame whose micro-batches are Spark's own Parquet scans: implements
Spark's `Source` in Python.

Spark calls it from the query's thread; it handles no rows. The core finds the new files.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import DeltaError, InvalidArgumentError, UnsupportedFeatureError
from deltaplane.io.session_options import of_session
from deltaplane.io.storage_options import TableUri
from deltaplane.spark.datasource.session import portable_stream_reader
from deltaplane.spark.datasource.stream_columns import FollowedTable
from deltaplane.spark.datasource.stream_offsets import between, initial, moved, place
from deltaplane.spark.datasource.stream_options import STREAM_OPTIONS, StreamOptions
from deltaplane.spark.errors.refusals import refusal
from deltaplane.spark.execution.carried import scan_settings
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.names import hadoop_path
from deltaplane.spark.jvm.schema import shown
from deltaplane.spark.jvm.spark_versions import has_sources
from deltaplane.spark.scan.file_index import PinnedSnapshot
from deltaplane.spark.scan.read import data_frame
from deltaplane.spark.scan.replay import Files
from deltaplane.table.follow import limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_stream"]

_log = logging.getLogger(__name__)


@checked(spark="SparkSession | OriginalSession", options="Mapping | None")
@of_session(lambda spark, *_, **__: spark)
def read_stream(
    spark: SparkSession, path: TableUri, options: Mapping[str, Any] | None = None, **stream_options: Any
) -> DataFrame:
    """The table as a streaming frame: all rows of the newest version, oldest files first, then the
    rows of later commits.

    The rules are those of Spark's Delta source: commits that only move rows yield nothing; a commit
    that deletes or changes rows ends the query unless an option allows it. Micro-batches are
    Spark's own scans of the new files. Sessions that can't run these (Spark Connect, an untested
    Spark version), and the change data feed, use `spark.readStream.format("deltaplane")`.

    Args:
        spark: the session.
        path: the table's path or URL.
        options: access to the store, as in `read`.
        stream_options: `startingVersion` (a number, or `latest`), `startingTimestamp`,
            `waitForStart` (whether either may be in the future), `maxFilesPerTrigger` (1000 unless
            `maxBytesPerTrigger` is set), `ignoreDeletes`, `ignoreChanges`, `skipChangeCommits`,
            `readChangeFeed`, `failOnDataLoss`, `excludeRegex`, `schemaTrackingLocation` with
            `streamingSourceTrackingId`, `allowSourceColumnRename`, `allowSourceColumnDrop` and
            `allowSourceColumnTypeChange`.

    Raises:
        TableNotFoundError: the path contains no table.
        InvalidArgumentError: an unknown option, or an invalid value.
        CorruptLogError: the schema log below `schemaTrackingLocation` has invalid content.
        UnsupportedFeatureError: a stream of the change feed on PySpark 3.5.

    A query ends with an error that names the commit if the commit deletes or changes rows, if the
    table's columns changed (define the stream again and restart the query, which continues at the
    same offset), if log clean-up removed unread commits, or if the table was deleted or recreated.
    With `schemaTrackingLocation` the query first reads the rows before a change of columns under
    the old columns, and with consent continues after renamed and dropped columns, too.

    >>> from deltaplane import spark as dp
    >>> for n in range(3):
    ...     _ = dp.write(spark.range(n, n + 1), "events")
    >>> new = dp.read_stream(spark, "events", startingVersion=1, maxFilesPerTrigger=1)
    >>> query = new.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
    >>> query.awaitTermination(60), spark.table("seen").orderBy("id").collect()
    (True, [Row(id=1), Row(id=2)])
    """
    location = absolute_location(path)
    store_options, spark_options = split_options(options)
    own = {name.lower(): _text(value) for name, value in stream_options.items()}
    if unknown := [name for name in stream_options if name.lower() not in STREAM_OPTIONS]:
        raise InvalidArgumentError(f"a stream has no option {unknown[0]!r}; what reaches the store goes into options")
    parsed = StreamOptions.of(own)
    if parsed.read_change_feed and not has_sources():
        raise UnsupportedFeatureError(
            "following the change feed needs PySpark 4.2 or newer, whose data sources in Python read it: upgrade, or read "
            "batches of versions with deltaplane.spark.read_changes",
            table=location,
        )
    try:
        if parsed.read_change_feed:
            raise _internals.NativeScanUnavailable("the change data feed is read by deltaplane's own reader")
        jvm = _internals.Jvm.of(spark)
        jvm.load_streams(spark)
        table = FollowedTable(location, store_options, parsed, lambda name: spark.conf.get(name, None))
        # Whether there are any for the catalog's credentials.
        scan_settings(location, store_options, table.tail.snapshot.location)
    except _internals.NativeScanUnavailable as reason:
        _log.info("following %s through the data source: %s", location, reason)
        reader = portable_stream_reader(spark, store_options)
        return reader.options(**own).load(location)

    def scan_options() -> dict[str, str]:
        # For each batch: a stream outlives the credentials that a catalog handed out before.
        return {**scan_settings(location, store_options, table.tail.snapshot.location), **spark_options}

    source = TableSource(spark, jvm, table, parsed, scan_options)
    schema_json = json.dumps(shown(table.tail.snapshot.schema.to_value()))
    frame: DataFrame = jvm.streaming_frame(spark, source, schema_json, table.tail.snapshot.row_tracking_columns())
    return frame


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class TableSource:
    """Implements the calls of Spark's `Source` in the JVM, with the names and arity of these
    methods."""

    def __init__(
        self,
        spark: Any,
        jvm: _internals.Jvm,
        table: FollowedTable,
        options: StreamOptions,
        scan_options: Callable[[], Mapping[str, str]],
    ) -> None:
        self._spark = spark
        self._jvm = jvm
        self._table = table
        # The source that the query's thread calls. Stored per thread only, since the source refers
        # to this object.
        self._asks = threading.local()
        table.checkpoint = lambda: jvm.source_checkpoint(spark, self._asks.source)
        self._options = options
        self._scan_options = scan_options
        # Keyed by query, since a frame may be started several times: the end for `availableNow`,
        # and the start, which stays the same until the first batch.
        self._until: dict[str | None, int] = {}
        self._begins: dict[str | None, _native.TailOffset] = {}

    def apply(self, method: str, arguments: Any) -> Any:
        """Answers the JVM; an error is returned as an answer, too."""
        self._asks.source, *values = arguments
        try:
            return getattr(self, method)(*values)
        except DeltaError as e:
            return refusal(e, f"TableSource.{method}")
        finally:
            del self._asks.source

    def getDefaultReadLimit(self, *_: None) -> Any:
        """The limit of a micro-batch; if the options limit both files and bytes, `latestOffset`
        applies both, which only asks the JVM's limit whether it is one."""
        if self._options.max_files is not None:
            return self._jvm.read_limit.maxFiles(min(self._options.max_files, (1 << 31) - 1))
        if not has_sources():
            # Spark 3.5 has no limit of bytes; this limit takes its place.
            return self._jvm.read_limit.maxRows((1 << 63) - 1)
        return self._jvm.read_limit.maxBytes(self._options.max_bytes)

    def prepareForTriggerAvailableNow(self, *_: None) -> None:
        """Makes the query end with the version that is the newest at this call."""
        self._until[self._jvm.stream_id(self._spark)] = self._table.tail.newest_version()

    def latestOffset(self, start: Any, limit: Any) -> Any:
        """The end of the next micro-batch; equal to the start if there are no new files."""
        query = self._jvm.stream_id(self._spark)
        if start is None and query not in self._begins:
            self._begins[query] = self._table.tail.start(self._options.start)
        offset = initial(self._begins[query]) if start is None else json.loads(start.json())
        begins = place(offset)
        self._table.begin(query, begins, resumed="end" in offset)
        everything = str(limit.getClass().getName()).endswith(".ReadAllAvailable")
        until = self._until.get(query)
        end = self._table.tail.end(begins, limits() if everything else self._options.limits, until)
        if end == begins:
            self._table.stop_before_others(query, end, until)
            return start
        return self._jvm.offset(json.dumps(moved(offset, end)))

    def getBatch(self, start: Any, end: Any) -> Any:
        """The rows between two offsets; without a start, the rows of the first batch."""
        first, last = between(None if start is None else json.loads(start.json()), json.loads(end.json()))
        has_rows = self._table.begin_with(self._jvm.stream_id(self._spark), first, last)
        tail = self._table.tail
        adds = tail.adds(first, last) if has_rows else _native.AddedFiles.joined([])
        batch = _Batch(tail.snapshot, f"{first} {last}")
        frame = data_frame(self._spark, self._jvm, batch, _BatchPlans(adds), self._scan_options(), streaming=True)
        return frame._jdf

    def getBatchWithMetadata(self, start: Any, end: Any) -> Any:
        """The rows between two offsets with the hidden column last. It has the fields from the
        definition of the stream, since a stream keeps one version's metadata."""
        from pyspark.sql import DataFrame

        frame = DataFrame(self.getBatch(start, end), self._spark)
        return frame.select("*", "_metadata")._jdf

    def stop(self, *_: None) -> None:
        """Does nothing, since the object holds only the table's snapshot."""
        query = self._jvm.stream_id(self._spark)
        self._until.pop(query, None)
        self._begins.pop(query, None)
        self._table.end(query)

    def toString(self, *_: None) -> str:
        """The description in plans and in the query's progress, like that of Spark's Delta
        source."""
        return f"DeltaSource[{hadoop_path(self._table.tail.snapshot.uri)}]"

    class Java:
        """The Java interface that this class implements, for py4j."""

        implements = ("java.util.function.BiFunction",)


class _Batch(PinnedSnapshot):
    """The snapshot that defines a micro-batch's columns. No two batches are equal, so that Spark
    doesn't reuse one for another."""

    def __init__(self, snapshot: _native.Snapshot, between: str) -> None:
        super().__init__(snapshot)
        self.identity = f"{self.identity} new rows {between}"


class _BatchPlans:
    """The known files of a micro-batch."""

    def __init__(self, adds: _native.AddedFiles) -> None:
        self._adds = adds

    def take(self, snapshot: _native.Snapshot, filters: Sequence[str] = (), zone: str = "UTC") -> bool:
        """Always true, since the snapshot's own plan has other files."""
        return True

    def plan(
        self,
        snapshot: _native.Snapshot,
        filters: Sequence[str],
        zone: str,
        files: Files,
    ) -> _native.SparkPlan:
        """The batch's files for Catalyst."""
        return _native.spark_plan_of(snapshot, self._adds, filters, zone, files)

    def size_bytes(self, snapshot: _native.Snapshot, files: Files) -> int:
        """Bytes of the batch's files, with or without a deletion vector."""
        return _native.spark_size_of(self._adds, files)
