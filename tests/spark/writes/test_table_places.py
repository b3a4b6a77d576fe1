"""Locations of new tables under delta-spark's names: empty ones, ones with a table or with other
files, under new and existing names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from deltaplane import DeltaTable
from deltaplane.exceptions import InvalidArgumentError, TableAlreadyExistsError, TableNotFoundError
from deltaplane.spark import DeltaTable as SparkTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def refused(run: Callable[[], Any], kind: type[Exception], condition: str) -> None:
    with pytest.raises(AnalysisException) as raised:
        run()
    assert isinstance(raised.value, kind)
    assert raised.value.getCondition() == condition


def place(spark: SparkSession, name: str) -> str:
    (row,) = spark.sql(f"DESCRIBE DETAIL {name}").collect()
    return str(row.location).removeprefix("file:")


def test_a_builder_with_a_held_name_is_at_its_place(enabled: SparkSession, path: str, name: str) -> None:
    SparkTable.create(enabled).tableName(name).location(path).addColumn("id", "long").execute()
    assert place(enabled, name) == path
    SparkTable.replace(enabled).tableName(name).addColumn("id", "string").execute()
    assert SparkTable.createIfNotExists(enabled).tableName(name).addColumn("x", "int").execute().toDF().columns == [
        "id"
    ]
    assert (place(enabled, name), DeltaTable(path).version()) == (path, 1)
    again = SparkTable.create(enabled).tableName(name).addColumn("id", "long")
    refused(again.location(f"{path} other").execute, TableAlreadyExistsError, "TABLE_OR_VIEW_ALREADY_EXISTS")
    elsewhere = SparkTable.createOrReplace(enabled).tableName(name).location(f"{path} other").addColumn("id", "long")
    refused(elsewhere.execute, InvalidArgumentError, "DELTA_TABLE_LOCATION_MISMATCH")
    assert not DeltaTable.is_deltatable(f"{path} other")


def test_a_builder_with_a_new_name_takes_the_table_that_it_describes(
    enabled: SparkSession, path: str, name: str
) -> None:
    enabled.range(3).write.format("delta").save(path)
    replacing = SparkTable.replace(enabled).tableName(name).location(path).addColumn("id", "long")
    refused(replacing.execute, TableNotFoundError, "TABLE_OR_VIEW_NOT_FOUND")
    for make in (SparkTable.create, SparkTable.createIfNotExists, SparkTable.createOrReplace):
        other = make(enabled).tableName(name).location(path).addColumn("id", "string")
        refused(other.execute, TableAlreadyExistsError, "DELTA_CREATE_TABLE_SCHEME_MISMATCH")
        assert not enabled.catalog.tableExists(name)
        assert make(enabled).tableName(name).location(path).addColumn("id", "long").execute().toDF().count() == 3
        assert enabled.table(name).count() == 3
        enabled.sql(f"DROP TABLE {name}")
    nothing = SparkTable.createOrReplace(enabled).tableName(name).location(path)
    refused(nothing.execute, InvalidArgumentError, "DELTA_SCHEMA_NOT_PROVIDED")
    assert DeltaTable(path).version() == 0


def test_no_table_is_made_among_other_files(enabled: SparkSession, path: str, name: str) -> None:
    rows = enabled.range(2)
    rows.write.parquet(path)
    for make in (
        SparkTable.create(enabled).location(path).addColumn("id", "long").execute,
        SparkTable.createOrReplace(enabled).tableName(name).location(path).addColumn("id", "long").execute,
        lambda: enabled.sql(f"CREATE TABLE {name} (id BIGINT) USING delta LOCATION '{path}'"),
        lambda: enabled.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION '{path}' AS SELECT 1 AS id"),
        lambda: rows.write.format("delta").option("path", path).saveAsTable(name),
        lambda: rows.writeTo(name).using("delta").option("path", path).create(),
    ):
        refused(make, TableAlreadyExistsError, "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION")
        assert not enabled.catalog.tableExists(name)
    # As in delta-spark, a frame is saved at any path.
    rows.write.format("delta").save(path)
    assert enabled.read.format("delta").load(path).count() == 2
    (Path(f"{path} empty")).mkdir()
    (Path(f"{path} empty") / "_hidden").touch()
    enabled.sql(f"CREATE TABLE {name} (id BIGINT) USING delta LOCATION '{path} empty'")
    assert place(enabled, name) == f"{path} empty"


def test_statements_with_a_new_name_and_a_place(enabled: SparkSession, path: str, name: str) -> None:
    clause = f"LOCATION '{path}'"
    enabled.range(3).write.format("delta").save(path)
    for statement in ("CREATE TABLE IF NOT EXISTS", "CREATE OR REPLACE TABLE"):
        text = f"{statement} {name} (id STRING) USING delta {clause}"
        refused(lambda text=text: enabled.sql(text), TableAlreadyExistsError, "DELTA_CREATE_TABLE_SCHEME_MISMATCH")  # type: ignore[misc]
        enabled.sql(f"{statement} {name} (id BIGINT) USING delta {clause}")
        assert enabled.table(name).count() == 3
        enabled.sql(f"DROP TABLE {name}")
    refused(
        lambda: enabled.sql(f"REPLACE TABLE {name} (id BIGINT) USING delta {clause}"),
        TableNotFoundError,
        "TABLE_OR_VIEW_NOT_FOUND",
    )
    enabled.sql(f"CREATE OR REPLACE TABLE {name} USING delta {clause} AS SELECT 'a' AS x")
    assert enabled.table(name).columns == ["x"]
    enabled.sql(f"CREATE TABLE IF NOT EXISTS delta.`{path}` (z INT) USING delta")
    assert DeltaTable(path).version() == 1
    enabled.sql(f"CREATE TABLE {name}_parquet (id INT) USING parquet")
    try:
        enabled.sql(f"CREATE TABLE IF NOT EXISTS {name}_parquet (id INT) USING delta")
        assert enabled.table(f"{name}_parquet").columns == ["id"]
    finally:
        enabled.sql(f"DROP TABLE {name}_parquet")


def test_the_second_writer_makes_a_table_where_it_is_told(enabled: SparkSession, path: str, name: str) -> None:
    writer = enabled.range(3).writeTo(name).using("delta")
    writer.option("path", path).tableProperty("comment", "about").tableProperty("own", "a").create()
    (detail,) = enabled.sql(f"DESCRIBE DETAIL {name}").collect()
    assert (detail.location, detail.description, detail.properties) == (f"file:{path}", "about", {"own": "a"})
    (made,) = enabled.sql(f"DESCRIBE HISTORY {name}").collect()
    assert made.operationParameters["isManaged"] == "false"
    elsewhere = enabled.range(1).writeTo(name).using("delta").tableProperty("location", f"{path} other")
    refused(elsewhere.createOrReplace, InvalidArgumentError, "DELTA_TABLE_LOCATION_MISMATCH")
    enabled.range(1).writeTo(name).using("delta").createOrReplace()
    assert (place(enabled, name), enabled.table(name).count()) == (path, 1)
    refused(
        lambda: enabled.range(1).write.partitionBy("id").insertInto(name),
        InvalidArgumentError,
        "PARTITION_BY_NOT_ALLOWED_WITH_INSERT_INTO",
    )
