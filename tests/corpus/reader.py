"""The callables that the corpus checker runs: deltaplane as a reader, nothing else."""

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
    metadata, protocol = snapshot.info, snapshot.protocol
    facts: dict[str, Any] = {
        "version": snapshot.version,
        "schema": snapshot.schema.to_value(),
        "partition_columns": metadata.partition_columns,
        "num_active_files": snapshot.num_files(),
        "min_reader_version": protocol.min_reader_version,
        "min_writer_version": protocol.min_writer_version,
        "reader_features": protocol.reader_features,
        "writer_features": protocol.writer_features,
    }
    if version is None:
        facts["properties"] = metadata.configuration
    return facts
