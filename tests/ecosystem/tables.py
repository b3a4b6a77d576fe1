"""The tables that every library reads, with the rows that must be read.

The rows are written here, not read back: a wrong answer of deltaplane can't hide in them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa

from deltaplane import DeltaTable, write_deltalake

UTC = timezone.utc
VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
# Texts that a path can't have, or has in another form.
TEXTS = [None, "a b", "c/d", "é ü 日本", "x=y", "50%25", "it's"]
DAYS = [
    date(2024, 2, 29),
    None,
    date(1969, 12, 31),
    date(2024, 1, 1),
    date(2024, 1, 2),
    date(1, 1, 1),
    date(2030, 5, 5),
]
MOMENTS = [datetime(2024, 5, 1, 12, 30, 0, 123456, UTC) + timedelta(hours=n) for n in range(6)] + [None]
# When the versions of `history` were committed.
TIMES = [datetime(2024, month, 1, tzinfo=UTC) for month in (1, 2, 3)]


def make(root: str, options: Mapping[str, str] | None = None) -> dict[str, dict[str, Any]]:
    """Writes the tables below a location; returns name → path and rows (as JSON has them)."""
    makers = (_partitions, _vectors, _mapped, _evolved, _history)
    return {maker.__name__[1:]: {"path": f"{root}/{maker.__name__[1:]}", **maker(root, options)} for maker in makers}


def _partitions(root: str, options: Any) -> dict[str, Any]:
    """Partition values of three types: nulls, spaces, slashes, other letters, times."""
    schema = pa.schema({"id": pa.int64(), "text": pa.string(), "day": pa.date32(), "at": pa.timestamp("us", "UTC")})
    rows = [
        {"id": n, "text": text, "day": day, "at": moment}
        for n, (text, day, moment) in enumerate(zip(TEXTS, DAYS, MOMENTS, strict=True))
    ]
    data = pa.Table.from_pylist(rows, schema)
    write_deltalake(f"{root}/partitions", data, partition_by=["text", "day", "at"], storage_options=options)
    return {"rows": [_json(row) for row in rows]}


def _vectors(root: str, options: Any) -> dict[str, Any]:
    """Rows that deletion vectors delete, in one of two files and in a partition."""
    for part in ("a", "b/c"):
        data = pa.table({"id": range(10), "part": [part] * 10})
        write_deltalake(
            f"{root}/vectors",
            data,
            mode="append",
            partition_by="part",
            configuration=VECTORS,
            storage_options=options,
        )
    DeltaTable(f"{root}/vectors", storage_options=options).delete("part = 'b/c' and id % 3 = 0")
    left = [("a", n) for n in range(10)] + [("b/c", n) for n in range(10) if n % 3]
    return {"rows": [{"id": n, "part": part} for part, n in left]}


def _mapped(root: str, options: Any) -> dict[str, Any]:
    """A renamed column, a dropped one, and a partition column, all with names of their own in
    files."""
    location = f"{root}/mapped"
    data = pa.table({"id": [1, 2, 3], "old": ["x", "y", None], "gone": [0, 0, 0], "part": ["p", "p", "q r"]})
    write_deltalake(location, data, partition_by="part", configuration=MAPPED, storage_options=options)
    table = DeltaTable(location, storage_options=options)
    table.alter.rename_column("old", "new name")
    table.alter.drop_columns("gone")
    return {
        "rows": [{"id": n, "new name": v, "part": p} for n, v, p in ((1, "x", "p"), (2, "y", "p"), (3, None, "q r"))]
    }


def _evolved(root: str, options: Any) -> dict[str, Any]:
    """A column that the first file doesn't have."""
    location = f"{root}/evolved"
    write_deltalake(location, pa.table({"id": [1, 2]}), storage_options=options)
    later = pa.table({"id": [3], "more": ["new"]})
    write_deltalake(location, later, mode="append", schema_mode="merge", storage_options=options)
    return {"rows": [{"id": 1, "more": None}, {"id": 2, "more": None}, {"id": 3, "more": "new"}]}


def _history(root: str, options: Any) -> dict[str, Any]:
    """Three versions, committed on the first days of three months."""
    location, versions = f"{root}/history", []
    for version, moment in enumerate(TIMES):
        write_deltalake(location, pa.table({"id": [version]}), mode="append", storage_options=options)
        versions.append([{"id": n} for n in range(version + 1)])
        if options is None:
            os.utime(f"{location}/_delta_log/{version:020}.json", (moment.timestamp(), moment.timestamp()))
    return {"rows": versions[-1], "versions": versions, "times": [moment.isoformat() for moment in TIMES]}


def _json(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}
