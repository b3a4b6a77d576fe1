"""Aggregate functions whose answer in Spark depends on the order of the rows: the answer is always
the same one of those that Spark may give."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import sql
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError

ROWS = [("b", 2, 0.0), ("a", 2, -0.0), (None, 2, 0.0), ("c", 1, -1.0), ("d", 1, -1.0), ("z", None, None)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("max_by(x, y)", "b"),
        ("min_by(x, y)", "c"),
        ("max_by(x, z)", "b"),
        ("max_by(y, z)", 2),
        ("min_by(x, y) FILTER (WHERE x IS NULL)", None),
        ("mode(x)", "a"),
        ("mode(y)", 2),
        ("mode(y) FILTER (WHERE y < 2)", 1),
        ("approx_count_distinct(x)", 5),
        ("approx_count_distinct(z)", 2),
        ("approx_count_distinct(x, 0.01)", 5),
        ("regr_count(y, z)", 5),
    ],
)
def test_every_order_of_the_rows_has_one_answer(function: str, expected: Any) -> None:
    for rows in itertools.islice(itertools.permutations(ROWS), 0, 720, 97):
        x, y, z = zip(*rows, strict=True)
        table = pa.table({"x": pa.array(x, pa.string()), "y": pa.array(y, pa.int32()), "z": pa.array(z, pa.float64())})
        assert sql(f"SELECT {function} AS a FROM t", tables={"t": table}).to_pylist() == [{"a": expected}]


def test_many_values_are_counted_exactly() -> None:
    table = pa.table({"x": pa.array([n % 5000 for n in range(20_000)], pa.int64())})
    query = "SELECT approx_count_distinct(x) AS a, max_by(x, -x) AS b, mode(x) AS c FROM t"
    assert sql(query, tables={"t": table}).to_pylist() == [{"a": 5000, "b": 0, "c": 0}]


@pytest.mark.parametrize(
    "function",
    [
        "mode(z)",
        "mode(DISTINCT x)",
        "mode(x) OVER (ORDER BY y)",
        "approx_count_distinct(x, z)",
        "regr_r2(DISTINCT y, z)",
    ],
)
def test_what_has_no_such_answer_is_refused_by_name(function: str) -> None:
    table = pa.table({"x": ["a"], "y": [1], "z": [1.0]})
    with pytest.raises(UnsupportedExpressionError, match=function.split("(")[0]):
        sql(f"SELECT {function} AS a FROM t", tables={"t": table})


@pytest.mark.parametrize("function", ["approx_count_distinct(x, 0.5)", "regr_slope(y)", "max_by(x)", "mode()"])
def test_wrong_arguments_are_refused(function: str) -> None:
    table = pa.table({"x": ["a"], "y": [1]})
    with pytest.raises(InvalidArgumentError, match=function.split("(")[0]):
        sql(f"SELECT {function} AS a FROM t", tables={"t": table})
