"""Scripts for delta-spark, with one changed import: their effects, results and caught
exceptions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from deltaplane import spark as dp
from deltaplane.spark import DeltaTable, IdentityGenerator

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def names(spark: SparkSession) -> Iterator[None]:
    """Registers the format by its name in the session."""
    dp.enable(spark)
    yield
    dp.disable(spark)


def written(spark: SparkSession, path: str, rows: list[tuple[Any, ...]], **options: str) -> DeltaTable:
    frame = spark.createDataFrame(rows, ["key", "value"])
    frame.coalesce(1).write.format("delta").mode("overwrite").options(**options).save(path)
    return DeltaTable.forPath(spark, path)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_columns_of_the_tables_frame_stand_in_commands(spark: SparkSession, path: str) -> None:
    table = written(spark, path, [("a", 1), ("b", 2), ("c", 3), ("d", 4)])
    target = table.toDF()
    source = spark.createDataFrame([("a", -1), ("b", 0), ("e", -5)], ["key", "value"])
    merge = table.merge(source, target["key"] == source["key"])
    merge = merge.whenMatchedDelete(target.value == 2)
    merge = merge.whenMatchedUpdate(set={"value": source["value"] + target["value"] * 10})
    merge.whenNotMatchedInsert(values={"key": source.key, "value": source.value}).execute()
    assert rows(table.toDF()) == [("a", 9), ("c", 3), ("d", 4), ("e", -5)]
    table.update(table.toDF()["key"] == "c", {"value": table.toDF()["value"] + 1})
    table.delete(target.key == "d")
    assert rows(table.toDF()) == [("a", 9), ("c", 4), ("e", -5)]
    named = table.alias("t")
    shown = named.toDF()
    merge = named.merge(source.alias("s"), (shown["key"] == F.col("s.key")) & (F.col("t.value") > 0))
    merge.whenMatchedUpdate(set={"value": "s.value"}).execute()
    assert rows(table.toDF()) == [("a", -1), ("c", 4), ("e", -5)]


def test_arguments_are_refused_in_the_same_order(spark: SparkSession, path: str) -> None:
    table = written(spark, path, [("a", 1)])
    source = spark.createDataFrame([("a", 1)], ["k", "v"])
    for call in (
        lambda: table.update({"value": "200"}),  # type: ignore[arg-type]
        lambda: table.update(condition="a"),
        lambda: table.merge(source, "key = k").whenMatchedUpdate({"value": "v"}),  # type: ignore[arg-type]
        lambda: table.merge(source, "key = k").whenNotMatchedInsert(1),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match="cannot be None"):
            call()
    with pytest.raises(TypeError, match="must be a Spark SQL Column or a string"):
        table.update(1, {})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a Spark SQL Column or a string"):
        table.merge(source, 1)  # type: ignore[arg-type]


def test_exceptions_are_sparks_too(spark: SparkSession, path: str) -> None:
    with pytest.raises(AnalysisException) as missing:
        DeltaTable.forPath(spark, path)
    assert isinstance(missing.value, dp_errors().TableNotFoundError)
    assert "no Delta table is here" in str(missing.value)
    assert missing.value.desc == str(missing.value)
    assert missing.value.getCondition() == "DELTA_MISSING_DELTA_TABLE"
    with pytest.raises(AnalysisException, match="no table"):
        DeltaTable.forName(spark, "nowhere_to_be_found")
    table = written(spark, path, [("a", 1)])
    with pytest.raises(AnalysisException, match="already"):
        DeltaTable.create(spark).location(path).addColumn("x", "int").execute()
    with pytest.raises(AnalysisException):
        table.update(set={"nothing": "1"})
    with pytest.raises(AnalysisException):
        spark.read.format("delta").load(path + "/nowhere")
    with pytest.raises(AnalysisException):
        spark.range(1).selectExpr("id AS other").write.format("delta").mode("append").save(path)
    with pytest.raises(AnalysisException):
        spark.sql(f"SELECT * FROM delta.`{path}/nowhere`")


def test_clauses_are_judged_whatever_rows_they_meet(spark: SparkSession, path: str) -> None:
    table = written(spark, path, [("a", 1)]).alias("t")
    merge = table.merge(spark.createDataFrame([("z", 1)], ["key", "value"]).alias("s"), "t.key = s.key")
    for wrong in (
        merge.whenMatchedUpdate(set={"nothing": "1"}),
        merge.whenMatchedUpdate(set={"s.value": "1"}),
        merge.whenMatchedUpdate(set={"value": "1", "VALUE": "2"}),
        merge.whenMatchedUpdate("t.value = 7", {"value": "s.nothing"}),
        merge.whenNotMatchedInsert("s.value = 7", {"key": "t.key"}),
    ):
        with pytest.raises(AnalysisException):
            wrong.execute()
    assert rows(table.toDF()) == [("a", 1)]


def test_fields_that_a_source_lacks_stay(spark: SparkSession, path: str) -> None:
    rows_of = "id int, s struct<a: int, b: string, n: struct<x: int, y: int>>"
    old = spark.createDataFrame([(1, (1, "b", (1, 2))), (2, None), (3, (3, "c", None)), (4, (4, "d", (5, 6)))], rows_of)
    old.coalesce(1).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path).alias("t")
    new = [(1, (99, (9,))), (2, (98, (8,))), (3, None), (4, (96, None))]
    source = spark.createDataFrame(new, "id int, s struct<A: int, n: struct<x: int>>").alias("s")
    merge = table.merge(source, "t.id = s.id").withSchemaEvolution()
    merge.whenMatchedUpdateAll().execute()
    # As in delta-spark 4.4.
    assert rows(table.toDF().selectExpr("id", "to_json(s) AS s")) == [
        (1, '{"a":99,"b":"b","n":{"x":9,"y":2}}'),
        (2, '{"a":98,"n":{"x":8}}'),
        (3, '{"b":"c"}'),
        (4, '{"a":96,"b":"d","n":{"y":6}}'),
    ]


def test_a_shallow_clone_is_read(spark: SparkSession, path: str) -> None:
    clone = written(spark, path, [("a", 1)]).clone(f"{path} clone", isShallow=True)
    clone.update(set={"value": "value + 1"})
    assert rows(clone.toDF()) == [("a", 2)]
    assert rows(DeltaTable.forPath(spark, path).cloneAtVersion(0, f"{path} old", True).toDF()) == [("a", 1)]


def test_a_table_is_converted_once(spark: SparkSession, path: str) -> None:
    spark.range(2).write.parquet(path)
    for _ in range(2):
        assert DeltaTable.convertToDelta(spark, f"parquet.`{path}`").toDF().count() == 2


def dp_errors() -> Any:
    from deltaplane import exceptions

    return exceptions


def test_versions_and_moments_are_restored(spark: SparkSession, path: str, in_new_york: None) -> None:
    table = written(spark, path, [("a", 1), ("b", 2)])
    # In the session's time zone, as Spark displays it.
    (first,) = table.history().selectExpr("date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS') AS at").collect()
    frame = spark.createDataFrame([("a", 3)], ["key_new", "value_new"])
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    DeltaTable.forPath(spark, path).restoreToTimestamp(first.at)
    assert rows(DeltaTable.forPath(spark, path).toDF()) == [("a", 1), ("b", 2)]
    old = spark.read.format("delta").option("timestampAsOf", first.at).load(path)
    assert old.columns == ["key", "value"]
    with pytest.raises(AnalysisException, match=r"The provided timestamp \('05/04/1999'\) cannot be converted"):
        table.restoreToTimestamp("05/04/1999")
    with pytest.raises(ValueError, match="timestamp needs to be a string but got '<class 'int'>'"):
        table.restoreToTimestamp(12342323232)  # type: ignore[arg-type]


def test_vacuum_looks_through_the_directory(spark: SparkSession, tmp_path: Path, conf: dict[str, str]) -> None:
    path = tmp_path / "t"
    table = written(spark, str(path), [("a", 1), ("b", 2)])
    (path / "abc.txt").write_text("abcde")
    table.vacuum()
    table.vacuum(1000)
    assert (path / "abc.txt").exists()
    # As in delta-spark 4.4: the table's property decides, unless the retention is 0 hours.
    then = time.time() - 10 * 3600
    os.utime(path / "abc.txt", (then, then))
    table.vacuum(1)
    spark.sql(f"VACUUM delta.`{path}` RETAIN 1 HOURS")
    assert (path / "abc.txt").exists()
    with pytest.raises(AnalysisException, match="retention"):
        table.vacuum(0)
    conf["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
    conf["spark.databricks.delta.vacuum.retentionWindowIgnore.enabled"] = "false"
    assert spark.sql(f"VACUUM delta.`{path}` RETAIN 20 HOURS DRY RUN").count() == 0
    assert spark.sql(f"VACUUM delta.`{path}` RETAIN 1 HOURS DRY RUN").count() == 1
    assert table.vacuum(0.0).count() == 0
    assert not (path / "abc.txt").exists()
    assert rows(table.toDF()) == [("a", 1), ("b", 2)]


def test_optimize_tells_delta_sparks_metrics(spark: SparkSession, path: str) -> None:
    numbers = spark.range(100).selectExpr("id", "id % 7 AS col1", "id % 27 AS col2", "id % 4 AS p")
    for part in range(2):
        numbers.where(f"id % 2 = {part}").coalesce(1).write.format("delta").partitionBy("p").mode("append").save(path)
    table = DeltaTable.forPath(spark, path)
    in_two = spark.read.format("delta").load(path).where("p = 2")
    before = in_two.select("_metadata.file_path").distinct().count()
    done = table.optimize().where("p = 2").executeZOrderBy(["col1", "col2"]).select("metrics.*").head()
    assert done is not None
    assert (done.numFilesAdded, done.numFilesRemoved) == (1, before)
    assert (done.totalFilesSkipped, done.totalConsideredFiles) == (0, before)
    assert (done.zOrderStats.strategyName, done.zOrderStats.numOutputCubes) == ("all", 1)
    assert (done.numTableColumns, done.numTableColumnsWithStats, done.numBins, done.numBatches) == (4, 4, 1, 1)
    assert done.endTimeMs >= done.startTimeMs > 0
    assert done.clusteringStats is None
    operation = table.history(1).select("operation", "operationParameters", "operationMetrics").head()
    assert operation is not None
    assert operation.operation == "OPTIMIZE"
    assert "p = 2" in operation.operationParameters["predicate"]
    result = table.optimize().executeCompaction()
    assert [field.name for field in result.schema.fields] == ["path", "metrics"]
    (again,) = table.optimize().executeCompaction().select("metrics.*").collect()
    assert (again.numFilesAdded, again.filesAdded.min, again.zOrderStats) == (0, None, None)
    with pytest.raises(AnalysisException, match=r"Predicate references non-partition column 'id'.*referenced: \[p\]"):
        table.optimize().where("id = 1").executeCompaction()
    with pytest.raises(AnalysisException, match=r"p is a partition column\. Z-Ordering can only be performed on data"):
        table.optimize().where("p = 1").executeZOrderBy(["p"])
    assert numbers.exceptAll(table.toDF()).count() == table.toDF().exceptAll(numbers).count() == 0


def test_a_merge_begins_anew_where_its_kept_source_is_lost(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltaplane.spark.dml import merge as _merge

    table = written(spark, path, [("a", 1)])
    run, losses = _merge._merged, iter([True, False])

    def lossy(*args: Any) -> dict[str, int]:
        done = run(*args) if not next(losses) else None
        if done is None:
            raise RuntimeError("Checkpoint block rdd_7_1 not found! The executor is no longer alive")
        return done

    monkeypatch.setattr(_merge, "_merged", lossy)
    source = spark.createDataFrame([("a", 5), ("b", 6)], ["key", "value"])
    table.alias("t").merge(source.alias("s"), "t.key = s.key").whenNotMatchedInsertAll().execute()
    assert rows(table.toDF()) == [("a", 1), ("b", 6)]


def test_structs_that_are_set_may_lack_fields_where_the_schema_evolves(spark: SparkSession, path: str) -> None:
    old = spark.createDataFrame([(1, (1, "x")), (2, (2, "y")), (3, None)], "id int, s struct<a: int, b: string>")
    old.coalesce(1).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path).alias("t")
    source = spark.createDataFrame([(1, (9, 1.5)), (3, (7, 2.5))], "id int, s struct<a: int, c: double>").alias("s")
    merge = table.merge(source, "t.id = s.id")
    with pytest.raises(AnalysisException, match="has no field `b`"):
        merge.whenMatchedUpdate(set={"s": "named_struct('a', s.id)"}).execute()
    merge = merge.withSchemaEvolution().whenMatchedUpdate("s.id = 1", {"s": "s.s"})
    merge = merge.whenMatchedUpdate(set={"t.s": "named_struct('a', s.id)"})
    merge.whenNotMatchedBySourceUpdate(set={"s": "named_struct('b', 'z')"}).execute()
    # As in delta-spark 4.4.
    assert rows(table.toDF().selectExpr("id", "s.a", "s.b", "s.c")) == [
        (1, 9, None, 1.5),
        (2, None, "z", None),
        (3, 3, None, None),
    ]


def test_nothing_that_a_frame_makes_is_not_null(spark: SparkSession, path: str) -> None:
    expressions = "id", "struct(id AS a, array(id) AS l) AS s", "map('k', struct(id AS x)) AS m"
    spark.range(1).selectExpr(*expressions).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    spark.sql(
        f"INSERT INTO delta.`{path}` VALUES (1, NULL, map('k', NULL)), (2, named_struct('a', NULL, 'l', array(NULL)), NULL)"
    )
    merge = table.alias("t").merge(spark.range(3).selectExpr("id", "struct(id AS e) AS n").alias("s"), "t.id = s.id")
    merge.withSchemaEvolution().whenMatchedUpdate("s.id = 0", {"n": "s.n"}).execute()
    table.update("id = 0", {"n": "null"})
    assert "false" not in table.toDF().schema.json()
    assert table.toDF().where("n IS NULL").count() == 3


def test_an_alias_stands_before_columns_that_are_updated(spark: SparkSession, path: str) -> None:
    table = written(spark, path, [("a", 1), ("b", 2)]).alias("t")
    table.update("t.key = 'a'", {"t.value": "t.value + 10", "`key`": F.upper("t.key")})
    assert rows(table.toDF()) == [("A", 11), ("b", 2)]


def test_the_history_says_protocol_changes_as_properties(spark: SparkSession, path: str) -> None:
    table = written(spark, path, [("a", 1)])
    assert table.detail().first().tableFeatures == ["appendOnly", "invariants"]  # type: ignore[union-attr]
    assert table.detail().first().location == f"file:{path}"  # type: ignore[union-attr]
    assert spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first().location == f"file:{path}"  # type: ignore[union-attr]
    table.upgradeTableProtocol(1, 3)
    table.addFeatureSupport("deletionVectors")
    spark.sql(f"COMMENT ON TABLE delta.`{path}` IS 'about'")
    said = table.history(3).select("operation", "operationParameters.properties").collect()
    assert [tuple(row) for row in said] == [
        ("SET TBLPROPERTIES", '{"comment":"about"}'),
        ("SET TBLPROPERTIES", '{"delta.feature.deletionVectors":"supported"}'),
        ("SET TBLPROPERTIES", '{"delta.minReaderVersion":"1","delta.minWriterVersion":"3"}'),
    ]
    assert table.history(-1).count() == 0


def test_a_table_of_the_catalog_is_told_by_its_whole_name(spark: SparkSession, path: str) -> None:
    name = "told_by_its_name"
    DeltaTable.create(spark).tableName(name).location(path).addColumn("x", "int").execute()
    whole = f"spark_catalog.default.{name}"
    for frame in (
        DeltaTable.forName(spark, f"default.{name}").alias("t").detail(),
        spark.sql(f"DESCRIBE DETAIL {name}"),
    ):
        assert [row.name for row in frame.collect()] == [whole]
    assert [row.name for row in DeltaTable.forPath(spark, path).detail().collect()] == [None]
    spark.sql(f"DROP TABLE {name}")


def test_frames_show_nothing_that_only_writers_need(spark: SparkSession, path: str) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("at", "timestamp", comment="when")
    builder = builder.addColumn("id", "long", generatedAlwaysAs=IdentityGenerator())
    table = builder.addColumn("day", "date", generatedAlwaysAs="CAST(at AS DATE)").execute()
    for frame in (table.toDF(), spark.read.format("delta").load(path)):
        assert [field.metadata for field in frame.schema] == [{"comment": "when"}, {}, {}]
    spark.sql("SELECT timestamp'2024-01-31 12:00:00' AS at").write.format("delta").mode("append").save(path)
    assert [str(row.day) for row in table.toDF().collect()] == ["2024-01-31"]


def test_statements_take_what_sparks_do(spark: SparkSession, path: str, conf: dict[str, str]) -> None:
    table = written(spark, path, [("a", 1)])
    table.delete()
    spark.sql(f"RESTORE delta.`{path}` VERSION AS OF 0")
    assert rows(table.toDF()) == [("a", 1)]
    spark.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('nobody.set.it')")
    table.delete()
    conf["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
    assert spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS DRY RUN").count() == 1
    assert table.vacuum(0).schema.fields == []


def test_options_of_a_writer_mean_what_they_mean_to_delta_spark(spark: SparkSession, path: str) -> None:
    written(spark, path, [("a", 1)])
    frame = spark.createDataFrame([("b", 2)], ["key", "value"])
    frame.write.format("delta").mode("append").option("replaceWhere", "key = 'a'").save(path)
    assert rows(spark.read.format("delta").load(path)) == [("a", 1), ("b", 2)]
    for writer in (frame.write.bucketBy(2, "key"), frame.write.sortBy("key")):
        with pytest.raises(AnalysisException, match="no buckets"):
            writer.format("delta").mode("append").save(path)
