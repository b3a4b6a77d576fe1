"""`plan`: the live files of one version as a DataFrame, found by a Spark job.

Arguments in, a frame out; the job is `_replay`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltaplane import _native, expr
from deltaplane.arguments import checked
from deltaplane.expr import Predicate, columns_of
from deltaplane.io.storage_options import TableUri, VersionLike
from deltaplane.spark.datasource.time_travel import asked_version
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.scan import replay as _replay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["plan"]


@checked(spark="SparkSession | _Original", options="Mapping | None")
def plan(
    spark: SparkSession,
    path: TableUri,
    predicate: Predicate | None = None,
    version: int | None = None,
    timestamp: VersionLike | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The files of one version that may hold a row for which the predicate is true, as a DataFrame:
    rows and columns are those of `DeltaTable.plan`, in no order, and timestamps are in
    microseconds, which is all that Spark has.

    For logs beyond one machine: checkpoints, sidecars and commits are read in Spark's tasks by the
    core, pruned there, and reconciled by a join on the files' keys. The frame is lazy and pinned to
    the version.

    Cost: the driver lists the log and reads what opening a table reads, each commit after the
    checkpoint and the checkpoint's few state rows, and holds nothing of what they say of files.
    Each use of the frame reads the checkpoint once and the commits after it twice. Source: protocol
    sections 4 and 8, P041 to P043, P164 to P170.

    Args:
        spark: the session, classic or Spark Connect.
        path: the table's path or URL.
        predicate: a condition in Spark SQL, or tuples.
        version: a version number; or `timestamp`: the newest version at that time (ISO 8601 text or
            a datetime, UTC unless it has a zone). The newest one without either.
        options: how deltaplane reaches the store, on the driver and in tasks.

    Raises:
        TableNotFoundError, VersionNotFoundError: the table or version doesn't exist, or the
            timestamp is after the newest commit.
        InvalidArgumentError: a predicate that isn't Spark SQL or names no column; version and
            timestamp together.
        UnsupportedFeatureError: a feature of the table that this version lacks; a table that other
            processes can't see.

    While it runs, a log file that is damaged or gone fails the job, by name. `DeltaTable.plan`
    would go on from an older checkpoint, which tasks that have sent rows already can't.

    >>> from deltaplane import spark as dp
    >>> for n in (1, 2, 3):
    ...     _ = dp.write(spark.createDataFrame([(n,)], "n int"), "numbers")
    >>> dp.plan(spark, "numbers", "n > 1").select("num_records", "max.n").orderBy("n").collect()
    [Row(num_records=1, n=2), Row(num_records=1, n=3)]
    """
    location = absolute_location(path)
    store_options, _ = split_options(options)
    number = asked_version(location, store_options, version, timestamp)
    columns = columns_of(lambda: _native.Snapshot.open(location, store_options, number).schema)
    tree = expr.parse(predicate, columns)
    log = _native.Replay.open(location, store_options, number, None, _replay.PART_BYTES)
    return _replay.live_files(spark, location, store_options, log, "plan", predicate=tree)
