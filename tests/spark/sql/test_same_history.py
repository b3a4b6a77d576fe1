"""What enabled sessions record, accept and refuse as delta-spark does: statements that change
nothing, options in the history, session settings, clones and names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from deltaplane import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DELTA = "spark.databricks.delta."
DEFAULTS = f"{DELTA}properties.defaults."
TXN = {f"{DELTA}write.txnAppId": "app", f"{DELTA}write.txnVersion": "1"}


@pytest.fixture
def table(enabled: SparkSession, path: str) -> str:
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta PARTITIONED BY (v)")
    enabled.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b')")
    return f"delta.`{path}`"


def last(path: str) -> dict[str, Any]:
    return DeltaTable(path).history(1)[0]


def rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.sql(query).collect())


def condition(spark: SparkSession, statement: str) -> str | None:
    with pytest.raises(PySparkException) as refused:
        spark.sql(statement)
    named: str | None = refused.value.getCondition()
    return named


@pytest.mark.parametrize(
    ("change", "operation"),
    [
        ("UNSET TBLPROPERTIES ('delta.appendOnly')", "UNSET TBLPROPERTIES"),
        ("SET TBLPROPERTIES ('a' = 'b')", "SET TBLPROPERTIES"),
        ("DROP CONSTRAINT IF EXISTS c", "DROP CONSTRAINT"),
        ("ALTER COLUMN id COMMENT 'c'", "CHANGE COLUMN"),
    ],
)
def test_statement_that_changes_nothing_makes_a_version(
    enabled: SparkSession, table: str, path: str, change: str, operation: str
) -> None:
    enabled.sql(f"ALTER TABLE {table} {change}")
    before = DeltaTable(path)
    enabled.sql(f"ALTER TABLE {table} {change}")
    after = DeltaTable(path)
    assert (after.version(), last(path)["operation"]) == (before.version() + 1, operation)
    assert after.metadata().configuration == before.metadata().configuration
    assert after.schema() == before.schema()


def test_no_change_makes_no_version(enabled: SparkSession, table: str, path: str) -> None:
    enabled.sql(f"ALTER TABLE {table} DROP COLUMN IF EXISTS nope")
    own = DeltaTable(path)
    assert own.version() == 1
    own.alter.set_table_properties({"a": "b"})
    assert own.alter.set_table_properties({"a": "b"}).version is None


def test_history_has_names_of_properties_as_delta_writes_them(enabled: SparkSession, table: str, path: str) -> None:
    asked = "'delta.feature.timestampNtz' = 'supported', 'delta.AppendOnly' = 'false', 'Own' = '1'"
    enabled.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({asked})")
    assert json.loads(last(path)["operationParameters"]["properties"]) == {
        "delta.feature.timestampntz": "supported",
        "delta.appendOnly": "false",
        "Own": "1",
    }
    enabled.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.AppendOnly', 'Own')")
    assert json.loads(last(path)["operationParameters"]["properties"]) == ["delta.appendOnly", "Own"]


def test_history_has_options_that_a_write_does_not_follow(
    enabled: SparkSession, table: str, path: str, conf: dict[str, str]
) -> None:
    frame = enabled.sql("SELECT 3 AS id, 'c' AS v").write.format("delta").mode("append")
    frame.option("replaceWhere", "id = 1").option("overwriteSchema", "true").save(path)
    says = last(path)["operationParameters"]
    assert (says["mode"], says["predicate"], says["canOverwriteSchema"]) == ("Append", "id = 1", True)
    conf["spark.sql.sources.partitionOverwriteMode"] = "dynamic"
    for statement in (f"INSERT INTO {table} VALUES (4, 'd')", f"INSERT INTO {table} SELECT 5, 'e'"):
        enabled.sql(statement)
        assert last(path)["operationParameters"]["isDynamicPartitionOverwrite"] is True
    enabled.sql(f"INSERT INTO {table} REPLACE WHERE id = 4 SELECT 4, 'z'")
    says = last(path)["operationParameters"]
    assert (says["predicate"], says["isDynamicPartitionOverwrite"]) == ("id = 4", True)
    assert len(rows(enabled, f"SELECT * FROM {table}")) == 5


def test_replacing_all_rows_by_a_condition_records_none(enabled: SparkSession, table: str, path: str) -> None:
    enabled.sql(f"INSERT INTO {table} REPLACE WHERE true VALUES (9, 'z')")
    assert "predicate" not in last(path)["operationParameters"]
    assert rows(enabled, f"SELECT * FROM {table}") == [(9, "z")]


def test_each_commit_has_the_sessions_user_metadata(
    enabled: SparkSession, table: str, path: str, name: str, conf: dict[str, str]
) -> None:
    conf[f"{DELTA}commitInfo.userMetadata"] = "note"
    enabled.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    enabled.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')")
    enabled.sql(f"DELETE FROM {table} WHERE id = 1")
    enabled.sql(f"RESTORE {table} TO VERSION AS OF 1")
    noted = [entry.userMetadata for entry in enabled.sql(f"DESCRIBE HISTORY {table}").collect()]
    assert noted == ["note", "note", "note", None, None]
    assert enabled.sql(f"DESCRIBE HISTORY {name}").collect()[0].userMetadata == "note"
    DeltaTable(path).alter.set_table_properties({"a": "c"})
    assert "userMetadata" not in last(path)


def test_repeated_statements_have_no_result(
    enabled: SparkSession, table: str, path: str, name: str, conf: dict[str, str]
) -> None:
    for key, value in TXN.items():
        conf[key] = value
    assert rows(enabled, f"UPDATE {table} SET id = 9 WHERE id = 1") == [(1,)]
    version = DeltaTable(path).version()
    for statement in (
        f"UPDATE {table} SET id = 8 WHERE id = 9",
        f"DELETE FROM {table} WHERE id = 9",
        f"MERGE INTO {table} t USING (SELECT 9 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        done = enabled.sql(statement)
        assert (done.columns[0], done.collect()) == ("num_affected_rows", [])
    assert DeltaTable(path).version() == version
    enabled.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    location = enabled.sql(f"DESCRIBE DETAIL {name}").collect()[0].location
    assert DeltaTable(location).transaction_version("app") == 1


def test_half_of_an_application_version_has_delta_sparks_condition(
    enabled: SparkSession, table: str, conf: dict[str, str]
) -> None:
    conf[f"{DELTA}write.txnAppId"] = "app"
    with pytest.raises(IllegalArgumentException) as refused:
        enabled.sql(f"INSERT INTO {table} VALUES (3, 'c')")
    assert refused.value.getCondition() == "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"


def test_unknown_defaults_of_properties_are_ignored(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    conf[f"{DEFAULTS}nope"] = "x"
    conf[f"{DEFAULTS}AppendOnly"] = "true"
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    assert DeltaTable(path).metadata().configuration == {"delta.appendOnly": "true"}


def test_defaults_ask_for_versions_of_the_protocol(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    conf[f"{DEFAULTS}minWriterVersion"] = "5"
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    assert DeltaTable(path).protocol().min_writer_version > 2


def test_writer_version_seven_asks_for_no_feature(enabled: SparkSession, path: str) -> None:
    versions = "'delta.minReaderVersion' = '3', 'delta.minWriterVersion' = '7'"
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ({versions})")
    protocol = DeltaTable(path).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 1)
    enabled.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    assert DeltaTable(path).protocol().writer_features == ["changeDataFeed"]


def test_supported_row_tracking_names_its_columns(enabled: SparkSession, path: str) -> None:
    feature = "'delta.feature.rowTracking' = 'supported'"
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ({feature})")
    names = DeltaTable(path).metadata().configuration
    assert set(names) == {
        "delta.rowTracking.materializedRowIdColumnName",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
    }
    enabled.sql(f"INSERT INTO delta.`{path}` VALUES (1)")
    assert rows(enabled, f"SELECT * FROM delta.`{path}`") == [(1,)]


def test_merge_that_removes_nothing_changes_an_append_only_table(enabled: SparkSession, path: str) -> None:
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')")
    merge = f"MERGE INTO delta.`{path}` t USING (SELECT {{}} AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
    enabled.sql(merge.format(1) + "WHEN NOT MATCHED THEN INSERT *")
    with pytest.raises(PySparkException) as refused:
        enabled.sql(merge.format(1) + "WHEN NOT MATCHED THEN INSERT *")
    assert refused.value.getCondition() == "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    assert rows(enabled, f"SELECT * FROM delta.`{path}`") == [(1,)]
    assert len(DeltaTable(path).file_uris()) == 1


def test_settings_of_replace_where(enabled: SparkSession, table: str, path: str, conf: dict[str, str]) -> None:
    frame = enabled.sql("SELECT 5 AS id, 'e' AS v").write.format("delta").mode("overwrite")
    conf[f"{DELTA}replaceWhere.dataColumns.enabled"] = "false"
    with pytest.raises(AnalysisException) as refused:
        frame.option("replaceWhere", "id = 5").save(path)
    assert refused.value.getCondition() == "DELTA_NON_PARTITION_COLUMN_REFERENCE"
    assert condition(enabled, f"INSERT INTO {table} REPLACE WHERE id = 1 VALUES (1, 'z')") == (
        "DELTA_NON_PARTITION_COLUMN_REFERENCE"
    )
    frame.option("replaceWhere", "v = 'e'").save(path)
    conf[f"{DELTA}replaceWhere.dataColumns.enabled"] = "true"
    conf[f"{DELTA}replaceWhere.constraintCheck.enabled"] = "false"
    frame.option("replaceWhere", "id = 1").save(path)
    frame.option("replaceWhere", "v = 'b'").save(path)
    assert rows(enabled, f"SELECT * FROM {table}") == [(5, "e")] * 3


def test_clone_has_no_description_and_its_sources_name(enabled: SparkSession, path: str, name: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id INT) USING delta COMMENT 'source'")
    enabled.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE {name}")
    assert DeltaTable(path).metadata().description is None
    says = last(path)["operationParameters"]
    assert (says["source"], "isShallow" in says) == (f"spark_catalog.default.{name}", False)


def test_default_within_the_query_of_an_insert(enabled: SparkSession, path: str) -> None:
    table = f"delta.`{path}`"
    feature = "'delta.feature.allowColumnDefaults' = 'supported'"
    enabled.sql(
        f"CREATE TABLE {table} (id INT, v STRING DEFAULT 'd', n INT DEFAULT 7) USING delta TBLPROPERTIES ({feature})"
    )
    enabled.sql(f"INSERT INTO {table} SELECT 1, DEFAULT, DEFAULT")
    enabled.sql(f"INSERT INTO {table} (n, id) SELECT DEFAULT, id + 2 FROM range(1) UNION ALL SELECT 8, 3")
    enabled.sql(f"WITH s AS (SELECT 4 AS id) INSERT INTO {table} SELECT id, upper('x'), DEFAULT FROM s WHERE id > 0")
    assert rows(enabled, f"SELECT * FROM {table}") == [(1, "d", 7), (2, "d", 7), (3, "d", 8), (4, "X", 7)]


def test_evolution_by_name_casts_elements_of_arrays(enabled: SparkSession, path: str) -> None:
    enabled.sql(f"CREATE TABLE delta.`{path}` (id INT, a ARRAY<INT>, s STRUCT<x: INT>) USING delta")
    said = "array(1L) AS a, named_struct('x', 2L, 'y', 'new') AS s, 5 AS id, array(3) AS more"
    enabled.sql(f"INSERT WITH SCHEMA EVOLUTION INTO delta.`{path}` BY NAME SELECT {said}")
    shown = enabled.table(f"delta.`{path}`")
    assert shown.schema.simpleString() == "struct<id:int,a:array<int>,s:struct<x:int,y:string>,more:array<int>>"
    assert [tuple(row) for row in shown.collect()] == [(5, [1], (2, "new"), [3])]
    enabled.sql(f"INSERT INTO delta.`{path}` VALUES (6, NULL, NULL, array(NULL))")
    assert rows(enabled, f"SELECT id, more FROM delta.`{path}` WHERE id = 6") == [(6, [None])]


def test_columns_of_a_table_in_a_database(enabled: SparkSession, name: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id INT, v STRING) USING delta")
    assert rows(enabled, f"SHOW COLUMNS FROM {name} IN default") == [("id",), ("v",)]
    assert rows(enabled, f"SHOW COLUMNS IN {name} FROM spark_catalog.default") == [("id",), ("v",)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("CREATE TABLE `a.b` (id INT) USING delta", "INVALID_SCHEMA_OR_RELATION_NAME"),
        ("CREATE TABLE a.b.c (id INT) USING delta", "REQUIRES_SINGLE_PART_NAMESPACE"),
        ("SELECT * FROM delta.nowhere", "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"),
        ("DELETE FROM delta.nowhere", "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"),
        ("INSERT INTO delta.nowhere VALUES (1)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM table_changes('default.t')", "INCORRECT_NUMBER_OF_ARGUMENTS"),
        ("SELECT * FROM table_changes()", "INCORRECT_NUMBER_OF_ARGUMENTS"),
        ("SELECT * FROM table_changes_by_path('{path}', 1.5)", "DELTA_UNSUPPORTED_EXPRESSION"),
        ("COPY INTO delta.`{path}` FROM '{path}-nowhere' FILEFORMAT = PARQUET", "PATH_NOT_FOUND"),
        (
            "REORG TABLE delta.`{path}` APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
            "DELTA_MISSING_ICEBERG_CLASS",
        ),
        ("CONVERT TO DELTA iceberg.`{path}`", "DELTA_MISSING_ICEBERG_CLASS"),
        ("UPDATE delta.`{path}` SET v = DEFAULT || 'x'", "DEFAULT_PLACEMENT_INVALID"),
        ("INSERT INTO delta.`{path}` REPLACE WHERE id VALUES (1, 'z')", "_LEGACY_ERROR_TEMP_1109"),
        ("UPDATE delta.`{path}@v1` SET v = 'q'", "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION"),
        ("REPLACE TABLE default.nowhere SHALLOW CLONE delta.`{path}`", "DELTA_CANNOT_REPLACE_MISSING_TABLE"),
        ("SELECT * FROM table_changes_by_path('{path}', -1)", "DELTA_LOG_FILE_NOT_FOUND"),
    ],
)
def test_conditions_of_names(enabled: SparkSession, table: str, path: str, statement: str, expected: str) -> None:
    assert condition(enabled, statement.format(path=path)) == expected


def test_unknown_columns_of_a_merge_have_delta_sparks_condition(enabled: SparkSession, table: str) -> None:
    merge = f"MERGE INTO {table} t USING (SELECT 1 AS id) s ON t.id = s.id"
    for clause in (
        "WHEN MATCHED THEN UPDATE SET v = s.nope",
        "WHEN MATCHED AND nope THEN DELETE",
        "WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)",
    ):
        assert condition(enabled, f"{merge} {clause}") == "DELTA_MERGE_UNRESOLVED_EXPRESSION"


def test_conditions_of_readers_and_writers(enabled: SparkSession, table: str, path: str) -> None:
    def condition_of(run: Any) -> str | None:
        with pytest.raises(PySparkException) as refused:
            run()
        named: str | None = refused.value.getCondition()
        return named

    reader = enabled.read.format("delta")
    assert condition_of(lambda: reader.option("path", path).load(path)) == "_LEGACY_ERROR_TEMP_1306"
    frame = enabled.table(table)
    assert (
        condition_of(lambda: frame.write.format("delta").option("path", path).save(path)) == "_LEGACY_ERROR_TEMP_1307"
    )
    feed = enabled.read.format("delta").option("readChangeFeed", "true").option("startingVersion", "-1")
    assert condition_of(lambda: feed.load(path)) == "DELTA_LOG_FILE_NOT_FOUND"
    stream = enabled.readStream.format("delta").load(path).writeStream.format("delta").partitionBy("nope")
    stream = stream.option("checkpointLocation", f"{path}-checkpoint")
    assert condition_of(lambda: stream.start(f"{path}-out")) == "_LEGACY_ERROR_TEMP_1196"


def test_path_of_a_partition_shows_its_rows(enabled: SparkSession, path: str) -> None:
    frame = enabled.sql("SELECT * FROM VALUES (1, 'a b', 7), (2, 'a b', 8), (3, NULL, 7) AS t (id, v, n)")
    frame.write.format("delta").partitionBy("v", "n").save(path)
    reader = enabled.read.format("delta")
    assert [row.id for row in reader.load(f"{path}/v=a%20b/n=8").collect()] == [2]
    assert sorted(row.id for row in reader.load(f"{path}/v=a%20b").collect()) == [1, 2]
    assert [row.id for row in reader.load(f"{path}/v=__HIVE_DEFAULT_PARTITION__/").collect()] == [3]
    assert reader.load(f"{path}/n=9").collect() == []
    for inside, expected in (("id=1", "DELTA_NON_PARTITION_COLUMN_SPECIFIED"), ("*", "DELTA_INVALID_PARTITION_PATH")):
        with pytest.raises(AnalysisException) as refused:
            reader.load(f"{path}/{inside}")
        assert refused.value.getCondition() == expected


def test_feed_of_two_timestamps_in_the_wrong_order_is_refused(enabled: SparkSession, path: str) -> None:
    enabled.sql(
        f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    set_times(path)
    enabled.sql(f"INSERT INTO delta.`{path}` VALUES (1)")
    set_times(path)
    feed = enabled.read.format("delta").option("readChangeFeed", "true")
    feed = feed.option("startingTimestamp", "2020-01-02").option("endingTimestamp", "2020-01-01")
    with pytest.raises(PySparkException) as refused:
        feed.load(path)
    assert refused.value.getCondition() == "DELTA_INVALID_CDC_RANGE"


def set_times(path: str) -> None:
    """Gives the commit of version `n` the time of 2020-01-01 plus `n` days."""
    for commit in Path(path, "_delta_log").glob("*.json"):
        day = 1577836800 + 86400 * int(commit.stem)
        os.utime(commit, (day, day))
