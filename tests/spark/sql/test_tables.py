"""`deltaplane.spark.DeltaTable` equals `delta.tables.DeltaTable` in names, arguments and
results."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable
from deltaplane.exceptions import (
    ConstraintViolationError,
    InvalidArgumentError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from deltaplane.spark import DeltaTable as SparkTable
from deltaplane.spark import IdentityGenerator
from deltaplane.spark.delta_api import tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Parameters of the public methods of `delta.tables` 4.4, without `self`: its package isn't
# installed for the tests.
SIGNATURES = json.loads(Path(__file__).with_name("delta_tables.json").read_text())


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_method_takes_delta_sparks_arguments(name: str) -> None:
    for method, parameters in SIGNATURES[name].items():
        ours = inspect.signature(getattr(getattr(tables, name), method)).parameters
        # Additional parameters are keyword-only.
        theirs = [
            p for p, parameter in ours.items() if p != "self" and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        ]
        assert theirs == parameters, f"{name}.{method}"
        assert set(ours) - {"self", *theirs} <= {"dry_run"}, f"{name}.{method}"


def test_a_table_is_built_as_delta_spark_builds_it(spark: SparkSession, path: str) -> None:
    from pyspark.sql.types import DateType, StructField, StructType

    assert not SparkTable.isDeltaTable(spark, path)
    builder = SparkTable.create(spark).location(path).comment("what was sold")
    builder = builder.addColumn("id", "bigint", nullable=False, generatedByDefaultAs=IdentityGenerator(5, 10))
    builder = builder.addColumn("at", "TIMESTAMP", comment="when").addColumn("tags", "array<string>")
    builder = builder.addColumn("year", "int", generatedAlwaysAs="year(at)")
    builder = builder.addColumns(StructType([StructField("day", DateType())])).partitionedBy("day", "year")
    table = builder.property("delta.enableDeletionVectors", "true").execute()
    assert SparkTable.isDeltaTable(spark, path)
    assert table.toDF().columns == ["id", "at", "tags", "year", "day"]
    made = DeltaTable(path)
    assert made.metadata().partition_columns == ["day", "year"]
    assert made.metadata().description == "what was sold"
    fields = {f["name"]: f for f in json.loads(made.schema().to_json())["fields"]}
    assert fields["id"]["metadata"]["delta.identity.start"] == 5
    assert fields["id"]["metadata"]["delta.identity.allowExplicitInsert"] is True
    assert (fields["id"]["nullable"], fields["at"]["metadata"]) == (False, {"comment": "when"})
    assert fields["year"]["metadata"] == {"delta.generationExpression": "year(at)"}
    with pytest.raises(TableAlreadyExistsError):
        SparkTable.create(spark).location(path).addColumn("x", "int").execute()
    SparkTable.createIfNotExists(spark).location(path).addColumn("x", "int").execute()
    assert DeltaTable(path).version() == 0


def test_texts_of_a_given_length(spark: SparkSession, path: str) -> None:
    from pyspark.sql.types import StructType, VarcharType

    from deltaplane import spark as dp

    builder = (
        SparkTable.create(spark)
        .location(path)
        .addColumn("c", "char(3)")
        .addColumns(StructType().add("v", VarcharType(2)))
    )
    table = builder.addColumn("s", "array<char(2)>").execute()
    assert table.toDF().dtypes == [("c", "string"), ("v", "string"), ("s", "array<string>")]
    lengths = [f.metadata["__CHAR_VARCHAR_TYPE_STRING"] for f in DeltaTable(path).schema().fields]
    assert lengths == ["char(3)", "varchar(2)", "array<char(2)>"]
    dp.write(spark.sql("SELECT 'a' AS c, 'ok' AS v"), path)
    with pytest.raises(ConstraintViolationError, match="exceeds"):
        dp.write(spark.sql("SELECT 'a' AS c, 'too long' AS v"), path)


def test_tables_are_replaced(spark: SparkSession, path: str) -> None:
    with pytest.raises(TableNotFoundError):
        SparkTable.replace(spark).location(path).addColumn("x", "int").execute()
    SparkTable.createOrReplace(spark).location(path).addColumn("x", "int").clusterBy(["x"]).execute()
    table = SparkTable.replace(spark).location(path).addColumn("x", "string").clusterBy("x").execute()
    assert table.toDF().dtypes == [("x", "string")]
    (detail,) = table.detail().collect()
    assert (detail.clusteringColumns, detail.numFiles) == (["x"], 0)


def test_what_a_replacement_does_not_name_goes(spark: SparkSession, path: str) -> None:
    made = SparkTable.createOrReplace(spark).location(path).addColumn("x", "int").comment("c")
    made.property("own", "a").clusterBy("x").execute()
    table = SparkTable.replace(spark).location(path).addColumn("x", "int").property("other", "b").execute()
    (detail,) = table.detail().collect()
    assert (detail.description, detail.properties, detail.clusteringColumns) == (None, {"other": "b"}, [])
    assert [row.operation for row in table.history().collect()] == ["REPLACE TABLE", "CREATE OR REPLACE TABLE"]


def test_names(spark: SparkSession, path: str) -> None:
    named = SparkTable.create(spark).tableName("default.sold_things").location(path).addColumn("x", "int").execute()
    named.merge(spark.range(3).selectExpr("int(id) AS x"), "false").whenNotMatchedInsertAll().execute()
    assert SparkTable.forName(spark, "sold_things").toDF().count() == 3
    assert SparkTable.forName(spark, f"delta.`{path}`").toDF().count() == 3
    table = SparkTable.createIfNotExists(spark).tableName("kept_in_the_warehouse").addColumn("x", "int").execute()
    assert table.toDF().count() == SparkTable.forName(spark, "kept_in_the_warehouse").toDF().count() == 0
    spark.sql("CREATE TABLE other_things (x INT) USING parquet")
    with pytest.raises(TableNotFoundError, match="its format is parquet"):
        SparkTable.forName(spark, "other_things")
    for name in ("sold_things", "kept_in_the_warehouse", "other_things"):
        spark.sql(f"DROP TABLE {name}")
    with pytest.raises(TableNotFoundError, match="catalog has no table"):
        SparkTable.forName(spark, "sold_things")
    with pytest.raises(TableNotFoundError, match="no Delta table"):
        SparkTable.forPath(spark, path + "/nowhere")
    with pytest.raises(InvalidArgumentError, match="needs a place"):
        SparkTable.create(spark).addColumn("x", "int").execute()


def test_frames_follow_the_table_and_tell_of_it(spark: SparkSession, path: str) -> None:
    table = SparkTable.create(spark).location(path).addColumn("x", "long").execute()
    frame = table.alias("t").toDF()
    assert frame.where("t.x = 1").count() == 0
    spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", "by hand")
    try:
        (done,) = table.merge(spark.range(3).toDF("x"), "false").whenNotMatchedInsertAll().execute().collect()
    finally:
        spark.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
    assert done.asDict() == {
        "num_affected_rows": 3,
        "num_updated_rows": 0,
        "num_deleted_rows": 0,
        "num_inserted_rows": 3,
    }
    assert frame.count() == 3
    first, second = table.history().collect()
    assert (first.version, first.operation, first.userMetadata, second.version) == (1, "MERGE", "by hand", 0)
    assert first.operationMetrics["numTargetRowsInserted"] == "3"
    assert table.history(1).count() == 1
    assert dict(table.history().dtypes)["job"].startswith("struct<jobId:string")
    (detail,) = table.detail().collect()
    assert (detail.format, detail.minWriterVersion, detail.partitionColumns) == ("delta", 2, [])


def test_files_are_cared_for(spark: SparkSession, path: str, conf: dict[str, str]) -> None:
    from deltaplane import spark as dp

    for n in range(3):
        dp.write(spark.range(n, n + 1).toDF("x"), path)
    table = SparkTable.forPath(spark, path)
    (done,) = (
        table.optimize().executeCompaction().select("path", "metrics.numFilesRemoved", "metrics.filesAdded").collect()
    )
    assert (done.path, done.numFilesRemoved, done.filesAdded.totalFiles) == (path, 3, 1)
    assert table.optimize().executeZOrderBy("x").count() == 1
    with pytest.raises(InvalidArgumentError, match="retention"):
        table.vacuum(0)
    conf["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
    assert table.vacuum(0).count() == 0
    assert table.toDF().count() == 3
    assert len(list(Path(path).glob("*.parquet"))) == 1


def test_protocols_rise_and_features_come_and_go(spark: SparkSession, path: str) -> None:
    table = SparkTable.create(spark).location(path).addColumn("x", "long").execute()
    table.upgradeTableProtocol(1, 3)
    table.addFeatureSupport("deletionVectors")
    assert "deletionVectors" in table.detail().collect()[0].tableFeatures
    table.dropFeatureSupport("deletionVectors")
    assert "deletionVectors" not in table.detail().collect()[0].tableFeatures


def at_newest(table: SparkTable) -> str:
    """The time of the newest commit, in the session's notation."""
    (newest,) = table.history(1).selectExpr("date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS') AS at").collect()
    return str(newest.at)


def test_tables_are_restored_cloned_and_converted(spark: SparkSession, path: str) -> None:
    table = SparkTable.create(spark).location(path).addColumn("x", "long").execute()
    table.merge(spark.range(3).toDF("x"), "false").whenNotMatchedInsertAll().execute()
    clones = [
        table.clone(path + "-1"),
        table.cloneAtVersion(1, path + "-2"),
        table.cloneAtTimestamp(at_newest(table), path + "-3", properties={"delta.appendOnly": "true"}),
    ]
    assert [clone.toDF().count() for clone in clones] == [3, 3, 3]
    table.delete("x = 1")
    (restored,) = table.restoreToVersion(1).collect()
    assert (restored.num_restored_files, restored.num_of_files_after_restore) == (1, 1)
    assert table.toDF().count() == 3
    table.restoreToTimestamp(at_newest(table))
    table.generate("symlink_format_manifest")
    assert Path(path, "_symlink_format_manifest", "manifest").exists()
    spark.range(4).selectExpr("id", "id % 2 AS p").write.partitionBy("p").parquet(path + "-4")
    converted = SparkTable.convertToDelta(spark, f"parquet.`{path}-4`", "p int")
    assert converted.toDF().where("p = 1").count() == 2


def test_wrong_arguments_are_refused_as_delta_spark_does(spark: SparkSession, path: str) -> None:
    table = SparkTable.create(spark).location(path).addColumn("x", "long").execute()
    frame = spark.range(1)
    wrong: list[tuple[type[Exception], Any]] = [
        (TypeError, lambda: table.delete(5)),  # type: ignore[arg-type]
        (ValueError, lambda: table.update("x = 1")),
        (TypeError, lambda: table.update(set=["x"])),  # type: ignore[arg-type]
        (TypeError, lambda: table.update(set={"x": 5})),  # type: ignore[dict-item]
        (ValueError, lambda: table.merge(None, "true")),  # type: ignore[arg-type]
        (TypeError, lambda: table.merge([1], "true")),  # type: ignore[arg-type]
        (ValueError, lambda: table.merge(frame, None)),  # type: ignore[arg-type]
        (InvalidArgumentError, lambda: table.merge(frame, "true").execute()),
        (InvalidArgumentError, lambda: table.merge(frame, "true").whenMatchedDelete().whenMatchedDelete().execute()),
        (ValueError, lambda: table.upgradeTableProtocol("1", 3)),  # type: ignore[arg-type]
        (ValueError, lambda: table.restoreToVersion("1")),  # type: ignore[arg-type]
        (
            ValueError,
            lambda: SparkTable.create(spark).addColumn("i", "long", generatedAlwaysAs=IdentityGenerator(1, 0)),
        ),
        (TypeError, lambda: SparkTable.create(spark).partitionedBy("a", 5)),  # type: ignore[arg-type]
    ]
    for error, run in wrong:
        with pytest.raises(error):
            run()
    assert DeltaTable(path).version() == 0
