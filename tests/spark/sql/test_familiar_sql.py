"""`spark.sql` and `spark.read` of an enabled session: statements, views, versions and frames as in
delta-spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp
from deltaplane.spark import DeltaTable as SparkTable
from following import needs_data_source
from sparks import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OUT_OF_RANGE = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"


@pytest.fixture
def table(enabled: SparkSession, path: str) -> str:
    """A table of three rows, in the form for statements."""
    rows = enabled.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id int, v string").coalesce(1)
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    return f"delta.`{path}`"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_sources_of_a_merge_are_sparks(enabled: SparkSession, table: str, name: str) -> None:
    enabled.createDataFrame([(1, "A"), (4, "D")], "id int, v string").createOrReplaceTempView("updates_of_a_merge")
    enabled.udf.register("shouted", lambda text: f"{text}!", "string")
    merge = f"MERGE INTO {table} AS t USING updates_of_a_merge AS s ON t.id = s.id"
    (done,) = enabled.sql(
        f"{merge} WHEN MATCHED THEN UPDATE SET v = shouted(s.v) WHEN NOT MATCHED THEN INSERT *"
    ).collect()
    assert done.asDict() == {
        "num_affected_rows": 2,
        "num_updated_rows": 1,
        "num_deleted_rows": 0,
        "num_inserted_rows": 1,
    }
    assert rows(enabled.table(table)) == [(1, "A!"), (2, "b"), (3, "c"), (4, "D")]
    enabled.sql(
        f"MERGE INTO {table} t USING (FROM updates_of_a_merge SELECT max(id) AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND t.id > 2 THEN UPDATE SET t.v = DEFAULT"
    )
    enabled.sql(
        f"MERGE INTO {table} t USING VALUES (2, 'two') AS s(id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    assert rows(enabled.table(table)) == [(1, "A!"), (2, "two"), (3, None)]
    enabled.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id, 'x' AS v, 7 AS more")
    enabled.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {table} t USING {name} ON t.id = {name}.id WHEN MATCHED THEN UPDATE SET *"
    )
    assert rows(enabled.table(table).where("id = 1")) == [(1, "x", 7)]
    with pytest.raises(AnalysisException, match="nowhere_to_be_found"):
        enabled.sql(f"MERGE INTO {table} t USING nowhere_to_be_found s ON t.id = s.id WHEN MATCHED THEN DELETE")
    with pytest.raises(AnalysisException, match="the source has no column `v`"):
        enabled.sql(f"MERGE INTO {table} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")


def test_frames_and_views_show_the_newest_version(enabled: SparkSession, table: str, path: str) -> None:
    frame = enabled.read.format("delta").load(path)
    frame.createOrReplaceTempView("view_of_a_frame")
    enabled.sql(f"CREATE OR REPLACE TEMP VIEW view_of_a_query (a, b) AS SELECT * FROM {table} WHERE id > 1")
    enabled.sql(f"CREATE TEMPORARY VIEW view_of_the_past AS SELECT * FROM {table} VERSION AS OF 0")
    queried = enabled.sql(f"SELECT id FROM {table}")
    assert frame.count() == 3
    enabled.sql(f"INSERT INTO {table} VALUES (4, 'd')")
    try:
        assert frame.count() == queried.count() == enabled.table("view_of_a_frame").count() == 4
        assert rows(enabled.sql("SELECT a, b FROM view_of_a_query")) == [(2, "b"), (3, "c"), (4, "d")]
        assert enabled.table("view_of_the_past").count() == 3
        with pytest.raises(AnalysisException, match="already exists"):
            enabled.sql(f"CREATE TEMP VIEW view_of_a_query AS SELECT * FROM {table}")
    finally:
        for view in ("view_of_a_frame", "view_of_a_query", "view_of_the_past"):
            enabled.catalog.dropTempView(view)
    enabled.sql(f"CREATE VIEW kept_by_the_catalog (a COMMENT 'first') AS SELECT id FROM {table}")
    try:
        assert rows(enabled.sql("SELECT a FROM kept_by_the_catalog WHERE a > 2")) == [(3,), (4,)]
        enabled.sql(f"INSERT INTO {table} VALUES (5, 'e')")
        assert enabled.table("kept_by_the_catalog").count() == 5
    finally:
        enabled.sql("DROP VIEW kept_by_the_catalog")


@needs_data_source
def test_changes_are_a_function(enabled: SparkSession, table: str, path: str, name: str) -> None:
    enabled.sql(f"DELETE FROM {table} WHERE id = 2")
    of_path = f"table_changes_by_path('{path}', 1)"
    assert rows(enabled.sql(f"SELECT id, _change_type FROM {of_path} WHERE id < (1 + 2)")) == [(2, "delete")]
    enabled.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
    joined = f"SELECT count(*) AS n FROM TABLE_CHANGES('{name}', 0, 1) AS c JOIN {name} AS t ON c.id = t.id"
    assert rows(enabled.sql(joined)) == [(2,)]
    until_now = f"SELECT * FROM table_changes('{name}', '2020-01-01', now() + INTERVAL 1 DAY)"
    with pytest.raises(exceptions.VersionNotFoundError, match="is after the newest commit"):
        enabled.sql(until_now)
    enabled.conf.set(OUT_OF_RANGE, "true")
    try:
        assert enabled.sql(until_now).count() == 4
        later = enabled.sql(f"SELECT * FROM table_changes('{name}', '2200-01-01')")
        assert (later.count(), later.columns) == (0, enabled.sql(until_now).columns)
    finally:
        enabled.conf.unset(OUT_OF_RANGE)
    since = enabled.sql(f"SELECT * FROM table_changes_by_path('{path}', :since)", args={"since": 1})
    assert since.count() == 1
    enabled.sql(f"CREATE OR REPLACE TEMP VIEW view_of_changes AS SELECT id FROM {of_path}")
    assert rows(enabled.table("view_of_changes")) == [(2,)]
    enabled.catalog.dropTempView("view_of_changes")
    assert not [table.name for table in enabled.catalog.listTables() if table.name.startswith("deltaplane_")]
    assert enabled.sql("SELECT 'table_changes(1)' AS said").collect()[0].said == "table_changes(1)"
    with pytest.raises(exceptions.InvalidArgumentError, match="takes a table"):
        enabled.sql(f"SELECT * FROM table_changes('{name}')")


@needs_data_source
def test_bounds_of_changes_are_those_of_delta_spark(
    enabled: SparkSession, path: str, name: str, conf: dict[str, str]
) -> None:
    writer = enabled.range(1).write.format("delta").option("delta.enableChangeDataFeed", "true")
    writer.save(path)
    enabled.range(1, 2).write.format("delta").mode("append").save(path)
    enabled.range(2, 3).selectExpr("id", "'x' AS a").write.format("delta").mode("append").option(
        "mergeSchema", "true"
    ).save(path)
    ms = [entry["timestamp"] for entry in reversed(DeltaTable(path).history())]

    def moment_of(version: int, later: int = 0) -> str:
        return datetime.fromtimestamp((ms[version] + later) / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")

    def feed(**options: Any) -> DataFrame:
        reader = enabled.read.format("delta").option("readChangeFeed", "true")
        return reader.options(**options).load(path)

    # The columns are the newest version's, whichever version ends the range.
    assert rows(feed(startingVersion=0, endingVersion=0).select("id", "a")) == [(0, None)]
    assert feed(startingVersion=0, endingVersion=0).columns == feed(startingVersion=0).columns
    # There are no changes between two commits.
    assert feed(startingTimestamp=moment_of(1, 1), endingTimestamp=moment_of(1, 1)).count() == 0
    conf["spark.sql.session.timeZone"] = "Asia/Tokyo"
    here = datetime.fromtimestamp(ms[1] / 1000, timezone(timedelta(hours=9))).strftime("%Y-%m-%d %H:%M:%S.%f")
    assert feed(startingTimestamp=here).count() == 2
    conf["spark.sql.session.timeZone"] = "UTC"
    for wrong, condition in (
        ({"startingTimestamp": moment_of(2), "endingTimestamp": moment_of(0)}, "DELTA_INVALID_CDC_RANGE"),
        ({"startingVersion": 2, "endingTimestamp": moment_of(0)}, "DELTA_INVALID_CDC_RANGE"),
        ({"startingVersion": 3}, "DELTA_CDC_START_VERSION_AFTER_LATEST"),
        ({"startingVersion": 0, "versionAsOf": 0}, "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"),
    ):
        with pytest.raises(AnalysisException) as refused:
            feed(**wrong)
        assert refused.value.getCondition() == condition
    # As in delta-spark: for a path the version takes precedence over the timestamp; for a name
    # having both is refused.
    assert (
        feed(startingVersion=1, startingTimestamp=moment_of(0), endingVersion=1, endingTimestamp=moment_of(2)).count()
        == 1
    )
    enabled.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
    for both in (
        {"startingVersion": 1, "startingTimestamp": moment_of(0)},
        {"startingVersion": 1, "endingVersion": 1, "endingTimestamp": moment_of(2)},
    ):
        with pytest.raises(AnalysisException, match="not both") as refused:
            enabled.read.option("readChangeFeed", "true").options(**both).table(name)
        assert (refused.value.getCondition(), refused.value.getSqlState()) == ("DELTA_MULTIPLE_CDC_BOUNDARY", "42614")
    with pytest.raises(exceptions.InvalidArgumentError, match="starting_version or starting_timestamp, not both"):
        dp.read_changes(enabled, path, 1, starting_timestamp=moment_of(0))
    with pytest.raises(exceptions.InvalidArgumentError, match="ending_version or ending_timestamp, not both"):
        dp.read_changes(enabled, path, 1, 1, ending_timestamp=moment_of(2))
    conf["spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"] = "true"
    for beyond in (
        {"startingVersion": 3},
        {"startingVersion": 8, "endingVersion": 9},
        {"startingTimestamp": moment_of(2, 1)},
    ):
        assert rows(feed(**beyond)) == []
    assert feed(startingVersion=1, endingTimestamp=moment_of(2, 9000)).count() == 2
    with pytest.raises(exceptions.InvalidArgumentError, match="no NULL"):
        enabled.sql(f"SELECT * FROM table_changes_by_path('{path}', NULL)")


def test_statements_in_sparks_words(enabled: SparkSession, table: str, path: str, name: str) -> None:
    assert enabled.sql(f"DESCRIBE HISTORY '{path}' LIMIT 1").count() == 1
    assert enabled.sql(f"DESC DETAIL '{path}'").collect()[0].numFiles == 1
    enabled.sql(f"VACUUM '{path}'")
    (done,) = (
        enabled.sql(f"OPTIMIZE '{path}' ZORDER BY (id)").select("path", "metrics.numFilesAdded", "version").collect()
    )
    assert (done.path, done.numFilesAdded, done.version) == (DeltaTable(path).location, 1, 3)
    assert enabled.sql(f"FROM {table} SELECT max(id) AS m").collect()[0].m == 3
    assert "FileScan parquet" in enabled.sql(f"EXPLAIN SELECT * FROM {table}").collect()[0].plan
    enabled.sql(f"CREATE TABLE {name} (id INT) USING delta TBLPROPERTIES (own = '1')")
    enabled.sql(f"INSERT OVERWRITE {name} SELECT id FROM {table}")
    enabled.sql(f"REFRESH TABLE {name}")
    enabled.sql(f"ALTER TABLE {name} ADD COLUMN more STRING")
    assert [row.col_name for row in enabled.sql(f"SHOW COLUMNS IN {name}").collect()] == ["id", "more"]
    assert [(c.name, c.dataType) for c in enabled.catalog.listColumns(f"default.{name}")] == [
        ("id", "int"),
        ("more", "string"),
    ]
    assert enabled.catalog.tableExists(name)
    enabled.catalog.refreshTable(name)
    assert ("own", "1") in rows(enabled.sql(f"SHOW TBLPROPERTIES {name}"))
    assert rows(enabled.sql(f"TABLE {name} UNION ALL (TABLE {name})")) == sorted(rows(enabled.table(name)) * 2)
    assert enabled.sql("SELECT id, 'IDENTIFIER(''x'')' FROM IDENTIFIER(:t)", {"t": name}).count() == 3
    assert "Location" in [row.col_name for row in enabled.sql(f"DESCRIBE EXTENDED {name}").collect()]
    assert enabled.sql(f"TRUNCATE TABLE {name}").columns == []
    assert enabled.table(name).count() == 0
    entry = enabled.sql(f"DESCRIBE HISTORY {name}").first()
    assert (entry.operation, entry.operationParameters) == ("TRUNCATE", {})
    assert entry.operationMetrics.keys() == {"numRemovedFiles", "executionTimeMs"}


def test_versions_behind_paths(enabled: SparkSession, table: str, path: str) -> None:
    enabled.sql(f"DELETE FROM {table} WHERE id = 2")
    reader = enabled.read.format("delta")
    assert reader.load(f"{path}@v0").count() == 3
    assert enabled.table(f"delta.`{path}@v0`").count() == 3
    assert reader.load([path]).count() == 2
    with pytest.raises(exceptions.VersionNotFoundError):
        reader.load(f"{path}@19990101000000000")
    with pytest.raises(exceptions.InvalidArgumentError, match="give it once"):
        reader.option("versionAsOf", 1).load(f"{path}@v0")
    with pytest.raises(exceptions.InvalidArgumentError, match="one path"):
        enabled.read.format("delta").load([path, path])
    # A table's directory may have such a name.
    enabled.range(1).write.format("delta").save(f"{path}@v0")
    assert enabled.read.format("delta").load(f"{path}@v0").columns == ["id"]


@needs_data_source
def test_unknown_options_are_told_and_ignored(
    enabled: SparkSession, table: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert enabled.read.format("delta").options(foo=1, versionAsOff="0").load(path).count() == 3
    assert "foo, versionAsOff (did you mean versionasof?)" in caplog.text
    enabled.range(1).selectExpr("CAST(id AS INT) AS id").write.format("delta").option("batchSize", 9).mode(
        "append"
    ).save(path)
    stream = enabled.readStream.format("delta").option("foo", 1).load(path).writeStream.format("delta")
    query = (
        stream.options(foo=1, checkpointLocation=f"{path} checkpoint").trigger(availableNow=True).start(f"{path} copy")
    )
    query.awaitTermination()
    assert enabled.read.format("delta").load(f"{path} copy").count() == 4
    # A misspelled storage option would otherwise cause an incomprehensible error of the store.
    with pytest.raises(exceptions.InvalidArgumentError, match="unknown storage option aws_regoin"):
        enabled.read.format("delta").option("AWS_REGOIN", "eu-north-1").load(path)


def test_partitions_are_named_by_an_insert(enabled: SparkSession, path: str) -> None:
    to = f"delta.`{path}`"
    # Before Spark 4.1 a doubled quote ends a text and begins another.
    text = "it's" if is_at_least("4.1") else "its"
    enabled.sql(f"CREATE TABLE {to} (a INT, p INT, q STRING) USING delta PARTITIONED BY (p, q)")
    enabled.sql(f"INSERT INTO {to} PARTITION (p = '1', q) VALUES (1, 'k'), (2, 'l')")
    enabled.sql(f"INSERT INTO {to} PARTITION (q = 'it''s', p = NULL) SELECT 3")
    assert {(row.a, row.p, row.q) for row in enabled.table(to).collect()} == {
        (1, 1, "k"),
        (2, 1, "l"),
        (3, None, text),
    }
    enabled.sql(f"INSERT OVERWRITE {to} PARTITION (p = 1, q) SELECT 4, 'm'")
    enabled.sql(f"INSERT OVERWRITE {to} PARTITION (p = NULL, q = 'it''s') (a) VALUES (5)")
    assert {(row.a, row.p, row.q) for row in enabled.table(to).collect()} == {(4, 1, "m"), (5, None, text)}
    enabled.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        enabled.sql(f"INSERT OVERWRITE {to} PARTITION (p = 1, q) VALUES (6, 'n')")
        enabled.sql(f"INSERT OVERWRITE {to} SELECT 7, 1, 'm'")
    finally:
        enabled.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(row.a for row in enabled.table(to).collect()) == [5, 6, 7]
    for wrong in (
        "PARTITION (a = 1) VALUES (1, 'q')",
        "PARTITION (p = 'x', q) VALUES (1, 'q')",
        "PARTITION (p = 1) (p) VALUES (1)",
    ):
        with pytest.raises(AnalysisException):
            enabled.sql(f"INSERT INTO {to} {wrong}")


def test_options_of_readers(enabled: SparkSession, table: str, path: str) -> None:
    plain = enabled.read.format("delta").options(header=True, inferSchema="true", mergeSchema="true")
    assert plain.load(path).count() == 3
    for option in ("readChangeData", "readChangeFeed"):
        feed = enabled.read.format("delta").option(option, "True").option("startingVersion", 0).load(path)
        assert "_change_type" in feed.columns
    stream = enabled.readStream.format("delta").option("readChangeData", "true")
    passing = enabled.readStream.format("delta").option("readChangeFeed", "true").option("skipChangeCommits", "true")
    if is_at_least("4.0"):
        assert "_change_type" in stream.load(path).columns
        assert "_change_type" in passing.load(path).columns
        enabled.range(1).write.format("delta").save(f"{path} unfed")
        with pytest.raises(AnalysisException) as unfed:
            passing.load(f"{path} unfed")
        assert unfed.value.getCondition() == "DELTA_MISSING_CHANGE_DATA"
    else:
        with pytest.raises(exceptions.UnsupportedFeatureError, match=r"needs PySpark 4\.2.*read_changes"):
            stream.load(path)
    with pytest.raises(exceptions.InvalidArgumentError, match="option of a batch"):
        enabled.readStream.format("delta").option("versionAsOf", 0).load(path)
    with pytest.raises(exceptions.InvalidArgumentError, match="knows its columns"):
        enabled.readStream.format("delta").schema("id int")


def test_tables_are_made_like_others(enabled: SparkSession, name: str, path: str) -> None:
    enabled.sql(
        f"CREATE TABLE {name} (id INT NOT NULL COMMENT 'key', p INT, g INT GENERATED ALWAYS AS (id + 1)) USING delta "
        "PARTITIONED BY (p) COMMENT 'about' TBLPROPERTIES (a = 'b', 'delta.columnMapping.mode' = 'name')"
    )
    enabled.sql(f"ALTER TABLE {name} ADD CONSTRAINT c CHECK (id > 0)")
    enabled.sql(f"INSERT INTO {name} (id, p) VALUES (1, 1)")
    enabled.sql(f"CREATE TABLE {name}_like LIKE {name}")
    enabled.sql(f"CREATE TABLE delta.`{path}` LIKE {name}_like USING delta TBLPROPERTIES (a = 'c')")
    with pytest.raises(AnalysisException, match="already"):
        enabled.sql(f"CREATE TABLE {name}_like LIKE {name}")
    enabled.sql(f"CREATE TABLE IF NOT EXISTS {name}_like LIKE {name}")
    for table_name, value in ((f"{name}_like", "b"), (f"delta.`{path}`", "c")):
        made = SparkTable.forName(enabled, table_name)
        detail = made.detail().first()
        assert detail is not None
        assert (detail.description, detail.partitionColumns, detail.numFiles) == ("about", ["p"], 0)
        assert (detail.properties["a"], detail.properties["delta.constraints.c"]) == (value, "id > 0")
        assert [(f.name, f.nullable) for f in made.toDF().schema] == [("id", False), ("p", True), ("g", True)]
        assert [row.operation for row in made.history().collect()] == ["CREATE TABLE"]
        enabled.sql(f"INSERT INTO {table_name} (id, p) VALUES (5, 6)")
        assert rows(made.toDF()) == [(5, 6, 6)]
    enabled.sql(f"DROP TABLE {name}_like")


def test_names_are_changed(enabled: SparkSession, name: str, path: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id INT) USING delta")
    enabled.sql(f"INSERT INTO {name} VALUES (1)")
    was = SparkTable.forName(enabled, name).detail().first()
    enabled.sql(f"ALTER TABLE default.{name} RENAME TO {name}_new")
    now = SparkTable.forName(enabled, f"{name}_new").detail().first()
    assert was is not None
    assert now is not None
    # The old name is free, and so is its location.
    assert now.location == f"{was.location}_new"
    with pytest.raises(AnalysisException):
        enabled.table(name)
    enabled.sql(f"CREATE TABLE {name} (id INT) USING delta LOCATION '{path}'")
    with pytest.raises(AnalysisException, match="already exists"):
        enabled.sql(f"ALTER TABLE {name} RENAME TO {name}_new")
    enabled.sql(f"INSERT INTO {name} VALUES (7)")
    enabled.sql(f"ALTER TABLE {name} RENAME TO {name}_other")
    assert rows(enabled.table(f"{name}_other")) == rows(enabled.read.format("delta").load(path)) == [(7,)]
    assert rows(enabled.table(f"{name}_new")) == [(1,)]
    for other in ("new", "other"):
        enabled.sql(f"DROP TABLE {name}_{other}")


def test_what_is_said_to_be_cached_follows_its_table(enabled: SparkSession, name: str) -> None:
    enabled.range(2).write.format("delta").saveAsTable(name)
    for text in (
        "CACHE TABLE {}",
        "CACHE LAZY TABLE {} OPTIONS ('storageLevel' 'DISK_ONLY')",
        "CACHE TABLE {}_some AS SELECT * FROM {}",
    ):
        assert enabled.sql(text.format(name, name)).collect() == []
    enabled.sql(f"INSERT INTO {name} VALUES (2)")
    assert enabled.table(name).count() == enabled.table(f"{name}_some").count() == 3
    for text in ("UNCACHE TABLE {}", "UNCACHE TABLE IF EXISTS {}", "UNCACHE TABLE {}_some"):
        assert enabled.sql(text.format(name)).collect() == []
    enabled.catalog.dropTempView(f"{name}_some")


def test_names_are_put_together(enabled: SparkSession, name: str) -> None:
    enabled.range(2).write.format("delta").saveAsTable(name)
    for texts in (f"'default.' || '{name}'", f"concat('{name[:5]}', \"{name[5:]}\")", "'default.' || :name"):
        assert enabled.sql(f"SELECT * FROM IDENTIFIER({texts})", {"name": name}).count() == 2
    enabled.sql(f"DELETE FROM IDENTIFIER('{name[:3]}' || '{name[3:]}') WHERE id = 1")
    assert rows(enabled.table(name)) == [(0,)]


def test_values_that_the_embedded_engine_leaves_are_sparks(enabled: SparkSession, table: str) -> None:
    enabled.sql(f"CREATE TABLE {table[:-1]} made` (l ARRAY<INT>, s STRING) USING delta")
    enabled.sql(f"INSERT INTO {table[:-1]} made` VALUES (array(NULL), concat_ws('-', reverse(array('a', 'b'))))")
    assert rows(enabled.sql(f"TABLE {table[:-1]} made`")) == [([None], "b-a")]


def test_partitions_that_are_shown_have_the_types_of_their_columns(spark: SparkSession, path: str) -> None:
    dp.enable(spark)
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, p TIMESTAMP_NTZ, q CHAR(3)) USING delta PARTITIONED BY (p, q)")
    values = "(1, timestamp_ntz'0001-01-01 00:00:00', 'a'), (2, null, null)"
    spark.sql(f"INSERT INTO delta.`{path}` VALUES {values}")
    shown = spark.sql(f"SHOW PARTITIONS delta.`{path}`")
    assert [field.dataType.simpleString() for field in shown.schema.fields] == ["timestamp_ntz", "string"]
    assert {(row.p, row.q) for row in shown.collect()} == {(datetime(1, 1, 1), "a  "), (None, None)}
    fixed = spark.sql(f"SHOW PARTITIONS delta.`{path}` PARTITION (q = 'a')")
    assert [row.q for row in fixed.collect()] == ["a  "]
