"""INSERT and CREATE TABLE … AS with a memory limit: rows are written while the query computes
them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import InvalidArgumentError

LIMIT: dict[str, Any] = {"memory_limit": "64MB"}


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, str]:
    paths = {name: str(tmp_path / name) for name in ("t", "s", "new")}
    write_deltalake(paths["t"], pa.table({"x": pa.array([1], pa.int32()), "k": ["a"]}), partition_by=["k"])
    write_deltalake(paths["s"], pa.table({"y": range(10), "big": [2**40] + [7] * 9}))
    return paths


def values(path: str) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table()["x"].to_pylist())


def test_rows_are_those_without_a_limit(tables: dict[str, str]) -> None:
    done = sql("INSERT INTO t PARTITION (k = 'b') SELECT y + 10 FROM s WHERE y < 3", tables=tables, **LIMIT)
    assert done.to_pylist() == [{"num_affected_rows": 3, "num_inserted_rows": 3, "version": 1}]
    assert values(tables["t"]) == [1, 10, 11, 12]
    done = sql("INSERT INTO t SELECT x + 100, k FROM t", tables=tables, **LIMIT)
    assert done["num_inserted_rows"].to_pylist() == [4]
    assert values(tables["t"]) == [1, 10, 11, 12, 101, 110, 111, 112]
    sql("INSERT OVERWRITE t SELECT x, k FROM t WHERE x > 100", tables=tables, **LIMIT)
    assert values(tables["t"]) == [101, 110, 111, 112]
    done = sql("INSERT INTO t SELECT y, 'c' FROM s WHERE y > 99", tables=tables, **LIMIT)
    assert done["num_inserted_rows"].to_pylist() == [0]


def test_a_row_that_fails_writes_nothing(tables: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"out of range.*stored in the column `x`"):
        sql("INSERT INTO t SELECT big, 'a' FROM s", tables=tables, **LIMIT)
    assert DeltaTable(tables["t"]).version() == 0
    with pytest.raises(InvalidArgumentError, match="DIVIDE_BY_ZERO"):
        sql("CREATE TABLE new AS SELECT 1 / y AS x FROM s", tables=tables, **LIMIT)
    assert not DeltaTable.is_deltatable(tables["new"])


def test_a_table_of_a_query(tables: dict[str, str]) -> None:
    sql("CREATE TABLE new AS SELECT y AS x, big FROM s ORDER BY y", tables=tables, **LIMIT)
    assert values(tables["new"]) == list(range(10))
    sql("CREATE OR REPLACE TABLE new AS SELECT x + 1 AS x FROM new", tables=tables, **LIMIT)
    assert values(tables["new"]) == list(range(1, 11))


def test_rows_that_are_compared_with_the_table_are_in_memory_first(tables: dict[str, str]) -> None:
    sql("INSERT INTO t REPLACE USING (k) SELECT CAST(y AS INT), 'a' FROM s WHERE y = 4", tables=tables, **LIMIT)
    assert values(tables["t"]) == [4]


@pytest.mark.parametrize("statement", ["DELETE FROM t", "CREATE TABLE new (x INT)", "UPDATE t SET x = 1"])
def test_statements_without_a_query_take_no_limit(tables: dict[str, str], statement: str) -> None:
    with pytest.raises(InvalidArgumentError, match="for queries that DuckDB runs"):
        sql(statement, tables=tables, **LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["INSERT INTO big", "CREATE OR REPLACE TABLE big AS"])
def test_more_rows_than_memory_are_written(tmp_path: Path, statement: str) -> None:
    source, big = str(tmp_path / "s"), str(tmp_path / "big")
    write_deltalake(source, pa.table({"n": range(1_500_000)}))
    sql("CREATE TABLE big (n BIGINT, a STRING)", tables={"big": big})
    program = f"""
import resource
import deltaplane
import duckdb, pyarrow
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
deltaplane.sql("SELECT 1").to_arrow()
before = peak()
query = "{statement} SELECT n, repeat(CAST(n AS STRING), 40) AS a FROM s"
done = deltaplane.sql(query, tables={{"s": {source!r}, "big": {big!r}}}, memory_limit="100MB")
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    # The rows take some 400 MB.
    assert int(done.stdout) < 330
    assert DeltaTable(big).to_pyarrow_table(columns=["n"]).num_rows == 1_500_000
