"""`DeltaTable.to_pyarrow_dataset`: pyarrow skips the files whose statistics exclude its filter, and
no other files."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError

DAY = datetime(2024, 5, 1, 12, 0, 0, 123_456, tzinfo=timezone.utc)


def table_of(location: str, files: list[dict[str, Any]], **options: Any) -> DeltaTable:
    for rows in files:
        write_deltalake(location, pa.table(rows), mode="append", **options)
    return DeltaTable(location)


def skipped(table: DeltaTable, condition: ds.Expression) -> int:
    """Number of files that pyarrow leaves out; what is left gives the rows of a full read."""
    dataset = table.to_pyarrow_dataset()
    rows = table.to_pyarrow_table().filter(condition)
    assert dataset.to_table(filter=condition).num_rows == rows.num_rows
    return len(dataset.files) - len(list(dataset.get_fragments(filter=condition)))


@pytest.mark.parametrize(
    ("files", "condition", "expected"),
    [
        ([{"x": [1, 2]}, {"x": [3, 4]}], ds.field("x") > 2, 1),
        ([{"x": [1, 2]}, {"x": pa.array([None, None], pa.int64())}], ds.field("x").is_null(), 1),
        ([{"x": [1, 2]}, {"x": pa.array([None, None], pa.int64())}], ds.field("x").is_valid(), 1),
        ([{"x": [1, None]}, {"x": [5, 6]}], ds.field("x").is_null(), 1),
        ([{"x": ["a", "b"]}, {"x": ["c", "d"]}], ds.field("x") == "c", 1),
        # The log has milliseconds: the value between two of them is found.
        ([{"x": [DAY]}], ds.field("x") >= DAY, 0),
        # Bounds leave out NaN, which no filter may lose.
        ([{"x": [1.0, float("nan")]}], ds.field("x").is_nan(), 0),
    ],
)
def test_files_are_skipped_by_their_statistics(
    tmp_table: Callable[[], str], files: list[dict[str, Any]], condition: ds.Expression, expected: int
) -> None:
    assert skipped(table_of(tmp_table(), files), condition) == expected


def test_partition_values_are_columns_and_skip_files(tmp_table: Callable[[], str]) -> None:
    rows = {"day": ["a b", None, "c/d"], "n": [1, 2, 3]}
    table = table_of(tmp_table(), [rows], partition_by="day")
    assert skipped(table, ds.field("day") == "c/d") == 2
    assert skipped(table, ds.field("day").is_null()) == 2
    read = table.to_pyarrow_dataset(file_pruning_predicate="day = 'a b'").to_table()
    assert read.to_pylist() == [{"day": "a b", "n": 1}]


def test_declared_columns_and_large_types(tmp_table: Callable[[], str]) -> None:
    location = tmp_table()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("tags", pa.list_(pa.string()))])
    DeltaTable.create(location, schema)
    write_deltalake(location, pa.table({"id": [1], "tags": [["x"]]}), mode="append")
    table = DeltaTable(location)
    assert not table.to_pyarrow_dataset().schema.field("id").nullable
    large = table.to_pyarrow_dataset(as_large_types=True)
    assert large.schema.field("tags").type == pa.large_list(pa.large_string())
    assert large.to_table().to_pylist() == [{"id": 1, "tags": ["x"]}]


VECTORS = {"delta.enableDeletionVectors": "true"}
ROWS = {
    "id": list(range(12)),
    "part": ["a b", "c/d", None] * 4,
    "at": [DAY, None] * 6,
    "amount": [Decimal("1.50"), None, Decimal("-2.25")] * 4,
    "item": [{"x": n, "tags": [str(n), None]} for n in range(12)],
}


@pytest.mark.parametrize("mapping", ["none", "name", "id"])
@pytest.mark.parametrize("partition_by", [None, "part"])
@pytest.mark.parametrize("deleted", [None, "id % 3 = 1", "id = 4 or part is null"])
def test_vectors_and_mapped_columns_are_rendered(
    tmp_table: Callable[[], str], mapping: str, partition_by: str | None, deleted: str | None
) -> None:
    location = tmp_table()
    properties = {**VECTORS, "delta.columnMapping.mode": mapping}
    for _ in range(2):
        write_deltalake(location, pa.table(ROWS), mode="append", partition_by=partition_by, configuration=properties)
    table = DeltaTable(location)
    if mapping != "none":
        table.alter.rename_column("amount", "new name")
    if deleted is not None:
        table.delete(deleted)
    expected = DeltaTable(location).to_pyarrow_table()
    dataset = DeltaTable(location).to_pyarrow_dataset()
    assert expected.num_rows == 24 - 2 * len([n for n in range(12) if deleted and _deleted(deleted, n)])
    assert _sorted(dataset.to_table()) == _sorted(expected)
    assert dataset.count_rows() == expected.num_rows
    condition = (ds.field("id") > 5) & (ds.field("part") == "c/d")
    assert _sorted(dataset.to_table(filter=condition)) == _sorted(expected.filter(condition))
    # Other processes open the files themselves.
    again = pickle.loads(pickle.dumps(dataset))
    assert _sorted(again.to_table(columns=["item"])) == _sorted(expected.select(["item"]))


def _deleted(condition: str, n: int) -> bool:
    return n % 3 == 1 if condition == "id % 3 = 1" else n == 4 or n % 3 == 2


def _sorted(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_rendered_files_have_partition_values_and_statistics(tmp_table: Callable[[], str]) -> None:
    location = tmp_table()
    for part in ("a", "b"):
        data = pa.table({"x": [1, 2] if part == "a" else [3, 4], "part": [part] * 2})
        write_deltalake(location, data, mode="append", partition_by="part", configuration=VECTORS)
    table = DeltaTable(location)
    table.delete("x in (2, 4)")
    assert skipped(table, ds.field("part") == "a") == 1
    assert skipped(table, ds.field("x") > 2) == 1


def test_a_foreign_file_system_does_not_render_files(tmp_table: Callable[[], str]) -> None:
    table = table_of(tmp_table(), [{"x": [1, 2]}], configuration=VECTORS)
    assert table.to_pyarrow_dataset(filesystem=_local(table)).count_rows() == 2
    table.delete("x = 1")
    with pytest.raises(UnsupportedFeatureError, match="leave out filesystem"):
        table.to_pyarrow_dataset(filesystem=_local(table))
    with pytest.raises(InvalidArgumentError, match="one argument"):
        table.to_pyarrow_dataset("x = 1", file_pruning_predicate="x = 1")


def _local(table: DeltaTable) -> fs.FileSystem:
    return fs.SubTreeFileSystem(table.location, fs.LocalFileSystem())
