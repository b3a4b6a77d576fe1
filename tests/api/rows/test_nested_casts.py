"""Parts of structs, arrays and maps with another type than the table's: each statement casts them
as it casts a column."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError


@dataclass(frozen=True)
class Leaf:
    """A value's type, its column's type, values, and the stored results."""

    source: pa.DataType
    to: pa.DataType
    values: tuple[Any, ...]
    stored: Callable[[Any], Any]


LEAVES = (
    Leaf(pa.int64(), pa.int64(), (0, -1), lambda v: v),
    Leaf(pa.int32(), pa.int64(), (5, -(2**31)), lambda v: v),
    Leaf(pa.int64(), pa.int32(), (5, 2**31 - 1), lambda v: v),
    Leaf(pa.string(), pa.int64(), ("7", " -8 "), lambda v: int(v)),
    Leaf(pa.int64(), pa.string(), (7, -(2**63)), lambda v: str(v)),
    Leaf(pa.float64(), pa.int32(), (2.9, -2.9), lambda v: int(v)),
    Leaf(
        pa.decimal128(10, 3),
        pa.decimal128(5, 1),
        (Decimal("2.250"), Decimal("-0.049")),
        lambda v: v.quantize(Decimal("0.1"), ROUND_HALF_UP),
    ),
    Leaf(
        pa.date32(),
        pa.timestamp("us", "UTC"),
        (dt.date(2020, 1, 2), dt.date(1969, 12, 31)),
        lambda v: dt.datetime(v.year, v.month, v.day, tzinfo=dt.timezone.utc),
    ),
    Leaf(pa.bool_(), pa.string(), (True, False), lambda v: str(v).lower()),
)


class Shape:
    """A random type in two forms, values of it, and the stored results."""

    def __init__(self, draw: random.Random, depth: int) -> None:
        self.kind = draw.choice(("struct", "list", "map")) if depth else "leaf"
        if self.kind == "leaf":
            self.leaf = draw.choice(LEAVES)
            self.source, self.to = self.leaf.source, self.leaf.to
            return
        self.parts = [Shape(draw, draw.randrange(depth)) for _ in range(draw.randint(1, 2))]
        first = self.parts[0]
        if self.kind == "struct":
            # Fields are matched by name, independent of case and order.
            fields = [(f"F{i}", part.source) for i, part in enumerate(self.parts)]
            self.source = pa.struct(fields[::-1])
            self.to = pa.struct([(f"f{i}", part.to) for i, part in enumerate(self.parts)])
        elif self.kind == "list":
            self.source, self.to = pa.list_(first.source), pa.list_(first.to)
        else:
            self.source, self.to = pa.map_(pa.string(), first.source), pa.map_(pa.string(), first.to)

    def value(self, draw: random.Random) -> Any:
        if draw.random() < 0.2:
            return None
        if self.kind == "leaf":
            return draw.choice(self.leaf.values)
        if self.kind == "struct":
            return {f"F{i}": part.value(draw) for i, part in enumerate(self.parts)}
        each = [self.parts[0].value(draw) for _ in range(draw.randint(0, 2))]
        return each if self.kind == "list" else list(zip("ab", each, strict=False))

    def stored(self, value: Any) -> Any:
        if value is None:
            return None
        if self.kind == "leaf":
            return self.leaf.stored(value)
        if self.kind == "struct":
            return {f"f{i}": part.stored(value[f"F{i}"]) for i, part in enumerate(self.parts)}
        if self.kind == "list":
            return [self.parts[0].stored(item) for item in value]
        return [(key, self.parts[0].stored(item)) for key, item in value]


def rows_of(path: str) -> dict[int, Any]:
    return {row["id"]: row["z"] for row in DeltaTable(path).to_pyarrow_table(columns=["id", "z"]).to_pylist()}


def merged(path: str, source: pa.Table, how: str) -> None:
    if how.startswith("sql"):
        evolves = "WITH SCHEMA EVOLUTION " if how.endswith("evolving") else ""
        clauses = "WHEN MATCHED THEN UPDATE SET z = s.z WHEN NOT MATCHED THEN INSERT (id, z) VALUES (s.id, s.z)"
        sql(f"MERGE {evolves}INTO t USING s ON t.id = s.id {clauses}", tables={"t": path, "s": source})
        return
    merger = DeltaTable(path).merge(
        source, "t.id = s.id", source_alias="s", target_alias="t", merge_schema=how.endswith("evolving")
    )
    if how.startswith("all"):
        merger.when_matched_update_all().when_not_matched_insert_all().execute()
    else:
        values = {"id": "s.id", "z": "s.z"}
        merger.when_matched_update(values).when_not_matched_insert(values).execute()


@pytest.mark.parametrize("how", ["all", "all evolving", "named", "named evolving", "sql", "sql evolving"])
def test_a_merge_casts_each_leaf(tmp_path: Path, how: str) -> None:
    for seed in range(5):
        draw = random.Random(f"{how} {seed}")
        shape = Shape(draw, 3)
        values = {i: shape.value(draw) for i in (1, 2, 3, 4)}
        path = str(tmp_path / f"t{seed}")
        write_deltalake(path, pa.table({"id": pa.array([1, 2, 9], pa.int64()), "z": pa.nulls(3, shape.to)}))
        source = pa.table(
            {"id": pa.array(list(values), pa.int64()), "z": pa.array(list(values.values()), shape.source)}
        )
        merged(path, source, how)
        expected = {i: shape.stored(value) for i, value in values.items()} | {9: None}
        assert rows_of(path) == expected, (seed, shape.source, shape.to)
        assert DeltaTable(path).schema().to_arrow().field("z").type.equals(shape.to), (seed, shape.to)


def test_insert_and_update_cast_each_leaf(tmp_path: Path) -> None:
    for seed in range(6):
        draw = random.Random(f"insert {seed}")
        shape = Shape(draw, 3)
        values = {i: shape.value(draw) for i in (1, 2, 3)}
        source_values = pa.array(list(values.values()), shape.source)
        expected = {i: shape.stored(value) for i, value in values.items()}
        inserted, updated = str(tmp_path / f"i{seed}"), str(tmp_path / f"u{seed}")
        write_deltalake(inserted, pa.schema([("id", pa.int64()), ("z", shape.to)]).empty_table())
        source = pa.table({"z": source_values, "id": pa.array(list(values), pa.int64())})
        sql("INSERT INTO t BY NAME SELECT z, id FROM s", tables={"t": inserted, "s": source})
        assert rows_of(inserted) == expected, (seed, shape.source, shape.to)
        ids = pa.array(list(values), pa.int64())
        write_deltalake(updated, pa.table({"id": ids, "z": pa.nulls(3, shape.to), "y": source_values}))
        DeltaTable(updated).update({"z": "y"})
        assert rows_of(updated) == expected, (seed, shape.source, shape.to)


def test_new_values_are_stored_part_by_part(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    struct_type = pa.struct(
        [("a", pa.int32()), ("l", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.struct([("x", pa.int64())])))]
    )
    write_deltalake(path, pa.table({"id": pa.array([1], pa.int64()), "z": pa.nulls(1, struct_type)}))
    table = DeltaTable(path)
    table.update(new_values={"z": {"A": "7", "l": [1, None], "m": {"k": {"X": "5"}, "n": None}}})
    assert rows_of(path) == {1: {"a": 7, "l": ["1", None], "m": [("k", {"x": 5}), ("n", None)]}}
    table.update(new_values={"z": {"m": [("k", None)]}})
    assert rows_of(path) == {1: {"a": None, "l": None, "m": [("k", None)]}}
    for wrong, words in (
        ({"b": 1}, "no field `b`"),
        ({"a": 2**40}, "at `a`"),
        ({"a": 1, "A": 2}, "`a` has two values"),
        ({"m": {"k": {"x": "y"}}}, r"at `m\.value\.x`"),
        ({"m": {None: None}}, "null as a key"),
        ({"l": "text"}, "expected a list"),
        ({"l": {"k": 1}}, "expected a list"),
        (5, "expected a list"),
    ):
        with pytest.raises(SchemaMismatchError, match=words):
            table.update(new_values={"z": wrong})
    assert table.version() == 2


@pytest.mark.parametrize("evolves", [False, True])
def test_a_part_that_does_not_fit_is_named_and_nothing_is_written(tmp_path: Path, evolves: bool) -> None:
    path = str(tmp_path / "t")
    to = pa.struct([("a", pa.list_(pa.struct([("x", pa.int32())]))), ("b", pa.string())])
    write_deltalake(path, pa.table({"id": pa.array([1], pa.int64()), "z": pa.nulls(1, to)}))
    bad = {"z": [{"a": [{"x": 2**40}], "b": "y"}]}
    how = "all evolving" if evolves else "all"
    with pytest.raises(InvalidArgumentError, match=r"CAST_OVERFLOW.*the column `z\.a\.element\.x`"):
        merged(path, pa.table({"id": pa.array([1], pa.int64()), **bad}), how)
    dated = pa.table({"id": pa.array([1], pa.int64()), "z": [{"a": [{"x": dt.date(2020, 1, 1)}], "b": "y"}]})
    with pytest.raises(
        SchemaMismatchError, match=r"`z\.a\.element\.x` of type integer doesn't take a value of type date"
    ):
        merged(path, dated, how)
    with pytest.raises(InvalidArgumentError, match=r"the column `z\.a\.element\.x`"):
        sql("INSERT INTO t SELECT id, z FROM s", tables={"t": path, "s": pa.table({"id": [1], **bad})})
    with pytest.raises(InvalidArgumentError, match=r"the column `z\.a\.element\.x`"):
        DeltaTable(path).update({"z": "named_struct('b', 'y', 'a', array(named_struct('x', 1099511627776L)))"})
    with pytest.raises(SchemaMismatchError, match=r"has 1 of the 2 fields"):
        sql(
            "INSERT INTO t SELECT id, named_struct('a', z.a) FROM s",
            tables={"t": path, "s": pa.table({"id": [1], **bad})},
        )
    assert DeltaTable(path).version() == 0


def test_values_that_a_null_hides_are_not_cast(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    to = pa.struct([("x", pa.int64())])
    write_deltalake(path, pa.table({"id": pa.array([1, 2], pa.int64()), "z": pa.nulls(2, pa.list_(to))}))
    structs = pa.StructArray.from_arrays(
        [pa.array(["no number", "7", "no number"])], names=["x"], mask=pa.array([True, False, False])
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), structs, mask=pa.array([False, True]))
    merged(path, pa.table({"id": pa.array([1, 2], pa.int64()), "z": lists}), "all")
    assert rows_of(path) == {1: [None, {"x": 7}], 2: None}


def test_fields_of_an_insert_go_by_their_places(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    struct_type = pa.struct([("a", pa.int32()), ("b", pa.string())])
    write_deltalake(path, pa.schema([("id", pa.int64()), ("z", struct_type)]).empty_table())
    sql("INSERT INTO t VALUES (1, named_struct('b', 2, 'a', 3))", tables={"t": path})
    source = pa.table({"z": [{"b": 2, "a": "3"}], "id": [2]})
    sql("INSERT INTO t BY NAME SELECT z, id FROM s", tables={"t": path, "s": source})
    lacking = pa.table({"z": [{"B": 2}], "id": [3]})
    sql("INSERT INTO t BY NAME SELECT z, id FROM s", tables={"t": path, "s": lacking})
    assert rows_of(path) == {1: {"a": 2, "b": "3"}, 2: {"a": 3, "b": "2"}, 3: {"a": None, "b": "2"}}
