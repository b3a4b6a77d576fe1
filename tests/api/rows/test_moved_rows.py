"""Commands that mark rows and concurrent commands that move them: each rebases onto the other if it
can relocate the rows."""

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
    """Small files with consecutive numbers; each partition, if there are some, is in every file."""
    for n in range(FILES):
        x = range(n * ROWS, (n + 1) * ROWS)
        data = pa.table({"x": x, "y": [i * 7 % 40 for i in x], "z": [0] * ROWS, "p": [i % 2 for i in range(ROWS)]})
        write_deltalake(
            path, data, mode="append", configuration=properties, partition_by=[partition] if partition else []
        )
    return path


def values(path: str) -> list[int]:
    numbers: list[int] = DeltaTable(path).to_pyarrow_table()["x"].to_pylist()
    return sorted(numbers)


def row_ids(path: str) -> dict[int, int]:
    rows = DeltaTable(path).scan(["x", "_row_id"]).to_arrow()
    return dict(zip(rows["x"].to_pylist(), rows["_row_id"].to_pylist(), strict=True))


def without(*gone: int) -> list[int]:
    return [x for x in range(FILES * ROWS) if x not in gone]


def test_what_others_delete_stays_deleted_in_joined_files(path: str) -> None:
    # P121, P122: vectors of joined files are carried over, older ones and those of concurrent
    # commits
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


ORDERS: dict[str, Callable[[DeltaTable], Any]] = {
    "z-order": lambda t: t.optimize.z_order(["x", "y"], target_size=1_500),
    "hilbert": lambda t: t.optimize.z_order(["y", "x"], curve="hilbert", target_size=1_500),
    "boxes": lambda t: t.optimize.z_order(["x", "y"], curve="kdtree", target_size=1_500),
    "one file": lambda t: t.optimize.z_order(["x"]),
    "a key for all": lambda t: t.optimize.z_order(["z"], target_size=1_500),
}


@pytest.mark.parametrize("order", ORDERS)
def test_what_others_delete_stays_deleted_in_sorted_files(path: str, order: str) -> None:
    # P121, P122
    DeltaTable(path).delete("x IN (1, 30)")
    stale = DeltaTable(path)
    DeltaTable(path).delete("x IN (0, 2, 9)")
    DeltaTable(path).update({"x": "x + 1000"}, predicate="x = 17")
    DeltaTable(path).delete("x IN (3, 38, 39)")
    ORDERS[order](stale)
    assert values(path) == [*without(0, 1, 2, 3, 9, 17, 30, 38, 39), 1017]
    deleted = pa.table(DeltaTable(path).deletion_vectors())["selection_vector"].to_pylist()
    assert sum(not keep for row in deleted for keep in row) == 7
    verify(path)
    assert stale.delete("x IN (4, 1017)")["num_deleted_rows"] == 2
    assert values(path) == without(0, 1, 2, 3, 4, 9, 17, 30, 38, 39)
    verify(path)


def test_clustering_and_others_deletions_do_not_meet(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    DeltaTable.create(path, pa.schema([(n, pa.int64()) for n in "xyzp"]), configuration=TRACKED, cluster_by=["x", "y"])
    pieces(path, {})
    stale = DeltaTable(path)
    ids = row_ids(path)
    DeltaTable(path).delete("x IN (0, 12, 25)")
    stale.optimize.compact()
    assert values(path) == without(0, 12, 25)
    assert row_ids(path) == {x: row_id for x, row_id in ids.items() if x not in (0, 12, 25)}
    verify(path)


def test_rows_that_memory_does_not_hold_are_followed(tmp_path: Path) -> None:
    path, each = str(tmp_path / "t"), 20_000
    text = "a text so long that the rows of a file take several megabytes " * 6
    for part in range(4):
        first = part * each
        texts = [f"{i * 7_919 % 1_000:05} {text}" for i in range(each)]
        rows = pa.table({"x": range(first, first + each), "s": texts})
        write_deltalake(path, rows, mode="append", configuration=VECTORS)
    stale = DeltaTable(path)
    DeltaTable(path).delete("x % 7 = 3 AND x > 9000")
    DeltaTable(path).delete("s LIKE '00042%'")
    left = values(path)
    stale.optimize.z_order(["s"], memory_limit="16MB", target_size=40_000)
    assert len(DeltaTable(path).files()) > 1
    assert values(path) == left
    assert 60_000 < len(left) < 4 * each
    verify(path)


def test_rows_that_came_back_meanwhile_are_a_conflict(path: str) -> None:
    DeltaTable(path).delete("x = 1")
    stale = DeltaTable(path)
    DeltaTable(path).restore(stale.version() - 1)
    with pytest.raises(ConcurrentDeleteDeleteException):
        stale.optimize.z_order(["x"])
    assert values(path) == without()


def test_a_column_with_the_name_of_a_place_is_the_tables(tmp_path: Path) -> None:
    for configuration in (VECTORS, {}):
        path = str(tmp_path / str(len(configuration)))
        for n in range(2):
            rows = pa.table({"x": [n, n + 2], "_place": [10 * n, 10 * n + 20]})
            write_deltalake(path, rows, mode="append", configuration=configuration)
        DeltaTable(path).optimize.z_order(["x"])
        assert DeltaTable(path).to_pyarrow_table().sort_by("x").to_pydict() == {
            "x": [0, 1, 2, 3],
            "_place": [0, 10, 20, 30],
        }


CHANGES: dict[str, tuple[Callable[[DeltaTable], Any], list[int]]] = {
    "delete": (lambda t: t.delete("x IN (3, 12, 39)"), without(3, 12, 39)),
    "update": (lambda t: t.update({"x": "x + 1000"}, predicate="x = 21"), [*without(21), 1021]),
    "merge": (
        lambda t: t.merge(pa.table({"k": [7, 8]}), "x = k").when_matched_delete("k = 8").execute(),
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
    # P142: moved rows keep their ids, so a command that marks them finds them in their new files
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
