"""Queries by SQL over a table of many small files, and a scan of its rows into Arrow, compared with
the same rows in one file, and with DuckDB over the same files."""

from __future__ import annotations

import argparse
import shutil
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from support import harness
from support.harness import Case, Contestant, Task, main, scale_of

ROWS = {"quick": 2_000, "small": 200_000, "full": 1_000_000}
FILES = {"quick": 20, "small": 1_000, "full": 1_000}
ONE_FILE = "deltaplane, one file"
QUERIES = {
    "all rows": "SELECT k, count(*) AS n, sum(price * (1 - share)) AS total, max(day) AS last FROM t GROUP BY k",
    "a tenth": "SELECT count(*) AS n, sum(price) AS total FROM t WHERE id % 10 = 3 AND day >= DATE '2024-01-15'",
    "a join": "SELECT a.k, count(*) AS n FROM t a JOIN t b ON a.id = b.id + 1 WHERE b.price > 900 GROUP BY a.k",
}

SCAN = "SELECT * FROM t"


def _rows(rows: int, files: int) -> Iterator[Any]:
    """The rows in batches, one for each file; keys and prices are spread over all files."""
    import pyarrow as pa

    size = rows // files
    money = pa.decimal128(15, 2)
    for number in range(files):
        ids = range(number * size, (number + 1) * size)
        spread = [n * 7919 % 100_003 for n in ids]
        yield pa.record_batch(
            {
                "id": pa.array(ids, pa.int64()),
                "k": pa.array([f"key {n % 50}" for n in spread]),
                "price": pa.array([f"{n % 1000}.{n % 100:02}" for n in spread]).cast(money),
                "share": pa.array([f"0.0{n % 10}" for n in spread]).cast(money),
                "day": pa.array([19_700 + n % 60 for n in spread], pa.int32()).cast(pa.date32()),
            }
        )


def _table(rows: int, files: int) -> str:
    """The folder of a Delta table with these rows, in as many files."""
    from deltaplane import DeltaTable, write_deltalake

    folder = harness.CACHE / f"small-files-{rows}-{files}"
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        batches = list(_rows(rows, max(files, 20)))
        for part in ([batch] for batch in batches) if files > 1 else [batches]:
            write_deltalake(str(unfinished), part, mode="append")
        DeltaTable(str(unfinished)).create_checkpoint()
        unfinished.rename(folder)
    return str(folder)


def _answer(rows: Any) -> int:
    values = sorted(
        repr([str(value) for value in row]) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True)
    )
    return zlib.crc32("\n".join(values).encode())


def _deltaplane(case: Mapping[str, Any], path: str) -> Task:
    from deltaplane import DeltaTable, sql

    if case["sql"] == SCAN:
        return Task(lambda: DeltaTable(path).scan().to_arrow(), len)
    return Task(lambda: sql(case["sql"], tables={"t": path}).to_arrow(), _answer)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    return _deltaplane(case, _table(case["rows"], case["files"]))


def one_file(case: Mapping[str, Any], scratch: Path) -> Task:
    return _deltaplane(case, _table(case["rows"], 1))


def duckdb(case: Mapping[str, Any], scratch: Path) -> Task:
    import duckdb

    folder = _table(case["rows"], case["files"])

    def run() -> Any:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet('{folder}/*.parquet')")
            return connection.sql(case["sql"]).to_arrow_table()

    return Task(run, len if case["sql"] == SCAN else _answer)


CONTESTANTS: dict[str, Contestant] = {"deltaplane": deltaplane, ONE_FILE: one_file, "DuckDB, the files": duckdb}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help="rows of the table, instead of 2,000 (quick), 200,000 or 1,000,000")


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    rows, files = options.rows or ROWS[scale], FILES[scale]

    def case(name: str, sql: str, target: str) -> Case:
        arguments = {"sql": sql, "rows": rows, "files": files}
        return Case(f"{name}, {files:,} files", list(CONTESTANTS), arguments, calls=3, size=files, target=target)

    queries = [case(name, sql, "small files") for name, sql in QUERIES.items()]
    return [*queries, case("a scan", SCAN, "small files scanned")]


if __name__ == "__main__":
    main("small_files", CONTESTANTS, cases, arguments)
