"""Metadata of Arrow fields: retained, typed, dropped or refused, and returned (P103, P105, P107,
P108, P111)."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, Schema, write_deltalake
from deltaplane.exceptions import (
    ConstraintViolationError,
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)

KEPT = {"comment": "free text", "owner": "me"}
FOREIGN = {
    "PARQUET:field_id": "7",
    "ARROW:extension:name": "some.kind",
    "_PL_ENUM_VALUES2": "1;a",
    "delta.columnMapping.id": "3",
    "delta.columnMapping.physicalName": "elsewhere",
    "delta.typeChanges": "[]",
}
RULES = {
    "delta.generationExpression": "year(at)",
    "CURRENT_DEFAULT": "7",
    "delta.invariants": json.dumps({"expression": {"expression": "y > 2000"}}),
}


def _schema(**metadata: str) -> pa.Schema:
    return pa.schema([pa.field("at", pa.timestamp("us", "UTC")), pa.field("y", pa.int32(), metadata=metadata or None)])


def _rows(schema: pa.Schema, y: int = 2024) -> pa.Table:
    moments = [dt.datetime(2024, 5, 1, tzinfo=dt.timezone.utc)]
    return pa.table([pa.array(moments, pa.timestamp("us", "UTC")), pa.array([y], pa.int32())], schema=schema)


def _metadata(table: DeltaTable, name: str = "y") -> dict[str, Any]:
    fields = {f.name: f for f in table.schema().fields}
    return fields[name].metadata


def _made(way: str, path: Path, schema: pa.Schema) -> DeltaTable:
    """A table whose column `y` was added in one of the ways in which a table takes over a
    schema."""
    where = str(path)
    if way == "create":
        return DeltaTable.create(where, schema)
    if way == "overwritten":
        write_deltalake(where, pa.table({"x": [1]}))
        write_deltalake(where, _rows(schema), mode="overwrite", schema_mode="overwrite")
    elif way == "merged":
        write_deltalake(where, _rows(_schema()).select(["at"]))
        write_deltalake(where, _rows(schema), mode="append", schema_mode="merge")
    elif way == "by a merge":
        write_deltalake(where, _rows(_schema()).select(["at"]))
        merge = DeltaTable(where).merge(
            _rows(schema), "t.at < s.at", source_alias="s", target_alias="t", merge_schema=True
        )
        merge.when_not_matched_insert_all().execute()
    else:
        write_deltalake(where, _rows(schema))
    return DeltaTable(where)


@pytest.mark.parametrize("way", ["create", "written", "overwritten", "merged", "by a merge"])
def test_comments_are_kept_and_foreign_keys_are_dropped(way: str, tmp_path: Path) -> None:
    table = _made(way, tmp_path / "t", _schema(**KEPT, **FOREIGN))
    assert _metadata(table) == KEPT
    field = table.schema().to_arrow().field("y")
    assert field.metadata == {k.encode(): v.encode() for k, v in KEPT.items()}
    assert table.to_pyarrow_table().schema.field("y").metadata is None, "rows carry no metadata to other tables"


@pytest.mark.parametrize("key", RULES)
@pytest.mark.parametrize("way", ["create", "written", "overwritten", "merged", "by a merge"])
def test_rules_hold_or_are_refused_by_name(way: str, key: str, tmp_path: Path) -> None:
    schema = _schema(**{key: RULES[key]})
    if way in ("merged", "by a merge") and key != "delta.invariants":
        with pytest.raises(UnsupportedFeatureError, match=rf"`y`.*`{key}`"):
            _made(way, tmp_path / "t", schema)
        return
    table = _made(way, tmp_path / "t", schema)
    assert _metadata(table) == {key: RULES[key]}
    assert table.schema().to_arrow().field("y").metadata == {key.encode(): RULES[key].encode()}
    if key == "delta.invariants":
        with pytest.raises(ConstraintViolationError, match="y"):
            write_deltalake(table, _rows(_schema(), 1999), mode="append")
        return
    write_deltalake(table, _rows(_schema()).select(["at"]), mode="append")
    wanted = {"delta.generationExpression": 2024, "CURRENT_DEFAULT": 7}[key]
    assert wanted in table.to_pyarrow_table()["y"].to_pylist()


def test_data_that_breaks_the_expression_it_declares_is_refused(tmp_path: Path) -> None:
    schema = _schema(**{"delta.generationExpression": "year(at)"})
    with pytest.raises(ConstraintViolationError, match="Generated column y"):
        write_deltalake(str(tmp_path / "t"), _rows(schema, 1999))
    assert not DeltaTable.is_deltatable(str(tmp_path / "t"))


def _identity(explicit: str) -> pa.Field:
    keys = {"start": "5", "step": "2", "allowExplicitInsert": explicit, "highWaterMark": "900"}
    return pa.field("id", pa.int64(), metadata={f"delta.identity.{k}": v for k, v in keys.items()})


def test_identity_columns_count_from_their_start(tmp_path: Path) -> None:
    always = pa.schema([_identity("false"), pa.field("x", pa.int64())])
    table = DeltaTable.create(str(tmp_path / "t"), always)
    write_deltalake(table, pa.table({"x": [1, 2]}), mode="append")
    assert table.to_pyarrow_table()["id"].to_pylist() == [5, 7], "another table's mark isn't this one's"
    again = DeltaTable.create(str(tmp_path / "again"), table.schema().to_arrow())
    write_deltalake(again, pa.table({"x": [1]}), mode="append")
    assert again.to_pyarrow_table()["id"].to_pylist() == [5]
    rows = pa.table([[1], [1]], schema=always)
    with pytest.raises(SchemaMismatchError, match="`id`"):
        write_deltalake(str(tmp_path / "given"), rows)
    by_default = pa.table([[1], [1]], schema=pa.schema([_identity("true"), pa.field("x", pa.int64())]))
    write_deltalake(str(tmp_path / "given"), by_default)
    wrong = pa.field("id", pa.int64(), metadata={"delta.identity.start": "five"})
    with pytest.raises(InvalidArgumentError, match=r"delta\.identity\.start"):
        DeltaTable.create(str(tmp_path / "wrong"), pa.schema([wrong]))


@pytest.mark.parametrize("key", ["delta.unknown", "delta.rowTracking.x", "delta.identity.sync"])
def test_unknown_keys_of_the_format_are_refused_by_name(key: str, tmp_path: Path) -> None:
    for way in ("create", "written", "overwritten", "merged", "by a merge"):
        with pytest.raises(UnsupportedFeatureError, match=f"`y`.*`{key}`"):
            _made(way, tmp_path / way, _schema(**{key: "1"}))
    write_deltalake(str(tmp_path / "t"), _rows(_schema()))
    write_deltalake(str(tmp_path / "t"), _rows(_schema(**{key: "1"})), mode="append")


def test_nested_fields_keep_comments_and_refuse_rules(tmp_path: Path) -> None:
    def nested(**metadata: str) -> pa.Schema:
        inner = pa.struct([pa.field("x", pa.int64(), metadata=metadata)])
        return pa.schema([("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])

    table = DeltaTable.create(str(tmp_path / "t"), nested(comment="deep"))
    arrow = table.schema().to_arrow()
    fields = [
        arrow.field("s").type.field(0),
        arrow.field("l").type.value_type.field(0),
        arrow.field("m").type.item_type.field(0),
    ]
    assert [f.metadata for f in fields] == [{b"comment": b"deep"}] * 3
    for key in (*RULES, "delta.identity.start"):
        if key != "delta.invariants":
            with pytest.raises(DeltaError, match=key.replace(".", r"\.")):
                DeltaTable.create(str(tmp_path / "r"), nested(**{key: "1"}))


def test_a_merge_takes_over_what_an_append_does(tmp_path: Path) -> None:
    def field(name: str, data_type: pa.DataType) -> pa.Field:
        return pa.field(name, data_type, metadata={"comment": f"of {name}", "owner": "me", "PARQUET:field_id": "7"})

    deep = pa.struct([field("n", pa.uint8()), pa.field("l", pa.list_(pa.struct([field("n", pa.uint8())])))])
    words = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("z", deep),
            field("new", deep),
            field("d", words),
            field("id2", pa.int64()),
        ]
    )
    rows = pa.Table.from_pylist([{"id": 1, "z": {"n": 1}, "new": {"n": 2, "l": [{"n": 3}]}, "d": "x"}], schema)
    own = pa.struct([("a", pa.int64()), ("l", pa.list_(pa.struct([("a", pa.int64())])))])

    def made(name: str) -> DeltaTable:
        where = str(tmp_path / name)
        write_deltalake(where, pa.table({"id": [1], "z": pa.nulls(1, own), "ID2": [1]}))
        return DeltaTable(where)

    appended = made("appended")
    write_deltalake(appended, rows, mode="append", schema_mode="merge")
    new = {"new": "s.new", "d": "s.d"}
    fields = {"z.n": "s.z.n", "z.l": "s.z.l"}
    for name, values in (("all", None), ("named", {"z": "s.z"} | new), ("fields", fields | new)):
        table = made(name)
        merger = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t", merge_schema=True)
        (merger.when_matched_update(values) if values else merger.when_matched_update_all()).execute()
        assert table.schema() == appended.schema(), name
    assert _metadata(appended, "new") == {"comment": "of new", "owner": "me"}


def test_a_schema_of_ours_goes_to_arrow_and_back() -> None:
    schema = Schema([Field("id", "long", metadata={"comment": "key", "n": 1, "delta.columnMapping.id": 4})])
    assert schema.to_arrow().field("id").metadata == {b"comment": b"key", b"n": b"1"}
    assert Schema.from_arrow(schema).fields[0].metadata == {"comment": "key", "n": "1"}


def _declared() -> tuple[pa.Schema, pa.Table]:
    """A schema with NOT NULL columns at every depth, and two rows of it."""
    point = pa.struct([pa.field("x", pa.int64(), nullable=False), pa.field("y", pa.int64())])
    items = pa.list_(pa.field("element", pa.string(), nullable=False))
    named = pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("day", pa.date32(), nullable=False),
            pa.field("point", point, nullable=False),
            pa.field("maybe", point),
            pa.field("items", items),
            pa.field("named", named),
        ]
    )
    row = {"day": dt.date(2024, 5, 1), "point": {"x": 1, "y": None}, "items": ["a"], "named": [("k", 1)]}
    return schema, pa.Table.from_pylist(
        [{"id": 1, "maybe": {"x": 2}} | row, {"id": 2, "maybe": {"x": 3}} | row], schema
    )


def _nullable(field: pa.Field) -> Any:
    """What a field says of nulls, and its parts, by their order."""
    parts = [field.type.field(n) for n in range(field.type.num_fields)]
    return field.nullable, [_nullable(part) for part in parts]


@pytest.mark.parametrize("partition_by", [[], ["day"]])
def test_rows_say_which_columns_the_table_declares_not_null(partition_by: list[str], tmp_path: Path) -> None:
    _, rows = _declared()
    write_deltalake(str(tmp_path / "t"), rows, partition_by=partition_by)
    table = DeltaTable(str(tmp_path / "t"))
    expected = {field.name: _nullable(field) for field in table.schema().to_arrow()}
    assert not expected["id"][0]
    assert not expected["point"][0]
    assert expected["maybe"] == (True, [(False, []), (True, [])])
    for read in (
        table.to_pyarrow_table(),
        table.to_pyarrow_table(columns=["point", "id"], filters=[("id", "=", 2)]),
        pa.table(table),
        table.to_pyarrow_dataset().to_table(columns=["id", "day"]),
    ):
        assert {field.name: _nullable(field) for field in read.schema} == {n: expected[n] for n in read.column_names}
    assert pa.table(table).sort_by("id").to_pylist() == rows.to_pylist()
    write_deltalake(str(tmp_path / "copy"), table)
    assert DeltaTable(str(tmp_path / "copy")).schema().to_json() == table.schema().to_json()


def test_rows_that_break_not_null_are_shown_as_they_are(tmp_path: Path) -> None:
    """The schema of a table says NOT NULL, but a file of another program has a null: the rows come,
    since the answer is there."""
    where = tmp_path / "t"
    write_deltalake(str(where), pa.table({"id": pa.array([1, None], pa.int64())}))
    log = where / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace(r"\"nullable\":true", r"\"nullable\":false"))
    (log.parent / f"{0:020}.crc").unlink(missing_ok=True)
    table = DeltaTable(str(where))
    assert not table.schema().fields[0].nullable
    assert table.to_pyarrow_table().column("id").to_pylist() == [1, None]
    assert table.to_polars()["id"].to_list() == [1, None]
