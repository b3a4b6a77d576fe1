"""Appending on Spark: rows of Parquet files to a new table, plain and partitioned, compared with
Parquet and delta-spark.

All write zstd and microseconds; each contestant reads back its rows.
"""

from __future__ import annotations

import argparse
import functools
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.changed_tables import files_below, table_of
from support.harness import Case, Task, main, scale_of
from support.rows import ROWS
from support.sparks import NAMES, Engine, checksum, contestants, session, task

CALLS = {"quick": 1, "small": 3, "full": 3}
COLUMNS = ("id", "account", "amount", "name", "at", "price")


def contestant(engine: Engine, case: Mapping[str, Any], scratch: Path) -> Task:
    spark = session(scratch, engine.settings())
    by: Sequence[str] = case["partition_by"]
    rows = spark.read.parquet(case["path"])
    if by:
        rows = rows.withColumn("part", (rows["account"] % 20).cast("int"))
    path = scratch / "table"

    def run() -> Path:
        engine.write(rows, str(path), by)
        return path

    def answer(path: Path) -> int:
        return checksum(engine.read(spark, str(path)).select(*COLUMNS, *by))

    return task(
        run,
        answer,
        lambda: shutil.rmtree(path, ignore_errors=True),
        lambda path: sum(file.stat().st_size for file in files_below(path)),
    )


CONTESTANTS = contestants(contestant)


def arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    return [
        Case(
            f"{ROWS[scale]:,} rows, {'20 partitions' if by else 'no partitions'}",
            NAMES,
            functools.partial(lambda by: {"path": str(table_of(scale, "copy-on-write")), "partition_by": by}, by),
            calls=CALLS[scale],
            size=ROWS[scale],
            target="spark append",
            together="rows written on Spark",
        )
        for by in ([], ["part"])
    ]


if __name__ == "__main__":
    main("spark append", CONTESTANTS, cases, arguments)
