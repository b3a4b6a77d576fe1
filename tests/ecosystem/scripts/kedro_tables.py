"""Kedro's DeltaTableDataset, alone and in a catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from cases import case, same
from kedro.io import DataCatalog
from kedro_datasets.pandas import DeltaTableDataset


def check(tables: dict[str, Any], name: str) -> None:
    same(DeltaTableDataset(filepath=tables[name]["path"]).load(), tables[name]["rows"])


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    check(tables, "partitions")


@case("deletion vectors")
def vectors(tables: dict[str, Any], new: Path) -> None:
    check(tables, "vectors")


@case("column mapping")
def mapped(tables: dict[str, Any], new: Path) -> None:
    check(tables, "mapped")


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    for version, rows in enumerate(tables["history"]["versions"]):
        dataset = DeltaTableDataset(filepath=tables["history"]["path"], load_args={"version": version})
        same(dataset.load(), rows)
        assert dataset.get_loaded_version() == version


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    check(tables, "evolved")


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store = tables["s3"]
    for name in ("partitions", "evolved"):
        same(DeltaTableDataset(filepath=store[name]["path"], credentials=store["options"]).load(), store[name]["rows"])


@case("saves from a catalogue")
def saves(tables: dict[str, Any], new: Path) -> None:
    settings = {"type": "pandas.DeltaTableDataset", "filepath": str(new / "t")}
    save = {"mode": "append", "partition_by": ["p"]}
    catalog = DataCatalog.from_config({"items": {**settings, "save_args": save}})
    for rows in ({"id": [1], "p": ["a b"]}, {"id": [2], "p": ["c/d"]}):
        catalog.save("items", pd.DataFrame(rows))
    dataset = DeltaTableDataset(filepath=str(new / "t"), save_args={"mode": "overwrite"})
    same(dataset.load(), [{"id": 1, "p": "a b"}, {"id": 2, "p": "c/d"}])
    dataset.save(pd.DataFrame({"id": [3], "p": ["e"]}))
    same(DeltaTableDataset(filepath=str(new / "t")).load(), [{"id": 3, "p": "e"}])
    assert [entry["version"] for entry in dataset.history] == [2, 1, 0]
