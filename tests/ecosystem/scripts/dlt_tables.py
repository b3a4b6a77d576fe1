"""dlt: its destination filesystem with tables of the format delta."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from cases import case, same

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
os.environ["RUNTIME__LOG_LEVEL"] = "CRITICAL"

import dlt
from dlt.common.libs.deltalake import get_delta_tables
from dlt.destinations import filesystem

WITHOUT = {"_dlt_id", "_dlt_load_id"}


def pipeline(new: Path, location: str, **settings: Any) -> dlt.Pipeline:
    destination = filesystem(location, **settings)
    return dlt.pipeline("p", destination=destination, dataset_name="data", pipelines_dir=str(new / "work"))


def load(into: dlt.Pipeline, rows: list[dict[str, Any]], **hints: Any) -> None:
    into.run(dlt.resource(rows, name="items", table_format="delta", **hints)).raise_on_failed_jobs()


def read(from_: dlt.Pipeline) -> list[dict[str, Any]]:
    rows = get_delta_tables(from_, "items")["items"].to_pyarrow_table().to_pylist()
    return [{name: value for name, value in row.items() if name not in WITHOUT} for row in rows]


@case("append, with an added column")
def append(tables: dict[str, Any], new: Path) -> None:
    into = pipeline(new, str(new / "bucket"))
    load(into, [{"id": 1, "v": "é"}], write_disposition="append")
    load(into, [{"id": 2, "v": None, "more": 0.5}], write_disposition="append")
    same(read(into), [{"id": 1, "v": "é", "more": None}, {"id": 2, "v": None, "more": 0.5}])


@case("replace")
def replace(tables: dict[str, Any], new: Path) -> None:
    into = pipeline(new, str(new / "bucket"))
    for n in (1, 2):
        load(into, [{"id": n}], write_disposition="replace")
    same(read(into), [{"id": 2}])


@case("merge: upsert, with deletions and an added column")
def upsert(tables: dict[str, Any], new: Path) -> None:
    into = pipeline(new, str(new / "bucket"))
    hints = {
        "write_disposition": {"disposition": "merge", "strategy": "upsert"},
        "primary_key": "id",
        "columns": {"gone": {"data_type": "bool", "hard_delete": True}},
    }
    load(into, [{"id": n, "v": "a", "gone": False} for n in (1, 2, 3)], **hints)
    changed = [
        {"id": 2, "v": "b", "gone": False, "more": 1},
        {"id": 3, "v": "a", "gone": True},
        {"id": 4, "v": "n", "gone": False},
    ]
    load(into, changed, **hints)
    rows = [
        {"id": 1, "v": "a", "gone": False, "more": None},
        {"id": 2, "v": "b", "gone": False, "more": 1},
        {"id": 4, "v": "n", "gone": False, "more": None},
    ]
    same(read(into), rows)


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    into = pipeline(new, str(new / "bucket"))
    rows = [{"id": row["id"], "text": row["text"]} for row in tables["partitions"]["rows"]]
    load(into, rows, write_disposition="append", columns={"text": {"partition": True, "data_type": "text"}})
    same(read(into), rows)
    assert get_delta_tables(into, "items")["items"].metadata().partition_columns == ["text"]


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    into = pipeline(new, str(new / "bucket"))
    for n in (1, 2):
        load(into, [{"id": n}], write_disposition="append")
    table = get_delta_tables(into, "items")["items"]
    table.load_as_version(0)
    assert table.to_pyarrow_table()["id"].to_pylist() == [1]


@case("S3")
def s3(tables: dict[str, Any], new: Path) -> None:
    store, options = tables["s3"], tables["s3"]["options"]
    credentials = {
        "aws_access_key_id": options["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": options["AWS_SECRET_ACCESS_KEY"],
        "region_name": options["AWS_REGION"],
        "endpoint_url": options["AWS_ENDPOINT_URL"],
    }
    into = pipeline(new, f"{store['root']}/dlt-{new.parent.name}", credentials=credentials)
    load(into, [{"id": 1}], write_disposition="append")
    load(into, [{"id": 2}], write_disposition="append")
    same(read(into), [{"id": 1}, {"id": 2}])
