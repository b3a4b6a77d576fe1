"""Column mapping on write: ids and physical names in schema, files and log, and reading them back
(P110-P116)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, Field, write_deltalake
from deltaplane.exceptions import DeltaError, InvalidArgumentError
from deltaplane.schema import PrimitiveType

MODES = ("name", "id")


def rows(start: int = 0) -> pa.Table:
    """Four rows whose column names need mapping (P116), with structs in every kind of place."""
    inner = pa.struct([("a b", pa.int64()), ("x", pa.string())])
    ids = range(start, start + 4)
    return pa.table(
        {
            "the id": pa.array(ids, pa.int64()),
            "p,q": pa.array([f"p{i % 2}" for i in ids]),
            "s": pa.array([{"a b": i, "x": f"x{i}"} for i in ids], inner),
            "l": pa.array([[{"a b": i, "x": None}] for i in ids], pa.list_(inner)),
            "m": pa.array([[(f"k{i}", {"a b": -i, "x": "y"})] for i in ids], pa.map_(pa.string(), inner)),
        }
    )


def create(path: str, mode: str, data: pa.Table, **arguments: Any) -> None:
    write_deltalake(path, data, configuration={"delta.columnMapping.mode": mode}, **arguments)


def actions(path: str, kind: str) -> list[dict[str, Any]]:
    log = sorted(Path(path, "_delta_log").glob("*.json"))
    lines = (json.loads(line) for file in log for line in file.read_text().splitlines())
    return [line[kind] for line in lines if kind in line]


def fields(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Every field of a schema's JSON, at every depth."""
    nested = []
    for field in schema["fields"]:
        nested.append(field)
        todo = [field["type"]]
        while todo:
            kind = todo.pop()
            if isinstance(kind, dict):
                if kind["type"] == "struct":
                    nested += fields(kind)
                else:
                    todo += [kind[k] for k in ("elementType", "keyType", "valueType") if k in kind]
    return nested


def mapping(path: str) -> dict[str, tuple[int, str]]:
    """Name of each field → id and physical name."""
    schema = json.loads(actions(path, "metaData")[-1]["schemaString"])
    meta = {f["name"]: f["metadata"] for f in fields(schema)}
    return {n: (m["delta.columnMapping.id"], m["delta.columnMapping.physicalName"]) for n, m in meta.items()}


def by_id(table: pa.Table) -> pa.Table:
    return table.sort_by("the id")


@pytest.mark.parametrize("mode", MODES)
def test_files_and_log_have_physical_names(mode: str, tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    create(path, mode, rows(), partition_by="p,q")
    metadata, protocol = actions(path, "metaData")[0], actions(path, "protocol")[0]
    # P092: the protocol that delta-spark gives such a table.
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (2, 7)
    assert sorted(protocol["writerFeatures"]) == ["appendOnly", "columnMapping", "invariants"]
    assert "readerFeatures" not in protocol
    all_fields = fields(json.loads(metadata["schemaString"]))
    ids = [f["metadata"]["delta.columnMapping.id"] for f in all_fields]
    physical = [f["metadata"]["delta.columnMapping.physicalName"] for f in all_fields]
    # P110, P111: depth first, unique, `col-<uuid>`.
    assert ids == list(range(1, len(all_fields) + 1))
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == str(len(all_fields))
    assert len(set(physical)) == len(all_fields)
    assert all(name.startswith("col-") for name in physical)
    assert metadata["partitionColumns"] == ["p,q"]
    known = mapping(path)
    for add in actions(path, "add"):
        # P112: keys of values and statistics are physical.
        assert set(add["partitionValues"]) == {known["p,q"][1]}
        stats = json.loads(add["stats"])
        assert known["the id"][1] in stats["minValues"]
        assert not set(stats["nullCount"]) & set(rows().column_names)
        top = pq.read_schema(Path(path, add["path"]))
        logical = [n for n in rows().column_names if n != "p,q"]
        assert [f.name for f in top] == [known[n][1] for n in logical]
        assert [int(f.metadata[b"PARQUET:field_id"]) for f in top] == [known[n][0] for n in logical]
        inside = top.field(known["s"][1]).type
        assert {f.name for f in inside} <= set(physical)
        assert all(int(f.metadata[b"PARQUET:field_id"]) in ids for f in inside)


@pytest.mark.parametrize("mode", MODES)
def test_what_was_written_is_read(mode: str, tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    create(path, mode, rows(), partition_by="p,q")
    write_deltalake(path, rows(4), mode="append")
    table = DeltaTable(path)
    expected = pa.concat_tables([rows(), rows(4)])
    assert by_id(table.to_pyarrow_table()).to_pylist() == expected.to_pylist()
    assert len(table.files()) == 4
    assert len(table.files([("p,q", "=", "p1")])) == 2
    selected = table.scan(predicate="`the id` >= 6 AND s.`a b` = 7", columns=["s", "p,q"]).to_arrow()
    assert selected.to_pylist() == [{"s": {"a b": 7, "x": "x7"}, "p,q": "p1"}]
    shown = pa.table(table.get_add_actions())
    assert {f.name for f in shown.schema.field("partition").type} == {"p,q"}
    assert "the id" in {f.name for f in shown.schema.field("min").type}
    write_deltalake(
        path, rows(8).filter(pa.array([True, False, True, False])), mode="overwrite", predicate="`p,q` = 'p0'"
    )

    table.create_checkpoint()
    assert by_id(DeltaTable(path).to_pyarrow_table())["the id"].to_pylist() == [1, 3, 5, 7, 8, 10]


def test_new_columns_get_new_ids(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    create(path, "name", rows())
    before = mapping(path)
    inner = pa.struct([("x", pa.string()), ("a b", pa.int64()), ("z", pa.date32())])
    more = pa.table({"the id": [9], "s": pa.array([{"x": "n", "a b": 1, "z": None}], inner), "new;": [1.5]})
    write_deltalake(path, more, mode="append", schema_mode="merge")
    after = mapping(path)
    assert {n: after[n] for n in before} == before
    assert {n: after[n][0] for n in after if n not in before} == {"z": 12, "new;": 13}
    assert actions(path, "metaData")[-1]["configuration"]["delta.columnMapping.maxColumnId"] == "13"
    read = by_id(DeltaTable(path).to_pyarrow_table())
    assert read["new;"].to_pylist() == [None] * 4 + [1.5]
    # Columns that replace all others get the ids of old ones with the same path and type back, as
    # in delta-spark; the struct, which has a field less, is a new column (P110).
    write_deltalake(path, rows(), mode="overwrite", schema_mode="overwrite")
    replaced = mapping(path)
    assert replaced.pop("s")[0] == 14
    assert replaced == {n: before[n] for n in before if n != "s"}
    assert by_id(DeltaTable(path).to_pyarrow_table()).to_pylist() == rows().to_pylist()


def test_names_that_files_cannot_hold_need_mapping(tmp_table: Callable[[], str]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"P116.*delta\.columnMapping\.mode"):
        write_deltalake(tmp_table(), rows())
    with pytest.raises(InvalidArgumentError, match=r"columnMapping\.mode"):
        create(tmp_table(), "nme", rows())


def rewrite_schema(path: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Commits the table's metadata with a changed schema, as another program's ALTER does."""
    metadata = actions(path, "metaData")[-1]
    schema = json.loads(metadata["schemaString"])
    change(schema)
    log = Path(path, "_delta_log")
    line = json.dumps({"metaData": {**metadata, "schemaString": json.dumps(schema)}})
    (log / f"{len(list(log.glob('*.json'))):020d}.json").write_text(line + "\n")


@pytest.mark.parametrize("mode", MODES)
def test_renamed_swapped_and_dropped_columns(mode: str, tmp_table: Callable[[], str]) -> None:
    """P113: names in files have no meaning, even if another column now has such a name."""
    path = tmp_table()
    create(path, mode, rows())

    def swap(schema: dict[str, Any]) -> None:
        inner = schema["fields"][2]["type"]["fields"]
        inner[0]["name"], inner[1]["name"] = "x", "a b"
        schema["fields"][0]["name"] = "s"
        schema["fields"][2]["name"] = "the id"
        del schema["fields"][1]

    rewrite_schema(path, swap)
    read = DeltaTable(path).to_pyarrow_table()
    assert read.column_names == ["s", "the id", "l", "m"]
    assert read["s"].to_pylist() == [0, 1, 2, 3]
    assert read["the id"].to_pylist()[1] == {"x": 1, "a b": "x1"}
    assert DeltaTable(path).scan(predicate="`the id`.`a b` = 'x2'").to_arrow()["s"].to_pylist() == [2]


def test_a_file_without_ids_is_refused_in_mode_id(tmp_table: Callable[[], str]) -> None:
    """P113: reading nulls for all its rows would silently lose data."""
    path = tmp_table()
    create(path, "id", pa.table({"a": [1]}))
    file = Path(path, actions(path, "add")[0]["path"])
    pq.write_table(pa.table({mapping(path)["a"][1]: [1]}), file)
    with pytest.raises(DeltaError, match=r"`a` by its id.*P113"):
        DeltaTable(path).to_pyarrow_table()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda f: f[0]["metadata"].clear(), "`a` has no physical name"),
        (lambda f: f[0]["metadata"].pop("delta.columnMapping.id"), "`a` has no id"),
        (lambda f: f[1].update(metadata=f[0]["metadata"]), "`b` has no physical name of its own"),
    ],
)
def test_broken_mappings_are_refused(change: Callable[[Any], Any], problem: str, tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    create(path, "name", pa.table({"a": [1], "b": [2]}))
    rewrite_schema(path, lambda schema: change(schema["fields"]))
    with pytest.raises(DeltaError, match=problem):
        DeltaTable(path)


def test_an_existing_table_gets_a_mapping(tmp_table: Callable[[], str]) -> None:
    """P111, P114: the files keep their names, renamed columns map to them, and new columns never
    map to dropped ones."""
    path = tmp_table()
    write_deltalake(path, pa.table({"a": [1], "s": [{"x": 1}], "old": ["gone"]}))
    table = DeltaTable(path)
    with pytest.raises(InvalidArgumentError, match=r"`none` to `id`.*P114"):
        table.alter.set_table_properties({"delta.columnMapping.mode": "id"})
    table.alter.set_table_properties({"delta.columnMapping.mode": "name"})
    assert mapping(path) == {"a": (1, "a"), "s": (2, "s"), "x": (3, "x"), "old": (4, "old")}
    with pytest.raises(InvalidArgumentError, match="P114"):
        table.alter.set_table_properties({"delta.columnMapping.mode": "id"})
    table.alter.rename_column("a", "the a")
    table.alter.rename_column("s.x", "new x")
    table.alter.drop_columns("old")
    table.alter.add_columns(Field("old", PrimitiveType("string")))
    table.alter.add_columns(Field("a", PrimitiveType("long")))
    assert {n: i for n, (i, _) in mapping(path).items()} == {"the a": 1, "s": 2, "new x": 3, "old": 5, "a": 6}
    assert mapping(path)["old"][1].startswith("col-")
    write_deltalake(path, pa.table({"the a": [2], "s": [{"new x": 2}], "old": ["new"], "a": [7]}), mode="append")
    assert DeltaTable(path).to_pyarrow_table().sort_by("the a").to_pylist() == [
        {"the a": 1, "s": {"new x": 1}, "old": None, "a": None},
        {"the a": 2, "s": {"new x": 2}, "old": "new", "a": 7},
    ]
    assert len(DeltaTable(path).files()) == 2
    assert DeltaTable(path).scan(predicate="a = 7", columns=["the a"]).to_arrow().to_pylist() == [{"the a": 2}]
