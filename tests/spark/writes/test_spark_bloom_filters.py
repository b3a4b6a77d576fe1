"""Bloom filters of files that Spark sessions write, by Spark's own Parquet writer and by the core
in tasks; Spark skips row groups by the core's filters, and the core by Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from bloom_filters import COLUMNS, damage, filtered, live_files
from deltaplane import DeltaTable, WriterProperties, convert_to_deltalake, write_deltalake
from deltaplane import spark as dp
from deltaplane.properties import BloomFilterProperties, ColumnProperties
from sparks import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ON = ColumnProperties(bloom_filter_properties=BloomFilterProperties(True))


def rows(spark: SparkSession, count: int = 200) -> DataFrame:
    """Even keys in no order."""
    key = f"(id * 37 % {count}) * 2"
    columns = (f"{key} AS Key", f"CONCAT('t', {key}) AS text", "id / 4 AS ratio", f"NAMED_STRUCT('k', {key}) AS s")
    return spark.range(0, count, numPartitions=2).selectExpr(*columns)


def scanned(frame: DataFrame) -> int:
    """The number of rows that Spark's scan of files returned before Spark filtered them."""
    plan = frame._jdf.queryExecution().executedPlan()
    frame.collect()
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    leaves = plan.collectLeaves()
    return sum(int(leaves.apply(i).metrics().apply("numOutputRows").value()) for i in range(leaves.size()))


def is_by_spark(path: str) -> bool:
    by_spark = {"/spark-" in file for file in live_files(path)}
    assert len(by_spark) == 1
    return by_spark.pop()


@pytest.mark.parametrize("more", [{}, {"target_file_size": 1 << 20}], ids=["Spark's writer", "tasks"])
def test_frames_are_written_with_filters(spark: SparkSession, tmp_path: Path, more: dict[str, Any]) -> None:
    path = str(tmp_path / "t")
    dp.write(rows(spark, 4000), path, configuration={COLUMNS: "Key, text, s.k"}, **more)
    dp.write(rows(spark, 4000), path, **more)
    # Spark 3.5's own filters would have 4 MB each.
    assert is_by_spark(path) == (not more and is_at_least("4.0"))
    files = live_files(path)
    assert {frozenset(filtered(file)) for file in files} == {frozenset({"Key", "text", "s.k"})}
    assert DeltaTable(path).to_pyarrow_table(filters="Key = 100").num_rows == 2
    import pyarrow.parquet as pq

    for file in files:
        chunk = pq.read_metadata(file).row_group(0).column(0)
        assert chunk.bloom_filter_length < 10_000
        damage(file)
    for predicate in ("Key = 101", "text = 't101'", "s.k = 101", "Key IN (1, 3)"):
        assert DeltaTable(path).to_pyarrow_table(filters=predicate).num_rows == 0, predicate


def test_floating_point_columns_are_left_to_the_core(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    dp.write(rows(spark), path, configuration={COLUMNS: "ratio"})
    assert not is_by_spark(path)
    assert all(filtered(file) == {"ratio"} for file in live_files(path))


@pytest.mark.parametrize("merges", [False, True], ids=["statements", "commands"])
def test_commands_on_rows_write_filters(spark: SparkSession, tmp_path: Path, merges: bool) -> None:
    path = str(tmp_path / "t")
    dp.write(rows(spark), path, configuration={COLUMNS: "Key", "delta.enableDeletionVectors": "false"})
    before = set(live_files(path))
    if merges:
        table = dp.DeltaTable.forPath(spark, path).alias("t")
        merge = table.merge(rows(spark, 50).alias("s"), "t.Key = s.Key").whenMatchedUpdate(set={"text": "'x'"})
        merge.whenNotMatchedInsertAll().execute()
    else:
        dp.sql(spark, f"UPDATE delta.`{path}` SET text = 'x' WHERE Key = 20")
        dp.sql(spark, f"DELETE FROM delta.`{path}` WHERE Key = 22")
        dp.sql(spark, f"OPTIMIZE delta.`{path}`")
    new = set(live_files(path)) - before
    assert new
    assert all("Key" in filtered(file) for file in new)


def test_familiar_writers_take_sparks_options(enabled: SparkSession, tmp_path: Path) -> None:
    options = {"parquet.bloom.filter.enabled#key": "true", "parquet.bloom.filter.adaptive.enabled": "true"}
    path = str(tmp_path / "t")
    rows(enabled).write.format("delta").options(**options).save(path)
    writer = rows(enabled).writeTo(f"delta.`{path}`")
    for key, value in options.items():
        writer = writer.option(key, value)
    writer.append()
    stream = enabled.readStream.format("delta").load(path).writeStream.format("delta").options(**options)
    query = stream.option("checkpointLocation", f"{path} query").trigger(availableNow=True).start(f"{path} 2")
    assert query.awaitTermination(120)
    files = [*live_files(path), *live_files(f"{path} 2")]
    assert len(files) > 2
    assert all(filtered(file) == {"Key"} for file in files)


@pytest.mark.usefixtures("sources")
def test_sparks_own_options_choose_columns(spark: SparkSession, tmp_path: Path) -> None:
    enabled = "parquet.bloom.filter.enabled"
    cases: list[tuple[dict[str, str], set[str]]] = [
        ({f"{enabled}#Key": "true", "parquet.bloom.filter.fpp#Key": "0.1"}, {"Key"}),
        ({enabled: "true"}, {"Key", "text", "ratio", "s.k"}),
        ({enabled: "true", f"{enabled}#ratio": "false", f"{enabled}#s.k": "false"}, {"Key", "text"}),
        ({f"{enabled}#text": "true", "parquet.bloom.filter.expected.ndv#text": "500"}, {"text"}),
        ({}, set()),
    ]
    for number, (options, expected) in enumerate(cases):
        path = str(tmp_path / str(number))
        rows(spark).write.format("deltaplane").options(**options).mode("append").save(path)
        for file in live_files(path):
            assert filtered(file) == expected, options
    refused: list[tuple[dict[str, str], str]] = [
        ({f"{enabled}#nope": "true"}, "`nope`, which isn't a column"),
        ({"parquet.bloom.filter.max.bytes": "1000"}, "max.bytes isn't supported"),
        ({f"{enabled}#Key": "true", "parquet.bloom.filter.fpp#Key": "often"}, "are numbers, not 'often'"),
    ]
    for options, why in refused:
        with pytest.raises(Exception, match=why):
            rows(spark).write.format("deltaplane").options(**options).mode("append").save(str(tmp_path / "refused"))


def test_spark_skips_row_groups_by_our_filters(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    keys = [n * 37 % 2000 * 2 for n in range(2000)]
    data = pa.table({"key": keys, "text": [f"t{key}" for key in keys], "ratio": [key / 4 for key in keys]})
    settings = WriterProperties(max_row_group_size=200, default_column_properties=ON)
    write_deltalake(path, data, writer_properties=settings)
    (file,) = live_files(path)
    plain = str(tmp_path / "plain")
    write_deltalake(plain, data, writer_properties=WriterProperties(max_row_group_size=200))
    (other,) = live_files(plain)
    for condition in ("key = 2001", "text = 't2001'", "ratio = 500.1"):
        assert scanned(spark.read.parquet(file).where(condition)) <= 400, condition
        assert scanned(spark.read.parquet(other).where(condition)) == 2000, condition
    for condition in ("key = 2000", "text = 't2000'", "ratio = 500.0"):
        assert spark.read.parquet(file).where(condition).count() == 1
        assert dp.read(spark, path).where(condition).count() == 1


def test_filters_of_spark_are_used(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    writer = rows(spark, 2000).coalesce(1).write
    for column in ("Key", "text"):
        writer = writer.option(f"parquet.bloom.filter.enabled#{column}", "true")
        writer = writer.option(f"parquet.enable.dictionary#{column}", "false")
        writer = writer.option(f"parquet.bloom.filter.expected.ndv#{column}", "2000")
    writer.parquet(path)
    convert_to_deltalake(path)
    (file,) = live_files(path)
    assert filtered(file) == {"Key", "text"}
    assert DeltaTable(path).to_pyarrow_table(filters="Key = 2000 AND text = 't2000'").num_rows == 1
    damage(file)
    for predicate in ("Key = 2001", "text = 't2001'"):
        assert DeltaTable(path).to_pyarrow_table(filters=predicate).num_rows == 0
