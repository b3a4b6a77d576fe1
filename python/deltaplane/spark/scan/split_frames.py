"""Frames whose tasks read splits of files by the Rust core, for PySpark 3.5, which has no data
sources in Python.

Internal to `deltaplane.spark`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.spark.datasource.split_scan import SPLIT_BYTES, SplitScan
from deltaplane.spark.jvm.schema import shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.table.changes import ChangeRange

__all__ = ["changed_rows"]


def changed_rows(
    spark: SparkSession, versions: ChangeRange, location: str, options: Mapping[str, str] | None
) -> DataFrame:
    """The rows that changed in a range of versions, in one task for each split of their files."""
    from pyspark.sql.types import StructType

    columns = StructType.fromJson(shown(versions.last.change_schema().to_value()))
    splits = _native.change_splits(versions.last, versions.first, None, SPLIT_BYTES)
    if not splits:
        return spark.createDataFrame([], columns)
    store = None if options is None else dict(options)
    scan = SplitScan.of(versions.last, location, store, columns, changes=True)

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from scan.rows(splits[number])

    return spark.range(0, len(splits), 1, len(splits)).mapInArrow(task, columns)
