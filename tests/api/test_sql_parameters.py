"""Parameters of `deltaplane.sql`: values of Python become literals, never SQL."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deltaplane
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import DeltaError, InvalidArgumentError, InvalidTypeError

UTC = dt.timezone.utc
VALUES: list[tuple[Any, pa.DataType, Any]] = [
    (1, pa.int32(), 1),
    (-(2**31), pa.int32(), -(2**31)),
    (2**31, pa.int64(), 2**31),
    (-(2**63), pa.int64(), -(2**63)),
    (2**70, pa.decimal128(22, 0), Decimal(2**70)),
    (0.1, pa.float64(), 0.1),
    (-5e-324, pa.float64(), -5e-324),
    (float("-inf"), pa.float64(), float("-inf")),
    (Decimal("-1.50"), pa.decimal128(3, 2), Decimal("-1.50")),
    (Decimal("1E+3"), pa.decimal128(4, 0), Decimal(1000)),
    (True, pa.bool_(), True),
    (None, pa.null(), None),
    (pd.NaT, pa.null(), None),
    (b"\x00'\\", pa.binary(), b"\x00'\\"),
    (dt.date(1, 1, 1), pa.date32(), dt.date(1, 1, 1)),
    (dt.datetime(1582, 10, 4, 1, 2, 3, 4), pa.timestamp("us"), dt.datetime(1582, 10, 4, 1, 2, 3, 4)),
    (
        dt.datetime(2024, 5, 1, 3, tzinfo=dt.timezone(dt.timedelta(hours=3))),
        pa.timestamp("us", "UTC"),
        dt.datetime(2024, 5, 1, tzinfo=UTC),
    ),
    (np.float32(0.5), pa.float64(), 0.5),
    (pd.Timestamp("2024-05-01"), pa.timestamp("us"), dt.datetime(2024, 5, 1)),
    (pa.scalar(7), pa.int32(), 7),
]


@pytest.mark.parametrize(("value", "kind", "seen"), VALUES, ids=[repr(v[0]) for v in VALUES])
def test_values_keep_their_digits_and_have_sparks_types(value: Any, kind: pa.DataType, seen: Any) -> None:
    made = deltaplane.sql("SELECT ? AS v", args=[value]).to_arrow()
    assert (made.schema.field("v").type, made.column("v").to_pylist()) == (kind, [seen])


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_texts_are_never_read_as_sql(text: str) -> None:
    made = deltaplane.sql("SELECT :text AS v, ':text' AS quoted -- :text\n", args={"text": text})
    assert made.to_pylist() == [{"v": text, "quoted": ":text"}]


def test_lists_dicts_and_durations() -> None:
    made = deltaplane.sql(
        "SELECT array_contains(:list, 2) AS a, element_at(:dict, 'x') AS b, TIMESTAMP_NTZ '2024-05-01' + :step AS c",
        args={"list": [1, 2], "dict": {"x": 5}, "step": dt.timedelta(days=-1, microseconds=5)},
    )
    assert made.to_pylist() == [{"a": True, "b": 5, "c": dt.datetime(2024, 4, 30, 0, 0, 0, 5)}]


def test_statements_that_write_take_parameters(tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    write_deltalake(where, pa.table({"id": [1, 2, 3], "name": ["a", "it's", "c"]}))
    run: dict[str, Any] = {"tables": {"t": where}}
    deltaplane.sql("UPDATE t SET name = :to WHERE name = :of", args={"to": "d\\e", "of": "it's"}, **run)
    deltaplane.sql("DELETE FROM t WHERE id IN (?, ?)", args=[1, 9], **run)
    deltaplane.sql("INSERT INTO t VALUES (:id, :name)", args={"id": 7, "name": None, "unused": 0}, **run)
    rows = DeltaTable(where).to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == [{"id": 2, "name": "d\\e"}, {"id": 3, "name": "c"}, {"id": 7, "name": None}]
    assert deltaplane.sql("SELECT id FROM t ORDER BY id LIMIT :n", args={"n": 1}, **run).to_pylist() == [{"id": 2}]


@pytest.mark.parametrize(
    ("text", "args", "words"),
    [
        ("SELECT :a", {"b": 1}, ":a.*args has b"),
        ("SELECT :a", {}, "no names"),
        ("SELECT :a", [1], "dict"),
        ("SELECT ?", {"a": 1}, r"\?"),
        ("SELECT ?, ?", [1], "2 parameters.*1 values"),
        ("SELECT ?", [1, 2], "1 parameters.*2 values"),
        ("SELECT :a, ?", {"a": 1}, "one kind"),
        ("SELECT ?", [object()], "object"),
        ("SELECT ?", [Decimal("NaN")], "NaN"),
        ("SELECT ?", [Decimal("1E+40")], "41 digits"),
        ("SELECT ?", [pd.Timestamp(1)], "microsecond"),
        ("SELECT ?", 5, "args"),
        ("SELECT :a", "text", "args"),
    ],
)
def test_missing_and_unfit_values_are_refused(text: str, args: Any, words: str) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=words):
        deltaplane.sql(text, args=args)


def test_names_of_tables_and_columns_are_no_parameters(tmp_path: Path) -> None:
    with pytest.raises(DeltaError):
        deltaplane.sql("SELECT * FROM :t", args={"t": str(tmp_path)})
