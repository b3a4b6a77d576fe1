"""Statements and the history describe a table on Spark under delta-spark's names: managed or not,
its properties, its maintenance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException

from deltaplane import DeltaTable
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark import DeltaTable as SparkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def facts_of(frame: DataFrame) -> dict[str, str]:
    """The rows of a frame as pairs of their first two columns."""
    return {row[0]: row[1] for row in frame.collect()}


def newest(spark: SparkSession, name: str) -> dict[str, Any]:
    (row,) = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()
    return dict(row.asDict())


def test_history_says_who_chose_the_place(enabled: SparkSession, path: str, name: str) -> None:
    def managed(table_name: str = name) -> tuple[str, str, str | None]:
        entry = newest(enabled, table_name)
        says = entry["operationParameters"]
        return entry["operation"], says["isManaged"], says.get("isV1SaveAsTableOverwrite")

    rows = enabled.range(2)
    enabled.sql(f"CREATE TABLE {name} (id BIGINT) USING delta")
    assert managed() == ("CREATE TABLE", "true", None)
    rows.write.format("delta").mode("overwrite").saveAsTable(name)
    assert managed() == ("CREATE OR REPLACE TABLE AS SELECT", "true", "true")
    rows.writeTo(name).using("delta").replace()
    assert managed() == ("REPLACE TABLE AS SELECT", "true", None)
    SparkTable.createOrReplace(enabled).tableName(name).addColumn("id", "long").execute()
    assert managed() == ("CREATE OR REPLACE TABLE", "true", None)
    enabled.sql(f"DROP TABLE {name}")
    enabled.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}' AS SELECT 1 AS id")
    assert managed() == ("CREATE TABLE AS SELECT", "false", None)
    SparkTable.replace(enabled).tableName(name).addColumn("id", "long").execute()
    assert managed() == ("REPLACE TABLE", "false", None)
    assert DeltaTable(path).version() == 1
    enabled.sql(f"CREATE OR REPLACE TABLE delta.`{path}` (id INT) USING delta")
    assert managed(f"delta.`{path}`") == ("CREATE OR REPLACE TABLE", "false", None)


def test_vacuum_is_told_as_the_session_says(enabled: SparkSession, path: str, conf: dict[str, str]) -> None:
    name, setting = f"delta.`{path}`", "spark.databricks.delta.vacuum.logging.enabled"
    enabled.range(3).coalesce(1).write.format("delta").save(path)
    assert [row.path for row in enabled.sql(f"VACUUM {name}").collect()] == [f"file:{path}"]
    (ended, began) = enabled.sql(f"DESCRIBE HISTORY {name} LIMIT 2").collect()
    assert (ended.operation, began.operation) == ("VACUUM END", "VACUUM START")
    assert began.operationMetrics == {"numFilesToDelete": "0", "sizeOfDataToDelete": "0"}
    assert (ended.operationParameters["status"], ended.operationMetrics["numDeletedFiles"]) == ("COMPLETED", "0")
    # Without Spark, a VACUUM that deletes nothing commits nothing.
    table = DeltaTable(path)
    table.vacuum(dry_run=False)
    assert table.version() == 2
    conf[setting] = "false"
    conf["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
    enabled.range(1).write.format("delta").mode("overwrite").save(path)
    before = {file.name for file in Path(path).rglob("*.parquet")}
    SparkTable.forPath(enabled, path).vacuum(0)
    assert {file.name for file in Path(path).rglob("*.parquet")} < before
    assert DeltaTable(path).version() == 3
    assert enabled.read.format("delta").load(path).count() == 1
    conf[setting] = "true"
    SparkTable.forPath(enabled, path).vacuum(0)
    assert DeltaTable(path).version() == 5


def test_a_table_is_described_as_the_catalog_has_it(enabled: SparkSession, path: str, name: str) -> None:
    properties = "TBLPROPERTIES (own = 'a', 'delta.enableDeletionVectors' = 'true')"
    enabled.sql(f"CREATE TABLE {name} (id INT, p INT) USING delta CLUSTER BY (id) COMMENT 'about' {properties}")
    shown = facts_of(enabled.sql(f"SHOW TBLPROPERTIES {name}"))
    features = ("appendOnly", "clustering", "deletionVectors", "domainMetadata", "invariants")
    assert shown == {
        **{f"delta.feature.{feature}": "supported" for feature in features},
        "own": "a",
        "delta.enableDeletionVectors": "true",
        "clusteringColumns": '[["id"]]',
        "delta.minReaderVersion": "3",
        "delta.minWriterVersion": "7",
    }
    assert facts_of(enabled.sql(f"SHOW TBLPROPERTIES {name} ('no')")) == {
        "no": f"Table spark_catalog.default.{name} does not have property: no"
    }
    described = enabled.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    begins = [row.col_name for row in described].index("# Detailed Table Information")
    names = [row.col_name for row in described[begins + 1 :]]
    assert names == (
        [
            "Catalog",
            "Namespace",
            "Database",
            "Table",
            "Type",
            "Comment",
            "Location",
            "Provider",
            "Is_managed_location",
            "Table Properties",
        ]
    )
    facts = {row.col_name: row.data_type for row in described}
    assert (facts["Database"], facts["Table"], facts["Type"], facts["Comment"]) == ("default", name, "MANAGED", "about")
    assert facts["Location"].startswith("file:/")
    assert facts["Table Properties"] == f"[{','.join(f'{k}={v}' for k, v in shown.items())}]"
    enabled.range(1).write.format("delta").save(path)
    by_path = facts_of(enabled.sql(f"DESCRIBE EXTENDED delta.`{path}`"))
    assert (by_path["Namespace"], by_path["Table"], by_path["Type"]) == ("delta", path, "MANAGED")
    assert "Is_managed_location" not in by_path
    enabled.sql(f"DROP TABLE {name}")
    enabled.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
    assert facts_of(enabled.sql(f"DESCRIBE EXTENDED {name}"))["Type"] == "EXTERNAL"


def test_reorg_gives_what_optimize_does(enabled: SparkSession, path: str) -> None:
    name = f"delta.`{path}`"
    enabled.sql(f"CREATE TABLE {name} (id BIGINT, p INT) USING delta PARTITIONED BY (p)")
    enabled.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for p in (1, 2, 3):
        enabled.range(10).selectExpr("id", f"{p} AS p").coalesce(1).write.format("delta").mode("append").save(path)
    enabled.sql(f"DELETE FROM {name} WHERE id = 1 AND p < 3")
    (done,) = enabled.sql(f"REORG TABLE {name} WHERE p < 3 APPLY (PURGE)").collect()
    metrics = done.metrics
    assert (metrics.numFilesAdded, metrics.numFilesRemoved, metrics.partitionsOptimized) == (2, 2, 2)
    assert (metrics.totalConsideredFiles, metrics.totalFilesSkipped, metrics.numBatches) == (2, 0, 1)
    sizes = sorted(
        row["size_bytes"] for row in DeltaTable(path).get_add_actions().to_pylist() if row["partition"]["p"] < 3
    )
    assert (metrics.filesAdded.min, metrics.filesAdded.max, metrics.filesAdded.totalSize) == (*sizes, sum(sizes))
    assert done.version == DeltaTable(path).version()
    (again,) = enabled.sql(f"REORG TABLE {name} APPLY (PURGE)").collect()
    assert (again.metrics.numFilesAdded, again.metrics.totalConsideredFiles, again.version) == (0, 3, None)
    assert again.metrics.filesAdded.min is None


def test_what_delta_spark_refuses_has_its_condition(enabled: SparkSession, path: str) -> None:
    name = f"delta.`{path}`"
    enabled.range(2).write.format("delta").save(path)
    for statement, kind, condition in (
        (f"SHOW CREATE TABLE {name}", AnalysisException, "DELTA_OPERATION_NOT_ALLOWED"),
        (f"ANALYZE TABLE {name} COMPUTE STATISTICS", AnalysisException, "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"),
        (f"OPTIMIZE {name} FULL", UnsupportedOperationException, "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"),
    ):
        with pytest.raises(kind) as raised:
            enabled.sql(statement)
        assert raised.value.getCondition() == condition
    with pytest.raises(IllegalArgumentException) as raised:
        SparkTable.forPath(enabled, path).generate("other")
    assert raised.value.getCondition() == "DELTA_MODE_NOT_SUPPORTED"
    truncated = enabled.sql(f"/* all */ TRUNCATE TABLE {name}")
    assert (truncated.columns, enabled.read.format("delta").load(path).count()) == ([], 0)


def test_rows_written_anew_are_no_change(enabled: SparkSession, path: str) -> None:
    rows = enabled.range(6).selectExpr("id", "id % 2 AS p")
    writer = rows.repartition(3).write.format("delta").mode("append")
    writer.partitionBy("p").save(path)

    def rewritten(mode: str, **options: str) -> None:
        rows = enabled.createDataFrame(enabled.read.format("delta").load(path).collect())
        if "replaceWhere" in options:
            rows = rows.where(options["replaceWhere"])
        rows.coalesce(1).write.format("delta").mode(mode).option("dataChange", False).options(**options).save(path)

    def flags() -> set[bool]:
        log = Path(path) / "_delta_log" / f"{DeltaTable(path).version():020}.json"
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        return {
            action_of_kind["dataChange"]
            for action in actions
            for kind, action_of_kind in action.items()
            if kind in ("add", "remove")
        }

    for options in ({}, {"replaceWhere": "p = 1"}, {"partitionOverwriteMode": "dynamic"}):
        rewritten("overwrite", **options)
        assert flags() == {False}
        assert sorted(row.id for row in enabled.read.format("delta").load(path).collect()) == list(range(6))
    assert DeltaTable(path).version() == 3
    assert not list(DeltaTable(path).tail(since=0))
    with pytest.raises(InvalidArgumentError) as raised:
        rewritten("overwrite", replaceWhere="id = 1")
    assert raised.value.getCondition() == "DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET"  # type: ignore[attr-defined]
    for frame, options, place in (
        (rows.selectExpr("*", "1 AS more"), {"mergeSchema": "true"}, path),
        (rows, {}, f"{path} new"),
    ):
        with pytest.raises(AnalysisException) as refused:
            frame.write.format("delta").mode("append").options(dataChange="false", **options).save(place)
        assert refused.value.getCondition() == "DELTA_DATA_CHANGE_FALSE"
    assert not DeltaTable.is_deltatable(f"{path} new")
