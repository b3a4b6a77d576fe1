"""Dry runs of frames and of INSERT on Spark: predict the commit to the byte, and change no file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from api.rows.row_model import contents, foretold, rehearsed
from deltaplane import DeltaTable, DryRun, sql, write_deltalake
from deltaplane import spark as dp
from deltaplane.exceptions import (
    ConstraintViolationError,
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    TableAlreadyExistsError,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DATA = pa.table({"k": list(range(6)), "p": ["a", "b", "c"] * 2})


@pytest.fixture
def days(path: str) -> str:
    """A partitioned table with a constraint."""
    write_deltalake(path, DATA, partition_by="p")
    DeltaTable(path).alter.add_constraint({"small": "k < 100"})
    return path


def rows(spark: SparkSession, *values: str) -> DataFrame:
    """Rows in one task, so that their order is fixed."""
    return spark.sql(f"SELECT * FROM VALUES {', '.join(values)} AS t(k, p)").coalesce(1)


def exactly(dry_run: DryRun, commit: list[dict[str, Any]]) -> None:
    foretold(dry_run, commit)
    assert dry_run.estimated_bytes_written == sum(action["add"]["size"] for action in commit if "add" in action)
    metrics = next(action["commitInfo"] for action in commit if "commitInfo" in action)["operationMetrics"]
    assert dry_run.estimated_files_written == int(metrics["numFiles"])
    assert dry_run.estimated_bytes_written == int(metrics["numOutputBytes"])


def committed(path: str, version: int) -> list[dict[str, Any]]:
    text = Path(path, "_delta_log", f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"mode": "overwrite"},
        {"mode": "overwrite", "replace_where": "p IN ('a', 'b')"},
        {"mode": "overwrite", "partition_overwrite_mode": "dynamic"},
        {"mode": "overwrite", "schema_mode": "overwrite", "partition_by": "k"},
        {"txn": ("feed", 1), "rebalance": False},
    ],
    ids=["append", "overwrite", "replaceWhere", "dynamic", "other columns", "txn"],
)
def test_a_frames_dry_run_foretells_its_write(spark: SparkSession, days: str, how: dict[str, Any]) -> None:
    new = rows(spark, "(7L, 'a')", "(8L, 'a')", "(9L, 'b')")
    seen: list[DryRun] = []

    def rehearse() -> DryRun:
        seen.append(dp.write(new, days, dry_run=True, **how))
        return seen[0]

    result = rehearsed(DeltaTable(days), rehearse, lambda: dp.write(new, days, **how), exactly)
    assert dict(seen[0].rows) == {name: int(n) for name, n in result.metrics.items() if "Rows" in name}
    assert seen[0].read_set.app_ids == (("feed",) if "txn" in how else ())


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("INSERT INTO t SELECT /*+ COALESCE(1) */ id, 'a' FROM range(20, 23)", 3),
        ("INSERT INTO t BY NAME SELECT 'a' AS p, 20L AS k", 1),
        ("INSERT OVERWRITE t SELECT k, p FROM t WHERE p = 'a' ORDER BY k", 2),
        ("INSERT INTO t REPLACE WHERE p = 'b' SELECT 30L, 'b'", 1),
        # The embedded engine writes rows listed in the statement, also with a session.
        ("INSERT INTO t (p, k) VALUES ('c', 31L)", 1),
        ("INSERT INTO t REPLACE USING (p) VALUES (32L, 'a')", 1),
        ("INSERT INTO t REPLACE ON t.k = s.k VALUES (1L, 'b') AS s", 1),
    ],
)
def test_an_inserts_dry_run_foretells_its_write(spark: SparkSession, days: str, text: str, rows: int) -> None:
    table = DeltaTable(days)
    done = rehearsed(
        DeltaTable(days),
        lambda: sql(text, spark, tables={"t": table}, dry_run=True),
        lambda: sql(text, spark, tables={"t": days}),
        foretold if {"USING", "ON"} & set(text.split()) else exactly,
    )
    assert done["num_inserted_rows"].to_pylist() == [rows]
    assert not [t.name for t in spark.catalog.listTables() if t.name.startswith("deltaplane_")]


@pytest.mark.parametrize("mode", ["error", "ignore", "append", "overwrite"])
def test_a_new_table_is_told_and_not_made(spark: SparkSession, path: str, mode: Any) -> None:
    new = rows(spark, "(1L, TIMESTAMP_NTZ'2024-01-31 00:00:00')")
    how = {"mode": mode, "configuration": {"delta.enableDeletionVectors": "true"}, "cluster_by": "k"}
    result = dp.write(new, path, dry_run=True, **how)
    assert not Path(path).exists()
    assert (result.version, result.changed, result.files_removed) == (None, True, 0)
    assert {"timestampNtz", "deletionVectors", "clustering"} <= set(result.added_features)
    assert dp.write(new, path, **how).version == 0
    commit = committed(path, 0)
    exactly(result, commit)
    protocol = next(action["protocol"] for action in commit if "protocol" in action)
    assert result.after.features == {*protocol["readerFeatures"], *protocol["writerFeatures"]}


def test_new_columns_are_told(spark: SparkSession, days: str) -> None:
    wider = rows(spark, "(1L, 'a')").selectExpr("*", "TIMESTAMP_NTZ'2024-01-31 00:00:00' AS at")
    result = dp.write(wider, days, schema_mode="merge", dry_run=True)
    assert result.added_features == ["timestampNtz"]
    assert result.read_set.changes_metadata
    assert result.read_set.changes_protocol
    assert DeltaTable(days).version() == 1
    dp.write(wider, days, schema_mode="merge")
    exactly(result, committed(days, 2))


def test_what_would_be_skipped(spark: SparkSession, days: str) -> None:
    new = rows(spark, "(7L, 'a')")
    dp.write(new, days, txn=("feed", 7))
    before = contents(days)
    runs = {
        "exists": dp.write(new, days, mode="ignore", dry_run=True),
        "txn": dp.write(new, days, txn=("feed", 7), dry_run=True),
        "nothing": dp.write(new.where("k > 7"), days, empty_commit=False, dry_run=True),
    }
    for why, result in runs.items():
        assert (result.changed, result.skipped, result.version) == (False, why, 2)
        assert "nothing would be committed" in str(result)
    assert dp.write(new.where("k > 7"), days, dry_run=True).changed
    assert contents(days) == before


@pytest.mark.parametrize(
    ("write", "error"),
    [
        # One of two tasks writes its file, the other one meets the invalid row.
        (
            lambda spark, path: dp.write(many(spark), path, rebalance=False, dry_run=True),
            ConstraintViolationError,
        ),
        (
            lambda spark, path: dp.write(
                rows(spark, "(7L, 'a')"), path, "overwrite", replace_where="p = 'b'", dry_run=True
            ),
            DeltaError,
        ),
        (lambda spark, path: dp.write(rows(spark, "(7L, 'a')"), path, "error", dry_run=True), TableAlreadyExistsError),
        (lambda spark, path: dp.write(spark.sql("SELECT 'x' AS k"), path, dry_run=True), SchemaMismatchError),
        (
            lambda spark, path: sql(f"INSERT INTO delta.`{path}` SELECT 100L, 'a'", spark, dry_run=True),
            ConstraintViolationError,
        ),
        (
            lambda spark, path: sql(f"INSERT INTO delta.`{path}` VALUES (100L, 'a')", spark, dry_run=True),
            ConstraintViolationError,
        ),
        (
            lambda spark, path: sql(
                f"INSERT INTO delta.`{path}` REPLACE USING (nothing) SELECT 1L, 'a'", spark, dry_run=True
            ),
            InvalidArgumentError,
        ),
        (
            lambda spark, path: sql(f"INSERT INTO delta.`{path}` SELECT 1L", spark, dry_run=True),
            InvalidArgumentError,
        ),
    ],
    ids=["constraint", "outside", "exists", "type", "INSERT", "VALUES", "USING", "arity"],
)
def test_what_refuses_the_write_refuses_its_dry_run(
    spark: SparkSession, days: str, write: Callable[[SparkSession, str], DryRun], error: type[Exception]
) -> None:
    before = contents(days)
    with pytest.raises(error):
        write(spark, days)
    assert contents(days) == before
    assert DeltaTable(days).version() == 1


def many(spark: SparkSession) -> DataFrame:
    return spark.range(0, 102, 1, 2).selectExpr("id AS k", "'a' AS p")


@pytest.mark.usefixtures("ansi")
def test_tasks_that_fail_leave_nothing(spark: SparkSession, days: str, tmp_path: Path) -> None:
    before, new = contents(days), tmp_path / "new"
    failing = many(spark).selectExpr("k + 1 div (k - 60) AS k", "p")
    for path in (days, str(new)):
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            dp.write(failing, path, rebalance=False, dry_run=True)
    assert contents(days) == before
    assert not new.exists()
