"""Columns of the type void on Spark: only nulls, until later data gives them a type. Expected
values are those of delta-spark 4.4.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from deltaplane import exceptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def shown(frame: DataFrame) -> tuple[str, list[tuple[object, ...]]]:
    return frame.schema.simpleString(), sorted((tuple(row) for row in frame.collect()), key=repr)


def test_a_void_column_is_there_and_takes_the_first_type(enabled: SparkSession, name: str) -> None:
    enabled.sql(f"CREATE TABLE {name} (id INT, n VOID) USING delta")
    assert [(row.col_name, row.data_type) for row in enabled.sql(f"DESCRIBE {name}").collect()][:2] == [
        ("id", "int"),
        ("n", "void"),
    ]
    enabled.sql(f"INSERT INTO {name} VALUES (1, NULL)")
    enabled.sql(f"INSERT INTO {name} (id) VALUES (2)")
    assert shown(enabled.table(name)) == ("struct<id:int,n:void>", [(1, None), (2, None)])
    with pytest.raises(AnalysisException, match="values are given") as too_few:
        enabled.sql(f"INSERT INTO {name} VALUES (3)")
    assert too_few.value.getCondition() == "DELTA_INSERT_COLUMN_ARITY_MISMATCH"
    typed = enabled.sql("SELECT 3 AS id, 'x' AS n")
    with pytest.raises(exceptions.SchemaMismatchError, match="`n` has no type in the table yet") as caught:
        typed.write.format("delta").mode("append").saveAsTable(name)
    assert caught.value.getCondition() == "DELTA_METADATA_MISMATCH"  # type: ignore[attr-defined]
    typed.write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable(name)
    enabled.sql(f"INSERT INTO {name} VALUES (4, 'y')")
    expected = [(1, None), (2, None), (3, "x"), (4, "y")]
    assert shown(enabled.table(name)) == ("struct<id:int,n:string>", expected)


def test_a_query_of_null_makes_a_void_column(enabled: SparkSession, name: str) -> None:
    enabled.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id, NULL AS n")
    assert shown(enabled.table(name)) == ("struct<id:int,n:void>", [(1, None)])
    enabled.sql(f"UPDATE {name} SET id = 7")
    assert shown(enabled.sql(f"SELECT n, id FROM {name}")) == ("struct<n:void,id:int>", [(None, 7)])
