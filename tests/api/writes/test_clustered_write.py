"""Large writes to clustered tables order their rows (P152); small ones don't, and no row is lost
either way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.schema import Field, Schema
from interop.verifier import verify

ROWS = 160_000
FROM = "deltaplane.clusterFromBytes"


def points(rows: int = ROWS, first: int = 0) -> pa.Table:
    """Two columns of noise and a unique one; the third is long, so that several files are
    written."""
    chance = np.random.default_rng(7)
    columns: dict[str, Any] = {name: chance.integers(0, 1 << 20, rows) for name in "xy"}
    columns["id"] = np.arange(first, first + rows)
    return pa.table({**columns, "s": pa.StructArray.from_arrays([pa.array(columns["x"])], ["x"])})


def share_read(table: DeltaTable) -> float:
    """The share of files that look-ups of single values in x and y read on average."""
    values = points(20)
    files = len(table.files())
    read = [len(table.files([(name, "=", v)])) for name in "xy" for v in values[name].to_pylist()]
    return sum(read) / len(read) / files


def created(path: Path, columns: list[str], **properties: str) -> DeltaTable:
    return DeltaTable.create(str(path), points(0).schema, cluster_by=columns, configuration=properties)


@pytest.mark.parametrize("batches", [1, 97], ids=["one batch", "many batches"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_many_rows_come_in_order(tmp_path: Path, mode: Any, batches: int) -> None:
    data = points()
    stream = pa.RecordBatchReader.from_batches(data.schema, data.to_batches(max_chunksize=-(-ROWS // batches)))
    table = created(tmp_path / "t", ["x", "y"], **{FROM: "100 kb"})
    write_deltalake(table, stream, mode=mode, target_file_size=40_000)
    assert len(table.files()) > 5
    assert share_read(table) < 0.6
    assert table.to_pyarrow_table().sort_by("id").select(data.column_names).equals(data)
    verify(table.location)
    plain = tmp_path / "plain"
    write_deltalake(plain, data, target_file_size=40_000)
    assert share_read(DeltaTable(plain)) == 1


def test_a_new_table_is_in_order_from_its_first_write_on(tmp_path: Path) -> None:
    data = points()
    how: dict[str, Any] = {"cluster_by": ["x", "y"], "configuration": {FROM: "1"}, "target_file_size": 40_000}
    write_deltalake(tmp_path, data, **how)
    table = DeltaTable(tmp_path)
    assert share_read(table) < 0.6
    assert table.to_pyarrow_table().sort_by("id").equals(data)


def test_few_rows_stay_as_they_come_and_wait_for_others(tmp_path: Path) -> None:
    data = points(1_000)
    table = created(tmp_path, ["x"])
    write_deltalake(table, data, mode="append")
    assert table.to_pyarrow_table()["id"].to_pylist() == list(range(1_000))
    # Ordered or not, the next OPTIMIZE includes new files.
    table.alter.set_table_properties({FROM: "1"})
    write_deltalake(table, points(1_000, 1_000), mode="append")
    assert table.optimize.compact()["numFilesRemoved"] == 2
    x = table.to_pyarrow_table()["x"].to_pylist()
    assert x == sorted(x)
    verify(table.location)


@pytest.mark.parametrize("column", ["s.x", "X", "the x"])
def test_columns_are_found_however_they_are_called(tmp_path: Path, column: str) -> None:
    table = created(tmp_path, ["s.x"] if column == "s.x" else ["x"], **{FROM: "1", "delta.columnMapping.mode": "name"})
    data = points(5_000)
    if column == "the x":
        table.alter.rename_column("x", column)
        data = data.rename_columns([column, "y", "id", "s"])
    elif column == "X":
        data = data.rename_columns(["X", "y", "id", "s"])
    write_deltalake(table, data, mode="append")
    x = table.to_pyarrow_table()
    values = (x["s"].combine_chunks().field("x") if column == "s.x" else x.column(0)).to_pylist()
    assert values == sorted(values)


def test_nulls_and_generated_ids_keep_to_their_rows(tmp_path: Path) -> None:
    counted = {"delta.identity.start": 10, "delta.identity.step": 5, "delta.identity.allowExplicitInsert": False}
    schema = Schema([Field("n", "long", nullable=False, metadata=counted), Field("x", "string")])
    table = DeltaTable.create(str(tmp_path), schema, cluster_by=["x"], configuration={FROM: "1"})
    texts = [None if i % 3 == 0 else f"{i * 7919 % 1000:04}" for i in range(2_000)]
    write_deltalake(table, pa.table({"x": texts}), mode="append")
    rows = table.to_pyarrow_table()
    assert rows["x"].to_pylist() == sorted(texts, key=lambda t: (t is not None, t or ""))
    assert rows.sort_by("n")["x"].to_pylist() == texts
    assert rows.sort_by("n")["n"].to_pylist() == list(range(10, 10 + 5 * 2_000, 5))


def test_what_fails_on_its_way_leaves_no_file(tmp_path: Path) -> None:
    table = created(tmp_path, ["x"], **{FROM: "1"})
    data = points(10)

    def broken() -> Any:
        yield from data.to_batches()
        raise ValueError("no more")

    with pytest.raises(Exception, match="no more"):
        write_deltalake(table, pa.RecordBatchReader.from_batches(data.schema, broken()), mode="append")
    assert not list(tmp_path.glob("*.parquet"))
    assert table.version() == 0


@pytest.mark.parametrize("value", ["nonsense", "-1", ""])
def test_a_threshold_that_is_none_counts_as_the_default(tmp_path: Path, value: str) -> None:
    table = created(tmp_path, ["x"], **{FROM: value})
    write_deltalake(table, points(100), mode="append")
    assert table.to_pyarrow_table()["id"].to_pylist() == list(range(100))
