"""Ibis: tables as expressions on DuckDB, Polars and DataFusion. Its `read_delta` on DuckDB is
DuckDB's own reader, without deltalake: there, a dataset of deltalake's is registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
from cases import case, same
from deltalake import DeltaTable


def in_duckdb(path: str, **options: Any) -> ibis.Table:
    connection = ibis.duckdb.connect()
    connection.con.register("t", DeltaTable(path, **options).to_pyarrow_dataset())
    return connection.table("t")


def check(tables: dict[str, Any], name: str) -> None:
    same(in_duckdb(tables[name]["path"]).to_pyarrow(), tables[name]["rows"])


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    check(tables, "partitions")
    table = in_duckdb(tables["partitions"]["path"])
    same(table.filter(table.text == "c/d").select("id").to_pyarrow(), [{"id": 2}])


@case("deletion vectors")
def vectors(tables: dict[str, Any], new: Path) -> None:
    check(tables, "vectors")


@case("column mapping")
def mapped(tables: dict[str, Any], new: Path) -> None:
    check(tables, "mapped")
    table = in_duckdb(tables["mapped"]["path"])
    same(table.filter(table["new name"] == "y").select("id").to_pyarrow(), [{"id": 2}])


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    for version, rows in enumerate(tables["history"]["versions"]):
        same(in_duckdb(tables["history"]["path"], version=version).to_pyarrow(), rows)


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    check(tables, "evolved")


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store = tables["s3"]
    for name in ("partitions", "evolved"):
        same(in_duckdb(store[name]["path"], storage_options=store["options"]).to_pyarrow(), store[name]["rows"])


@case("read_delta on Polars")
def polars(tables: dict[str, Any], new: Path) -> None:
    for name in ("partitions", "vectors", "evolved"):
        same(ibis.polars.connect().read_delta(tables[name]["path"]).to_pyarrow(), tables[name]["rows"])


@case("read_delta on DataFusion")
def datafusion(tables: dict[str, Any], new: Path) -> None:
    for name in ("evolved", "history"):
        same(ibis.datafusion.connect().read_delta(tables[name]["path"]).to_pyarrow(), tables[name]["rows"])


@case("read_delta on DataFusion: deletion vectors and column mapping")
def datafusion_vectors(tables: dict[str, Any], new: Path) -> None:
    for name in ("vectors", "mapped"):
        same(ibis.datafusion.connect().read_delta(tables[name]["path"]).to_pyarrow(), tables[name]["rows"])


@case("to_delta")
def writes(tables: dict[str, Any], new: Path) -> None:
    connection, location = ibis.duckdb.connect(), str(new / "t")
    table = connection.create_table("t", ibis.memtable({"id": [1, 2], "v": ["a", None]}).to_pyarrow())
    table.filter(table.id > 1).to_delta(location)
    table.to_delta(location, mode="append")
    rows = [{"id": 2, "v": None}, {"id": 1, "v": "a"}, {"id": 2, "v": None}]
    same(in_duckdb(location).to_pyarrow(), rows)
    table.limit(0).to_delta(location, mode="overwrite")
    same(in_duckdb(location).to_pyarrow(), [])
