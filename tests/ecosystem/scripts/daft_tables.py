"""Daft: it reads the files that deltalake lists itself, and writes files that deltalake commits."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import daft
from cases import case, same
from daft.io import IOConfig, S3Config

VECTORS = "Daft refuses tables with the property delta.enableDeletionVectors"


def rows(frame: daft.DataFrame) -> list[dict[str, Any]]:
    return frame.to_arrow().to_pylist()


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    frame = daft.read_deltalake(tables["partitions"]["path"])
    same(rows(frame), tables["partitions"]["rows"])
    same(rows(frame.where(daft.col("text") == "c/d").select("id")), [{"id": 2}])


@case("deletion vectors", limit=VECTORS)
def vectors(tables: dict[str, Any], new: Path) -> None:
    same(rows(daft.read_deltalake(tables["vectors"]["path"])), tables["vectors"]["rows"])


@case("column mapping")
def mapped(tables: dict[str, Any], new: Path) -> None:
    frame = daft.read_deltalake(tables["mapped"]["path"])
    same(rows(frame), tables["mapped"]["rows"])
    same(rows(frame.where(daft.col("new name") == "y").select("id")), [{"id": 2}])


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    for version, expected in enumerate(tables["history"]["versions"]):
        same(rows(daft.read_deltalake(tables["history"]["path"], version=version)), expected)


@case("time travel by timestamp")
def times(tables: dict[str, Any], new: Path) -> None:
    for moment, expected in zip(tables["history"]["times"], tables["history"]["versions"], strict=True):
        same(rows(daft.read_deltalake(tables["history"]["path"], version=datetime.fromisoformat(moment))), expected)


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    same(rows(daft.read_deltalake(tables["evolved"]["path"])), tables["evolved"]["rows"])


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store, options = tables["s3"], tables["s3"]["options"]
    config = IOConfig(
        s3=S3Config(
            endpoint_url=options["AWS_ENDPOINT_URL"],
            region_name=options["AWS_REGION"],
            key_id=options["AWS_ACCESS_KEY_ID"],
            access_key=options["AWS_SECRET_ACCESS_KEY"],
            use_ssl=False,
        )
    )
    for name in ("partitions", "evolved", "history"):
        same(rows(daft.read_deltalake(store[name]["path"], io_config=config)), store[name]["rows"])
    location = f"{store['root']}/daft-{new.parent.name}"
    daft.from_pydict({"id": [1]}).write_deltalake(location, io_config=config)
    same(rows(daft.read_deltalake(location, io_config=config)), [{"id": 1}])


@case("write_deltalake in every mode")
def writes(tables: dict[str, Any], new: Path) -> None:
    location = str(new / "t")
    daft.from_pydict({"id": [1], "p": ["a b"]}).write_deltalake(location, partition_cols=["p"])
    daft.from_pydict({"id": [2], "p": ["c"]}).write_deltalake(location, mode="append")
    daft.from_pydict({"id": [9], "p": ["z"]}).write_deltalake(location, mode="ignore")
    same(rows(daft.read_deltalake(location)), [{"id": 1, "p": "a b"}, {"id": 2, "p": "c"}])
    daft.from_pydict({"id": [3], "p": ["d"]}).write_deltalake(location, mode="overwrite")
    same(rows(daft.read_deltalake(location)), [{"id": 3, "p": "d"}])
    daft.from_pydict({"x": [0.5]}).write_deltalake(str(new / "u"))
    daft.from_pydict({"y": ["é"]}).write_deltalake(str(new / "u"), mode="overwrite", schema_mode="overwrite")
    same(rows(daft.read_deltalake(str(new / "u"))), [{"y": "é"}])
