"""Indexes of keys that Spark's tasks build are those that one process builds, and commands on Spark
bring them up to date as the table's properties ask."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, exceptions, write_deltalake
from deltaplane import spark as dp
from deltaplane.spark import DeltaTable as SparkTable
from deltaplane.spark.dml import indexes
from spark_jobs import counted_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETTING = "spark.deltaplane.distributedIndexFiles"


@pytest.fixture
def jobs(spark: SparkSession) -> Iterator[list[int]]:
    """The number of segments of each job that builds indexes; two files are enough for a job."""
    with counted_jobs(spark, indexes, SETTING) as built:
        yield built


def made(root: Path, files: int, **configuration: str) -> None:
    """File f has the ids f, f + 1000 and f + 2000."""
    for file in range(files):
        rows = pa.table(
            {"id": [file, file + 1000, file + 2000], "name": [f"n{file}", "all", "all"], "p": [file % 2] * 3}
        )
        write_deltalake(root, rows, mode="append", partition_by=["p"], configuration=configuration)


def uncovered(root: Path) -> list[int]:
    """Of each index the files that it doesn't cover."""
    return [state.uncovered_files for state in DeltaTable(root).index.describe()]


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_tasks_build_what_one_process_builds(spark: SparkSession, tmp_path: Path, jobs: list[int], mode: str) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    properties = {"delta.enableDeletionVectors": "true"}
    if mode != "none":
        properties["delta.columnMapping.mode"] = mode
    for root in (here, there):
        made(root, 6, **properties)
        # Its rows are in the index, since a restore brings them back.
        DeltaTable(root).delete("id = 1003")
    DeltaTable(here).index.create(["id"])
    DeltaTable(here).index.create(["id", "name"])
    dp.sql(spark, f"ALTER TABLE delta.`{there}` ADD INDEX ON (id)")
    assert jobs == [1]
    dp.sql(spark, f"ALTER TABLE delta.`{there}` ADD INDEX ON (id, name)")
    # That of `id` is whole.
    assert jobs == [1, 1]
    assert DeltaTable(there).index.describe() == DeltaTable(here).index.describe()
    for condition, files in [("id = 2004", 1), ("id = 1003", 1), ("id = 50", 0), ("id = 5 AND name = 'n5'", 1)]:
        assert len(DeltaTable(there).files(condition)) == files, condition
    assert dp.read(spark, str(there)).where("id IN (1003, 1004)").count() == 1


def test_optimize_extends_the_index_by_tasks(spark: SparkSession, tmp_path: Path, jobs: list[int]) -> None:
    root = tmp_path / "t"
    made(root, 4)
    DeltaTable(root).index.create(["id"])
    SparkTable.forPath(spark, str(root)).optimize().executeCompaction()
    assert (jobs, uncovered(root)) == ([1], [0])
    assert len(DeltaTable(root).files("id = 1")) == 1


def test_writes_and_merges_extend_the_index_if_the_table_asks_for_it(
    spark: SparkSession, tmp_path: Path, jobs: list[int]
) -> None:
    root = tmp_path / "t"
    made(root, 2)
    DeltaTable(root).index.create(["id"], on_write=True)
    rows = spark.range(100, 104, 1, 4).selectExpr("id", "'new' AS name", "id % 2 AS p")
    dp.write(rows, str(root), mode="append")
    assert uncovered(root) == [0]
    target = SparkTable.forPath(spark, str(root))
    target.alias("t").merge(rows.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"name": "'newer'"}).execute()
    assert uncovered(root) == [0]
    target.update("id = 100", {"name": "'newest'"})
    target.delete("id = 101")
    assert uncovered(root) == [0]
    dp.write(rows, str(root), mode="overwrite", replace_where="id >= 100")
    assert uncovered(root) == [0]
    assert sum(jobs) >= 2
    assert len(DeltaTable(root).files("id = 102")) == 1


def test_merges_join_small_files_if_the_table_asks_for_it(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "t"
    for file in range(50):
        write_deltalake(root, pa.table({"id": [file]}), mode="append")
    DeltaTable(root).alter.set_table_properties({"delta.autoOptimize.autoCompact": "true"})
    source = spark.createDataFrame([(3,), (50,)], "id long").alias("s")
    target = SparkTable.forPath(spark, str(root)).alias("t")
    target.merge(source, "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    newest, before = DeltaTable(root).history(2)
    assert (newest["operation"], before["operation"]) == ("OPTIMIZE", "MERGE")
    assert len(DeltaTable(root).files()) == 1
    assert sorted(DeltaTable(root).to_pyarrow_table()["id"].to_pylist()) == [i for i in range(51) if i != 3]


def test_a_job_that_fails_leaves_files_uncovered_and_the_command_done(
    spark: SparkSession,
    tmp_path: Path,
    jobs: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    root = tmp_path / "t"
    made(root, 6)
    DeltaTable(root).index.create(["id"])

    def failed(*arguments: Any) -> Any:
        raise RuntimeError("a worker was lost")

    monkeypatch.setattr(indexes, "run_tasks", failed)
    with caplog.at_level(logging.WARNING):
        SparkTable.forPath(spark, str(root)).optimize().executeCompaction()
    assert "a worker was lost" in caplog.text
    assert uncovered(root) == [2]
    assert len(DeltaTable(root).files("id = 50")) == 2
    assert jobs == []


def test_few_files_are_read_by_the_driver(spark: SparkSession, tmp_path: Path, jobs: list[int]) -> None:
    root = tmp_path / "t"
    made(root, 3)
    spark.conf.set(SETTING, "4")
    dp.sql(spark, f"ALTER TABLE delta.`{root}` ADD INDEX ON (id)")
    assert (jobs, uncovered(root)) == ([], [0])
    spark.conf.set(SETTING, "few")
    with pytest.raises(exceptions.InvalidArgumentError, match="distributedIndexFiles"):
        dp.sql(spark, f"ALTER TABLE delta.`{root}` ADD INDEX ON (name)")
