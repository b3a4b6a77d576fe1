"""The features of deltaplane.spark that docs/which-spark.md lists, each tried on the Spark that
runs this: `python -m spark_versions.features FOLDER` prints the outcomes as JSON.

A feature works if its function returns. Where a Spark lacks something, the function must fail with
the error that the feature names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_versions.tables import write
from sparks import VERSION, is_at_least, prepare_pyspark_3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKS = "works"
# What PySpark 3.5 says about the format by itself.
NO_SOURCES = "has no data sources in Python"


class Feature(NamedTuple):
    """A feature, what tries it, the first Spark that has it, and what older ones say."""

    name: str
    run: Callable[[SparkSession, str], None]
    since: str = "3.5"
    older_say: str = ""


def _ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.collect())


def _scan(spark: SparkSession, path: str) -> None:
    from deltaplane import spark as dp

    rows = spark.range(20).selectExpr("id", "id % 4 AS p", "CAST(id AS string) AS s")
    dp.write(rows, path, partition_by="p")
    frame = dp.read(spark, path)
    assert _ids(frame.where("p = 1 AND id > 8")) == [9, 13, 17]
    plan = frame._deltaplane_index.plans[-1]
    assert plan.files < 20, plan
    assert "deltaplane" in frame._jdf.queryExecution().executedPlan().toString().lower()


def _time_travel(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").save(path)
    spark.range(3, 5).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").option("versionAsOf", 0).load(path).count() == 3
    assert spark.sql(f"SELECT count(*) AS n FROM delta.`{path}` VERSION AS OF 0").first().n == 3


def _writes(spark: SparkSession, path: str) -> None:
    rows = spark.range(10).selectExpr("id", "id % 2 AS p")
    rows.write.format("delta").partitionBy("p").save(path)
    rows.write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 20
    rows.where("p = 1").write.format("delta").mode("overwrite").option("replaceWhere", "p = 1").save(path)
    assert spark.read.format("delta").load(path).count() == 15
    spark.range(2).selectExpr("id", "id % 2 AS p").write.format("delta").mode("overwrite").save(path)
    assert _ids(spark.read.format("delta").load(path)) == [0, 1]


def _names(spark: SparkSession, path: str) -> None:
    spark.range(4).write.format("delta").saveAsTable("names_of_rows")
    spark.sql("CREATE TABLE names_made (id bigint, s string) USING delta PARTITIONED BY (s)")
    spark.sql("INSERT INTO names_made VALUES (1, 'a'), (2, 'b')")
    spark.sql("CREATE VIEW names_shown AS SELECT id FROM names_made WHERE s = 'b'")
    try:
        assert _ids(spark.table("names_of_rows")) == [0, 1, 2, 3]
        assert _ids(spark.sql("SELECT * FROM names_made VERSION AS OF 1")) == [1, 2]
        assert _ids(spark.table("names_shown")) == [2]
        assert [row.operation for row in spark.sql("DESCRIBE HISTORY names_made").collect()] == [
            "WRITE",
            "CREATE TABLE",
        ]
    finally:
        spark.sql("DROP VIEW names_shown")
        for name in ("names_of_rows", "names_made"):
            spark.sql(f"DROP TABLE {name}")


def _rows_changed(spark: SparkSession, path: str, vectors: bool) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id bigint, s string) USING delta "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(vectors).lower()}')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, 'old' FROM range(10)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    spark.sql(f"UPDATE delta.`{path}` SET s = 'new' WHERE id = 4")
    spark.sql(
        f"MERGE INTO delta.`{path}` AS t USING (SELECT id + 8 AS id, 'merged' AS s FROM range(4)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = {row.id: row.s for row in spark.read.format("delta").load(path).collect()}
    assert rows == {
        **dict.fromkeys((0, 1, 2, 5, 6, 7), "old"),
        4: "new",
        **dict.fromkeys((8, 9, 10, 11), "merged"),
    }


def _copied_on_write(spark: SparkSession, path: str) -> None:
    _rows_changed(spark, path, False)


def _deletion_vectors(spark: SparkSession, path: str) -> None:
    _rows_changed(spark, path, True)


def _delta_table(spark: SparkSession, path: str) -> None:
    from deltaplane.spark import DeltaTable

    spark.range(5).selectExpr("id", "'a' AS s").write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 0")
    table.update("id = 1", {"s": "'b'"})
    news = spark.range(4, 7).selectExpr("id", "'c' AS s").alias("n")
    table.alias("t").merge(news, "t.id = n.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    rows = {row.id: row.s for row in table.toDF().collect()}
    assert rows == {1: "b", 2: "a", 3: "a", 4: "c", 5: "c", 6: "c"}


def _maintenance(spark: SparkSession, path: str) -> None:
    for _ in range(3):
        spark.range(3).coalesce(1).write.format("delta").mode("append").save(path)
    assert spark.sql(f"OPTIMIZE delta.`{path}`").first().metrics.numFilesRemoved == 3
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    assert spark.read.format("delta").load(path).count() == 9


def _column_mapping(spark: SparkSession, path: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id bigint, `a b` string) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'x')")
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN `a b` TO c")
    assert [tuple(row) for row in spark.sql(f"SELECT id, c FROM delta.`{path}` WHERE c = 'x'").collect()] == [(1, "x")]


def _change_feed(spark: SparkSession, path: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id bigint) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1), (2)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)
    changes = sorted((row._commit_version, row._change_type, row.id) for row in feed.collect())
    assert changes == [(1, "insert", 1), (1, "insert", 2), (2, "delete", 1)]


def _streams(spark: SparkSession, path: str) -> None:
    spark.range(5).write.format("delta").save(path)
    copy, checkpoint = f"{path} copy", f"{path} checkpoint"

    def follow() -> None:
        writer = spark.readStream.format("delta").load(path).writeStream.format("delta")
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start(copy).awaitTermination()

    follow()
    spark.range(5, 8).write.format("delta").mode("append").save(path)
    follow()
    assert _ids(spark.read.format("delta").load(copy)) == [*range(8)]


def _row_tracking(spark: SparkSession, path: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{path}` (id bigint) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (7)")
    frame = spark.read.format("delta").load(path)
    assert [tuple(row) for row in frame.select("id", "_metadata.row_id").collect()] == [(7, 0)]


def _merge_into(spark: SparkSession, path: str) -> None:
    from pyspark.sql.functions import col

    spark.range(3).write.format("delta").save(path)
    news = spark.range(2, 4).alias("n")
    news.mergeInto(f"delta.`{path}`", col(f"delta.`{path}`.id") == col("n.id")).whenNotMatched().insertAll().merge()
    assert _ids(spark.read.format("delta").load(path)) == [0, 1, 2, 3]


def _scripts(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").save(path)
    spark.conf.set("spark.sql.scripting.enabled", "true")
    spark.sql(f"BEGIN DELETE FROM delta.`{path}` WHERE id = 0; INSERT INTO delta.`{path}` VALUES (9); END")
    assert _ids(spark.read.format("delta").load(path)) == [1, 2, 9]


def _variant(spark: SparkSession, path: str) -> None:
    from deltaplane import DeltaTable, Field, Schema
    from deltaplane import spark as dp

    DeltaTable.create(path, Schema([Field("id", "long", True, None), Field("v", "variant", True, None)]))
    if VERSION >= (4, 0):
        spark.sql(f"INSERT INTO delta.`{path}` SELECT 1L, parse_json('[7]')")
    assert [
        row.seven for row in dp.read(spark, path).selectExpr("variant_get(v, '$[0]', 'int') AS seven").collect()
    ] == [7]


def _source(spark: SparkSession, path: str) -> None:
    from deltaplane import spark as dp

    dp.register(spark)
    dp.disable(spark)
    try:
        spark.range(3).write.format("deltaplane").mode("append").save(path)
        assert _ids(spark.read.format("deltaplane").load(path)) == [0, 1, 2]
    finally:
        dp.enable(spark)


def _source_sink(spark: SparkSession, path: str) -> None:
    _through_source(spark, path, "rate")


def _source_stream(spark: SparkSession, path: str) -> None:
    _through_source(spark, path, "deltaplane")


def _through_source(spark: SparkSession, path: str, what: str) -> None:
    """A stream whose source or sink is the format by itself."""
    from deltaplane import spark as dp

    dp.register(spark)
    dp.disable(spark)
    try:
        if what == "rate":
            spark.range(3).write.parquet(f"{path} rows")
            rows = spark.readStream.schema("id long").parquet(f"{path} rows")
            writer = rows.writeStream.format("deltaplane").option("path", path)
        else:
            dp.write(spark.range(3), f"{path} rows")
            rows = spark.readStream.format("deltaplane").load(f"{path} rows")
            writer = rows.writeStream.format("parquet").option("path", path)
        query = writer.option("checkpointLocation", f"{path} checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()
        got = dp.read(spark, path) if what == "rate" else spark.read.parquet(path)
        assert _ids(got) == [0, 1, 2]
    finally:
        dp.enable(spark)


FEATURES = (
    Feature("the native scan: `deltaplane.spark.read`, filters that skip files", _scan),
    Feature('`format("delta")`: append, overwrite, `partitionBy`, `replaceWhere`', _writes),
    Feature("time travel, as an option and in SQL", _time_travel),
    Feature("names: `saveAsTable`, CREATE TABLE, INSERT, views, DESCRIBE HISTORY", _names),
    Feature("MERGE, UPDATE, DELETE that rewrite files", _copied_on_write),
    Feature("MERGE, UPDATE, DELETE with deletion vectors", _deletion_vectors),
    Feature("`deltaplane.spark.DeltaTable`: merge, update, delete", _delta_table),
    Feature("OPTIMIZE, VACUUM", _maintenance),
    Feature("column mapping, renamed columns", _column_mapping),
    Feature("the change data feed", _change_feed),
    Feature("row ids in `_metadata`", _row_tracking),
    Feature("streams: source and sink of an enabled session", _streams),
    Feature("`df.mergeInto`", _merge_into, "4.0", "'DataFrame' object has no attribute 'mergeInto'"),
    Feature("SQL scripts (BEGIN … END)", _scripts, "4.0", "PARSE_SYNTAX_ERROR"),
    Feature("VARIANT columns", _variant, "4.0", "the column v is of the type variant"),
    Feature('`register`: `format("deltaplane")` without `enable`', _source, "4.0", NO_SOURCES),
    Feature("that format as the sink of a stream", _source_sink, "4.1", "needs PySpark 4.1 or newer"),
    Feature("that format as the source of a stream", _source_stream, "4.2", "needs PySpark 4.2 or newer"),
)


def outcomes(spark: SparkSession, folder: Path) -> dict[str, str]:
    """The outcome of each feature.

    Raises:
        AssertionError: a Spark that has a feature failed, or another one failed in another way.
    """
    made = {}
    for number, feature in enumerate(FEATURES):
        try:
            feature.run(spark, str(folder / f"t{number}"))
        except Exception as e:
            if is_at_least(feature.since) or not _says(e, feature):
                raise AssertionError(f"{feature.name} failed on Spark {spark.version}") from e
            made[feature.name] = f"from Spark {feature.since}"
        else:
            assert is_at_least(feature.since), f"{feature.name} works on Spark {spark.version}, against the list"
            made[feature.name] = WORKS
    return made


def _says(error: BaseException, feature: Feature) -> bool:
    """Whether an error is the refusal of a feature, or of data sources in Python as a whole."""
    of_sources = not is_at_least("4.0") and NO_SOURCES in str(error)
    return bool(feature.older_say) and (feature.older_say in str(error) or of_sources)


def main(folder: Path) -> dict[str, Any]:
    """Tries all features in a session of its own."""
    from deltaplane import spark as dp

    prepare_pyspark_3()
    spark = dp.session(
        "features",
        master="local[2]",
        spark__sql__shuffle__partitions=2,
        spark__sql__warehouse__dir=folder / "warehouse",
        spark__local__dir=folder / "local",
        spark__ui__showConsoleProgress="false",
    )
    spark.sparkContext.setLogLevel("OFF")
    dp.enable(spark)
    try:
        write(spark, folder / f"written by {folder.name}")
        return {"spark": spark.version, "features": outcomes(spark, folder)}
    finally:
        spark.stop()


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
