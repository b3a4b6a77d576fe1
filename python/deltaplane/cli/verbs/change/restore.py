"""`deltaplane restore`: restores an older version by a new commit.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, open_table, version_of

__all__ = ["restore"]

EXAMPLES = ("deltaplane restore /data/orders 12 --dry-run",)


def restore(
    location: Location,
    to: Annotated[str, typer.Argument(help="A version number, or an ISO 8601 timestamp (UTC).", show_default=False)],
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing-files", help="Leave out files that VACUUM has deleted.")
    ] = False,
    dry_run: DryRun = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Commits a new version with the files, columns and properties of an older one."""
    table = open_table(location, None, option)
    with render.counts("restore", shown=not json) as advance:
        metrics = table.restore(
            version_of(to),
            ignore_missing_files=ignore_missing,
            dry_run=dry_run,
            progress=lambda p: advance(p.phase, p.done, p.total),
        )
    render.facts({"table": table.table_uri, "version": table.version(), "dry_run": dry_run, **metrics}, as_json=json)
