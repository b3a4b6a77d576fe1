"""The schema as values, as JSON and as Arrow."""

from __future__ import annotations

import json

import deltalake
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, Schema, write_deltalake
from deltaplane.exceptions import ConstraintViolationError, DeltaError, InvalidArgumentError
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
    assert Schema.from_arrow(SCHEMA.to_arrow()) == SCHEMA


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


def test_replacing_a_table_takes_what_it_is_given() -> None:
    # P024, P093: as in delta-spark's REPLACE, which drops other properties
    where, x = "memory://schema/replace", pa.schema({"x": pa.int64()})
    first = DeltaTable.create(where, x, configuration={"delta.appendOnly": "false", "owner": "a"}, description="d")
    write_deltalake(first, pa.table({"x": [1]}), mode="append")
    properties = {"delta.enableDeletionVectors": "true", "delta.constraints.small": "x < 5"}
    table = DeltaTable.create(where, x, mode="overwrite", name="n", configuration=properties)
    assert (table.count(), table.metadata().configuration) == (0, properties)
    assert (table.metadata().name, table.metadata().description, table.metadata().id) == ("n", "d", first.metadata().id)
    features = set(table.protocol().writer_features or ())
    assert {"deletionVectors", "checkConstraints"} <= features
    with pytest.raises(ConstraintViolationError):
        write_deltalake(table, pa.table({"x": [7]}), mode="append")
    # Without arguments everything stays.
    table = DeltaTable.create(where, pa.schema({"x": pa.int64(), "y": pa.string()}), mode="overwrite")
    assert (table.metadata().configuration, table.metadata().name) == (properties, "n")
    mapped = DeltaTable.create(where, x, mode="overwrite", configuration={"delta.columnMapping.mode": "name"})
    write_deltalake(mapped, pa.table({"x": [3]}), mode="append")
    again = DeltaTable.create(where, x, mode="overwrite", configuration={"owner": "b"})
    assert {"delta.columnMapping.mode": "name", "owner": "b"}.items() <= again.metadata().configuration.items()
    for wrong in ({"delta.nope": "1"}, {"delta.columnMapping.mode": "none"}):
        with pytest.raises(DeltaError):
            DeltaTable.create(where, x, mode="overwrite", configuration=wrong)
    # P140: no file without row ids remains, so row tracking may be enabled.
    tracked = DeltaTable.create(where, x, mode="overwrite", configuration={"delta.enableRowTracking": "true"})
    write_deltalake(tracked, pa.table({"x": [3, 4]}), mode="append")
    assert tracked.scan(["_row_id"]).to_arrow()["_row_id"].to_pylist() == [0, 1]
    plain = DeltaTable.create("memory://schema/plain", x)
    only = {"delta.feature.appendOnly": "supported", "delta.feature.deletionVectors": "supported"}
    plain = DeltaTable.create("memory://schema/plain", x, mode="overwrite", configuration=only)
    assert "deletionVectors" in (plain.protocol().writer_features or ())
    rows = pa.table({"x": [1]})
    write_deltalake(where, rows, mode="overwrite", schema_mode="overwrite", configuration={"owner": "c"})
    assert DeltaTable(where).metadata().configuration["owner"] == "c"
