"""Distributed replay: a version's live files by a Spark job, for logs beyond one machine.

The driver knows which files of the log make the version, and each task reads some of them with the
core. Commits' words on a file meet by a shuffle on its key; the checkpoint's files live where the
commits don't name their keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from deltaplane import _native
from deltaplane.spark.jvm.internals import arrow_schema, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DISTRIBUTED_BYTES", "PART_BYTES", "JobPlans", "live_files"]

# Bytes of a log from which a scan's files are planned by a job unless the caller or the session
# says otherwise: Parquet of this size is some forty million files, minutes of one machine.
DISTRIBUTED_BYTES = 4 << 30
# Bytes of the log that one task reads: compressed ones of a checkpoint, text of commits.
PART_BYTES = 32 << 20
# Up to so many bytes of commits the keys that they name go to every executor; their keys are a part
# of that. With more, Spark chooses the join.
_BROADCAST_BYTES = 64 << 20

# How the error of a task names damage of a log's file: what has an older checkpoint or the commits
# as a way around.
_DAMAGE = ("CorruptFileError", "CorruptLogError", "FileMissingError", "VersionNotFoundError")

Files = Literal["all", "whole", "marked"]
T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Replay:
    """One plan's constants on their way to tasks. Storage options may hold credentials, so they
    aren't shown."""

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
    """The live files of a version that may match, as a frame that no job was run for yet.

    Args:
        spark: the session.
        location, options: the table, and how tasks reach its store.
        log: the version's state and the parts of its log.
        show: the columns of `DeltaTable.plan`; or `add`, each action as JSON without statistics; or
            `size_bytes`.
        predicate: a condition.
        filters: instead, Catalyst's filters as JSON and the time zone that they were written in.
        files: all, or those without ("whole") or with ("marked") a deletion vector.

    Raises:
        InvalidArgumentError: a predicate that names no column of the table.
    """
    plan = log.plan(show, files, predicate, filters)
    shown = spark_schema(plan.schema())
    replay = _Replay(location, options, plan, log.checkpoint, log.commits, log.commit_bytes, log.may_repeat)
    frames = [_of_commits(spark, replay, shown)] if replay.commits else []
    frames += [_of_checkpoint(spark, replay, shown)] if replay.checkpoint else []
    return reduce(lambda one, other: one.union(other), frames) if frames else spark.createDataFrame([], shown)


def _of_commits(spark: SparkSession, replay: _Replay, shown: Any) -> DataFrame:
    """The files whose newest word in the commits is an add. What isn't that is dropped before
    anything is made of it: as in the core's walk, a file that is gone can't fail a plan."""
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
    """The checkpoint's files whose keys the commits don't name, each once."""
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

    files = spark.range(0, len(parts), 1, len(parts)).mapInArrow(task, columns)
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
    """What the commits say of files, or the keys alone that they name."""
    location, options, parts = replay.location, replay.options, replay.commits
    columns = "path string, vector_id string" + ("" if keys_only else ", version long, turn long, add string")

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from deltaplane.spark.scan.replay_tasks import commit_words

        yield from commit_words(location, options, parts, keys_only, numbers)

    return spark.range(0, len(parts), 1, len(parts)).mapInArrow(task, columns)


def _with_text(columns: Any, name: str) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    return StructType([*columns.fields, StructField(name, StringType())])


class JobPlans:
    """Scan plans made by Spark jobs: which versions get one, and the plan.

    Catalyst waits for the job while it plans the query, as it does for the files of other tables.
    The job is planned and run by itself, and reads nothing of the session's tables, so it waits for
    nothing that the query holds; it inherits the query's job group, and cancelling that ends both.
    """

    def __init__(self, spark: SparkSession, options: dict[str, str] | None, least_bytes: float) -> None:
        self._spark = spark
        self._options = options
        self._least_bytes = least_bytes

    def take(self, snapshot: _native.Snapshot) -> bool:
        """Whether this version's log is large enough for a job."""
        return _native.Replay.bytes(snapshot) >= self._least_bytes

    def plan(
        self,
        snapshot: _native.Snapshot,
        filters: Sequence[str],
        zone: str,
        files: Files,
    ) -> _native.SparkPlan:
        """As `_native.spark_plan`; only the files that are left come to the driver."""

        def job() -> _native.SparkPlan:
            found = self._files(snapshot, "adds", files, (filters, zone))
            adds = found.toArrow()["add"].to_pylist()
            return _native.spark_plan_of(snapshot, adds, filters, zone, files)

        return _sound(job, lambda: _native.spark_plan(snapshot, filters, zone, files))

    def size_bytes(self, snapshot: _native.Snapshot, files: Files) -> int:
        """As `_native.spark_size_bytes`."""
        from pyspark.sql import functions as F

        def job() -> int:
            sizes = self._files(snapshot, "sizes", files)
            # A log may claim negative sizes, and any: a long could overflow.
            total = sizes.agg(F.sum(F.abs(F.col("size_bytes").cast("decimal(20, 0)")))).collect()[0][0]
            return int(total or 0)

        return _sound(job, lambda: _native.spark_size_bytes(snapshot, files))

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
    """The job's result; the core's own walk's where the job met damage, of which the walk knows
    ways around."""
    from pyspark.errors import PySparkException

    try:
        return job()
    except PySparkException as e:
        if not any(f"{damage}:" in str(e) for damage in _DAMAGE):
            raise
        _log.warning("a distributed plan met a damaged log, the driver plans instead: %s", e)
        return walk()
