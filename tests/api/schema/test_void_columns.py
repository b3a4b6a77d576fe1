"""A column created with nulls only takes the type of the first data that has one (P153, P181)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import SchemaMismatchError, SqlSyntaxError, UnsupportedExpressionError

VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "text": (pa.string(), "x"),
    "number": (pa.int8(), 7),
    "list": (pa.list_(pa.string()), ["a"]),
    "struct": (pa.struct([pa.field("y", pa.int64(), nullable=False)]), {"y": 1}),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
}


def _rows(ids: list[int], t: pa.DataType, value: Any) -> pa.Table:
    inner = pa.struct([("x", pa.int64()), ("v", t)])
    whole = [{"x": i, "v": value} for i in ids]
    return pa.table({"id": ids, "v": pa.array([value] * len(ids), t), "s": pa.array(whole, inner)})


def _write(how: str, path: str, rows: pa.Table) -> None:
    if how == "append":
        write_deltalake(path, rows, mode="append", schema_mode="merge")
    elif how == "overwrite":
        write_deltalake(path, rows, mode="overwrite", schema_mode="merge")
    elif how == "replace":
        write_deltalake(path, rows, mode="overwrite", schema_mode="merge", predicate="id = 2")
    elif how == "replace_using":
        write_deltalake(path, rows, mode="overwrite", schema_mode="merge", replace_using=["id"])
    else:
        merge = DeltaTable(path).merge(rows, "t.id = s.id", source_alias="s", target_alias="t", merge_schema=True)
        merge.when_matched_update_all().when_not_matched_insert_all().execute()


@pytest.mark.parametrize("how", ["append", "overwrite", "replace", "replace_using", "merge"])
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    "configuration", [{}, {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}]
)
def test_void_takes_the_first_type(kind: str, how: str, configuration: dict[str, str], tmp_path: Path) -> None:
    path, (t, value) = str(tmp_path / "t"), VALUES[kind]
    write_deltalake(path, _rows([1], pa.null(), None), configuration=configuration)
    if how == "append":
        with pytest.raises(SchemaMismatchError, match=r'`v`.*schema_mode="merge"'):
            write_deltalake(path, _rows([2], t, value), mode="append")
    _write(how, path, _rows([2], t, value))
    new = {"id": 2, "v": value, "s": {"x": 2, "v": value}}
    old = {"id": 1, "v": None, "s": {"x": 1, "v": None}}
    table = DeltaTable(path)
    rows = table.to_pyarrow_table().sort_by("id").to_pylist()
    assert rows == ([new] if how == "overwrite" else [old, new])
    assert "void" not in table.schema().to_json()
    assert "typeChanges" not in table.schema().to_json()
    write_deltalake(path, _rows([3], pa.null(), None), mode="append")
    table.update_incremental()
    assert [r["v"] for r in table.scan(predicate="id >= 2").to_arrow().sort_by("id").to_pylist()] == [value, None]
    nulls = table.scan(predicate="v IS NULL").to_arrow()["id"].to_pylist()
    assert sorted(nulls) == ([3] if how == "overwrite" else [1, 3])


NESTED = {
    # Types that no file can hold: rows have nulls there.
    "array<void>": None,
    "map<string,void>": None,
    "array<struct<a:int,b:void>>": None,
    "struct<a:void>": None,
    "struct<a:array<void>,b:int>": None,
    "struct<a:struct<b:void>>": None,
    # Types of which files leave out the void parts.
    "void": None,
    "struct<a:void,b:int>": {"a": None, "b": 1},
    "struct<a:struct<b:void,c:int>>": {"a": {"b": None, "c": 1}},
}


@pytest.mark.parametrize("declared", ["map<void,string>", "array<struct<a:map<void,int>>>"])
def test_keys_of_void(declared: str, tmp_path: Path) -> None:
    """Statements take no such type; a table that has it is read, and says what can't be done."""
    path = str(tmp_path / "t")
    with pytest.raises(SqlSyntaxError, match="expected a type for the keys of a map"):
        deltaplane.sql(f"CREATE TABLE delta.`{path}` (id bigint, c {declared})")
    deltaplane.sql(f"CREATE TABLE delta.`{path}` (id bigint, c {declared.replace('void', 'binary')})")
    log = Path(path, "_delta_log", f"{0:020}.json")
    log.write_text(log.read_text().replace('\\"keyType\\":\\"binary', '\\"keyType\\":\\"void'))
    log.with_suffix(".crc").unlink(missing_ok=True)
    write_deltalake(path, pa.table({"id": [1, 2]}), mode="append")
    expected = [{"id": 1, "c": None}, {"id": 2, "c": None}]
    assert DeltaTable(path).to_pyarrow_table().sort_by("id").to_pylist() == expected
    assert deltalake.DeltaTable(path).to_pyarrow_table().sort_by("id").to_pylist() == expected
    with pytest.raises(UnsupportedExpressionError, match="keys of the type void"):
        deltaplane.sql(f"SELECT c FROM delta.`{path}`")
    assert pa.table(deltaplane.sql(f"SELECT max(id) AS m FROM delta.`{path}`")).to_pylist() == [{"m": 2}]


@pytest.mark.parametrize("declared", NESTED)
def test_nested_void_columns_without_spark(declared: str, tmp_path: Path) -> None:
    """Every command works on a table with such a column, and deltalake reads the same rows."""
    path, value = str(tmp_path / "t"), NESTED[declared]
    deltaplane.sql(f"CREATE TABLE delta.`{path}` (id bigint, c {declared})")
    kind = pa.schema(DeltaTable(path)._snapshot.schema).field("c").type
    whole = pa.table({"id": [4], "c": pa.array([value], kind)})
    write_deltalake(path, pa.table({"id": [1]}), mode="append")
    write_deltalake(path, pa.table({"id": [2], "c": pa.nulls(1)}), mode="append")
    if value is None and declared != "void":
        for typed, place in ((whole, path), (whole, f"{path}/new")):
            with pytest.raises(SchemaMismatchError, match="of the type void"):
                write_deltalake(place, typed, mode="append")
        with pytest.raises(SchemaMismatchError, match="of the type void"):
            DeltaTable.create(f"{path}/new", whole.schema)
    else:
        write_deltalake(path, whole, mode="append")
        write_deltalake(f"{path}/new", whole)
    source = pa.table({"id": [2, 7]})
    table = DeltaTable(path)
    table.update(updates={"id": "id + 10"}, predicate="id = 1")
    table.delete("id = 3")
    merge = table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update({"id": "s.id + 1"}).when_not_matched_insert({"id": "s.id"}).execute()
    table.optimize.compact()
    table.create_checkpoint()
    expected: list[dict[str, Any]] = [{"id": i, "c": None} for i in (3, 7, 11)]
    if declared in {"void"} or value is not None:
        expected.insert(1, {"id": 4, "c": value})
    table = DeltaTable(path)
    assert table.to_pyarrow_table().sort_by("id").to_pylist() == expected
    assert pa.table(deltaplane.sql(f"SELECT * FROM delta.`{path}` ORDER BY id")).to_pylist() == expected
    nulls = table.scan(predicate="c IS NULL", columns=["id"]).to_arrow()["id"].to_pylist()
    assert sorted(nulls) == [row["id"] for row in expected if row["c"] is None]
    theirs = deltalake.DeltaTable(path).to_pyarrow_table().sort_by("id")
    assert theirs.to_pylist() == expected
