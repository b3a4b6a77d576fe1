"""The states of `_native.Rewrite`: a step that a state doesn't allow is refused, and files without
a commit are deleted."""

from __future__ import annotations

import gc
from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, _native, write_deltalake
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io import records
from deltaplane.io.hidden_columns import FILE, ROW


def begin(table: Path) -> _native.Rewrite:
    request = records.RewriteRequest("UPDATE", {}, {}, {})
    return _native.Rewrite.begin(_native.Snapshot.open(str(table), None), request)


def first_row(table: Path) -> pa.Table:
    (file,) = table.glob("*.parquet")
    return pa.table({FILE: [file.name], ROW: pa.array([0], pa.int64())})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_deltalake(str(tmp_path), pa.table({"x": pa.array([1, 2, 3], pa.int64())}))
    return tmp_path


def test_steps_out_of_order_are_refused(table: Path) -> None:
    job = begin(table)
    with pytest.raises(InvalidArgumentError, match=r"call finish\(\) first"):
        job.commit({})
    assert job.select_rows(first_row(table)) == 1
    with pytest.raises(InvalidArgumentError, match="has selected its rows"):
        job.select_rows(first_row(table))
    with pytest.raises(InvalidArgumentError, match=r"call finish\(\) first"):
        job.dry_run({})
    job.copy_others()
    job.write(pa.table({"x": pa.array([10], pa.int64())}))
    done = job.finish()
    assert (done["numRemovedFiles"], done["numCopiedRows"]) == (1, 2)
    with pytest.raises(InvalidArgumentError, match="has complete files"):
        job.write(pa.table({"x": pa.array([11], pa.int64())}))
    assert (job.picked_files, job.written_rows) == (1, 1)
    assert job.commit({}) == 1
    with pytest.raises(InvalidArgumentError, match="has ended"):
        job.commit({})
    job.abort()
    assert sorted(DeltaTable(table).to_pyarrow_table()["x"].to_pylist()) == [2, 3, 10]


def test_files_of_a_collected_command_are_deleted(table: Path) -> None:
    before = sorted(table.rglob("*.parquet"))
    job = begin(table)
    job.select_rows(first_row(table))
    job.copy_others()
    job.finish()
    assert sorted(table.rglob("*.parquet")) != before
    del job
    gc.collect()
    assert sorted(table.rglob("*.parquet")) == before
