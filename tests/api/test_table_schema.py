"""`TableSchema`, the frozen class in which schemas cross between Python and Rust."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from deltaplane import Field, Schema, _native, write_deltalake
from deltaplane._native import TableSchema
from deltaplane.exceptions import CorruptLogError, InvalidArgumentError, UnsupportedFeatureError
from deltaplane.io import records
from deltaplane.write.intent import WriteIntent

pa = pytest.importorskip("pyarrow")

TEXT = Schema([Field("id", "long", nullable=False, metadata={"n": 1}), Field("day", "date")]).to_json()


def test_a_schema_is_a_value() -> None:
    schema = TableSchema(TEXT)
    assert pickle.loads(pickle.dumps(schema)) == schema == TableSchema(json.dumps(json.loads(TEXT), indent=1))
    assert schema != TableSchema(TEXT.replace("day", "Day"))
    assert schema != TEXT
    assert repr(schema) == "TableSchema(struct<id:long,day:date>)"
    assert json.loads(schema.to_json()) == schema.to_value() == json.loads(TEXT)
    with pytest.raises(TypeError, match="unhashable"):
        hash(schema)


def test_fields_are_records() -> None:
    fields = TableSchema(TEXT).fields
    assert fields[0] == records.TableField("id", "long", False, {"n": 1})
    assert pickle.loads(pickle.dumps(fields)) == fields
    nested = TableSchema.of_arrow(pa.schema({"l": pa.list_(pa.int32())})).fields[0].data_type
    assert nested == {"type": "array", "elementType": "integer", "containsNull": True}


def test_arrow_libraries_read_a_schema() -> None:
    schema = pa.schema(TableSchema(TEXT))
    assert (schema.names, schema.field("id").nullable, schema.field("day").type) == (["id", "day"], False, pa.date32())
    assert TableSchema.of_arrow(pa.schema({"x": pa.int64()})).names == ["x"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{", CorruptLogError, "isn't JSON"),
        ('"long"', CorruptLogError, "not a struct"),
        (TEXT.replace('"date"', '"geometry"'), UnsupportedFeatureError, "geometry"),
    ],
)
def test_a_text_that_is_no_schema_is_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TableSchema(text)


def test_a_spec_carries_the_schema_to_other_processes(tmp_path: Path) -> None:
    table, rows = str(tmp_path), pa.table({"id": [1]})
    write_deltalake(table, rows)
    job = _native.WriteJob.begin(table, None, rows.schema, WriteIntent(mode="append").request(table, None))
    spec = pickle.loads(pickle.dumps(job.spec))
    assert (type(spec.schema), spec) == (TableSchema, job.spec)
    assert spec.schema == _native.Snapshot.open(table).schema
    job.commit(_native.write_files(table, None, spec, rows))
    assert _native.Snapshot.open(table).num_records() == 2


def test_a_request_takes_no_text_for_a_schema(tmp_path: Path) -> None:
    table, rows = str(tmp_path), pa.schema({"id": pa.int64()})
    request = WriteIntent(mode="error").request(table, None).with_fields(schema=TEXT)
    with pytest.raises(InvalidArgumentError, match="not a WriteRequest"):
        _native.WriteJob.begin(table, None, rows, request)
