"""The comparison of the corpus: layouts, order and NaN don't matter, anything else does."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from corpus.comparing import Variant, compare

ROWS = pa.table(
    {
        "x": pa.array([1.0, float("nan"), None, -0.0]),
        "m": pa.array([[("a", 1)], None, [], [("b", None), ("a", 2)]], pa.map_(pa.string(), pa.int32())),
        "l": pa.array([[1], None, [], [None, 2]], pa.large_list(pa.int64())),
        "s": pa.array([{"q": "x"}, None, {"q": None}, {"q": "z"}], pa.struct([("q", pa.large_string())])),
        "d": pa.array([Decimal("1.10"), None, None, Decimal("2.00")], pa.decimal128(38, 2)),
        "t": pa.array([dt.datetime(2024, 1, 1), None, None, None], pa.timestamp("ms", "Europe/Paris")),
    }
)
SAME = pa.table(
    {
        "x": pa.array([float("nan"), None, -0.0, 1.0]),
        "m": pa.array([None, [], [("a", 2), ("b", None)], [("a", 1)]], pa.map_(pa.string(), pa.int32())),
        "l": pa.array([None, [], [None, 2], [1]], pa.list_(pa.int64())),
        "s": pa.array([None, {"q": None}, {"q": "z"}, {"q": "x"}], pa.struct([("q", pa.string())])),
        "d": pa.array([None, None, Decimal("2.00"), Decimal("1.10")], pa.decimal256(38, 2)),
        "t": pa.array([None, None, None, dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
    }
)


def test_layouts_and_order_do_not_matter() -> None:
    assert compare(ROWS, SAME) == ""
    flat = ["x", "d", "t"]
    assert compare(ROWS.select(flat), SAME.select(flat)) == ""
    texts = pa.table({"s": pa.array(["a", "b", None]).dictionary_encode()})
    assert compare(texts, pa.table({"s": pa.array([None, "b", "a"], pa.string_view())})) == ""


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (SAME.slice(1), "3 rows, expected 4"),
        (SAME.rename_columns(["x", "m", "l", "u", "d", "t"]), "the columns are"),
        (SAME.set_column(0, "x", pa.array([float("nan"), None, 0.0, 1.0])), "1 are missing"),
        (SAME.set_column(0, "x", pa.array([float("nan"), None, -0.0, 1.0], pa.float32())), "the columns are"),
        (SAME.set_column(5, "t", SAME["t"].cast(pa.timestamp("us"))), "the columns are"),
    ],
)
def test_everything_else_does(other: pa.Table, said: str) -> None:
    assert said in compare(other, ROWS)


def test_zeros_differ_by_their_sign_in_flat_tables_too() -> None:
    assert "1 are missing" in compare(pa.table({"x": [0.0, 1.0]}), pa.table({"x": [-0.0, 1.0]}))


def test_rows_that_come_twice_are_counted() -> None:
    twice, once = pa.table({"x": [1, 1, 2]}), pa.table({"x": [1, 2, 2]})
    assert "1 are missing" in compare(twice, once)


def test_variants_are_compared_by_their_values() -> None:
    # {"a": 1, "b": "x"}, with its keys in either order and the number in one byte or in four.
    short = Variant(b"\x01\x02\x00\x01\x02ab", b"\x02\x02\x00\x01\x00\x02\x04\x0c\x01\x05x")
    long = Variant(b"\x01\x02\x00\x01\x02ba", b"\x02\x02\x01\x00\x00\x05\x07\x14\x01\x00\x00\x00\x05x")
    assert short.decoded() == long.decoded()
    assert short.decoded() != Variant(b"\x01\x00\x00", b"\x0c\x01").decoded()
