"""Writing rows from memory to a new table with a thousand partitions, two thousand rows each, in no
order.

Polars only writes Parquet files: without the table's statistics, a commit or a sync.
"""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from support.harness import Case, Contestant, Task, main, scale_of
from support.rows import SEED, data_files

ROWS_OF_EACH = 2_000
PARTITIONS = {"quick": 10, "small": 200, "full": 1_000}
TARGET = "partitioned write"


def rows_of(partitions: int) -> pa.Table:
    """The same rows each time."""
    random, rows = np.random.default_rng(SEED), partitions * ROWS_OF_EACH
    texts = pa.array([f"free text number {i:07d}" for i in range(100_000)])
    return pa.table(
        {
            "part": random.integers(0, partitions, rows),
            "id": np.arange(rows),
            "amount": random.random(rows),
            "text": texts.take(pa.array(random.integers(0, len(texts), rows))),
            "other": texts.take(pa.array(random.integers(0, len(texts), rows))),
        }
    )


def write_deltaplane(rows: Any, path: str) -> None:
    from deltaplane import write_deltalake

    write_deltalake(path, rows, partition_by="part")


def write_peer(rows: Any, path: str) -> None:
    from deltalake import write_deltalake

    write_deltalake(path, rows, partition_by=["part"])


def write_polars(rows: Any, path: str) -> None:
    rows.write_parquet(path, partition_by="part")


WRITERS: Mapping[str, Callable[[Any, str], None]] = {
    "deltaplane": write_deltaplane,
    "deltalake": write_peer,
    "Polars": write_polars,
}


def contestant(writer: str, case: Mapping[str, Any], scratch: Path) -> Task:
    # The import isn't a part of the write.
    importlib.import_module(writer.lower())
    rows: Any = rows_of(case["partitions"])
    if writer == "Polars":
        import polars as pl

        rows = pl.from_arrow(rows)
    path = str(scratch / "table")
    return Task(
        lambda: WRITERS[writer](rows, path),
        lambda _: sum(pq.read_metadata(p).num_rows for p in data_files(path)),
        lambda _: sum(p.stat().st_size for p in data_files(path)),
    )


CONTESTANTS: dict[str, Contestant] = {name: functools.partial(contestant, name) for name in WRITERS}


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def cases(options: argparse.Namespace) -> list[Case]:
    partitions = PARTITIONS[scale_of(options)]
    rows = partitions * ROWS_OF_EACH
    return [
        Case(
            f"{rows:,} rows, {partitions:,} partitions",
            list(CONTESTANTS),
            {"partitions": partitions},
            expected=rows,
            target=TARGET,
        )
    ]


if __name__ == "__main__":
    main("partitioned write", CONTESTANTS, cases, arguments)
