"""CHAR(n) and VARCHAR(n) on Spark: the log's metadata, reading, filtering and refusals. Expected
values are those of delta-spark 4.4 on Spark 4.2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import ConstraintViolationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"
COLUMNS = "(id INT, c CHAR(3), v VARCHAR(4), s STRUCT<a: CHAR(2), b: VARCHAR(2)>, l ARRAY<CHAR(2)>, m MAP<VARCHAR(2), CHAR(2)>)"


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def lengths(path: str) -> dict[str, str]:
    return {f.name: f.metadata[LENGTHS] for f in DeltaTable(path).schema().fields if LENGTHS in f.metadata}


def stored(path: str, column: str) -> list[str]:
    values: list[str] = DeltaTable(path).to_pyarrow_table()[column].to_pylist()
    return sorted(values)


@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"])
def test_char_is_stored_as_it_comes_and_padded_when_it_is_read(
    enabled: SparkSession, path: str, conf: dict[str, str], properties: str
) -> None:
    run, table = enabled.sql, f"delta.`{path}`"
    run(f"CREATE TABLE {table} {COLUMNS} USING delta {properties}")
    assert lengths(path) == {
        "c": "char(3)",
        "v": "varchar(4)",
        "s": "struct<a:char(2),b:varchar(2)>",
        "l": "array<char(2)>",
        "m": "map<varchar(2),char(2)>",
    }
    run(f"INSERT INTO {table} VALUES (1, 'a', 'b', struct('x', 'y'), array('e'), map('k', 'w'))")
    run(f"INSERT INTO {table} (id, c) VALUES (2, 'abc')")
    assert stored(path, "c") == ["a", "abc"]
    read = "length(c), length(v), length(s.a), length(l[0]), length(m['k'])"
    assert rows(run(f"SELECT {read} FROM {table} WHERE id = 1")) == [(3, 1, 2, 2, 2)]
    for met in ("c = 'a'", "c = 'a  '", "c = 'a '", "c IN ('a', 'z')", "v = 'b'"):
        assert rows(run(f"SELECT id FROM {table} WHERE {met}")) == [(1,)], met
    conf["spark.sql.readSideCharPadding"] = "false"
    assert rows(run(f"SELECT id, length(c) FROM {table}")) == [(1, 1), (2, 3)]
    conf["spark.sql.readSideCharPadding"] = "true"
    conf["spark.sql.legacy.charVarcharAsString"] = "true"
    assert rows(run(f"SELECT length(c) FROM {table} WHERE c = 'a'")) == [(1,)]


def test_values_that_are_too_long_are_refused(enabled: SparkSession, path: str) -> None:
    run, table = enabled.sql, f"delta.`{path}`"
    run(f"CREATE TABLE {table} {COLUMNS} USING delta")
    run(f"INSERT INTO {table} (id, c, v) VALUES (1, 'a', 'b')")
    for statement in (
        "INSERT INTO {t} (id, c) VALUES (3, 'abcd')",
        "INSERT INTO {t} (id, c) VALUES (3, 'abc  ')",
        "INSERT INTO {t} (id, v) VALUES (3, 'abcd ')",
        "INSERT INTO {t} (id, s) VALUES (3, struct('xxx', 'y'))",
        "INSERT INTO {t} (id, l) VALUES (3, array('eee'))",
        "INSERT INTO {t} (id, m) VALUES (3, map('kkk', 'w'))",
        "UPDATE {t} SET c = 'zzzz' WHERE id = 1",
        "MERGE INTO {t} t USING (SELECT 1 AS id, 'mmmm' AS c) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET c = s.c",
        "MERGE INTO {t} t USING (SELECT 9 AS id, 'nnnnn' AS v) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
    ):
        with pytest.raises(ConstraintViolationError, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
            run(statement.format(t=table))
    frame = enabled.sql("SELECT 3 AS id, 'aaaa' AS c")
    with pytest.raises(ConstraintViolationError, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
        frame.write.format("delta").mode("append").save(path)
    assert stored(path, "c") == ["a"]


def test_commands_find_rows_whatever_blanks_files_have(enabled: SparkSession, path: str) -> None:
    import pyarrow as pa

    run, table = enabled.sql, f"delta.`{path}`"
    run(f"CREATE TABLE {table} (id INT, c CHAR(3)) USING delta")
    # Three writers, one of which pads: each file's bounds have one value.
    for number, value in enumerate(["a", "a  ", "b"]):
        write_deltalake(path, pa.table({"id": pa.array([number], pa.int32()), "c": [value]}), mode="append")
    run(f"UPDATE {table} SET id = id + 10 WHERE c = 'a'")
    assert rows(run(f"SELECT id FROM {table}")) == [(10,), (11,), (2,)]
    run(f"MERGE INTO {table} t USING (SELECT 'a  ' AS c) s ON t.c = s.c WHEN MATCHED THEN UPDATE SET id = t.id + 10")
    assert rows(run(f"SELECT id FROM {table}")) == [(2,), (20,), (21,)]
    run(f"DELETE FROM {table} WHERE c = 'a'")
    assert rows(run(f"SELECT id, c FROM {table}")) == [(2, "b  ")]


def test_tables_made_of_others_keep_lengths(enabled: SparkSession, name: str, path: str) -> None:
    run, table = enabled.sql, f"default.{name}"
    run(f"CREATE TABLE {table} (id INT, c CHAR(3), v VARCHAR(4)) USING delta LOCATION '{path}/one'")
    run(f"INSERT INTO {table} VALUES (1, 'a', 'b')")
    run(f"CREATE TABLE delta.`{path}/two` USING delta AS SELECT id, c, upper(c) AS u, v AS w FROM {table}")
    assert lengths(f"{path}/two") == {"c": "char(3)", "w": "varchar(4)"}
    assert stored(f"{path}/two", "c") == ["a  "]
    (shown,) = run(f"SHOW CREATE TABLE {table}").collect()
    assert "c CHAR(3),\n  v VARCHAR(4)" in shown[0].replace("`", "")
    assert [row[1] for row in run(f"DESCRIBE {table}").collect()][:3] == ["int", "string", "string"]
    run(f"CREATE OR REPLACE TABLE {table} (c VARCHAR(7)) USING delta LOCATION '{path}/one'")
    assert lengths(f"{path}/one") == {"c": "varchar(7)"}
