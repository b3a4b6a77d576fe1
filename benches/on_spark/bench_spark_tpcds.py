"""TPC-DS on Spark, the paper's section 6.3: queries over tables partitioned by day, compared with
partitioned Parquet and delta-spark.

All read the same files through temporary views; the target is the geometric mean over the queries.
A session runs one query after the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import tpcds
from support.harness import Case, Task, main, scale_of
from support.sparks import NAMES, Engine, contestants, session, task

SCALES = {"quick": 0.01, "small": 0.1, "full": 1.0}
CALLS = {"quick": 1, "small": 1, "full": 4}
# Queries that one machine runs in seconds.
QUERIES = [
    3, 7, 13, 15, 19, 20, 25, 26, 29, 32, 33, 34, 37, 42, 43, 46, 48, 50, 52, 53,
    55, 56, 60, 61, 62, 63, 65, 68, 69, 71, 73, 79, 82, 84, 89, 91, 92, 93, 96, 98,
]  # fmt: skip
SOME = {"quick": [3, 42, 96], "small": [3, 7, 19, 34, 42, 52, 55, 63, 68, 73, 96, 98], "full": QUERIES}


def contestant(engine: Engine, case: Mapping[str, Any], scratch: Path) -> Task:
    # Spark keeps the broadcast tables of earlier calls until its next collection of garbage.
    spark = session(scratch, {**engine.settings(), "spark.driver.memory": "6g"})
    if not spark.catalog.tableExists("store_sales"):
        for name, path in case["tables"].items():
            engine.read(spark, path).createOrReplaceTempView(name)
        # Loads the classes for a first query before the measurement.
        spark.sql("SELECT count(*) FROM store_sales, item WHERE ss_item_sk = i_item_sk AND i_brand_id > 0").collect()
    return task(lambda: spark.sql(case["sql"]).collect(), tpcds.answer)


CONTESTANTS = contestants(contestant)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, help="TPC-DS's scale factor, instead of 0.01, 0.1 (small) or 1 (full)")
    parser.add_argument(
        "--queries", type=int, nargs="+", help="their numbers, instead of 3 (quick), 12 (small) or 40 (full)"
    )


def cases(options: argparse.Namespace) -> list[Case]:
    scale = options.scale or SCALES[scale_of(options)]

    def arguments_of(number: int) -> Any:
        return lambda: {"tables": tpcds.tables(scale), "sql": tpcds.query(scale, number)}

    return [
        Case(
            f"query {number} at {scale:g}",
            NAMES,
            arguments_of(number),
            calls=CALLS[scale_of(options)],
            size=round(tpcds.STORE_SALES * scale),
            target="spark tpcds",
            together=f"TPC-DS at {scale:g}",
        )
        for number in options.queries or SOME[scale_of(options)]
    ]


if __name__ == "__main__":
    main("spark tpcds", CONTESTANTS, cases, arguments)
