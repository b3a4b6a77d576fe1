"""CREATE TABLE … LIKE … USING delta of a table in another format, and of a view: the results of
delta-spark 4.4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from deltaplane import DeltaTable
from deltaplane.exceptions import DeltaError, SqlSyntaxError

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


def test_a_table_in_another_format_like_a_delta_table_is_refused(enabled: SparkSession, name: str, path: str) -> None:
    enabled.sql(f"CREATE TABLE default.{name} (id INT) USING delta LOCATION '{path}'")
    with pytest.raises(SqlSyntaxError, match="give the columns"):
        enabled.sql(f"CREATE TABLE default.{name}_other LIKE default.{name} USING parquet")
