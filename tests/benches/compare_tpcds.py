"""Compares the answers of TPC-DS's 99 queries with Spark's, digit by digit, over the same rows:
`python tests/benches/compare_tpcds.py [--scale 0.01] [--queries 64 …]`.

Exits with 1 if an answer differs. The data and the queries come from DuckDB's extension, which
`make bench` installs; a run at scale 0.01 takes some minutes.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

ROOT = Path(__file__).resolve().parents[2]


def shown(value: Any) -> str:
    """A value with its type; both zeros and all NaN are equal."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value + 0.0)
    return repr((type(value).__name__, value))


def answer(table: pa.Table) -> tuple[list[pa.DataType], list[str]]:
    """The columns' types and the rows, in an order of their own."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return table.schema.types, sorted(repr([shown(value) for value in row]) for row in rows)


def difference(ours: pa.Table, theirs: pa.Table) -> str | None:
    """How two answers differ, or None."""
    (our_types, our_rows), (their_types, their_rows) = answer(ours), answer(theirs)
    if our_types != their_types:
        return f"types {our_types} and {their_types}"
    if len(our_rows) != len(their_rows):
        return f"{len(our_rows)} and {len(their_rows)} rows"
    return next((f"{a} and {b}" for a, b in zip(our_rows, their_rows, strict=True) if a != b), None)


def main() -> int:
    sys.path[:0] = [str(ROOT / "benches"), str(ROOT / "python")]
    from pyspark.sql import SparkSession
    from support import tpcds

    from deltaplane import DeltaError, sql

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--queries", type=int, nargs="+", default=list(range(1, 100)))
    options = parser.parse_args()
    tables = tpcds.tables(options.scale)
    settings = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2"}
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    for file in tpcds.made(options.scale).glob("*.parquet"):
        session.read.parquet(str(file)).createOrReplaceTempView(file.stem)
    failed = []
    for number in options.queries:
        text = tpcds.query(options.scale, number)
        began = time.perf_counter()
        try:
            ours = sql(text, tables=tables).to_arrow()
        except DeltaError as e:
            problem: str | None = f"{type(e).__name__}: {e}"
        else:
            problem = difference(ours, session.sql(text).toArrow())
        print(f"query {number}: {problem or 'equal'} ({time.perf_counter() - began:.1f} s)", flush=True)
        if problem:
            failed.append(number)
    print(f"{len(options.queries) - len(failed)} of {len(options.queries)} answers are equal")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
