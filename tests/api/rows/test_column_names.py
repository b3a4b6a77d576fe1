"""Columns whose names are those of a scan's hidden columns, of a statement's own aliases or of the
log's fields: every command changes their values and no others.

Users have such tables: connectors call the row of a sheet `_row` and its file `_file`.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import deltaplane as dp
from column_names import NAMES, PLAIN, TRACKED, everywhere, firsts, rows
from deltaplane import DeltaTable, write_deltalake


@pytest.mark.parametrize("configuration", [PLAIN, TRACKED], ids=["plain", "tracked"])
def test_commands_change_these_columns_and_nothing_else(tmp_path: Path, configuration: dict[str, str]) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, rows({i: 1000 * i for i in range(6)}), configuration=configuration)
    DeltaTable(path).update({name: f"`{name}` + 100" for name in NAMES}, predicate=everywhere("# = 2000 + %"))
    DeltaTable(path).delete(everywhere("# = 3000 + %"))
    assert firsts(path) == {0: 0, 1: 1000, 2: 2100, 4: 4000, 5: 5000}
    (
        DeltaTable(path)
        .merge(rows({0: 7000, 1: 8000, 9: 9000}), "s.id_ = t.id_ AND " + everywhere("s.# > t.#"), "s", "t")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_delete(everywhere("t.# = 4000 + %"))
        .execute()
    )
    assert firsts(path) == {0: 7000, 1: 8000, 2: 2100, 5: 5000, 9: 9000}
    (
        DeltaTable(path)
        .merge(rows({300: 7000}), everywhere("src.# = dst.#"), "src", "dst")
        .when_matched_update({name: f"dst.`{name}` + src.id_" for name in NAMES})
        .execute()
    )
    place = f"delta.`{path}`"
    values = ", ".join(f"`{name}` = `{name}` + 1" for name in NAMES)
    dp.sql(f"UPDATE {place} SET {values} WHERE id_ IN (SELECT id_ FROM {place} WHERE {everywhere('# = 9000 + %')})")
    write_deltalake(path, rows({6: 5000}), mode="overwrite", predicate=everywhere("# = 5000 + %"))
    expected = {0: 7300, 1: 8000, 2: 2100, 6: 5000, 9: 9001}
    assert firsts(path) == expected
    DeltaTable(path).optimize.z_order(["_row", "path"])
    assert firsts(path) == expected
    joined = f"SELECT a.* FROM {place} a JOIN {place} b ON {everywhere('a.# = b.#')} ORDER BY a.id_"
    assert dp.sql(joined).to_arrow().equals(rows(expected))
    feed = DeltaTable(path).load_cdf(1).read_all()
    for i, name in enumerate(NAMES):
        changes = list(zip(feed["_change_type"].to_pylist(), feed[name].to_pylist(), strict=True))
        assert {n - i for kind, n in changes if kind == "delete"} == {3000, 4000, 5000}
        assert {n - i for kind, n in changes if kind == "update_postimage"} == {2100, 7000, 8000, 7300, 9001}
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
