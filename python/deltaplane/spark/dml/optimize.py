"""OPTIMIZE, CONVERT, CLONE and VACUUM by Spark's tasks: each task moves one group of files, and
many tasks read footers and directories, and copy and delete files. The core plans and commits, as
without Spark.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.clone import Clone, clone, clone_parquet
from deltaplane.commands.optimize import Layout, optimize
from deltaplane.commands.rewriting import Settings
from deltaplane.commands.vacuum import Vacuum, vacuum
from deltaplane.exceptions import FileMissingError
from deltaplane.io.tracing import traced
from deltaplane.properties import commit_request
from deltaplane.spark.datasource.delta_options import tells_of_vacuum
from deltaplane.spark.dml.indexes import build_by_tasks
from deltaplane.spark.dml.rewriting import SparkTarget
from deltaplane.spark.execution.carried import files_place, place_of, with_access
from deltaplane.spark.execution.clones import note_clone, with_sources
from deltaplane.spark.execution.jobs import run_tasks, setting, spread
from deltaplane.spark.execution.workers import remedy
from deltaplane.spark.execution.write_tasks import raise_refusal
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.older_pyspark import arrow_table
from deltaplane.spark.jvm.session_catalogs import check_in_transaction, is_name
from deltaplane.write.convert import AdoptedFile, Conversion, Files, FilesHere, WouldConvert
from deltaplane.write.refresh import refresh_after_commit

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

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

# Minimum number of footers, or directories, per task.
_LEAST = 16
# The setting for the number of files from which tasks delete them, and the number of files that one
# request deletes.
_DISTRIBUTED_DELETE, _MANY = "spark.deltaplane.distributedDeleteFiles", 20_000
_REQUEST = 1_000
# The setting for the number of files from which tasks copy them for a clone, and its default.
_DISTRIBUTED_COPY, _MANY_COPIES = "spark.deltaplane.distributedCopyFiles", 32
_LISTED = "path string, length long, isDir boolean, modificationTime long"


# --- OPTIMIZE -----------------------------------------------------------------------------------------------------------


@traced("OPTIMIZE")
def optimize_by_tasks(target: SparkTarget, what: Layout, settings: Settings) -> dict[str, Any]:
    """Runs `commands.optimize` with a task for each group of files; the rows don't pass through
    Spark. On Spark Connect it runs without tasks."""
    if _internals.is_connect(target.spark):
        return optimize(target, what, settings)
    spark, known = target.spark, with_sources(target.location, split_options(target.options)[0])
    location, options = files_place(target.location, known, target.snapshot.location)

    def moved(job: _native.Layout, memory: int) -> Iterator[int]:
        spec = job.task_spec

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import arrange

            yield from arrange(location, options, spec, memory, batches)

        outcomes, refusals = run_tasks(
            spread(spark, [group.to_bytes() for group in job.groups()]), task, (location, options)
        )
        done = [job.adopt(_native.MovedGroup(outcome)) for outcome in outcomes]
        raise_refusal(refusals, location)
        yield from done

    extend = partial(build_by_tasks, spark, (target.location, target.options))
    return optimize(target, what, settings, moved, extend)


def optimize_table(spark: SparkSession, table: DeltaTable, what: Layout) -> dict[str, Any]:
    """Optimizes a table that is open without Spark."""
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
    """Runs `convert_to_deltalake` with tasks that read the footers. On Spark Connect it runs
    without tasks."""
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
    """Runs `clone_parquet` with tasks that read the footers. On Spark Connect it runs without
    tasks."""
    target = absolute_location(target)
    metrics = clone_parquet(source, _files_of(spark, source), name, (target, options), what)
    if not what.dry_run:
        note_clone(target, source.location, source.options)
    return metrics


@dataclass(frozen=True)
class _FilesByTasks:
    spark: SparkSession
    conversion: Conversion

    def schema(self, files: list[str]) -> _native.TableSchema:
        """Tasks return the distinct schemas; one file with each is enough to merge them."""
        location, options = self.conversion.location, self.conversion.options

        def file_columns(file: str) -> bytes:
            return json.dumps([_native.parquet_schema(location, options, [file]).to_json(), file]).encode()

        kinds = dict(json.loads(text) for text in self._results(files, file_columns))
        return _native.parquet_schema(location, options, list(kinds.values()))

    def adopt(self, spec: records.WriteSpec, files: Iterator[AdoptedFile], count: int) -> _native.AddedFiles:
        """Reads the footers of some files in a task."""
        del count
        location, options, statistics = self.conversion.location, self.conversion.options, self.conversion.collect_stats

        def adopted(file: bytes) -> bytes:
            return _native.adopt_files(location, options, spec, [pickle.loads(file)], statistics).to_bytes()

        results = self._results([pickle.dumps(file) for file in files], adopted)
        return _native.AddedFiles.joined([_native.AddedFiles(result) for result in results])

    def _results(self, files: list[str] | list[bytes], convert: Callable[[Any], bytes]) -> list[bytes]:
        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import reported

            yield from reported(convert, batches)

        results, refusals = run_tasks(
            spread(self.spark, files, _LEAST), task, (self.conversion.location, self.conversion.options)
        )
        raise_refusal(refusals, self.conversion.location)
        return results


# --- CLONE --------------------------------------------------------------------------------------------------------------


def clone_by_tasks(
    spark: SparkSession, table: DeltaTable, target: str, what: Clone, options: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Runs `DeltaTable.clone` with tasks that copy files if there are many; `options` are those of
    the target's store.

    Raises:
        ImportError: the workers run another Python, or lack deltaplane.
        InvalidArgumentError: the session's setting isn't a number.
    """
    location, store_options = absolute_location(table.location), table.storage_options
    # A worker may have another working directory.
    target = absolute_location(target)
    check_in_transaction(spark, target)
    least = setting(spark, _DISTRIBUTED_COPY, _MANY_COPIES)

    def copies(files: list[tuple[str, str]]) -> list[int] | None:
        # Workers can't access a store in this process's memory.
        if (
            _internals.is_connect(spark)
            or len(files) < least
            # Tasks don't know the place of a new table in a catalog.
            or is_name(target)
            or any(place.startswith("memory:") for place in (location, target))
        ):
            return None
        tasks = max(1, min(len(files), 4 * spark.sparkContext.defaultParallelism))
        requests = [json.dumps(files[first::tasks]) for first in range(tasks)]

        source, source_options = files_place(location, store_options, snapshot.location)

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import copy

            yield from copy(source, source_options, target, options, batches)

        stores = (source, source_options), (target, options)
        outcomes, missing = run_tasks(spread(spark, requests), task, *stores)
        for message in missing[:1]:
            raise FileMissingError(message, table=location)
        return [size for outcome in outcomes for size in json.loads(outcome)]

    snapshot = _native.Snapshot.open(location, store_options, table.version())
    metrics = clone(snapshot, (target, options), what, commit_request(None, None), copies=copies)
    if what.shallow and not what.dry_run:
        note_clone(target, place_of(location, snapshot.location), store_options)
    return metrics


# --- VACUUM -------------------------------------------------------------------------------------------------------------


def vacuum_by_tasks(
    spark: SparkSession, table: DeltaTable, what: Vacuum, inventory: Any = None
) -> records.VacuumResult:
    """Runs `DeltaTable.vacuum` with tasks that list directories, and delete files if there are
    many.

    Raises:
        ImportError: the workers run another Python, or lack deltaplane.
        InvalidArgumentError: the session's setting isn't a number.
    """
    location, options = absolute_location(table.location), table.storage_options
    check_in_transaction(spark, location)
    snapshot = _native.Snapshot.open(location, options)
    place, files_access = files_place(location, options, snapshot.location)
    if inventory is None and what.full:
        inventory = files_by_tasks(spark, place, files_access)
    least = setting(spark, _DISTRIBUTED_DELETE, _MANY)

    def deletes(keys: list[str]) -> bool:
        if _internals.is_connect(spark) or len(keys) < least:
            return False
        requests = [json.dumps(keys[start : start + _REQUEST]) for start in range(0, len(keys), _REQUEST)]

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import delete

            yield from delete(place, files_access, batches)

        run_tasks(spread(spark, requests), task, (place, files_access))
        return True

    what = replace(what, commits=tells_of_vacuum(spark, location))
    result = vacuum(snapshot, what, inventory, commit_request(None, None), deletes)
    if result.version is not None:
        refresh_after_commit(table.update_incremental)
    return result


def files_by_tasks(spark: SparkSession, location: str, options: Mapping[str, str] | None) -> pa.Table | None:
    """The files below a table's root as an inventory, with a task for each first-level directory;
    None if there are too few directories to divide the work, or the store can't list them.

    Raises:
        ImportError: the workers run another Python, or lack deltaplane.
    """
    if _internals.is_connect(spark):
        return None
    store_options = None if options is None else dict(options)
    level = _native.RawStore.open(location, store_options).list_level("")
    directories = [] if level is None else [name for name in level[0] if not name.startswith("_delta_log")]
    if level is None or len(directories) < _LEAST:
        return None

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from deltaplane.spark.execution.write_tasks import listed

        yield from listed(location, store_options, batches)

    try:
        below: pa.Table = arrow_table(
            spread(spark, directories, _LEAST).mapInArrow(with_access(task, (location, options)), _LISTED)
        )
    except Exception as e:
        cause = remedy(e)
        if cause is None:
            raise
        raise ImportError(cause) from e
    import pyarrow as pa

    here = [
        {"path": p, "length": size, "isDir": False, "modificationTime": modified} for p, size, modified, _ in level[1]
    ]
    return pa.concat_tables([below, pa.Table.from_pylist(here, schema=below.schema)])
