"""AWS SDK for pandas: Delta tables on S3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awswrangler as wr
import boto3
import pandas as pd
from cases import case, same


def session(tables: dict[str, Any]) -> boto3.Session:
    options = tables["s3"]["options"]
    return boto3.Session(options["AWS_ACCESS_KEY_ID"], options["AWS_SECRET_ACCESS_KEY"], None, options["AWS_REGION"])


def settings(tables: dict[str, Any]) -> dict[str, Any]:
    more = {name: tables["s3"]["options"][name] for name in ("AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP")}
    return {"boto3_session": session(tables), "s3_additional_kwargs": more}


def check(tables: dict[str, Any], name: str) -> None:
    table = tables["s3"][name]
    same(wr.s3.read_deltalake(table["path"], **settings(tables)), table["rows"])


@case("odd partition values")
def partitions(tables: dict[str, Any], new: Path) -> None:
    check(tables, "partitions")
    read = wr.s3.read_deltalake(
        tables["s3"]["partitions"]["path"], partitions=[("text", "=", "c/d")], columns=["id"], **settings(tables)
    )
    same(read, [{"id": 2}])


@case("deletion vectors")
def vectors(tables: dict[str, Any], new: Path) -> None:
    check(tables, "vectors")


@case("column mapping")
def mapped(tables: dict[str, Any], new: Path) -> None:
    check(tables, "mapped")


@case("time travel by version")
def versions(tables: dict[str, Any], new: Path) -> None:
    history = tables["s3"]["history"]
    for version, rows in enumerate(history["versions"]):
        same(wr.s3.read_deltalake(history["path"], version=version, **settings(tables)), rows)


@case("added columns")
def evolved(tables: dict[str, Any], new: Path) -> None:
    check(tables, "evolved")


@case("to_deltalake: append, overwrite, added columns")
def writes(tables: dict[str, Any], new: Path) -> None:
    location = f"{tables['s3']['root']}/awswrangler-{new.parent.name}"
    options = {**settings(tables), "s3_allow_unsafe_rename": True}
    wr.s3.to_deltalake(pd.DataFrame({"id": [1], "p": ["a b"]}), location, partition_cols=["p"], **options)
    wr.s3.to_deltalake(
        pd.DataFrame({"id": [2], "p": ["c/d"], "more": [0.5]}), location, mode="append", schema_mode="merge", **options
    )
    rows = [{"id": 1, "p": "a b", "more": None}, {"id": 2, "p": "c/d", "more": 0.5}]
    same(wr.s3.read_deltalake(location, **settings(tables)), rows)
    wr.s3.to_deltalake(pd.DataFrame({"id": [3], "p": ["e"], "more": [1.5]}), location, mode="overwrite", **options)
    same(wr.s3.read_deltalake(location, **settings(tables)), [{"id": 3, "p": "e", "more": 1.5}])
