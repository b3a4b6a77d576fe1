"""Three-part names of a catalog's tables in Spark's statements and DataFrames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from catalog.conftest import SCHEMA, Lake, ids, rows
from deltaplane import spark as dp
from deltaplane.exceptions import InvalidArgumentError, TableNotFoundError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

T = f"{SCHEMA}.t"


def numbers(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("id").collect())


def test_statements_on_names(spark: SparkSession, shop: Lake) -> None:
    assert numbers(spark.sql(f"SELECT * FROM {T} WHERE id > 0")) == [1, 2]
    spark.sql(f"INSERT INTO {T} VALUES (3, 'three')")
    done = spark.sql(f"UPDATE {T} SET text = 'two' WHERE id = 2").collect()
    assert done[0]["num_affected_rows"] == 1
    spark.sql(f"DELETE FROM {T} WHERE id = 1")
    merged = spark.sql(
        f"MERGE INTO {T} AS t USING (SELECT * FROM {T} VERSION AS OF 0) AS s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    ).collect()[0]
    assert merged["num_inserted_rows"] == 1
    table = shop.open("t")
    assert (ids(table), table.version()) == ([1, 2, 3], 4)
    assert numbers(spark.sql(f"SELECT t.id FROM {T} AS t JOIN {T} VERSION AS OF 0 AS o ON t.id = o.id")) == [1, 2]
    assert spark.sql(f"SELECT {T}.text FROM {T} WHERE {T}.id = 2").collect()[0][0] == "two"
    spark.sql(f"ALTER TABLE {T} ADD COLUMNS (more INT)")
    spark.sql(f"OPTIMIZE {T}")
    spark.sql(f"VACUUM {T} RETAIN 1000 HOURS")
    history = {row["operation"] for row in spark.sql(f"DESCRIBE HISTORY {T}").collect()}
    assert history >= {"WRITE", "UPDATE", "DELETE", "MERGE", "ADD COLUMNS"}
    described = {row[0]: row[1] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {T}").collect()}
    assert (described["Catalog"], described["more"]) == ("main", "int")
    assert spark.sql(f"DESCRIBE DETAIL {T}").collect()[0]["name"] == T
    assert f"CREATE TABLE {T}" in spark.sql(f"SHOW CREATE TABLE {T}").collect()[0][0]
    assert len(ids(shop.open("t"))) == 3


def test_frames_by_names(spark: SparkSession, shop: Lake) -> None:
    assert numbers(spark.table(T)) == numbers(spark.read.table(T)) == [1, 2]
    frame = spark.table(T)
    more = spark.createDataFrame([(3, "three")], "id long, text string")
    more.writeTo(T).append()
    # As in delta-spark, a frame without a version shows the newest one.
    assert numbers(frame) == [1, 2, 3]
    assert numbers(spark.read.option("versionAsOf", 0).table(T)) == [1, 2]
    more.write.insertInto(T)
    more.write.mode("append").saveAsTable(T)
    assert ids(shop.open("t")) == [1, 2, 3, 3, 3]
    more.write.mode("overwrite").saveAsTable(T)
    assert ids(shop.open("t")) == [3]
    more.writeTo(f"{SCHEMA}.u").partitionedBy("id").create()
    more.withColumn("text", more.id.cast("string")).writeTo(f"{SCHEMA}.u").overwritePartitions()
    assert spark.table(f"{SCHEMA}.u").collect() == [(3, "3")]
    spark.range(5).write.saveAsTable(f"{SCHEMA}.v")
    spark.range(2).writeTo(f"{SCHEMA}.v").replace()
    info = shop.catalog.info(f"{SCHEMA}.v")
    assert (info["table_type"], ids(shop.open("v"))) == ("MANAGED", [0, 1])
    with pytest.raises(AnalysisException):
        spark.range(2).writeTo(f"{SCHEMA}.v").create()


def test_the_delta_table_by_its_name(spark: SparkSession, shop: Lake) -> None:
    table = dp.DeltaTable.forName(spark, T)
    new = spark.createDataFrame([(2, "second"), (3, "third")], "id long, text string")
    table.alias("t").merge(new.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    table.delete("id = 1")
    assert numbers(table.toDF()) == [2, 3]
    assert table.history(1).collect()[0]["operation"] == "DELETE"
    made = dp.DeltaTable.createIfNotExists(spark).tableName(f"{SCHEMA}.w").addColumn("id", "long").execute()
    assert made.toDF().count() == 0
    assert shop.catalog.exists(f"{SCHEMA}.w")
    with pytest.raises(TableNotFoundError):
        dp.DeltaTable.forName(spark, f"{SCHEMA}.absent")


def test_tables_are_created_and_dropped(spark: SparkSession, shop: Lake, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {SCHEMA}.a (id BIGINT, text STRING) TBLPROPERTIES ('k' = 'v')")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {SCHEMA}.a (id BIGINT)")
    spark.sql(f"CREATE OR REPLACE TABLE {SCHEMA}.b USING delta AS SELECT * FROM {T}")
    spark.sql(f"CREATE TABLE {SCHEMA}.c (id BIGINT) USING delta LOCATION '{tmp_path}/outside'")
    assert shop.open("a").metadata().configuration["k"] == "v"
    assert ids(shop.open("b")) == [1, 2]
    assert shop.catalog.info(f"{SCHEMA}.c")["table_type"] == "EXTERNAL"
    spark.sql(f"INSERT INTO {SCHEMA}.c SELECT id FROM {SCHEMA}.b")
    assert ids(shop.open("c")) == [1, 2]
    tables = spark.sql(f"SHOW TABLES IN {SCHEMA} LIKE 'a|b'").collect()
    assert [(row.namespace, row.tableName) for row in tables] == [("sales", "a"), ("sales", "b")]
    spark.sql(f"ALTER TABLE {SCHEMA}.a RENAME TO {SCHEMA}.renamed")
    spark.sql(f"DROP TABLE {SCHEMA}.renamed")
    spark.sql(f"DROP TABLE IF EXISTS {SCHEMA}.renamed")
    with pytest.raises(TableNotFoundError):
        spark.sql(f"DROP TABLE {SCHEMA}.renamed")
    spark.sql("CREATE SCHEMA main.more")
    spark.sql("CREATE SCHEMA IF NOT EXISTS main.more")
    assert [row[0] for row in spark.sql("SHOW SCHEMAS IN main").collect()] == ["more", "sales"]
    spark.sql("DROP SCHEMA main.more")
    assert not shop.catalog.exists("main.more")


def test_shorter_names_in_the_chosen_schema(spark: SparkSession, local: Lake) -> None:
    spark.sql(f"USE {SCHEMA}")
    try:
        assert numbers(spark.sql("SELECT * FROM t")) == numbers(spark.table("sales.t")) == [1, 2]
        spark.sql("CREATE TABLE short AS SELECT * FROM t WHERE id = 1")
        spark.sql("WITH t AS (SELECT 7 AS id) INSERT INTO short SELECT id, 'seven' FROM t")
        assert ids(local.open("short")) == [1, 7]
        spark.range(3).createOrReplaceTempView("t")
        assert numbers(spark.sql("SELECT * FROM t")) == [0, 1, 2]
        spark.catalog.dropTempView("t")
        assert [row.tableName for row in spark.sql("SHOW TABLES").collect()] == ["short", "t"]
        assert (spark.catalog.currentCatalog(), spark.catalog.currentDatabase()) == ("main", "sales")
        assert numbers(spark.sql("SELECT * FROM range(2)")) == [0, 1]
    finally:
        spark.sql("USE spark_catalog.default")
    assert spark.catalog.currentCatalog() == "spark_catalog"
    with pytest.raises(AnalysisException):
        spark.sql("SELECT * FROM short").collect()
    with pytest.raises(TableNotFoundError, match="no schema absent"):
        spark.sql("USE main.absent")


def test_the_catalog_interface(spark: SparkSession, local: Lake) -> None:
    assert spark.catalog.tableExists(T)
    assert not spark.catalog.tableExists(f"{SCHEMA}.absent")
    assert [table.name for table in spark.catalog.listTables(SCHEMA)] == ["t"]
    assert spark.catalog.getTable(T).tableType == "MANAGED"
    assert [column.name for column in spark.catalog.listColumns(T)] == ["id", "text"]
    assert {entry.name for entry in spark.catalog.listCatalogs()} == {"main", "spark_catalog"}
    assert spark.catalog.databaseExists(SCHEMA)
    spark.catalog.setCurrentCatalog("main")
    spark.catalog.setCurrentDatabase("sales")
    assert [database.name for database in spark.catalog.listDatabases()] == ["sales"]
    spark.catalog.setCurrentCatalog("spark_catalog")
    assert spark.catalog.currentDatabase() == "default"


def test_streams_by_names(spark: SparkSession, shop: Lake, tmp_path: Path) -> None:
    target = f"{SCHEMA}.copied"
    for number in (1, 2):
        query = (
            spark.readStream.table(T)
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .toTable(target)
        )
        query.awaitTermination(60)
        assert ids(shop.open("copied")) == [1, 2, *([3] if number == 2 else [])]
        shop.write("t", rows(3))
    assert shop.catalog.info(target)["table_type"] == "MANAGED"


def test_change_feeds_by_names(spark: SparkSession, shop: Lake) -> None:
    shop.write("fed", rows(1), configuration={"delta.enableChangeDataFeed": "true"})
    spark.sql(f"UPDATE {SCHEMA}.fed SET text = 'new'")
    changes = spark.sql(f"SELECT _change_type, text FROM table_changes('{SCHEMA}.fed', 1)").collect()
    assert sorted(row[0] for row in changes) == ["update_postimage", "update_preimage"]


def test_plans_by_a_job(spark: SparkSession, shop: Lake) -> None:
    """Tasks read the published log, and get the catalog's commits from the driver."""
    shop.write("t", rows(3))
    spark.sql(f"DELETE FROM {T} WHERE id = 1")
    # Not published by anybody yet; the checkpoint publishes what is before it.
    for published in (False, True):
        if published:
            shop.open("t").create_checkpoint()
            shop.write("t", rows(4))
        table = shop.open("t")
        planned = dp.plan(spark, shop.location("t"), "id >= 3")
        expected = table.plan("id >= 3").read_all().select(["path", "num_records"]).to_pylist()
        planned_files = [row.asDict() for row in planned.select("path", "num_records").collect()]
        assert sorted(planned_files, key=str) == sorted(expected, key=str)
        frame = dp.read(spark, shop.location("t"), distributed_plan=True)
        assert numbers(frame.where("id >= 2")) == [number for number in ids(table) if number >= 2]
        assert frame._deltaplane_index.plans[-1].by_job
    assert dp.plan(spark, shop.location("t"), version=0).count() == 1


def test_a_name_with_another_table_by_now(spark: SparkSession, shop: Lake) -> None:
    frame = spark.table(T)
    assert numbers(frame) == [1, 2]
    shop.catalog.drop(T)
    with pytest.raises(TableNotFoundError):
        spark.table(T)
    shop.write("t", rows(8))
    assert numbers(spark.table(T)) == [8]
    with pytest.raises(AnalysisException, match="another one made"):
        numbers(frame)


def test_what_is_refused_by_name(spark: SparkSession, local: Lake) -> None:
    for text, error, words in (
        (f"CREATE TABLE {SCHEMA}.p (id INT) USING parquet", UnsupportedFeatureError, "are Delta tables"),
        (f"CREATE VIEW {SCHEMA}.v AS SELECT 1", UnsupportedFeatureError, "TEMP VIEW"),
        (f"INSERT INTO {SCHEMA}.absent VALUES (1)", TableNotFoundError, "SHOW TABLES IN main.sales"),
        (f"SELECT * FROM {SCHEMA}.absent", TableNotFoundError, "absent"),
        ("SHOW TABLES IN main.absent", TableNotFoundError, "no schema absent"),
    ):
        with pytest.raises(error, match=words):
            spark.sql(text)
    with pytest.raises(UnsupportedFeatureError, match="are Delta tables"):
        spark.range(1).write.format("parquet").saveAsTable(f"{SCHEMA}.p")
    spark.sql("BEGIN TRANSACTION")
    try:
        for call in (
            lambda: dp.plan(spark, local.location("t")),
            lambda: dp.read(spark, local.location("t"), distributed_plan=True),
        ):
            with pytest.raises(UnsupportedFeatureError, match="within a transaction"):
                call()
    finally:
        spark.sql("ROLLBACK")
    assert local.catalog.tables(SCHEMA) == [T]


@pytest.mark.parametrize(
    ("catalogs", "error"),
    [
        ({"delta": "sqlite:///x.db"}, InvalidArgumentError),
        ({"a b": "sqlite:///x.db"}, InvalidArgumentError),
        ({"main": {"token": "secret"}}, InvalidArgumentError),
        ({"main": 7}, InvalidArgumentError),
        ({"hive": "thrift://localhost:9083"}, UnsupportedFeatureError),
    ],
)
def test_what_is_no_catalog(catalogs: dict[str, object], error: type[Exception], spark: SparkSession) -> None:
    with pytest.raises(error) as raised:
        dp.enable(spark, catalogs=catalogs)
    assert "secret" not in str(raised.value)


def test_a_session_without_the_catalog(spark: SparkSession, local: Lake) -> None:
    dp.disable(spark)
    with pytest.raises(AnalysisException):
        spark.sql(f"SELECT * FROM {T}").collect()
    dp.enable(spark)
    with pytest.raises(AnalysisException):
        spark.sql(f"SELECT * FROM {T}").collect()
    # The same by its location, with the catalog as an option.
    frame = dp.read(spark, local.location("t"), options={"catalog": local.database})
    assert numbers(frame) == [1, 2]
    dp.write(frame, local.location("t"), options={"catalog": local.database})
    assert ids(local.open("t")) == [1, 1, 2, 2]
