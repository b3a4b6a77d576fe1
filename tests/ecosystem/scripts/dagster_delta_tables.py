"""The community's IO managers for Dagster (dagster-delta): streams of Arrow, and merges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from cases import case, same
from dagster import AssetIn, StaticPartitionsDefinition, asset, materialize
from dagster_delta import (
    DeltaLakePolarsIOManager,
    DeltaLakePyarrowIOManager,
    MergeConfig,
    MergeType,
    SchemaMode,
    WriteMode,
)
from dagster_delta.config import LocalConfig
from deltalake import DeltaTable


def manager(root: str, kind: Any = DeltaLakePyarrowIOManager, **settings: Any) -> Any:
    return kind(root_uri=root, storage_options=LocalConfig(), schema="s", **settings)


@case("writes and reads, pyarrow and Polars")
def frames(tables: dict[str, Any], new: Path) -> None:
    @asset
    def first() -> pa.Table:
        return pa.table({"id": [1, 2], "v": ["é", None]})

    @asset(io_manager_key="polars")
    def second(first: pl.DataFrame) -> pl.DataFrame:
        return first.with_columns(n=pl.col("id") * 10)

    polars = manager(str(new), DeltaLakePolarsIOManager)
    assert materialize([first], resources={"io_manager": manager(str(new))}).success
    assert materialize([first, second], selection=[second], resources={"io_manager": polars, "polars": polars}).success
    rows = [{"id": 1, "v": "é", "n": 10}, {"id": 2, "v": None, "n": 20}]
    same(DeltaTable(str(new / "s" / "second")).to_pyarrow_table(), rows)


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    texts = ["a b", "x=y", "50%25", "é ü 日本", "it's"]
    static = StaticPartitionsDefinition(texts)

    @asset(partitions_def=static, metadata={"partition_expr": "text"})
    def items(context) -> pa.Table:
        return pa.table({"text": [context.partition_key], "n": [len(context.partition_key)]})

    @asset(partitions_def=static, metadata={"partition_expr": "text"})
    def copied(items: pa.Table) -> pa.Table:
        return items

    for text in [*texts[:-1], texts[0]]:
        assert materialize([items, copied], resources={"io_manager": manager(str(new))}, partition_key=text).success
    same(DeltaTable(str(new / "s" / "copied")).to_pyarrow_table(), [{"text": t, "n": len(t)} for t in texts[:-1]])


def items_of(rows: dict[str, list[Any]]) -> Any:
    """An asset with these rows."""

    @asset
    def items() -> pa.Table:
        return pa.table(rows)

    return items


@case("merge: upsert")
def merge(tables: dict[str, Any], new: Path) -> None:
    config = MergeConfig(merge_type=MergeType.upsert, predicate="s.id = t.id", source_alias="s", target_alias="t")
    resource = manager(str(new), mode=WriteMode.merge, merge_config=config)
    for rows in ({"id": [1, 2], "v": ["a", "b"]}, {"id": [2, 3], "v": ["B", "c"]}):
        assert materialize([items_of(rows)], resources={"io_manager": resource}).success
    rows = [{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 3, "v": "c"}]
    same(DeltaTable(str(new / "s" / "items")).to_pyarrow_table(), rows)


@case("append, with an added column")
def append(tables: dict[str, Any], new: Path) -> None:
    resource = manager(str(new), mode=WriteMode.append, schema_mode=SchemaMode.merge)
    for rows in ({"id": [1]}, {"id": [2], "more": ["x"]}):
        assert materialize([items_of(rows)], resources={"io_manager": resource}).success
    same(DeltaTable(str(new / "s" / "items")).to_pyarrow_table(), [{"id": 1, "more": None}, {"id": 2, "more": "x"}])


def load(path: str) -> pa.Table:
    """The rows that an asset gets from a table that others wrote."""
    seen: list[pa.Table] = []
    root, name = path.rsplit("/", 1)
    root, schema = root.rsplit("/", 1)

    @asset(name=name, key_prefix=schema)
    def source() -> pa.Table: ...

    @asset(ins={"rows": AssetIn([schema, name])})
    def sink(rows: pa.Table) -> None:
        seen.append(rows)

    loader = DeltaLakePyarrowIOManager(root_uri=root, storage_options=LocalConfig())
    assert materialize([source, sink], selection=[sink], resources={"io_manager": loader}).success
    return seen[0]


@case("deletion vectors")
def vectors(tables: dict[str, Any], new: Path) -> None:
    same(load(tables["vectors"]["path"]), tables["vectors"]["rows"])


@case("column mapping")
def mapped(tables: dict[str, Any], new: Path) -> None:
    same(load(tables["mapped"]["path"]), tables["mapped"]["rows"])


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    same(load(tables["evolved"]["path"]), tables["evolved"]["rows"])
