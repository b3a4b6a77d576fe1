"""Helpers for the tests of group commits: rows, a table's content, and appends that wait for a
running commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaplane import DeltaTable, GroupWriter, WriteResult
from stores.gated_store import Gate
from waiting import until

# Maximum time that a group waits until it is full, so that commits don't depend on thread
# scheduling.
HOUR = 3600.0
# Data and application version, as arguments of `append`.
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
    """The number of appends in each commit of a group writer, oldest first."""
    history = reversed(table.history())
    return [entry["groupedAppends"] for entry in history if "groupedAppends" in entry]


@contextmanager
def behind_a_commit(gate: Gate, writer: GroupWriter, appends: Appends) -> Iterator[list[Future[WriteResult]]]:
    """The append of the row -1 is being committed; the others are finished and wait, in order."""
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
