"""Loading TPC-DS's store_sales from CSV on Spark, the paper's section 6.4, compared with writing
Parquet and delta-spark.

Shows the cost of statistics and of the log: parsing the text is the same for all.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from support import tpcds
from support.changed_tables import files_below
from support.harness import Case, Task, main, scale_of
from support.sparks import NAMES, Engine, checksum, contestants, session, task

SCALES = {"quick": 0.01, "small": 0.1, "full": 1.0}
CALLS = {"quick": 1, "small": 3, "full": 3}


def contestant(engine: Engine, case: Mapping[str, Any], scratch: Path) -> Task:
    spark = session(scratch, engine.settings())
    rows = spark.read.schema(case["columns"]).csv(case["path"])
    path = scratch / "table"

    def run() -> Path:
        engine.write(rows, str(path), [])
        return path

    return task(
        run,
        lambda path: checksum(engine.read(spark, str(path))),
        lambda: shutil.rmtree(path, ignore_errors=True),
        lambda path: sum(file.stat().st_size for file in files_below(path)),
    )


CONTESTANTS = contestants(contestant)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, help="TPC-DS's scale factor, instead of 0.01, 0.1 (small) or 1 (full)")


def _arguments_of(scale: float) -> dict[str, Any]:
    raw = tpcds.made(scale)
    types = {"int32": "int", "int64": "bigint"}
    schema = pq.read_schema(raw / "store_sales.parquet")
    columns = [f"{f.name} {types.get(str(f.type), str(f.type).replace('decimal128', 'decimal'))}" for f in schema]
    return {"path": str(raw / "store_sales.csv"), "columns": ", ".join(columns)}


def cases(options: argparse.Namespace) -> list[Case]:
    scale = options.scale or SCALES[scale_of(options)]
    calls = CALLS[scale_of(options)]
    size = round(tpcds.STORE_SALES * scale)
    name = f"store_sales at {scale:g}"
    return [Case(name, NAMES, lambda: _arguments_of(scale), calls=calls, size=size, target="spark load")]


if __name__ == "__main__":
    main("spark load", CONTESTANTS, cases, arguments)
