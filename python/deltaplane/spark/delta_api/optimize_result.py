"""The result of OPTIMIZE and REORG as delta-spark's frame: a path and a struct of metrics."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.io.storage_options import storage_options_text
from deltaplane.report.describe import clustering_columns
from deltaplane.spark.jvm.internals import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.table.delta_table import DeltaTable

__all__ = ["Optimized", "now_ms", "optimized_frame", "purged_metrics"]

_SIZES = "struct<min: bigint, max: bigint, avg: double, totalFiles: bigint, totalSize: bigint>"
_NUMBERS = "struct<num: bigint, size: bigint>"
_Z_ORDER = (
    f"struct<strategyName: string, inputCubeFiles: {_NUMBERS}, inputOtherFiles: {_NUMBERS}, inputNumCubes: bigint, "
    f"mergedFiles: {_NUMBERS}, numOutputCubes: bigint, mergedNumCubes: bigint>"
)
_FILES = "struct<numFiles: bigint, size: bigint>"
_CLUSTERING = (
    f"struct<inputZCubeFiles: {_FILES}, inputOtherFiles: {_FILES}, inputNumZCubes: bigint, mergedFiles: {_FILES}, "
    "numOutputZCubes: bigint>"
)
_PARALLELISM = ", ".join(
    f"{bound}{scope_name}ActiveParallelism: bigint" for scope_name in ("Cluster", "Session") for bound in ("max", "min")
)
# The metrics in delta-spark's order, with the types that aren't bigint.
_TYPES = {
    "filesAdded": _SIZES,
    "filesRemoved": _SIZES,
    "zOrderStats": _Z_ORDER,
    "clusteringStats": _CLUSTERING,
    "preserveInsertionOrder": "boolean",
    "autoCompactParallelismStats": f"struct<{_PARALLELISM}>",
    "deletionVectorStats": "struct<numDeletionVectorsRemoved: bigint, numDeletionVectorRowsRemoved: bigint>",
}
_METRICS = (
    *("numFilesAdded", "numFilesRemoved", "filesAdded", "filesRemoved", "partitionsOptimized", "zOrderStats"),
    *("clusteringStats", "numBins", "numBatches", "totalConsideredFiles", "totalFilesSkipped"),
    *("preserveInsertionOrder", "numFilesSkippedToReduceWriteAmplification"),
    *("numBytesSkippedToReduceWriteAmplification", "startTimeMs", "endTimeMs", "totalClusterParallelism"),
    *("totalScheduledTasks", "autoCompactParallelismStats", "deletionVectorStats", "numTableColumns"),
    "numTableColumnsWithStats",
)


@dataclass(frozen=True)
class Optimized:
    """The result of a command: metrics under deltalake's names, whether rows were ordered (by the
    caller's or by clustering columns), start time, and the numbers of columns and of columns with
    statistics."""

    metrics: Mapping[str, Any]
    ordered: bool
    clustered: bool
    started_ms: int
    ended_ms: int
    columns: int
    columns_with_statistics: int

    @classmethod
    def of(cls, metrics: Mapping[str, Any], table: DeltaTable, *, ordered: bool, started_ms: int) -> Optimized:
        """Builds the result of a command that has just run on a table."""
        count = len(table.schema().fields)
        indexed = int(table.metadata().configuration.get("delta.dataSkippingNumIndexedCols", 32))
        statistics = count if indexed < 0 else min(indexed, count)
        clustered = not ordered and bool(clustering_columns(table))
        return cls(metrics, ordered, clustered, started_ms, now_ms(), count, statistics)


def purged_metrics(table: DeltaTable, considered: int, version: int | None) -> dict[str, Any]:
    """Converts REORG's result to the metrics of OPTIMIZE; `considered` is the number of examined
    files, of which those outside of the version's commit stayed."""
    added, removed, partitions = _Sizes(), _Sizes(), set[str]()
    if version is not None:
        store = _native.RawStore.open(table.location, storage_options_text(table.storage_options))
        # Reads line by line, since a commit may name a million files.
        for line in io.BytesIO(store.read(f"_delta_log/{version:020}.json")):
            action = json.loads(line)
            if add := action.get("add"):
                added.take(add)
                partitions.add(json.dumps(add.get("partitionValues")))
            elif remove := action.get("remove"):
                removed.take(remove)
    return {
        "numFilesAdded": added.files,
        "numFilesRemoved": removed.files,
        "filesAdded": added.summary(),
        "filesRemoved": removed.summary(),
        "partitionsOptimized": len(partitions),
        "totalConsideredFiles": considered,
        "totalFilesSkipped": considered - removed.files,
        "numBatches": len(partitions),
        "versions": [] if version is None else [version],
    }


def optimized_frame(spark: SparkSession, location: str, done: Optimized) -> DataFrame:
    """Builds the single row; unknown numbers are zero, or null where delta-spark has null."""
    metrics = done.metrics
    added, removed = (_sizes(metrics[name]) for name in ("filesAdded", "filesRemoved"))
    # Every rewritten file counts as one that wasn't ordered before.
    old = (removed[3], removed[4])
    cubes = metrics["partitionsOptimized"]
    fields = {
        **{name: metrics[name] for name in _METRICS if name in metrics and name not in _TYPES},
        "filesAdded": added,
        "filesRemoved": removed,
        "zOrderStats": ("all", (0, 0), old, 0, old, cubes, None) if done.ordered else None,
        "clusteringStats": ((0, 0), old, 0, old, cubes) if done.clustered else None,
        "numBins": metrics["numBatches"],
        # As in delta-spark, which reports at least one batch, and never preserves an order.
        "numBatches": max(len(metrics["versions"]), 1),
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": done.started_ms,
        "endTimeMs": done.ended_ms,
        # A Spark Connect client runs the command itself, without a cluster.
        "totalClusterParallelism": 1 if is_connect(spark) else spark.sparkContext.defaultParallelism,
        "totalScheduledTasks": metrics["numBatches"],
        "numTableColumns": done.columns,
        "numTableColumnsWithStats": done.columns_with_statistics,
    }
    kinds = ", ".join(f"{name}: {_TYPES.get(name, 'bigint')}" for name in _METRICS)
    row = (location, tuple(fields.get(name) for name in _METRICS))
    return spark.createDataFrame([row], f"path string, metrics struct<{kinds}>")


def now_ms() -> int:
    """The current time in milliseconds."""
    return time.time_ns() // 1_000_000


def _sizes(said: str) -> tuple[Any, ...]:
    sizes = json.loads(said)
    some = sizes["totalFiles"] > 0
    lowest, highest = (sizes["min"], sizes["max"]) if some else (None, None)
    return lowest, highest, float(sizes["avg"]), sizes["totalFiles"], sizes["totalSize"]


@dataclass
class _Sizes:
    """Number and sizes of some files."""

    files: int = 0
    least: int = 0
    greatest: int = 0
    total: int = 0

    def take(self, file: Mapping[str, Any]) -> None:
        size = int(file.get("size") or 0)
        self.least = size if self.files == 0 else min(self.least, size)
        self.greatest = max(self.greatest, size)
        self.files += 1
        self.total += size

    def summary(self) -> str:
        """Formats the sizes as OPTIMIZE's metrics do."""
        average = self.total / self.files if self.files else 0.0
        said = {"min": self.least, "max": self.greatest, "avg": average}
        return json.dumps({**said, "totalFiles": self.files, "totalSize": self.total})
