"""UPDATE with files that keep their other columns byte for byte: values, statistics, indexes, and
the cases without patching."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bloom_filters import COLUMNS, damage, filtered
from deltaplane import DeltaTable, write_deltalake
from deltaplane.commands.rewriting import Rewriting
from deltaplane.exceptions import ConstraintViolationError
from deltaplane.properties import WriterProperties

ROWS = 60_000
# Tables whose rows have more state than their values.
more_than_values = pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableChangeDataFeed": "true"},
        {"delta.enableRowTracking": "true"},
        {"delta.columnMapping.mode": "name"},
        {"delta.enableDeletionVectors": "true"},
    ],
    ids=lambda p: next(iter(p)),
)


def data(rows: int = ROWS) -> pa.Table:
    """Incompressible rows of many types, so that patching their file pays."""
    random = np.random.default_rng(7)
    numbers = random.integers(-(1 << 60), 1 << 60, rows)
    ids = pa.array(np.arange(rows))
    nulls = pa.array(np.arange(rows) % 5 == 0)
    return pa.table(
        {
            "id": ids,
            "number": pc.if_else(nulls, None, pa.array(numbers)),
            "text": pc.cast(pa.array(numbers), pa.string()),
            "amount": pa.array(random.random(rows)),
            "price": pa.array([Decimal(i).scaleb(-2) for i in range(rows)], pa.decimal128(12, 2)),
            "at": pa.array(np.arange(rows) * 1_000_000, pa.timestamp("us", "UTC")),
            "s": pa.StructArray.from_arrays([ids, pc.cast(ids, pa.string())], ["x", "y"], mask=nulls),
            "l": pa.ListArray.from_arrays(pa.array(np.arange(rows + 1), pa.int32()), pa.array(numbers)),
        }
    )


@pytest.fixture
def patches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files that each command patched."""
    numbers: list[int] = []
    plain = Rewriting.patch

    def noted(job: Rewriting, rows: Any) -> None:
        plain(job, rows)
        numbers.append(job.native.picked_files)

    monkeypatch.setattr(Rewriting, "patch", noted)
    return numbers


def file_of(path: str) -> Path:
    (name,) = DeltaTable(path).files()
    return Path(path) / name


def stats_of(path: str) -> dict[str, Any]:
    (stats,) = pa.table(DeltaTable(path).get_add_actions(flatten=False)).to_pylist()
    return dict(stats)


def chunks(file: Path, column: str) -> list[tuple[bytes, dict[str, Any] | None]]:
    """The bytes of a column's chunks, and the statistics in the footer."""
    footer, whole, columns = pq.ParquetFile(file).metadata, file.read_bytes(), []
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            chunk = footer.row_group(group).column(index)
            if chunk.path_in_schema.split(".")[0] == column:
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                stats = None if chunk.statistics is None else chunk.statistics.to_dict()
                assert chunk.has_column_index
                assert chunk.has_offset_index
                columns.append((whole[start : start + chunk.total_compressed_size], stats))
    return columns


UPDATES: list[tuple[str | None, dict[str, str], dict[str, Any]]] = [
    ("id % 100 = 7", {"amount": "amount + 1"}, {}),
    (None, {"number": "id"}, {}),
    ("id = 3", {"text": "NULL", "s.y": "'new'"}, {}),
    ("id >= 59000", {"at": "TIMESTAMP '2030-01-01 00:00:00'", "price": "price * 2"}, {"l": [1, None, 3]}),
]


@pytest.mark.parametrize(("where", "updates", "values"), UPDATES, ids=["few", "all", "nested", "many"])
def test_other_columns_stay_as_they_are(
    tmp_path: Path, patches: list[int], where: str | None, updates: dict[str, str], values: dict[str, Any]
) -> None:
    # P160, P161
    path, whole, plain = str(tmp_path / "patched"), data(), str(tmp_path / "plain")
    groups = WriterProperties(max_row_group_size=25_000)
    write_deltalake(path, whole, writer_properties=groups)
    write_deltalake(plain, whole, configuration={"delta.enableChangeDataFeed": "true"})
    before = file_of(path)
    done = DeltaTable(path).update(updates, values, predicate=where)
    assert patches == [1]
    same = DeltaTable(plain).update(updates, values, predicate=where)
    assert patches == [1], "changes are recorded by writing rows"
    for name in ("num_updated_rows", "num_copied_rows", "num_added_files", "num_removed_files"):
        assert done[name] == same[name], name
    after = file_of(path)
    assert after != before
    read = pq.read_table(after)
    assert read.column("id").equals(whole.column("id")), "rows stay where they are"
    expected = DeltaTable(plain).to_pyarrow_table().sort_by("id")
    assert DeltaTable(path).to_pyarrow_table().equals(expected)
    assigned = {name.split(".")[0] for name in (*updates, *values)}
    for name in whole.column_names:
        assert (chunks(before, name) == chunks(after, name)) == (name not in assigned), name
    patched, plain_stats = stats_of(path), stats_of(plain)
    if len(DeltaTable(plain).files()) == 1:
        assert {k: patched[k] for k in ("min", "max", "null_count")} == {
            k: plain_stats[k] for k in ("min", "max", "null_count")
        }
    assert patched["num_records"] == ROWS
    # Indexes and footers prune pages and row groups.
    for condition in ("id = 30000", "number IS NULL AND id < 20", "amount > 1.5", "at >= '2030-01-01'"):
        assert DeltaTable(path).to_pyarrow_table(filters=condition).num_rows == len(
            DeltaTable(plain).to_pyarrow_table(filters=condition)
        )


def test_bloom_filters_stay_and_hold_new_values(tmp_path: Path, patches: list[int]) -> None:
    path, whole = str(tmp_path), data()
    write_deltalake(path, whole, configuration={COLUMNS: "id,text,amount,s.y"})
    DeltaTable(path).update({"amount": "-1.5", "at": "TIMESTAMP '2030-01-01'"}, predicate="id = 5")
    assert patches == [1]
    file = str(file_of(path))
    assert filtered(file) == {"id", "text", "amount", "s.y"}
    counts = {
        "amount = -1.5": 1,
        "text = '-1'": 0,
        f"text = '{whole['text'][77]}'": 1,
        "s.y = '59999'": 1,
        "s.y = '7x'": 0,
    }
    for condition, count in counts.items():
        assert DeltaTable(path).to_pyarrow_table(filters=condition).num_rows == count, condition
    # A file without the filters that new files have is written again, which makes them.
    DeltaTable(path).alter.set_table_properties({COLUMNS: "number"})
    DeltaTable(path).update({"amount": "-2.5"}, predicate="id = 5")
    assert "number" in filtered(str(file_of(path)))
    damage(str(file_of(path)))
    assert DeltaTable(path).to_pyarrow_table(filters="number = 1").num_rows == 0


def test_files_are_patched_each_for_itself(tmp_path: Path, patches: list[int]) -> None:
    path, whole = str(tmp_path), data()
    parts = pa.concat_tables([whole.append_column("p", pa.array([p] * ROWS, pa.string())) for p in ("a", "b ä", None)])
    write_deltalake(path, parts, partition_by="p")
    write_deltalake(path, parts.slice(0, 10), mode="append")
    done = DeltaTable(path).update({"amount": "-1.0"}, predicate="id IN (5, 50000)")
    assert done["num_updated_rows"] == 7
    assert patches == [4]
    table = DeltaTable(path)
    assert table.to_pyarrow_table(filters="amount = -1.0").num_rows == 7
    assert table.to_pyarrow_table(filters="p = 'b ä' AND amount = -1.0").num_rows == 2
    assert table.to_pyarrow_table().num_rows == 3 * ROWS + 10


@more_than_values
def test_where_more_than_values_changes_rows_are_written(
    tmp_path: Path, patches: list[int], properties: dict[str, str]
) -> None:
    # P121, P130, P142
    path, whole = str(tmp_path), data()
    write_deltalake(path, whole, configuration=properties)
    done = DeltaTable(path).update({"amount": "-1.0"}, predicate="id = 5")
    assert patches == []
    assert done["num_updated_rows"] == 1
    assert DeltaTable(path).to_pyarrow_table(filters="amount = -1.0").column("id").to_pylist() == [5]


def test_files_of_another_shape_are_written_anew(tmp_path: Path, patches: list[int]) -> None:
    path, whole = str(tmp_path), data()
    write_deltalake(path, whole, configuration={"delta.enableDeletionVectors": "true"})
    DeltaTable(path).delete("id = 1")
    DeltaTable(path).alter.set_table_properties({"delta.enableDeletionVectors": "false"})
    DeltaTable(path).update({"amount": "-1.0"}, predicate="id = 5")
    assert patches == [], "rows are deleted by a vector (P123)"
    # The file has all its rows again, but lacks a column that was added later.
    assert DeltaTable(path).to_pyarrow_table().num_rows == ROWS - 1
    write_deltalake(path, pa.table({"id": [-1], "later": [1]}), mode="append", schema_mode="merge")
    DeltaTable(path).update({"amount": "-2.0"}, predicate="id = 6")
    assert patches == []
    assert DeltaTable(path).to_pyarrow_table(filters="amount < 0").num_rows == 2


def test_rules_hold_for_values_alone(tmp_path: Path, patches: list[int]) -> None:
    # P101, P102
    path = str(tmp_path)
    write_deltalake(path, data())
    DeltaTable(path).alter.add_constraint({"small": "amount < 2 OR text IS NULL"})
    before = sorted(Path(path).rglob("*"))
    with pytest.raises(ConstraintViolationError, match="small"):
        DeltaTable(path).update({"amount": "3.0"}, predicate="id = 59999")
    assert sorted(Path(path).rglob("*")) == before
    assert patches == []
    DeltaTable(path).update({"amount": "3.0", "text": "NULL"}, predicate="id = 59999")
    assert patches == [1]
    logged = (Path(path) / "_delta_log" / f"{2:020}.json").read_text().splitlines()
    (stats,) = (json.loads(json.loads(line)["add"]["stats"]) for line in logged if "add" in json.loads(line))
    assert stats["maxValues"]["amount"] == 3.0
    assert stats["nullCount"]["text"] == 1
    assert stats["maxValues"]["at"].startswith(str(dt.datetime(1970, 1, 1, 16, 39, 59)).replace(" ", "T"))
