"""`deltaplane repair`: removes missing files from the log.

Uses the public API only.
"""

from __future__ import annotations

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, Yes, asks, confirm, open_table

__all__ = ["repair"]

EXAMPLES = ("deltaplane repair /data/orders --dry-run",)


def repair(
    location: Location,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Removes missing files from the log; their rows are lost."""
    table = open_table(location, None, option)
    if asks(yes) and not dry_run:
        lost = table.repair(True)["files_removed"]
        if lost:
            confirm(f"remove {len(lost):,} missing files from the log of {table.table_uri}, with their rows?", yes)
    files = table.repair(dry_run)["files_removed"]
    facts = {"table": table.table_uri, "version": table.version(), "dry_run": dry_run}
    render.facts({**facts, "files": files if json else f"{len(files):,}"}, as_json=json)
    if not json:
        render.names("would be taken out" if dry_run else "taken out", files)
