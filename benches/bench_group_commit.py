"""Many small appends from threads on the local disk: grouped commits compared with one commit each.

The bar writes and syncs each append's Parquet file and commits nothing.
"""

from __future__ import annotations

import argparse
import functools
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.harness import Case, Contestant, Task, main, scale_of

ROWS = 10
# Maximum time that an append waits for other threads: about the time for writing its file.
DELAY_SECONDS = 0.01
# Numbers of threads by scale, and the total number of their appends.
THREADS = {"quick": [4], "small": [1, 8, 32], "full": [1, 4, 16, 64]}
APPENDS = {"quick": 20, "small": 160, "full": 640}


def _rows(append: int) -> pa.Table:
    ids = range(append * ROWS, (append + 1) * ROWS)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {n}" for n in ids]})


def _threads(case: Mapping[str, Any], append: Callable[[pa.Table], object]) -> Callable[[], int]:
    """Calls `append` from the case's threads; returns the number of failed calls."""
    data = [_rows(n) for n in range(case["appends"])]

    def failed(rows: pa.Table) -> int:
        try:
            append(rows)
        except Exception:  # noqa: BLE001 - whatever it is, it is counted
            return 1
        return 0

    def run() -> int:
        with ThreadPoolExecutor(case["threads"]) as pool:
            return sum(pool.map(failed, data))

    return run


def _appended(table: Path) -> Callable[[int], int]:
    """The number of appends in the table plus the refused ones, which must be all appends."""

    def answer(failed: int) -> int:
        from deltaplane import DeltaTable

        return len(set(DeltaTable(str(table)).to_pyarrow_table()["id"].to_pylist())) // ROWS + failed

    return answer


def _task(case: Mapping[str, Any], table: Path, append: Callable[[pa.Table], object]) -> Task:
    return Task(_threads(case, append), _appended(table), failed=int)


def _new_table(scratch: Path) -> Path:
    from deltaplane import write_deltalake

    table = scratch / "table"
    write_deltalake(str(table), _rows(0).slice(0, 0))
    return table


def deltaplane(case: Mapping[str, Any], scratch: Path, delay_seconds: float = 0.0) -> Task:
    from deltaplane import GroupWriter

    table = _new_table(scratch)
    writer = GroupWriter(str(table), max_appends=case["threads"], max_delay_seconds=delay_seconds)
    return _task(case, table, writer.append)


def one_commit_each(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import write_deltalake

    table = _new_table(scratch)
    return _task(case, table, lambda rows: write_deltalake(str(table), rows, mode="append"))


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltalake import write_deltalake

    table = _new_table(scratch)
    return _task(case, table, lambda rows: write_deltalake(str(table), rows, mode="append"))


def files_alone(case: Mapping[str, Any], scratch: Path) -> Task:
    def write(rows: pa.Table) -> None:
        with (scratch / f"{rows['id'][0].as_py()}.parquet").open("xb") as file:
            pq.write_table(rows, file)
            file.flush()
            os.fsync(file.fileno())

    return Task(_threads(case, write), lambda failed: len(list(scratch.glob("*.parquet"))) + failed, failed=int)


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    "with a delay": functools.partial(deltaplane, delay_seconds=DELAY_SECONDS),
    "one commit each": one_commit_each,
    "deltalake": deltalake,
    "files alone": files_alone,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, nargs="+", help="numbers of threads, instead of those of the scale")


def cases(options: argparse.Namespace) -> list[Case]:
    appends = APPENDS[scale_of(options)]
    return [
        Case(
            f"{appends:,} appends of {ROWS} rows, {threads} {'thread' if threads == 1 else 'threads'}",
            list(CONTESTANTS),
            {"appends": appends, "threads": threads},
            expected=appends,
            series=f"{appends:,} appends by threads",
            size=threads,
        )
        for threads in options.threads or THREADS[scale_of(options)]
    ]


if __name__ == "__main__":
    main("group commit", CONTESTANTS, cases, arguments)
