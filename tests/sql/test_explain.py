"""EXPLAIN: the files of each table that a query reads, why, and the engine's plan."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltaplane import WriterProperties, sql, write_deltalake
from deltaplane.exceptions import FileMissingError, InvalidArgumentError, UnsupportedExpressionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    for n in range(4):
        write_deltalake(path, pa.table({"x": [n * 10, n * 10 + 1], "k": ["a", "b"]}), mode="append")
    return path


def explained(text: str, path: str) -> str:
    result = sql(text, tables={"t": path, "d": pa.table({"x": [1]})})
    assert (result.column_names, result.num_rows) == (["plan"], 1)
    return str(result["plan"][0].as_py())


def line(plan: str, what: str) -> str:
    matches = re.findall(rf"^ *{re.escape(what)} {{2,}}(.*)$", plan, re.MULTILINE)
    assert len(matches) == 1, plan
    return str(matches[0])


@pytest.mark.parametrize("form", ["", "FORMATTED ", "extended "])
def test_files_are_counted_by_the_reason_for_which_they_are_left_out(path: str, form: str) -> None:
    plan = explained(f"EXPLAIN {form}SELECT k FROM t WHERE x > 19 AND length(k) > 0", path)
    assert f"s0: file://{path} at version 3" in plan
    assert line(plan, "columns") == "x, k"
    assert line(plan, "conditions on files") == "(`x` > 19)"
    assert line(plan, "considered") == "4 files"
    assert line(plan, "skipped by their statistics") == "2 files"
    assert line(plan, "selected").startswith("2 files, ")
    assert line(plan, "row groups").startswith("2 of 2 may match")
    assert line(plan, "read").startswith("DuckDB reads the files")
    assert "READ_PARQUET" in plan
    assert ("== DuckDB's statement ==\nSELECT" in plan) == (form == "extended ")


def test_a_condition_that_no_statistics_decide_leaves_no_file_out(path: str) -> None:
    plan = explained("EXPLAIN SELECT k FROM t WHERE upper(k) = 'B'", path)
    assert line(plan, "considered") == "4 files"
    assert "skipped by their statistics" not in plan


def test_answers_from_the_log_and_data_of_the_caller(path: str) -> None:
    assert "no file: the log's statistics have the answer" in explained("EXPLAIN SELECT max(x) FROM t", path)
    assert "s0: data of the caller" in explained("EXPLAIN WITH a AS (SELECT x FROM d) SELECT * FROM a", path)
    assert "== Tables ==\nnone" in explained("EXPLAIN VALUES (1)", path)


def test_the_reader_of_a_table_is_named(path: str, tmp_path: Path) -> None:
    sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    sql(f"DELETE FROM delta.`{path}` WHERE x = 30")
    query = "EXPLAIN SELECT x FROM t WHERE x >= 30"
    assert line(explained(query, path), "read").startswith("DuckDB reads the files")
    # DuckDB takes brackets in a path for a pattern.
    moved = shutil.move(path, tmp_path / "t[1]")
    assert line(explained(query, str(moved)), "read").startswith("deltaplane reads the files")


def test_nothing_runs(path: str) -> None:
    assert "== DuckDB's plan ==" in explained("EXPLAIN SELECT 1 / (x - x) FROM t", path)


def test_other_forms_are_refused_by_name(path: str) -> None:
    for form in ("CODEGEN", "COST", "LOGICAL"):
        with pytest.raises(UnsupportedExpressionError, match=f"EXPLAIN {form}"):
            sql(f"EXPLAIN {form} SELECT 1")
    with pytest.raises(InvalidArgumentError, match="expected a query, found `DELETE`"):
        sql("EXPLAIN DELETE FROM t", tables={"t": path})
    with pytest.raises(InvalidArgumentError, match="no column is called `z`"):
        sql("EXPLAIN SELECT z FROM t", tables={"t": path})


@pytest.mark.spark
def test_a_session_explains_its_own_plan(spark: SparkSession, path: str) -> None:
    for form in ("", "EXTENDED ", "COST "):
        result = sql(f"EXPLAIN {form}SELECT k FROM t WHERE x > 19", spark, tables={"t": path})
        assert "== Physical Plan ==" in result["plan"][0].as_py()


@pytest.mark.parametrize(
    ("condition", "moves"),
    [
        ("x > 10", True),
        # Constants are computed before the rows are read.
        ("x > 10 AND DATE '2024-01-01' + INTERVAL 3 DAYS > DATE '2024-01-02'", True),
        ("x > 10 AND DATE '2024-01-31' + INTERVAL 1 MONTH = DATE '2024-02-29'", True),
        # Both engines compute the subquery once, whatever the rows are.
        ("x > 10 AND x < (SELECT x FROM d WHERE x = 1)", True),
        # By the statistics, no sum is out of range.
        ("x > 10 AND x + 1 > 3", True),
        # The second condition may fail for rows that the first one leaves out.
        ("x > 10 AND 100 / x > 3", True),
        ("x > 10 AND x < (SELECT d.x FROM d WHERE d.x = t.x)", True),
        # As in Spark, the condition that fails is evaluated first.
        ("100 / x > 3 AND x > 10", False),
        ("x + 2147483647 > 3 AND 9223372036854775797 + x > 10", False),
    ],
)
def test_conditions_that_cannot_fail_move_into_the_reading_of_files(path: str, condition: str, moves: bool) -> None:
    plan = explained(f"EXPLAIN SELECT k FROM t WHERE {condition}", path)
    assert ("Filters:" in plan) == moves
    # A condition that can fail is a column of its own, which no rule moves.
    assert bool(re.search(r"\bmet\b", plan)) == ("100 / x" in condition or "d.x = t.x" in condition or not moves)


def test_row_groups_are_counted_by_the_footers(tmp_path: Path) -> None:
    path = str(tmp_path / "groups")
    data = pa.table({"x": list(range(1_000)), "k": [str(n) for n in range(1_000)]})
    write_deltalake(path, data, writer_properties=WriterProperties(max_row_group_size=100))
    for store in (path, "file://" + path):
        plan = explained("EXPLAIN SELECT k FROM t WHERE x BETWEEN 150 AND 420", store)
        assert line(plan, "row groups").startswith("4 of 10 may match")
    plan = explained("EXPLAIN SELECT k FROM t WHERE x > 5000", path)
    assert "row groups  " not in plan
    plan = explained("EXPLAIN SELECT x FROM t WHERE upper(k) > 'A'", path)
    assert line(plan, "row groups").startswith("10 of 10 may match")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"x": pa.array([1, 2], pa.int64())}))
    (file,) = path.glob("*.parquet")
    file.unlink()
    with pytest.raises(FileMissingError, match=file.name):
        sql("EXPLAIN SELECT x + 1 FROM t", tables={"t": str(path)})
