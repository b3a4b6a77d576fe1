"""Rows join by floating numbers as in Spark: NaN equals itself, and zeros of both signs are equal.

Some versions of DuckDB skip such rows by the bounds of the smaller side's keys; `make test-duckdbs`
runs these tests there.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, write_deltalake

VALUES = (float("nan"), -0.0, 0.0, 1.5, 3.0, float("inf"), -float("inf"), None)


def drawn(seed: int, count: int, width: pa.DataType) -> pa.Table:
    draw = random.Random(seed)
    return pa.table({"id": range(count), "f": pa.array([draw.choice(VALUES) for _ in range(count)], width)})


def equal(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and (a == b or (a != a and b != b))


@pytest.mark.parametrize("width", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("seed", range(4))
def test_rows_join_by_equal_numbers(tmp_path: Path, seed: int, width: pa.DataType) -> None:
    data = drawn(seed, 40, width)
    path = str(tmp_path / "t")
    for first in range(0, 40, 10):
        write_deltalake(path, data.slice(first, 10), mode="append")
    values = data["f"].to_pylist()
    expected = [(a, b) for a in range(40) for b in range(40) if equal(values[a], values[b])]
    pairs = deltaplane.sql("SELECT a.id AS a, b.id AS b FROM t a JOIN t b ON a.f = b.f", tables={"t": path})
    assert sorted((row["a"], row["b"]) for row in pairs.to_pylist()) == expected
    selected = deltaplane.sql("SELECT id FROM t WHERE f IN (SELECT f FROM t WHERE id < 3)", tables={"t": path})
    first_values = [value for value in values[:3] if value is not None]
    assert sorted(selected["id"].to_pylist()) == [
        i for i in range(40) if any(equal(values[i], v) for v in first_values)
    ]


@pytest.mark.parametrize("width", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("key", [float("nan"), -0.0, 0.0, 1.5])
def test_merge_updates_rows_of_equal_numbers(tmp_path: Path, key: float, width: pa.DataType) -> None:
    data = drawn(7, 40, width)
    path = str(tmp_path / "t")
    write_deltalake(path, data)
    source = pa.table({"f": pa.array([key, 99.0], width)})
    merged = DeltaTable(path).merge(source, "target.f = source.f", source_alias="source", target_alias="target")
    merged.when_matched_update({"id": "-1"}).when_not_matched_insert({"id": "-2", "f": "source.f"}).execute()
    ids = DeltaTable(path).to_pyarrow_table()["id"].to_pylist()
    matches = [i for i, value in enumerate(data["f"].to_pylist()) if equal(value, key)]
    assert ids.count(-1) == len(matches) > 0
    assert ids.count(-2) == 1
    assert not set(ids) & set(matches)


CONDITIONS = {
    "f > 1000": lambda v: v is not None and (v > 1000 or v != v),
    "NOT f <= 1": lambda v: v is not None and (v > 1 or v != v),
    "f = 0": lambda v: v == 0,
    "f IN (0, 3)": lambda v: v in (0, 3),
    "f <> 1.5": lambda v: v is not None and v != 1.5,
    "f >= CAST('NaN' AS DOUBLE)": lambda v: v is not None and v != v,
}


@pytest.mark.parametrize("width", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("place", ["column", "field", "values"])
def test_conditions_keep_the_rows_that_spark_keeps(
    tmp_path: Path, place: str, condition: str, width: pa.DataType
) -> None:
    data = drawn(3, 40, width)
    path = str(tmp_path / "t")
    fields = pa.StructArray.from_arrays([data["f"].combine_chunks()], ["f"])
    write_deltalake(path, data if place == "column" else pa.table({"id": data["id"], "s": fields}))
    column = {"column": "f", "field": "s.f", "values": "v.f"}[place]
    text = condition.replace("f ", f"{column} ", 1)
    source = "t" if place != "values" else "(SELECT id, s.f AS f FROM t) AS v"
    rows = deltaplane.sql(f"SELECT id FROM {source} WHERE {text}", tables={"t": path})
    expected = [i for i, value in enumerate(data["f"].to_pylist()) if CONDITIONS[condition](value)]
    assert sorted(rows["id"].to_pylist()) == expected


@pytest.mark.parametrize("width", [pa.float32(), pa.float64()])
def test_merge_takes_conditions_on_the_source(tmp_path: Path, width: pa.DataType) -> None:
    data = drawn(5, 40, width)
    path = str(tmp_path / "t")
    write_deltalake(path, data.slice(0, 0))
    merged = DeltaTable(path).merge(data, "target.id = source.id AND source.f > 1000", "source", "target")
    merged.when_not_matched_insert_all("source.f > 1000").execute()
    expected = [i for i, v in enumerate(data["f"].to_pylist()) if v is not None and (v > 1000 or v != v)]
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == expected
