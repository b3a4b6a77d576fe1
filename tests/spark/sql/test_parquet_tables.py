"""Parquet tables of the session's catalog, and Parquet files at a path: CONVERT TO DELTA and
SHALLOW CLONE.

A table has the same rows as Spark's own Parquet table and, afterwards, as the Delta table of the
same name.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from deltaplane import DeltaTable, exceptions
from deltaplane.spark import DeltaTable as SparkTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Characters that directory names escape, and values that they can't distinguish from null.
_TEXTS = ["x", "y z", "é", "a/b=c", "100%", "%20", ".", "", None]


@pytest.fixture
def other(enabled: SparkSession, name: str) -> Iterator[str]:
    """A second name that is free before and after the test."""
    yield f"{name}_other"
    enabled.sql(f"DROP TABLE IF EXISTS {name}_other")


def facts(spark: SparkSession, name: str) -> dict[str, str]:
    return {row[0]: row[1] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}


def folder(spark: SparkSession, name: str) -> Path:
    return Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")) / name


def rows(spark: SparkSession, table: str, where: str = "true") -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(f"SELECT * FROM {table} WHERE {where}").collect()), key=repr)


def commit(location: Path) -> dict[str, Any]:
    """The first commit's actions by kind; the kinds with several actions as lists."""
    actions: dict[str, Any] = {"add": []}
    for line in (location / "_delta_log" / f"{0:020}.json").read_text().splitlines():
        ((kind, action),) = json.loads(line).items()
        if kind == "add":
            actions["add"].append(action)
        else:
            actions[kind] = action
    return actions


def refused(spark: SparkSession, statement: str) -> str:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(statement)
    assert isinstance(caught.value, exceptions.DeltaError)
    return str(caught.value.getCondition())


def test_a_table_is_converted_by_its_name(enabled: SparkSession, name: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (a INT, b STRING COMMENT 'bee') USING parquet TBLPROPERTIES ('x' = 'y')")
    enabled.sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, NULL)")
    before = rows(enabled, name)
    enabled.sql(f"CONVERT TO DELTA {name}")
    assert rows(enabled, name) == before == [(1, "x"), (2, None)]
    facts_of_table = facts(enabled, name)
    assert (facts_of_table["Provider"], facts_of_table["Type"]) == ("delta", "MANAGED")
    (detail,) = enabled.sql(f"DESCRIBE DETAIL {name}").collect()
    assert (detail.name, detail.properties) == (f"spark_catalog.default.{name}", {"x": "y"})
    made = commit(folder(enabled, name))
    parameters = made["commitInfo"]["operationParameters"]
    assert made["commitInfo"]["operation"] == "CONVERT"
    assert parameters["catalogTable"] == f"`spark_catalog`.`default`.`{name}`"
    assert [field["metadata"] for field in json.loads(made["metaData"]["schemaString"])["fields"]] == [
        {},
        {"comment": "bee"},
    ]
    enabled.sql(f"INSERT INTO {name} VALUES (3, 'z')")
    enabled.sql(f"DELETE FROM {name} WHERE a = 1")
    assert rows(enabled, name) == [(2, None), (3, "z")]
    # A second conversion does nothing.
    enabled.sql(f"CONVERT TO DELTA {name} PARTITIONED BY (b STRING)")
    assert DeltaTable(str(folder(enabled, name))).version() == 2
    enabled.sql(f"DROP TABLE {name}")
    assert not folder(enabled, name).exists()


@pytest.mark.parametrize("statistics", ["", " NO STATISTICS"])
def test_partitions_are_the_catalogs(enabled: SparkSession, name: str, statistics: str) -> None:
    made = random.Random(name)
    values = [(i, made.choice([None, -3, 0, 7]), made.choice(_TEXTS)) for i in range(12)]
    enabled.sql(f"CREATE TABLE {name} (a INT, p INT, q STRING) USING parquet PARTITIONED BY (p, q)")
    frame = enabled.createDataFrame(values, "a int, p int, q string")
    frame.write.mode("append").insertInto(name)
    before = rows(enabled, name)
    enabled.sql(f"CONVERT TO DELTA {name}{statistics}")
    assert rows(enabled, name) == before
    for where in ("p IS NULL", "p = 7", "q = 'y z'", "q IS NULL", "q = 'a/b=c'", "p < 0 AND q = '100%'"):
        expected = [row for row in before if row in {tuple(r) for r in frame_rows(enabled, before, where)}]
        assert rows(enabled, name, where) == expected, where
    added = commit(folder(enabled, name))["add"]
    assert all(("stats" in add) == (statistics == "") for add in added)
    assert {add["partitionValues"]["p"] for add in added} <= {None, "-3", "0", "7"}
    enabled.sql(f"INSERT INTO {name} VALUES (77, 5, 'k')")
    assert rows(enabled, name, "p = 5") == [(77, 5, "k")]


def frame_rows(spark: SparkSession, values: list[tuple[Any, ...]], where: str) -> list[Any]:
    return spark.createDataFrame(values, "a int, p int, q string").where(where).collect()


def test_what_the_catalog_does_not_show_is_no_row(enabled: SparkSession, name: str, tmp_path: Path) -> None:
    enabled.createDataFrame([(1, 1), (2, 2)], "a int, p int").write.partitionBy("p").parquet(f"{tmp_path}/t")
    enabled.sql(f"CREATE TABLE {name} (a INT, p INT) USING parquet PARTITIONED BY (p) LOCATION '{tmp_path}/t'")
    assert rows(enabled, name) == []
    assert refused(enabled, f"CONVERT TO DELTA {name}") == "DELTA_CONVERSION_NO_PARTITION_FOUND"
    enabled.sql(f"ALTER TABLE {name} ADD PARTITION (p = 2)")
    assert rows(enabled, name) == [(2, 2)]
    enabled.sql(f"CONVERT TO DELTA {name} PARTITIONED BY (p INT)")
    assert rows(enabled, name) == [(2, 2)]
    assert facts(enabled, name)["Type"] == "EXTERNAL"
    enabled.sql(f"DROP TABLE {name}")
    assert (tmp_path / "t" / "_delta_log").exists()


def test_a_partition_elsewhere_is_refused(enabled: SparkSession, name: str, tmp_path: Path) -> None:
    enabled.sql(f"CREATE TABLE {name} (a INT, p INT) USING parquet PARTITIONED BY (p)")
    enabled.createDataFrame([(7,)], "a int").write.parquet(f"{tmp_path}/elsewhere")
    enabled.sql(f"ALTER TABLE {name} ADD PARTITION (p = 5) LOCATION '{tmp_path}/elsewhere'")
    with pytest.raises(exceptions.UnsupportedFeatureError, match="outside of the table"):
        enabled.sql(f"CONVERT TO DELTA {name}")
    assert rows(enabled, name) == [(7, 5)]
    assert facts(enabled, name)["Provider"] == "parquet"


def test_columns_are_the_catalogs(enabled: SparkSession, name: str, tmp_path: Path) -> None:
    enabled.range(2).write.parquet(f"{tmp_path}/t")
    enabled.sql(f"CREATE TABLE {name} (id BIGINT, more STRING) USING parquet LOCATION '{tmp_path}/t'")
    enabled.sql(f"CONVERT TO DELTA {name}")
    assert rows(enabled, name) == [(0, None), (1, None)]


@pytest.mark.parametrize("column", ["ID BIGINT", "id INT"])
def test_columns_that_the_files_have_otherwise_are_refused(
    enabled: SparkSession, name: str, tmp_path: Path, column: str
) -> None:
    enabled.range(2).write.parquet(f"{tmp_path}/t")
    enabled.sql(f"CREATE TABLE {name} ({column}) USING parquet LOCATION '{tmp_path}/t'")
    with pytest.raises(exceptions.SchemaMismatchError, match="create the table with the files'"):
        enabled.sql(f"CONVERT TO DELTA {name}")
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_a_table_without_rows_is_converted(enabled: SparkSession, name: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (a INT) USING parquet")
    SparkTable.convertToDelta(enabled, f"default.{name}")
    enabled.sql(f"INSERT INTO {name} VALUES (1)")
    assert rows(enabled, name) == [(1,)]


def test_a_name_whose_files_are_a_delta_table_becomes_one(enabled: SparkSession, name: str, tmp_path: Path) -> None:
    enabled.range(2).write.parquet(f"{tmp_path}/t")
    enabled.sql(f"CREATE TABLE {name} USING parquet LOCATION '{tmp_path}/t'")
    enabled.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/t`")
    assert facts(enabled, name)["Provider"] == "parquet"
    SparkTable.convertToDelta(enabled, name)
    assert facts(enabled, name)["Provider"] == "delta"
    enabled.sql(f"DELETE FROM {name} WHERE id = 0")
    assert rows(enabled, name) == [(1,)]
    enabled.sql(f"DROP TABLE {name}")
    enabled.sql(f"CREATE TABLE {name} (id BIGINT) USING parquet LOCATION '{tmp_path}/t' TBLPROPERTIES ('k' = 'v')")
    assert refused(enabled, f"CONVERT TO DELTA {name}") == "DELTA_CONVERT_METASTORE_METADATA_MISMATCH"


def test_what_is_no_parquet_table_is_refused_with_delta_sparks_conditions(
    enabled: SparkSession, name: str, other: str, tmp_path: Path
) -> None:
    # Each with delta-spark 4.4.0's result.
    enabled.sql(f"CREATE TABLE {name} (a INT, p INT) USING parquet PARTITIONED BY (p)")
    enabled.sql(f"INSERT INTO {name} VALUES (1, 1)")
    for columns in ("p STRING", "p INT, a INT", "P INT"):
        condition = refused(enabled, f"CONVERT TO DELTA {name} PARTITIONED BY ({columns})")
        assert condition == "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER"
    assert refused(enabled, "CONVERT TO DELTA no_such_table") == "TABLE_OR_VIEW_NOT_FOUND"
    assert refused(enabled, "CREATE TABLE x SHALLOW CLONE no_such_table") == "TABLE_OR_VIEW_NOT_FOUND"
    assert refused(enabled, f"CREATE TABLE {other} SHALLOW CLONE parquet.`{tmp_path}/none`") == "PATH_NOT_FOUND"
    assert refused(enabled, f"CONVERT TO DELTA parquet.`{tmp_path}/none`") == "DELTA_EMPTY_DIRECTORY"
    enabled.sql(f"CREATE TABLE {other} (a INT) USING json")
    assert refused(enabled, f"CONVERT TO DELTA {other}") == "DELTA_CONVERT_NON_PARQUET_TABLE"
    assert refused(enabled, f"CREATE TABLE x SHALLOW CLONE {other}") == "DELTA_CLONE_UNSUPPORTED_SOURCE"
    view = f"view_of_{name}"
    for kind, condition in (("VIEW", "DELTA_OPERATION_NOT_ALLOWED_DETAIL"), ("TEMP VIEW", "TABLE_OR_VIEW_NOT_FOUND")):
        enabled.sql(f"CREATE {kind} {view} AS SELECT 1 AS a")
        assert refused(enabled, f"CONVERT TO DELTA {view}") == condition
        assert refused(enabled, f"CREATE TABLE x SHALLOW CLONE {view}") == "DELTA_CLONE_UNSUPPORTED_SOURCE"
        enabled.sql(f"DROP VIEW {view}")
    enabled.createDataFrame([(1, 1)], "a int, p int").write.partitionBy("p").parquet(f"{tmp_path}/t")
    source_name = f"parquet.`{tmp_path}/t`"
    number = "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"
    assert refused(enabled, f"CONVERT TO DELTA {source_name}") == number
    assert refused(enabled, f"CREATE TABLE x SHALLOW CLONE {source_name}") == number
    column = "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME"
    assert refused(enabled, f"CONVERT TO DELTA {source_name} PARTITIONED BY (x INT)") == column
    assert (
        refused(enabled, f"CONVERT TO DELTA {source_name} PARTITIONED BY (p DATE)")
        == "DELTA_FAILED_CAST_PARTITION_VALUE"
    )
    enabled.sql(f"CONVERT TO DELTA {source_name} NO STATISTICS PARTITIONED BY (p INT)")
    assert rows(enabled, f"delta.`{tmp_path}/t`") == [(1, 1)]


def test_files_at_a_path_are_cloned(enabled: SparkSession, name: str, tmp_path: Path) -> None:
    source = tmp_path / "a täble %20"
    enabled.range(5).coalesce(1).write.parquet(str(source))
    (result,) = enabled.sql(f"CREATE TABLE {name} SHALLOW CLONE parquet.`{source}`").collect()
    (file,) = source.glob("*.parquet")
    assert result.asDict() == {
        "source_table_size": file.stat().st_size,
        "source_num_of_files": 1,
        "num_removed_files": 0,
        "num_copied_files": 0,
        "removed_files_size": 0,
        "copied_files_size": 0,
    }
    made = commit(folder(enabled, name))
    parameters = made["commitInfo"]["operationParameters"]
    assert (parameters["source"], int(parameters["sourceVersion"])) == (f"parquet.`file:{source}`", -1)
    assert made["add"][0]["path"].startswith(f"file:{tmp_path}/")
    assert rows(enabled, name) == [(i,) for i in range(5)]
    enabled.sql(f"DELETE FROM {name} WHERE id = 1")
    enabled.sql(f"INSERT INTO {name} VALUES (9)")
    enabled.sql(f"UPDATE {name} SET id = 20 WHERE id = 2")
    assert rows(enabled, name) == [(i,) for i in (0, 20, 3, 4, 9)]
    assert enabled.read.parquet(str(source)).count() == 5
    with pytest.raises(exceptions.TableAlreadyExistsError):
        enabled.sql(f"CREATE TABLE {name} SHALLOW CLONE parquet.`{source}`")
    enabled.sql(f"CREATE TABLE IF NOT EXISTS {name} SHALLOW CLONE parquet.`{source}`")
    assert len(rows(enabled, name)) == 5
    assert (9,) in rows(enabled, name)
    enabled.sql(f"CREATE OR REPLACE TABLE {name} SHALLOW CLONE parquet.`{source}`")
    assert rows(enabled, name) == [(i,) for i in range(5)]
    for statement, says in (
        (f"CREATE OR REPLACE TABLE {name} DEEP CLONE parquet.`{source}`", "only a SHALLOW CLONE"),
        (f"CREATE OR REPLACE TABLE {name} SHALLOW CLONE parquet.`{source}` VERSION AS OF 0", "has no versions"),
    ):
        with pytest.raises(exceptions.UnsupportedFeatureError, match=says):
            enabled.sql(statement)


def test_a_catalogs_table_is_cloned(enabled: SparkSession, name: str, other: str, tmp_path: Path) -> None:
    enabled.sql(
        f"CREATE TABLE {name} (a INT, p INT, q STRING) USING parquet PARTITIONED BY (p, q) TBLPROPERTIES ('x' = 'y')"
    )
    enabled.sql(f"INSERT INTO {name} VALUES (1, 1, 'x'), (2, NULL, 'y z')")
    before = rows(enabled, name)
    properties = "TBLPROPERTIES ('k' = 'v')"
    enabled.sql(f"CREATE TABLE {other} SHALLOW CLONE {name} {properties} LOCATION '{tmp_path}/clone'")
    assert rows(enabled, other) == before
    parameters = commit(tmp_path / "clone")["commitInfo"]["operationParameters"]
    assert parameters["source"] == f"spark_catalog.default.{name}"
    assert rows(enabled, other, "p IS NULL AND q = 'y z'") == [(2, None, "y z")]
    (detail,) = enabled.sql(f"DESCRIBE DETAIL {other}").collect()
    assert (detail.partitionColumns, detail.properties) == (["p", "q"], {"x": "y", "k": "v"})
    enabled.sql(f"INSERT INTO {other} VALUES (3, 3, 'k')")
    enabled.sql(f"DELETE FROM {other} WHERE p = 1")
    assert rows(enabled, other) == [(2, None, "y z"), (3, 3, "k")]
    assert rows(enabled, name) == before
    assert facts(enabled, name)["Provider"] == "parquet"
    with pytest.raises(exceptions.InvalidArgumentError, match="cloned onto itself"):
        enabled.sql(f"CREATE TABLE delta.`{folder(enabled, name)}` SHALLOW CLONE {name}")
