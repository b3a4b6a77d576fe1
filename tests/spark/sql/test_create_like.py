"""CREATE TABLE … LIKE … USING delta of a table in another format, and of a view: the results of
delta-spark 4.4."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import deltaplane
from deltaplane import DeltaTable, Field, Schema
from deltaplane.exceptions import DeltaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_delta_table_like_one_in_another_format(enabled: SparkSession, name: str, path: str) -> None:
    run, source = enabled.sql, f"default.{name}_parquet"
    run(
        f"CREATE TABLE {source} (id INT COMMENT 'k', c CHAR(3), p INT) USING parquet PARTITIONED BY (p) COMMENT 'about' "
        f"TBLPROPERTIES ('a' = 'b') LOCATION '{path}/parquet'"
    )
    try:
        run(
            f"CREATE TABLE default.{name} LIKE {source} USING delta LOCATION '{path}/delta' "
            "TBLPROPERTIES ('x' = 'y', 'delta.appendOnly' = 'false')"
        )
    finally:
        run(f"DROP TABLE {source}")
    table = DeltaTable(f"{path}/delta")
    noted = {f.name: (f.type.to_json(), f.metadata) for f in table.schema().fields}
    assert noted == {
        "id": ('"integer"', {"comment": "k"}),
        "c": ('"string"', {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}),
        "p": ('"integer"', {}),
    }
    metadata = table.metadata()
    assert (metadata.partition_columns, metadata.description) == (["p"], "about")
    assert metadata.configuration == {"a": "b", "x": "y", "delta.appendOnly": "false"}
    assert table.history(1)[0]["operation"] == "CREATE TABLE"
    run(f"INSERT INTO default.{name} VALUES (1, 'a', 2)")
    assert [tuple(row) for row in run(f"SELECT id, c, p FROM default.{name}").collect()] == [(1, "a  ", 2)]


def test_a_delta_table_like_a_view(enabled: SparkSession, name: str, path: str) -> None:
    enabled.range(3).createOrReplaceTempView("like_view")
    enabled.sql(f"CREATE TABLE default.{name} LIKE like_view USING delta LOCATION '{path}'")
    assert [(f.name, f.nullable) for f in DeltaTable(path).schema().fields] == [("id", False)]
    with pytest.raises(DeltaError, match="nowhere"):
        enabled.sql(f"CREATE TABLE delta.`{path}/other` LIKE nowhere USING delta")


@pytest.mark.parametrize("format", ["USING parquet", "USING json", "STORED AS parquet"])
def test_a_table_like_a_delta_table_is_one_whatever_its_format(
    enabled: SparkSession, name: str, path: str, format: str
) -> None:
    run, other = enabled.sql, f"default.{name}_other"
    run(
        f"CREATE TABLE default.{name} (id INT COMMENT 'k', v VARCHAR(4) NOT NULL, p INT) USING delta PARTITIONED BY (p) "
        f"COMMENT 'about' TBLPROPERTIES ('a' = 'b', 'delta.enableDeletionVectors' = 'true') LOCATION '{path}'"
    )
    run(f"CREATE TABLE {other} LIKE default.{name} {format} TBLPROPERTIES ('x' = 'y')")
    try:
        extended = {row.col_name: row.data_type for row in run(f"DESCRIBE EXTENDED {other}").collect()}
        assert (extended["Provider"], extended["Type"], extended["Comment"]) == ("delta", "MANAGED", "about")
        (detail,) = run(f"DESCRIBE DETAIL {other}").collect()
        assert detail.partitionColumns == ["p"]
        assert detail.properties == {"a": "b", "delta.enableDeletionVectors": "true", "x": "y"}
        assert enabled.table(other).schema == enabled.table(f"default.{name}").schema
        run(f"CREATE TABLE IF NOT EXISTS {other} LIKE default.{name} {format}")
        assert DeltaTable(detail.location.removeprefix("file:")).version() == 0
    finally:
        run(f"DROP TABLE {other}")


def test_a_table_like_one_in_another_format_keeps_to_spark(enabled: SparkSession, name: str, path: str) -> None:
    run = enabled.sql
    run(f"CREATE TABLE default.{name} (id INT) USING parquet")
    run(f"CREATE TABLE default.{name}_other LIKE default.{name} USING json")
    try:
        extended = {row.col_name: row.data_type for row in run(f"DESCRIBE EXTENDED default.{name}_other").collect()}
        assert extended["Provider"] == "json"
    finally:
        run(f"DROP TABLE default.{name}_other")
    with pytest.raises(DeltaError, match="leave USING parquet out"):
        run(f"CREATE TABLE delta.`{path}` LIKE default.{name} USING parquet")
    assert not DeltaTable.is_deltatable(path)


def test_without_spark_the_format_is_delta(tmp_path: Path) -> None:
    source, other = str(tmp_path / "source"), str(tmp_path / "other")
    DeltaTable.create(source, Schema([Field("id", "integer")]))
    with pytest.raises(DeltaError, match="expected DELTA: give the columns"):
        deltaplane.sql(f"CREATE TABLE delta.`{other}` LIKE delta.`{source}` USING parquet")
    assert not DeltaTable.is_deltatable(other)
