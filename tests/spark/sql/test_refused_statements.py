"""Statements that delta-spark 4.4 on Spark 4.2 refuses, with the recorded condition: deltaplane
refuses them with the same.

`refused_statements.txt` groups them: a line that begins with `#` names a group, every other line
has a condition, a tab and a statement. `{t_at}` and the like are paths.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp
from deltaplane.spark import DeltaTable as SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DATABASE = "refused_statements"
BY_NAME = "USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
SETUP = f"""
CREATE TABLE t (id int, v string) USING delta
INSERT INTO t VALUES (1, 'a'), (2, 'b')
CREATE TABLE nn (id int NOT NULL, v string) USING delta
INSERT INTO nn VALUES (1, 'a')
CREATE TABLE k (id int, v string) USING delta TBLPROPERTIES ('delta.constraints.positive' = 'id > 0')
INSERT INTO k VALUES (1, 'a')
CREATE TABLE n (id int, s struct<a: int, b: string>, arr array<struct<x: int>>, m map<string, int>) USING delta
CREATE TABLE p (id int, v string) USING delta PARTITIONED BY (v)
CREATE TABLE c (id int, v string) USING delta CLUSTER BY (id)
CREATE TABLE f (id int, v string) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')
INSERT INTO f VALUES (1, 'a'), (2, 'b')
CREATE TABLE g (id int, d timestamp, g int GENERATED ALWAYS AS (id + 1)) USING delta
INSERT INTO g (id) VALUES (1)
CREATE TABLE i (id bigint GENERATED ALWAYS AS IDENTITY, v string) USING delta
CREATE TABLE mp (id int, v string, s struct<a: int, b: string>) {BY_NAME}
CREATE TABLE mc (id int, v string) {BY_NAME.replace("delta ", "delta CLUSTER BY (id) ")}
CREATE TABLE mk (id int, v string) {BY_NAME.replace(")", ", 'delta.constraints.positive' = 'id > 0')")}
CREATE TABLE mg (id int, v string, g int GENERATED ALWAYS AS (id + 1)) {BY_NAME}
CREATE TABLE dv (id int, v string) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')
INSERT INTO dv SELECT id, 'x' FROM range(0, 10, 1, 1)
DELETE FROM dv WHERE id = 3
CREATE TABLE a (id int, v string) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')
INSERT INTO a VALUES (1, 'a')
CREATE TABLE pq (id int, v string) USING parquet
CREATE VIEW vw AS SELECT * FROM t
CREATE VIEW vpq AS SELECT * FROM pq
CREATE TEMP VIEW tv AS SELECT * FROM t
CREATE TEMP VIEW src AS SELECT * FROM VALUES (1, 'x'), (3, 'y') AS s(id, v)
CREATE TABLE delta.`{{p2_at}}` (x string) USING delta
"""


def groups() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    lines: list[tuple[str, str]] = []
    for line in (Path(__file__).with_name("refused_statements.txt")).read_text("utf-8").splitlines():
        if line.startswith("#"):
            lines = found.setdefault(line[1:].strip(), [])
        else:
            condition, statement = line.split("\t")
            lines.append((condition, statement))
    return found


GROUPS = groups()


@pytest.fixture(scope="module")
def paths(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Creates the tables in a database of their own, the session's current one during the tests;
    yields the paths by their names in statements."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "folder").mkdir()
    (folder / "files").mkdir()
    (folder / "files" / "one.parquet").write_bytes(b"no table's")
    names = {
        f"{name}_at": str(folder / name)
        for name in ("t", "p", "c", "f", "k", "dv", "mp", "pq", "folder", "files", "p2")
    }
    names |= {"nowhere": str(folder / "nowhere_at"), "folder": str(folder / "folder")}
    dp.enable(spark)
    spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{folder}'")
    spark.catalog.setCurrentDatabase(DATABASE)
    try:
        for statement in SETUP.strip().splitlines():
            spark.sql(filled(statement, names))
        yield names
    finally:
        for view in ("tv", "src"):
            spark.catalog.dropTempView(view)
        spark.catalog.setCurrentDatabase("default")
        spark.sql(f"DROP DATABASE {DATABASE} CASCADE")
        dp.disable(spark)
        shutil.rmtree(folder, ignore_errors=True)


def filled(statement: str, paths: dict[str, str]) -> str:
    # `format` isn't used, because statements may contain braces.
    for name, path in paths.items():
        statement = statement.replace(f"{{{name}}}", path)
    return statement


def condition_of(spark: SparkSession, statement: str) -> str | None:
    try:
        spark.sql(statement).collect()
    except PySparkException as e:
        return e.getCondition()
    except Py4JJavaError as e:
        # PySpark has no class for this condition.
        return type(e).__name__
    return "accepted"


@pytest.mark.parametrize("group", GROUPS)
def test_statements_are_refused_with_the_conditions_of_delta_spark(
    spark: SparkSession, paths: dict[str, str], group: str
) -> None:
    versions = {name: DeltaTable(path).version() for name, path in paths.items() if DeltaTable.is_deltatable(path)}
    assert len(versions) > 5
    differs = {}
    for condition, statement in GROUPS[group]:
        found = condition_of(spark, filled(statement, paths))
        if found != condition:
            differs[statement] = f"{found} instead of {condition}"
    assert differs == {}, differs
    # A refused statement changes nothing.
    assert versions == {name: DeltaTable(paths[name]).version() for name in versions}


def test_python_refuses_to_drop_what_sql_does(spark: SparkSession, paths: dict[str, str]) -> None:
    table: Any = SparkTable.forName(spark, "t")
    for feature, condition in (
        ("appendOnly", "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"),
        ("delta.appendOnly", "DELTA_FEATURE_DROP_FEATURE_IS_DELTA_PROPERTY"),
        ("clustering", "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"),
        ("nope", "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"),
    ):
        with pytest.raises(PySparkException) as refused:
            table.dropFeatureSupport(feature)
        assert refused.value.getCondition() == condition
    # The embedded API supports it.
    plan = DeltaTable(paths["t_at"]).alter.drop_feature("appendOnly", dry_run=True)
    assert plan.removed_features == ["appendOnly"]


def test_names_that_spark_reserves_are_free_in_the_embedded_api(paths: dict[str, str]) -> None:
    table = DeltaTable(paths["t_at"])
    assert table.alter.set_table_properties({"owner": "payments"}, dry_run=True).changed
    with pytest.raises(exceptions.InvalidArgumentError, match="can't be the name of a constraint"):
        table.alter.add_constraint({"__CHAR_VARCHAR_STRING_LENGTH_CHECK__": "id > 0"})
    with pytest.raises(exceptions.InvalidArgumentError, match="isn't a legal value"):
        table.alter.set_table_properties({"delta.parquet.compression.codec": "nope"})
    assert table.alter.set_table_properties({"delta.parquet.compression.codec": "ZSTD(3)"}, dry_run=True).changed
