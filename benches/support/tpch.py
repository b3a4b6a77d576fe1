"""TPC-H: its data as Parquet files and as Delta tables, and its queries.

Both come from DuckDB's extension, which a separate process runs. The queries are the
specification's, with its validation parameters.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from support import duckdb_packages, harness

# Number of rows of lineitem at scale 1.
LINEITEM = 6_001_215
# Runs in the other process, which has another DuckDB version.
MAKE = """
import duckdb, json, pathlib, sys
extension, scale, folder = sys.argv[1:]
db = duckdb.connect()
db.execute(f"LOAD '{extension}'")
db.execute(f"CALL dbgen(sf={scale})")
for (table,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall():
    db.execute(f"COPY {table} TO '{folder}/{table}.parquet' (FORMAT parquet)")
queries = dict(db.execute("SELECT query_nr, query FROM tpch_queries()").fetchall())
pathlib.Path(folder, "queries.json").write_text(json.dumps(queries))
"""


def made(scale: float) -> Path:
    """The folder of raw tables (`<table>.parquet`) and `queries.json`, made if it doesn't exist."""
    return duckdb_packages.generated("tpch", MAKE, scale)


def files(scale: float) -> dict[str, str]:
    """Table name → Parquet file, written by DuckDB."""
    return {file.stem: str(file) for file in sorted(made(scale).glob("*.parquet"))}


def zstd_files(scale: float) -> dict[str, str]:
    """The same, compressed by zstd instead of snappy."""
    folder = harness.CACHE / f"tpch-{scale:g}-zstd"
    if not folder.exists():
        import duckdb

        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for name, file in files(scale).items():
            target = unfinished / f"{name}.parquet"
            duckdb.sql(f"COPY (FROM read_parquet('{file}')) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
        unfinished.rename(folder)
    return {file.stem: str(file) for file in sorted(folder.glob("*.parquet"))}


def tables(scale: float) -> dict[str, str]:
    """Table name → folder of a Delta table with the same rows, written by deltaplane."""
    from deltaplane import write_deltalake

    folder = harness.CACHE / f"tpch-{scale:g}-tables"
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        for name, file in files(scale).items():
            write_deltalake(str(unfinished / name), pq.ParquetFile(file).iter_batches())
        unfinished.rename(folder)
    return {path.name: str(path) for path in sorted(folder.iterdir())}


def query(scale: float, number: int) -> str:
    """A query, without its semicolon."""
    queries: dict[str, str] = json.loads((made(scale) / "queries.json").read_text())
    return queries[str(number)].rstrip().removesuffix(";")


def answer(rows: Iterable[Iterable[Any]]) -> int:
    """Equal for the same rows, whatever types and decimal places a program gives its numbers."""
    text = sorted([_shown(value) for value in row] for row in rows)
    return zlib.crc32(repr(text).encode())


def _shown(value: object) -> str:
    # Averages of decimals have six places, which some programs round and others cut off.
    return f"{float(value):.3g}" if isinstance(value, (int, float, Decimal)) else str(value).rstrip()
