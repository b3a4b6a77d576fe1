"""INSERT and `insertInto` of rows with other columns than the table's: delta-spark 4.4's results,
as recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import deltaplane
from deltaplane.exceptions import DeltaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

AUTO_MERGE = "spark.databricks.delta.schema.autoMerge.enabled"
FLAT = ("a int, b string", "1, 'one'", "")
WIDENS = ("a int, b string", "1, 'one'", "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
NESTED = ("a int, b string, s struct<x: int, y: string>", "1, 'one', named_struct('x', 1, 'y', 'p')", "")
LISTS = ("a array<struct<x: int, y: string>>", "array(named_struct('x', 1, 'y', 'p'))", "")
PARTS = ("a int, b string", "1, 'one'", "PARTITIONED BY (b)")
MORE = "SELECT 2 AS a, 'two' AS b, 5 AS c"
ARITY, MISMATCH = "DELTA_INSERT_COLUMN_ARITY_MISMATCH", "DELTA_METADATA_MISMATCH"
UNKNOWN = "UNRESOLVED_COLUMN.WITH_SUGGESTION"

# The table; the statement, or the query whose rows `insertInto` takes; whether the session allows
# schema changes; and the newest row, or the error's condition.
CASES: list[tuple[tuple[str, str, str], str, bool, Any]] = [
    (FLAT, MORE, True, {"a": 2, "b": "two", "c": 5}),
    (FLAT, MORE, False, MISMATCH),
    (FLAT, "SELECT 2 AS p, 'two' AS q, 5 AS r", True, {"a": 2, "b": "two", "r": 5}),
    (FLAT, "SELECT 2 AS p, 'two' AS q, 5 AS A", True, "DELTA_DUPLICATE_COLUMNS_FOUND.DATA"),
    (FLAT, "SELECT 2 AS b, 'two' AS a, 3 AS c", True, {"a": 2, "b": "two", "c": 3}),
    (FLAT, "SELECT '3' AS a, 'two' AS b, 1 AS c", True, {"a": 3, "b": "two", "c": 1}),
    (FLAT, "SELECT 2 AS a", True, ARITY),
    (FLAT, "SELECT 2 AS a", False, ARITY),
    (FLAT, "SELECT 3L AS a, 'two' AS b", True, {"a": 3, "b": "two"}),
    (WIDENS, "SELECT 3000000000L AS a, 'two' AS b", True, {"a": 3000000000, "b": "two"}),
    (
        NESTED,
        "SELECT 2 AS a, 'two' AS b, named_struct('x', 2, 'y', 'q', 'z', 9) AS s",
        True,
        {"a": 2, "b": "two", "s": {"x": 2, "y": "q", "z": 9}},
    ),
    (NESTED, "SELECT 2 AS a, 'two' AS b, named_struct('x', 2, 'y', 'q', 'z', 9) AS s", False, MISMATCH),
    (NESTED, "SELECT 2 AS a, 'two' AS b, named_struct('x', 2) AS s", True, ARITY),
    (
        NESTED,
        "SELECT 2 AS a, 'two' AS b, named_struct('k', 2, 'l', 'q', 'm', 3) AS s",
        True,
        {"a": 2, "b": "two", "s": {"x": 2, "y": "q", "m": 3}},
    ),
    # Fields are matched by name if the columns' names are the table's and no value needs a cast,
    # otherwise by position.
    (
        NESTED,
        "SELECT 2 AS a, 'two' AS b, named_struct('y', '7', 'x', 2) AS s",
        False,
        {"a": 2, "b": "two", "s": {"x": 2, "y": "7"}},
    ),
    (
        NESTED,
        "SELECT 2 AS a, 'two' AS b, named_struct('y', '7', 'x', 2) AS s",
        True,
        {"a": 2, "b": "two", "s": {"x": 2, "y": "7"}},
    ),
    (
        NESTED,
        "INSERT INTO {t} SELECT 2 AS a, 'two' AS b, named_struct('y', '7', 'x', 2) AS s",
        False,
        {"a": 2, "b": "two", "s": {"x": 2, "y": "7"}},
    ),
    (
        NESTED,
        "INSERT INTO {t} SELECT 2 AS a, 'two' AS b, named_struct('y', '7', 'x', 2L) AS s",
        False,
        {"a": 2, "b": "two", "s": {"x": 7, "y": "2"}},
    ),
    (
        NESTED,
        "INSERT INTO {t} SELECT 2L AS a, 'two' AS b, named_struct('y', '7', 'x', 2) AS s",
        False,
        {"a": 2, "b": "two", "s": {"x": 7, "y": "2"}},
    ),
    (
        NESTED,
        "INSERT INTO {t} (a, b, s) SELECT 2, 'two', named_struct('y', '7', 'x', 2)",
        False,
        {"a": 2, "b": "two", "s": {"x": 7, "y": "2"}},
    ),
    (LISTS, "SELECT array(named_struct('x', 2, 'y', 'q', 'z', 9)) AS a", True, {"a": [{"x": 2, "y": "q", "z": 9}]}),
    (PARTS, MORE, True, {"a": 2, "b": "two", "c": 5}),
    (FLAT, "INSERT INTO {t} (a, c) SELECT 2, 5", True, UNKNOWN),
    (FLAT, "INSERT INTO {t} (c, b, a) VALUES (5, 'two', 2)", True, UNKNOWN),
    (FLAT, "INSERT INTO {t} (b) SELECT 'two'", True, {"a": None, "b": "two"}),
    (FLAT, "INSERT INTO {t} (b) VALUES ('two')", True, {"a": None, "b": "two"}),
    (FLAT, "INSERT INTO {t} (a) SELECT 2, 3", True, "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS"),
    (FLAT, "INSERT INTO {t} (a, b) SELECT 2", True, "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"),
    (FLAT, "INSERT INTO {t} SELECT 2", True, ARITY),
    (FLAT, "INSERT INTO {t} VALUES (2)", True, ARITY),
    (FLAT, "INSERT WITH SCHEMA EVOLUTION INTO {t} VALUES (2)", False, ARITY),
    (FLAT, "INSERT INTO {t} " + MORE, True, {"a": 2, "b": "two", "c": 5}),
    (FLAT, "INSERT INTO {t} " + MORE, False, MISMATCH),
    (FLAT, "INSERT INTO {t} VALUES (2, 'two', 5)", True, {"a": 2, "b": "two", "col3": 5}),
    (FLAT, "INSERT WITH SCHEMA EVOLUTION INTO {t} VALUES (2, 'two', 5)", False, {"a": 2, "b": "two", "col3": 5}),
    (FLAT, "INSERT INTO {t} BY NAME SELECT 5 AS c, 2 AS a, 'two' AS b", True, {"a": 2, "b": "two", "c": 5}),
    (WIDENS, "INSERT INTO {t} (b, a) SELECT 'two', 3000000000L", True, {"a": 3000000000, "b": "two"}),
    (WIDENS, "INSERT INTO {t} VALUES (3000000000L, 'two')", True, {"a": 3000000000, "b": "two"}),
    (PARTS, "INSERT INTO {t} PARTITION (b = 'two') SELECT 2 AS a, 5 AS c", True, {"a": 2, "b": "two", "c": 5}),
    (FLAT, "INSERT INTO {t} REPLACE WHERE a = 2 " + MORE, True, {"a": 2, "b": "two", "c": 5}),
]


def test_rows_with_other_columns(spark: SparkSession, tmp_path: Path, conf: dict[str, str]) -> None:
    made = dict[str, str]()
    differing = []
    for number, (shape, statement, evolves, expected) in enumerate(CASES):
        key = json.dumps(shape)
        if key not in made:
            conf[AUTO_MERGE] = "false"
            columns, row, rest = shape
            made[key] = f"delta.`{tmp_path / f'made {len(made)}'}`"
            spark.sql(f"CREATE TABLE {made[key]} ({columns}) USING delta {rest}")
            spark.sql(f"INSERT INTO {made[key]} VALUES ({row})")
        path = str(tmp_path / f"table {number}")
        spark.sql(f"CREATE TABLE delta.`{path}` SHALLOW CLONE {made[key]}")
        conf[AUTO_MERGE] = str(evolves).lower()
        try:
            if "{t}" in statement:
                spark.sql(statement.format(t=f"delta.`{path}`"))
            else:
                spark.sql(statement).write.option("mergeSchema", str(not evolves)).insertInto(f"delta.`{path}`")
            rows = deltaplane.DeltaTable(path).to_pyarrow_table().to_pylist()
            assert len(rows) == 2
            answer: Any = next(row for row in rows if row["a"] != 1 and "'y': 'p'" not in str(row))
        except DeltaError as e:
            refused: Any = e
            answer = refused.getCondition() or str(e)
        if answer != expected:
            differing.append((statement, evolves, answer, expected))
    assert not differing
