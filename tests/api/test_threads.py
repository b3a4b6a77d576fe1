"""Objects that several threads use at the same time: tables, predicates, streams, stores, events.

On free-threaded Python the calls run at the same time in fact; `make check-free-threaded` runs
these tests there.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import (
    CommitProperties,
    DeltaTable,
    GroupWriter,
    LogStore,
    Transaction,
    register_log_store,
    write_deltalake,
)
from deltaplane.exceptions import ConcurrentTransactionException, DeltaConcurrentModificationException

THREADS = 8
ROUNDS = 12
ROWS = 100


def batch(number: int) -> pa.Table:
    """One hundred rows that have the number of their append."""
    return pa.table({"x": pa.array([number] * ROWS, pa.int64()), "text": [f"append {number}"] * ROWS})


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    path = tmp_path / "t"
    for number in range(ROUNDS):
        write_deltalake(path, batch(number), mode="append")
    return DeltaTable(path)


def together(*works: Callable[[], Any]) -> list[Any]:
    """Begins all works at the same instant, each in a thread; their results in order."""
    begin = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        begin.wait(60)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python always has its lock")
def test_an_import_leaves_the_lock_off() -> None:
    code = "import sys, deltaplane, deltaplane._native, pyarrow; print(sys._is_gil_enabled())"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr


READS: dict[str, Callable[[DeltaTable], Any]] = {
    "rows": lambda table: sorted(table.to_pyarrow_table()["x"].to_pylist()),
    "filtered rows": lambda table: pa.table(table.scan(["text"], "x >= 6")).num_rows,
    "files": lambda table: table.files("x >= 6"),
    "count": lambda table: table.count(),
    "schema": lambda table: table.schema(),
    "history": lambda table: [commit["version"] for commit in table.history()],
    "add actions": lambda table: sorted(table.get_add_actions().column("path").to_pylist()),
    "pickle": lambda table: pickle.loads(pickle.dumps(table)).files(),
    "older version": lambda table: DeltaTable(table.location, version=3).count(),
    "explanation": lambda table: table.explain("x = 3").selected,
}


@pytest.mark.parametrize("name", READS)
def test_every_thread_reads_what_one_thread_reads(name: str, table: DeltaTable) -> None:
    read = READS[name]
    expected = read(DeltaTable(table.location))
    assert together(*[lambda: [read(table) for _ in range(3)]] * THREADS) == [[expected] * 3] * THREADS


def test_different_reads_of_one_object_run_together(table: DeltaTable) -> None:
    expected = [read(DeltaTable(table.location)) for read in READS.values()]
    works = [lambda read=read: [read(table) for _ in range(3)] for read in READS.values()]
    assert together(*works) == [[each] * 3 for each in expected]


def test_readers_of_a_refreshed_table_see_whole_versions(table: DeltaTable) -> None:
    done = threading.Event()

    def append() -> None:
        try:
            for number in range(ROUNDS, 2 * ROUNDS):
                write_deltalake(table.location, batch(number), mode="append")
        finally:
            done.set()

    def read() -> list[int]:
        counts = []
        while not done.is_set():
            table.update_incremental()
            counts.append(table.to_pyarrow_table().num_rows)
        return counts

    _, *seen = together(append, *[read] * 4)
    for counts in seen:
        assert all(rows % ROWS == 0 for rows in counts)
        assert counts == sorted(counts)
    table.update_incremental()
    assert table.count() == 2 * ROUNDS * ROWS


def test_appends_of_many_threads_through_one_object_are_all_committed(table: DeltaTable) -> None:
    def append(number: int) -> int:
        result = write_deltalake(table, batch(number), mode="append")
        assert result.version is not None
        return int(result.version)

    works = [lambda n=n: append(n) for n in range(ROUNDS, ROUNDS + THREADS)]
    versions = together(*works)
    assert sorted(versions) == list(range(ROUNDS, ROUNDS + THREADS))
    counts = DeltaTable(table.location).to_pyarrow_table().group_by("x").aggregate([("x", "count")])
    assert sorted(counts["x"].to_pylist()) == list(range(ROUNDS + THREADS))
    assert set(counts["x_count"].to_pylist()) == {ROWS}


def test_one_application_transaction_is_written_once(table: DeltaTable) -> None:
    def write() -> None:
        properties = CommitProperties(app_transactions=[Transaction("job", 7)])
        with suppress(ConcurrentTransactionException):
            write_deltalake(table.location, batch(99), mode="append", commit_properties=properties)

    together(*[write] * THREADS)
    assert DeltaTable(table.location).count() == (ROUNDS + 1) * ROWS


def test_a_group_writer_takes_rows_of_many_threads(table: DeltaTable) -> None:
    with GroupWriter(table.location) as writer:
        together(*[lambda n=n: writer.append(batch(n)) for n in range(ROUNDS, ROUNDS + THREADS)])
    assert sorted(set(DeltaTable(table.location).to_pyarrow_table()["x"].to_pylist())) == list(range(ROUNDS + THREADS))


def test_commands_of_many_threads_end_or_conflict(table: DeltaTable) -> None:
    def ends(command: Callable[[DeltaTable], object]) -> bool:
        with suppress(DeltaConcurrentModificationException):
            command(DeltaTable(table.location))
            return True
        return False

    commands: list[Callable[[DeltaTable], object]] = [lambda t, n=n: t.delete(f"x = {n}") for n in range(4)]
    *ended, _ = together(*[lambda c=c: ends(c) for c in [*commands, lambda t: t.optimize.compact()]])
    rows = DeltaTable(table.location).to_pyarrow_table()["x"].to_pylist()
    assert sorted(rows) == [n for n in range(ROUNDS) if n >= 4 or not ended[n] for _ in range(ROWS)]


def test_a_scan_gives_each_thread_a_stream_of_its_own(table: DeltaTable) -> None:
    scan = table.scan()
    counts = together(*[lambda: pa.table(scan).num_rows] * THREADS)
    assert counts == [ROUNDS * ROWS] * THREADS


class Noting(LogStore):
    """Commits to a folder, and notes every commit. The threads of the core call it."""

    def __init__(self, base: str, commits: list[str]) -> None:
        self.base = base
        self._commits = commits

    def put_if_absent(self, path: str, data: bytes) -> Any:
        self._commits.append(path)
        return NotImplemented


def test_a_store_in_python_is_called_by_many_threads(table: DeltaTable) -> None:
    commits: list[str] = []
    register_log_store("noting", lambda _, options: Noting(table.location, commits))
    works = [lambda n=n: write_deltalake("noting://t", batch(n), mode="append") for n in range(50, 50 + THREADS)]
    together(*works)
    assert DeltaTable("noting://t").count() == (ROUNDS + THREADS) * ROWS
    made = {f"_delta_log/{version:020}.json" for version in range(ROUNDS, ROUNDS + THREADS)}
    assert made <= set(commits)


def test_events_of_many_threads_are_all_delivered(table: DeltaTable, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="deltaplane")
    together(*[lambda n=n: write_deltalake(table.location, batch(n), mode="append") for n in range(THREADS)])
    # The last calls deliver what other threads noted while they returned.
    DeltaTable(table.location).count()
    texts = [record.getMessage() for record in caplog.records if record.name == "deltaplane.log.transaction"]
    for version in range(ROUNDS, ROUNDS + THREADS):
        assert any(f"{version}" in text for text in texts), (version, texts)


def test_queries_run_beside_each_other(table: DeltaTable) -> None:
    def query(number: int) -> int:
        rows = deltaplane.sql(f"SELECT count(*) AS n FROM delta.`{table.location}` WHERE x = {number}").fetchall()
        return int(rows[0][0])

    assert together(*[lambda n=n: query(n) for n in range(THREADS)]) == [ROWS] * THREADS
