"""Ray Data: its workers read the files of deltalake's dataset, and write files that the driver
commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
from cases import case, same

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100_000_000)
ray.data.DataContext.get_current().enable_progress_bars = False


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    same(ray.data.read_delta(tables["partitions"]["path"]).take_all(), tables["partitions"]["rows"])


@case("deletion vectors")
def vectors(tables: dict[str, Any], new: Path) -> None:
    same(ray.data.read_delta(tables["vectors"]["path"]).take_all(), tables["vectors"]["rows"])


@case("column mapping")
def mapped(tables: dict[str, Any], new: Path) -> None:
    same(ray.data.read_delta(tables["mapped"]["path"]).take_all(), tables["mapped"]["rows"])


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    for version, rows in enumerate(tables["history"]["versions"]):
        same(ray.data.read_delta(tables["history"]["path"], version=version).take_all(), rows)


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    same(ray.data.read_delta(tables["evolved"]["path"]).take_all(), tables["evolved"]["rows"])


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store = tables["s3"]
    for name in ("partitions", "evolved"):
        read = ray.data.read_delta(store[name]["path"], storage_options=store["options"])
        same(read.take_all(), store[name]["rows"])


@case("write_delta: append and overwrite, with an added column")
def writes(tables: dict[str, Any], new: Path) -> None:
    location = str(new / "t")
    ray.data.from_items([{"id": 1, "p": "a b"}]).write_delta(location, partition_by=["p"])
    ray.data.from_items([{"id": 2, "p": "c/d", "more": 0.5}]).write_delta(location, mode="append")
    rows = [{"id": 1, "p": "a b", "more": None}, {"id": 2, "p": "c/d", "more": 0.5}]
    same(ray.data.read_delta(location).take_all(), rows)
    ray.data.from_items([{"id": 3, "p": "e", "more": 1.5}]).write_delta(location, mode="overwrite", partition_by=["p"])
    same(ray.data.read_delta(location).take_all(), [{"id": 3, "p": "e", "more": 1.5}])
