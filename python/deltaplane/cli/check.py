"""`deltaplane check` and `deltaplane repair`: checks the log against the files, and removes missing files from the log.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, Version, open_table

__all__ = ["check", "repair"]


def check(
    location: Location,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read every file and compare rows, statistics and deletion vectors.")
    ] = False,
    version: Version = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Checks the log against the data files; exits with 1 if they disagree."""
    table = open_table(location, version, option)
    with render.counts("check", shown=not json) as advance:
        found = table.check(deep, progress=lambda p: advance(p.phase, p.done, p.total))
    render.findings(found, as_json=json)
    if found:
        raise typer.Exit(1)


def repair(location: Location, dry_run: DryRun = False, option: StoreOptions = None, json: AsJson = False) -> None:
    """Removes missing files from the log; their rows are lost."""
    table = open_table(location, None, option)
    files = table.repair(dry_run)["files_removed"]
    facts = {"table": table.table_uri, "version": table.version(), "dry_run": dry_run}
    render.facts({**facts, "files": files if json else f"{len(files):,}"}, as_json=json)
    if not json:
        render.names("would be taken out" if dry_run else "taken out", files)
