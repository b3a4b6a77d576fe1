"""`deltaplane checkpoint`: writes a checkpoint.

Uses the public API only.
"""

from __future__ import annotations

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Version, open_table

__all__ = ["checkpoint"]

EXAMPLES = ("deltaplane checkpoint /data/orders",)


def checkpoint(location: Location, version: Version = None, option: StoreOptions = None, json: AsJson = False) -> None:
    """Writes a checkpoint of the version, so that opening the table reads no older commits."""
    table = open_table(location, version, option)
    report = table._checkpoint()
    shown = {"table": table.table_uri, "checkpoint": report["version"]}
    shown |= {name: report[name] for name in ("kind", "actions", "size_bytes")}
    if report["sidecars"]:
        shown |= {name: report[name] for name in ("sidecars", "kept_sidecars")}
    render.facts(shown, as_json=json)
