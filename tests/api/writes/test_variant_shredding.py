"""Variants in typed columns: which files get some, and that rows are read back unchanged (P154)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, Field, Schema, write_deltalake
from deltaplane.schema import ArrayType, StructType
from interop.variant_bounds import bounds
from interop.verifier import verify

PARTS = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
ON = {"delta.enableVariantShredding": "true"}


def number(i: int) -> dict[str, bytes]:
    """An integer of one byte, in the encoding of the Parquet project."""
    return {"metadata": b"\x01\x00\x00", "value": b"\x0c" + i.to_bytes(1, "little", signed=True)}


def named(i: int) -> dict[str, bytes]:
    """`{"a": i, "b": "text"}`"""
    value = b"\x02\x02\x00\x01\x00\x02\x07\x0c" + i.to_bytes(1, "little") + b"\x11text"
    return {"metadata": b"\x01\x02\x00\x01\x02ab", "value": value}


TEXT = {"metadata": b"\x01\x00\x00", "value": b"\x0dabc"}


def typed(table: DeltaTable, column: str = "v") -> list[Any]:
    """The typed column of each file, if it has one."""
    schemas = [pq.read_schema(uri).field(column).type for uri in table.file_uris()]
    return [s.field("typed_value").type if s.get_field_index("typed_value") >= 0 else None for s in schemas]


def variants(*values: Any) -> pa.Table:
    return pa.table({"i": pa.array(range(len(values)), pa.int64()), "v": pa.array(values, PARTS)})


def same(v: dict[str, bytes] | None) -> tuple[bytes, bytes] | None:
    """A variant without its first byte, which only tells whether names are sorted."""
    return v and (v["metadata"][1:], v["value"])


def column(rows: pa.Table) -> list[Any]:
    return sorted(map(str, map(same, rows["v"].to_pylist())))


@pytest.fixture
def path(tmp_table: Callable[[], str]) -> str:
    location = tmp_table()
    DeltaTable.create(location, Schema([Field("i", "long"), Field("v", "variant")]))
    return location


def test_the_property_says_how_new_files_are(path: str) -> None:
    rows = variants(*(named(i) for i in range(5)), None, TEXT, number(7))
    write_deltalake(path, rows, mode="append")
    table = DeltaTable(path)
    assert typed(table) == [None]
    plan = table.alter.set_table_properties(ON)
    assert plan.added_features == ["variantShredding"]
    write_deltalake(path, rows, mode="overwrite")
    table = DeltaTable(path)
    group = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    (struct_type,) = typed(table)
    assert struct_type.names == ["a", "b"]
    assert struct_type.field("a").type == group
    read = table.to_pyarrow_table().sort_by("i")
    assert list(map(same, read["v"].to_pylist())) == list(map(same, rows["v"].to_pylist()))
    commit = Path(path, "_delta_log", f"{table.version():020d}.json").read_text().splitlines()
    (add,) = (json.loads(line)["add"] for line in commit if line.startswith('{"add"'))
    assert json.loads(add["stats"])["nullCount"] == {"i": 0, "v": 1}
    # P169: bounds of both fields, whose values are in typed columns; rows that aren't objects have
    # none.
    there = (1, {"$['a']": 0, "$['b']": "text"}, {"$['a']": 4, "$['b']": "text"})
    assert bounds(path)[-1] == there
    assert bounds(path)[0] == (1, {}, {})
    verify(path)

    table.alter.set_table_properties({"delta.enableVariantShredding": "false"})
    table.optimize.compact()
    table.update(updates={"i": "i + 100"}, predicate="i = 0")
    assert set(typed(DeltaTable(path))) == {None}
    assert column(DeltaTable(path).to_pyarrow_table()) == column(rows)
    verify(path)


def test_each_file_has_the_columns_of_its_own_rows(path: str) -> None:
    DeltaTable(path).alter.set_table_properties(ON)
    for rows in (
        variants(number(1), number(-128)),
        variants(TEXT),
        variants(None),
        variants(named(1), TEXT, number(1)),
    ):
        write_deltalake(path, rows, mode="append")
    table = DeltaTable(path)
    assert sorted(map(str, typed(table))) == ["None", "None", "int64", "string"]
    # Rewritten together, the values have no common type.
    before = column(table.to_pyarrow_table())
    table.optimize.compact()
    table.update(updates={"i": "9"}, predicate="i = 0")
    assert column(DeltaTable(path).to_pyarrow_table()) == before
    verify(path)


def test_bounds_stay_through_checkpoints_and_marked_rows(path: str) -> None:
    """P169, P166: plans ignore another writer's bounds, whatever they are."""
    DeltaTable(path).alter.set_table_properties(ON | {"delta.enableDeletionVectors": "true"})
    write_deltalake(path, variants(number(3), number(-5), None), mode="append")
    table = DeltaTable(path)
    table.delete("i = 0")
    low, high = {"$": -5}, {"$": 3}
    assert bounds(path) == [(1, low, high)] * 2
    table.create_checkpoint()
    Path(path, "_delta_log", f"{table.version():020d}.json").unlink()
    table = DeltaTable(path)
    assert column(table.to_pyarrow_table()) == column(variants(None, number(-5)))
    assert table.scan(predicate="v IS NULL").to_arrow().num_rows == 1
    assert table.scan(predicate="v IS NOT NULL AND i > 0").to_arrow().num_rows == 1
    assert table.get_add_actions().num_rows == 1


def test_variants_in_structs_have_columns_too(tmp_table: Callable[[], str]) -> None:
    """Variants in lists aren't shredded; with column mapping the parts of a variant stay the
    same."""
    path = tmp_table()
    schema = Schema(
        [Field("s", StructType([Field("v", "variant"), Field("x", "long")])), Field("l", ArrayType("variant"))]
    )
    DeltaTable.create(path, schema, configuration={**ON, "delta.columnMapping.mode": "id"})
    inner = pa.struct([("v", PARTS), ("x", pa.int64())])
    rows = pa.table(
        {
            "s": pa.array([{"v": number(1), "x": 1}, {"v": None, "x": 2}, None], inner),
            "l": pa.array([[number(1), None], [], None], pa.list_(PARTS)),
        }
    )
    write_deltalake(path, rows, mode="append")
    table = DeltaTable(path)
    file = pq.read_schema(table.file_uris()[0])
    assert file.field(0).type.field(0).type.field("typed_value").type == pa.int64()
    assert file.field(1).type.value_type.num_fields == 2
    assert table.to_pyarrow_table().to_pylist() == rows.to_pylist()
    verify(path)
