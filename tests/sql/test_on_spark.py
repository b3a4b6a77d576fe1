"""With a Spark session Spark runs queries: versions, names defined by the caller, and syntax that
the embedded engine lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import SchemaMismatchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "a täble")
    write_deltalake(path, pa.table({"k": ["a", "b", "a"], "x": [1, 2, 3]}))
    write_deltalake(path, pa.table({"k": ["c"], "x": [4]}), mode="append")
    return path


def values(table: pa.Table) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def test_what_the_embedded_engine_hasnt_is_sparks(spark: SparkSession, path: str) -> None:
    ranked = f"SELECT x, row_number() OVER (PARTITION BY k ORDER BY x DESC) AS n FROM delta.`{path}` ORDER BY x"
    assert values(sql(ranked, spark)) == [(1, 2), (2, 1), (3, 1), (4, 1)]
    assert not [t.name for t in spark.catalog.listTables() if t.name.startswith("deltaplane_")]


def test_versions_and_names(spark: SparkSession, path: str) -> None:
    old = f"SELECT count(*) AS n FROM delta.`{path}` VERSION AS OF 0 o JOIN delta.`{path}@v1` n ON o.x = n.x"
    assert values(sql(old, spark)) == [(3,)]
    data = pa.table({"k": ["a", "c"], "w": [10, 20]})
    named = "SELECT t.x, u.w FROM t, u WHERE t.k = u.k ORDER BY t.x; -- t"
    assert values(sql(named, spark, tables={"t": path, "u": data})) == [(1, 10), (3, 10), (4, 20)]
    shown = DeltaTable(path, version=0)
    assert values(sql("SELECT sum(x) FROM t WHERE x IS DISTINCT FROM 2", spark, tables={"T": shown})) == [(4,)]


def test_only_relations_are_replaced(spark: SparkSession, path: str) -> None:
    # a column, a function's FROM, a string and a comment with the names of tables
    text = """SELECT t.t.y AS a, extract(day FROM t.day) AS b, 't' AS c /* FROM t */, (SELECT max(x) FROM big) AS d
        FROM (SELECT named_struct('y', 1) AS t, DATE '2024-02-29' AS day) t"""
    assert values(sql(text, spark, tables={"t": path, "big": path})) == [(1, 29, "t", 4)]


def test_a_query_of_with_hides_a_table_of_its_name(spark: SparkSession, path: str) -> None:
    tables = {"t": path}
    assert values(sql("WITH t AS (SELECT 1 AS x) SELECT x FROM t", spark, tables=tables)) == [(1,)]
    # Within its own definition the name is the table's.
    assert values(sql("WITH t AS (SELECT max(x) AS x FROM t) SELECT x FROM t", spark, tables=tables)) == [(4,)]
    assert values(sql("SELECT max(x) OVER t AS m FROM t WINDOW t AS () LIMIT 1", spark, tables=tables)) == [(4,)]


def test_sparks_own_views_are_there(spark: SparkSession, path: str) -> None:
    spark.range(3).createOrReplaceTempView("numbers")
    joined = "SELECT n.id FROM numbers n LEFT SEMI JOIN t ON n.id = t.x ORDER BY 1"
    assert values(sql(joined, spark, tables={"t": path})) == [(1,), (2,)]
    spark.catalog.dropTempView("numbers")


def test_rows_of_spark_are_inserted(spark: SparkSession, path: str) -> None:
    done = sql(f"INSERT INTO delta.`{path}` (x, k) SELECT id, 'z' FROM range(5, 7)", spark)
    assert done.to_pylist() == [{"num_affected_rows": 2, "num_inserted_rows": 2, "version": 2}]
    assert sorted(values(sql(f"SELECT x FROM delta.`{path}` WHERE k = 'z'"))) == [(5,), (6,)]
    named = sql(f"INSERT OVERWRITE delta.`{path}` BY NAME SELECT CAST(7 AS INT) AS x, 'y' AS K", spark)
    assert named["version"].to_pylist() == [3]
    assert DeltaTable(path).to_pyarrow_table().to_pylist() == [{"k": "y", "x": 7}]
    with pytest.raises(SchemaMismatchError, match="doesn't fit its column"):
        sql(f"INSERT INTO delta.`{path}` SELECT 'k', date'2024-01-01' FROM range(1)", spark)


def test_tables_are_made_of_sparks_rows(spark: SparkSession, path: str, tmp_path: Path) -> None:
    made = str(tmp_path / "made")
    text = f"CREATE TABLE delta.`{made}` PARTITIONED BY (k) COMMENT 'c' AS SELECT k, sum(x) AS s FROM delta.`{path}` GROUP BY k"
    assert sql(text, spark)["version"].to_pylist() == [0]
    table = DeltaTable(made)
    assert (table.metadata().partition_columns, table.metadata().description) == (["k"], "c")
    assert sorted(values(sql("SELECT * FROM t", tables={"t": made}))) == [("a", 4), ("b", 2), ("c", 4)]
