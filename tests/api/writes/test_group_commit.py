"""`GroupWriter`: which appends share a commit, which fail alone, which are skipped, closing,
forks."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import (
    CommitProperties,
    DeltaTable,
    GroupWriter,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltaplane.exceptions import (
    ConstraintViolationError,
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from deltaplane.schema import Field, Schema
from grouped import HOUR, Appends, behind_a_commit, files, grouped, ids, rows
from stores.gated_store import Gate, gated
from waiting import until


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    write_deltalake(path, rows(0))
    return path


@pytest.fixture
def gate(table: str) -> Gate:
    return gated(Path(table))


def commit(table: str, version: int) -> list[dict[str, Any]]:
    text = Path(table, "_delta_log", f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


# --- sharing commits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["disk", "memory", "s3"])
def test_threads_share_commits(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    threads, appends = 6, 5
    table, options = str(tmp_path / "t"), {}
    if place == "memory":
        table = f"memory://{tmp_path.name}/t"
    elif place == "s3":
        server = request.getfixturevalue("moto_server")
        table, options = f"{server.new_bucket()}/t", server.options
    write_deltalake(table, rows(0, 0), storage_options=options)
    versions: list[list[int | None]] = []

    def work(writer: GroupWriter, thread: int) -> None:
        done = [writer.append(rows(100 * thread + n, 3), (f"app {thread}", n)) for n in range(0, 3 * appends, 3)]
        versions.append([result.version for result in done])

    opened = DeltaTable(table, storage_options=options)
    with (
        GroupWriter(opened, max_appends=threads, max_delay_seconds=HOUR) as writer,
        ThreadPoolExecutor(threads) as pool,
    ):
        for running in [pool.submit(work, writer, thread) for thread in range(threads)]:
            running.result()
    now = DeltaTable(table, storage_options=options)
    assert versions == [list(range(1, appends + 1))] * threads
    assert now.version() == appends
    assert grouped(now) == [threads] * appends
    ids = sorted(now.to_pyarrow_table()["id"].to_pylist())
    assert ids == sorted(100 * thread + n for thread in range(threads) for n in range(3 * appends))
    assert {now.transaction_version(f"app {thread}") for thread in range(threads)} == {3 * (appends - 1)}


def test_appends_gather_while_a_commit_is_under_way(gate: Gate) -> None:
    writer = GroupWriter(gate.table)
    appends = [(rows(n), (f"app {n}", 7)) for n in range(1, 6)]
    with behind_a_commit(gate, writer, appends) as waiting:
        gate.open.set()
        results = [future.result() for future in waiting]
    assert {result.version for result in results} == {2}
    assert (grouped(DeltaTable(gate.base)), ids(gate.base)) == ([1, 5], [-1, *range(6)])
    actions = commit(gate.base, 2)
    info = actions[0]["commitInfo"]
    assert (info["operation"], info["groupedAppends"], info["isBlindAppend"]) == ("WRITE", 5, True)
    assert info["operationParameters"]["mode"] == "Append"
    assert info["operationMetrics"] == {"numFiles": "5", "numOutputRows": "5", "numOutputBytes": str(size_of(actions))}
    assert results[0].metrics == info["operationMetrics"]
    assert [(a["txn"]["appId"], a["txn"]["version"]) for a in actions if "txn" in a] == [
        (f"app {n}", 7) for n in range(1, 6)
    ]
    assert sum("add" in a for a in actions) == 5
    writer.close()


def size_of(actions: list[dict[str, Any]]) -> int:
    return sum(a["add"]["size"] for a in actions if "add" in a)


BOUNDS = {
    "appends": ({"max_appends": 2}, [2, 2, 1]),
    "files": ({"max_files": 3}, [3, 2]),
    "bytes": ({"max_bytes": 1}, [1] * 5),
}


@pytest.mark.parametrize(("bounds", "groups"), BOUNDS.values(), ids=BOUNDS)
def test_a_commit_has_bounds(gate: Gate, bounds: dict[str, int], groups: list[int]) -> None:
    writer = GroupWriter(gate.table, **bounds)  # type: ignore[arg-type]
    with behind_a_commit(gate, writer, [(rows(n), None) for n in range(1, 6)]):
        pass
    assert (grouped(DeltaTable(gate.base)), ids(gate.base)) == ([1, *groups], [-1, *range(6)])


def test_appends_beyond_the_bound_wait_before_they_read(gate: Gate) -> None:
    read: list[int] = []

    def lazily(n: int) -> pa.RecordBatchReader:
        def batches() -> Iterator[pa.RecordBatch]:
            read.append(n)
            yield from rows(n).to_batches()

        return pa.RecordBatchReader.from_batches(rows(0).schema, batches())

    writer = GroupWriter(gate.table, max_waiting=2)
    with behind_a_commit(gate, writer, [(lazily(1), None)]), ThreadPoolExecutor(3) as pool:
        others = [pool.submit(writer.append, lazily(n)) for n in (2, 3, 4)]
        until(lambda: all(future.running() for future in others))
        assert read == [1]
        gate.open.set()
        assert {future.result().skipped for future in others} == {None}
    assert (sorted(read), ids(gate.base)) == ([1, 2, 3, 4], [-1, 0, 1, 2, 3, 4])


def test_settings_hold_for_every_commit(table: str) -> None:
    settings: dict[str, Any] = {
        "commit_properties": CommitProperties(custom_metadata={"userMetadata": "nightly", "team": "a"}),
        "writer_properties": WriterProperties(compression="GZIP"),
        "post_commithook_properties": PostCommitHookProperties(create_checkpoint=False),
    }
    opened = DeltaTable(table)
    with GroupWriter(opened, **settings) as writer:
        assert writer.append(rows(1, 0)).version == 1
        assert writer.append([*rows(1).to_batches(), *rows(2).to_batches()], Transaction("a", -3)).version == 2
    assert opened.version() == 0
    last = DeltaTable(table).history(1)[0]
    assert (last["userMetadata"], last["team"], last["groupedAppends"]) == ("nightly", "a", 1)
    assert ".gz." in str(DeltaTable(table).file_uris())
    assert DeltaTable(table).transaction_version("a") == -3


# --- application versions ---------------------------------------------------------------------------------------------


def test_what_an_application_has_done_is_skipped_alone(gate: Gate) -> None:
    gate.open.set()
    writer = GroupWriter(gate.table)
    assert writer.append(rows(1), ("a", 3)).version == 1
    again = writer.append(rows(1), ("a", 3))
    assert (again.version, again.skipped, again.metrics) == (None, "txn", {})
    gate.came = threading.Semaphore(0)
    appends: Appends = [(rows(2), ("a", 2)), (rows(3), ("b", 1)), (rows(4), None), (rows(5), ("c", 0))]
    with behind_a_commit(gate, writer, appends) as waiting:
        gate.open.set()
        outcomes = [(future.result().version, future.result().skipped) for future in waiting]
    assert outcomes == [(None, "txn"), (3, None), (3, None), (3, None)]
    assert (grouped(DeltaTable(gate.base)), ids(gate.base)) == ([1, 1, 3], [-1, 0, 1, 3, 4, 5])
    assert files(gate.base) == len(ids(gate.base)), "a skipped append leaves no file"


def test_versions_of_one_application_are_committed_one_after_the_other(gate: Gate) -> None:
    # P076: one action for each application in a commit, and the lower version first, since the
    # higher one would make it skipped
    writer = GroupWriter(gate.table)
    appends: Appends = [
        (rows(2), ("a", 2)),
        (rows(9), ("b", 1)),
        (rows(1), ("a", 1)),
        (rows(8), ("a", 1)),
        (rows(7), None),
    ]
    with behind_a_commit(gate, writer, appends) as waiting:
        gate.open.set()
        results = [future.result() for future in waiting]
    assert [(r.version, r.skipped) for r in results] == [(3, None), (2, None), (2, None), (None, "txn"), (2, None)]
    assert ids(gate.base) == [-1, 0, 1, 2, 7, 9]
    assert DeltaTable(gate.base).transaction_version("a") == 2


def test_a_group_of_what_is_done_commits_nothing(gate: Gate) -> None:
    write_deltalake(
        gate.base, rows(1), mode="append", commit_properties=CommitProperties(app_transactions=[Transaction("a", 5)])
    )
    writer = GroupWriter(gate.table)
    with behind_a_commit(gate, writer, [(rows(2), ("a", 4)), (rows(3), ("a", 5))]) as waiting:
        gate.open.set()
        assert [future.result().skipped for future in waiting] == ["txn", "txn"]
    assert (DeltaTable(gate.base).version(), ids(gate.base)) == (2, [-1, 0, 1])


# --- callers that fail alone ------------------------------------------------------------------------------------------


def test_a_bad_append_fails_alone(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    fields = [Field("id", "long", nullable=False), Field("amount", "long")]
    DeltaTable.create(table, Schema(fields), configuration={"delta.constraints.positive": "amount > 0"})

    def batches() -> Iterator[pa.RecordBatch]:
        yield from pa.table({"id": [1], "amount": [1]}).to_batches()
        raise ZeroDivisionError

    schema = pa.schema({"id": pa.int64(), "amount": pa.int64()})
    bad: list[tuple[type[Exception], Any, Any]] = [
        (SchemaMismatchError, pa.table({"id": [1], "amount": [1], "more": [1]}), None),
        (SchemaMismatchError, pa.table({"id": ["x"], "amount": [1]}), None),
        (ConstraintViolationError, pa.table({"id": [1], "amount": [-1]}), None),
        (ConstraintViolationError, pa.table({"id": pa.array([None], pa.int64()), "amount": [1]}), None),
        (DeltaError, pa.RecordBatchReader.from_batches(schema, batches()), None),
        (TypeError, 7, None),
        (InvalidArgumentError, pa.table({"id": [1], "amount": [1]}), ("a", 1 << 63)),
        (InvalidArgumentError, pa.table({"id": [1], "amount": [1]}), ("a", True)),
        (InvalidArgumentError, pa.table({"id": [1], "amount": [1]}), "a"),
    ]
    good = [(pa.table({"id": [n], "amount": [n]}), (f"app {n}", 1)) for n in range(2, 5)]
    with GroupWriter(table, max_appends=len(good), max_delay_seconds=HOUR) as writer:
        with ThreadPoolExecutor(len(bad) + len(good)) as pool:
            failing = [pool.submit(writer.append, data, txn) for _, data, txn in bad]
            passing = [pool.submit(writer.append, *append) for append in good]
            for (kind, _, _), future in zip(bad, failing, strict=True):
                assert isinstance(future.exception(), kind), future.exception()
            assert {future.result().version for future in passing} == {1}
    assert (ids(table), files(table), grouped(DeltaTable(table))) == ([2, 3, 4], 3, [3])


def test_the_table_s_rules_hold(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    fields = [
        Field("id", "long", nullable=False),
        Field("twice", "long", metadata={"delta.generationExpression": "id * 2"}),
        Field("kind", "string", metadata={"CURRENT_DEFAULT": "'plain'"}),
        Field("part", "string"),
    ]
    properties = {
        "delta.enableChangeDataFeed": "true",
        "delta.feature.allowColumnDefaults": "supported",
        "delta.enableRowTracking": "true",
        "delta.constraints.small": "id < 100",
    }
    DeltaTable.create(table, Schema(fields), configuration=properties, partition_by=["part"])
    with GroupWriter(table, max_appends=2, max_delay_seconds=HOUR) as writer, ThreadPoolExecutor(2) as pool:
        data = [pa.table({"id": [1], "part": ["a"]}), pa.table({"part": ["b"], "kind": ["own"], "id": [2]})]
        assert {result.version for result in pool.map(writer.append, data)} == {1}
        with pytest.raises(ConstraintViolationError, match="small"):
            writer.append(pa.table({"id": [100], "part": ["a"]}))
    rows = DeltaTable(table).scan(["id", "twice", "kind", "part", "_row_id"]).to_arrow().sort_by("id").to_pylist()
    assert sorted(row.pop("_row_id") for row in rows) == [0, 1]
    assert rows == [
        {"id": 1, "twice": 2, "kind": "plain", "part": "a"},
        {"id": 2, "twice": 4, "kind": "own", "part": "b"},
    ]
    changes = DeltaTable(table).load_cdf(1).to_arrow()
    assert changes["_change_type"].to_pylist() == ["insert", "insert"]


def test_identity_values_are_refused_by_name(tmp_path: Path) -> None:
    table = str(tmp_path / "t")
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True}
    DeltaTable.create(table, Schema([Field("id", "long"), Field("number", "long", metadata=identity)]))
    with GroupWriter(table) as writer:
        with pytest.raises(UnsupportedFeatureError, match="identity column `number`"):
            writer.append(rows(1))
        assert writer.append(pa.table({"id": [1], "number": [7]})).version == 1
    assert files(table) == 1


# --- closing, forks, copies -------------------------------------------------------------------------------------------


def test_closing_waits_for_appends_under_way(gate: Gate) -> None:
    writer = GroupWriter(gate.table)
    with ThreadPoolExecutor(1) as pool, behind_a_commit(gate, writer, [(rows(1), None)]) as waiting:
        closing = pool.submit(writer.close)
        until(lambda: closing.running())
        assert not waiting[0].done()
        gate.open.set()
        closing.result()
        assert ids(gate.base) == [-1, 0, 1]
    with pytest.raises(InvalidArgumentError, match="closed"):
        writer.append(rows(9))
    writer.close()


def test_an_append_inside_of_an_append_is_refused(table: str) -> None:
    calls: list[str] = []

    def batches(use: Callable[[], object]) -> Iterator[pa.RecordBatch]:
        with pytest.raises(InvalidArgumentError, match="in the middle of an append"):
            use()
        calls.append("refused")
        yield from rows(1).to_batches()

    with GroupWriter(table) as writer:
        for use in (writer.close, lambda: writer.append(rows(2))):
            writer.append(pa.RecordBatchReader.from_batches(rows(0).schema, batches(use)))
    assert (calls, ids(table)) == (["refused"] * 2, [0, 1, 1])


FORKING = """
import os, sys, threading
import pyarrow as pa
from deltaplane import GroupWriter
from deltaplane.exceptions import InvalidArgumentError

began, forked = threading.Event(), threading.Event()
rows = pa.table({"id": [1]})

def batches():
    began.set()
    forked.wait()
    yield from rows.to_batches()

with GroupWriter(sys.argv[1]) as writer:
    # The child must not wait for a thread that it doesn't have.
    under_way = threading.Thread(target=writer.append, args=[pa.RecordBatchReader.from_batches(rows.schema, batches())])
    under_way.start()
    began.wait()
    child = os.fork()
    if child == 0:
        try:
            writer.append(rows)
        except InvalidArgumentError as e:
            writer.close()
            os._exit(17 if "another process" in str(e) else 1)
        os._exit(2)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    forked.set()
    under_way.join()
    assert ended == 17, ended
    writer.append(pa.table({"id": [3]}))
"""


def test_a_fork_is_refused_and_the_parent_goes_on(table: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING, table], env=environment, check=True, timeout=120)
    assert ids(table) == [0, 1, 3]


def test_wrong_calls_are_refused(table: str) -> None:
    with GroupWriter(table) as writer:
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="another"):
                copied(writer)
        assert repr(writer) == f"GroupWriter({table!r})"
    wrong: list[dict[str, Any]] = [
        {"max_appends": 0},
        {"max_files": 1.5},
        {"max_bytes": True},
        {"max_waiting": -1},
        {"max_delay_seconds": -1},
        {"max_delay_seconds": float("inf")},
        {"commit_properties": CommitProperties(app_transactions=[Transaction("a", 1)])},
        {"target_file_size": 0},
    ]
    for arguments in wrong:
        with pytest.raises(InvalidArgumentError):
            GroupWriter(table, **arguments)
