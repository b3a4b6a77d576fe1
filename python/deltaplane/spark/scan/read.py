"""Reads a version as a DataFrame, or as a temporary view that follows the newest version.

Opens the snapshot and builds the relation; the Rust core prunes files, and Spark scans them.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.io.session_options import in_session, of_session
from deltaplane.io.storage_options import TableUri, VersionLike
from deltaplane.spark.datasource.session import portable_reader
from deltaplane.spark.datasource.time_travel import asked_version, reaches_beyond, refuse_after_newest
from deltaplane.spark.execution.carried import files_place, place_of, scan_settings
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm.columns import logical_columns, with_file_names
from deltaplane.spark.jvm.location import absolute_location, size_of, split_options
from deltaplane.spark.jvm.places import Places
from deltaplane.spark.jvm.schema import quoted
from deltaplane.spark.jvm.session_catalogs import is_name, open_transaction
from deltaplane.spark.jvm.spark_versions import has_sources, refuse_widened
from deltaplane.spark.scan.file_index import DeltaplaneFileIndex, LiveSnapshots, PinnedSnapshot, Plans
from deltaplane.spark.scan.file_systems import check_file_system, warn_of_shared_settings
from deltaplane.spark.scan.replay import DISTRIBUTED_BYTES, JobPlans
from deltaplane.spark.scan.split_frames import changed_rows
from deltaplane.table.changes import change_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "create_or_replace_temp_view",
    "data_frame",
    "jvm_of_commands",
    "live_frame",
    "named_as",
    "newest_frame",
    "read",
    "read_changes",
    "read_with_places",
]

_log = logging.getLogger(__name__)

# Files of other writers don't record their calendar; it is the proleptic Gregorian one, by Delta's
# protocol.
_READ_OPTIONS = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}


# The session's setting for the log size, as `4g` or a number of bytes, from which a Spark job plans
# scans.
_BOUND = "spark.deltaplane.distributedPlanBytes"

# Finds columns by the field ids in the relation's schema (P113).
_BY_ID = {"spark.sql.parquet.fieldId.read.enabled": "true"}


@checked(spark="SparkSession | OriginalSession", options="Mapping | None")
@of_session(lambda spark, *_, **__: spark)
def read(
    spark: SparkSession,
    path: TableUri,
    version: int | None = None,
    timestamp: VersionLike | None = None,
    options: Mapping[str, str] | None = None,
    distributed_plan: bool | None = None,
) -> DataFrame:
    """The table as a DataFrame, pinned to one version: the newest at the time of this call, or the
    requested one.

    Spark plans, prunes and scans it like its own Parquet tables; only files that may match reach
    the JVM. A session that can't run the native scan (Spark Connect, an untested Spark version)
    uses the data source `deltaplane`.

    Args:
        spark: the session.
        path: the table's path or URL.
        version: a version number.
        timestamp: the newest version at that time: an ISO 8601 text or a datetime (UTC unless it
            has a zone).
        options: access to the store. Keys that begin with `fs.` go to Spark's file systems, which
            read the data files with their own configuration.
        distributed_plan: whether a Spark job finds each query's files (see `plan`) instead of the
            driver alone. None: if the log is larger than the session's
            `spark.deltaplane.distributedPlanBytes`, by default 4 GiB. The job runs during planning,
            so its time counts against the timeouts of operations that wait for the query, such as a
            broadcast.

    Raises:
        TableNotFoundError, VersionNotFoundError: the table or version doesn't exist, or the
            timestamp is after the newest commit.
        UnsupportedFeatureError: the table needs a feature that this version doesn't support; or
            `distributed_plan` is True and the session can't run the native scan.
        InvalidArgumentError: both version and timestamp are set; or a setting isn't a number of
            bytes.

    >>> from deltaplane import spark as dp
    >>> _ = dp.write(spark.createDataFrame([("mon", 1), ("tue", 2)], "day string, n int"), "sales")
    >>> dp.read(spark, "sales", version=0).where("day = 'tue'").count()
    1
    """
    location = absolute_location(path)
    store_options, spark_options = split_options(options)
    snapshot = _native.Snapshot.open(
        location, store_options, asked_version(location, store_options, version, timestamp)
    )
    try:
        jvm = _internals.Jvm.of(spark)
        check_file_system(spark, place_of(location, snapshot.location))
        access = scan_settings(location, store_options, snapshot.location)
    except _internals.NativeScanUnavailable as reason:
        if distributed_plan:
            raise UnsupportedFeatureError(
                f"distributed_plan needs the native scan, and {reason}: read without it, or take the files of "
                "deltaplane.spark.plan",
                table=snapshot.uri,
            ) from None
        _log.info("reading %s through the data source: %s", snapshot.uri, reason)
        reader = portable_reader(spark, store_options)
        return reader.option("versionAsOf", str(snapshot.version)).load(location)
    warn_of_shared_settings(spark, place_of(location, snapshot.location), spark_options)
    jobs = _jobs(spark, location, store_options, snapshot.location, distributed_plan)
    return data_frame(spark, jvm, PinnedSnapshot(snapshot), jobs, {**access, **spark_options})


@checked(spark="SparkSession | OriginalSession", options="Mapping | None")
@of_session(lambda spark, *_, **__: spark)
def read_changes(
    spark: SparkSession,
    path: TableUri,
    starting_version: int | None = None,
    ending_version: int | None = None,
    starting_timestamp: VersionLike | None = None,
    ending_timestamp: VersionLike | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows that changed between two versions, both inclusive, with their change types, as a
    DataFrame.

    Columns and meaning are those of `DeltaTable.load_cdf` (protocol section 7.4, P131, P132). Spark
    reads the rows lazily through deltaplane's own reader, with a number of tasks that depends on
    the size of the changed files.

    Args:
        spark: the session.
        path: the table's path or URL.
        starting_version: the first version; or `starting_timestamp`: the first version at or after
            this time.
        ending_version: the last version, limited to the newest one; or `ending_timestamp`: the last
            version at or before this time. Default: the newest version at the time of this call.
        options: access to the store.

    Raises:
        VersionNotFoundError: the range contains no version, or a bound's timestamp is after the
            newest commit (both unless the session's
            `spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled` is true), or log
            clean-up removed commits of the range.
        InvalidArgumentError: no start; or a version of the range has no change data feed
            (`delta.enableChangeDataFeed`).
        SchemaMismatchError: a column was dropped or changed its type within the range.

    >>> from deltaplane import spark as dp
    >>> _ = dp.write(spark.range(2), "fed", configuration={"delta.enableChangeDataFeed": "true"})
    >>> dp.read_changes(spark, "fed", 0).select("_change_type", "id").orderBy("id").collect()
    [Row(_change_type='insert', id=0), Row(_change_type='insert', id=1)]
    """
    location = absolute_location(path)
    store_options, _ = split_options(options)
    snapshot = _native.Snapshot.open(location, store_options)
    lenient = reaches_beyond(spark)
    limits = {"starting": (starting_version, starting_timestamp), "ending": (ending_version, ending_timestamp)}
    for which, (bound, moment) in limits.items():
        if bound is not None and moment is not None:
            raise InvalidArgumentError(f"give {which}_version or {which}_timestamp, not both", table=snapshot.uri)
        if moment is not None and not lenient:
            refuse_after_newest(snapshot, moment)
    versions = change_range(
        snapshot,
        starting_version,
        ending_version,
        starting_timestamp,
        ending_timestamp,
        allow_out_of_range=lenient,
    )
    # Checks the range here, because Spark would show a refusal as the text of a worker's error.
    versions.last.changes(versions.first)
    if not has_sources():
        return changed_rows(spark, versions, location, store_options)
    reader = portable_reader(spark, store_options).option("readChangeFeed", "true")
    last = versions.last.version
    bounds = {"startingVersion": min(versions.first, last), "endingVersion": last}
    frame = reader.options(**{name: str(version) for name, version in bounds.items()}).load(location)
    # An empty range has the same columns.
    return frame.limit(0) if versions.first > last else frame


@checked(spark="SparkSession | OriginalSession", options="Mapping | None")
@of_session(lambda spark, *_, **__: spark)
def create_or_replace_temp_view(
    spark: SparkSession,
    name: str,
    path: TableUri,
    options: Mapping[str, str] | None = None,
    distributed_plan: bool | None = None,
) -> None:
    """Creates a temporary view that shows the newest version at each query; all parts of a query
    see the same version.

    The view's columns are fixed: columns added later don't show, and a query fails with the advice
    to create the view again after one of its columns was dropped, renamed or changed its type.
    `distributed_plan` is as in `read`.

    Raises:
        TableNotFoundError: the path contains no table.
        UnsupportedFeatureError: the session can't run the native scan (Spark Connect, an untested
            Spark version).

    >>> from deltaplane import spark as dp
    >>> one = spark.createDataFrame([("mon", 1)], "day string, n int")
    >>> _ = dp.write(one, "live")
    >>> dp.create_or_replace_temp_view(spark, "live_sales", "live")
    >>> _ = dp.write(one, "live")
    >>> spark.sql("SELECT sum(n) AS total FROM live_sales").collect()
    [Row(total=2)]
    """
    live_frame(spark, path, options, distributed_plan).createOrReplaceTempView(name)


@of_session(lambda spark, *_, **__: spark)
def live_frame(
    spark: SparkSession,
    path: TableUri,
    options: Mapping[str, str] | None = None,
    distributed_plan: bool | None = None,
) -> DataFrame:
    """A frame that shows the newest version at each query, like `create_or_replace_temp_view`."""
    location = absolute_location(path)
    store_options, spark_options = split_options(options)
    snapshot = _native.Snapshot.open(location, store_options)
    try:
        jvm = _internals.Jvm.of(spark)
        check_file_system(spark, place_of(location, snapshot.location))
        access = scan_settings(location, store_options, snapshot.location)
    except _internals.NativeScanUnavailable as reason:
        raise UnsupportedFeatureError(
            f"a view that follows the table needs the native scan, and {reason}: create one of read(...) at each version",
            table=snapshot.uri,
        ) from None
    warn_of_shared_settings(spark, place_of(location, snapshot.location), spark_options)
    place, files_access = files_place(location, store_options, snapshot.location)
    jobs = _jobs(spark, location, store_options, snapshot.location, distributed_plan)

    def reopened() -> _native.Snapshot:
        with in_session(spark):
            return _native.Snapshot.open(location, store_options)

    snapshots = LiveSnapshots(snapshot, reopened, _native.RawStore.open(place, files_access))
    frame: DataFrame = data_frame(spark, jvm, snapshots, jobs, {**access, **spark_options})
    return frame


def newest_frame(spark: SparkSession, path: TableUri, options: Mapping[str, str] | None = None) -> DataFrame:
    """A frame like delta-spark's, which shows the newest version at each query; in a session that
    can't run the native scan, and within a transaction, it stays at the present version."""
    location = absolute_location(path)
    try:
        _internals.Jvm.of(spark)
        if is_name(location):
            with in_session(spark):
                store_options = split_options(options)[0]
                snapshot = _native.Snapshot.open(location, store_options)
                check_file_system(spark, place_of(location, snapshot.location))
                # Whether there are any for the catalog's credentials.
                scan_settings(location, store_options, snapshot.location)
        else:
            check_file_system(spark, location)
    except _internals.NativeScanUnavailable:
        return read(spark, path, options=options)
    if is_name(location) and open_transaction(spark) is not None:
        return read(spark, path, options=options)
    return live_frame(spark, path, options)


def named_as(frame: DataFrame, name: str) -> DataFrame:
    """A frame whose columns can be qualified by a table's full name, if the session can run the
    native scan."""
    try:
        jvm = _internals.Jvm.of(frame.sparkSession)
    except _internals.NativeScanUnavailable:
        return frame
    named: Any = jvm.named(frame, [part.strip("`") for part in name.split(".")])
    named._deltaplane_index = getattr(frame, "_deltaplane_index", None)
    shown: DataFrame = named
    return shown


def data_frame(
    spark: Any,
    jvm: _internals.Jvm,
    snapshots: PinnedSnapshot | LiveSnapshots,
    jobs: Plans,
    spark_options: Mapping[str, str],
    *,
    streaming: bool = False,
    places: Places | None = None,
) -> Any:
    """Returns the rows of the files that `jobs` and the snapshots select; with `streaming`, as a
    micro-batch of a stream."""
    refuse_widened(snapshots.first.schema.to_value(), spark.version)
    options = {**_READ_OPTIONS, **(_BY_ID if snapshots.first.column_mapping == "id" else {}), **spark_options}

    # Commands use their own hidden columns.
    tracking = None if places is not None else snapshots.first.row_tracking_columns()

    def scan(index: DeltaplaneFileIndex) -> Any:
        schema: Mapping[str, Any] = index.relation_schema
        if snapshots.first.column_mapping != "none":
            schema = with_file_names(schema, snapshots.first.schema.to_value())
        if places is not None:
            schema = places.relation_schema(schema)
        return jvm.data_frame(spark, index.shown, json.dumps(schema), options, streaming=streaming, tracking=tracking)

    def shown(frame: Any) -> Any:
        return frame if places is None else jvm.with_places(frame, places)

    if not snapshots.first.may_have_vectors():
        index = DeltaplaneFileIndex(spark, jvm, snapshots, jobs)
        frame = shown(scan(index))
    else:
        # Only files with a deletion vector need a check of each row's position.
        index = DeltaplaneFileIndex(spark, jvm, snapshots, jobs, "whole")
        marked = DeltaplaneFileIndex(spark, jvm, snapshots, jobs, "marked")
        whole = shown(scan(index))
        frame = whole.union(shown(jvm.without_rows(scan(marked), marked.deleted)).select(_columns(whole)))
    if snapshots.first.column_mapping != "none":
        by_id = snapshots.first.column_mapping == "id"
        frame = logical_columns(frame, index.relation_schema, snapshots.first.schema.to_value(), by_id=by_id)
    if places is None and (tracking is not None or snapshots.first.may_have_vectors()):
        # For a single scan Spark itself provides the hidden column, but without row ids.
        frame = jvm.with_metadata(frame)
    # The last plans of this frame, for tuning and for tests.
    frame._deltaplane_index = index
    return frame


def jvm_of_commands(spark: SparkSession, table: str) -> _internals.Jvm:
    """The session's internals, for a command that changes rows of a table.

    Raises:
        UnsupportedFeatureError: the session can't run the native scan (Spark Connect, an untested
            Spark version).
    """
    with _for_commands(table):
        return _internals.Jvm.of(spark)


@contextmanager
def _for_commands(table: str) -> Iterator[None]:
    """Refuses a command on rows where the native scan can't run."""
    try:
        yield
    except _internals.NativeScanUnavailable as reason:
        raise UnsupportedFeatureError(
            f"DELETE, UPDATE and MERGE on Spark need the native scan, and {reason}: use deltaplane.DeltaTable, which runs "
            "them without Spark",
            table=table,
        ) from None


def read_with_places(
    spark: SparkSession, location: str, snapshot: _native.Snapshot, options: Mapping[str, str] | None, places: Places
) -> DataFrame:
    """A version's rows with columns for each row's position; `location` is the table's, by which
    the snapshot was opened.

    Raises:
        UnsupportedFeatureError: as in `jvm_of_commands`.
    """
    jvm = jvm_of_commands(spark, snapshot.uri)
    store_options, spark_options = split_options(options)
    jobs = _jobs(spark, location, store_options, snapshot.location, None)
    with _for_commands(snapshot.uri):
        spark_options = {**scan_settings(location, store_options, snapshot.location), **spark_options}
    return data_frame(spark, jvm, PinnedSnapshot(snapshot), jobs, spark_options, places=places)


def _columns(frame: Any) -> list[Any]:
    """The frame's columns, whichever characters their names contain."""
    return [quoted(name) for name in frame.columns]


def _jobs(
    spark: Any, location: str, store_options: dict[str, str] | None, place: str, distributed: bool | None
) -> JobPlans:
    """The Spark jobs that plan scans; `place` is the location of the table's files. None within a
    transaction over tables of a catalog, whose own changes only the driver knows.

    Raises:
        UnsupportedFeatureError: a job is required within a transaction.
    """
    if not is_name(location) or open_transaction(spark) is None:
        options = files_place(location, store_options, place)[1] if is_name(location) else store_options
        return JobPlans(spark, options, _least_bytes(spark, distributed))
    if distributed:
        raise UnsupportedFeatureError(
            "a Spark job can't plan scans within a transaction, whose changes only the driver knows: read without "
            "distributed_plan, or after COMMIT",
            table=location,
        )
    return JobPlans(spark, None, math.inf)


def _least_bytes(spark: Any, distributed: bool | None) -> float:
    """The log size from which a Spark job plans scans."""
    if distributed is not None:
        return 0 if distributed else math.inf
    text = spark.conf.get(_BOUND, str(DISTRIBUTED_BYTES))
    size = size_of(text)
    if size is None:
        raise InvalidArgumentError(
            f"{_BOUND} is a number of bytes such as 4g, not {text!r}: set it again in the session"
        )
    return size
