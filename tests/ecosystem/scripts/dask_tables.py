"""dask-deltatable: it reads the files that deltalake lists itself, and writes files that deltalake
commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import dask_deltatable as ddt
import pandas as pd
import pyarrow as pa
from cases import case, same

ITSELF = "dask-deltatable reads the data files itself, as plain Parquet"


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    same(ddt.read_deltalake(tables["partitions"]["path"]).compute(), tables["partitions"]["rows"])


@case("deletion vectors", limit=ITSELF)
def vectors(tables: dict[str, Any], new: Path) -> None:
    same(ddt.read_deltalake(tables["vectors"]["path"]).compute(), tables["vectors"]["rows"])


@case("column mapping", limit=ITSELF)
def mapped(tables: dict[str, Any], new: Path) -> None:
    same(ddt.read_deltalake(tables["mapped"]["path"]).compute(), tables["mapped"]["rows"])


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    for version, rows in enumerate(tables["history"]["versions"]):
        same(ddt.read_deltalake(tables["history"]["path"], version=version).compute(), rows)


@case("time travel by timestamp")
def times(tables: dict[str, Any], new: Path) -> None:
    for moment, rows in zip(tables["history"]["times"], tables["history"]["versions"], strict=True):
        same(ddt.read_deltalake(tables["history"]["path"], datetime=moment).compute(), rows)


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    same(ddt.read_deltalake(tables["evolved"]["path"]).compute(), tables["evolved"]["rows"])


@case("filters of partitions and rows")
def filters(tables: dict[str, Any], new: Path) -> None:
    location = str(new / "t")
    frame = dd.from_pandas(pd.DataFrame({"id": range(6), "p": ["a", "b", "c"] * 2}), npartitions=2)
    ddt.to_deltalake(location, frame, partition_by="p", schema=pa.schema({"id": pa.int64(), "p": pa.string()}))
    read = ddt.read_deltalake(location, filter=[[("p", "=", "b")], [("p", "=", "c"), ("id", ">", 3)]])
    same(read.compute(), [{"id": 1, "p": "b"}, {"id": 4, "p": "b"}, {"id": 5, "p": "c"}])


@case("writes and appends")
def writes(tables: dict[str, Any], new: Path) -> None:
    location = str(new / "t")
    for start in (0, 10):
        frame = pd.DataFrame({"id": range(start, start + 10), "v": [f"é{n}" for n in range(10)]})
        ddt.to_deltalake(location, dd.from_pandas(frame, npartitions=3), mode="append" if start else "error")
    rows = [{"id": start + n, "v": f"é{n}"} for start in (0, 10) for n in range(10)]
    same(ddt.read_deltalake(location).compute(), rows)


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store = tables["s3"]
    options = store["options"]
    files = {
        "key": options["AWS_ACCESS_KEY_ID"],
        "secret": options["AWS_SECRET_ACCESS_KEY"],
        "client_kwargs": {"endpoint_url": options["AWS_ENDPOINT_URL"], "region_name": options["AWS_REGION"]},
    }
    for name in ("evolved", "history"):
        read = ddt.read_deltalake(store[name]["path"], storage_options=files, delta_storage_options=options)
        same(read.compute(), store[name]["rows"])
