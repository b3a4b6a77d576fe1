"""The schema as values, as JSON and as Arrow."""

from __future__ import annotations

import json

import deltalake
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, Schema, write_deltalake
from deltaplane.exceptions import DeltaError, InvalidArgumentError
from deltaplane.schema import ArrayType, MapType, PrimitiveType, StructType

SCHEMA = Schema(
    [
        Field("id", "long", nullable=False, metadata={"comment": "the key"}),
        Field("amount", PrimitiveType("decimal(10,2)")),
        Field("at", "timestamp"),
        Field("local", "timestamp_ntz"),
        Field(
            "tags",
            ArrayType(StructType([Field("k", "string"), Field("v", "binary")]), contains_null=False),
        ),
        Field("counts", MapType("string", ArrayType("integer"), value_contains_null=False)),
    ]
)


def test_json_is_that_of_deltalake() -> None:
    assert json.loads(SCHEMA.to_json()) == json.loads(deltalake.Schema.from_json(SCHEMA.to_json()).to_json())
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA


def test_arrow_is_that_of_a_table() -> None:
    table = DeltaTable.create("memory://schema/arrow", SCHEMA, mode="overwrite")
    assert table.schema() == SCHEMA
    assert SCHEMA.to_arrow() == pa.schema(table)
    assert pa.schema(SCHEMA).names == [f.name for f in SCHEMA.fields]
    rows = table.to_pyarrow_table().schema
    assert (rows.names, rows.field("tags").type.value_type.names) == (SCHEMA.to_arrow().names, ["k", "v"])


def test_arrow_goes_back() -> None:
    bare = Schema([Field(f.name, f.type, f.nullable) for f in SCHEMA.fields])
    assert Schema.from_arrow(SCHEMA.to_arrow()) == bare


@pytest.mark.parametrize(
    "text", ["", "[]", '"long"', '{"type":"struct"}', '{"type":"struct","fields":[{"name":"x","type":"nope"}]}']
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        Schema.from_json(text)


def test_a_type_without_name_in_delta_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="int128"):
        Field("x", "int128")
    with pytest.raises(DeltaError, match="took"):
        Schema.from_arrow(pa.schema({"took": pa.duration("s")}))


def test_values_compare_and_show_themselves() -> None:
    assert Field("x", "long") == Field("x", PrimitiveType("long"))
    assert Field("x", "long") != Field("x", "long", nullable=False)
    assert repr(Schema([Field("x", "long")])) == 'Schema([Field(x, PrimitiveType("long"), nullable=True)])'
    assert len({Field("x", "long"), Field("x", PrimitiveType("long"))}) == 1


def test_create_modes() -> None:
    where, x, y = "memory://schema/create", pa.schema({"x": pa.int64()}), pa.schema({"y": pa.string()})
    first = DeltaTable.create(where, x, mode="overwrite", name="n")
    assert (first.count(), first.metadata().name, first.to_pyarrow_table().schema.names) == (0, "n", ["x"])
    with pytest.raises(DeltaError, match="already"):
        DeltaTable.create(where, y)
    assert DeltaTable.create(where, y, mode="ignore").version() == first.version()
    with pytest.raises(InvalidArgumentError, match="ignore"):
        DeltaTable.create(where, y, mode="append")
    write_deltalake(where, pa.table({"x": [1]}), mode="append")
    replaced = DeltaTable.create(where, y, mode="overwrite")
    assert (replaced.count(), [f.name for f in replaced.schema().fields]) == (0, ["y"])
