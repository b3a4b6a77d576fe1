"""TPC-DS: its data as partitioned tables, and its queries in Spark's dialect.

Both come from DuckDB's extension, which a separate process runs. A table is one folder for all
contestants: a Delta table whose files have the layout of Spark's partitioned Parquet tables.
"""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from support import duckdb_packages

# Number of rows at scale 1.
STORE_SALES = 2_880_404
# Fact tables are partitioned by day, as usual for Spark.
PARTITIONS = {
    "store_sales": "ss_sold_date_sk",
    "store_returns": "sr_returned_date_sk",
    "catalog_sales": "cs_sold_date_sk",
    "catalog_returns": "cr_returned_date_sk",
    "web_sales": "ws_sold_date_sk",
    "web_returns": "wr_returned_date_sk",
    "inventory": "inv_date_sk",
}
# Runs in the other process, which has another DuckDB version.
MAKE = """
import duckdb, json, pathlib, sys
extension, scale, folder = sys.argv[1:]
db = duckdb.connect()
db.execute(f"LOAD '{extension}'")
db.execute(f"CALL dsdgen(sf={scale})")
for (table,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall():
    # The specification's identifiers are integers; so are the names of partitions' folders to Spark.
    columns = db.execute(f"SELECT column_name FROM duckdb_columns() WHERE table_name = '{table}' AND data_type = 'BIGINT' "
                         "AND column_name LIKE '%\\\\_sk' ESCAPE '\\\\'").fetchall()
    casts = ", ".join(f"CAST({name} AS INTEGER) AS {name}" for (name,) in columns)
    rows = f"SELECT * REPLACE ({casts}) FROM {table}" if casts else f"SELECT * FROM {table}"
    db.execute(f"COPY ({rows}) TO '{folder}/{table}.parquet' (FORMAT parquet)")
    if table == "store_sales":
        db.execute(f"COPY ({rows}) TO '{folder}/{table}.csv' (HEADER false)")
queries = {}
for number, query in db.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall():
    queries[number] = {"sql": query, "columns": len(db.execute(query).description)}
pathlib.Path(folder, "queries.json").write_text(json.dumps(queries))
"""


def made(scale: float) -> Path:
    """The folder of raw tables (`<table>.parquet`, `store_sales.csv`) and `queries.json`, made if
    it doesn't exist."""
    return duckdb_packages.generated("tpcds", MAKE, scale)


def tables(scale: float) -> dict[str, str]:
    """Table name → folder."""
    from deltaplane import write_deltalake

    raw = made(scale)
    folder = raw.with_name(f"{raw.name}-tables")
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        for file in sorted(raw.glob("*.parquet")):
            by = [PARTITIONS[file.stem]] if file.stem in PARTITIONS else None
            rows = pq.read_table(file)
            if by:
                # Few open files at a time, and one file per day.
                rows = rows.sort_by(by[0])
            write_deltalake(str(unfinished / file.stem), rows, mode="append", partition_by=by)
        unfinished.rename(folder)
    return {path.name: str(path) for path in sorted(folder.iterdir())}


@cache
def query(scale: float, number: int) -> str:
    """A query for Spark. Rows that the query's own order leaves equal are ordered by all columns,
    so that a limit selects the same rows for every contestant."""
    import sqlglot
    from sqlglot import exp

    entry = json.loads((made(scale) / "queries.json").read_text())[str(number)]
    tree = sqlglot.parse_one(entry["sql"], read="duckdb")
    if tree.args.get("limit") is not None:
        order = tree.args.get("order") or exp.Order(expressions=[])
        for column in range(1, entry["columns"] + 1):
            order.append("expressions", exp.Ordered(this=exp.Literal.number(column)))
        tree.set("order", order)
    return str(tree.sql(dialect="spark"))


def answer(rows: list[Any]) -> int:
    """Equal for the same rows, although sums of floating-point numbers depend on the order of their
    terms."""
    import zlib

    text = [[f"{value:.6g}" if isinstance(value, float) else str(value) for value in row] for row in rows]
    return zlib.crc32(repr(sorted(text)).encode())
