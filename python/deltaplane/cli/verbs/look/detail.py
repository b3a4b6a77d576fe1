"""`deltaplane detail`: prints the row of DESCRIBE DETAIL.

Uses the public API only.
"""

from __future__ import annotations

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Version, open_table

__all__ = ["detail"]

EXAMPLES = ("deltaplane detail /data/orders --json",)


def detail(location: Location, version: Version = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Prints the row of DESCRIBE DETAIL."""
    (row,) = open_table(location, version, option).detail().to_pylist(maps_as_pydicts="strict")
    render.facts(row, as_json=json)
