"""Distributed replay: a Spark job computes a version's live files, for logs too large for one
machine.

The driver knows the log files of the version, and each task reads some of them with the core.
Actions of commits on the same file are reconciled by a shuffle on the file's key; the checkpoint's
files are live unless a commit names their keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from deltaplane import _native
from deltaplane.spark.execution.carried import with_access
from deltaplane.spark.jvm.internals import arrow_schema, spark_schema
from deltaplane.spark.jvm.older_pyspark import arrow_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DISTRIBUTED_BYTES", "PART_BYTES", "JobPlans", "live_files"]

# Default log size in bytes from which a job plans a scan: Parquet of this size has some forty
# million files, which takes one machine minutes.
DISTRIBUTED_BYTES = 4 << 30
# Bytes of the log that one task reads: compressed bytes of a checkpoint, text of commits.
PART_BYTES = 32 << 20
# Up to this many bytes of commits, the keys that they name are broadcast to every executor; the
# keys are a fraction of that size. Beyond it Spark chooses the join.
_BROADCAST_BYTES = 64 << 20

# Names of errors by which a task reports a damaged log file that an older checkpoint or the commits
# can replace.
_DAMAGE = ("CorruptFileError", "CorruptLogError", "FileMissingError", "VersionNotFoundError")

Files = Literal["all", "whole", "marked"]
T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Replay:
    """One plan's constants for its tasks. Hidden from `repr`, since storage options may contain
    credentials."""

    location: str
    options: dict[str, str] | None = field(repr=False)
    plan: _native.ReplayPlan
    checkpoint: list[_native.ReplayPart]
    commits: list[_native.ReplayPart]
    commit_bytes: int
    may_repeat: bool


def live_files(
    spark: SparkSession,
    location: str,
    options: dict[str, str] | None,
    log: _native.Replay,
    show: Literal["plan", "adds", "sizes"],
    *,
    predicate: _native.Predicate | None = None,
    filters: tuple[Sequence[str], str] | None = None,
    files: Files = "all",
) -> DataFrame:
    """A version's live files that may match, as a lazy frame, without running a job.

    Args:
        spark: the session.
        location, options: the table, and the tasks' access to its store.
        log: the version's state and the parts of its log.
        show: the columns of `DeltaTable.plan`; or `add`, each action as JSON without statistics; or
            `size_bytes`.
        predicate: a condition.
        filters: an alternative to `predicate`: Catalyst's filters as JSON, and their time zone.
        files: all, or those without ("whole") or with ("marked") a deletion vector.

    Raises:
        InvalidArgumentError: the predicate names no column of the table.
    """
    plan = log.plan(show, files, predicate, filters)
    shown = spark_schema(plan.schema())
    replay = _Replay(location, options, plan, log.checkpoint, log.commits, log.commit_bytes, log.may_repeat)
    frames = [_of_commits(spark, replay, shown)] if replay.commits else []
    frames += [_of_checkpoint(spark, replay, shown)] if replay.checkpoint else []
    return reduce(lambda first, other: first.union(other), frames) if frames else spark.createDataFrame([], shown)


def _of_commits(spark: SparkSession, replay: _Replay, shown: Any) -> DataFrame:
    """The files whose newest action in the commits is an add. Other actions are dropped before they
    are decoded: as in the core's replay, a removed file can't fail a plan."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    plan, expected = replay.plan, arrow_schema(shown)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from deltaplane.spark.scan.replay_tasks import live_files

        yield from live_files(plan, batches, expected)

    words = _words(spark, replay, keys_only=False)
    newest = Window.partitionBy("path", "vector_id").orderBy(F.desc("version"), F.asc("turn"))
    live = words.withColumn("place", F.row_number().over(newest)).where("place = 1 AND add IS NOT NULL")
    return live.select("add").mapInArrow(task, shown)


def _of_checkpoint(spark: SparkSession, replay: _Replay, shown: Any) -> DataFrame:
    """The checkpoint's files whose keys no commit names, each once."""
    from pyspark.sql import functions as F

    location, options, plan, parts = replay.location, replay.options, replay.plan, replay.checkpoint
    columns = shown
    if replay.commits or replay.may_repeat:
        for key in [key for key in ("path", "vector_id") if key not in shown.names]:
            columns = _with_text(columns, key)
    expected = arrow_schema(columns)

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from deltaplane.spark.scan.replay_tasks import checkpoint_files

        yield from checkpoint_files(location, options, plan, parts, numbers, expected)

    files = spark.range(0, len(parts), 1, len(parts)).mapInArrow(with_access(task, (location, options)), columns)
    if replay.may_repeat:
        files = files.dropDuplicates(["path", "vector_id"])
    if not replay.commits:
        return files.select(*shown.names)
    touched = _words(spark, replay, keys_only=True).toDF("touched", "touched_vector")
    if replay.commit_bytes <= _BROADCAST_BYTES:
        touched = F.broadcast(touched)
    same = (F.col("path") == F.col("touched")) & F.col("vector_id").eqNullSafe(F.col("touched_vector"))
    return files.join(touched, same, "left_anti").select(*shown.names)


def _words(spark: SparkSession, replay: _Replay, *, keys_only: bool) -> DataFrame:
    """The file actions of the commits, or only their keys."""
    location, options, parts = replay.location, replay.options, replay.commits
    columns = "path string, vector_id string" + ("" if keys_only else ", version long, turn long, add string")

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from deltaplane.spark.scan.replay_tasks import commit_words

        yield from commit_words(location, options, parts, keys_only, numbers)

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(with_access(task, (location, options)), columns)


def _with_text(columns: Any, name: str) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([*columns.fields, StructField(name, StringType())])


class JobPlans:
    """Scan plans made by Spark jobs: selects the versions that need one, and runs the job.

    Catalyst waits for the job while it plans the query, as it does when it lists the files of other
    tables. The job reads none of the session's tables, so it never waits for a lock that the query
    holds; it inherits the query's job group, and cancelling the group ends both.
    """

    def __init__(self, spark: SparkSession, options: dict[str, str] | None, least_bytes: float) -> None:
        self._spark = spark
        self._options = options
        self._least_bytes = least_bytes

    def take(self, snapshot: _native.Snapshot, filters: Sequence[str] = (), zone: str = "UTC") -> bool:
        """Whether a plan with these filters reads enough of this version's log for a job: the
        driver finds few files of a large log sooner than a job starts."""
        if _native.Replay.bytes(snapshot) < self._least_bytes:
            return False
        return not filters or _native.Replay.bytes(snapshot, (filters, zone)) >= self._least_bytes

    def plan(
        self,
        snapshot: _native.Snapshot,
        filters: Sequence[str],
        zone: str,
        files: Files,
    ) -> _native.SparkPlan:
        """Plans as `_native.spark_plan` does; the driver receives only the selected files."""

        def job() -> _native.SparkPlan:
            frame = self._files(snapshot, "adds", files, (filters, zone))
            adds = _native.AddedFiles.of_rows(arrow_table(frame))
            return _native.spark_plan_of(snapshot, adds, filters, zone, files)

        return _sound(job, lambda: _native.spark_plan(snapshot, filters, zone, files))

    def size_bytes(self, snapshot: _native.Snapshot, files: Files) -> int:
        """Sums sizes as `_native.spark_size_bytes` does."""
        from pyspark.sql import functions as F

        known = _native.spark_size_bytes(snapshot, files, False)
        if known is not None:
            return known

        def job() -> int:
            sizes = self._files(snapshot, "sizes", files)
            # A log may claim arbitrary sizes, also negative ones, and a long could overflow.
            total = sizes.agg(F.sum(F.abs(F.col("size_bytes").cast("decimal(20, 0)")))).collect()[0][0]
            return int(total or 0)

        return _sound(job, lambda: _native.spark_size_bytes(snapshot, files, True) or 0)

    def _files(
        self,
        snapshot: _native.Snapshot,
        show: Literal["adds", "sizes"],
        files: Files,
        filters: tuple[Sequence[str], str] | None = None,
    ) -> DataFrame:
        log = _native.Replay.of(snapshot, PART_BYTES)
        return live_files(self._spark, snapshot.location, self._options, log, show, filters=filters, files=files)


def _sound(job: Callable[[], T], walk: Callable[[], T]) -> T:
    """The job's result; if the job finds damage, the result of the core's own replay, which can use
    an older checkpoint."""
    from pyspark.errors import PySparkException

    try:
        return job()
    except PySparkException as e:
        if not any(f"{damage}:" in str(e) for damage in _DAMAGE):
            raise
        _log.warning("a distributed plan met a damaged log, the driver plans instead: %s", e)
        return walk()
