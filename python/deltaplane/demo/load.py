"""Loads one delivered file through Spark into the table, exactly once.

Uses Spark and the feed's columns; prints nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltaplane import spark as deltaspark
from deltaplane.demo.feed import EXTRA_COLUMN, Delivery
from deltaplane.exceptions import SchemaMismatchError

__all__ = ["Loaded", "load", "totals_by_day"]

_CSV_SCHEMA = (
    "transaction_id STRING, day DATE, booked_at TIMESTAMP, account STRING, kind STRING, amount DECIMAL(10,2), "
    "currency STRING, text STRING, metadata STRING"
)
_METADATA_TYPE = "ARRAY<STRUCT<key: STRING, value: STRING>>"

_TOTALS_SQL = """
    SELECT day, count(*) AS rows, sum(amount) AS amount, sum(size(metadata)) AS tags, {categories} AS categories,
           sum(unix_micros(booked_at) - unix_date(day) * 86400000000L) AS clock
    FROM {view} GROUP BY day
"""


@dataclass(frozen=True)
class Loaded:
    """The result of a delivery: the new version (None if nothing was written), the way of loading,
    and the duration in seconds."""

    version: int | None
    how: str
    seconds: float


def load(session: Any, delivery: Delivery, table: Path) -> Loaded:
    """Loads a delivery: the first of a day is appended, a corrected one replaces its day, a known
    one is skipped."""
    started = time.perf_counter()
    rows = read_csv(session, delivery)
    arguments: dict[str, Any] = {"partition_by": ["day"], "txn": (delivery.app_id, delivery.revision)}
    if delivery.revision == 1:
        how, arguments["mode"] = "appended", "append"
    else:
        how, arguments["mode"] = "replaced its day", "overwrite"
        arguments["replace_where"] = f"day = DATE '{delivery.day.isoformat()}'"
    try:
        result = deltaspark.write(rows, str(table), **arguments)
    except SchemaMismatchError:
        if not delivery.has_extra_column:
            raise
        how = "refused for its new column, then appended with schema_mode='merge'"
        result = deltaspark.write(rows, str(table), schema_mode="merge", **arguments)
    version = result.version
    return Loaded(version, how if version is not None else "skipped: already loaded", time.perf_counter() - started)


def read_csv(session: Any, delivery: Delivery) -> Any:
    """Reads the file's rows with their types; the metadata's JSON text becomes an array of
    structs."""
    from pyspark.sql import functions as F

    schema = f"{_CSV_SCHEMA}, {EXTRA_COLUMN} STRING" if delivery.has_extra_column else _CSV_SCHEMA
    rows = session.read.csv(
        str(delivery.path), schema=schema, header=True, enforceSchema=False, escape='"', mode="FAILFAST"
    )
    return rows.withColumn("metadata", F.from_json("metadata", _METADATA_TYPE, {"mode": "FAILFAST"}))


def totals_by_day(session: Any, view: str, *, categories: bool) -> list[Any]:
    """Totals of a view's rows, one row per day; `categories`: whether it has the late column."""
    count = f"count({EXTRA_COLUMN})" if categories else "0"
    totals: list[Any] = session.sql(_TOTALS_SQL.format(view=view, categories=count)).collect()
    return totals
