"""`deltaplane history`: lists the commits.

Uses the public API only.
"""

from __future__ import annotations

from deltaplane import DeltaTable
from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Limit, Location, StoreOptions, Version, open_table, store_options

__all__ = ["history"]

EXAMPLES = ("deltaplane history /data/orders -n 20",)


def history(
    location: Location,
    version: Version = None,
    option: StoreOptions = None,
    limit: Limit = None,
    json: AsJson = False,
) -> None:
    """Lists the commits and their operations, newest first."""
    if version is None:
        entries = DeltaTable.history_of(location, limit, store_options(option))
    else:
        entries = open_table(location, version, option).history(limit)
    render.history(entries, as_json=json)
