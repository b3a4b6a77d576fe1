"""The measured logs have the declared content, for deltaplane and for deltalake, and are made in
bounded memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as PeerTable

from deltaplane import DeltaTable

FILES = 120
KINDS = ["json", "structs", "own", "v2", "v2-due", "commits"]


def make(kind: Any, **others: Any) -> Any:
    from support.logs import Log

    return Log(FILES, kind, **{"days": 7, "tail": 3, "replaced_per_commit": 4, **others})


def test_these_are_all_kinds() -> None:
    from support.logs import KINDS as all_kinds

    assert list(all_kinds) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_both_engines_see_the_same_files(kind: str) -> None:
    from support.adds import COLUMNS

    log = make(kind)
    path = str(log.make())
    ours = DeltaTable(path).get_add_actions(flatten=True).sort_by("path")
    theirs = pa.table(PeerTable(path).get_add_actions(flatten=True)).sort_by("path")
    assert DeltaTable(path).version() == PeerTable(path).version() == log.version
    assert ours.num_rows == FILES
    statistics = {f"{side}.{name}" for side in ("min", "max", "null_count") for name in COLUMNS}
    for column in ("path", "size_bytes", "num_records", "partition.day", *sorted(statistics)):
        assert ours[column].to_pylist() == theirs[column].to_pylist(), column
    assert len(COLUMNS) == 8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("touches", ["anywhere", "newest", "nothing"])
def test_predicates_keep_their_number_of_files(kind: str, touches: str) -> None:
    from support.planners import by_day, by_id

    log = make(kind, touches=touches)
    table = DeltaTable(str(log.make()))
    assert len(table.files()) == log.live
    for query in (by_day(log), by_id(log)):
        assert len(table.files(query.arguments["sql"])) == query.files > 0, query.condition


def test_parsed_statistics_say_what_the_text_says() -> None:
    text, structs = (DeltaTable(str(make(kind).make())) for kind in ("json", "structs"))
    assert text.get_add_actions().sort_by("path").equals(structs.get_add_actions().sort_by("path"))


def test_a_log_without_files_and_with_fewer_than_its_commits_replace() -> None:
    from support.logs import Log

    assert DeltaTable(str(Log(0).make())).files() == []
    assert len(DeltaTable(str(Log(3, tail=5).make())).files()) == 3


@pytest.mark.parametrize("days", [7, 120, 1000])
def test_files_of_a_day_are_counted(days: int) -> None:
    log = make("json", days=days)
    days_of_files = [str(log.day(file)) for file in range(FILES)]
    assert all(log.files_of_day(day) == days_of_files.count(day) for day in set(days_of_files))


def test_checkpoints_are_unsorted_and_written_a_row_group_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq
    from support import logs

    monkeypatch.setattr(logs, "ROW_GROUP_ROWS", 50)
    log = make("json")
    log.make()
    (path,) = log.checkpoints
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [52, 50, 20]
    for group in range(2):
        numbers = [int(p.as_py()[-73:].split("part-")[1][:8]) for p in _paths(file.read_row_group(group)["add"])]
        assert min(numbers) < FILES / 10
        assert max(numbers) > FILES * 9 / 10


def _paths(adds: pa.ChunkedArray) -> pa.Array:
    return pa.chunked_array([chunk.field("path") for chunk in adds.chunks]).drop_null()


def test_a_copy_takes_commits_of_its_own(tmp_path: Path) -> None:
    from support.logs import commit_by_hand

    log = make("own")
    table = log.copy_to(tmp_path / "copy")
    commit_by_hand(table, log.version + 1, [])
    DeltaTable(str(table)).create_checkpoint()
    assert DeltaTable(str(table)).version() == log.version + 1
    assert DeltaTable(str(log.make())).version() == log.version
    hint = json.loads((log.make() / "_delta_log" / "_last_checkpoint").read_text())
    assert hint["version"] < log.version


@pytest.mark.parametrize("kind", ["own", "v2"])
def test_a_second_tail_replaces_files_that_the_checkpoint_has_among_the_others(kind: str) -> None:
    """The files of the first tail are adjacent in it, so replacing them again would touch one place
    only."""
    log = make(kind)
    removed = _numbers(log.make(), "remove")
    assert len(removed) == 12
    assert removed.isdisjoint(_numbers(make({"own": "json", "v2": "v2-due"}[kind]).make(), "remove"))
    assert min(removed) < FILES / 10
    assert max(removed) > FILES * 9 / 10


def _numbers(table: Path, action: str) -> set[int]:
    """The files named by the commits of the last tail."""
    tail = sorted((table / "_delta_log").glob("*.json"))[-3:]
    lines = [line for path in tail for line in path.read_text().splitlines()]
    paths = [json.loads(line)[action]["path"] for line in lines if line.startswith(f'{{"{action}"')]
    return {int(path.split("part-")[1][:8]) for path in paths}
