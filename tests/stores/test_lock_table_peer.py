"""A lock table shared with another implementation: the last delta-rs version with delta-spark's
lock table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import DeltaError
from stores.dynamo_server import Cut, LockTable, proxy
from stores.numbers import ids, rows
from stores.servers import program

PROGRAM = Path(__file__).with_name("older_delta_rs.py")
APPENDS = 6
# delta-rs retries for minutes after its connection breaks; it is killed, as in a crash.
PATIENCE_SECONDS = 60
THEIR_FIRST = "PUT _commit_"


class Peer:
    """The other implementation in a separate process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def append(self, table: str, number: int, options: dict[str, str]) -> dict[str, Any]:
        """Appends one row; returns the table's version, or the error."""
        self.begin(table, number, options)
        answer = cast(IO[str], self._process.stdout).readline()
        return cast(dict[str, Any], json.loads(answer or '{"error": "its process ended"}'))

    def begin(self, table: str, number: int, options: dict[str, str]) -> None:
        """Sends an append without waiting for the answer."""
        to = cast(IO[str], self._process.stdin)
        to.write(json.dumps([table, number, options]) + "\n")
        to.flush()

    def kill(self) -> None:
        self._process.kill()


@contextmanager
def peer() -> Iterator[Peer]:
    with subprocess.Popen(
        [sys.executable, PROGRAM],
        env={**os.environ, "PYTHONPATH": program("locking")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Peer(process)
        cast(IO[str], process.stdin).close()
        try:
            process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()


def options(locks: LockTable) -> dict[str, str]:
    """Without conditional puts, so that only the lock table decides."""
    return {**locks.options, "aws_conditional_put": "disabled"}


def append(table: str, number: int, locks: LockTable, **more: str) -> None:
    write_deltalake(table, rows(number), mode="append", storage_options={**options(locks), **more})


def ids_in_table(table: str, locks: LockTable) -> list[int]:
    return ids(DeltaTable(table, storage_options=options(locks)))


def assert_complete(locks: LockTable, versions: int) -> None:
    """Every version of the table has its item, which is complete."""
    done = [(item["fileName"]["S"], item["complete"]["S"]) for item in locks.items()]
    assert done == [(f"{version:020}.json", "true") for version in range(versions)]


def test_in_turn(locks: LockTable) -> None:
    """Both see each other's commits and write items of one form."""
    table = f"{locks.server.new_bucket()}/t"
    with peer() as other:
        for number in range(0, 6, 2):
            append(table, number, locks)
            assert other.append(table, number + 1, options(locks)) == {"version": number + 1}
    assert ids_in_table(table, locks) == list(range(6))
    assert_complete(locks, 6)
    items = locks.items()
    assert len({item["tablePath"]["S"] for item in items}) == 1
    assert len({tuple(sorted((name, *value) for name, value in item.items())) for item in items}) == 1


def test_racing(locks: LockTable) -> None:
    table = f"{locks.server.new_bucket()}/t"
    write_deltalake(table, rows(0, 0), storage_options=options(locks))

    def ours(first: int) -> None:
        for number in range(first, first + APPENDS):
            append(table, number, locks)

    def theirs(first: int) -> None:
        with peer() as other:
            for number in range(first, first + APPENDS):
                assert "error" not in other.append(table, number, options(locks))

    with ThreadPoolExecutor(4) as pool:
        begun = [pool.submit(write, n * APPENDS) for n, write in enumerate((ours, theirs, ours, theirs))]
        for future in begun:
            future.result()
    assert ids_in_table(table, locks) == list(range(4 * APPENDS))
    assert_complete(locks, 4 * APPENDS + 1)


def test_theirs_crash_and_we_finish(locks: LockTable) -> None:
    """delta-rs's connection breaks after each of a commit's requests: deltaplane's next reader
    finds the commit completely or not at all."""
    table = f"{locks.server.new_bucket()}/t"
    append(table, 0, locks)
    calm = Cut(None, first=THEIR_FIRST)
    with proxy(locks.server, calm) as endpoint, peer() as other:
        assert other.append(table, 1, options(locks.behind(endpoint))) == {"version": 1}
    commit = [what.split()[0] for what in calm.seen]
    points = commit.index("UpdateItem") + 1
    assert commit[:points].count("PutItem") == 1
    expected, whole = [0, 1], 0
    for number, after in enumerate(range(1, points + 1), 2):
        cut = Cut(after, first=THEIR_FIRST)
        with proxy(locks.server, cut) as endpoint, peer() as other:
            other.begin(table, number, options(locks.behind(endpoint)))
            assert cut.reached.wait(PATIENCE_SECONDS), f"{after} requests never came: {cut.seen}"
            other.kill()
        now = ids_in_table(table, locks)
        assert now in (expected, sorted([*expected, number])), cut.seen
        whole += now != expected
        expected = now
        append(table, 1000 + number, locks)
        expected = sorted([*expected, 1000 + number])
    assert ids_in_table(table, locks) == expected
    assert 0 < whole < points, "no crash point before the decision, or none behind it"
    assert all(item["complete"]["S"] == "true" for item in locks.items())


def test_ours_crash_and_they_finish(locks: LockTable) -> None:
    """deltaplane's connection breaks after each of a commit's requests: delta-rs's next append
    continues from the decided state."""
    table = f"{locks.server.new_bucket()}/t"
    append(table, 0, locks)
    calm = Cut(None)
    with proxy(locks.server, calm) as endpoint:
        append(table, 1, locks.behind(endpoint))
    expected, whole = [0, 1], 0
    with peer() as other:
        for number, after in enumerate(range(1, len(calm.seen) + 1), 2):
            cut, failed = Cut(after), False
            with proxy(locks.server, cut) as endpoint:
                try:
                    append(table, number, locks.behind(endpoint), max_retries="0", retry_timeout="1s")
                except DeltaError:
                    failed = True
            assert "error" not in other.append(table, 1000 + number, options(locks))
            now = ids_in_table(table, locks)
            without = sorted([*expected, 1000 + number])
            assert now == sorted([*without, number]) or (failed and now == without), cut.seen
            whole += now != without
            expected = now
    assert 0 < whole < len(calm.seen)
    history = DeltaTable(table, storage_options=options(locks)).history()
    assert [entry["version"] for entry in history] == list(range(len(history) - 1, -1, -1))
