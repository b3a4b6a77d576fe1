"""Tables that are deleted and put back by an older copy of themselves, while a process works on
them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, write_deltalake

Command = Callable[[DeltaTable], object]


def _compacted(table: DeltaTable) -> object:
    return table.optimize.compact()


COMMANDS: dict[str, Command] = {
    "append": lambda table: write_deltalake(table, _rows("new"), mode="append"),
    "delete": lambda table: table.delete("name = 'first'"),
    "update": lambda table: table.update({"name": "'changed'"}, predicate="name = 'first'"),
    "merge": lambda table: (
        table.merge(_rows("new"), "t.name = s.name", source_alias="s", target_alias="t")
        .when_not_matched_insert_all()
        .execute()
    ),
    "compact": _compacted,
    "set a property": lambda table: table.alter.set_table_properties({"mine": "yes"}),
    "add a column": lambda table: table.alter.add_columns(Field("more", "string")),
    "restore": lambda table: table.restore(0),
}


def _rows(*names: str) -> pa.Table:
    return pa.table({"name": names})


@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_on_a_backup_dont_see_the_versions_that_it_lost(tmp_path: Path, name: str, lost: int) -> None:
    """The backup has the table's id, and the command's commit may have a version that the process
    committed before."""
    path, backup = tmp_path / "table", tmp_path / "backup"
    for first in ("first", "second"):
        write_deltalake(str(path), _rows(first), mode="append")
    shutil.copytree(path, backup)
    for number in range(lost):
        write_deltalake(str(path), _rows(f"lost {number}"), mode="append")
    shutil.rmtree(path)
    shutil.copytree(backup, path)

    table = DeltaTable(str(path))
    assert table.version() == 1
    COMMANDS[name](table)
    for seen in (table, DeltaTable(str(path))):
        assert seen.version() == 2
        assert not [row for row in seen.to_pyarrow_table()["name"].to_pylist() if row.startswith("lost")]
    COMMANDS["append"](table)
    assert [path.stem for path in sorted((path / "_delta_log").glob("*.json"))] == [f"{v:020}" for v in range(4)]
    assert "new" in table.to_pyarrow_table()["name"].to_pylist()
