"""Options and settings of delta-spark's writers: their effect on a table's columns, partitions,
files and history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from deltaplane import DeltaTable, exceptions
from deltaplane import spark as dp
from sparks import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def written(frame: DataFrame, path: str, mode: str = "append", by: str | None = None, **options: Any) -> None:
    writer = frame.write.format("delta").mode(mode).options(**options)
    (writer if by is None else writer.partitionBy(by)).save(path)


def ids(spark: SparkSession, path: str) -> list[int]:
    return sorted(row.id for row in spark.read.format("delta").load(path).collect())


def newest(path: str) -> dict[str, Any]:
    return DeltaTable(path).history(1)[0]


def test_columns_of_new_tables_take_nulls(enabled: SparkSession, path: str) -> None:
    written(enabled.range(1), path)
    written(enabled.createDataFrame([(None,)], "id long"), path)
    assert enabled.read.format("delta").load(path).where("id IS NULL").count() == 1
    enabled.range(1).writeTo(f"delta.`{path} v2`").using("delta").create()
    enabled.sql(f"CREATE TABLE delta.`{path} ctas` AS SELECT 1 AS id")
    stream = enabled.readStream.format("delta").load(path).selectExpr("1 AS id").writeStream.format("delta")
    query = stream.option("checkpointLocation", f"{path} query").trigger(availableNow=True).start(f"{path} stream")
    assert query.awaitTermination(120)
    for made in ("v2", "ctas", "stream"):
        assert [f.nullable for f in DeltaTable(f"{path} {made}").schema().fields] == [True]


def test_new_columns_come_without_the_old_partitions(enabled: SparkSession, path: str) -> None:
    rows = enabled.range(4).selectExpr("id", "id % 2 AS p")
    written(rows, path, by="p")
    written(rows.selectExpr("id", "p", "1 AS x"), path, "overwrite", overwriteSchema="True")
    assert DeltaTable(path).metadata().partition_columns == []
    # A write that replaces some rows keeps the columns.
    written(
        rows.where("id = 3").selectExpr("id", "p", "2 AS x"),
        path,
        "overwrite",
        replaceWhere="id = 3",
        overwriteSchema="true",
    )
    assert ids(enabled, path) == [0, 1, 2, 3]
    written(rows.selectExpr("id", "p", "1 AS x", "2 AS y"), path, mergeSchema="TRUE")
    assert DeltaTable(path).schema().fields[-1].name == "y"


def test_rows_are_replaced_by_any_condition(enabled: SparkSession, path: str) -> None:
    rows = enabled.range(10).selectExpr("id", "id % 2 AS p", "'old' AS v")
    written(rows.coalesce(1), path, by="p", **{"delta.enableChangeDataFeed": "true"})
    new = enabled.createDataFrame([(4, "new"), (5, "new")], "ID long, v string").selectExpr("v", "ID", "ID % 2 AS p")
    written(new, path, "overwrite", replaceWhere="id > 3 AND id <= 6")
    frame = enabled.read.format("delta").load(path)
    assert sorted((row.id, row.v) for row in frame.where("id BETWEEN 3 AND 7").collect()) == [
        *((3, "old"), (4, "new"), (5, "new"), (7, "old"))
    ]
    assert newest(path)["operationParameters"]["predicate"] == "id > 3 AND id <= 6"
    feed = enabled.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
    assert sorted((row._change_type, row.id) for row in feed.collect()) == [
        *(("delete", 4), ("delete", 5), ("delete", 6), ("insert", 4), ("insert", 5))
    ]
    with pytest.raises(AnalysisException, match=r"doesn't select: nothing was committed(.|\n)* id : 7"):
        written(rows.where("id = 7"), path, "overwrite", replaceWhere="id > 8 AND v = 'old'")
    with pytest.raises(AnalysisException, match="`nothing`"):
        written(rows, path, "overwrite", replaceWhere="nothing = 8 AND id = 1")
    written(rows.where("false"), path, "overwrite", replaceWhere="v = 'old'")
    assert ids(enabled, path) == [4, 5]
    assert DeltaTable(path).version() == 2


def test_rows_that_are_replaced_keep_their_file(enabled: SparkSession, path: str) -> None:
    rows = enabled.range(10).coalesce(1)
    written(rows, path, **{"delta.enableDeletionVectors": "true"})
    written(rows.where("id = 1"), path, "overwrite", replaceWhere="id IN (1, 2)", txnAppId="a", txnVersion=1)
    written(rows.where("id = 1"), path, "overwrite", replaceWhere="id IN (1, 2)", txnAppId="a", txnVersion=1)
    assert ids(enabled, path) == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert DeltaTable(path).version() == 1
    assert newest(path)["operationMetrics"]["numDeletionVectorsAdded"] == "1"


def test_settings_of_the_session(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    conf["spark.databricks.delta.properties.defaults.enableChangeDataFeed"] = "true"
    conf["spark.databricks.delta.commitInfo.userMetadata"] = "the session's"
    written(enabled.range(1), path)
    dp.DeltaTable.create(enabled).location(f"{path} built").addColumn("id", "long").execute()
    enabled.sql(f"CREATE TABLE delta.`{path} sql` (id BIGINT)")
    enabled.range(1).writeTo(f"delta.`{path} v2`").using("delta").create()
    for made in (path, f"{path} built", f"{path} sql", f"{path} v2"):
        assert DeltaTable(made).metadata().configuration == {"delta.enableChangeDataFeed": "true"}
    assert newest(path)["userMetadata"] == newest(f"{path} v2")["userMetadata"] == "the session's"
    written(enabled.range(1), path, userMetadata="the write's")
    assert newest(path)["userMetadata"] == "the write's"
    for statement in (f"UPDATE delta.`{path}` SET id = 2", f"DELETE FROM delta.`{path}`"):
        enabled.sql(statement)
        assert newest(path)["userMetadata"] == "the session's"
    with pytest.raises(exceptions.SchemaMismatchError):
        written(enabled.range(1).selectExpr("id", "1 AS x"), path)
    conf["spark.databricks.delta.schema.autoMerge.enabled"] = "true"
    written(enabled.range(1).selectExpr("id", "1 AS x"), path)
    assert [f.name for f in DeltaTable(path).schema().fields] == ["id", "x"]


def test_options_that_an_append_has_no_use_for(enabled: SparkSession, path: str) -> None:
    written(enabled.range(2), path)
    written(enabled.range(2, 3), path, partitionOverwriteMode="dynamic", dataChange="true", header="true")
    written(enabled.range(0), path)
    assert ids(enabled, path) == [0, 1, 2]
    # An empty frame makes no version, unless it has an application version.
    assert DeltaTable(path).version() == 1
    written(enabled.range(0), path, txnAppId="a", txnVersion=1)
    assert DeltaTable(path).version() == 2


def test_files_have_no_more_rows_than_asked_for(enabled: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    written(enabled.range(10).coalesce(1), path, maxRecordsPerFile=4)
    assert DeltaTable(path).count() == 10
    assert len(DeltaTable(path).file_uris()) == 3


def test_wrong_options_are_told_by_name(enabled: SparkSession, path: str) -> None:
    for options in ({"txnAppId": "a", "txnVersion": "x"}, {"mergeSchema": "maybe"}, {"maxRecordsPerFile": "many"}):
        with pytest.raises(exceptions.InvalidArgumentError, match="the option"):
            written(enabled.range(1), path, **options)
    for option in ("startingVersion", "endingVersion"):
        reader = enabled.read.format("delta").option("readChangeFeed", "true").option(option, "latest")
        with pytest.raises(exceptions.InvalidArgumentError, match=f"the option {option} is a number"):
            reader.load(path)


def test_names_of_tables_with_properties(enabled: SparkSession, path: str) -> None:
    writer = enabled.range(2).write.format("delta").option("delta.appendOnly", "true").option("path", path)
    try:
        writer.saveAsTable("held_with_properties")
        assert enabled.table("held_with_properties").count() == 2
        assert DeltaTable(path).metadata().configuration == {"delta.appendOnly": "true"}
    finally:
        enabled.sql("DROP TABLE IF EXISTS held_with_properties")


def test_an_overwritten_table_keeps_its_properties(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    """As in delta-spark: properties among the options, and the session's defaults, apply to new
    tables."""
    writer = (
        enabled.range(2)
        .write.format("delta")
        .option("delta.appendOnly", "false")
        .option("delta.enableRowTracking", "true")
    )
    writer.save(path)
    before = DeltaTable(path).metadata().configuration
    conf["spark.databricks.delta.properties.defaults.enableDeletionVectors"] = "true"
    again = enabled.range(3).selectExpr("id AS other").write.format("delta").mode("overwrite")
    again.option("overwriteSchema", "true").option("delta.enableChangeDataFeed", "true").save(path)
    assert DeltaTable(path).metadata().configuration == before
    assert enabled.read.format("delta").load(path).columns == ["other"]


def test_defaults_of_the_session_are_checked_on_their_own(
    enabled: SparkSession, path: str, conf: dict[str, str]
) -> None:
    """As in delta-spark: a default that clashes with another property's default is stored, one that
    is illegal alone is refused, and so are a statement's own properties that clash."""
    conf["spark.databricks.delta.properties.defaults.logRetentionDuration"] = "interval 2 days"
    written(enabled.range(1), path)
    enabled.sql(f"CREATE TABLE delta.`{path} sql` (id BIGINT) USING delta")
    dp.DeltaTable.create(enabled).location(f"{path} built").addColumn("id", "long").execute()
    for made in (path, f"{path} sql", f"{path} built"):
        assert DeltaTable(made).metadata().configuration == {"delta.logRetentionDuration": "interval 2 days"}
        enabled.sql(f"ALTER TABLE delta.`{made}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    clashing = "'DELTA.logRetentionDuration' = 'interval 1 day'"
    with pytest.raises(exceptions.InvalidArgumentError, match="deletedFileRetentionDuration"):
        enabled.sql(f"CREATE TABLE delta.`{path} own` (id BIGINT) USING delta TBLPROPERTIES ({clashing})")
    conf["spark.databricks.delta.properties.defaults.logRetentionDuration"] = "soon"
    with pytest.raises(exceptions.InvalidArgumentError, match="interval"):
        enabled.sql(f"CREATE TABLE delta.`{path} own` (id BIGINT) USING delta")


def test_options_of_a_streams_sink(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    written(enabled.range(6).coalesce(1), path)
    conf["spark.sql.streaming.checkpointLocation"] = f"{path} queries"

    def copied(to: str, frame: DataFrame, mode: str = "append", **options: Any) -> None:
        writer = frame.writeStream.format("delta").outputMode(mode).options(**options).trigger(availableNow=True)
        query = writer.queryName(f"q{len(options)}{mode}").start(f"{path} {to}")
        assert query.awaitTermination(120)
        assert query.exception() is None

    source = enabled.readStream.format("delta").load(path)
    copied("small", source, maxRecordsPerFile=2, compression="gzip", optimizeWrite="true", txnAppId="its own")
    # Before 4.1 the sink gets two partitions, one of which has an odd number of rows.
    assert len(DeltaTable(f"{path} small").file_uris()) == (3 if is_at_least("4.1") else 4)
    copied("counts", source.groupBy("id").count(), "complete")
    more = source.groupBy("id").count().selectExpr("id", "count", "1 AS x")
    copied("counts", more, "complete", overwriteSchema="true")
    assert [f.name for f in DeltaTable(f"{path} counts").schema().fields] == ["id", "count", "x"]


def test_a_streams_sink_casts_and_tells_of_empty_batches(
    enabled: SparkSession, path: str, name: str, conf: dict[str, str]
) -> None:
    written(enabled.range(3).coalesce(1), path)
    conf["spark.databricks.delta.properties.defaults.appendOnly"] = "true"
    source = enabled.readStream.format("delta").load(path)

    def writer(frame: DataFrame, query: str) -> Any:
        return (
            frame.writeStream.format("delta").option("checkpointLocation", f"{path} {query}").trigger(availableNow=True)
        )

    # An empty stream creates a table and a version.
    assert writer(source.where("id > 7"), "none").start(f"{path} copy").awaitTermination(120)
    assert ids(enabled, f"{path} copy") == []
    assert DeltaTable(f"{path} copy").metadata().configuration == {"delta.appendOnly": "true"}
    assert writer(source.selectExpr("CAST(id AS string) AS id"), "texts").start(f"{path} copy").awaitTermination(120)
    assert ids(enabled, f"{path} copy") == [0, 1, 2]
    assert [entry["operation"] for entry in DeltaTable(f"{path} copy").history()] == ["STREAMING UPDATE"] * 2
    # As in delta-spark, a stream's options don't set properties.
    named = writer(source, "named").option("delta.enableChangeDataFeed", "true").toTable(name)
    assert named.awaitTermination(120)
    assert [row.operation for row in enabled.sql(f"DESCRIBE HISTORY {name}").collect()] == [
        "STREAMING UPDATE",
        "CREATE TABLE",
    ]
    assert "enableChangeDataFeed" not in str(enabled.sql(f"DESCRIBE DETAIL {name}").collect()[0].properties)
    with pytest.raises(AnalysisException, match="to partition by"):
        writer(source, "wrong").partitionBy("nothing").start(f"{path} wrong")


def test_batches_of_a_stream_know_the_names(enabled: SparkSession, path: str) -> None:
    written(enabled.range(3), path)
    written(enabled.range(1), f"{path} merged")

    def each(batch: DataFrame, batch_id: int) -> None:
        written(batch, f"{path} copy", txnAppId="copy", txnVersion=batch_id)
        batch.createOrReplaceTempView("batch_of_a_stream")
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{path} merged` t USING batch_of_a_stream s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        )

    source = enabled.readStream.format("delta").load(path)
    query = (
        source.writeStream.foreachBatch(each)
        .option("checkpointLocation", f"{path} q")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None
    assert ids(enabled, f"{path} copy") == ids(enabled, f"{path} merged") == [0, 1, 2]


def test_what_makes_a_table_is_told_as_such(enabled: SparkSession, path: str, name: str) -> None:
    rows, table = enabled.range(2).selectExpr("id", "id AS p"), f"delta.`{path}`"
    says = {"partitionBy": "[]", "clusterBy": "[]", "description": None, "isManaged": "false", "properties": "{}"}

    def assert_commit(operation: str, **parameters: str) -> None:
        said = newest(path)
        assert (said["operation"], said["operationParameters"]) == (operation, {**says, **parameters})

    rows.writeTo(table).using("delta").partitionedBy("p").create()
    assert_commit("CREATE TABLE AS SELECT", partitionBy='["p"]')
    rows.writeTo(table).using("delta").tableProperty("a", "b").createOrReplace()
    assert_commit("CREATE OR REPLACE TABLE AS SELECT", properties='{"a":"b"}')
    enabled.sql(f"REPLACE TABLE {table} USING delta TBLPROPERTIES ('a' = 'c') COMMENT 'c' AS SELECT 1L AS id")
    assert_commit("REPLACE TABLE AS SELECT", properties='{"a":"c"}', description="c")
    rows.select("id").write.format("delta").mode("overwrite").option("path", path).saveAsTable(name)
    assert newest(path)["operation"] == "CREATE OR REPLACE TABLE AS SELECT"
    rows.select("id").write.insertInto(name)
    assert newest(path)["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}


def test_values_are_cast_where_columns_are_a_tables(enabled: SparkSession, path: str, name: str) -> None:
    """As in delta-spark: all writers except `save` cast values; structs are matched by field name,
    or by position if columns are."""
    enabled.sql(f"CREATE TABLE {name} (id BIGINT, s STRUCT<a: INT, b: INT>) USING delta LOCATION '{path}'")
    swapped = enabled.sql("SELECT '7' AS id, named_struct('b', '1', 'a', 2L) AS s")
    swapped.writeTo(name).append()
    swapped.write.format("delta").mode("append").saveAsTable(name)
    swapped.write.insertInto(name)
    frame = enabled.table(name).selectExpr("id", "s.a", "s.b").collect()
    assert sorted(map(tuple, frame)) == [(7, 1, 2), (7, 2, 1), (7, 2, 1)]
    with pytest.raises(AnalysisException):
        swapped.write.format("delta").mode("append").save(path)
    with pytest.raises(AnalysisException, match="field `x`"):
        enabled.sql("SELECT 7 AS id, named_struct('x', 1, 'a', 2) AS s").writeTo(name).append()


def test_a_session_makes_changes_happen_once(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    app, version = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
    table = f"delta.`{path}`"
    conf[app] = "jobs"
    with pytest.raises(exceptions.InvalidArgumentError, match="go together"):
        written(enabled.range(1), path)
    enabled.range(5).createOrReplaceTempView("rows_of_a_job")
    merge = f"MERGE INTO {table} t USING rows_of_a_job s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    changes = (
        lambda: written(enabled.range(1), path),
        lambda: enabled.sql(f"INSERT INTO {table} VALUES (1)"),
        lambda: enabled.sql(f"INSERT INTO {table} SELECT id FROM rows_of_a_job WHERE id = 2"),
        lambda: enabled.sql(merge),
        lambda: enabled.sql(f"UPDATE {table} SET id = id + 10 WHERE id = 1"),
        lambda: dp.DeltaTable.forPath(enabled, path).delete("id = 2"),
        lambda: enabled.range(1).writeTo(table).append(),
    )
    for number, change in enumerate(changes):
        conf[version] = str(number)
        change()
        assert DeltaTable(path).version() == number
        # The same change again, and others with its number.
        change()
        for insert in ("VALUES (9)", "SELECT id FROM rows_of_a_job"):
            assert enabled.sql(f"INSERT INTO {table} {insert}").collect()[0].num_affected_rows == 0
        enabled.sql(f"DELETE FROM {table}")
        assert DeltaTable(path).version() == number
    assert ids(enabled, path) == [0, 0, 3, 4, 11]
    # Files may move, whatever the number is.
    dp.DeltaTable.forPath(enabled, path).optimize().executeCompaction()
    assert newest(path)["operation"] == "OPTIMIZE"
    conf[version], conf[f"{version}.autoReset.enabled"] = "100", "true"
    enabled.sql(f"DELETE FROM {table} WHERE id = 11")
    assert enabled.conf.get(version, None) is None
    assert ids(enabled, path) == [0, 0, 3, 4]


def test_a_function_takes_the_batches_whatever_the_format_was(enabled: SparkSession, path: str) -> None:
    written(enabled.range(3), path)
    written(enabled.range(1), f"{path} merged")
    taken: list[list[int]] = []

    def upsert(batch: DataFrame, _: int) -> None:
        taken.append(sorted(row.id for row in batch.collect()))
        target = dp.DeltaTable.forPath(batch.sparkSession, f"{path} merged").alias("t")
        target.merge(batch.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()

    def writer() -> Any:
        return enabled.readStream.format("delta").load(path).writeStream.trigger(availableNow=True)

    # Delta's documentation starts it so; a function ignores the path.
    for number, where in enumerate(((), (f"{path} none",))):
        stream = writer().format("delta").foreachBatch(upsert).outputMode("update")
        query = stream.option("checkpointLocation", f"{path} q{number}").start(*where)
        assert query.awaitTermination(120)
        assert taken.pop() == [0, 1, 2]
    assert not DeltaTable.is_deltatable(f"{path} none")
    assert ids(enabled, f"{path} merged") == [0, 1, 2]
    # If `format` is called twice, the last call selects the sink.
    query = writer().format("delta").format("memory").queryName("familiar_rows").start()
    assert query.awaitTermination(120)
    assert enabled.table("familiar_rows").count() == 3
    query = (
        writer().foreachBatch(upsert).format("delta").option("checkpointLocation", f"{path} q2").start(f"{path} copy")
    )
    assert query.awaitTermination(120)
    assert (taken, ids(enabled, f"{path} copy")) == ([], [0, 1, 2])


def test_columns_are_replaced_with_all_rows(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    old = enabled.createDataFrame([(1, "a"), (2, "b")], "id int, p string")
    new = enabled.createDataFrame([(3, "a")], "id int, p string")
    dynamic = {"partitionOverwriteMode": "dynamic", "overwriteSchema": True}
    # As in delta-spark: without partitionBy the table loses its partitions, so all rows are
    # replaced.
    written(old, path, by="p")
    written(new, path, "overwrite", **dynamic)
    assert (ids(enabled, path), DeltaTable(path).metadata().partition_columns) == ([3], [])
    written(old, f"{path} kept", by="p")
    for by in ("p", "id"):
        with pytest.raises(AnalysisException, match="DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE"):
            written(new, f"{path} kept", "overwrite", by, **dynamic)
    conf["spark.sql.sources.partitionOverwriteMode"] = "dynamic"
    with pytest.raises(AnalysisException, match="DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE"):
        written(new, f"{path} kept", "overwrite", "p", overwriteSchema=True)
    new.write.option("overwriteSchema", True).insertInto(f"delta.`{path} kept`", overwrite=True)
    assert (ids(enabled, f"{path} kept"), DeltaTable(f"{path} kept").metadata().partition_columns) == ([2, 3], ["p"])


def test_a_first_write_may_say_what_it_replaces(enabled: SparkSession, path: str, name: str) -> None:
    rows = enabled.createDataFrame([(1, "a")], "id int, p string")
    for number, where in enumerate(("p = 'a'", "id > 0", "upper(p) = 'A'")):
        for by in ("p", None):
            there = f"{path} {number} {by}"
            for _ in range(2):
                written(rows, there, "overwrite", by, replaceWhere=where)
            assert ids(enabled, there) == [1]
            assert newest(there)["operationParameters"]["predicate"] == where
    for where in ("p = 'b'", "id > 1", "nullif(id, 1) = 1"):
        with pytest.raises(exceptions.InvalidArgumentError, match=r"doesn't select: nothing was committed"):
            written(rows, path, "overwrite", replaceWhere=where)
        assert not DeltaTable.is_deltatable(path)
    rows.write.format("delta").mode("overwrite").option("replaceWhere", "p = 'a'").saveAsTable(name)
    assert enabled.table(name).count() == 1


def test_generated_partitions_are_computed_by_every_write(enabled: SparkSession, path: str) -> None:
    place = f"delta.`{path}`"
    enabled.sql(
        f"CREATE TABLE {place} (id INT, at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE))) USING delta "
        "PARTITIONED BY (day)"
    )
    rows = enabled.sql("SELECT 1 AS id, TIMESTAMP'2024-01-02 03:00:00' AS at")
    written(rows, path, "append")
    written(rows, path, "append", by="day")
    written(rows, path, "overwrite", replaceWhere="day = '2024-01-02'")
    written(rows, path, "append")
    rows.writeTo(place).overwritePartitions()
    stream = enabled.readStream.format("delta").load(path).select("id", "at").writeStream.format("delta")
    stream.option("checkpointLocation", f"{path} steps").trigger(availableNow=True).start(path).awaitTermination()
    shown = enabled.read.format("delta").load(path).selectExpr("id", "CAST(day AS STRING) AS day").collect()
    assert [tuple(row) for row in shown] == [(1, "2024-01-02")] * 2
    written(rows, path, "overwrite")
    assert enabled.read.format("delta").load(path).where("day = '2024-01-02'").count() == 1


def test_rows_without_their_partition_are_refused(enabled: SparkSession, path: str) -> None:
    written(enabled.createDataFrame([(1, "a")], "id int, p string"), path, by="p")
    lacking = enabled.createDataFrame([(2,)], "id int")
    for mode in ("append", "overwrite"):
        for options in ({}, {"mergeSchema": True}):
            with pytest.raises(AnalysisException, match="DELTA_PARTITION_COLUMN_NOT_FOUND"):
                written(lacking, path, mode, **options)
    with pytest.raises(AnalysisException, match="DELTA_PARTITION_COLUMN_NOT_FOUND"):
        lacking.writeTo(f"delta.`{path}`").overwritePartitions()
    with pytest.raises(AnalysisException, match="DELTA_NON_PARTITION_COLUMN_ABSENT"):
        written(enabled.createDataFrame([("a",)], "p string"), path)
    with pytest.raises(AnalysisException, match="DELTA_ILLEGAL_USAGE"):
        lacking.writeTo(f"delta.`{path}`").using("delta").option("overwriteSchema", False).createOrReplace()
    # Matched by name, a missing column is null, as in delta-spark.
    lacking.writeTo(f"delta.`{path}`").append()
    assert ids(enabled, path) == [1, 2]
