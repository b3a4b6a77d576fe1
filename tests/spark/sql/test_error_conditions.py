"""Errors have delta-spark's conditions, SQL states and PySpark's classes, besides their own;
tests/interop compares with delta-spark."""

from __future__ import annotations

import functools
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark.errors as sparks
import pytest
from pyspark.sql import functions as F

import deltaplane
from deltaplane import exceptions as ours
from deltaplane import spark as dp
from deltaplane.spark import DeltaTable
from sparks import is_at_least

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

ROWS = "id int, v string"


@pytest.fixture
def table(spark: SparkSession, path: str) -> str:
    spark.createDataFrame([(1, "a"), (2, "b")], ROWS).coalesce(1).write.format("delta").save(path)
    return path


def raised(run: Callable[[], Any], kind: type[Exception], spark: type[Exception], condition: str, state: str) -> Any:
    """Checks all that a script can see of an error."""
    with pytest.raises(kind) as caught:
        run()
    error: Any = caught.value
    assert isinstance(error, spark)
    assert (error.getCondition(), error.getSqlState()) == (condition, state)
    # PySpark 4 warns of the older name.
    with pytest.warns(FutureWarning) if is_at_least("4.0") else nullcontext():
        assert error.getErrorClass() == condition
    return error


def writer_of(spark: SparkSession, columns: str = ROWS, *rows: tuple[Any, ...]) -> Any:
    """A writer of some rows."""
    return spark.createDataFrame(list(rows or [(7, "x")]), columns).write.format("delta")


def test_what_is_said_of_tables_depends_on_what_asks(spark: SparkSession, path: str) -> None:
    missing = ours.TableNotFoundError, sparks.AnalysisException
    error = raised(lambda: spark.read.format("delta").load(path), *missing, "PATH_NOT_FOUND", "42K03")
    assert error.getMessageParameters() == {"path": path}
    assert error.getMessage() == str(error)
    Path(f"{path} folder").mkdir()
    read = spark.read.format("delta").load
    error = raised(lambda: read(f"{path} folder"), *missing, "DELTA_TABLE_NOT_FOUND", "42P01")
    assert error.getMessageParameters() == {"tableName": f"{path} folder"}
    error = raised(lambda: spark.sql(f"VACUUM delta.`{path}`"), *missing, "DELTA_MISSING_DELTA_TABLE", "42P01")
    assert error.getMessageParameters() == {"tableName": path}
    raised(lambda: DeltaTable.forPath(spark, path), *missing, "DELTA_MISSING_DELTA_TABLE", "42P01")
    error = raised(
        lambda: DeltaTable.forName(spark, "nowhere_to_be_found"), *missing, "DELTA_MISSING_DELTA_TABLE", "42P01"
    )
    assert error.getMessageParameters() == {"tableName": "`nowhere_to_be_found`"}
    raised(lambda: spark.sql(f"DESCRIBE HISTORY delta.`{path}`"), *missing, "DELTA_TABLE_ONLY_OPERATION", "0AKDD")
    raised(lambda: spark.readStream.format("delta").load(path), *missing, "DELTA_SCHEMA_NOT_SET", "KD008")
    replaced = DeltaTable.replace(spark).location(path).addColumn("x", "int")
    raised(replaced.execute, *missing, "TABLE_OR_VIEW_NOT_FOUND", "42P01")


def test_what_is_there_already(spark: SparkSession, table: str, name: str) -> None:
    there = ours.TableAlreadyExistsError, sparks.AnalysisException
    error = raised(lambda: writer_of(spark).save(table), *there, "DELTA_PATH_EXISTS", "42K04")
    assert error.getMessageParameters() == {"path": table}
    exists = "TABLE_OR_VIEW_ALREADY_EXISTS", "42P07"
    raised(DeltaTable.create(spark).location(table).addColumn("x", "int").execute, *there, *exists)
    writer_of(spark).saveAsTable(name)
    raised(lambda: writer_of(spark).saveAsTable(name), *there, *exists)
    raised(lambda: spark.range(1).writeTo(name).using("delta").create(), *there, *exists)


def test_versions_and_moments(spark: SparkSession, table: str, in_new_york: None) -> None:
    gone = ours.VersionNotFoundError, sparks.AnalysisException
    reader = spark.read.format("delta")
    error = raised(lambda: reader.option("versionAsOf", 7).load(table), *gone, "DELTA_VERSION_NOT_FOUND", "22003")
    assert error.getMessageParameters() == {"userVersion": "7", "latest": "0"}
    reader = spark.read.format("delta").option("timestampAsOf", "2001-01-01")
    raised(lambda: reader.load(table), *gone, "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", "42816")
    delta = DeltaTable.forPath(spark, table)
    error = raised(lambda: delta.restoreToVersion(9), *gone, "DELTA_CANNOT_RESTORE_TABLE_VERSION", "22003")
    assert error.getMessageParameters() == {"version": "9", "endVersion": "0"}
    raised(lambda: delta.restoreToTimestamp("2001-01-01"), *gone, "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER", "22003")
    greater = "DELTA_TIMESTAMP_GREATER_THAN_COMMIT", "42816"
    name, future = f"delta.`{table}`", "TIMESTAMP AS OF '2200-01-01'"
    later: list[Callable[[], Any]] = [
        lambda: spark.read.format("delta").option("timestampAsOf", "2200-01-01").load(table),
        lambda: spark.read.format("delta").load(f"{table}@22000101000000000"),
        lambda: spark.sql(f"SELECT * FROM {name} {future}"),
        lambda: spark.sql(f"SELECT * FROM delta.`{table}@22000101000000000`"),
        lambda: spark.sql(f"INSERT INTO {name} SELECT * FROM {name} {future}"),
        lambda: spark.sql(f"CREATE TABLE delta.`{table}-2` SHALLOW CLONE {name} {future}"),
        lambda: delta.cloneAtTimestamp("2200-01-01", f"{table}-2"),
        lambda: dp.read(spark, table, timestamp="2200-01-01"),
        lambda: dp.plan(spark, table, timestamp="2200-01-01"),
        lambda: dp.read_changes(spark, table, 0, ending_timestamp="2200-01-01"),
    ]
    for run in later:
        error = raised(run, *gone, *greater)
        assert set(error.getMessageParameters()) == {"providedTimestamp", "lastCommitTimestamp"}
    cannot = "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER", "22003"
    error = raised(lambda: delta.restoreToTimestamp("2200-01-01"), *gone, *cannot)
    assert set(error.getMessageParameters()) == {"requestedTimestamp", "latestTimestamp"}
    raised(lambda: spark.sql(f"RESTORE {name} TO {future}"), *gone, *cannot)
    assert len(deltaplane.DeltaTable(table).history()) == 1
    wrong = ours.InvalidArgumentError, sparks.AnalysisException
    error = raised(lambda: delta.restoreToTimestamp("05/04/1999"), *wrong, "DELTA_TIMESTAMP_INVALID", "42816")
    assert error.getMessageParameters() == {"expr": "'05/04/1999'"}


def test_data_that_does_not_fit(spark: SparkSession, table: str, path: str) -> None:
    mismatch = ours.SchemaMismatchError, sparks.AnalysisException
    wider = writer_of(spark, f"{ROWS}, z int", (1, "a", 2)).mode("append")
    raised(lambda: wider.save(table), *mismatch, "DELTA_METADATA_MISMATCH", "42KDG")
    other = writer_of(spark, "id string, v string", ("1", "a")).mode("append")
    error = raised(lambda: other.save(table), *mismatch, "DELTA_FAILED_TO_MERGE_FIELDS", "22005")
    assert error.getMessageParameters() == {"currentField": "id"}
    wrong = ours.InvalidArgumentError, sparks.AnalysisException
    error = raised(
        lambda: writer_of(spark).partitionBy("nope").save(f"{path} new"),
        *wrong,
        "DELTA_PARTITION_COLUMN_NOT_FOUND",
        "42703",
    )
    assert error.getMessageParameters() == {"columnName": "`nope`", "schemaMap": "id, v"}


def test_classes_that_are_no_analysis_come_beside_it(spark: SparkSession, table: str) -> None:
    delta = DeltaTable.forPath(spark, table)
    argument = ours.InvalidArgumentError, sparks.IllegalArgumentException
    error = raised(lambda: delta.vacuum(0), *argument, "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", "22003")
    assert isinstance(error, sparks.AnalysisException)
    assert error.getMessageParameters() == {"configuredRetentionHours": "168"}
    raised(
        lambda: delta.optimize().executeZOrderBy("nope"), *argument, "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST", "42703"
    )
    source = spark.createDataFrame([(1, "x"), (1, "y")], ROWS).alias("s")
    merge = delta.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll()
    unsupported = ours.InvalidArgumentError, sparks.UnsupportedOperationException
    raised(merge.execute, *unsupported, "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", "21506")
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    raised(lambda: delta.delete("id = 1"), *unsupported, "DELTA_CANNOT_MODIFY_APPEND_ONLY", "42809")
    wrong = f"ALTER TABLE delta.`{table}` RENAME"
    raised(lambda: spark.sql(wrong), ours.SqlSyntaxError, sparks.ParseException, "PARSE_SYNTAX_ERROR", "42601")


def test_rows_that_rules_refuse(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT small CHECK (id < 9)")
    violation = ours.ConstraintViolationError, sparks.PySparkException
    write = writer_of(spark, ROWS, (9, "x")).mode("append")
    error = raised(lambda: write.save(table), *violation, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001")
    assert error.getMessageParameters()["constraintName"] == "small"
    assert "id : 9" in error.getMessageParameters()["values"]
    assert not isinstance(error, sparks.AnalysisException)
    update = DeltaTable.forPath(spark, table).update
    raised(lambda: update(set={"id": "9"}), *violation, "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001")


def test_a_lost_race_has_its_condition(spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltaplane.spark.delta_api import tables

    def lost(*_: Any, **__: Any) -> None:
        raise ours.ConcurrentAppendException("files were added", conflicting_commit=ours.ConflictingCommit(7))

    monkeypatch.setattr(tables, "delete", lost)
    lost_race = ours.ConcurrentAppendException, sparks.PySparkException
    error = raised(DeltaTable.forPath(spark, table).delete, *lost_race, "DELTA_CONCURRENT_APPEND", "2D521")
    assert error.conflicting_commit.version == 7


def test_what_delta_spark_has_no_word_for_has_no_condition(spark: SparkSession, table: str) -> None:
    (Path(table) / "_delta_log" / f"{1:020}.json").write_text("{nope\n")
    with pytest.raises(ours.CorruptLogError) as caught:
        spark.read.format("delta").load(table)
    error: Any = caught.value
    assert isinstance(error, sparks.PySparkException)
    assert (error.getCondition(), error.getSqlState(), error.getMessageParameters()) == (None, None, None)


@pytest.mark.filterwarnings("ignore:toPandas attempted")
def test_changed_columns_are_told_wherever_spark_plans(spark: SparkSession, table: str) -> None:
    frame = spark.read.format("delta").load(table)
    writer_of(spark, "id string, v string", ("1", "a")).mode("overwrite").option("overwriteSchema", "true").save(table)
    changed = ours.SchemaMismatchError, sparks.AnalysisException, "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "KD007"
    joined = spark.range(5).join(frame.hint("broadcast"), "id").groupBy("v").count()
    for run in (
        frame.collect,
        frame.collect,
        frame.count,
        joined.collect,
        frame.toPandas,
        lambda: frame.write.parquet(f"{table} as Parquet"),
        lambda: frame.write.format("delta").save(f"{table} copied"),
    ):
        error = raised(run, *changed)
        assert "JVM" not in str(error)
        assert error.getMessageParameters() == {"schemaDiff": "`id` was integer and is string"}
        assert error.version == 1


def test_tables_that_went_are_told_too(spark: SparkSession, table: str) -> None:
    gone = ours.TableNotFoundError, sparks.AnalysisException, "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "KD007"
    frame = spark.read.format("delta").load(table)
    assert frame.count() == 2
    shutil.rmtree(table)
    assert "the view's table was deleted" in str(raised(frame.collect, *gone))
    writer_of(spark).save(table)
    assert "another one made in its place" in str(raised(frame.count, *gone))


def test_features_that_came_are_told_too(spark: SparkSession, table: str) -> None:
    dp.create_or_replace_temp_view(spark, "modern", table)
    (Path(table) / "_delta_log" / f"{1:020}.json").write_text(
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["fancy"],"writerFeatures":["fancy"]}}'
    )
    unsupported = ours.UnsupportedFeatureError, sparks.PySparkException
    error = raised(
        lambda: spark.sql("SELECT * FROM modern").collect(),
        *unsupported,
        "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
        "56038",
    )
    assert error.getMessageParameters() == {"unsupported": "fancy", "tableNameOrPath": table}


def test_a_class_that_is_not_ours_comes_back_as_the_one_below(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltaplane.spark.scan import file_index as _index

    class Throttled(ours.StoreUnavailableError):
        """An exception of a user's store."""

    def throttled(*_: Any) -> None:
        raise Throttled("slow down", path="a file")

    frame = spark.read.format("delta").load(table)
    monkeypatch.setattr(_index.LiveSnapshots, "for_query", throttled)
    with pytest.raises(ours.StoreUnavailableError, match=r"^slow down$") as caught:
        frame.collect()
    assert isinstance(caught.value, sparks.PySparkException)
    assert caught.value.path == "a file"


def test_a_streams_failure_stays_its_own(spark: SparkSession, table: str, path: str) -> None:
    frame = spark.read.format("delta").load(table)
    writer_of(spark, "id string, v string", ("1", "a")).mode("overwrite").option("overwriteSchema", "true").save(table)
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    joined = ticks.join(frame, ticks["value"] == frame["id"])
    writer = joined.writeStream.format("noop").option("checkpointLocation", f"{path} checkpoint")
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(sparks.StreamingQueryException, match="columns changed"):
        query.awaitTermination()


def ended(query: Any) -> Any:
    """The exception that ended a query, as PySpark reports it."""
    with pytest.raises(sparks.StreamingQueryException) as caught:
        query.awaitTermination()
    assert caught.value.getCondition() == "STREAM_FAILED"
    return caught.value


def cause_of(error: Any) -> Any:
    """The cause of a stream's error, whose attribute has another name before PySpark 4."""
    return error._cause if is_at_least("4.0") else error.cause


def started(frame: Any, checkpoint: str) -> Any:
    return frame.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)


def test_what_a_stream_refuses_is_its_cause(spark: SparkSession, table: str, path: str) -> None:
    writer_of(spark, ROWS, (7, "x")).mode("overwrite").save(table)
    frame = spark.readStream.format("delta").option("startingVersion", 0).load(table)
    failed = ended(started(frame, f"{path} 1").format("noop").start())
    assert "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] the commit changes" in str(failed)
    assert "Traceback" not in str(failed)
    cause: Any = cause_of(failed)
    assert isinstance(cause, (ours.UnsupportedFeatureError, sparks.UnsupportedOperationException))
    assert cause.getMessageParameters()["version"] == str(cause.version)
    # The sink's exception, and one that Spark raised in it.
    rows = spark.readStream.format("delta").load(table)
    writer_of(spark, "other long", (1,)).save(f"{path} other")
    failed = ended(started(rows, f"{path} 2").format("delta").start(f"{path} other"))
    assert "[DELTA_METADATA_MISMATCH] the data has the column" in str(failed)
    assert isinstance(cause_of(failed), ours.SchemaMismatchError)
    failed = ended(started(rows.selectExpr("v AS other"), f"{path} 3").format("delta").start(f"{path} other"))
    assert "[CAST_INVALID_INPUT]" in str(failed)
    # PySpark 3.5 has no class for what a task raises.
    if is_at_least("4.0"):
        assert isinstance(cause_of(failed), sparks.NumberFormatException)


def test_a_condition_is_in_the_text_that_is_left_of_an_error(spark: SparkSession, table: str, path: str) -> None:
    rows = spark.readStream.format("delta").load(table)
    writer_of(spark, "other long", (1,)).save(f"{path} other")

    def wrong(batch: Any, _: int) -> None:
        batch.write.format("delta").mode("append").save(f"{path} other")

    assert "[DELTA_METADATA_MISMATCH]" in str(ended(started(rows, f"{path} 1").foreachBatch(wrong).start()))
    if not is_at_least("4.0"):
        return
    dp.register(spark)
    read = spark.readStream.format("deltaplane").option("startingVersion", 99).load(table)
    assert "[DELTA_VERSION_NOT_FOUND]" in str(ended(started(read, f"{path} 2").format("noop").start()))


def test_a_stream_writes_no_void(spark: SparkSession, table: str, path: str) -> None:
    rows = spark.readStream.format("delta").load(table).selectExpr("id", "array(null) AS n")
    with pytest.raises(sparks.AnalysisException, match="`n` is of type void") as caught:
        started(rows, f"{path} 1").format("delta").start(f"{path} other")
    assert caught.value.getCondition() == "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE"


def test_commands_refuse_windows_and_chance_as_delta_spark_does(spark: SparkSession, path: str) -> None:
    writer_of(spark).save(path)
    table = f"delta.`{path}`"
    spark.createDataFrame([(7, "y"), (8, "z")], ROWS).createOrReplaceTempView("changes")
    window = "CAST(row_number() OVER (ORDER BY 1) AS STRING)"
    merge = f"MERGE INTO {table} t USING changes s ON t.id = s.id"
    windows = [
        f"{merge} WHEN MATCHED AND {window} = '1' THEN DELETE",
        f"{merge} WHEN MATCHED THEN UPDATE SET v = {window}",
        f"{merge} WHEN NOT MATCHED AND {window} = '1' THEN INSERT *",
        f"{merge} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, {window})",
    ]
    for text in windows:
        kind = (ours.InvalidArgumentError, sparks.AnalysisException)
        raised(functools.partial(spark.sql, text), *kind, "UNSUPPORTED_EXPR_FOR_OPERATOR", "42K0E")
    for text in (f"UPDATE {table} SET v = {window}", f"UPDATE {table} SET v = {window} WHERE id = 99"):
        with pytest.raises(ours.InvalidArgumentError):
            spark.sql(text)
    for text in (f"UPDATE {table} SET v = uuid()", f"UPDATE {table} SET v = rand() WHERE id = 99"):
        kind = (ours.InvalidArgumentError, sparks.AnalysisException)
        raised(functools.partial(spark.sql, text), *kind, "INVALID_NON_DETERMINISTIC_EXPRESSIONS", "42K0E")
    assert [tuple(row) for row in spark.table(table).collect()] == [(7, "x")]
    # A source may use window functions, and values of a MERGE may be nondeterministic.
    spark.sql("CREATE OR REPLACE TEMP VIEW numbered AS SELECT *, row_number() OVER (ORDER BY id) n FROM changes")
    spark.sql(merge.replace("changes", "numbered") + " AND s.n = 1 WHEN MATCHED THEN UPDATE SET v = uuid()")
    ((_, value),) = spark.table(table).collect()
    assert len(value) == 36


def test_commands_refuse_what_makes_several_rows_of_one(spark: SparkSession, path: str) -> None:
    """A generator would double rows, an aggregate leave one of many. delta-spark has these
    conditions too."""
    writer_of(spark).save(path)
    table = f"delta.`{path}`"
    spark.createDataFrame([(7, "y"), (8, "z")], ROWS).createOrReplaceTempView("changes")
    merge = f"MERGE INTO {table} t USING changes s ON t.id = s.id"
    generator = "explode(array('a', 'b'))"
    for text in (
        f"UPDATE {table} SET v = {generator}",
        f"{merge} WHEN MATCHED THEN UPDATE SET v = {generator}",
        f"{merge} WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, {generator})",
    ):
        kind = (ours.InvalidArgumentError, sparks.AnalysisException)
        raised(functools.partial(spark.sql, text), *kind, "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", "42K0E")
    for text in (
        f"UPDATE {table} SET v = max(v)",
        f"DELETE FROM {table} WHERE max(id) > 0",
        f"{merge} WHEN MATCHED THEN UPDATE SET v = max(s.v)",
        f"{merge} WHEN NOT MATCHED THEN INSERT (id) VALUES (max(s.id))",
    ):
        kind = (ours.InvalidArgumentError, sparks.AnalysisException)
        raised(functools.partial(spark.sql, text), *kind, "UNSUPPORTED_EXPR_FOR_OPERATOR", "42K0E")
    assert [tuple(row) for row in spark.table(table).collect()] == [(7, "x")]


def test_identity_columns_are_longs(spark: SparkSession, path: str) -> None:
    """As in delta-spark, whose SQL is parsed by Spark, which accepts INT as well as BIGINT."""
    wrong, states = ours.InvalidArgumentError, "428H2"
    of_delta = "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE", states
    for statement in ("CREATE", "CREATE OR REPLACE"):
        made = f"{statement} TABLE delta.`{path}` (k {{}} GENERATED BY DEFAULT AS IDENTITY) USING delta"
        sql = functools.partial(lambda text, writer_of: spark.sql(text.format(writer_of)), made)
        error = raised(functools.partial(sql, "INT"), wrong, sparks.UnsupportedOperationException, *of_delta)
        assert error.getMessageParameters() == {"dataType": "integer"}
        for type_name in ("SMALLINT", "STRING", "DECIMAL(20, 0)", "STRUCT<x: BIGINT>"):
            run = functools.partial(sql, type_name)
            raised(run, wrong, sparks.ParseException, "IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE", states)
    for type_name in ("int", "short", "string"):
        builder = (
            DeltaTable.create(spark).location(path).addColumn("k", type_name, generatedAlwaysAs=dp.IdentityGenerator())
        )
        raised(builder.execute, wrong, sparks.UnsupportedOperationException, *of_delta)
    step = f"CREATE TABLE delta.`{path}` (k BIGINT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 0)) USING delta"
    raised(
        lambda: spark.sql(step), ours.SqlSyntaxError, sparks.ParseException, "IDENTITY_COLUMNS_ILLEGAL_STEP", "42611"
    )
    assert not Path(path).exists()


@pytest.mark.skipif(not is_at_least("4.0"), reason="Spark from 4.0 has mergeInto")
def test_builders_of_merges_and_writes_name_what_spark_names(spark: SparkSession, table: str) -> None:
    refused, analysis = ours.InvalidArgumentError, sparks.AnalysisException
    source = spark.createDataFrame([(1, "m")], ROWS).alias("s")
    merge = source.mergeInto(f"delta.`{table}`", F.expr("s.id = 3"))
    raised(merge.merge, refused, analysis, "NO_MERGE_ACTION_SPECIFIED", "42K0E")
    unknown = merge.whenMatched().update({"nope": F.lit(1)})
    raised(unknown.merge, refused, analysis, "DELTA_MERGE_UNRESOLVED_EXPRESSION", "42601")
    nowhere = source.writeTo("nowhere").using("delta")
    missing = ours.TableNotFoundError, analysis, "TABLE_OR_VIEW_NOT_FOUND", "42P01"
    raised(nowhere.replace, *missing)
    raised(nowhere.append, *missing)
    writer = writer_of(spark).mode("append")
    raised(lambda: writer.bucketBy(4, "id").save(table), refused, analysis, "_LEGACY_ERROR_TEMP_1312", "")
    overwrite = writer_of(spark).mode("overwrite").option("replaceWhere", "id")
    raised(lambda: overwrite.save(table), refused, analysis, "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", "42K09")
    interval = spark.sql("SELECT 1 AS id, INTERVAL '1' DAY AS v").write.format("delta").mode("append")
    unsupported = ours.UnsupportedFeatureError, analysis, "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "0A000"
    raised(lambda: interval.save(table), *unsupported)
    twice = spark.sql("SELECT 3 AS id, 4 AS id").write.format("delta")
    raised(lambda: twice.saveAsTable("twice_named"), refused, analysis, "COLUMN_ALREADY_EXISTS", "42711")
