"""`deltaplane purge`: rewrites files that still have deleted rows.

Uses the public API only.
"""

from __future__ import annotations

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, Where, open_table

__all__ = ["purge"]

EXAMPLES = ("deltaplane purge /data/orders --dry-run",)


def purge(
    location: Location, where: Where = None, dry_run: DryRun = False, option: StoreOptions = None, json: AsJson = False
) -> None:
    """Rewrites files that still have deleted rows; vacuum deletes the old files later."""
    table = open_table(location, None, option)
    if dry_run:
        render.dry_run(table.purge(where, dry_run=True), as_json=json)
        return
    metrics = table.purge(where)
    render.facts({"table": table.table_uri, "version": table.version(), **metrics}, as_json=json)
