"""`plan`: the live files of one version as a DataFrame, found by a Spark job.

Converts arguments to a frame; `replay` defines the job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltaplane import _native, expr
from deltaplane.arguments import checked
from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.expr import Predicate, columns_of
from deltaplane.io.session_options import of_session
from deltaplane.io.storage_options import TableUri, VersionLike
from deltaplane.io.tracing import traced
from deltaplane.spark.datasource.time_travel import asked_version
from deltaplane.spark.execution.carried import files_place
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.session_catalogs import is_name, open_transaction
from deltaplane.spark.scan import replay as _replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["plan"]


@checked(spark="SparkSession | OriginalSession", options="Mapping | None")
@of_session(lambda spark, *_, **__: spark)
@traced("PLAN", 1)
def plan(
    spark: SparkSession,
    path: TableUri,
    predicate: Predicate | None = None,
    version: int | None = None,
    timestamp: VersionLike | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The files of one version that may hold a row matching the predicate, as a DataFrame: rows and
    columns are those of `DeltaTable.plan`, without an order, and timestamps are in microseconds,
    Spark's only unit.

    For logs too large for one machine: Spark's tasks read checkpoints, sidecars and commits by the
    core, prune the files and reconcile them by a join on the files' keys. The frame is lazy and
    pinned to the version.

    Of a table of a catalog (`uc://catalog.schema.table`), tasks read the published log, and get the
    commits that only the catalog has from the driver, which opens the table.

    Cost: the driver lists the log and reads the same files as opening a table, each commit after
    the checkpoint and the checkpoint's few state rows, but stores no file actions. Each use of the
    frame reads the checkpoint once and the later commits twice. Source: protocol sections 4 and 8,
    P041 to P043, P164 to P170.

    Args:
        spark: the session, classic or Spark Connect.
        path: the table's path or URL.
        predicate: a condition in Spark SQL, or tuples.
        version: a version number; or `timestamp`: the newest version at that time (ISO 8601 text or
            a datetime, UTC unless it has a zone). Default: the newest version.
        options: access to the store, on the driver and in tasks.

    Raises:
        TableNotFoundError, VersionNotFoundError: the table or version doesn't exist, or the
            timestamp is after the newest commit.
        InvalidArgumentError: the predicate isn't Spark SQL or names an unknown column; or both
            version and timestamp are set.
        UnsupportedFeatureError: the table needs a feature that this version doesn't support, or
            exists only in this process; or a transaction over tables of a catalog is open, and the
            table is one of a catalog.

    A damaged or missing log file fails the job, with the file's name. `DeltaTable.plan` would
    continue from an older checkpoint, but tasks that have already returned rows can't.

    >>> from deltaplane import spark as dp
    >>> for n in (1, 2, 3):
    ...     _ = dp.write(spark.createDataFrame([(n,)], "n int"), "numbers")
    >>> dp.plan(spark, "numbers", "n > 1").select("num_records", "max.n").orderBy("n").collect()
    [Row(num_records=1, n=2), Row(num_records=1, n=3)]
    """
    location = absolute_location(path)
    store_options, _ = split_options(options)
    number = asked_version(location, store_options, version, timestamp)
    if is_name(location):
        return _of_name(spark, location, store_options, number, predicate)
    columns = columns_of(lambda: _native.Snapshot.open(location, store_options, number).schema)
    tree = expr.parse(predicate, columns)
    log = _native.Replay.open(location, store_options, number, None, _replay.PART_BYTES)
    return _replay.live_files(spark, location, store_options, log, "plan", predicate=tree)


def _of_name(
    spark: SparkSession,
    location: str,
    options: dict[str, str] | None,
    version: int | None,
    predicate: Predicate | None,
) -> DataFrame:
    """The same of a table of a catalog: the driver opens it, and gives tasks the commits that only
    the catalog has."""
    if open_transaction(spark) is not None:
        raise UnsupportedFeatureError(
            "Spark's tasks can't plan a table within a transaction, whose changes only the driver knows: use DeltaTable.plan, or "
            "plan after COMMIT",
            table=location,
        )
    snapshot = _native.Snapshot.open(location, options, version)
    tree = expr.parse(predicate, columns_of(lambda: snapshot.schema))
    place, access = files_place(location, options, snapshot.location)
    log = _native.Replay.of(snapshot, _replay.PART_BYTES)
    return _replay.live_files(spark, place, access, log, "plan", predicate=tree)
