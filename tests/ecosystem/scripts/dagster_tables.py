"""Dagster's own IO managers for pandas and Polars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
from cases import case, same
from dagster import AssetIn, DailyPartitionsDefinition, StaticPartitionsDefinition, asset, materialize
from dagster_deltalake import LocalConfig, S3Config
from dagster_deltalake.config import ClientConfig
from dagster_deltalake_pandas import DeltaLakePandasIOManager
from dagster_deltalake_polars import DeltaLakePolarsIOManager
from deltalake import DeltaTable


def manager(new: Path, kind: Any = DeltaLakePandasIOManager, **settings: Any) -> Any:
    return kind(root_uri=str(new), storage_options=LocalConfig(), schema="s", **settings)


@case("writes and reads, pandas")
def frames(tables: dict[str, Any], new: Path) -> None:
    @asset
    def first() -> pd.DataFrame:
        return pd.DataFrame({"id": [1, 2], "v": ["é", None]})

    @asset(ins={"first": AssetIn(metadata={"columns": ["id"]})})
    def second(first: pd.DataFrame) -> pd.DataFrame:
        return first * 10

    assert materialize([first, second], resources={"io_manager": manager(new)}).success
    same(DeltaTable(str(new / "s" / "second")).to_pandas(), [{"id": 10}, {"id": 20}])


@case("writes and reads, Polars")
def polars(tables: dict[str, Any], new: Path) -> None:
    @asset
    def first() -> pl.DataFrame:
        return pl.DataFrame({"id": [1, 2], "l": [["a"], []]})

    @asset
    def second(first: pl.DataFrame) -> pl.DataFrame:
        return first.filter(pl.col("id") > 1)

    resources = {"io_manager": manager(new, DeltaLakePolarsIOManager)}
    for _ in range(2):
        assert materialize([first, second], resources=resources).success
    same(DeltaTable(str(new / "s" / "second")).to_pandas(types_mapper=None).assign(l=["-"]), [{"id": 2, "l": "-"}])


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    texts = ["a b", "x=y", "50%25", "é ü 日本"]

    @asset(partitions_def=StaticPartitionsDefinition(texts), metadata={"partition_expr": "text"})
    def items(context) -> pd.DataFrame:
        return pd.DataFrame({"text": [context.partition_key], "n": [len(context.partition_key)]})

    @asset(partitions_def=StaticPartitionsDefinition(texts), metadata={"partition_expr": "text"})
    def doubled(items: pd.DataFrame) -> pd.DataFrame:
        return items.assign(n=items.n * 2)

    for text in [*texts, texts[0]]:
        assert materialize([items, doubled], resources={"io_manager": manager(new)}, partition_key=text).success
    same(DeltaTable(str(new / "s" / "doubled")).to_pandas(), [{"text": text, "n": 2 * len(text)} for text in texts])


@case("partitions of days")
def days(tables: dict[str, Any], new: Path) -> None:
    daily = DailyPartitionsDefinition(start_date="2024-02-28")

    @asset(partitions_def=daily, metadata={"partition_expr": "day"})
    def items(context) -> pd.DataFrame:
        return pd.DataFrame({"day": [pd.Timestamp(context.partition_key).date()], "id": [1]})

    for day in ("2024-02-28", "2024-02-29", "2024-02-29"):
        assert materialize([items], resources={"io_manager": manager(new)}, partition_key=day).success
    rows = [{"day": day, "id": 1} for day in ("2024-02-28", "2024-02-29")]
    same(DeltaTable(str(new / "s" / "items")).to_pandas(), rows)


def load(path: str) -> list[dict[str, Any]]:
    """The rows that an asset gets from a table that others wrote."""
    seen: list[pd.DataFrame] = []
    root, name = path.rsplit("/", 1)
    root, schema = root.rsplit("/", 1)

    @asset(name=name, key_prefix=schema)
    def source() -> pd.DataFrame: ...

    @asset(ins={"rows": AssetIn([schema, name])})
    def sink(rows: pd.DataFrame) -> None:
        seen.append(rows)

    loader = DeltaLakePandasIOManager(root_uri=root, storage_options=LocalConfig())
    assert materialize([source, sink], selection=[sink], resources={"io_manager": loader}).success
    return seen[0].to_dict("records")


@case("deletion vectors")
def vectors(tables: dict[str, Any], new: Path) -> None:
    same(load(tables["vectors"]["path"]), tables["vectors"]["rows"])


@case("column mapping")
def mapped(tables: dict[str, Any], new: Path) -> None:
    same(load(tables["mapped"]["path"]), tables["mapped"]["rows"])


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    same(load(tables["evolved"]["path"]), tables["evolved"]["rows"])


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store, options = tables["s3"], tables["s3"]["options"]
    root = f"{store['root']}/dagster-{new.parent.name}"
    config = S3Config(
        access_key_id=options["AWS_ACCESS_KEY_ID"],
        secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        region=options["AWS_REGION"],
        endpoint=options["AWS_ENDPOINT_URL"],
    )

    @asset
    def items() -> pd.DataFrame:
        return pd.DataFrame({"id": [1, 2]})

    resource = DeltaLakePandasIOManager(
        root_uri=root, storage_options=config, schema="s", client_options=ClientConfig(allow_http=True)
    )
    assert materialize([items], resources={"io_manager": resource}).success
    same(DeltaTable(f"{root}/s/items", storage_options=options).to_pandas(), [{"id": 1}, {"id": 2}])
