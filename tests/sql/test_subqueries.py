"""DELETE and UPDATE with subqueries in the condition: the version that these read, the command's
read set, and the engine that runs them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    InvalidArgumentError,
    UnsupportedExpressionError,
)
from interop.verifier import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OF_ITSELF = "DELETE FROM t WHERE p = 'a' AND x IN (SELECT y FROM t)"
OF_ANOTHER = "DELETE FROM t WHERE p = 'a' AND x IN (SELECT y FROM s)"
SOURCE = pa.table({"y": [1, 4]})


@pytest.fixture(params=["false", "true"], ids=["copied", "vectors"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path, vectors = str(tmp_path / "t"), {"delta.enableDeletionVectors": request.param}
    data = pa.table({"p": ["a", "a", "b", "b"], "x": [1, 2, 3, 4], "y": [9, 9, 2, 9]})
    write_deltalake(path, data, partition_by=["p"], configuration=vectors)
    return path


def left(path: str) -> list[Any]:
    verify(path)
    return sorted(DeltaTable(path).to_pyarrow_table()["x"].to_pylist())


def test_the_table_is_seen_as_it_was(path: str) -> None:
    sql("UPDATE t SET x = x + 1, y = x WHERE EXISTS (SELECT 1 FROM t o WHERE o.x = t.x + 1)", tables={"t": path})
    assert left(path) == [2, 3, 4, 4]
    assert (
        sql("DELETE FROM t WHERE x = (SELECT max(x) FROM t)", tables={"t": path})["num_affected_rows"][0].as_py() == 2
    )
    assert left(path) == [2, 3]


def test_an_object_is_read_at_its_version(path: str) -> None:
    table = DeltaTable(path)
    write_deltalake(path, pa.table({"p": ["b"], "x": [5], "y": [1]}), mode="append")
    # The concurrently added row would select the row with 1, so the command must not commit.
    with pytest.raises(ConcurrentAppendException):
        sql(OF_ITSELF, tables={"t": table})
    table.update_incremental()
    sql(OF_ITSELF, tables={"t": table})
    assert (left(path), table.version()) == ([3, 4, 5], 2)


@pytest.mark.parametrize("itself", ["t", "u", "delta.`{}`", "delta.`{}/../t`", "delta.`{}-link`"])
def test_rows_that_go_matter_where_the_table_is_read(path: str, itself: str) -> None:
    table = DeltaTable(path)
    os.symlink(path, f"{path}-link")
    tables = {"t": table, "u": path, "s": SOURCE}
    DeltaTable(path).delete("p = 'b'")
    with pytest.raises(ConcurrentDeleteReadException):
        sql(f"DELETE FROM t WHERE p = 'a' AND x < (SELECT max(x) FROM {itself.format(path)} o)", tables=tables)
    # A subquery over another table, or over a fixed version, causes no conflict.
    sql(OF_ANOTHER, tables=tables)
    assert left(path) == [2]
    stale = DeltaTable(path)
    write_deltalake(path, pa.table({"p": ["b"], "x": [8], "y": [8]}), mode="append")
    sql("DELETE FROM t WHERE p = 'a' AND x IN (SELECT y FROM t VERSION AS OF 0)", tables={"t": stale})
    assert left(path) == [8]


def test_a_dry_run_tells_what_it_rests_on(path: str) -> None:
    result = sql(OF_ITSELF, tables={"t": path}, dry_run=True)
    assert (result.rows["numDeletedRows"], result.read_set.reads, result.read_set.condition) == (1, "set", None)
    assert "ConcurrentDeleteReadException" in [c.error for c in result.conflicts]
    result = sql(OF_ANOTHER, tables={"t": path, "s": SOURCE}, dry_run=True)
    # The parts without a subquery prune files.
    assert (result.read_set.reads, result.files_read) == ("rows", 1)
    assert "ConcurrentDeleteReadException" not in [c.error for c in result.conflicts]
    assert left(path) == [1, 2, 3, 4]


def test_the_history_has_the_condition(path: str) -> None:
    sql(OF_ITSELF, tables={"t": path})
    said = DeltaTable(path).history(1)[0]
    assert said["operationParameters"]["predicate"] == "[\"p = 'a' AND x IN (SELECT y FROM t)\"]"


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("UPDATE t SET x = (SELECT max(y) FROM s)", UnsupportedExpressionError, "line 1, column 19: a subquery can't stand"),
        ("UPDATE t SET x = 1 + (SELECT 1) WHERE x = 1", UnsupportedExpressionError, "line 1, column 23: a subquery"),
        ("MERGE INTO t USING s ON t.x IN (SELECT 1) WHEN MATCHED THEN DELETE", UnsupportedExpressionError, "column 33"),
        ("MERGE INTO t USING s ON t.x = s.y WHEN MATCHED AND EXISTS (SELECT 1) THEN DELETE", UnsupportedExpressionError, "column 60"),
        ("INSERT INTO t REPLACE WHERE x = (SELECT 1) SELECT 'a', 1, 2", UnsupportedExpressionError, "column 34"),
        ("DELETE FROM t WHERE (x IN (SELECT y FROM s)) = false", UnsupportedExpressionError, "line 1, column 21: the expression uses IN"),
        ("DELETE FROM t WHERE x IN (SELECT z FROM s)", InvalidArgumentError, "line 1, column 34: no column is called `z`"),
        ("DELETE FROM t WHERE x IN (SELECT y FROM nothing)", InvalidArgumentError, "line 1, column 41: no table is called `nothing`"),
        ("DELETE FROM t WHERE x IN (SELECT y, y FROM s)", InvalidArgumentError, "line 1, column 21: IN compares one value"),
        ("DELETE FROM t WHERE (SELECT max(y) FROM s)", InvalidArgumentError, "line 1, column 21: WHERE needs a condition"),
        ("DELETE FROM t WHERE x = (SELECT y FROM s)", InvalidArgumentError, "More than one row"),
        ("DELETE FROM t WHERE x = (SELECT 1 / (y - y) FROM s WHERE y = 1)", InvalidArgumentError, "DIVIDE_BY_ZERO"),
        ("DELETE FROM t WHERE _row = 1 AND x IN (SELECT y FROM s)", InvalidArgumentError, "no column is called `_row`"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(path: str, text: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as refused:
        sql(text, tables={"t": path, "s": SOURCE})
    assert said in str(refused.value)
    assert DeltaTable(path).version() == 0


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("(SELECT x - 3 AS y FROM t WHERE x = 4)", "set"),
        ("(SELECT x AS y FROM delta.`{}` o)", "set"),
        ("(SELECT x AS y FROM t VERSION AS OF 0)", "rows"),
        ("(SELECT y FROM s WHERE y = 1)", "rows"),
        ("s", "rows"),
    ],
)
def test_a_merge_rests_on_what_its_source_is_made_of(path: str, source: str, reads: str) -> None:
    sql("UPDATE t SET y = x WHERE x = 1", tables={"t": path})
    tables, source_text = {"t": path, "s": SOURCE}, source.format(path)
    text = f"MERGE INTO t USING {source_text} AS s ON t.x = s.y AND t.p = 'a' AND t.x = 1 WHEN MATCHED THEN DELETE"
    result = sql(text, tables=tables, dry_run=True)
    assert (result.read_set.reads, result.rows["numTargetRowsDeleted"]) == (reads, 1)
    stale = {**tables, "t": DeltaTable(path)}
    DeltaTable(path).delete("p = 'b'")
    if reads == "rows":
        sql(text, tables=stale)
        assert left(path) == [2]
        return
    with pytest.raises(ConcurrentDeleteReadException):
        sql(text, tables=stale)
    assert left(path) == [1, 2]


def test_a_merge_of_a_table_with_itself(path: str) -> None:
    text = "MERGE INTO t USING t s ON t.x = s.y AND t.p = 'a' WHEN MATCHED THEN UPDATE SET x = 20"
    assert sql(text, tables={"t": path}, dry_run=True).read_set.reads == "set"
    sql(text, tables={"t": path})
    assert left(path) == [1, 3, 4, 20]


# --- on Spark ---------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_sparks_tasks_run_them(spark: SparkSession, path: str) -> None:
    tables = {"t": path, "s": SOURCE}
    result = sql("DELETE FROM t WHERE p = 'a' AND x NOT IN (SELECT y FROM s)", spark, tables=tables, dry_run=True)
    assert (result.rows["numDeletedRows"], result.read_set.reads, result.files_read) == (1, "rows", 1)
    spark.range(2, 4).createOrReplaceTempView("of_spark")
    updated = sql(
        "UPDATE t AS z SET y = z.x WHERE z.x IN (SELECT id FROM of_spark o WHERE o.id = z.x)", spark, tables=tables
    )
    assert updated["num_affected_rows"].to_pylist() == [2]
    text = f"DELETE FROM delta.`{path}` WHERE x = 1 OR x IN (SELECT y - 1 FROM t WHERE p = 'b') OR x = (SELECT max(y) FROM s)"
    done = sql(text, spark, tables=tables)
    assert done.to_pylist()[0]["num_affected_rows"] == 3
    assert left(path) == [3]
    assert not [t.name for t in spark.catalog.listTables() if t.name.startswith("deltaplane_")]
    spark.catalog.dropTempView("of_spark")


@pytest.mark.spark
def test_on_spark_they_rest_on_what_they_read(spark: SparkSession, path: str) -> None:
    from deltaplane import spark as dp
    from deltaplane.exceptions import DeltaError

    for text, reads in (
        (OF_ANOTHER, "rows"),
        (OF_ITSELF, "set"),
        (f"UPDATE t SET x = 0 WHERE x IN (SELECT y FROM delta.`{path}` o)", "set"),
        ("UPDATE t SET x = 0 WHERE x IN (WITH a AS (SELECT 1 AS y) SELECT y FROM a)", "rows"),
        ("DELETE FROM t WHERE x IN (SELECT x FROM of_spark)", "set"),
    ):
        dp.read(spark, path).createOrReplaceTempView("of_spark")
        assert sql(text, spark, tables={"t": path, "s": SOURCE}, dry_run=True).read_set.reads == reads, text
    # A subquery in a condition of the API may read any table.
    result = dp.DeltaTable.forPath(spark, path).delete("p = 'a' AND x IN (SELECT y FROM of_spark)", dry_run=True)
    assert result is not None
    assert (result.read_set.reads, result.rows["numDeletedRows"]) == ("set", 1)
    result = dp.DeltaTable.forPath(spark, path).delete("x = 2", dry_run=True)
    assert result is not None
    assert result.read_set.reads == "rows"
    spark.catalog.dropTempView("of_spark")
    stale = DeltaTable(path)
    DeltaTable(path).delete("p = 'b'")
    with pytest.raises(ConcurrentDeleteReadException):
        sql(OF_ITSELF.replace("y FROM t", "x FROM t"), spark, tables={"t": stale})
    with pytest.raises(DeltaError, match="line 1, column 41: no table is called `nothing`"):
        sql("DELETE FROM t WHERE x IN (SELECT y FROM nothing)", tables={"t": path})


@pytest.mark.spark
def test_names_of_the_catalog(spark: SparkSession, path: str) -> None:
    from deltaplane import spark as dp

    dp.write(spark.createDataFrame([(2,), (9,)], "y long"), f"{path}-s")
    done = dp.sql(spark, f"DELETE FROM delta.`{path}` WHERE x IN (SELECT y FROM delta.`{path}-s`)")
    assert done.select("num_affected_rows").collect()[0][0] == 1
    assert left(path) == [1, 3, 4]
