"""Structured Streaming through the data source `deltaplane` and natively: what comes through, once, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECONDS = 120


def source(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.readStream.format("deltaplane").options(**options).load(path)


def run(df: DataFrame, path: str, mode: str = "append", **options: Any) -> None:
    """Writes all that is there now."""
    writer = df.writeStream.format("deltaplane").outputMode(mode).options(checkpointLocation=f"{path}-query", **options)
    finish(writer.trigger(availableNow=True).start(path))


def finish(query: Any) -> None:
    if not query.awaitTermination(SECONDS):
        query.stop()
        pytest.fail(f"the query did not end in {SECONDS} s")


def ids(path: str) -> Counter[int]:
    return Counter(DeltaTable(path).to_pyarrow_table(columns=["id"])["id"].to_pylist())


def appends(spark: SparkSession, path: str, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        dp.write(spark.range(n * 10, n * 10 + 10, numPartitions=2).selectExpr("id", "id % 3 AS p"), path)


def test_a_table_comes_through_once_over_restarts(spark: SparkSession, path: str) -> None:
    # P076
    out = path + " out"
    appends(spark, path, 2)
    for round_ in range(1, 3):
        run(source(spark, path, maxFilesPerTrigger=3), out, partitionBy="p")
        assert ids(out) == Counter(range(20 * round_))
        appends(spark, path, 2, first=2 * round_)
    (app,) = json.loads(DeltaTable(out)._snapshot.transactions_json())
    assert app["appId"] == json.loads(Path(f"{out}-query/metadata").read_text())["id"]
    assert DeltaTable(out).metadata().partition_columns == ["p"]
    # A query that forgot that its last batch was written writes it again.
    before = DeltaTable(out).version()
    newest = max((f for f in Path(f"{out}-query/commits").iterdir() if f.name.isdigit()), key=lambda f: int(f.name))
    for forgotten in (newest, newest.with_name(f".{newest.name}.crc")):
        forgotten.unlink()
    run(source(spark, path, maxFilesPerTrigger=3), out)
    assert ids(out) == Counter(range(60))
    assert DeltaTable(out).version() > before
