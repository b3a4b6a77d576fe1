"""Writes of frames: modes, partitions, one commit per write whatever tasks do, and refusals with
their own class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def ids(spark: SparkSession, path: str) -> list[int]:
    return sorted(r[0] for r in dp.read(spark, path).select("id").collect())


def log(path: str, version: int) -> list[dict[str, Any]]:
    text = (Path(path) / "_delta_log" / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def days(spark: SparkSession, rows: int, per_day: int) -> DataFrame:
    return spark.range(rows).selectExpr("id", f"date_add(DATE'2024-01-01', int(id div {per_day})) AS day")


def test_modes(spark: SparkSession, path: str) -> None:
    assert dp.write(spark.range(3), path, mode="error").version == 0
    with pytest.raises(exceptions.TableAlreadyExistsError):
        dp.write(spark.range(3), path, mode="error")
    assert dp.write(spark.range(3), path, mode="ignore").skipped == "exists"
    assert dp.write(spark.range(3, 5), path).version == 1
    assert ids(spark, path) == [0, 1, 2, 3, 4]
    result = dp.write(spark.range(7, 9), path, mode="overwrite", user_metadata="why")
    assert result.version == 2
    assert int(result.metrics["numOutputRows"]) == 2
    assert ids(spark, path) == [7, 8]
    entry = DeltaTable(path).history(1)[0]
    assert (entry["operation"], entry["userMetadata"]) == ("WRITE", "why")


def test_partitions_get_few_files_and_exact_statistics(spark: SparkSession, path: str) -> None:
    dp.write(days(spark, 1000, 100).repartition(8), path, partition_by="day")
    adds = [a["add"] for a in log(path, 0) if "add" in a]
    assert len(adds) == 10
    for add in adds:
        stats = json.loads(add["stats"])
        assert stats["numRecords"] == 100
        assert stats["maxValues"]["id"] - stats["minValues"]["id"] == 99
        assert stats["nullCount"]["id"] == 0
    dp.write(days(spark, 10, 10).repartition(2), path, rebalance=False)
    assert len([a for a in log(path, 1) if "add" in a]) == 2


def test_replace_where(spark: SparkSession, path: str) -> None:
    dp.write(days(spark, 30, 10), path, partition_by="day")
    corrected = spark.sql("SELECT 100L AS id, DATE'2024-01-02' AS day")
    dp.write(corrected, path, mode="overwrite", replace_where="day = '2024-01-02'")
    assert ids(spark, path) == [*range(10), *range(20, 30), 100]
    with pytest.raises(exceptions.DeltaError, match="day"):
        dp.write(corrected, path, mode="overwrite", replace_where="day = '2024-01-03'")
    assert DeltaTable(path).version() == 1


def test_a_transaction_is_written_once(spark: SparkSession, path: str) -> None:
    assert dp.write(spark.range(3), path, txn=("feed", 7)).version == 0
    again = dp.write(spark.range(3), path, txn=("feed", 7))
    assert (again.version, again.skipped) == (None, "txn")
    assert dp.write(spark.range(3, 4), path, txn=("feed", 8)).version == 1
    assert ids(spark, path) == [0, 1, 2, 3]


def test_failed_attempts_leave_no_row(spark: SparkSession, path: str, tmp_path: Path) -> None:
    flag = tmp_path / "attempts"
    flag.mkdir()

    def fails_at_first(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        (flag / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        for i, batch in enumerate(batches):
            yield batch
            if i == 1 and context.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails after some rows")

    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 100)
    try:
        rows = spark.range(0, 1000, numPartitions=2).mapInArrow(fails_at_first, "id long")
        assert dp.write(rows, path).version == 0
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)
    assert {f.name for f in flag.iterdir()} == {"0-0", "0-1", "1-0", "1-1"}
    assert ids(spark, path) == list(range(1000))


@pytest.mark.usefixtures("ansi")
def test_a_write_that_fails_leaves_the_table_alone(spark: SparkSession, path: str) -> None:
    dp.write(spark.range(3), path)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        dp.write(spark.range(10).selectExpr("1 div (id - 5) AS id"), path)
    assert DeltaTable(path).version() == 0
    assert ids(spark, path) == [0, 1, 2]


def test_refusals_come_with_their_class_and_leave_no_file(spark: SparkSession, path: str) -> None:
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL("id bigint NOT NULL, s string")
    dp.write(spark.createDataFrame([(1, "a")], schema), path)
    files = sorted(Path(path).glob("*.parquet"))
    nulls = spark.createDataFrame([(None, "b"), (2, "c")], "id bigint, s string")
    with pytest.raises(exceptions.ConstraintViolationError, match="id"):
        dp.write(nulls, path)
    with pytest.raises(exceptions.SchemaMismatchError, match="extra"):
        dp.write(spark.sql("SELECT 1L AS id, 'a' AS s, 2 AS extra"), path)
    with pytest.raises(exceptions.SchemaMismatchError, match="id"):
        dp.write(spark.sql("SELECT 'x' AS id, 'a' AS s"), path)
    assert sorted(Path(path).glob("*.parquet")) == files
    assert DeltaTable(path).version() == 0


def test_columns_in_another_order_and_case(spark: SparkSession, path: str) -> None:
    dp.write(spark.createDataFrame([(1, "a")], "id bigint, Name string"), path)
    dp.write(spark.sql("SELECT 'b' AS name, 2L AS ID"), path)
    assert sorted(tuple(r) for r in dp.read(spark, path).collect()) == [(1, "a"), (2, "b")]
    dp.write(spark.sql("SELECT 3L AS id"), path)
    assert dp.read(spark, path).where("Name IS NULL").count() == 1


def test_reading_while_overwriting_the_same_table(spark: SparkSession, path: str) -> None:
    dp.write(spark.range(10), path)
    dp.write(dp.read(spark, path).where("id % 2 = 0"), path, mode="overwrite")
    assert ids(spark, path) == [0, 2, 4, 6, 8]


def test_interval_columns_are_refused_by_name(spark: SparkSession, path: str) -> None:
    with pytest.raises(exceptions.DeltaError, match="interval"):
        dp.write(spark.sql("SELECT INTERVAL '1' DAY AS gap"), path)
    assert not DeltaTable.is_deltatable(path)


def test_inherited_column_metadata_is_left_out(spark: SparkSession, path: str) -> None:
    from pyspark.sql import functions as F

    metadata = {"delta.columnMapping.id": 1, "__autoGeneratedAlias": "true", "comment": "kept", "unit": "EUR"}
    dp.write(spark.range(1).select(F.col("id").alias("id", metadata=metadata)), path)
    field = json.loads(DeltaTable(path).schema().to_json())["fields"][0]
    assert field["metadata"] == {"comment": "kept", "unit": "EUR"}


def test_rows_of_few_tasks_are_written_by_them(spark: SparkSession, path: str) -> None:
    """Shuffles only if that saves files: with many tasks, or for rows that come out of a shuffle
    anyway."""
    tasks = {
        "of a range": (spark.range(0, 900, 1, 2), 6),
        "in memory": (spark.createDataFrame([(i,) for i in range(900)], "id long").coalesce(2), 6),
        "many": (spark.range(0, 900, 1, 9), 3),
        "joined": (spark.range(0, 900, 1, 2).join(spark.range(900).hint("merge"), "id"), 3),
        "alike": (spark.range(900).distinct(), 3),
    }
    for name, (frame, files) in tasks.items():
        there = f"{path} {name}"
        dp.write(frame.selectExpr("id", "id % 3 AS p"), there, partition_by="p")
        assert len(DeltaTable(there).file_uris()) == files, name
        again = f"{path} {name} again"
        dp.write(dp.read(spark, there), again, partition_by="p")
        assert ids(spark, again) == list(range(900))
        assert len(DeltaTable(again).file_uris()) <= 2 * files, name


def test_optimised_writes_leave_few_files(spark: SparkSession, path: str) -> None:
    scattered = spark.range(0, 4000, 1, 8).selectExpr("id", "id % 3 AS p")
    dp.write(scattered, path, partition_by="p", rebalance=False)
    assert len(DeltaTable(path).file_uris()) == 24
    dp.write(scattered, path, mode="overwrite", optimize_write=True)
    assert len(DeltaTable(path).file_uris()) == 3
    assert ids(spark, path) == list(range(4000))
    flat = path + " flat"
    dp.write(scattered, flat)
    assert len(DeltaTable(flat).file_uris()) == 8
    DeltaTable(flat).alter.set_table_properties({"delta.autoOptimize.optimizeWrite": "true"})
    dp.write(scattered, flat, mode="overwrite")
    assert len(DeltaTable(flat).file_uris()) == 1
    dp.write(scattered, flat, mode="overwrite", optimize_write=False)
    assert len(DeltaTable(flat).file_uris()) == 8
    spark.conf.set("spark.databricks.delta.optimizeWrite.enabled", "true")
    spark.conf.set("spark.databricks.delta.optimizeWrite.binSize", "8k")
    try:
        dp.write(scattered, flat, mode="overwrite")
        assert 1 < len(DeltaTable(flat).file_uris()) < 8
        spark.conf.set("spark.databricks.delta.optimizeWrite.binSize", "many")
        with pytest.raises(exceptions.InvalidArgumentError, match="binSize is a number of bytes"):
            dp.write(scattered, flat, mode="overwrite")
    finally:
        spark.conf.unset("spark.databricks.delta.optimizeWrite.enabled")
        spark.conf.unset("spark.databricks.delta.optimizeWrite.binSize")
    assert ids(spark, flat) == list(range(4000))


def test_a_streams_small_files_are_put_together_on_the_way(spark: SparkSession, path: str) -> None:
    for n in range(2):
        dp.write(spark.range(100 * n, 100 * n + 60), path)
    out = path + " out"
    dp.write(spark.range(0), out, configuration={"delta.autoOptimize.autoCompact": "true"})
    stream = dp.read_stream(spark, path, maxFilesPerTrigger=4).repartition(60)
    query = dp.write_stream(stream, out, path + " query", trigger={"availableNow": True})
    assert query.awaitTermination(120)
    operations = [entry["operation"] for entry in DeltaTable(out).history()]
    assert "OPTIMIZE" in operations
    assert len(DeltaTable(out).file_uris()) < 10
    assert ids(spark, out) == [*range(60), *range(100, 160)]
