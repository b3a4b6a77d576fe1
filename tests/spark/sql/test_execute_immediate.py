"""EXECUTE IMMEDIATE … USING with statements that change Delta tables, compared with the same
statements with literals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from deltaplane.exceptions import InvalidArgumentError
from sparks import needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@needs_spark("4.1", "reads '' within a text as the end of one text and the beginning of another")
def test_values_by_place_by_name_and_of_variables(enabled: SparkSession, path: str) -> None:
    run, table = enabled.sql, f"delta.`{path}`"
    run(f"CREATE TABLE {table} (id INT, s STRING, d DATE, n DECIMAL(4, 1)) USING delta")
    run(f"EXECUTE IMMEDIATE 'INSERT INTO {table} VALUES (?, ?, ?, ?)' USING 1, 'it''s', DATE '2024-02-29', 1.5")
    run(f"EXECUTE IMMEDIATE 'INSERT INTO {table} (id, s) VALUES (:a, :b)' USING (-2 AS a, CAST(NULL AS STRING) AS b)")
    run("DECLARE OR REPLACE VARIABLE immediate_x INT DEFAULT 3")
    run(f"DECLARE OR REPLACE VARIABLE immediate_text STRING DEFAULT 'DELETE FROM {table} WHERE id = ?'")
    try:
        run(f"EXECUTE IMMEDIATE 'INSERT INTO {table} (id, s) VALUES (:a, :b)' USING immediate_x AS a, upper('b') AS b")
        run(f"EXECUTE IMMEDIATE 'UPDATE {table} SET s = ? WHERE id = ?' USING 'z?', immediate_x")
        merge = "USING (SELECT :i AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, :w)"
        run(f"EXECUTE IMMEDIATE 'MERGE INTO {table} t {merge}' USING 7 AS i, 'w' AS w")
        run("EXECUTE IMMEDIATE immediate_text USING -2")
        run(f"EXECUTE IMMEDIATE 'UPDATE {table} SET s = immediate_x WHERE id = :id' USING 7 AS id")
        run(f"EXECUTE IMMEDIATE 'SELECT count(*) FROM {table} WHERE id > ?' INTO immediate_x USING 0")
        assert rows(run("SELECT immediate_x")) == [(3,)]
    finally:
        run("DROP TEMPORARY VARIABLE immediate_x")
        run("DROP TEMPORARY VARIABLE immediate_text")
    rows_read = rows(run(f"SELECT id, s, CAST(d AS STRING), CAST(n AS STRING) FROM {table}"))
    assert rows_read == [(1, "it's", "2024-02-29", "1.5"), (3, "z?", None, None), (7, "3", None, None)]


@needs_spark("4.0", "has no EXECUTE IMMEDIATE")
def test_values_that_dont_fit_change_nothing(enabled: SparkSession, path: str) -> None:
    run, table = enabled.sql, f"delta.`{path}`"
    run(f"CREATE TABLE {table} (id INT, s STRING) USING delta")
    for values, says in (
        ("1", "2 parameters"),
        ("1, 'a', 'b'", "3 values"),
        ("rand(), 'b'", "isn't a constant"),
    ):
        with pytest.raises(InvalidArgumentError, match=says):
            run(f"EXECUTE IMMEDIATE 'INSERT INTO {table} VALUES (?, ?)' USING {values}")
    with pytest.raises(InvalidArgumentError, match="no value of this name"):
        run(f"EXECUTE IMMEDIATE 'INSERT INTO {table} VALUES (:a, :b)' USING 1 AS a")
    with pytest.raises(InvalidArgumentError, match="use one kind"):
        run(f"EXECUTE IMMEDIATE 'INSERT INTO {table} VALUES (?, :b)' USING 1 AS a, 'b' AS b")
    with pytest.raises(InvalidArgumentError, match="leave INTO out"):
        run(f"EXECUTE IMMEDIATE 'DELETE FROM {table} WHERE id = ?' INTO nothing USING 0")
    with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
        run(f"EXECUTE IMMEDIATE 'INSERT INTO {table} VALUES (?, ?)' USING id, s")
    assert rows(run(f"SELECT * FROM {table}")) == []
