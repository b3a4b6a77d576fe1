"""The native scan: versions, evolved schemas, pruning that never loses a row, and Spark's own plans
around it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

import deltaplane
from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def last_plan(df: DataFrame) -> Any:
    return df._deltaplane_index.plans[-1]


def numbers(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end, numPartitions=1).selectExpr("id", "concat('name ', lpad(id, 4, '0')) AS name")


@pytest.fixture
def ten_files(spark: SparkSession, path: str) -> str:
    """A hundred rows in ten files with disjoint ranges."""
    dp.write(
        spark.range(100)
        .repartitionByRange(10, "id")
        .selectExpr("id", "concat('n', lpad(id, 3, '0')) AS name", "IF(id < 10, NULL, id) AS maybe"),
        path,
    )
    return path


@pytest.mark.usefixtures("sources")
def test_time_travel_by_version_and_timestamp(spark: SparkSession, path: str) -> None:
    import os

    for version in range(3):
        dp.write(numbers(spark, version * 10, version * 10 + 10), path)
        os.utime(Path(path) / "_delta_log" / f"{version:020}.json", (1_700_000_000 + version, 1_700_000_000 + version))
    assert [dp.read(spark, path, version=v).count() for v in range(3)] == [10, 20, 30]
    assert dp.read(spark, path, timestamp="2023-11-14T22:13:21Z").count() == 20
    assert spark.read.format("deltaplane").option("versionAsOf", 1).load(path).count() == 20
    with pytest.raises(exceptions.VersionNotFoundError):
        dp.read(spark, path, version=9)
    with pytest.raises(exceptions.InvalidArgumentError, match="not both"):
        dp.read(spark, path, version=1, timestamp="2024-01-01")
    assert dp.read(spark, path, timestamp="2023-11-14T22:13:22Z").count() == 30
    # To the millisecond: a timestamp after the newest commit means no version.
    with pytest.raises(
        AnalysisException, match=r"22\.001Z is after the newest commit: version 2 .* at 2023-11-14T22:13:22\.000Z"
    ):
        dp.read(spark, path, timestamp="2023-11-14T22:13:22.001Z")
    with pytest.raises(AnalysisException, match="is after the newest commit: version 2"):
        spark.read.format("deltaplane").option("timestampAsOf", "2200-01-01").load(path)
    # Scripts for deltalake rely on this behaviour.
    assert DeltaTable(path, version="2200-01-01").version() == 2
    future = f"SELECT id FROM delta.`{path}` TIMESTAMP AS OF '2200-01-01'"
    assert deltaplane.sql(future).num_rows == 30
    with pytest.raises(AnalysisException, match="is after the newest commit: version 2"):
        deltaplane.sql(future, spark)


def test_a_frame_stays_at_its_version(spark: SparkSession, path: str) -> None:
    dp.write(numbers(spark, 0, 10), path)
    df = dp.read(spark, path)
    dp.write(numbers(spark, 10, 20), path)
    assert (df.count(), dp.read(spark, path).count()) == (10, 20)


def test_no_table(spark: SparkSession, path: str) -> None:
    with pytest.raises(exceptions.TableNotFoundError):
        dp.read(spark, path)


def test_files_without_a_newer_column_give_nulls(spark: SparkSession, path: str) -> None:
    dp.write(spark.sql("SELECT 1 AS id, named_struct('a', 1) AS s"), path)
    dp.write(
        spark.sql("SELECT 2 AS id, named_struct('a', 2, 'b', 'x') AS s, 'new' AS extra"), path, schema_mode="merge"
    )
    df = dp.read(spark, path)
    assert df.columns == ["id", "s", "extra"]
    assert [tuple(r) for r in df.orderBy("id").select("id", "s.a", "s.b", "extra").collect()] == [
        (1, 1, None, None),
        (2, 2, "x", "new"),
    ]
    assert [r.id for r in df.where("extra IS NULL").collect()] == [1]
    assert dp.read(spark, path, version=0).columns == ["id", "s"]


@pytest.mark.parametrize(
    ("condition", "files", "rows"),
    [
        ("id = 42", 1, 1),
        ("id >= 95", 1, 5),
        ("id IN (3, 55)", 2, 2),
        ("id BETWEEN 8 AND 12", 2, 5),
        ("name = 'n042'", 1, 1),
        ("name LIKE 'n09%'", 1, 10),
        ("NOT (id < 90)", 1, 10),
        ("id < 5 OR id > 97", 2, 7),
        ("maybe IS NULL", 1, 10),
        ("id < 10 AND maybe IS NOT NULL", 0, 0),
        ("id < 3 AND id > 98", 0, 0),
        ("id % 10 = 3", 10, 10),
    ],
)
def test_statistics_prune_files(spark: SparkSession, ten_files: str, condition: str, files: int, rows: int) -> None:
    df = dp.read(spark, ten_files)
    assert df.where(condition).count() == rows
    assert last_plan(df).files == files


PARTITION_CONDITIONS = [
    "p = 1",
    "p IS NULL",
    "p IS NOT NULL AND q = 'b'",
    "p IN (1, 3) OR q = 'c'",
    "NOT (p = 1)",
    "p <=> NULL",
    "p + 1 = 3",
    "p % 2 = 1 AND id > 5",
    "upper(q) = 'A'",
    "coalesce(p, -1) = -1",
    "p = id % 4",
    "CASE WHEN q = 'a' THEN p = 0 ELSE p = 2 END",
    "q > 'a' AND q < 'c'",
    "p > 2 AND p < 1",
    "true",
    "p = (SELECT max(p) FROM values (2) AS t(p))",
]


@pytest.mark.usefixtures("sources")
def test_partition_filters_are_exact(spark: SparkSession, path: str) -> None:
    # Spark trusts the index for these filters and never applies them to rows.
    df = spark.range(0, 48, 1, 1).selectExpr(
        "id", "IF(id % 5 = 4, NULL, int(id % 5)) AS p", "substr('abc', int(id % 3) + 1, 1) AS q"
    )
    dp.write(df, path, partition_by=["p", "q"])
    table, source = dp.read(spark, path), spark.read.format("deltaplane").load(path)
    for condition in PARTITION_CONDITIONS:
        expected = sorted(r.id for r in df.where(condition).collect())
        assert sorted(r.id for r in table.where(condition).collect()) == expected, condition
        assert sorted(r.id for r in source.where(condition).collect()) == expected, condition
    assert table.where("p = 1 AND q = 'b'").count() > 0
    assert (last_plan(table).directories, last_plan(table).files) == (1, 1)


def test_dynamic_partition_pruning(spark: SparkSession, tmp_path: Path, path: str) -> None:
    dp.write(spark.range(100).selectExpr("id", "id % 10 AS p"), path, partition_by="p")
    # Filters on files and on a second column: from simpler filters Spark infers `p = 3` during
    # optimization.
    spark.range(10).selectExpr("id AS day", "concat('day ', id) AS label").write.parquet(str(tmp_path / "days"))
    days, table = spark.read.parquet(str(tmp_path / "days")), dp.read(spark, path)
    joined = table.join(days.where("label = 'day 3'"), days.day == table.p)
    assert sorted(r.id for r in joined.collect()) == list(range(3, 100, 10))
    assert "dynamicpruning" in joined._jdf.queryExecution().executedPlan().toString()


def test_joins_subqueries_unions_and_caching(spark: SparkSession, ten_files: str) -> None:
    df = dp.read(spark, ten_files)
    assert df.alias("a").join(df.alias("b"), "id").count() == 100
    assert df.union(dp.read(spark, ten_files)).distinct().count() == 100
    df.createOrReplaceTempView("fixed")
    assert spark.sql("SELECT count(*) FROM fixed WHERE id > (SELECT avg(id) FROM fixed)").first()[0] == 50
    cached = df.cache()
    try:
        assert cached.count() == 100
        # Another frame of the same version is the same relation for Spark.
        assert "InMemoryTableScan" in dp.read(spark, ten_files)._jdf.queryExecution().executedPlan().toString()
    finally:
        cached.unpersist()


def test_four_threads(spark: SparkSession, ten_files: str) -> None:
    df = dp.read(spark, ten_files)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(df.where("id < 50").count())) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert counts == [50] * 4


def test_input_files_sizes_and_explain(spark: SparkSession, ten_files: str) -> None:
    df = dp.read(spark, ten_files)
    assert len(df.inputFiles()) == 10
    size = sum(f.stat().st_size for f in Path(ten_files).glob("spark-*/*.parquet"))
    assert df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() == size
    assert df.select("name").where("id = 3")._jdf.queryExecution().executedPlan().toString().count("PushedFilters") == 1


def test_empty_table_and_no_columns(spark: SparkSession, path: str) -> None:
    dp.write(numbers(spark, 0, 0), path)
    df = dp.read(spark, path)
    assert df.count() == 0
    assert df.columns == ["id", "name"]
    dp.write(numbers(spark, 0, 7), path)
    assert dp.read(spark, path).select().count() == 7


def test_missing_file_is_named(spark: SparkSession, ten_files: str) -> None:
    victim = sorted(Path(ten_files).glob("spark-*/*.parquet"))[0]
    victim.unlink()
    with pytest.raises(Exception, match=victim.name):
        dp.read(spark, ten_files).count()


def test_a_table_in_memory_is_refused(spark: SparkSession) -> None:
    import pyarrow as pa

    from deltaplane import write_deltalake

    write_deltalake("memory://spark-refuses/t", pa.table({"x": [1]}))
    with pytest.raises(exceptions.UnsupportedFeatureError, match="memory"):
        dp.read(spark, "memory://spark-refuses/t")
