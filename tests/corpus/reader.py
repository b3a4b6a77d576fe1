"""The callables that the corpus checker runs: deltaplane as a reader, nothing else."""

import json
from typing import Any

import pyarrow as pa

from deltaplane import DeltaTable, _native


def read(path: str, version: int | None) -> pa.Table:
    """All rows of a version."""
    return DeltaTable(path, version=version).to_pyarrow_table()


def where(path: str, sql: str) -> pa.Table:
    """Rows of the newest version that meet a condition."""
    return DeltaTable(path).scan(predicate=sql).to_arrow()


def cdf(path: str, start: int, end: int) -> pa.Table:
    """The rows that changed from one version to another."""
    return DeltaTable(path).load_cdf(start, end).to_arrow()


def meta(path: str, version: int | None) -> dict[str, Any]:
    """What the snapshot says of itself, under the corpus's names."""
    snapshot = _native.Snapshot.open(path, None, version)
    metadata, protocol = json.loads(snapshot.metadata_json()), json.loads(snapshot.protocol_json())
    found: dict[str, Any] = {
        "version": snapshot.version,
        "schema": json.loads(snapshot.schema_json()),
        "partition_columns": metadata["partition_columns"],
        "num_active_files": snapshot.num_files(),
        **protocol,
    }
    if version is None:
        found["properties"] = metadata["configuration"]
    return found
