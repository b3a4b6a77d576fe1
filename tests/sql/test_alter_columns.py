"""ALTER TABLE … ALTER COLUMN: several columns in one commit, and columns of CHAR and VARCHAR."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import ConstraintViolationError, DeltaError, InvalidArgumentError, UnsupportedFeatureError

LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"


def lengths(path: str) -> dict[str, str]:
    return {f.name: f.metadata[LENGTHS] for f in DeltaTable(path).schema().fields if LENGTHS in f.metadata}


def last_operation(path: str) -> tuple[str, Any]:
    info = DeltaTable(path).history(1)[0]
    return info["operation"], json.loads(next(iter(info["operationParameters"].values())))


def test_several_columns_are_one_commit(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    sql(
        f"CREATE TABLE delta.`{path}` (a INT, b INT NOT NULL, c INT NOT NULL, s STRUCT<x: INT>) "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    )

    def change(text: str) -> None:
        sql(f"ALTER TABLE t {text}", tables={"t": path})

    change("ALTER COLUMN a COMMENT 'x', b TYPE BIGINT, c DROP NOT NULL, s.x COMMENT 'y'")
    table = DeltaTable(path)
    a, b, c, s = table.schema().fields
    assert table.version() == 1
    assert (a.metadata["comment"], b.type.type, c.nullable) == ("x", "long", True)
    assert s.type.fields[0].metadata == {"comment": "y"}
    operation, columns = last_operation(path)
    assert operation == "CHANGE COLUMNS"
    assert [(column["name"], column["type"], column["nullable"]) for column in columns] == [
        ("a", "integer", True),
        ("b", "long", False),
        ("c", "integer", True),
        ("s.x", "integer", True),
    ]
    change("ALTER COLUMN c FIRST, b AFTER c")
    assert [f.name for f in DeltaTable(path).schema().fields] == ["c", "b", "a", "s"]
    assert [column["position"] for column in last_operation(path)[1]] == ["FIRST", "AFTER c"]
    for wrong in ("a COMMENT 'n', nope COMMENT 'z'", "a COMMENT 'n', b TYPE STRING", "a COMMENT 'n', b SET NOT NULL"):
        with pytest.raises(DeltaError):
            change(f"ALTER COLUMN {wrong}")
    assert (DeltaTable(path).version(), DeltaTable(path).schema().fields[2].metadata) == (2, {"comment": "x"})


def test_lengths_are_declared_and_changed(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    sql(f"CREATE TABLE delta.`{path}` (id INT, c CHAR(3), v VARCHAR(4), s STRING, st STRUCT<a: VARCHAR(2), n: INT>)")

    def change(text: str) -> None:
        sql(f"ALTER TABLE t {text}", tables={"t": path})

    change("ADD COLUMNS (d CHARACTER(2), n ARRAY<STRUCT<`x-y`: CHAR(2), d: DECIMAL(5, 1)>>)")
    unchanged = {
        "st": "struct<a:varchar(2),n:int>",
        "d": "char(2)",
        "n": "array<struct<`x-y`:char(2),d:decimal(5,1)>>",
    }
    assert lengths(path) == {"c": "char(3)", "v": "varchar(4)", **unchanged}
    version = DeltaTable(path).version()
    for wrong in (
        *("v TYPE VARCHAR(3)", "v TYPE CHAR(20)", "c TYPE CHAR(5)", "c TYPE VARCHAR(2)", "s TYPE VARCHAR(10)"),
        *("s TYPE CHAR(10)", "id TYPE VARCHAR(3)", "d TYPE INT"),
    ):
        with pytest.raises(InvalidArgumentError, match="NOT_SUPPORTED_CHANGE_COLUMN"):
            change(f"ALTER COLUMN {wrong}")
    for nested in ("ALTER COLUMN st.a TYPE VARCHAR(9)", "ALTER COLUMN st.a TYPE STRING", "ADD COLUMN st.b INT"):
        with pytest.raises(UnsupportedFeatureError, match="as a whole only"):
            change(nested)
    with pytest.raises(InvalidArgumentError, match="stays"):
        change(
            "REPLACE COLUMNS (id INT, c STRING, v VARCHAR(4), s STRING, st STRUCT<a: VARCHAR(2), n: INT>, d CHAR(2), "
            "n ARRAY<STRUCT<`x-y`: CHAR(2), d: DECIMAL(5, 1)>>)"
        )
    assert DeltaTable(path).version() == version
    change("ALTER COLUMN v TYPE VARCHAR(10), c TYPE VARCHAR(3)")
    assert lengths(path) == {"c": "varchar(3)", "v": "varchar(10)", **unchanged}
    change("CHANGE COLUMN c c VARCHAR(3) COMMENT 'hi'")
    change("ALTER COLUMN v TYPE STRING")
    assert lengths(path) == {"c": "varchar(3)", **unchanged}
    write_deltalake(path, pa.table({"v": ["longer than ten"], "c": ["abc"]}), mode="append")
    with pytest.raises(ConstraintViolationError, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
        write_deltalake(path, pa.table({"c": ["abcd"]}), mode="append")


def test_lengths_hold_for_statements(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    sql(f"CREATE TABLE delta.`{path}` (id INT, c CHAR(3), m MAP<VARCHAR(2), CHAR(2)>)")
    sql("INSERT INTO t VALUES (1, 'a', map('k', 'w'))", tables={"t": path})
    for wrong in (
        "INSERT INTO t (id, c) VALUES (2, 'abcd')",
        "UPDATE t SET c = 'abc '",
        "INSERT INTO t (m) VALUES (map('kkk', 'w'))",
    ):
        with pytest.raises(ConstraintViolationError, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
            sql(wrong, tables={"t": path})
    copy = tmp_table()
    sql(f"CREATE TABLE delta.`{copy}` LIKE t", tables={"t": path})
    assert lengths(copy) == lengths(path) == {"c": "char(3)", "m": "map<varchar(2),char(2)>"}
    assert DeltaTable(path).to_pyarrow_table()["c"].to_pylist() == ["a"]
