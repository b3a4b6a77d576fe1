"""Shared parts of the tests of a streaming query that copies a table: the query, its input rows,
and the rows copied so far."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from deltaplane import DeltaTable, write_deltalake
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def started(spark: SparkSession, source: str, target: str, reads: str, writes: str) -> StreamingQuery:
    """The query, over all that is there now, file by file; `reads` and `writes` are `native` or by
    the data source."""
    if reads == "native":
        stream = dp.read_stream(spark, source, maxFilesPerTrigger=1)
    else:
        stream = spark.readStream.format("deltaplane").option("maxFilesPerTrigger", 1).load(source)
    checkpoint = f"{target}-query"
    if writes == "native":
        return dp.write_stream(stream, target, checkpoint, trigger={"availableNow": True})
    writer = stream.writeStream.format("deltaplane").option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True).start(target)


def batches(target: str) -> int:
    """How many batches the query has planned."""
    offsets = Path(f"{target}-query/offsets")
    return sum(file.name.isdigit() for file in offsets.iterdir()) if offsets.exists() else 0


def copied(target: str) -> Counter[int]:
    """The ids that are in the copy, with how often they are."""
    if not DeltaTable.is_deltatable(target):
        return Counter()
    return Counter(DeltaTable(target).to_pyarrow_table()["id"].to_pylist())


def append(source: str, first: int, files: int) -> int:
    """Files of two rows each; the next id."""
    for n in range(first, first + 2 * files, 2):
        write_deltalake(source, pa.table({"id": pa.array([n, n + 1], pa.int64())}), mode="append")
    return first + 2 * files
