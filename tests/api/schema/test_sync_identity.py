"""SYNC IDENTITY: an identity column continues behind the values in its rows (P108)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, Schema, sql, write_deltalake
from deltaplane.exceptions import ConcurrentAppendException, ConstraintViolationError, InvalidArgumentError


def made(path: Path, start: int = 1, step: int = 1, *, explicit: bool = True, **properties: str) -> DeltaTable:
    noted = {"start": start, "step": step, "allowExplicitInsert": explicit}
    metadata = {f"delta.identity.{name}": value for name, value in noted.items()}
    schema = Schema([Field("id", "long", metadata=metadata), Field("x", "long")])
    return DeltaTable.create(str(path / "t"), schema, configuration={**properties})


def write_ids(table: DeltaTable, *ids: int) -> None:
    write_deltalake(table, pa.table({"id": pa.array(ids, pa.int64()), "x": [0] * len(ids)}), mode="append")


def mark(table: DeltaTable) -> Any:
    return DeltaTable(table.location).schema().fields[0].metadata.get("delta.identity.highWaterMark")


def next_value(table: DeltaTable) -> int:
    before = set(table.to_pyarrow_table()["id"].to_pylist())
    write_deltalake(table, pa.table({"x": [1]}), mode="append")
    (new_id,) = set(DeltaTable(table.location).to_pyarrow_table()["id"].to_pylist()) - before
    return int(new_id)


@pytest.mark.parametrize(
    ("start", "step", "values", "marked", "follows"),
    [
        (1, 1, (100, 57), 100, 101),
        (10, 7, (12,), 17, 24),
        (10, 7, (17,), 17, 24),
        (10, 7, (9,), None, 10),
        (-1, -3, (-12, 5), -13, -16),
        (-1, -3, (7,), None, -1),
    ],
)
def test_the_mark_is_the_next_value_of_the_series(
    tmp_path: Path, start: int, step: int, values: tuple[int, ...], marked: int | None, follows: int
) -> None:
    table = made(tmp_path, start, step)
    write_ids(table, *values)
    done = table.alter.sync_identity("ID")
    assert (done.operation, done.changed, mark(table)) == ("CHANGE COLUMN", marked is not None, marked)
    assert next_value(table) == follows


@pytest.mark.parametrize(
    "properties", [{}, {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}]
)
def test_the_mark_never_moves_back_and_rows_that_went_dont_count(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, **properties)
    write_ids(table, 5, 90)
    sql("DELETE FROM t WHERE id = 90", tables={"t": table})
    sql("ALTER TABLE t ALTER COLUMN id SYNC IDENTITY", tables={"t": table})
    assert mark(table) == 5
    info = DeltaTable(table.location).history(1)[0]
    column = json.loads(info["operationParameters"]["column"])
    assert (info["operation"], column["name"]) == ("CHANGE COLUMN", "id")
    write_ids(table, 90)
    table.alter.sync_identity("id")
    sql("DELETE FROM t WHERE id = 90", tables={"t": table})
    assert not table.alter.sync_identity("id").changed
    assert (mark(table), next_value(table)) == (90, 91)


def test_what_cant_be_synchronised_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, 10, 5)
    with pytest.raises(InvalidArgumentError, match="isn't an identity column"):
        table.alter.sync_identity("x")
    with pytest.raises(InvalidArgumentError, match="nope"):
        table.alter.sync_identity("nope")
    write_ids(table, 2**63 - 2)
    with pytest.raises(ConstraintViolationError, match="no value left"):
        table.alter.sync_identity("id")


def test_a_column_that_is_always_generated_is_synchronised_without_a_change(tmp_path: Path) -> None:
    """delta-spark takes the statement too."""
    table = made(tmp_path, explicit=False)
    write_deltalake(table, pa.table({"x": [1, 2]}), mode="append")
    before = mark(table)
    assert not table.alter.sync_identity("id").changed
    assert mark(table) == before == 2


def test_rows_that_come_meanwhile_are_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltaplane.table import alter

    table = made(tmp_path)
    write_ids(table, 5)
    furthest = alter._furthest

    def overtaken(snapshot: Any, column: str) -> int | None:
        value = furthest(snapshot, column)
        write_ids(DeltaTable(table.location), 70)
        return value

    monkeypatch.setattr(alter, "_furthest", overtaken)
    with pytest.raises(ConcurrentAppendException):
        table.alter.sync_identity("id")
    assert mark(table) is None
