"""`deltaplane check` and `deltaplane repair`: whether log and files agree, and a log without files that are gone.

Knows the public API only. Called by `deltaplane.cli.app`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, Version, open_table

__all__ = ["check", "repair"]


def check(
    location: Location,
    deep: Annotated[bool, typer.Option("--deep", help="Read every file: rows, statistics, deletion vectors.")] = False,
    version: Version = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Looks for what of the log and the files doesn't agree; ends with code 1 if there is any."""
    table = open_table(location, version, option)
    with render.counts("check", shown=not json) as advance:
        found = table.check(deep, progress=lambda p: advance(p.phase, p.done, p.total))
    render.findings(found, as_json=json)
    if found:
        raise typer.Exit(1)


def repair(location: Location, dry_run: DryRun = False, option: StoreOptions = None, json: AsJson = False) -> None:
    """Takes files out of the log that aren't there any more; their rows are lost."""
    table = open_table(location, None, option)
    files = table.repair(dry_run)["files_removed"]
    facts = {"table": table.table_uri, "version": table.version(), "dry_run": dry_run}
    render.facts({**facts, "files": files if json else f"{len(files):,}"}, as_json=json)
    if not json:
        render.names("would be taken out" if dry_run else "taken out", files)
