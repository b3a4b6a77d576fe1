"""OPTIMIZE, CONVERT, CLONE and VACUUM by Spark's tasks: each group of files is moved in one task,
footers and directories are read, and files copied and deleted, in many. Plans and commits are the
core's, as without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.clone import Clone, clone, clone_parquet
from deltaplane.commands.optimize import Layout, optimize
from deltaplane.commands.rewriting import Settings
from deltaplane.commands.vacuum import Vacuum, vacuum
from deltaplane.exceptions import FileMissingError, InvalidArgumentError
from deltaplane.properties import commit_request
from deltaplane.spark.datasource.delta_options import tells_of_vacuum
from deltaplane.spark.dml.rewriting import SparkTarget
from deltaplane.spark.execution.clones import note_clone, with_sources
from deltaplane.spark.execution.jobs import run_tasks
from deltaplane.spark.execution.workers import remedy
from deltaplane.spark.execution.write_tasks import raise_refusal
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.write.convert import Conversion, Files, FilesHere, WouldConvert

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane import DeltaTable
    from deltaplane.io import records

__all__ = [
    "clone_by_tasks",
    "clone_parquet_by_tasks",
    "convert_by_tasks",
    "files_by_tasks",
    "optimize_by_tasks",
    "optimize_table",
    "vacuum_by_tasks",
]

# So many files' footers, or directories, are a task's at least.
_LEAST = 16
# From so many files that go at once on, tasks delete them, so many by one request.
_DISTRIBUTED_DELETE, _MANY = "spark.deltaplane.distributedDeleteFiles", 20_000
_REQUEST = 1_000
# From so many files that a clone copies on, tasks copy them.
_DISTRIBUTED_COPY, _MANY_COPIES = "spark.deltaplane.distributedCopyFiles", 32
_LISTED = "path string, length long, isDir boolean, modificationTime long"


def _spread(spark: SparkSession, texts: Sequence[str], each: int = 1) -> DataFrame:
    """One column of texts, so many to a task at least; large texts travel with their tasks
    alone."""
    tasks = max(1, min(-(-len(texts) // each), 4 * spark.sparkContext.defaultParallelism if each > 1 else len(texts)))
    rows = spark.sparkContext.parallelize([(text,) for text in texts], tasks)
    return spark.createDataFrame(rows, "one string")


# --- OPTIMIZE -----------------------------------------------------------------------------------------------------------


def optimize_by_tasks(target: SparkTarget, what: Layout, settings: Settings) -> dict[str, Any]:
    """As `commands.optimize`, with a task for each group of files; its rows never pass Spark. On
    Spark Connect without tasks."""
    if _internals.is_connect(target.spark):
        return optimize(target, what, settings)
    options = with_sources(target.location, split_options(target.options)[0])
    location, spark = target.location, target.spark

    def moved(job: _native.Layout, memory: int) -> Iterator[int]:
        spec = job.task_spec

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import arrange

            yield from arrange(location, options, spec, memory, batches)

        outcomes, refusals = run_tasks(_spread(spark, job.groups()), task)
        done = [job.adopt(outcome) for outcome in outcomes]
        raise_refusal(refusals, location)
        yield from done

    return optimize(target, what, settings, moved)


def optimize_table(spark: SparkSession, table: DeltaTable, what: Layout) -> dict[str, Any]:
    """The same for a table that is open without Spark."""
    options = table.storage_options
    location = absolute_location(table.location)
    target = SparkTarget(location, _native.Snapshot.open(location, options), spark, options)
    return optimize_by_tasks(target, what, Settings())


# --- CONVERT ------------------------------------------------------------------------------------------------------------


def convert_by_tasks(
    spark: SparkSession,
    what: Conversion,
    *,
    dry_run: bool = False,
    configuration: Mapping[str, str] | None = None,
) -> WouldConvert | None:
    """As `convert_to_deltalake`, with footers read by tasks. On Spark Connect without them."""
    return what.run(_files_of(spark, what), dry_run=dry_run, configuration=dict(configuration or {}))


def _files_of(spark: SparkSession, what: Conversion) -> Files:
    return FilesHere(what) if _internals.is_connect(spark) else _FilesByTasks(spark, what)


def clone_parquet_by_tasks(
    spark: SparkSession,
    source: Conversion,
    name: str,
    target: str,
    what: Clone,
    options: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """As `clone_parquet`, with footers read by tasks. On Spark Connect without them."""
    target = absolute_location(target)
    metrics = clone_parquet(source, _files_of(spark, source), name, (target, options), what)
    if not what.dry_run:
        note_clone(target, source.location, source.options)
    return metrics


@dataclass(frozen=True)
class _FilesByTasks:
    spark: SparkSession
    of: Conversion

    def schema(self, files: list[str]) -> _native.TableSchema:
        """Tasks tell the kinds of schemas; one file of each is enough to put them together."""
        location, options = self.of.location, self.of.options

        def found(file: str) -> list[str]:
            return [json.dumps([_native.parquet_schema(location, options, [file]).to_json(), file])]

        kinds = dict(json.loads(text) for text in self._texts(files, found))
        return _native.parquet_schema(location, options, list(kinds.values()))

    def adopt(self, spec: records.WriteSpec, files: Iterator[str], count: int) -> list[str]:
        """A task for some files."""
        del count
        location, options, statistics = self.of.location, self.of.options, self.of.collect_stats
        return self._texts(list(files), lambda file: _native.adopt_files(location, options, spec, [file], statistics))

    def _texts(self, files: list[str], of: Callable[[str], list[str]]) -> list[str]:
        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import told

            yield from told(of, batches)

        found, refusals = run_tasks(_spread(self.spark, files, _LEAST), task)
        raise_refusal(refusals, self.of.location)
        return found


# --- CLONE --------------------------------------------------------------------------------------------------------------


def clone_by_tasks(
    spark: SparkSession, table: DeltaTable, target: str, what: Clone, options: Mapping[str, str] | None = None
) -> dict[str, int]:
    """As `DeltaTable.clone`, with files copied by tasks where there are many; `options` are those
    of the target's store.

    Raises:
        ImportError: the workers' Python is another one, or doesn't have deltaplane.
        InvalidArgumentError: the session's setting is no number.
    """
    location, given = absolute_location(table.location), table.storage_options
    # A worker may stand in another directory.
    target = absolute_location(target)
    least = _setting(spark, _DISTRIBUTED_COPY, _MANY_COPIES)

    def copies(files: list[tuple[str, str]]) -> list[int] | None:
        # What lies in one process's memory is in no worker's.
        if (
            _internals.is_connect(spark)
            or len(files) < least
            or any(place.startswith("memory:") for place in (location, target))
        ):
            return None
        tasks = max(1, min(len(files), 4 * spark.sparkContext.defaultParallelism))
        requests = [json.dumps(files[first::tasks]) for first in range(tasks)]

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import copy

            yield from copy(location, given, target, options, batches)

        outcomes, missing = run_tasks(_spread(spark, requests), task)
        for message in missing[:1]:
            raise FileMissingError(message, table=location)
        return [size for outcome in outcomes for size in json.loads(outcome)]

    snapshot = _native.Snapshot.open(location, given, table.version())
    metrics = clone(snapshot, (target, options), what, commit_request(None, None), copies=copies)
    if what.shallow and not what.dry_run:
        note_clone(target, location, given)
    return metrics


def _setting(spark: SparkSession, name: str, otherwise: int) -> int:
    text = spark.conf.get(name, str(otherwise)) or str(otherwise)
    if not text.isdecimal():
        raise InvalidArgumentError(f"{name} is a number of files, not {text!r}: set it anew")
    return int(text)


# --- VACUUM -------------------------------------------------------------------------------------------------------------


def vacuum_by_tasks(spark: SparkSession, table: DeltaTable, what: Vacuum, inventory: Any = None) -> list[str]:
    """As `DeltaTable.vacuum`, with directories listed by tasks, and files deleted by them where
    there are many.

    Raises:
        ImportError: the workers' Python is another one, or doesn't have deltaplane.
        InvalidArgumentError: the session's setting is no number.
    """
    location, options = absolute_location(table.location), table.storage_options
    if inventory is None and what.full:
        inventory = files_by_tasks(spark, location, options)
    least = _setting(spark, _DISTRIBUTED_DELETE, _MANY)

    def deletes(keys: list[str]) -> bool:
        if _internals.is_connect(spark) or len(keys) < least:
            return False
        requests = [json.dumps(keys[at : at + _REQUEST]) for at in range(0, len(keys), _REQUEST)]

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import delete

            yield from delete(location, options, batches)

        run_tasks(_spread(spark, requests), task)
        return True

    snapshot = _native.Snapshot.open(location, options)
    what = replace(what, told=tells_of_vacuum(spark, location))
    result = vacuum(snapshot, what, inventory, commit_request(None, None), deletes)
    if result.version is not None:
        table.update_incremental()
    return result.paths


def files_by_tasks(spark: SparkSession, location: str, options: Mapping[str, str] | None) -> pa.Table | None:
    """The files below a table's root as an inventory, a directory of the first level to a task;
    None where there are too few of these to divide the work, or the store can't tell them.

    Raises:
        ImportError: the workers' Python is another one, or doesn't have deltaplane.
    """
    if _internals.is_connect(spark):
        return None
    given = None if options is None else dict(options)
    level = _native.RawStore.open(location, given).list_level("")
    directories = [] if level is None else [name for name in level[0] if not name.startswith("_delta_log")]
    if level is None or len(directories) < _LEAST:
        return None

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from deltaplane.spark.execution.write_tasks import listed

        yield from listed(location, given, batches)

    try:
        below: pa.Table = _spread(spark, directories, _LEAST).mapInArrow(task, _LISTED).toArrow()
    except Exception as e:
        cause = remedy(e)
        if cause is None:
            raise
        raise ImportError(cause) from e
    import pyarrow as pa

    here = [{"path": p, "length": size, "isDir": False, "modificationTime": at} for p, size, at, _ in level[1]]
    return pa.concat_tables([below, pa.Table.from_pylist(here, schema=below.schema)])
