"""ALTER under column mapping: names change, files don't."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, write_deltalake
from deltaplane.exceptions import InvalidArgumentError

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "p": ["a", "b"],
        "s": pa.array([{"x": 1, "y": "u"}, {"x": 2, "y": "v"}], pa.struct([("x", pa.int32()), ("y", pa.string())])),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    """A partitioned table that got column mapping after its first rows."""
    write_deltalake(tmp_path / "t", ROWS, partition_by=["p"])
    table = DeltaTable(tmp_path / "t")
    plan = table.alter.set_table_properties({"delta.columnMapping.mode": "name"})
    assert (plan.added_features, str(plan.after)) == (
        ["columnMapping"],
        "(2, 7: appendOnly, columnMapping, invariants)",
    )
    return table


def test_mapping_is_switched_on_without_touching_files(table: DeltaTable) -> None:
    # P111, P114
    assert table.to_pyarrow_table().sort_by("id").select(ROWS.column_names) == ROWS
    assert table.metadata().configuration["delta.columnMapping.maxColumnId"] == "5"
    physical = [f.metadata["delta.columnMapping.physicalName"] for f in table.schema().fields]
    assert physical == ["id", "p", "s"]
    write_deltalake(table, ROWS, mode="append")
    assert table.to_pyarrow_table().num_rows == 4


def test_columns_get_other_names(table: DeltaTable) -> None:
    table.alter.rename_column("id", "key with space")
    table.alter.rename_column("s.x", "z")
    table.alter.rename_column("p", "part")
    assert table.metadata().partition_columns == ["part"]
    entry = table.history(1)[0]
    assert (entry["operation"], entry["operationParameters"]) == (
        "RENAME COLUMN",
        {"oldColumnPath": "p", "newColumnPath": "part"},
    )
    rows = table.to_pyarrow_table(filters="part = 'a'").to_pylist()
    assert rows == [{"key with space": 1, "part": "a", "s": {"z": 1, "y": "u"}}]
    write_deltalake(table, pa.table({"key with space": [3], "part": ["c"]}), mode="append")
    assert table.to_pyarrow_table().num_rows == 3
    assert DeltaTable(table.location, version=0).to_pyarrow_table().num_rows == 2


def test_dropped_columns_never_come_back(table: DeltaTable) -> None:
    # P111: a physical path is never used again
    table.alter.drop_columns(["id", "s.y"])
    assert table.history(1)[0]["operation"] == "DROP COLUMNS"
    table.alter.add_columns(Field("id", "long"))
    assert table.to_pyarrow_table()["id"].to_pylist() == [None, None]
    new = next(f for f in table.schema().fields if f.name == "id")
    assert new.metadata["delta.columnMapping.id"] == 6
    assert new.metadata["delta.columnMapping.physicalName"].startswith("col-")


def test_what_is_refused(table: DeltaTable) -> None:
    # P104, P114
    for call, says in (
        (lambda: table.alter.rename_column("id", "P"), "already"),
        (lambda: table.alter.rename_column("id", ""), "characters"),
        (lambda: table.alter.rename_column("nope", "n"), "nope"),
        (lambda: table.alter.drop_columns("p"), "partitioned by"),
        (lambda: table.alter.drop_columns([]), "no column"),
        (lambda: table.alter.set_table_properties({"delta.columnMapping.mode": "id"}), "P114"),
        (lambda: table.alter.unset_table_properties("delta.columnMapping.mode"), "P114"),
    ):
        with pytest.raises(InvalidArgumentError, match=says):
            call()


def test_listed_statistics_follow(table: DeltaTable) -> None:
    table.alter.set_table_properties({"delta.dataSkippingStatsColumns": "id,s.x"})
    table.alter.rename_column("s", "t")
    assert table.metadata().configuration["delta.dataSkippingStatsColumns"] == "id,t.x"
    table.alter.drop_columns("t.x")
    assert table.metadata().configuration["delta.dataSkippingStatsColumns"] == "id"
