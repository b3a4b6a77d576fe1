"""`deltaplane schema`: prints the columns.

Uses the public API only.
"""

from __future__ import annotations

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Version, open_table

__all__ = ["schema"]

EXAMPLES = ("deltaplane schema /data/orders -v 3",)


def schema(location: Location, version: Version = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Prints the columns with their types."""
    table = open_table(location, version, option)
    render.schema(table.schema(), table.metadata().partition_columns, as_json=json)
