"""OPTIMIZE, CONVERT and VACUUM by Spark's tasks have the same results as by the embedded engine."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, convert_to_deltalake, exceptions, write_deltalake
from deltaplane import spark as dp
from deltaplane.spark import DeltaTable as SparkTable
from deltaplane.spark.dml import optimize as _layout
from spark_jobs import counted_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def made(path: str, configuration: dict[str, str] | None = None, **how: Any) -> None:
    """Eight commits of two partitions."""
    for n in range(8):
        rows = {"id": range(n * 50, n * 50 + 50), "x": [i * 7 % 50 for i in range(50)], "p": [i % 2 for i in range(50)]}
        options = {"configuration": configuration, "partition_by": ["p"], **how} if n == 0 else {}
        write_deltalake(path, pa.table(rows), mode="append", **options)


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "bins": ({}, "OPTIMIZE {}"),
    "one partition": ({}, "OPTIMIZE {} WHERE p = 1"),
    "z-order": ({}, "OPTIMIZE {} ZORDER BY (x, id)"),
    "row ids": ({"configuration": {"delta.enableRowTracking": "true"}}, "OPTIMIZE {}"),
    "vectors": ({"configuration": {"delta.enableDeletionVectors": "true"}}, "OPTIMIZE {}"),
    "mapped": ({"configuration": {"delta.columnMapping.mode": "name"}}, "OPTIMIZE {} ZORDER BY (x)"),
}


@pytest.mark.parametrize("case", CASES)
def test_optimize_leaves_what_the_embedded_engine_leaves(spark: SparkSession, path: str, case: str) -> None:
    import deltaplane

    how, text = CASES[case]
    made(path, **how)
    if case == "vectors":
        DeltaTable(path).delete("id % 5 = 0")
    other = path + " other"
    shutil.copytree(path, other)
    # Without delta-spark's columns, which come first.
    by_tasks = dp.sql(spark, text.format(f"delta.`{path}`")).drop("path", "metrics").collect()[0].asDict()
    here = deltaplane.sql(text.format(f"delta.`{other}`")).to_pylist()[0]
    assert by_tasks == here
    assert by_tasks["num_added_files"] > 0
    assert Counter(_facts(path)) == Counter(_facts(other))
    first, second = (DeltaTable(p).history(1)[0] for p in (path, other))
    assert first["operationParameters"] == second["operationParameters"]
    assert set(first["operationMetrics"]) == set(second["operationMetrics"])
    assert rows(path) == rows(other)
    again = SparkTable.forPath(spark, path).optimize().executeCompaction().select("metrics.*").head()
    assert again is not None
    if case != "one partition":
        assert again.numFilesRemoved == 0
    if case == "row ids":
        assert ids(path) == ids(other)


def rows(path: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in DeltaTable(path).to_pyarrow_table().to_pylist())


def ids(path: str) -> dict[int, int]:
    table = DeltaTable(path).to_pyarrow_table(columns=["id", "_row_id"])
    return dict(zip(table["id"].to_pylist(), table["_row_id"].to_pylist(), strict=True))


def _facts(path: str) -> list[str]:
    """The log's statistics of the live files."""
    shown = pa.table(DeltaTable(path).get_add_actions(flatten=True))
    columns = [
        name
        for name in shown.column_names
        if name.split(".")[0] in ("partition", "num_records", "min", "max", "null_count")
    ]
    return [json.dumps(row, sort_keys=True, default=str) for row in shown.select(columns).to_pylist()]


def test_a_clustered_table_is_clustered_by_tasks(spark: SparkSession, path: str) -> None:
    table = SparkTable.create(spark).location(path).addColumn("id", "long").clusterBy("id").execute()
    for n in range(3):
        write_deltalake(path, pa.table({"id": range(n, 300, 3)}), mode="append")
    (done,) = table.optimize().executeCompaction().select("metrics.*").collect()
    assert (done.numFilesRemoved, done.numFilesAdded, done.clusteringStats.numOutputZCubes) == (3, 1, 1)
    assert DeltaTable(path).to_pyarrow_table()["id"].to_pylist() == list(range(300))


def test_tasks_bring_many_new_rows_of_a_clustered_table_in_order(spark: SparkSession, path: str) -> None:
    table = SparkTable.create(spark).location(path).addColumn("id", "long").addColumn("x", "long").clusterBy("x")
    table.property("deltaplane.clusterFromBytes", "1 kb").execute()
    frame = spark.range(3_000).selectExpr("id", "(id * 7919) % 3000 AS x").repartition(2)
    dp.write(frame, path)
    files = DeltaTable(path).files()
    assert len(files) == 2
    for file in files:
        x = pq.read_table(f"{path}/{file}", columns=["x"])["x"].to_pylist()
        assert x == sorted(x)
    assert sorted(DeltaTable(path).to_pyarrow_table()["x"].to_pylist()) == list(range(3_000))


def test_a_group_that_another_writer_took_is_left_alone(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(path)
    run = _layout.run_tasks

    def late(*args: Any) -> Any:
        done = run(*args)
        DeltaTable(path).delete("p = 1")
        return done

    monkeypatch.setattr(_layout, "run_tasks", late)
    (done,) = SparkTable.forPath(spark, path).optimize().executeCompaction().select("metrics.*").collect()
    assert (done.numFilesRemoved, done.numFilesAdded) == (8, 1)
    assert DeltaTable(path).to_pyarrow_table()["p"].unique().to_pylist() == [0]


def test_rows_that_another_writer_deleted_are_not_back_in_sorted_files(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # P121: tasks store row positions beside the files, for the committing driver
    for n in range(4):
        rows = pa.table({"id": range(n, 400, 4)})
        write_deltalake(path, rows, mode="append", configuration={"delta.enableDeletionVectors": "true"})
    run = _layout.run_tasks
    files: list[Path] = []

    def late(*args: Any) -> Any:
        done = run(*args)
        files.extend(Path(path).glob("moved-*.rows"))
        DeltaTable(path).delete("id IN (3, 200, 201)")
        return done

    monkeypatch.setattr(_layout, "run_tasks", late)
    (done,) = SparkTable.forPath(spark, path).optimize().executeZOrderBy("id").select("metrics.*").collect()
    assert (done.numFilesRemoved, done.numFilesAdded, len(files)) == (4, 1, 1)
    left = [x for x in range(400) if x not in (3, 200, 201)]
    assert DeltaTable(path).to_pyarrow_table()["id"].to_pylist() == left
    assert not list(Path(path).glob("moved-*.rows"))

    def refused(*args: Any) -> Any:
        done = run(*args)
        files.extend(Path(path).glob("moved-*.rows"))
        DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
        return done

    write_deltalake(path, pa.table({"id": [1000]}), mode="append")
    monkeypatch.setattr(_layout, "run_tasks", refused)
    with pytest.raises(exceptions.MetadataChangedException):
        SparkTable.forPath(spark, path).optimize().executeZOrderBy("id")
    assert len(files) == 2
    assert not list(Path(path).glob("moved-*.rows"))
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [*left, 1000]


@pytest.fixture
def copied_by_tasks(spark: SparkSession) -> Iterator[list[int]]:
    """Counts the lists of files that tasks copy for clones."""
    with counted_jobs(spark, _layout, "spark.deltaplane.distributedCopyFiles") as lists:
        yield lists


def test_tasks_copy_the_files_of_a_deep_clone(spark: SparkSession, path: str, copied_by_tasks: list[int]) -> None:
    made(path, {"delta.enableDeletionVectors": "true"})
    DeltaTable(path).delete("id % 50 = 3")
    here, there = path + " here", path + " there"
    metrics = DeltaTable(path).clone(here, shallow=False)
    (row,) = dp.sql(spark, f"CREATE TABLE delta.`{there}` DEEP CLONE delta.`{path}`").collect()
    assert (row.num_copied_files, row.copied_files_size) == (metrics["numCopiedFiles"], metrics["copiedFilesSize"])
    assert copied_by_tasks == [8]
    assert rows(there) == rows(here) == rows(path)
    assert DeltaTable(there).history(1)[0]["operationMetrics"] == DeltaTable(here).history(1)[0]["operationMetrics"]
    # Cloning again copies only new files, by tasks or not.
    write_deltalake(path, pa.table({"id": [9_999], "x": [1], "p": [0]}), mode="append")
    SparkTable.forPath(spark, path).clone(there, replace=True)
    assert rows(there) == rows(path)
    assert copied_by_tasks == [8]


def test_a_file_that_a_task_does_not_find_leaves_no_clone(
    spark: SparkSession, path: str, copied_by_tasks: list[int]
) -> None:
    made(path)
    (Path(path) / DeltaTable(path).files()[3]).unlink()
    with pytest.raises(exceptions.FileMissingError, match="vacuumed"):
        SparkTable.forPath(spark, path).clone(path + " copy")
    assert copied_by_tasks
    assert not DeltaTable.is_deltatable(path + " copy")
    spark.conf.set("spark.deltaplane.distributedCopyFiles", "few")
    with pytest.raises(exceptions.InvalidArgumentError, match="distributedCopyFiles"):
        SparkTable.forPath(spark, path).clone(path + " copy")


@pytest.mark.parametrize("partitioned", [False, True])
def test_convert_adopts_what_the_embedded_engine_adopts(spark: SparkSession, path: str, partitioned: bool) -> None:
    by = ["p"] if partitioned else None
    for n in range(20):
        rows = {"id": [n, n + 1], "p": [n % 4, n % 4]} | ({"late": ["x", None]} if n > 10 else {})
        name = f"part-{n}-{{i}}.parquet"
        pq.write_to_dataset(pa.table(rows), path, partition_cols=by, basename_template=name)
    other = path + " other"
    shutil.copytree(path, other)
    columns = pa.schema({"p": pa.int64()}) if partitioned else None
    SparkTable.convertToDelta(spark, f"parquet.`{path}`", "p long" if partitioned else None)
    convert_to_deltalake(other, partition_by=columns, partition_strategy="hive" if partitioned else None)
    assert DeltaTable(path).schema() == DeltaTable(other).schema()
    assert Counter(_facts(path)) == Counter(_facts(other))
    assert SparkTable.forPath(spark, path).toDF().count() == 40
    first, second = (DeltaTable(p).history(1)[0]["operationParameters"] for p in (path, other))
    assert first == second


def test_convert_names_a_file_that_is_none(spark: SparkSession, path: str) -> None:
    Path(path).mkdir()
    pq.write_table(pa.table({"x": [1]}), Path(path, "a.parquet"))
    pq.write_table(pa.table({"x": ["one"]}), Path(path, "b.parquet"))
    with pytest.raises(exceptions.SchemaMismatchError):
        SparkTable.convertToDelta(spark, f"parquet.`{path}`")
    assert not DeltaTable.is_deltatable(path)


def test_directories_are_listed_by_tasks(spark: SparkSession, path: str, conf: dict[str, str]) -> None:
    days = range(20)
    write_deltalake(path, pa.table({"day": days, "x": days}), partition_by=["day"])
    for n in (3, 17):
        Path(path, f"day={n}", "stray.parquet").write_bytes(b"stray")
    Path(path, "stray.txt").write_text("stray")
    listing = _layout.files_by_tasks(spark, path, None)
    assert listing is not None
    here = {str(p.relative_to(path)) for p in Path(path).rglob("*") if p.is_file() and "_delta_log" not in p.parts}
    assert {*listing["path"].to_pylist()} == here
    conf["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
    SparkTable.forPath(spark, path).vacuum(0)
    left = [p for p in Path(path).rglob("*") if p.is_file() and "_delta_log" not in p.parts]
    assert len(left) == 20
    assert DeltaTable(path).to_pyarrow_table().num_rows == 20
    assert _layout.files_by_tasks(spark, path + "/day=1", None) is None


def test_many_files_are_deleted_by_tasks(
    spark: SparkSession, path: str, conf: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        write_deltalake(path, pa.table({"x": [n]}), mode="overwrite")
    requests: list[int] = []
    run_tasks = _layout.run_tasks

    def counted(frame: Any, task: Any, *rest: Any) -> Any:
        requests.append(frame.count())
        if len(requests) == 1:
            raise RuntimeError("no executor is left")
        return run_tasks(frame, task, *rest)

    monkeypatch.setattr(_layout, "run_tasks", counted)
    monkeypatch.setattr(_layout, "_REQUEST", 2)
    conf["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
    conf["spark.deltaplane.distributedDeleteFiles"] = "3"
    with pytest.raises(exceptions.DeltaError, match="vacuum again to go on: no executor is left"):
        SparkTable.forPath(spark, path).vacuum(0)
    SparkTable.forPath(spark, path).vacuum(0)
    assert requests == [2, 2]
    assert len(list(Path(path).glob("*.parquet"))) == 1
    assert DeltaTable(path).to_pyarrow_table()["x"].to_pylist() == [3]
    ends = [e for e in DeltaTable(path).history() if e["operation"] == "VACUUM END"]
    entries = [(e["operationParameters"]["status"], e["operationMetrics"]["numDeletedFiles"]) for e in ends]
    assert entries == [("COMPLETED", "3"), ("FAILED", "0")]
    # The driver copies a small number itself.
    write_deltalake(path, pa.table({"x": [5]}), mode="overwrite")
    SparkTable.forPath(spark, path).vacuum(0)
    assert requests == [2, 2]
    assert len(list(Path(path).glob("*.parquet"))) == 1
    conf["spark.deltaplane.distributedDeleteFiles"] = "many"
    with pytest.raises(exceptions.InvalidArgumentError, match="is a number of files"):
        SparkTable.forPath(spark, path).vacuum(0)
