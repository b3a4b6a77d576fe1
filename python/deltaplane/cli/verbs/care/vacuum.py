"""`deltaplane vacuum`: deletes files that no retained version needs.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, Yes, asks, confirm, open_table

__all__ = ["vacuum"]

EXAMPLES = ("deltaplane vacuum /data/orders --dry-run", "deltaplane vacuum /data/orders --retain-hours 240 --yes")


def vacuum(
    location: Location,
    retain: Annotated[
        float | None,
        typer.Option(
            "--retain-hours", min=0, help="Retention of removed files, in hours.", show_default="the table's retention"
        ),
    ] = None,
    lite: Annotated[
        bool,
        typer.Option(
            "--lite", help="Delete only files that the log records as removed, without listing the directory."
        ),
    ] = False,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--no-retention-check", help="Allow a retention below the table's; nobody else may use the table meanwhile."
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Deletes files that no version within the retention needs."""
    table = open_table(location, None, option)

    def run(dry: bool) -> list[str]:
        with render.counts("vacuum", shown=not json) as advance:
            return table.vacuum(
                retain,
                dry,
                enforce_retention_duration=not unsafe,
                full=not lite,
                progress=lambda p: advance(p.phase, p.done, p.total),
            )

    if asks(yes) and not dry_run:
        planned = run(True)
        if planned:
            confirm(f"delete {len(planned):,} files of {table.table_uri}, which older versions may need?", yes)
    files = run(dry_run)
    facts = {"table": table.table_uri, "dry_run": dry_run, "files": files if json else f"{len(files):,}"}
    render.facts(facts, as_json=json)
    if dry_run and not json:
        render.names("would be deleted", files)
