"""Comments end where Spark's do, and text without an end is refused at once, whatever its
length."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaError, expr, write_deltalake
from deltaplane.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each valid text returns one row; `+ 5` and WHERE are inside or outside of a comment.
TEXTS = [
    "SELECT 1 AS a WHERE 1 = 1 -- C:\\\n AND 1 = 5",
    "SELECT 1 AS a -- C:\\\\\n + 5",
    "SELECT 1 -- some\\\r\n + 5 AS a",
    "SELECT 1 -- some\r + 5 AS a",
    "SELECT 1 AS a -- it's `one",
    "SELECT 1 AS a /* x /* y */ + 5 -- */",
    "SELECT /* a /* b */ c */ 1 AS a",
    "SELECT 1 /* a /*+ b */ + 5 AS a",
    "SELECT 1 AS a /*/ + 5 /*/ */ */",
    "SELECT /**/ 1 /***/ AS a",
    "SELECT 1 /* 'it */ + 5 AS a",
    "SELECT /*+ one(b) */ /*+ two, three */ 1 AS a",
    "SELECT '/* x' || \"-- y\" || r'\\' || '\\'--' AS a",
    "SELECT 1 AS `-- /* a`",
    "SELECT 4 - -1 AS a --1",
]
WRONG = [
    "SELECT 1 AS a /* x /* y */ + 5",
    "SELECT /*/*/ 1 AS a",
    "SELECT 2*/*c*/3 AS a",
    "SELECT 1 /*+ x */ AS a",
    "SELECT 1 AS a /* x",
    "SELECT 1 AS a, 'x",
    "SELECT 1 AS `a",
]


@pytest.mark.spark
@pytest.mark.parametrize("text", TEXTS)
def test_text_means_what_it_means_to_spark(spark: SparkSession, text: str) -> None:
    theirs = spark.sql(text).toArrow()
    assert theirs.num_rows == 1
    assert deltaplane.sql(text).to_pylist() == theirs.to_pylist()


@pytest.mark.spark
@pytest.mark.parametrize("text", WRONG)
def test_text_is_wrong_where_it_is_to_spark(spark: SparkSession, text: str) -> None:
    from pyspark.errors import ParseException

    with pytest.raises(ParseException):
        spark.sql(text)


@pytest.mark.parametrize("text", WRONG)
def test_wrong_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        deltaplane.sql(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("DELETE FROM t WHERE a = 5 -- C:\\\n OR a = 1", [1, 2]),
        ("DELETE FROM t WHERE length(string(a)) + a = 6 -- C:\\\n OR a = 1", [1, 2]),
        ("DELETE FROM t -- some\rWHERE a = 1", [2, 5]),
        ("DELETE FROM t WHERE a = /* /* 1 */ OR a = */ 5", [1, 2]),
        ("DELETE FROM t WHERE length(string(a)) + a = /* /* 1 */ OR a = */ 6", [1, 2]),
        ("DELETE FROM t WHERE a IN (1, /* 2 /* */, */ 5)", [2]),
    ],
)
def test_a_condition_ends_where_the_comment_begins(tmp_table: Callable[[], str], text: str, left: list[int]) -> None:
    where = tmp_table()
    write_deltalake(where, pa.table({"a": [1, 2, 5]}))
    deltaplane.sql(text, tables={"t": where})
    assert deltaplane.sql("SELECT a FROM t ORDER BY a", tables={"t": where})["a"].to_pylist() == left


@pytest.mark.parametrize(
    "condition", ["a = 1 /* b", "a = 1 /*+ b */", "a = 2*/*c*/3", "a = 1 {# b #}", "a = 'b", "`a = 1"]
)
def test_a_wrong_condition_is_refused(condition: str) -> None:
    with pytest.raises(InvalidArgumentError):
        expr.parse(condition)


# A search that restarts at each character would take minutes.
@pytest.mark.parametrize(
    "text",
    [
        "'" + "\\'" * 200_000,
        '"' + '\\"' * 200_000,
        "'" + "''" * 200_000,
        "`" + "``" * 200_000,
        "/* " * 200_000,
        "/* '" * 100_000 + "*/" * 99_999,
        "1 " + "--\\\n" * 200_000 + "\n'x",
    ],
)  # fmt: skip
def test_text_without_an_end_is_refused_at_once(text: str) -> None:
    start = time.monotonic()
    for run in (deltaplane.sql, expr.parse):
        with pytest.raises(DeltaError):
            run(f"SELECT {text}" if run is deltaplane.sql else text)
    assert time.monotonic() - start < 20
