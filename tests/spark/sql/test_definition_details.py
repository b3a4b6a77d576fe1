"""Details of statements that define tables: what delta-spark 4.4 does with the same statements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from deltaplane import DeltaTable
from deltaplane.exceptions import DeltaError, InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def rows(spark: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(text).collect()), key=repr)


def test_a_void_column_gets_a_type(enabled: SparkSession, path: str) -> None:
    run, table = enabled.sql, f"delta.`{path}`"
    run(f"CREATE TABLE {table} USING delta AS SELECT 1 AS id, NULL AS v, NULL AS w")
    run(f"ALTER TABLE {table} ALTER COLUMN v TYPE INT")
    run(f"ALTER TABLE {table} CHANGE COLUMN W w STRING")
    run(f"INSERT INTO {table} VALUES (2, 5, 'x')")
    assert rows(enabled, f"SELECT * FROM {table}") == [(1, None, None), (2, 5, "x")]
    assert [commit["operation"] for commit in DeltaTable(path).history(3)] == [
        "WRITE",
        "CHANGE COLUMN",
        "CHANGE COLUMN",
    ]
    # No type was changed that a reader of old files must know of.
    assert "typeWidening" not in (DeltaTable(path).protocol().writer_features or ())
    with pytest.raises(DeltaError, match="may only become wider"):
        run(f"ALTER TABLE {table} ALTER COLUMN v TYPE STRING")


def test_change_column_takes_type_comment_and_place_in_one_commit(enabled: SparkSession, path: str) -> None:
    run, table = enabled.sql, f"delta.`{path}`"
    run(f"CREATE TABLE {table} (id INT, s STRING) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    run(f"ALTER TABLE {table} CHANGE COLUMN id id BIGINT COMMENT 'k' AFTER s")
    (last,) = DeltaTable(path).history(1)
    assert (last["version"], last["operation"]) == (1, "CHANGE COLUMN")
    column = json.loads(last["operationParameters"]["column"])
    assert (column["name"], column["type"], column["metadata"]["comment"]) == ("id", "long", "k")
    assert last["operationParameters"]["position"] == "AFTER s"
    fields = DeltaTable(path).schema().fields
    assert [(field.name, field.type.type, field.metadata.get("comment")) for field in fields] == [
        ("s", "string", None),
        ("id", "long", "k"),
    ]
    with pytest.raises(DeltaError, match="comment twice"):
        run(f"ALTER TABLE {table} CHANGE COLUMN id id BIGINT COMMENT 'a' COMMENT 'b'")


def test_the_property_comment_is_the_comment_of_the_table(enabled: SparkSession, path: str) -> None:
    run, table = enabled.sql, f"delta.`{path}`"
    run(f"CREATE TABLE {table} (id INT) USING delta TBLPROPERTIES ('comment' = 'first', 'a' = 'b')")

    def said() -> tuple[str | None, dict[str, str]]:
        metadata = DeltaTable(path).metadata()
        return metadata.description, dict(metadata.configuration)

    assert said() == ("first", {"a": "b"})
    run(f"ALTER TABLE {table} SET TBLPROPERTIES ('comment' = 'second', 'c' = 'd')")
    assert said() == ("second", {"a": "b", "c": "d"})
    assert DeltaTable(path).history(1)[0]["operation"] == "SET TBLPROPERTIES"
    run(f"CREATE OR REPLACE TABLE {table} (id INT) USING delta TBLPROPERTIES ('comment' = 'p') COMMENT 'clause'")
    assert said() == ("clause", {})


@pytest.mark.parametrize("kind", ["TEMPORARY TABLE", "OR REPLACE TEMP VIEW", "GLOBAL TEMPORARY VIEW"])
def test_a_temporary_view_takes_no_columns_of_its_own(enabled: SparkSession, path: str, kind: str) -> None:
    run = enabled.sql
    run(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    run(f"INSERT INTO delta.`{path}` VALUES (7)")
    for options in ("", f" OPTIONS (path '{path}')"):
        with pytest.raises(InvalidArgumentError, match="takes no list of columns"):
            run(f"CREATE {kind} temporary_one (id INT) USING Delta{options}")
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("SELECT * FROM temporary_one").collect()
    run(f"CREATE TEMPORARY TABLE temporary_one USING delta OPTIONS (path '{path}')")
    try:
        assert rows(enabled, "SELECT * FROM temporary_one") == [(7,)]
    finally:
        run("DROP VIEW temporary_one")


def test_structs_of_insert_by_name(enabled: SparkSession, path: str) -> None:
    """delta-spark refuses structs that lack a field. It finds fields by name where no value needs a
    cast, and by place where one does: this finds them by name."""
    run, table = enabled.sql, f"delta.`{path}`"
    run(
        f"CREATE TABLE {table} (id INT, n STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<a: INT, b: STRING>>, "
        "m MAP<STRING, STRUCT<a: INT, b: STRING>>) USING delta"
    )
    for value in (
        "named_struct('b', 'x') AS n",
        "named_struct('a', 1L) AS n",
        "CAST(NULL AS STRUCT<a: INT>) AS n",
        "array(named_struct('a', 1)) AS l",
        "map('k', named_struct('a', 1)) AS m",
    ):
        for verb in ("INSERT INTO", "INSERT OVERWRITE"):
            with pytest.raises(DeltaError, match="DELTA_INSERT_COLUMN_ARITY_MISMATCH"):
                run(f"{verb} {table} BY NAME SELECT 1 AS id, {value}")
    assert DeltaTable(path).version() == 0
    run(f"INSERT INTO {table} BY NAME SELECT named_struct('B', 'x', 'A', 1) AS n, 2 AS id")
    run(f"INSERT INTO {table} BY NAME SELECT named_struct('b', 5, 'a', 7L) AS n, 3L AS id")
    run(f"INSERT INTO {table} BY NAME SELECT NULL AS n, 4 AS id")
    assert rows(enabled, f"SELECT id, n.a, n.b FROM {table}") == [(2, 1, "x"), (3, 7, "5"), (4, None, None)]
