"""Indexes of keys by Spark's tasks: each task reads the keys of some files and writes a segment;
the core plans and publishes, as without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.io.index_properties import build_indexes
from deltaplane.spark.execution.carried import files_place
from deltaplane.spark.execution.clones import with_sources
from deltaplane.spark.execution.jobs import run_tasks, setting, spread
from deltaplane.spark.execution.write_tasks import raise_refusal
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm.location import split_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from deltaplane.io import records

__all__ = ["build_by_tasks"]

# The setting for the number of files from which tasks read their keys, and its default.
_DISTRIBUTED_KEYS, _MANY = "spark.deltaplane.distributedIndexFiles", 32


def build_by_tasks(
    spark: SparkSession,
    table: tuple[str, Mapping[str, str] | None],
    snapshot: _native.Snapshot,
    rebuild: bool = False,
) -> list[records.KeyIndex]:
    """Brings the indexes of a table, by its location and options, up to date with a version; their
    states. The driver reads the keys of few files itself, and of all on Spark Connect.

    Raises:
        ImportError: the workers run another Python, or lack deltaplane.
        InvalidArgumentError: the session's setting isn't a number.
    """
    location, known = table[0], with_sources(table[0], split_options(table[1])[0])
    # Workers can't access a store in this process's memory.
    if _internals.is_connect(spark) or location.startswith("memory:"):
        return build_indexes(snapshot, rebuild)
    build = _native.IndexBuild.begin(snapshot, rebuild, spark.sparkContext.defaultParallelism)
    if build.files < setting(spark, _DISTRIBUTED_KEYS, _MANY):
        return build.run()
    place, options = files_place(location, known, snapshot.location)

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from deltaplane.spark.execution.write_tasks import read_keys

        yield from read_keys(place, options, batches)

    parts = [part.to_bytes() for part in build.tasks()]
    outcomes, refusals = run_tasks(spread(spark, parts), task, (place, options))
    raise_refusal(refusals, location)
    return build.publish([_native.KeySegment(outcome) for outcome in outcomes])
