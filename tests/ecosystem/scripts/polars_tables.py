"""Polars: eager and lazy reads, writes of every mode, merges."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
from cases import case, same
from deltalake import DeltaTable


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    table = tables["partitions"]
    same(pl.read_delta(table["path"]), table["rows"])
    same(pl.scan_delta(table["path"]).filter(pl.col("text") == "c/d").select("id").collect(), [{"id": 2}])
    same(pl.scan_delta(table["path"]).filter(pl.col("text").is_null()).select("id").collect(), [{"id": 0}])


@case("deletion vectors")
def vectors(tables: dict[str, Any], new: Path) -> None:
    table = tables["vectors"]
    same(pl.scan_delta(table["path"]).collect(), table["rows"])
    same(pl.scan_delta(table["path"]).filter(pl.col("id") > 7, part="b/c").collect(), [{"id": 8, "part": "b/c"}])


@case("deletion vectors and column mapping, with use_pyarrow")
def datasets(tables: dict[str, Any], new: Path) -> None:
    for name in ("vectors", "mapped"):
        table = DeltaTable(tables[name]["path"])
        same(pl.from_arrow(table.to_pyarrow_dataset().to_table()), tables[name]["rows"])
        same(
            pl.scan_pyarrow_dataset(table.to_pyarrow_dataset()).filter(pl.col("id") > 0).collect(),
            [row for row in tables[name]["rows"] if row["id"] > 0],
        )


@case("column mapping", limit="scan_delta refuses column mapping itself: use deltaplane.polars.scan")
def mapped(tables: dict[str, Any], new: Path) -> None:
    same(pl.read_delta(tables["mapped"]["path"]), tables["mapped"]["rows"])


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    table = tables["history"]
    for version, rows in enumerate(table["versions"]):
        same(pl.read_delta(table["path"], version=version), rows)


@case("time travel by timestamp")
def times(tables: dict[str, Any], new: Path) -> None:
    table = tables["history"]
    for moment, rows in zip(table["times"], table["versions"], strict=True):
        same(pl.read_delta(table["path"], version=moment), rows)
        same(pl.read_delta(table["path"], version=datetime.fromisoformat(moment)), rows)


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    table = tables["evolved"]
    same(pl.read_delta(table["path"]), table["rows"])
    same(pl.scan_delta(table["path"]).filter(pl.col("more").is_null()).select("id").collect(), [{"id": 1}, {"id": 2}])


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store = tables["s3"]
    for name in ("partitions", "vectors", "evolved"):
        same(pl.read_delta(store[name]["path"], storage_options=store["options"]), store[name]["rows"])
    location = f"{store['root']}/polars-{new.parent.name}"
    pl.DataFrame({"id": [1]}).write_delta(location, storage_options=store["options"])
    same(pl.read_delta(location, storage_options=store["options"]), [{"id": 1}])


def refusal(location: str) -> str:
    """What a write says to a table that exists."""
    try:
        pl.DataFrame({"id": [9], "p": ["z"]}).write_delta(location, mode="error")
    except deltalake.exceptions.DeltaError as e:
        return str(e)
    return "nothing"


@case("write_delta in every mode")
def writes(tables: dict[str, Any], new: Path) -> None:
    location = str(new / "t")
    pl.DataFrame({"id": [1], "p": ["a b"]}).write_delta(location, delta_write_options={"partition_by": "p"})
    pl.DataFrame({"id": [2], "p": ["c/d"]}).write_delta(location, mode="append")
    pl.DataFrame({"id": [9], "p": ["z"]}).write_delta(location, mode="ignore")
    same(pl.read_delta(location), [{"id": 1, "p": "a b"}, {"id": 2, "p": "c/d"}])
    assert "A table already exists" in refusal(location)
    pl.DataFrame({"id": [3], "p": ["c/d"], "x": [1.5]}).write_delta(
        location, mode="append", delta_write_options={"schema_mode": "merge"}
    )
    predicate = {"predicate": "p = 'c/d'"}
    pl.DataFrame({"id": [7], "p": ["c/d"], "x": [0.5]}).write_delta(
        location, mode="overwrite", delta_write_options=predicate
    )
    same(pl.read_delta(location), [{"id": 1, "p": "a b", "x": None}, {"id": 7, "p": "c/d", "x": 0.5}])
    pl.DataFrame({"id": [5]}).write_delta(
        location, mode="overwrite", delta_write_options={"schema_mode": "overwrite", "partition_by": []}
    )
    same(pl.read_delta(location), [{"id": 5}])


@case("write_delta with mode merge")
def merge(tables: dict[str, Any], new: Path) -> None:
    location = str(new / "t")
    pl.DataFrame({"id": [1, 2, 3], "v": ["a", "b", "c"]}).write_delta(location)
    source = pl.DataFrame({"id": [2, 3, 4], "v": ["B", None, "D"]})
    options = {"predicate": "s.id = t.id", "source_alias": "s", "target_alias": "t"}
    (
        source.write_delta(location, mode="merge", delta_merge_options=options)
        .when_matched_delete(predicate="s.v IS NULL")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    same(pl.read_delta(location), [{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 4, "v": "D"}])


@case("sink_delta")
def sink(tables: dict[str, Any], new: Path) -> None:
    location = str(new / "t")
    pl.LazyFrame({"id": range(1000)}).filter(pl.col("id") >= 990).sink_delta(location)
    pl.LazyFrame({"id": [5]}).sink_delta(location, mode="append")
    same(pl.read_delta(location), [{"id": n} for n in [5, *range(990, 1000)]])


@case("types of Polars")
def types(tables: dict[str, Any], new: Path) -> None:
    frame = pl.DataFrame(
        {
            "u": pl.Series([1, None], dtype=pl.UInt32),
            "c": pl.Series(["a", "b"], dtype=pl.Categorical),
            "d": pl.Series(["1.50", None]).cast(pl.Decimal(10, 2)),
            "l": [[1, None], []],
            "s": [{"x": 1, "y": "é"}, {"x": None, "y": None}],
            "t": [datetime(2024, 2, 29, 1, 2, 3, 4), None],
            "b": [b"\x00\xff", None],
        }
    )
    frame.write_delta(str(new / "t"))
    back = pl.read_delta(str(new / "t"))
    assert back.cast({"u": pl.UInt32, "c": pl.Categorical}).equals(frame), back


@case("deltaplane.polars.scan")
def scan(tables: dict[str, Any], new: Path) -> None:
    from deltaplane.polars import scan

    for name in ("partitions", "vectors", "mapped", "evolved"):
        same(scan(tables[name]["path"]).collect(), tables[name]["rows"])
    same(scan(tables["mapped"]["path"]).filter(pl.col("new name") == "y").select("id").collect(), [{"id": 2}])
    store = tables["s3"]
    same(scan(store["mapped"]["path"], storage_options=store["options"]).collect(), store["mapped"]["rows"])
