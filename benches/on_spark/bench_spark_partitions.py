"""One partition of many, with real rows, on Spark: deltaplane's native scan compared with Spark's
own partitioned Parquet folder and, if `make jars` has fetched it, delta-spark. The other half of
the paper's section 6.1, see bench_partitions.py.

All read the same files. Cold is the session's first access to the table, warm a query on an
existing frame.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support import harness
from support.harness import Case, Task, main, scale_of
from support.sparks import NAMES, Engine, contestants, session, task

PARTITIONS = {"quick": [100], "small": [1_000], "full": [1_000, 10_000, 100_000]}
ROWS = {"quick": 33_000, "small": 330_000, "full": 3_300_000}
# Partitions per commit: the writer holds a file open for each.
PARTITIONS_PER_COMMIT = 500


def _table(partitions: int, rows: int) -> Path:
    """The table's folder, made if it doesn't exist, in the layout of Spark's partitioned tables."""
    from deltaplane import write_deltalake

    path = harness.CACHE / f"partitions-{partitions}-{rows}"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        for batch in _batches(partitions, rows // partitions):
            write_deltalake(str(unfinished), batch, mode="append", partition_by=["part"])
        unfinished.rename(path)
    return path


def _batches(partitions: int, rows_each: int) -> Iterator[pa.Table]:
    for first in range(0, partitions, PARTITIONS_PER_COMMIT):
        parts = np.arange(first, min(first + PARTITIONS_PER_COMMIT, partitions), dtype=np.int32)
        ids = np.arange(first * rows_each, (first + len(parts)) * rows_each, dtype=np.int64)
        yield pa.table({"part": np.repeat(parts, rows_each), "id": ids, "amount": ids / 7})


# --- contestants ------------------------------------------------------------------------------------------------------


def contestant(engine: Engine, case: Mapping[str, Any], scratch: Path) -> Task:
    spark = session(scratch, engine.settings())
    # Loads the classes for a first query of its kind before the measurement.
    engine.read(spark, case["tiny"]).where("part = 1").groupBy().sum("id").collect()

    def query(frame: Any) -> int:
        return int(frame.where(f"part = {case['part']}").groupBy().sum("id").collect()[0][0])

    if case["opened"]:
        frame = engine.read(spark, case["path"])
        return task(lambda: query(frame))
    return task(lambda: query(engine.read(spark, case["path"])))


CONTESTANTS = contestants(contestant)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partitions", type=int, nargs="+", help="numbers of partitions, instead of the scale's")
    parser.add_argument("--rows", type=int, help="rows of each table, instead of the scale's")


def cases(options: argparse.Namespace) -> list[Case]:
    rows = options.rows or ROWS[scale_of(options)]
    all_cases = []
    tiny = str(_table(3, 9))
    for partitions in sorted(options.partitions or PARTITIONS[scale_of(options)]):
        path, each, part = str(_table(partitions, rows)), rows // partitions, partitions // 2
        expected = sum(range(part * each, (part + 1) * each))
        for opened in (False, True):
            how = "warm" if opened else "cold"
            case = Case(
                f"{partitions:,} partitions on Spark, {how}",
                NAMES,
                {"path": path, "tiny": tiny, "part": part, "opened": opened},
                calls=3 if opened else 1,
                expected=expected,
                series=f"one of many partitions on Spark, {how}",
                size=partitions,
                target=f"spark partitions {how}",
            )
            all_cases.append(case)
    return all_cases


if __name__ == "__main__":
    main("spark partitions", CONTESTANTS, cases, arguments)
