"""TPC-H by SQL over Delta tables on the local disk, compared with DuckDB over the same rows as
plain Parquet and over the Delta tables' own files.

The Delta tables' files are in zstd, DuckDB's own in snappy, which is larger and cheaper to decode:
another contestant reads DuckDB's files in zstd. DuckDB's `delta_scan` is that of an older DuckDB,
for which its extension exists. Polars takes part in the queries that its SQL can express.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support import duckdb_packages, tpch
from support.harness import Case, Contestant, Task, main, scale_of

SCALES = {"quick": 0.01, "small": 0.1, "full": 1.0}
SOME = {"quick": [1, 3, 6], "small": list(range(1, 23)), "full": list(range(1, 23))}
POLARS = "Polars scan_delta"
# Contestants with a limit of their memory.
LIMITED = ["deltaplane", "DuckDB, plain Parquet"]
# Queries that the SQL of Polars expresses: no nested query that is one value, or that uses
# columns of the query around it.
OF_POLARS = {1, 3, 5, 6, 10, 12, 18, 19}


def _answer(rows: Any) -> int:
    """The answer of an Arrow table."""
    return tpch.answer(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    from deltaplane import sql

    limit = case["memory_limit"]
    return Task(lambda: sql(case["sql"], tables=case["tables"], memory_limit=limit), _answer)


def _duckdb(views: Mapping[str, str], sql: str, *statements: str) -> Task:
    """A query over views of a database that lasts for all calls, as deltaplane's do."""
    import duckdb

    connection = duckdb.connect()
    for statement in statements:
        connection.execute(statement)
    for name, rows in views.items():
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {rows}")
    return Task(lambda: connection.sql(sql).to_arrow_table(), _answer)


def duckdb_parquet(case: Mapping[str, Any], scratch: Path) -> Task:
    views = {name: f"read_parquet('{file}')" for name, file in case["files"].items()}
    limit = case["memory_limit"]
    settings = [f"SET memory_limit = '{limit}'", f"SET temp_directory = '{scratch / 'spilled'}'"] if limit else []
    return _duckdb(views, case["sql"], *settings)


def duckdb_zstd_parquet(case: Mapping[str, Any], scratch: Path) -> Task:
    return duckdb_parquet({**case, "files": case["zstd_files"]}, scratch)


def duckdb_data_files(case: Mapping[str, Any], scratch: Path) -> Task:
    """The Delta tables' files, without the log."""
    views = {name: f"read_parquet('{folder}/*.parquet')" for name, folder in case["tables"].items()}
    return _duckdb(views, case["sql"])


def duckdb_delta(case: Mapping[str, Any], scratch: Path) -> Task:
    sys.path.insert(0, str(duckdb_packages.folder()))
    load = f"LOAD '{duckdb_packages.extension('delta')}'"
    views = {name: f"delta_scan('{folder}')" for name, folder in case["tables"].items()}
    return _duckdb(views, case["sql"], load)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    def run() -> Any:
        builder = QueryBuilder()
        for name, folder in case["tables"].items():
            builder = builder.register(name, DeltaTable(folder))
        return pa.table(builder.execute(case["sql"]))

    return Task(run, _answer)


def polars(case: Mapping[str, Any], scratch: Path) -> Task:
    import polars as pl

    def run() -> Any:
        frames = {name: pl.scan_delta(folder) for name, folder in case["tables"].items()}
        with pl.SQLContext(frames) as context:
            return context.execute(case["sql"]).collect()

    return Task(run, lambda rows: tpch.answer(rows.rows()))


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    "DuckDB, plain Parquet": duckdb_parquet,
    "DuckDB, plain Parquet in zstd": duckdb_zstd_parquet,
    "DuckDB, the tables' files": duckdb_data_files,
    "DuckDB 1.5 delta_scan": duckdb_delta,
    "deltalake QueryBuilder": deltalake,
    POLARS: polars,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, help="TPC-H's scale factor, instead of 0.01, 0.1 (small) or 1 (full)")
    parser.add_argument(
        "--memory-limit", help="of deltaplane and DuckDB over plain Parquet, such as 2GB: no others run"
    )
    parser.add_argument("--queries", type=int, nargs="+", help="their numbers, instead of 3 (quick) or all 22")


def cases(options: argparse.Namespace) -> list[Case]:
    scale = options.scale or SCALES[scale_of(options)]
    limit = options.memory_limit
    contestants = LIMITED if limit else list(CONTESTANTS)
    within = f" within {limit}" if limit else ""

    def arguments_of(number: int) -> Any:
        return lambda: {
            "sql": tpch.query(scale, number),
            "files": tpch.files(scale),
            "zstd_files": tpch.zstd_files(scale),
            "tables": tpch.tables(scale),
            "memory_limit": limit,
        }

    return [
        Case(
            f"query {number} at {scale:g}{within}",
            [name for name in contestants if name != POLARS or number in OF_POLARS],
            arguments_of(number),
            calls=3,
            size=round(tpch.LINEITEM * scale),
            target="" if limit else "tpch",
        )
        for number in options.queries or SOME[scale_of(options)]
    ]


if __name__ == "__main__":
    main("tpch", CONTESTANTS, cases, arguments)
