"""pandas by DeltaTable.to_pandas, and DuckDB over datasets and streams of Arrow."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
from cases import case, same
from deltalake import DeltaTable, QueryBuilder, write_deltalake


def queried(data: Any, query: str) -> pa.Table:
    """DuckDB's answer to a query of `data`."""
    with duckdb.connect() as connection:
        connection.register("data", data)
        return connection.execute(query).to_arrow_table()


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    table = tables["partitions"]
    same(DeltaTable(table["path"]).to_pandas(), table["rows"])
    for row in table["rows"]:
        if row["text"] is not None:
            same(DeltaTable(table["path"]).to_pandas(filters=[("text", "=", row["text"])]), [row])
    dataset = DeltaTable(table["path"]).to_pyarrow_dataset()
    same(queried(dataset, "SELECT id FROM data WHERE text = 'c/d'"), [{"id": 2}])
    same(queried(dataset, "SELECT id FROM data WHERE text IS NULL"), [{"id": 0}])
    same(queried(dataset, "SELECT id FROM data WHERE day = DATE '1969-12-31'"), [{"id": 2}])


@case("deletion vectors")
def vectors(tables: dict[str, Any], new: Path) -> None:
    same(DeltaTable(tables["vectors"]["path"]).to_pandas(), tables["vectors"]["rows"])


@case("column mapping")
def mapped(tables: dict[str, Any], new: Path) -> None:
    same(DeltaTable(tables["mapped"]["path"]).to_pandas(), tables["mapped"]["rows"])
    same(
        DeltaTable(tables["mapped"]["path"]).to_pandas(columns=["new name"], filters=[("id", "=", 2)]),
        [{"new name": "y"}],
    )


@case("DuckDB over a dataset: deletion vectors")
def vectors_in_duckdb(tables: dict[str, Any], new: Path) -> None:
    dataset = DeltaTable(tables["vectors"]["path"]).to_pyarrow_dataset()
    query = "SELECT part, count(*) AS n, sum(id)::BIGINT AS s FROM data WHERE id >= 3 GROUP BY part"
    same(queried(dataset, query), [{"part": "a", "n": 7, "s": 42}, {"part": "b/c", "n": 4, "s": 24}])


@case("DuckDB over a dataset: column mapping")
def mapped_in_duckdb(tables: dict[str, Any], new: Path) -> None:
    dataset = DeltaTable(tables["mapped"]["path"]).to_pyarrow_dataset()
    same(queried(dataset, """SELECT id FROM data WHERE "new name" = 'y' AND part = 'p'"""), [{"id": 2}])


@case("DuckDB over a stream")
def streams(tables: dict[str, Any], new: Path) -> None:
    table = DeltaTable(tables["vectors"]["path"])
    stream = pa.RecordBatchReader.from_stream(QueryBuilder().register("t", table).execute("SELECT * FROM t"))
    same(queried(stream, "SELECT * FROM data"), tables["vectors"]["rows"])


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    for version, rows in enumerate(tables["history"]["versions"]):
        same(DeltaTable(tables["history"]["path"], version=version).to_pandas(), rows)


@case("time travel by timestamp")
def times(tables: dict[str, Any], new: Path) -> None:
    table = DeltaTable(tables["history"]["path"])
    for moment, rows in zip(tables["history"]["times"], tables["history"]["versions"], strict=True):
        table.load_as_version(datetime.fromisoformat(moment))
        same(table.to_pandas(), rows)


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    same(DeltaTable(tables["evolved"]["path"]).to_pandas(), tables["evolved"]["rows"])


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store = tables["s3"]
    for name in ("partitions", "evolved", "history"):
        table = DeltaTable(store[name]["path"], storage_options=store["options"])
        same(table.to_pandas(), store[name]["rows"])
        same(queried(table.to_pyarrow_dataset(), "SELECT * FROM data"), store[name]["rows"])


@case("S3 with deletion vectors")
def s3_vectors(tables: dict[str, Any], new: Path) -> None:
    store = tables["s3"]
    table = DeltaTable(store["vectors"]["path"], storage_options=store["options"])
    same(queried(table.to_pyarrow_dataset(), "SELECT * FROM data"), store["vectors"]["rows"])


@case("writes and merges of frames")
def writes(tables: dict[str, Any], new: Path) -> None:
    location = str(new / "t")
    frame = pd.DataFrame(
        {"id": [1, 2], "at": pd.to_datetime(["2024-02-29T01:02:03", None], utc=True), "v": ["x", None]}
    )
    write_deltalake(location, frame)
    source = pd.DataFrame({"id": [2, 3], "at": pd.to_datetime([None, "2024-03-01"], utc=True), "v": ["y", "z"]})
    merger = DeltaTable(location).merge(source, "s.id = t.id", source_alias="s", target_alias="t")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    rows = [
        {"id": 1, "at": "2024-02-29T01:02:03+00:00", "v": "x"},
        {"id": 2, "at": None, "v": "y"},
        {"id": 3, "at": "2024-03-01T00:00:00+00:00", "v": "z"},
    ]
    same(DeltaTable(location).to_pandas(), rows)
