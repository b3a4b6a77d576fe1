"""What the tests of group commits share: rows, what a table then holds, and appends that wait
behind a commit under way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaplane import DeltaTable, GroupWriter, WriteResult
from stores.gated_store import Gate

# A group waits so long until it is full, so that commits don't depend on how threads run.
HOUR = 3600.0
# Data and application's version, as `append` takes them.
Appends = Sequence[tuple[Any, "tuple[str, int] | None"]]


def rows(first: int, count: int = 1) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64())})


def stream(first: int, count: int = 1) -> pa.RecordBatchReader:
    """Rows that can be read once."""
    return rows(first, count).to_reader()


def ids(table: str) -> list[int]:
    return sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist())


def files(table: str) -> int:
    return sum(1 for _ in Path(table).rglob("*.parquet"))


def grouped(table: DeltaTable) -> list[int]:
    """How many appends each commit of a group writer holds, oldest first."""
    history = reversed(table.history())
    return [entry["groupedAppends"] for entry in history if "groupedAppends" in entry]


def until(holds: Callable[[], bool]) -> None:
    """Lets other threads go on until something holds."""
    pause = threading.Event()
    while not holds():
        pause.wait(0.001)


@contextmanager
def behind_a_commit(gate: Gate, writer: GroupWriter, appends: Appends) -> Iterator[list[Future[WriteResult]]]:
    """The append of the row -1 is being committed, the others are ready and wait, in their
    order."""
    gate.open.clear()
    with ThreadPoolExecutor(len(appends) + 1) as pool:
        try:
            first = pool.submit(writer.append, rows(-1))
            assert gate.came.acquire(timeout=HOUR)
            waiting = []
            for n, (data, txn) in enumerate(appends, 1):
                waiting.append(pool.submit(writer.append, data, txn))
                until(lambda n=n: writer.waiting == n)  # type: ignore[misc]
            yield waiting
        finally:
            gate.open.set()
    assert first.result().version is not None
