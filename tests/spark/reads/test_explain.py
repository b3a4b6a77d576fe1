"""The optimizer's information about a scan: table, version and files in plans, and the size and
rows of the remaining files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane import spark as dp
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.jvm import java_sources as _java
from deltaplane.spark.jvm.spark_versions import frame_class

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Eight files of a thousand rows each, with consecutive ids."""
    import pyarrow as pa

    location = str(tmp_path / "things")
    for n in range(8):
        ids = range(1000 * n, 1000 * (n + 1))
        write_deltalake(location, pa.table({"id": ids, "k": [i % 10 for i in ids]}), mode="append")
    return location


def plan_of(df: DataFrame, mode: str = "simple") -> str:
    assert isinstance(df, frame_class())
    jvm = df.sparkSession._jvm  # type: ignore[attr-defined]
    return str(jvm.PythonSQLUtils.explainString(df._jdf.queryExecution(), mode))


def scans(df: DataFrame) -> list[str]:
    """Table, version and files of a plan's scans."""
    return re.findall(r"FileScan parquet delta\.`\S*/(\w+` version \d+, \d+ of \d+ files)", plan_of(df))


def test_plans_name_the_table_its_version_and_files(spark: SparkSession, table: str) -> None:
    df = dp.read(spark, table)
    assert scans(df) == ["things` version 7, 8 of 8 files"]
    assert scans(df.where("id >= 6500").select("k")) == ["things` version 7, 2 of 8 files"]
    assert scans(df.where("id < 0")) == ["things` version 7, 0 of 8 files"]
    assert scans(dp.read(spark, table, version=2).where("id = 5")) == ["things` version 2, 1 of 3 files"]
    for mode in ("formatted", "extended", "cost"):
        assert "version 7, 1 of 8 files" in plan_of(df.where("id = 5"), mode)
    assert "Location: DeltaplaneFileIndex" in plan_of(df)
    two = df.where("id = 5").alias("a").join(df.where("id > 6000").alias("b"), "k")
    assert scans(two) == ["things` version 7, 1 of 8 files", "things` version 7, 2 of 8 files"]
    assert two.count() == 200
    (row,) = df.where("id = (SELECT max(id) FROM range(3))").select("id").collect()
    assert row.id == 2


def test_files_are_planned_once(spark: SparkSession, table: str) -> None:
    df = dp.read(spark, table)
    assert df.where("id >= 6500").count() == 1500
    assert [(p.filters, p.understood, p.files) for p in df._deltaplane_index.plans] == [(2, 2, 2)]  # type: ignore[attr-defined]


def test_joins_broadcast_what_is_small_when_pruned(spark: SparkSession, table: str, conf: dict[str, str]) -> None:
    df = dp.read(spark, table)
    filtered, every = (f._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() for f in (df.where("id = 5"), df))  # type: ignore[attr-defined]
    assert filtered < every / 4
    conf["spark.sql.autoBroadcastJoinThreshold"] = str(every // 2)
    small = df.where("id < 1000").alias("small")
    assert "BroadcastHashJoin" in plan_of(df.join(small, "id"))
    conf["spark.sql.optimizer.excludedRules"] = _java.RULE
    assert "SortMergeJoin" in plan_of(df.join(small, "id"))
    assert scans(small) == []


def test_rows_are_told_where_spark_goes_by_them(spark: SparkSession, table: str, conf: dict[str, str]) -> None:
    conf["spark.sql.cbo.enabled"] = "true"
    DeltaTable(table).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    DeltaTable(table).delete("id = 5")
    df = dp.read(spark, table)
    assert "rowCount=7.00E+3" in plan_of(df, "cost")
    assert "rowCount=999" in plan_of(df.where("id < 1000"), "cost")
    assert df.where("id < 1000").count() == 999


def test_a_view_shows_the_newest_version_also_after_explain(spark: SparkSession, table: str) -> None:
    dp.create_or_replace_temp_view(spark, "things_live", table)
    view = spark.table("things_live")
    assert scans(view) == ["things` version 7, 8 of 8 files"]
    DeltaTable(table).delete("id < 1000")
    assert view.count() == 7000
    assert scans(view.where("id >= 0")) == ["things` version 8, 7 of 7 files"]
    spark.catalog.dropTempView("things_live")


def test_without_a_compiler_there_is_no_native_scan(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_java, "COMPILER", "org.codehaus.janino.NoSuchCompiler")
    with pytest.raises(_internals.NativeScanUnavailable, match="NoSuchCompiler"):
        _internals.Jvm(spark)
