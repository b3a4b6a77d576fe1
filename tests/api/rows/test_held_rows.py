"""A MERGE of few keys reads the table's rows once, and has the same result as one that reads the
changed rows again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.commands.merge import new_rows, run, target_rows
from deltaplane.io.arrow import Scan

FILES, ROWS = 6, 40
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("f", pa.string()),
        ("r", pa.list_(pa.int32())),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("part", pa.string()),
    ]
)


def made(path: Path, seed: int, **properties: str) -> DeltaTable:
    """A table of several files with values that depend on the seed, among them deleted rows and
    columns named as those that the command adds."""
    draw = random.Random(seed)
    configuration = {"delta.enableDeletionVectors": "true", **properties}
    for file in range(FILES):
        ids = range(file * ROWS, (file + 1) * ROWS)
        rows = [
            {
                "id": n,
                "f": draw.choice([None, f"t{n}"]),
                "r": [n, n + 1][: draw.randrange(3)],
                "s": draw.choice([None, {"a": n, "b": "x" * draw.randrange(4)}]),
                "part": "xy"[n % 2],
            }
            for n in ids
        ]
        data = pa.Table.from_pylist(rows, SCHEMA)
        write_deltalake(path, data, mode="append", partition_by=["part"], configuration=configuration)
    table = DeltaTable(path)
    table.delete(f"id % 17 = {seed % 17}")
    return table


def source(seed: int, count: int) -> pa.Table:
    draw = random.Random(seed + 1)
    ids = sorted(draw.sample(range(FILES * ROWS + 20), count))
    values = {"id": ids, "f": [f"new {n}" for n in ids], "n": [n % 5 for n in ids]}
    return pa.table(values, pa.schema([("id", pa.int64()), ("f", pa.string()), ("n", pa.int32())]))


def rows_of(table: DeltaTable) -> list[dict[str, Any]]:
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


def one_column(table: DeltaTable, data: pa.Table) -> None:
    table.merge(data, "t.id = s.id", "s", "t").when_matched_update({"f": "s.f"}).execute()


def several_clauses(table: DeltaTable, data: pa.Table) -> None:
    (
        table.merge(data, "t.id = s.id", "s", "t")
        .when_matched_delete("s.n = 1")
        .when_matched_update({"f": "concat(t.f, s.f)", "s.a": "t.s.a + s.n"}, "s.n = 2 AND t.part = 'x'")
        .when_matched_update({"r": "array(1)"}, "s.n > 2")
        .when_not_matched_insert({"id": "s.id", "f": "s.f", "part": "'z'"})
        .execute()
    )


def of_the_source(table: DeltaTable, data: pa.Table) -> None:
    (
        table.merge(data, "t.id = s.id", "s", "t")
        .when_matched_update({"f": "s.f"}, "s.n < 3")
        .when_not_matched_by_source_update({"f": "'none'"}, "t.id % 7 = 0")
        .execute()
    )


def with_a_new_column(table: DeltaTable, data: pa.Table) -> None:
    (
        table.merge(data, "t.id = s.id", "s", "t", merge_schema=True)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


MERGES = [one_column, several_clauses, of_the_source, with_a_new_column]


@pytest.mark.parametrize(
    "properties", [{}, {"delta.enableChangeDataFeed": "true"}, {"delta.enableRowTracking": "true"}]
)
@pytest.mark.parametrize("merge", MERGES)
def test_rows_are_the_same_however_many_are_held(
    merge: Any, properties: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None held, all held, and too many: each batch, and some of the batches."""
    results = []
    for seed in range(3):
        for name, sources, most in (("none", -1, 0), ("all", 100, 1 << 20), ("too many", 100, 0), ("some", 100, 900)):
            monkeypatch.setattr(run, "_HELD_SOURCES", sources)
            monkeypatch.setattr(target_rows, "_HELD_BYTES", most)
            table = made(tmp_path / f"{name} {seed}", seed, **properties)
            merge(table, source(seed, 60))
            changes = []
            if "delta.enableChangeDataFeed" in properties:
                feed = pa.table(table.load_cdf(starting_version=table.version())).drop_columns(["_commit_timestamp"])
                changes = sorted(feed.to_pylist(), key=lambda row: (row["id"], row["_change_type"]))
            results.append((rows_of(table), changes))
        assert len(results[-1][0]) > FILES * ROWS / 2
        assert results[-4:] == [results[-4]] * 4


@pytest.mark.parametrize("merge", [one_column, several_clauses])
def test_changed_rows_are_not_read_again(merge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread(Scan):
        def batches(self) -> Any:
            raise AssertionError("the rows were read again")

        __iter__ = batches

    table = made(tmp_path / "t", 3)
    expected = made(tmp_path / "expected", 3)
    merge(expected, source(3, 60))
    monkeypatch.setattr(new_rows, "Scan", Unread)
    merge(table, source(3, 60))
    assert rows_of(table) == rows_of(expected)
    monkeypatch.setattr(run, "_HELD_SOURCES", -1)
    with pytest.raises(AssertionError, match="read again"):
        merge(made(tmp_path / "again", 3), source(3, 60))


def test_other_orders_of_a_second_scan_are_an_error() -> None:
    """What is skipped must be what was read already."""
    from deltaplane.exceptions import InternalError

    batches = [pa.record_batch({"x": [1, 2, 3], "f": pa.array([0, 0, 1], pa.int32()), "r": [5, 6, 0]})]
    rest = [batch.num_rows for batch in target_rows._after([0, 6], 2, iter(batches))]
    assert rest == [1]
    with pytest.raises(InternalError, match="different orders"):
        list(target_rows._after([0, 5], 2, iter(batches)))


@pytest.mark.parametrize(
    ("index", "joined", "sources", "holds"),
    [
        ([], "t.id = s.id", 60, False),
        (["id"], "t.id = s.id", 70, True),
        # Nulls that equal each other aren't looked up in an index.
        (["id"], "t.id <=> s.id", 70, False),
        (["f"], "t.id = s.id", 60, False),
        # The values of the more selective key are looked up, and those of a few rows for each key.
        (["part"], "t.id = s.id AND t.part = s.part", 70, False),
        (["part"], "t.id = s.id AND t.part = s.part", 60, True),
        (["part", "id"], "t.id = s.id AND t.part = s.part", 70, True),
        (["part", "id"], "t.id = s.id", 60, False),
    ],
)
def test_rows_in_a_store_are_held_only_where_an_index_of_the_key_tells_their_files(
    index: list[str],
    joined: str,
    sources: int,
    holds: bool,
    tmp_path: Path,
    moto_server: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it, most files that the search reads have no matching row, and a store would send
    columns of them that nobody needs."""
    options, path = moto_server.options, f"{moto_server.new_bucket()}/t"
    configuration = {"delta.enableDeletionVectors": "true"}
    source_rows = source(1, sources).append_column("part", pa.array(["x", "y"] * (sources // 2)))
    tables = []
    for location, storage_options in ((path, options), (str(tmp_path / "t"), None)):
        for part in (0, 1):
            rows = [{"id": n, "f": str(n), "part": "xy"[n % 2]} for n in range(part * 120, part * 120 + 120)]
            write_deltalake(
                location,
                pa.Table.from_pylist(rows, SCHEMA),
                mode="append",
                configuration=configuration,
                storage_options=storage_options,
            )
        tables.append(DeltaTable(location, storage_options=storage_options))
    if index:
        tables[0].index.create(index)
    calls = []
    scan = target_rows.TargetRows.scan

    def recorded(self: Any, columns: Any, condition: Any, members: Any = None, held: Any = ()) -> None:
        calls.append(list(held))
        scan(self, columns, condition, members, held)

    monkeypatch.setattr(target_rows.TargetRows, "scan", recorded)
    for table in tables:
        table.merge(source_rows, joined, "s", "t").when_matched_update({"f": "s.f"}).execute()
    assert [bool(held) for held in calls] == [holds, True]
    assert rows_of(tables[0]) == rows_of(tables[1])
