"""CREATE TABLE … USING delta without columns. Expected values are those of delta-spark 4.4.0 on
Spark 4.2, except that such a table is read as no rows, where delta-spark refuses to read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from deltaplane import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def condition_of(run: Callable[[], object]) -> str | None:
    with pytest.raises(PySparkException) as refused:
        run()
    return refused.value.getCondition()


def rows_of(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT 1 AS id, 'a' AS v")


# What is written to a table without columns, with the condition of delta-spark's refusal; None
# where the table gets the columns of the rows.
WRITES: dict[str, tuple[Callable[[SparkSession, str, str], object], str | None]] = {
    "append": (lambda s, t, p: rows_of(s).write.format("delta").mode("append").save(p), "DELTA_METADATA_MISMATCH"),
    "append, merges": (
        lambda s, t, p: rows_of(s).write.format("delta").mode("append").option("mergeSchema", "true").save(p),
        None,
    ),
    "saveAsTable, merges": (
        lambda s, t, p: rows_of(s).write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable(t),
        None,
    ),
    "overwrite": (
        lambda s, t, p: rows_of(s).write.format("delta").mode("overwrite").saveAsTable(t),
        "DELTA_METADATA_MISMATCH",
    ),
    "overwriteSchema": (
        lambda s, t, p: rows_of(s).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(p),
        None,
    ),
    "insertInto": (lambda s, t, p: rows_of(s).write.insertInto(t), "DELTA_METADATA_MISMATCH"),
    "writeTo": (lambda s, t, p: rows_of(s).writeTo(t).append(), "DELTA_METADATA_MISMATCH"),
    "writeTo, merges": (lambda s, t, p: rows_of(s).writeTo(t).option("mergeSchema", "true").append(), None),
    "insert": (lambda s, t, p: s.sql(f"INSERT INTO {t} SELECT 1 AS id, 'a' AS v"), "DELTA_METADATA_MISMATCH"),
    "insert, evolves": (
        lambda s, t, p: s.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {t} SELECT 1 AS id, 'a' AS v"),
        None,
    ),
    "merge": (
        lambda s, t, p: s.sql(
            f"MERGE INTO {t} USING (SELECT 1 AS id, 'a' AS v) q ON false WHEN NOT MATCHED THEN INSERT *"
        ),
        "DELTA_MERGE_INTO_EMPTY_SCHEMA_TARGET",
    ),
    "merge, evolves": (
        lambda s, t, p: s.sql(
            f"MERGE WITH SCHEMA EVOLUTION INTO {t} USING (SELECT 1 AS id, 'a' AS v) q ON false "
            "WHEN NOT MATCHED THEN INSERT *"
        ),
        None,
    ),
    "alter": (
        lambda s, t, p: (
            s.sql(f"ALTER TABLE {t} ADD COLUMNS (id int, v string)"),
            s.sql(f"INSERT INTO {t} VALUES (1, 'a')"),
        ),
        None,
    ),
}


@pytest.mark.parametrize("case", WRITES)
def test_a_write_gives_the_columns(enabled: SparkSession, name: str, path: str, case: str) -> None:
    write, condition = WRITES[case]
    enabled.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
    assert (DeltaTable(path).schema().fields, enabled.table(name).columns) == ([], [])
    if condition is not None:
        assert condition_of(lambda: write(enabled, name, path)) == condition
        assert DeltaTable(path).version() == 0
        assert enabled.table(name).collect() == []
    else:
        write(enabled, name, path)
        assert enabled.table(name).schema.simpleString() == "struct<id:int,v:string>"
        assert [tuple(row) for row in enabled.table(name).collect()] == [(1, "a")]


def test_a_managed_table_without_columns(enabled: SparkSession, name: str) -> None:
    create = f"CREATE TABLE {name} USING delta"
    enabled.sql(f"{create} COMMENT 'c' TBLPROPERTIES ('delta.appendOnly' = 'true', 'a' = 'b')")
    (detail,) = enabled.sql(f"DESCRIBE DETAIL {name}").collect()
    assert (detail.description, detail.properties) == ("c", {"delta.appendOnly": "true", "a": "b"})
    (entry,) = enabled.sql(f"DESCRIBE HISTORY {name}").collect()
    assert (entry.operation, entry.operationParameters["isManaged"]) == ("CREATE TABLE", "true")
    assert condition_of(lambda: enabled.sql(create)) == "TABLE_OR_VIEW_ALREADY_EXISTS"
    enabled.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta")
    copied = condition_of(lambda: enabled.sql(f"CREATE TABLE {name}_2 USING delta AS SELECT * FROM {name}"))
    assert copied == "DELTA_EMPTY_DATA"
    assert DeltaTable(detail.location.removeprefix("file:")).version() == 0


def test_what_replaces_or_orders_a_table_has_columns(enabled: SparkSession, name: str, path: str) -> None:
    assert condition_of(lambda: enabled.sql(f"CREATE OR REPLACE TABLE {name} USING delta")) == (
        "DELTA_SCHEMA_NOT_PROVIDED"
    )
    assert condition_of(lambda: enabled.sql(f"REPLACE TABLE {name} USING delta")) == "TABLE_OR_VIEW_NOT_FOUND"
    for clause in ("PARTITIONED BY (x)", "CLUSTER BY (x)"):
        ordered = f"CREATE TABLE {name} USING delta {clause}"
        assert condition_of(lambda ordered=ordered: enabled.sql(ordered)) == "_LEGACY_ERROR_TEMP_1165"
    enabled.sql(f"CREATE TABLE {name} (id int) USING delta LOCATION '{path}'")
    for statement in (
        f"CREATE OR REPLACE TABLE {name}",
        f"REPLACE TABLE {name}",
        f"CREATE OR REPLACE TABLE delta.`{path}`",
    ):
        replaces = f"{statement} USING delta"
        assert condition_of(lambda replaces=replaces: enabled.sql(replaces)) == "DELTA_SCHEMA_NOT_PROVIDED"
    located = f"CREATE OR REPLACE TABLE {name}_2 USING delta LOCATION '{path}'"
    assert condition_of(lambda: enabled.sql(located)) == "DELTA_SCHEMA_NOT_PROVIDED"
    assert DeltaTable(path).version() == 0


def test_a_location_with_a_table_or_other_files(enabled: SparkSession, name: str, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    enabled.sql(f"CREATE TABLE delta.`{path}` (id int) USING delta TBLPROPERTIES ('a' = 'b')")
    for clause in ("", "COMMENT 'c'", "TBLPROPERTIES ('a' = 'b')"):
        enabled.sql(f"CREATE TABLE {name} USING delta {clause} LOCATION '{path}'")
        assert enabled.table(name).columns == ["id"]
        enabled.sql(f"DROP TABLE {name}")
    for clause in ("TBLPROPERTIES ('a' = 'z')", "OPTIONS ('x' = 'y')"):
        other = f"CREATE TABLE {name} USING delta {clause} LOCATION '{path}'"
        assert condition_of(lambda other=other: enabled.sql(other)) == "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY"
    assert DeltaTable(path).version() == 0
    files = tmp_path / "files"
    files.mkdir()
    (files / "x.parquet").write_bytes(b"")
    assert condition_of(lambda: enabled.sql(f"CREATE TABLE {name} USING delta LOCATION '{files}'")) == (
        "DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_TXN_LOG"
    )
