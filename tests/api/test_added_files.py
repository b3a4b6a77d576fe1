"""`AddedFiles`, the frozen class of written and uncommitted data files: what tasks return to the
driver, and what the driver makes of it."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from deltaplane import DeltaTable, _native, write_deltalake
from deltaplane._native import AddedFiles
from deltaplane.exceptions import InternalError, InvalidArgumentError
from deltaplane.write.intent import WriteIntent

pa = pytest.importorskip("pyarrow")


def add(path: str, records: int, size: int = 100) -> str:
    """An add action as a task sends it."""
    return json.dumps(
        {
            "path": path,
            "partitionValues": {},
            "size": size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({"numRecords": records}),
        }
    )


def adds(*texts: str) -> AddedFiles:
    return AddedFiles.of_rows(pa.table({"add": pa.array(texts, pa.string())}))


@pytest.fixture
def table(tmp_path: Path) -> str:
    write_deltalake(str(tmp_path), pa.table({"id": [1]}))
    return str(tmp_path)


def written(table: str, ids: list[int]) -> tuple[_native.WriteJob, AddedFiles]:
    rows = pa.table({"id": ids})
    job = _native.WriteJob.begin(table, None, rows.schema, WriteIntent(mode="append").request(table, None))
    return job, _native.write_files(table, None, job.spec, rows)


def test_pickled_files_are_committed_as_the_written_ones(table: str) -> None:
    """Spark's tasks pickle what they wrote, and the driver commits it."""
    job, files = written(table, [2, 3])
    before = {path.name for path in Path(table).glob("*.parquet")}
    travelled = pickle.loads(pickle.dumps(files))
    assert (type(travelled), travelled == files, len(travelled)) == (AddedFiles, True, 1)
    assert AddedFiles(files.to_bytes()) == files
    committed = job.commit(travelled)
    assert committed is not None
    assert committed.version == 1
    assert sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]
    live = {Path(path).name for path in DeltaTable(table).file_uris()}
    assert (live, travelled.size_bytes) == (before, size_of_new_file(table, live))


def size_of_new_file(table: str, live: set[str]) -> int:
    """Bytes on the disk of the file that version 1 added."""
    log = (Path(table) / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    (path,) = [json.loads(line)["add"]["path"] for line in log if "add" in json.loads(line)]
    assert path in live
    return (Path(table) / path).stat().st_size


def test_files_are_joined_in_their_order() -> None:
    first, second = adds(add("a", 1, 10), add("b", 1, 20)), adds(add("c", 1, 30))
    both = AddedFiles.joined([first, second])
    assert (len(both), both.size_bytes) == (3, 60)
    assert both == adds(add("a", 1, 10), add("b", 1, 20), add("c", 1, 30))
    assert both != AddedFiles.joined([second, first])
    none = AddedFiles.joined([])
    assert (len(none), none.size_bytes, bool(none), none == adds()) == (0, 0, False, True)


def test_files_without_rows_are_told_apart_by_their_decoded_paths() -> None:
    # P045: paths in the log are URLs.
    files, empty = adds(add("part%20a.parquet", 0), add("b", 2), add("c", 0)).split_empty()
    assert (files, empty) == (adds(add("b", 2)), ["part a.parquet", "c"])
    assert adds(add("b", 2)).split_empty() == (adds(add("b", 2)), [])
    unknown = json.dumps({**json.loads(add("d", 0)), "stats": None})
    assert adds(unknown).split_empty() == (adds(unknown), []), "nothing says that it has no rows"


def test_files_are_equal_by_every_field_and_unhashable() -> None:
    assert adds(add("a", 1)) == adds(add("a", 1))
    for other in (adds(add("a", 2)), adds(add("b", 1)), adds(add("a", 1, 101)), add("a", 1), None):
        assert adds(add("a", 1)) != other
    with pytest.raises(TypeError, match="unhashable"):
        hash(adds())


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (b"[{]", InvalidArgumentError, "pickled by another version"),
        (b'[{"size": 1}]', InvalidArgumentError, "path"),
        (b"", InvalidArgumentError, "pickled by another version"),
        ("[]", TypeError, "str"),
        (None, TypeError, "None"),
    ],
)
def test_a_wrong_state_is_refused(state: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        AddedFiles(state)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (pa.table({"adds": ["{}"]}), InternalError, "in a column add"),
        (pa.table({"add": ["{"]}), InternalError, "no add action"),
        (pa.table({"add": ['{"path": "a"}']}), InternalError, "no add action"),
        ([add("a", 1)], TypeError, "expected Arrow data"),
    ],
)
def test_rows_that_are_no_add_actions_are_refused(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        AddedFiles.of_rows(rows)


def test_other_objects_are_no_files(table: str) -> None:
    job, files = written(table, [2])
    for wrong in ([files], add("a", 1), files.to_bytes(), None):
        with pytest.raises(TypeError):
            job.commit(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        AddedFiles.joined([files, "a"])  # type: ignore[list-item]
    assert DeltaTable(table).version() == 0
