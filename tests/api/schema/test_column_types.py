"""Columns that are more than their type: variants, identity, NOT NULL at every level, char and
varchar, void."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, Schema, write_deltalake
from deltaplane.exceptions import (
    ConstraintViolationError,
    DeltaConcurrentModificationException,
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
)
from deltaplane.schema import ArrayType, StructType

# {"a": [1, 2.5, "x", null, true]} and 1, in the encoding of the Parquet project.
OBJECT = {
    "metadata": b"\x01\x01\x00\x01a",
    "value": b"\x02\x01\x00\x00\x14\x03\x05\x00\x02\x08\n\x0b\x0c\x0c\x01 \x01\x19\x00\x00\x00\x05x\x00\x04",
}
ONE = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"}
PARTS = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
VARIANT = pa.field("v", PARTS, metadata={"ARROW:extension:name": "arrow.parquet.variant"})


def add_stats(table: str, version: int) -> dict[str, Any]:
    lines = (Path(table) / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return json.loads(next(json.loads(line)["add"]["stats"] for line in lines if line.startswith('{"add"')))


# --- variants ---------------------------------------------------------------------------------------------------------


def test_variants_are_written_and_read(tmp_path: Path) -> None:
    """P154, P169: the Arrow extension type creates a variant column; a struct of the two parts can
    be stored in it as well."""
    table = str(tmp_path / "t")
    rows = pa.table({"v": pa.array([OBJECT, None, ONE], PARTS)}).cast(pa.schema([VARIANT]))
    write_deltalake(table, rows)
    write_deltalake(table, pa.table({"v": pa.array([ONE], PARTS)}), mode="append")
    opened = DeltaTable(table)
    assert str(opened.schema().fields[0].type) == str(Field("v", "variant").type)
    assert "variantType" in (opened.protocol().reader_features or [])
    read = opened.to_pyarrow_table()
    assert sorted(map(repr, read["v"].to_pylist())) == sorted(map(repr, [OBJECT, None, ONE, ONE]))
    assert (read.schema.field("v").metadata or {}).get(b"ARROW:extension:name") == b"arrow.parquet.variant"
    assert add_stats(table, 0) == {
        "numRecords": 3, "minValues": {}, "maxValues": {}, "nullCount": {"v": 1}, "tightBounds": True,
    }  # fmt: skip
    assert opened.scan(predicate="v IS NULL").to_arrow().num_rows == 1


def test_nested_variants(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    schema = Schema([Field("s", StructType([Field("v", "variant")])), Field("a", ArrayType("variant"))])
    DeltaTable.create(table, schema)
    rows = pa.table(
        {
            "s": pa.array([{"v": ONE}, {"v": None}, None], pa.struct([("v", PARTS)])),
            "a": pa.array([[OBJECT, None], [], None], pa.list_(PARTS)),
        }
    )
    write_deltalake(table, rows, mode="append")
    assert DeltaTable(table).to_pyarrow_table().to_pylist() == rows.to_pylist()
    assert DeltaTable(table).schema() == schema


@pytest.mark.parametrize(
    "bad",
    [
        pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("other", pa.binary())]),
        pa.struct([("value", pa.binary())]),
        pa.string(),
    ],
)
def test_what_is_no_variant_is_refused(tmp_path: Path, bad: pa.DataType) -> None:
    table = str(tmp_path / "t")
    DeltaTable.create(table, Schema([Field("v", "variant")]))
    with pytest.raises(SchemaMismatchError, match="`v"):
        write_deltalake(table, pa.table({"v": pa.nulls(1, bad)}), mode="append")
    half = pa.array([{"metadata": ONE["metadata"], "value": None}], PARTS)
    with pytest.raises(DeltaError):
        write_deltalake(table, pa.table({"v": half}), mode="append")
    assert DeltaTable(table).version() == 0
    with pytest.raises(InvalidArgumentError, match="partitioned"):
        DeltaTable.create(str(tmp_path / "p"), Schema([Field("v", "variant"), Field("x", "long")]), partition_by="v")


# --- identity columns -------------------------------------------------------------------------------------------------


def identity(start: int = 1, step: int = 1, explicit: bool = False) -> dict[str, Any]:
    return {
        "delta.identity.start": start,
        "delta.identity.step": step,
        "delta.identity.allowExplicitInsert": explicit,
    }


@pytest.fixture
def counted(tmp_path: Path) -> str:
    """A table with an identity column without user values, one with user values, and a plain
    column."""
    schema = Schema(
        [
            Field("id", "long", nullable=False, metadata=identity(10, 5)),
            Field("back", "long", metadata=identity(-1, -3, explicit=True)),
            Field("v", "string"),
        ]
    )
    return str(DeltaTable.create(str(tmp_path / "t"), schema).table_uri.removeprefix("file://"))


def marks(table: str) -> list[Any]:
    fields = json.loads(DeltaTable(table).schema().to_json())["fields"]
    return [f["metadata"].get("delta.identity.highWaterMark") for f in fields]


def letters(text: str) -> pa.Table:
    return pa.table({"v": list(text)})


def test_identity_values_go_on_where_they_stopped(counted: str) -> None:
    """P108"""
    assert marks(counted) == [None, None, None]
    write_deltalake(counted, letters("ab"), mode="append")
    write_deltalake(counted, letters("c").to_batches() + letters("de").to_batches(), mode="append")
    rows = DeltaTable(counted).to_pyarrow_table().sort_by("v").to_pydict()
    assert rows == {"id": [10, 15, 20, 25, 30], "back": [-1, -4, -7, -10, -13], "v": list("abcde")}
    assert marks(counted) == [30, -13, None]
    assert "identityColumns" in (DeltaTable(counted).protocol().writer_features or [])
    text = (Path(counted) / "_delta_log" / f"{2:020}.json").read_text()
    assert '"metaData"' in text
    assert "deltaplane.identity" not in text
    write_deltalake(counted, letters(""), mode="append")
    write_deltalake(counted, letters("f"), mode="overwrite")
    assert DeltaTable(counted).to_pyarrow_table().to_pydict() == {"id": [35], "back": [-16], "v": ["f"]}


def test_given_identity_values(counted: str) -> None:
    """P109: users can insert values only if the column allows it, and these don't move the
    high-water mark."""
    with pytest.raises(SchemaMismatchError, match=r"DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED.*`id`"):
        write_deltalake(counted, pa.table({"id": [1], "v": ["x"]}), mode="append")
    write_deltalake(counted, pa.table({"back": [1000], "v": ["x"]}), mode="append")
    assert DeltaTable(counted).to_pyarrow_table().to_pydict() == {"id": [10], "back": [1000], "v": ["x"]}
    assert marks(counted) == [10, None, None]


def test_two_writers_never_hand_out_a_value_twice(counted: str) -> None:
    """P108: both plan from one mark; the second commit is refused, and its retry continues behind
    the first."""
    from deltaplane import _native
    from deltaplane.write.intent import WriteIntent

    rows = letters("ab")
    jobs = [
        _native.WriteJob.begin(counted, None, rows.schema, WriteIntent(mode="append").request(counted, None))
        for _ in range(2)
    ]
    adds = [_native.write_files(counted, None, job.spec, rows) for job in jobs]
    jobs[0].commit(adds[0])
    with pytest.raises(DeltaConcurrentModificationException, match="schema"):
        jobs[1].commit(adds[1])
    write_deltalake(counted, rows, mode="append")
    assert sorted(DeltaTable(counted).to_pyarrow_table()["id"].to_pylist()) == [10, 15, 20, 25]


def test_who_hands_out_no_value_follows_a_commit_of_marks(counted: str) -> None:
    """5.1 rule 2: metadata that only moves identity columns' marks doesn't conflict with writers
    that allocate no values."""
    from deltaplane import _native
    from deltaplane.write.intent import WriteIntent

    schema = Schema([Field("back", "long", metadata=identity(-1, -3, explicit=True)), Field("v", "string")])
    table = str(DeltaTable.create(counted + "2", schema).table_uri.removeprefix("file://"))
    rows = pa.table({"back": [7], "v": ["x"]})
    job = _native.WriteJob.begin(table, None, rows.schema, WriteIntent(mode="append").request(table, None))
    adds = _native.write_files(table, None, job.spec, rows)
    write_deltalake(table, letters("a"), mode="append")
    job.commit(adds)
    assert sorted(DeltaTable(table).to_pyarrow_table()["back"].to_pylist()) == [-1, 7]
    assert marks(table) == [-1, None]
    infos = [json.loads((Path(table) / "_delta_log" / f"{v:020}.json").read_text().splitlines()[0]) for v in (1, 2)]
    assert [i["commitInfo"].get("tags") for i in infos] == [{"delta.identity.schemaUpdate": "true"}, None]
    write_deltalake(table, pa.table({"v": ["b"], "new": [1]}), mode="append", schema_mode="merge")
    line = (Path(table) / "_delta_log" / f"{3:020}.json").read_text().splitlines()[0]
    assert "schemaUpdate" not in line


def test_tasks_have_ranges_of_their_own(counted: str) -> None:
    from deltaplane import _native
    from deltaplane.write.intent import WriteIntent

    rows = letters("ab")
    job = _native.WriteJob.begin(counted, None, rows.schema, WriteIntent(mode="append").request(counted, None))
    job.commit(_native.AddedFiles.joined([_native.write_files(counted, None, job.spec, rows, t) for t in (0, 3)]))
    far = 10 + 5 * (3 << 32)
    assert sorted(DeltaTable(counted).to_pyarrow_table()["id"].to_pylist()) == [10, 15, far, far + 5]
    assert marks(counted)[0] == far + 5


@pytest.mark.parametrize(
    ("field", "partition_by", "match"),
    [
        (Field("id", "integer", metadata=identity()), None, "UNSUPPORTED_DATA_TYPE"),
        (Field("id", "long", metadata=identity(step=0)), None, "ILLEGAL_STEP"),
        (Field("id", "long", metadata={"delta.identity.start": 1}), None, "INCONSISTENT_METADATA"),
        (Field("id", "long", metadata=identity()), "id", "PARTITION_NOT_SUPPORTED"),
    ],
)
def test_wrong_identity_columns(tmp_path: Path, field: Field, partition_by: str | None, match: str) -> None:
    with pytest.raises(DeltaError, match=match):
        DeltaTable.create(str(tmp_path / "t"), Schema([field, Field("v", "string")]), partition_by=partition_by)


# --- NOT NULL, lengths, void ------------------------------------------------------------------------------------------

INNER = StructType([Field("x", "long", nullable=False), Field("y", "long")])


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ({"p": [1, None], "s": [{"x": 1, "y": 1}, {"x": 1, "y": 1}]}, "p"),
        ({"p": [1, 1], "s": [{"x": 1, "y": 1}, {"x": None, "y": 1}]}, r"s\.x"),
        # A null parent violates the constraint, too.
        ({"p": [1, 1], "s": [{"x": 1, "y": 1}, None]}, r"s\.x"),
    ],
)
def test_not_null_at_every_level(tmp_path: Path, rows: dict[str, Any], column: str) -> None:
    """P102: partition columns and nested fields too."""
    table = str(tmp_path / "t")
    DeltaTable.create(table, Schema([Field("p", "long", nullable=False), Field("s", INNER)]), partition_by="p")
    kind = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    data = pa.table({"p": pa.array(rows["p"], pa.int64()), "s": pa.array(rows["s"], kind)})
    with pytest.raises(ConstraintViolationError, match=f"NOT NULL constraint violated for column `{column}`.*row 1"):
        write_deltalake(table, data, mode="append")
    write_deltalake(table, data.slice(0, 1), mode="append")
    assert DeltaTable(table).to_pyarrow_table().num_rows == 1


def test_not_null_inside_arrays(tmp_path: Path) -> None:
    """P102: refused if a schema declares it, dropped if it is only a property of the Arrow data."""
    with pytest.raises(InvalidArgumentError, match=r"DELTA_NESTED_NOT_NULL_CONSTRAINT.*`a`"):
        DeltaTable.create(str(tmp_path / "t"), Schema([Field("a", ArrayType(INNER))]))
    kind = pa.list_(pa.struct([pa.field("x", pa.int64(), nullable=False)]))
    write_deltalake(str(tmp_path / "u"), pa.table({"a": pa.array([[{"x": 1}]], kind)}))
    assert DeltaTable(str(tmp_path / "u")).schema() == Schema([Field("a", ArrayType(StructType([Field("x", "long")])))])


def test_lengths_of_char_and_varchar(tmp_path: Path) -> None:
    """P102: lengths are in characters; nothing is padded or truncated."""
    table = str(tmp_path / "t")
    kinds = {"c": "char(3)", "v": "varchar(4)"}
    DeltaTable.create(
        table,
        Schema([Field(n, "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": t}) for n, t in kinds.items()]),
    )
    write_deltalake(table, pa.table({"c": ["äöü", "a"], "v": ["1234", None]}), mode="append")
    with pytest.raises(ConstraintViolationError, match=r'DELTA_EXCEED_CHAR_VARCHAR_LIMIT.*"abcd".*`c`.*char\(3\)'):
        write_deltalake(table, pa.table({"c": ["abcd"], "v": ["1"]}), mode="append")
    assert sorted(DeltaTable(table).to_pyarrow_table()["c"].to_pylist()) == ["a", "äöü"]


def test_void(tmp_path: Path) -> None:
    """P181: void columns are read as nulls and are in no file; they are refused in places that
    files can't leave out."""
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"n": pa.nulls(2), "s": [{"v": None, "x": 1}, None], "x": [1, 2]}))
    read = DeltaTable(table).to_pyarrow_table()
    assert (read["n"].to_pylist(), read["s"].to_pylist()) == ([None, None], [{"v": None, "x": 1}, None])
    for bad in ([[None]], [{"v": None}]):
        with pytest.raises(SchemaMismatchError, match="void"):
            write_deltalake(str(tmp_path / "bad"), pa.table({"b": bad, "x": [1]}))
