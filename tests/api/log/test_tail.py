"""`DeltaTable.tail` and `OnceWriter`: deliver new rows once, with any limits and any position at
which a reader stops; and refusals."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane import DeltaTable, OnceWriter, _native, exceptions, write_deltalake
from deltaplane.table.follow import _begin, tail_request

CHANGES = {"delta.enableChangeDataFeed": "true"}
# The kinds of commits.
OPERATIONS = ("append", "append", "append", "overwrite", "delete", "delete all", "checkpoint", "property")


def rows_of(first: int, count: int = 4) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "p": [n % 2 for n in range(count)]})


def ids(items: Any) -> list[list[int]]:
    return [sorted(rows.to_arrow()["id"].to_pylist()) for rows in items]


class Model:
    """A table with, for each commit, its rows before and its added rows."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.added: list[list[int]] = []
        self.removes: list[bool] = []
        self.live: list[list[int]] = []
        self._commit(range(4), "append", {"partition_by": "p", "configuration": {}})

    def _commit(self, ids: range, mode: Any, settings: dict[str, Any] | None = None) -> None:
        before = self.live[-1] if self.live else []
        write_deltalake(self.path, rows_of(ids.start), mode=mode, **(settings or {}))
        self.added.append(list(ids))
        self.removes.append(mode == "overwrite" and bool(before))
        self.live.append([*([] if mode == "overwrite" else before), *ids])

    def run(self, operation: str) -> None:
        table, first = DeltaTable(self.path), 10 * len(self.added)
        before = self.live[-1]
        if operation in ("append", "overwrite"):
            self._commit(range(first, first + 4), operation)
        elif operation == "checkpoint":
            table.create_checkpoint()
        elif operation == "property":
            table.alter.set_table_properties({"deltaplane.test": str(first)})
            self._note([], [*before], removes=False)
        elif before:
            # Deletes a whole partition, so that no file is rewritten.
            table.delete("p = 1" if operation == "delete" else None)
            if table.version() == len(self.added):
                retained = [n for n in before if n % 2 == 0] if operation == "delete" else []
                self._note([], retained, removes=True)

    def _note(self, added: list[int], live: list[int], *, removes: bool) -> None:
        self.added.append(added)
        self.live.append(live)
        self.removes.append(removes)


@settings(max_examples=25, deadline=None)
@given(
    operations=st.lists(st.sampled_from(OPERATIONS), max_size=8),
    since=st.integers(-1, 8) | st.none(),
    max_files=st.none() | st.integers(1, 3),
    rule=st.sampled_from(["skip_change_commits", "ignore_changes"]),
    data=st.data(),
)
def test_it_gives_what_a_model_says_wherever_it_stops(
    tmp_path_factory: pytest.TempPathFactory, operations: list[str], since: int | None, max_files: int | None,
    rule: str, data: st.DataObject,
) -> None:  # fmt: skip
    # P028
    model = Model(str(tmp_path_factory.mktemp("tail") / "t"))
    begun = data.draw(st.integers(0, len(operations)))
    for operation in operations[:begun]:
        model.run(operation)
    at_start = len(model.added) - 1
    since = since if since is None else min(since, at_start)
    options: dict[str, Any] = {"max_files": max_files, rule: True}
    taken: Counter[int] = Counter()
    offset: int | str | None = since
    for rows in DeltaTable(model.path).tail(offset, **options):
        taken.update(rows.to_arrow()["id"].to_pylist())
        offset = rows.offset
        if data.draw(st.booleans()):
            break
    if offset is None:
        # The table was empty, so there is no offset: continue from the start.
        offset = at_start
    for operation in operations[begun:]:
        model.run(operation)
    for rows in DeltaTable(model.path).tail(offset, **options):
        assert max_files is None or len(rows.to_arrow()) <= 2 * max_files
        taken.update(rows.to_arrow()["id"].to_pylist())
    skipping = rule == "skip_change_commits"
    commits = zip(model.added, model.removes, strict=True)
    new = [n for added, removes in list(commits)[at_start + 1 if since is None else since + 1 :]
           for n in ([] if skipping and removes else added)]  # fmt: skip
    assert taken == Counter((model.live[at_start] if since is None else []) + new)


def test_the_start_is_oldest_files_first(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    for n in range(5):
        write_deltalake(path, rows_of(10 * n), mode="append")
    items = list(DeltaTable(path).tail(max_files=2))
    assert ids(items) == [[0, 1, 2, 3, 10, 11, 12, 13], [20, 21, 22, 23, 30, 31, 32, 33], [40, 41, 42, 43]]
    # The file that reaches the limit is the last one.
    assert len(list(DeltaTable(path).tail(max_bytes=1))) == 5
    assert ids(DeltaTable(path).tail(since=3)) == ids(DeltaTable(path).tail(items[1].offset)) == [[40, 41, 42, 43]]
    assert ids(DeltaTable(path).tail(since=4)) == []


def test_deletes_and_changes_are_refused_by_name(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, rows_of(0), partition_by="p")
    write_deltalake(path, rows_of(10), mode="append")
    DeltaTable(path).delete("p = 1")
    for table in (path, DeltaTable(path)):
        opened = DeltaTable(table) if isinstance(table, str) else table
        tail = opened.tail(since=0)
        assert sorted(next(tail).to_arrow()["id"].to_pylist()) == [10, 11, 12, 13]
        with pytest.raises(exceptions.UnsupportedFeatureError, match=r"deletes rows.*ignoreDeletes") as refused:
            next(tail)
        assert refused.value.version == 2
    assert ids(DeltaTable(path).tail(since=0, ignore_deletes=True)) == [[10, 11, 12, 13]]
    DeltaTable(path).update({"id": "id + 100"}, predicate="id = 10")
    with pytest.raises(exceptions.UnsupportedFeatureError, match=r"changes or replaces rows.*skipChangeCommits"):
        list(DeltaTable(path).tail(since=2, ignore_deletes=True))
    assert ids(DeltaTable(path).tail(since=2, ignore_changes=True)) == [[12, 110]]


def test_the_change_feed(tmp_table: Callable[[], str]) -> None:
    # P131, P132
    path = tmp_table()
    write_deltalake(path, rows_of(0), configuration=CHANGES)
    start = list(DeltaTable(path).tail(read_change_feed=True, max_files=1))
    DeltaTable(path).delete("id = 2")
    write_deltalake(path, rows_of(10), mode="append")

    def changes(items: Any) -> Counter[tuple[Any, ...]]:
        names = ("_change_type", "_commit_version", "id")
        change_rows = [row for rows in items for row in rows.to_arrow().to_pylist()]
        return Counter(tuple(row[name] for name in names) for row in change_rows)

    assert changes(start) == Counter(("insert", 0, n) for n in range(4))
    later = DeltaTable(path).tail(start[-1].offset, read_change_feed=True, max_files=1)
    assert changes(later) == Counter([("delete", 1, 2), *(("insert", 2, n) for n in range(10, 14))])
    by_condition = DeltaTable(path).tail(since=0, read_change_feed=True, predicate="_change_type = 'delete'")
    assert changes(by_condition) == Counter([("delete", 1, 2)])
    with pytest.raises(exceptions.InvalidArgumentError, match="as they are"):
        DeltaTable(path).tail(read_change_feed=True, ignore_deletes=True)


def test_columns_that_change_end_it(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, rows_of(0))
    tail = DeltaTable(path).tail(follow=True, poll_seconds=0.01)
    offset = next(tail).offset
    wider = rows_of(10).append_column("new", pa.array(["x"] * 4))
    write_deltalake(path, wider, mode="append", schema_mode="merge")
    with pytest.raises(exceptions.SchemaMismatchError, match=r"`new` is gone.*define the stream, again"):
        next(tail)
    (again,) = DeltaTable(path).tail(offset)
    assert again.to_arrow().column_names == ["id", "p", "new"]
    # Rows from before the column existed have null in it.
    assert [rows.to_arrow()["new"].null_count for rows in DeltaTable(path).tail(since=-1)] == [4, 0]


def test_a_table_that_is_gone_or_another_one(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    for n in range(3):
        write_deltalake(path, rows_of(10 * n), mode="append")
    tail = DeltaTable(path).tail(since=0, follow=True, poll_seconds=0.01)
    first = next(tail)
    next(tail)
    shutil.rmtree(path)
    with pytest.raises(exceptions.TableNotFoundError, match="deleted or created again"):
        next(tail)
    write_deltalake(path, rows_of(0))
    with pytest.raises(exceptions.TableNotFoundError, match="another table"):
        next(DeltaTable(path).tail(first.offset))


def test_commits_that_were_cleaned_up(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    for n in range(5):
        write_deltalake(path, rows_of(10 * n), mode="append")
    DeltaTable(path).create_checkpoint()
    for version in range(3):
        (Path(path) / f"_delta_log/{version:020d}.json").unlink()
    with pytest.raises(exceptions.VersionNotFoundError, match=r"before version 3.*failOnDataLoss"):
        next(DeltaTable(path).tail(since=0))
    assert ids(DeltaTable(path).tail(since=0, fail_on_data_loss=False)) == [[30, 31, 32, 33], [40, 41, 42, 43]]
    assert ids(DeltaTable(path).tail(since=2)) == [[30, 31, 32, 33], [40, 41, 42, 43]]


def test_wrong_calls(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, rows_of(0))
    table = DeltaTable(path)
    for wrong, match in [
        ({"since": True}, "since is a version"),
        ({"since": -2}, "since is a version"),
        ({"since": "7"}, "no offset"),
        ({"max_files": 0}, "from 1 on"),
        ({"max_bytes": 0}, "from 1 on"),
        ({"poll_seconds": 0}, "above 0"),
        ({"exclude_regex": "("}, "regular expression"),
        ({"columns": ["nope"]}, "nope"),
    ]:
        with pytest.raises(exceptions.InvalidArgumentError, match=match):
            next(table.tail(**wrong))
    with pytest.raises(exceptions.VersionNotFoundError, match="the newest one is 0"):
        next(table.tail(since=7))
    assert ids(table.tail(exclude_regex=r"\.parquet$")) == []


@settings(max_examples=15, deadline=None)
@given(crashes=st.lists(st.booleans(), min_size=6, max_size=6), repeats=st.integers(0, 2))
def test_a_copy_that_stops_anywhere_has_every_row_once(
    tmp_path_factory: pytest.TempPathFactory, crashes: list[bool], repeats: int
) -> None:
    # P076
    root = tmp_path_factory.mktemp("copy")
    here, there = str(root / "here"), str(root / "there")
    for n, stops in enumerate(crashes):
        write_deltalake(here, rows_of(10 * n), mode="append")
        writer = OnceWriter(there)
        last = writer.last_version("copy")
        # A program with outdated notes repeats batches that are already in the table.
        since = None if last is None else max(last - repeats, 0)
        for rows in DeltaTable(here).tail(since):
            done = writer.append(rows, "copy", rows.version)
            assert (done.skipped == "txn") == (last is not None and rows.version <= last)
            if stops:
                break
    for rows in DeltaTable(here).tail(OnceWriter(there).last_version("copy")):
        OnceWriter(there).append(rows, "copy", rows.version)
    expected = Counter(DeltaTable(here).to_pyarrow_table()["id"].to_pylist())
    assert Counter(DeltaTable(there).to_pyarrow_table()["id"].to_pylist()) == expected


def test_a_batch_that_is_there_is_not_read(tmp_table: Callable[[], str]) -> None:
    writer = OnceWriter(tmp_table(), partition_by="p")
    assert writer.last_version("a") is None
    assert writer.append(rows_of(0), "a", 5).version == 0

    def never() -> Any:
        yield rows_of(0).to_batches()[0]
        pytest.fail("a batch was read that is in the table")

    for version in (5, 4):
        assert writer.append(never(), "a", version).skipped == "txn"
    assert writer.append(rows_of(10), "b", 5).version == 1
    assert (writer.last_version("a"), writer.last_version("b")) == (5, 5)
    for wrong in (("", 1), ("a", -1), ("a", True)):
        with pytest.raises(exceptions.InvalidArgumentError):
            writer.append(rows_of(0), *wrong)


def test_a_start_with_more_files_than_are_kept(tmp_table: Callable[[], str]) -> None:
    """Files beyond the ones in memory are found again at the end of those: none is left out, none
    is repeated."""
    path, count = tmp_table(), 50_010
    DeltaTable.create(path, pa.schema([("id", pa.int64())]))
    times = [(n * 7919) % 1000 for n in range(count)]
    with (Path(path) / f"_delta_log/{1:020d}.json").open("w") as log:
        for n, time in enumerate(times):
            add = {"path": f"f{n:05}", "partitionValues": {}, "size": 1, "modificationTime": time, "dataChange": True}
            log.write(json.dumps({"add": add}) + "\n")
    items = list(DeltaTable(path).tail(max_files=20_000))
    assert [item._native.num_files for item in items] == [20_000, 20_000, 10_010]  # type: ignore[union-attr]
    ordered = sorted((time, f"f{n:05}") for n, time in enumerate(times))
    ends = [json.loads(item.offset) for item in items]
    assert [tuple(end["after"]) for end in ends[:2]] == [ordered[19_999], ordered[39_999]]
    assert (ends[2]["version"], ends[2]["isStartingVersion"]) == (2, False)


@pytest.mark.parametrize("versions", [1, 3])
def test_no_commit_is_passed_over_while_a_follower_begins(tmp_path: Path, versions: int) -> None:
    for number in range(versions):
        write_deltalake(tmp_path, pa.table({"x": [number]}), mode="append")

    class WhileOthersCommit:
        """A follower after each of whose calls another writer commits."""

        def __init__(self, tail: Any) -> None:
            self.tail = tail

        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> Any:
                done = getattr(self.tail, name)(*arguments)
                write_deltalake(tmp_path, pa.table({"x": [-1]}), mode="append")
                return done

            return call

    tail = _native.Tail.open(str(tmp_path), None, tail_request())
    since = versions - 1
    offset = _begin(WhileOthersCommit(tail), since)  # type: ignore[arg-type]  # in place of the core's class
    rows = next(iter(DeltaTable(tmp_path).tail(since=str(offset))))
    assert rows.version == since + 1
