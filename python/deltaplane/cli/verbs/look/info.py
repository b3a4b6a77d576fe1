"""`deltaplane info`: prints a summary of a table.

Uses the public API only.
"""

from __future__ import annotations

from typing import Any

from deltaplane import DeltaTable
from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Version, open_table

__all__ = ["info"]

EXAMPLES = ("deltaplane info s3://bucket/orders -o aws_region=eu-central-1",)


def info(location: Location, version: Version = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Prints the table's version, size, columns, partitions, properties and protocol."""
    table = open_table(location, version, option)
    render.info(_facts(table), as_json=json)


def _facts(table: DeltaTable) -> dict[str, Any]:
    metadata, protocol = table.metadata(), table.protocol()
    files = table._files()
    records = files["num_records"]
    return {
        "table": table.table_uri,
        "version": table.version(),
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "created_time": metadata.created_time,
        "columns": len(table.schema().fields),
        "partition_columns": metadata.partition_columns,
        "files": files.num_rows,
        "size_bytes": sum(files["size_bytes"].to_pylist()),
        "rows": None if records.null_count else sum(records.to_pylist()),
        "configuration": metadata.configuration,
        "protocol": protocol._asdict(),
    }
