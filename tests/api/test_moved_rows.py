"""Commands that mark rows and commands that move them, at once: either follows the other where it knows the rows again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import ConcurrentDeleteDeleteException
from interop.verifier import verify

VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {**VECTORS, "delta.enableRowTracking": "true"}
FILES, ROWS = 4, 10


@pytest.fixture(params=["", "p"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return pieces(str(tmp_path / "t"), VECTORS, request.param)


def pieces(path: str, properties: dict[str, str], partition: str = "") -> str:
    """Small files whose numbers go on from file to file, each in both partitions if there are some."""
    for n in range(FILES):
        data = pa.table({"x": range(n * ROWS, (n + 1) * ROWS), "p": [i % 2 for i in range(ROWS)]})
        write_deltalake(
            path, data, mode="append", configuration=properties, partition_by=[partition] if partition else []
        )
    return path


def values(path: str) -> list[int]:
    found: list[int] = DeltaTable(path).to_pyarrow_table()["x"].to_pylist()
    return sorted(found)


def without(*gone: int) -> list[int]:
    return [x for x in range(FILES * ROWS) if x not in gone]


def test_what_others_delete_stays_deleted_in_joined_files(path: str) -> None:
    # P121, P122: vectors of files that were joined are carried over, those from before and those from meanwhile
    DeltaTable(path).delete("x IN (1, 30)")
    stale = DeltaTable(path)
    DeltaTable(path).delete("x IN (0, 2, 9)")
    DeltaTable(path).delete("x IN (3, 38, 39)")
    assert len(stale.optimize.compact()["versions"]) == 1
    assert values(path) == without(0, 1, 2, 3, 9, 30, 38, 39)
    deleted = pa.table(DeltaTable(path).deletion_vectors())["selection_vector"].to_pylist()
    assert sum(not keep for row in deleted for keep in row) == 6
    verify(path)
    assert stale.delete("x = 4")["num_deleted_rows"] == 1
    assert values(path) == without(0, 1, 2, 3, 4, 9, 30, 38, 39)


def test_a_row_that_others_change_is_there_once(path: str) -> None:
    stale = DeltaTable(path)
    DeltaTable(path).update({"x": "x + 1000"}, predicate="x IN (5, 6)")
    stale.optimize.compact()
    assert values(path) == [*without(5, 6), 1005, 1006]
    verify(path)


def test_one_commit_follows_many(path: str) -> None:
    stale = DeltaTable(path)
    for n in range(FILES):
        DeltaTable(path).delete(f"x > {n * ROWS} AND x < {(n + 1) * ROWS - 1}")
    left = [x for x in range(FILES * ROWS) if x % ROWS in (0, ROWS - 1)]
    stale.optimize.compact()
    assert values(path) == left
    verify(path)


def test_a_file_that_others_wrote_anew_is_theirs(path: str) -> None:
    stale = DeltaTable(path)
    DeltaTable(path).delete("x < 10")
    with pytest.raises(ConcurrentDeleteDeleteException):
        stale.optimize.compact()
    assert values(path) == without(*range(10))
    verify(path)


CHANGES: dict[str, tuple[Callable[[DeltaTable], Any], list[int]]] = {
    "delete": (lambda t: t.delete("x IN (3, 12, 39)"), without(3, 12, 39)),
    "update": (lambda t: t.update({"x": "x + 1000"}, predicate="x = 21"), [*without(21), 1021]),
    "merge": (
        lambda t: t.merge(pa.table({"y": [7, 8]}), "x = y").when_matched_delete("y = 8").execute(),
        without(8),
    ),
}
MOVES: dict[str, Callable[[DeltaTable], Any]] = {
    "compact": lambda t: t.optimize.compact(),
    "z-order": lambda t: t.optimize.z_order(["x", "p"], target_size=1_000),
    "twice": lambda t: (t.optimize.compact(), t.optimize.z_order(["x"], full=True)),
    "and others": lambda t: (t.delete("x = 20"), t.optimize.compact(), t.delete("x = 22")),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("move", MOVES)
def test_rows_are_found_again_by_their_ids(tmp_path: Path, change: str, move: str) -> None:
    # P142: moved rows keep their ids, so that who marks them finds them in the files that they moved to
    path = pieces(str(tmp_path / "t"), TRACKED)
    stale, (run, left) = DeltaTable(path), CHANGES[change]
    MOVES[move](DeltaTable(path))
    run(stale)
    assert values(path) == [x for x in left if move != "and others" or x not in (20, 22)]
    verify(path)


def test_rows_that_others_changed_after_they_moved_are_a_conflict(tmp_path: Path) -> None:
    path = pieces(str(tmp_path / "t"), TRACKED)
    stale = DeltaTable(path)
    DeltaTable(path).optimize.compact()
    DeltaTable(path).delete("x = 3")
    with pytest.raises(ConcurrentDeleteDeleteException, match="moved rows"):
        stale.delete("x IN (3, 4)")
    assert values(path) == without(3)
    verify(path)


def test_without_ids_moved_rows_are_a_conflict(path: str) -> None:
    stale = DeltaTable(path)
    DeltaTable(path).optimize.compact()
    with pytest.raises(ConcurrentDeleteDeleteException):
        stale.delete("x = 3")
    assert values(path) == without()
