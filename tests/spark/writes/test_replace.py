"""Overwrites of matching rows by Spark's tasks have the same results as by the embedded engine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane import spark as dp
from deltaplane.commands.dry_run import DryRun
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError, SqlSyntaxError
from interop.verifier import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = {
    "copied": {"delta.enableChangeDataFeed": "true"},
    "vectors": {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"},
}  # fmt: skip
OLD = pa.table({"k": [1, 2, 3, 3, None], "v": ["a", "b", "c", "d", "e"], "p": ["x", "y", "x", "x", "y"]})
NEW = pa.table({"k": [2, 3, 3, 9, None], "v": ["B", "C", "D", "z", "n"], "p": ["x", "x", "x", "y", "y"]})
STATEMENTS = [
    "INSERT INTO t AS o REPLACE ON o.k = s.k (SELECT * FROM n) AS s",
    "INSERT INTO t o REPLACE ON o.k < s.k AND o.p = s.p (SELECT k, v, p FROM n WHERE k = 9) AS s",
    "INSERT INTO t REPLACE ON t.k <=> s.k AND s.v <> 'C' (SELECT * FROM n WHERE k <=> 3 OR k IS NULL) s;",
    "INSERT INTO t (v, k, p) REPLACE USING (k) SELECT v, k, p FROM n",
    "INSERT INTO t REPLACE USING (k, p) BY NAME SELECT p, v, k FROM n",
    "INSERT INTO t REPLACE USING (k) SELECT * FROM n WHERE k = 77",
    "INSERT INTO t REPLACE USING (k) VALUES (3, 'v', 'y'), ((SELECT max(k) FROM n), 'w', 'x')",
    "INSERT INTO t REPLACE USING (k) SELECT k, 'new', 'x' FROM n WHERE k = 9",
]


@pytest.fixture(params=TABLES.values(), ids=TABLES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    write_deltalake(path, OLD, partition_by=["p"], configuration=request.param)
    return path


def rows(path: str) -> list[Any]:
    verify(path)
    return sorted(map(repr, DeltaTable(path).to_pyarrow_table(columns=["k", "v", "p"]).to_pylist()))


def changes(path: str) -> list[str]:
    feed = (
        pa.table(DeltaTable(path).load_cdf(1)).select(["k", "v", "p", "_change_type"])
        if DeltaTable(path).version()
        else OLD
    )
    return sorted(map(repr, feed.to_pylist()))


def test_statements_leave_what_the_embedded_engine_leaves(spark: SparkSession, path: str) -> None:
    # P122, P130, P131, P142
    for i, statement in enumerate(STATEMENTS):
        ours, other = f"{path}-{i}", f"{path}-{i}-spark"
        shutil.copytree(path, ours)
        shutil.copytree(path, other)
        tables = {"n": NEW}
        result = sql(statement, spark, tables={"t": other, **tables}, dry_run=True)
        assert DeltaTable(other).version() == 0
        here = sql(statement, tables={"t": ours, **tables})
        there = sql(statement, spark, tables={"t": other, **tables})
        assert here.to_pylist() == there.to_pylist(), statement
        assert result.changed == (there["version"][0].as_py() is not None)
        assert result.rows.get("numTargetRowsInserted", 0) == there["num_inserted_rows"][0].as_py()
        assert rows(ours) == rows(other), statement
        assert changes(ours) == changes(other), statement
        said = [DeltaTable(p).history(1)[0] for p in (ours, other)]
        assert said[0]["operation"] == said[1]["operation"]
        assert said[0]["operationParameters"] == said[1]["operationParameters"]
        names = {n for n in said[0].get("operationMetrics", {}) if "Rows" in n and "Copied" not in n} - {
            "numOutputRows"
        }
        assert [said[0]["operationMetrics"][n] for n in names] == [said[1]["operationMetrics"][n] for n in names]


def test_frames_replace_rows(spark: SparkSession, path: str) -> None:
    frame = spark.createDataFrame([(3, "C", "x", True), (7, "G", "y", False)], "k long, v string, p string, w boolean")
    by: dict[str, Any] = {"replace_on": "t.k = s.k AND s.w", "source_alias": "s", "target_alias": "t"}
    result = dp.write(frame, path, "overwrite", schema_mode="merge", dry_run=True, **by)
    assert isinstance(result, DryRun)
    assert (result.rows["numTargetRowsDeleted"], result.rows["numTargetRowsInserted"], result.files_read) == (2, 2, 1)
    done = dp.write(frame, path, "overwrite", schema_mode="merge", user_metadata="why", txn=("a", 1), **by)
    assert (done.version, done.metrics["numTargetRowsDeleted"]) == (1, 2)
    assert DeltaTable(path).history(1)[0]["userMetadata"] == "why"
    assert dp.write(frame, path, "overwrite", schema_mode="merge", txn=("a", 1), **by).skipped == "nothing"
    rows_read = DeltaTable(path).to_pyarrow_table(filters="k >= 3").sort_by("k").to_pylist()
    assert [(r["k"], r["v"], r["w"]) for r in rows_read] == [(3, "C", True), (7, "G", False)]
    done = dp.write(frame.where("k = 7"), path, "overwrite", replace_using=["k"])
    assert (done.version, done.metrics["numTargetRowsDeleted"], done.metrics["numTargetRowsInserted"]) == (2, 1, 1)
    assert dp.write(frame.where("false"), path, "overwrite", replace_using=["k"]).skipped == "nothing"
    # A missing table is created.
    assert dp.write(frame, f"{path}-new", "overwrite", replace_using=["k"]).version == 0
    verify(path)


def test_what_says_nothing_clear_is_refused(spark: SparkSession, path: str) -> None:
    frame = spark.createDataFrame([(3, "C", "x")], "k long, v string, p string")
    for wrong in (
        {"mode": "append", "replace_on": "t.k = s.k"},
        {"replace_on": "t.k = s.k", "replace_where": "p = 'x'"},
        {"replace_on": "t.k = s.k", "replace_using": ["k"]},
        {"replace_using": ["k"], "schema_mode": "overwrite"},
        {"replace_using": []},
        {"source_alias": "s"},
    ):
        with pytest.raises(InvalidArgumentError):
            dp.write(frame, path, **{"mode": "overwrite", **wrong})  # type: ignore[call-overload]
    chance = {"replace_on": "t.k = s.k AND rand() < 0.5", "source_alias": "s", "target_alias": "t"}
    with pytest.raises(InvalidArgumentError, match="NON_DETERMINISTIC"):
        dp.write(frame, path, "overwrite", **chance)  # type: ignore[call-overload]
    with pytest.raises(SchemaMismatchError):
        dp.write(frame.withColumn("more", frame.k), path, "overwrite", replace_using=["k"])
    with pytest.raises(SqlSyntaxError, match=r"line 1, column 34: expected a query in parentheses"):
        sql("INSERT INTO t REPLACE ON t.k = 1 SELECT 1 AS s", spark, tables={"t": path})
    assert DeltaTable(path).version() == 0


def test_the_newest_version_is_replaced(spark: SparkSession, path: str) -> None:
    table = DeltaTable(path)
    other = DeltaTable(path)
    statement = "INSERT INTO t REPLACE USING (k) SELECT * FROM n WHERE k IN (2, 3)"
    result = sql(statement, spark, tables={"t": table, "n": NEW}, dry_run=True)
    assert (result.read_set.reads, result.read_set.isolation) == ("rows", "Serializable")
    other.delete("k = 1")
    # The statement reads the version that is the newest when it begins.
    assert sql(statement, spark, tables={"t": table, "n": NEW})["version"].to_pylist() == [2]


def test_types_and_names_of_the_catalog(spark: SparkSession, path: str) -> None:
    done = dp.sql(
        spark, f"INSERT INTO delta.`{path}` REPLACE USING (k) SELECT 3 AS k, 'X' AS v, 'x' AS p FROM range(1)"
    )
    assert done.select("num_inserted_rows").collect()[0][0] == 1
    assert [r for r in rows(path) if "'k': 3" in r] == ["{'k': 3, 'v': 'X', 'p': 'x'}"]
