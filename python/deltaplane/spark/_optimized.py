"""What OPTIMIZE and REORG came to, as the frame that delta-spark gives: a path and the struct of its metrics.

Called by `deltaplane.spark.tables` and `deltaplane.spark_names`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.described import clustering_columns
from deltaplane.options import storage_options_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.table import DeltaTable

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
    f"{bound}{of}ActiveParallelism: bigint" for of in ("Cluster", "Session") for bound in ("max", "min")
)
# The metrics in delta-spark's order; those that aren't bigint.
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
    """What was done: the command's metrics under deltalake's names, whether rows were ordered by columns that the caller
    named or the table is clustered by, when, and how many columns the table has and has statistics of."""

    metrics: Mapping[str, Any]
    ordered: bool
    clustered: bool
    started_ms: int
    ended_ms: int
    columns: int
    columns_with_statistics: int

    @classmethod
    def of(cls, metrics: Mapping[str, Any], table: DeltaTable, *, ordered: bool, started_ms: int) -> Optimized:
        """What has just been done with a table."""
        count = len(table.schema().fields)
        indexed = int(table.metadata().configuration.get("delta.dataSkippingNumIndexedCols", 32))
        statistics = count if indexed < 0 else min(indexed, count)
        clustered = not ordered and bool(clustering_columns(table))
        return cls(metrics, ordered, clustered, started_ms, now_ms(), count, statistics)


def purged_metrics(table: DeltaTable, considered: int, version: int | None) -> dict[str, Any]:
    """What REORG made, as the metrics of OPTIMIZE; of `considered` files those that aren't in its version's commit stayed."""
    added, removed = list[dict[str, Any]](), list[dict[str, Any]]()
    if version is not None:
        store = _native.RawStore.open(table.location, storage_options_text(table.storage_options))
        for line in bytes(store.read(f"_delta_log/{version:020}.json")).splitlines():
            action = json.loads(line)
            added += [action["add"]] if "add" in action else []
            removed += [action["remove"]] if "remove" in action else []
    partitions = {json.dumps(one.get("partitionValues")) for one in added}
    return {
        "numFilesAdded": len(added),
        "numFilesRemoved": len(removed),
        "filesAdded": _sizes_of(added),
        "filesRemoved": _sizes_of(removed),
        "partitionsOptimized": len(partitions),
        "totalConsideredFiles": considered,
        "totalFilesSkipped": considered - len(removed),
        "numBatches": len(partitions),
        "versions": [] if version is None else [version],
    }


def optimized_frame(spark: SparkSession, location: str, done: Optimized) -> DataFrame:
    """One row; what nobody counts is zero, or null where delta-spark leaves it out."""
    told = done.metrics
    added, removed = (_sizes(told[name]) for name in ("filesAdded", "filesRemoved"))
    # Every file that was written anew counts as one that wasn't in order.
    old = (removed[3], removed[4])
    cubes = told["partitionsOptimized"]
    given = {
        **{name: told[name] for name in _METRICS if name in told and name not in _TYPES},
        "filesAdded": added,
        "filesRemoved": removed,
        "zOrderStats": ("all", (0, 0), old, 0, old, cubes, None) if done.ordered else None,
        "clusteringStats": ((0, 0), old, 0, old, cubes) if done.clustered else None,
        "numBins": told["numBatches"],
        # As in delta-spark, which also has one where nothing was to do, and never keeps an order.
        "numBatches": max(len(told["versions"]), 1),
        "preserveInsertionOrder": False,
        "numFilesSkippedToReduceWriteAmplification": 0,
        "numBytesSkippedToReduceWriteAmplification": 0,
        "startTimeMs": done.started_ms,
        "endTimeMs": done.ended_ms,
        "totalClusterParallelism": spark.sparkContext.defaultParallelism,
        "totalScheduledTasks": told["numBatches"],
        "numTableColumns": done.columns,
        "numTableColumnsWithStats": done.columns_with_statistics,
    }
    kinds = ", ".join(f"{name}: {_TYPES.get(name, 'bigint')}" for name in _METRICS)
    row = (location, tuple(given.get(name) for name in _METRICS))
    return spark.createDataFrame([row], f"path string, metrics struct<{kinds}>")


def now_ms() -> int:
    """The time of now, as the metrics have it."""
    return time.time_ns() // 1_000_000


def _sizes(said: str) -> tuple[Any, ...]:
    sizes = json.loads(said)
    some = sizes["totalFiles"] > 0
    lowest, highest = (sizes["min"], sizes["max"]) if some else (None, None)
    return lowest, highest, float(sizes["avg"]), sizes["totalFiles"], sizes["totalSize"]


def _sizes_of(files: Sequence[Mapping[str, Any]]) -> str:
    sizes = [int(one.get("size") or 0) for one in files]
    lowest, highest, total = min(sizes, default=0), max(sizes, default=0), sum(sizes)
    average = total / len(sizes) if sizes else 0.0
    return json.dumps({"min": lowest, "max": highest, "avg": average, "totalFiles": len(sizes), "totalSize": total})
