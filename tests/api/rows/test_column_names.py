"""Columns whose names are those of a scan's hidden columns, of a statement's own aliases or of the
log's fields: every command changes their values and no others.

Users have such tables: connectors call the row of a sheet `_row` and its file `_file`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaplane as dp
from deltaplane import DeltaTable, write_deltalake

NAMES = (
    # hidden columns by their short names, and what Spark calls them
    *("_file", "_row", "_row_id", "_row_commit_version", "_metadata", "_FILE"),
    # aliases within statements, and rows of DuckDB's tables
    *("s", "t", "f", "r", "d", "k", "x", "act", "sid", "side", "n", "gone", "come", "level", "before", "met", "rowid"),
    *("source", "target", "file_index", "file_row_number", "filename", "position", "unmatched", "rows"),
    # fields of the log
    *("path", "size", "stats", "add", "remove", "num_records", "value", "key", "partition"),
)
PLAIN = {"delta.enableChangeDataFeed": "true"}
TRACKED = {**PLAIN, "delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}


def columns(name: str, values: dict[int, int]) -> pa.Table:
    return pa.table({"id_": list(values), name: list(values.values())})


def rows(path: str, name: str) -> dict[int, int]:
    table = DeltaTable(path).to_pyarrow_table()
    assert table.column_names == ["id_", name]
    return dict(sorted(zip(table["id_"].to_pylist(), table[name].to_pylist(), strict=True)))


@pytest.mark.parametrize("configuration", [PLAIN, TRACKED], ids=["plain", "tracked"])
@pytest.mark.parametrize("name", NAMES)
def test_commands_change_the_column_and_nothing_else(tmp_path: Path, name: str, configuration: dict[str, Any]) -> None:
    path, quoted = str(tmp_path / "t"), f"`{name}`"
    write_deltalake(path, columns(name, {i: 10 * i for i in range(6)}), configuration=configuration)
    DeltaTable(path).update({name: f"{quoted} + 1"}, predicate=f"{quoted} = 20")
    DeltaTable(path).delete(f"{quoted} = 30")
    assert rows(path, name) == {0: 0, 1: 10, 2: 21, 4: 40, 5: 50}
    (
        DeltaTable(path)
        .merge(columns(name, {0: 100, 1: 101, 9: 990}), f"s.id_ = t.id_ AND s.{quoted} > t.{quoted}", "s", "t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete(f"t.{quoted} = 40")
        .execute()
    )
    assert rows(path, name) == {0: 100, 1: 101, 2: 21, 5: 50, 9: 990}
    (
        DeltaTable(path)
        .merge(columns(name, {7: 100}), f"src.{quoted} = dst.{quoted}", "src", "dst")
        .when_matched_update({name: f"dst.{quoted} + src.id_"})
        .execute()
    )
    place = f"delta.`{path}`"
    dp.sql(f"UPDATE {place} SET {quoted} = {quoted} + 1 WHERE id_ IN (SELECT id_ FROM {place} WHERE {quoted} = 990)")
    write_deltalake(path, columns(name, {6: 50}), mode="overwrite", predicate=f"{quoted} = 50")
    expected = {0: 107, 1: 101, 2: 21, 6: 50, 9: 991}
    assert rows(path, name) == expected
    DeltaTable(path).optimize.z_order([name])
    assert rows(path, name) == expected
    joined = dp.sql(f"SELECT a.{quoted} FROM {place} a JOIN {place} b ON a.{quoted} = b.{quoted} ORDER BY 1").to_arrow()
    assert joined.column(0).to_pylist() == sorted(expected.values())
    feed = DeltaTable(path).load_cdf(1).read_all().to_pylist()
    inserted = {row[name] for row in feed if row["_change_type"] in ("insert", "update_postimage")}
    assert inserted == {21, 100, 101, 990, 107, 991, 50}
    assert {row[name] for row in feed if row["_change_type"] == "delete"} == {30, 40, 50}
    if configuration == TRACKED:
        assert len(DeltaTable(path).scan(["__deltaplane_id"]).to_arrow()["__deltaplane_id"].unique()) == 5


def test_a_scan_shows_the_tables_column_by_the_short_name(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"_row": [7, 8], "_file": ["a", "b"]}))
    shown = DeltaTable(path).scan(["_row", "__deltaplane_position", "_file", "__deltaplane_path"]).to_arrow()
    assert shown.drop_columns(["__deltaplane_path"]).to_pydict() == {
        "_row": [7, 8],
        "__deltaplane_position": [0, 1],
        "_file": ["a", "b"],
    }
    assert shown["__deltaplane_path"].unique().to_pylist() == DeltaTable(path).files()


def test_an_index_of_keys_of_a_table_with_such_columns(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"_row": list(range(50)), "_file": ["a"] * 50}))
    DeltaTable(path).index.create(["_row"])
    assert DeltaTable(path).scan(["_file"], "_row = 7").to_arrow().num_rows == 1
