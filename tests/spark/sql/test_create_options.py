"""CREATE TABLE with OPTIONS, with EXTERNAL and without LOCATION, and properties among a writer's
options. Expected values are those of delta-spark 4.4.0 on Spark 4.2."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.functions import expr

from deltaplane import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrameWriter, SparkSession

pytestmark = pytest.mark.spark

APPENDS = "'delta.appendOnly' = 'true'"
# The statement behind CREATE, and the table's properties and comment.
OPTIONS: dict[str, tuple[dict[str, str], str | None]] = {
    f"TABLE {{t}} (id int) USING delta OPTIONS ('foo' = 'bar', {APPENDS}) TBLPROPERTIES ('x' = 'y')": (
        {
            "delta.appendOnly": "true",
            "foo": "bar",
            "option.delta.appendOnly": "true",
            "option.foo": "bar",
            "x": "y",
        },
        None,
    ),
    "TABLE {t} (id int) USING delta OPTIONS ('foo' = 'bar') TBLPROPERTIES ('foo' = 'other')": (
        {"foo": "bar", "option.foo": "bar"},
        None,
    ),
    "TABLE {t} (id int) USING delta TBLPROPERTIES ('foo' = 'other') OPTIONS ('FOO' = 'b')": (
        {"foo": "other", "FOO": "b", "option.FOO": "b"},
        None,
    ),
    f"TABLE {{t}} (id int) USING delta OPTIONS ({APPENDS}) TBLPROPERTIES ('delta.appendOnly' = 'false')": (
        {"delta.appendOnly": "true", "option.delta.appendOnly": "true"},
        None,
    ),
    "TABLE {t} (id int) USING delta OPTIONS ('delta.APPENDonly' = 'true') "
    "TBLPROPERTIES ('delta.appendOnly' = 'false')": (
        {"delta.appendOnly": "true", "option.delta.APPENDonly": "true"},
        None,
    ),
    "TABLE {t} (id int) USING delta OPTIONS ('comment' = 'x') COMMENT 'y'": ({"option.comment": "x"}, "y"),
    "TABLE {t} (id int) USING delta OPTIONS ('comment' = 'x') TBLPROPERTIES ('comment' = 'z')": (
        {"option.comment": "x"},
        "x",
    ),
    # Statements with a query, and those that may replace a table, take Delta's properties alone.
    f"TABLE {{t}} USING delta OPTIONS ('foo' = 'bar', 'comment' = 'x', {APPENDS}) AS SELECT 1 AS id": (
        {"delta.appendOnly": "true"},
        None,
    ),
    f"OR REPLACE TABLE {{t}} (id int) USING delta OPTIONS ('foo' = 'bar', 'comment' = 'x', {APPENDS})": (
        {"delta.appendOnly": "true"},
        None,
    ),
    # Their comment among OPTIONS takes the other ones away.
    **{
        f"{statement} OPTIONS ('comment' = 'x') {clauses} {query}": ({}, None)
        for statement, query in (
            ("OR REPLACE TABLE {t} (id int) USING delta", ""),
            ("OR REPLACE TABLE {t} USING delta", "AS SELECT 1 AS id"),
            ("TABLE {t} USING delta", "AS SELECT 1 AS id"),
        )
        for clauses in ("COMMENT 'y'", "TBLPROPERTIES ('comment' = 'z')", "COMMENT 'y' TBLPROPERTIES ('comment' = 'z')")
    },
    "OR REPLACE TABLE {t} (id int) USING delta OPTIONS ('Comment' = 'x') COMMENT 'y'": ({}, "y"),
    "OR REPLACE TABLE {t} (id int) USING delta TBLPROPERTIES ('comment' = 'z') COMMENT 'y'": ({}, "y"),
    "OR REPLACE TABLE {t} USING delta TBLPROPERTIES ('comment' = 'z') AS SELECT 1 AS id": ({}, "z"),
}


@pytest.mark.parametrize("statement", OPTIONS)
def test_options_are_properties(enabled: SparkSession, name: str, statement: str) -> None:
    enabled.sql(f"CREATE {statement.replace('{t}', name)}")
    (detail,) = enabled.sql(f"DESCRIBE DETAIL {name}").collect()
    assert (detail.properties, detail.description) == OPTIONS[statement]
    enabled.sql(f"DROP TABLE {name}")


def test_a_path_among_options_is_the_location(enabled: SparkSession, name: str, path: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id int) USING delta OPTIONS ('PATH' = '{path}', 'z' = '1')")
    assert DeltaTable(path).metadata().configuration == {"z": "1", "option.z": "1"}


def condition_of(run: Callable[[], object]) -> str | None:
    with pytest.raises(PySparkException) as refused:
        run()
    return refused.value.getCondition()


def test_options_that_are_refused(enabled: SparkSession, name: str, path: str) -> None:
    create = f"CREATE TABLE {name} (id int) USING delta OPTIONS"
    for key in ("owner", "provider", "location"):
        assert condition_of(lambda key=key: enabled.sql(f"{create} ('{key}' = 'x')")) == (
            "UNSUPPORTED_FEATURE.SET_TABLE_PROPERTY"
        )
    assert condition_of(lambda: enabled.sql(f"{create} ('delta.nope' = 'x')")) == "DELTA_UNKNOWN_CONFIGURATION"
    twice = f"{create} ('path' = '{path}') LOCATION '{path} other'"
    assert condition_of(lambda: enabled.sql(twice)) == "_LEGACY_ERROR_TEMP_0032"
    assert not Path(path).exists()


@pytest.mark.parametrize("rest", ["(id int) USING delta", "USING delta AS SELECT 7 AS id"])
def test_an_external_table_without_location_is_managed(enabled: SparkSession, name: str, rest: str) -> None:
    enabled.sql(f"CREATE EXTERNAL TABLE {name} {rest}")
    extended = {row.col_name: row.data_type for row in enabled.sql(f"DESCRIBE EXTENDED {name}").collect()}
    assert (extended["Type"], extended["Provider"]) == ("MANAGED", "delta")
    location = enabled.sql(f"DESCRIBE DETAIL {name}").collect()[0].location
    folder = Path(location.removeprefix("file:"))
    assert DeltaTable(str(folder)).version() == 0
    enabled.sql(f"DROP TABLE {name}")
    assert not folder.exists()


# Properties that delta-spark refuses, with the condition where it has one.
WRITTEN: dict[str, tuple[dict[str, str], str | None]] = {
    "a column that is missing": ({"delta.dataSkippingStatsColumns": "nope"}, "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
    "a column twice": ({"delta.dataSkippingStatsColumns": "id,id"}, "DELTA_DUPLICATE_DATA_SKIPPING_COLUMNS"),
    "an unknown format": ({"delta.universalFormat.enabledFormats": "nope"}, None),
    "a format without its feature": (
        {"delta.universalFormat.enabledFormats": "iceberg"},
        "DELTA_UNIVERSAL_FORMAT_VIOLATION",
    ),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_a_writers_properties_are_checked(enabled: SparkSession, name: str, path: str, case: str) -> None:
    options, condition = WRITTEN[case]
    rows = enabled.createDataFrame([(1, "a")], "id int, v string")

    def writer() -> DataFrameWriter:
        return rows.write.format("delta").options(**options)

    assert condition_of(lambda: writer().save(path)) == condition
    assert condition_of(lambda: writer().saveAsTable(name)) == condition
    assert not DeltaTable.is_deltatable(path)
    rows.write.format("delta").save(path)
    # An append ignores the properties, an overwrite checks them, and neither one applies them.
    writer().mode("append").save(path)
    assert condition_of(lambda: writer().mode("overwrite").save(path)) == condition
    table = DeltaTable(path)
    assert (table.version(), table.metadata().configuration) == (1, {})


# Properties that Delta doesn't know, or whose values are illegal, with delta-spark's condition
# where it has one.
ILLEGAL: dict[tuple[str, str], str | None] = {
    ("delta.nope", "1"): "DELTA_UNKNOWN_CONFIGURATION",
    ("Delta.Nope", "1"): "DELTA_UNKNOWN_CONFIGURATION",
    ("delta.lastCommitTimestamp", "1"): "DELTA_UNKNOWN_CONFIGURATION",
    ("delta.rowTracking.materializedRowIdColumnName", "x"): "DELTA_UNKNOWN_CONFIGURATION",
    ("delta.columnMapping.maxColumnId", "5"): "DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
    ("delta.isolationLevel", "Snapshot"): "DELTA_INVALID_ISOLATION_LEVEL",
    ("delta.logRetentionDuration", "x"): "DELTA_INVALID_INTERVAL",
    ("DELTA.APPENDONLY", "nope"): None,
    ("delta.checkpointInterval", "-1"): None,
    ("delta.minReaderVersion", "99"): None,
    ("delta.columnMapping.mode", "nope"): None,
}


@pytest.mark.parametrize("property_and_value", ILLEGAL)
def test_illegal_properties_of_a_write_to_a_table(
    enabled: SparkSession, name: str, path: str, property_and_value: tuple[str, str]
) -> None:
    (key, value), condition = property_and_value, ILLEGAL[property_and_value]
    rows = enabled.createDataFrame([(1, "a")], "id int, v string")
    enabled.sql(f"CREATE TABLE {name} (id int, v string) USING delta LOCATION '{path}'")

    def writer(mode: str, **options: str) -> DataFrameWriter:
        return rows.write.format("delta").mode(mode).options(**{key: value, **options})

    for mode, options in (
        ("append", {}),
        ("append", {"mergeSchema": "true"}),
        ("overwrite", {}),
        ("overwrite", {"overwriteSchema": "true"}),
        ("overwrite", {"replaceWhere": "id = 1"}),
    ):
        refused = writer(mode, **options)
        assert condition_of(lambda refused=refused: refused.save(path)) == condition
        if mode == "overwrite" and "replaceWhere" not in options:
            assert condition_of(lambda refused=refused: refused.saveAsTable(name)) == condition
    assert DeltaTable(path).version() == 0
    # Other writes ignore them.
    writer("append").saveAsTable(name)
    writer("append").insertInto(name)
    rows.writeTo(name).option(key, value).append()
    rows.writeTo(name).option(key, value).overwrite(expr("true"))
    table = DeltaTable(path)
    assert (table.version(), table.metadata().configuration) == (4, {})


def test_unknown_features_of_a_write_to_a_table(enabled: SparkSession, name: str, path: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id int, v string) USING delta LOCATION '{path}'")
    rows = enabled.createDataFrame([(1, "a")], "id int, v string")
    writer = rows.write.format("delta").mode("overwrite").option("delta.feature.nope", "supported")
    writer.save(path)
    assert condition_of(lambda: writer.saveAsTable(name)) == "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"
    assert DeltaTable(path).version() == 1


@pytest.mark.parametrize(
    "condition",
    ["id IN (SELECT 1)", "NOT EXISTS (SELECT 1)", "id = (SELECT 1)", "(v = 'a' AND id > (SELECT max(0)))"],
)
@pytest.mark.parametrize("partitions", ["", "PARTITIONED BY (id)"])
def test_replacewhere_takes_no_subquery(
    enabled: SparkSession, name: str, path: str, condition: str, partitions: str
) -> None:
    enabled.sql(f"CREATE TABLE {name} (id int, v string) USING delta {partitions} LOCATION '{path}'")
    rows = enabled.createDataFrame([(1, "a")], "id int, v string")
    for options in ({}, {"overwriteSchema": "true"}):
        writer = rows.write.format("delta").mode("overwrite").options(replaceWhere=condition, **options)
        assert condition_of(lambda writer=writer: writer.save(path)) == "DELTA_UNSUPPORTED_SUBQUERY"
        assert condition_of(lambda writer=writer: writer.saveAsTable(name)) == "DELTA_UNSUPPORTED_SUBQUERY"
    assert DeltaTable(path).version() == 0
    # An append ignores the option, and a text isn't a subquery.
    rows.write.format("delta").mode("append").option("replaceWhere", condition).save(path)
    rows.write.format("delta").mode("overwrite").option("replaceWhere", "id = 1 AND v != 'exists()'").save(path)
    assert DeltaTable(path).version() == 2
    # delta-spark ignores the condition in a write that creates the table.
    writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", condition)
    assert condition_of(lambda: writer.save(f"{path}/new")) == "DELTA_UNSUPPORTED_SUBQUERY"
    assert condition_of(lambda: writer.saveAsTable(f"{name}_new")) == "DELTA_UNSUPPORTED_SUBQUERY"
    assert not DeltaTable.is_deltatable(f"{path}/new")


def test_properties_of_a_writer_that_depend_on_where_it_writes(enabled: SparkSession, name: str, path: str) -> None:
    rows = enabled.createDataFrame([(1, "a")], "id int, v string")
    both = {
        "delta.enableDeletionVectors": "true",
        "delta.compatibility.symlinkFormatManifest.enabled": "true",
    }
    with pytest.raises(Exception, match="PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION"):
        rows.write.format("delta").options(**both).save(path)
    clusters = {"delta.feature.clustering": "supported"}
    created = condition_of(lambda: rows.write.format("delta").options(**clusters).saveAsTable(name))
    assert created == "DELTA_CREATE_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED"
    partitioned = rows.write.format("delta").partitionBy("v").option("delta.dataSkippingStatsColumns", "v")
    assert condition_of(lambda: partitioned.save(path)) == (
        "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN"
    )
    rows.write.format("delta").options(**clusters).save(path)
    rows.write.format("delta").mode("overwrite").options(**both).save(path)
    assert enabled.read.format("delta").load(path).count() == 1


def test_a_schema_beside_a_table_is_refused(enabled: SparkSession, name: str, path: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id int, v string) USING delta LOCATION '{path}'")
    beside_table = condition_of(lambda: enabled.read.format("delta").schema("id int").load(path))
    assert beside_table == "_LEGACY_ERROR_TEMP_2242"
    assert condition_of(lambda: enabled.read.schema("id int").table(name)) == "_LEGACY_ERROR_TEMP_1189"
    view = f"CREATE TEMPORARY VIEW view_{name} (id int) USING delta OPTIONS (path '{path}')"
    assert condition_of(lambda: enabled.sql(view)) == "_LEGACY_ERROR_TEMP_2242"


def test_properties_of_a_table_by_writeto(enabled: SparkSession, name: str) -> None:
    rows = enabled.createDataFrame([(1, "a")], "id int, v string")
    for options, condition in WRITTEN.values():
        for key, value in options.items():
            by_option = rows.writeTo(name).using("delta").option(key, value)
            by_property = rows.writeTo(name).using("delta").tableProperty(key, value)
            assert condition_of(by_option.create) == condition_of(by_property.create) == condition
    rows.writeTo(name).using("delta").option("delta.appendOnly", "true").create()
    rows.writeTo(name).option("delta.appendOnly", "false").append()
    (detail,) = enabled.sql(f"DESCRIBE DETAIL {name}").collect()
    assert detail.properties == {"delta.appendOnly": "true"}


@pytest.mark.parametrize(
    "condition", ["id IN (SELECT 1)", "EXISTS (SELECT 1)", "id = (SELECT 1)", "(v = 'a' AND id > (SELECT max(1)))"]
)
def test_a_subquery_selects_no_rows_to_replace(enabled: SparkSession, name: str, condition: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id int, v string) USING delta")
    for rows in ("VALUES (1, 'z')", "(SELECT 1, 'z')"):
        insert = f"INSERT INTO {name} REPLACE WHERE {condition} {rows}"
        assert condition_of(lambda insert=insert: enabled.sql(insert)) == "UNSUPPORTED_FEATURE.OVERWRITE_BY_SUBQUERY"
    frame = enabled.createDataFrame([(1, "z")], "id int, v string")
    writer = frame.writeTo(name)
    assert condition_of(lambda: writer.overwrite(expr(condition))) == "UNSUPPORTED_FEATURE.OVERWRITE_BY_SUBQUERY"
    enabled.sql(f"INSERT INTO {name} REPLACE WHERE (id > 0) (SELECT 1, 'z')")
    assert [tuple(row) for row in enabled.table(name).collect()] == [(1, "z")]
