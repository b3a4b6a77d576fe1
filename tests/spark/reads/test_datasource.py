"""The data source `deltaplane`: reading, writing and options through Spark's public API alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable
from deltaplane import spark as dp
from sparks import needs_sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, needs_sources]


@pytest.fixture(params=["true", "false"])
def pushdown(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Spark's setting for filter pushdown to Python data sources; its default is off."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", request.param)
    yield request.param
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_write_then_read(spark: SparkSession, path: str) -> None:
    df = spark.range(10).selectExpr("id", "id % 2 AS p")
    df.write.format("deltaplane").mode("append").option("partitionBy", "p").save(path)
    df.write.format("deltaplane").mode("append").save(path)
    assert spark.read.format("deltaplane").load(path).count() == 20
    assert DeltaTable(path).metadata().partition_columns == ["p"]
    odd = df.where("p = 1").limit(1)
    odd.write.format("deltaplane").mode("overwrite").option("replaceWhere", "p = 1").save(path)
    assert dp.read(spark, path).where("p = 1").count() == 1
    df.write.format("deltaplane").mode("overwrite").option("userMetadata", "all replaced").save(path)
    assert dp.read(spark, path).count() == 10
    assert DeltaTable(path).history(1)[0]["userMetadata"] == "all replaced"


def test_schema_options_and_transactions(spark: SparkSession, path: str) -> None:
    def save(df: Any, **options: Any) -> None:
        df.write.format("deltaplane").mode("append").options(**options).save(path)

    save(spark.range(2), txnAppId="feed", txnVersion=1)
    save(spark.range(2), txnAppId="feed", txnVersion=1)
    assert DeltaTable(path).version() == 0
    with pytest.raises(Exception, match="extra"):
        save(spark.range(2).selectExpr("id", "1 AS extra"))
    save(spark.range(2).selectExpr("id", "1 AS extra"), mergeSchema="true")
    assert spark.read.format("deltaplane").load(path).columns == ["id", "extra"]
    df = spark.sql("SELECT 'other' AS text")
    df.write.format("deltaplane").mode("overwrite").option("overwriteSchema", "true").save(path)
    assert [tuple(r) for r in spark.read.format("deltaplane").load(path).collect()] == [("other",)]


def test_queries_of_one_frame_share_no_filter(spark: SparkSession, path: str, pushdown: str) -> None:
    dp.write(spark.range(100).repartitionByRange(5, "id").selectExpr("id", "string(id) AS s", "id * 0.5BD AS d"), path)
    df = spark.read.format("deltaplane").load(path)
    for condition, rows in [("id = 42", 1), ("id IN (1, 99)", 2), ("id = 7 OR s = '50'", 2), ("NOT (id >= 10)", 10),
                            ("s LIKE '9%'", 11), ("d > 49.0", 1), ("s IS NULL", 0), ("id % 2 = 1", 50)]:  # fmt: skip
        assert df.where(condition).count() == rows, (pushdown, condition)
    assert df.where("id < 3").union(df.where("id = 98 OR s = '99'")).count() == 5, pushdown


def test_the_predicate_option_skips_files_and_rows(spark: SparkSession, path: str) -> None:
    from pyspark.sql.types import StructType

    from deltaplane.spark.datasource.source import DeltaplaneDataSource

    dp.write(spark.range(100).repartitionByRange(5, "id"), path)

    def files(predicate: str) -> int:
        reader: Any = DeltaplaneDataSource({"path": path, "predicate": predicate}).reader(
            StructType.fromDDL("id bigint")
        )
        return sum(len(json.loads(p.value.__reduce__()[1][0])["files"]) for p in reader.partitions())

    assert [files(p) for p in ("id >= 0", "id = 42", "id > 150", "NOT (id < 80)")] == [5, 1, 0, 1]
    some = spark.read.format("deltaplane").option("predicate", "id BETWEEN 18 AND 21")
    assert sorted(r.id for r in some.load(path).collect()) == [18, 19, 20, 21]
    assert some.load(path).where("id > 20").count() == 1
    with pytest.raises(Exception, match="no_such"):
        some.option("predicate", "no_such = 1").load(path).count()


def test_task_refusals_abort_the_write(spark: SparkSession, path: str) -> None:
    from pyspark.sql.types import StructType

    dp.write(spark.createDataFrame([(1,)], StructType.fromDDL("id bigint NOT NULL")), path)
    files = sorted(Path(path).glob("*.parquet"))
    with pytest.raises(Exception, match="ConstraintViolationError"):
        spark.sql("SELECT IF(id = 1, NULL, id) AS id FROM range(4)").write.format("deltaplane").mode("append").save(
            path
        )
    assert sorted(Path(path).glob("*.parquet")) == files
    assert DeltaTable(path).version() == 0


def test_wrong_options(spark: SparkSession, path: str) -> None:
    with pytest.raises(Exception, match="needs a path"):
        spark.read.format("deltaplane").load()
    dp.write(spark.range(1), path)
    with pytest.raises(Exception, match="versionAsOf is a number"):
        spark.read.format("deltaplane").option("versionAsOf", "x").load(path)
    with pytest.raises(Exception, match="go together"):
        spark.range(1).write.format("deltaplane").mode("append").option("txnAppId", "a").save(path)


@pytest.mark.parametrize("is_enabled", [False, True], ids=["registered", "enabled"])
def test_its_options_mean_the_same_in_an_enabled_session(
    spark: SparkSession, path: str, request: pytest.FixtureRequest, is_enabled: bool
) -> None:
    request.getfixturevalue("enabled") if is_enabled else dp.register(spark)
    rows = spark.createDataFrame([(n, n % 2) for n in range(4)], "id int, p int")
    for _ in range(2):
        rows.write.format("deltaplane").option("partitionBy", "p").mode("append").save(path)
    assert DeltaTable(path).metadata().partition_columns == ["p"]
    reader = spark.read.format("deltaplane")
    assert reader.option("predicate", "id > 1").load(path).count() == 4
    assert reader.option("version", "0").load(path).count() == 2
    stream = spark.readStream.format("deltaplane")
    for option, value in {"predicate": "id > 1", "version": "0", "versionAsOf": "0"}.items():
        with pytest.raises(Exception, match="is an option of a batch"):
            stream.option(option, value).load(path).writeStream.format("noop").start().processAllAvailable()
        stream = spark.readStream.format("deltaplane")
