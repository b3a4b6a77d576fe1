"""`deltaplane clone`: copies a table.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, Version, open_table

__all__ = ["clone"]

EXAMPLES = ("deltaplane clone /data/orders /backup/orders --replace",)


def clone(
    location: Location,
    target: Annotated[str, typer.Argument(help="The clone's path or URL.", show_default=False)],
    shallow: Annotated[
        bool, typer.Option("--shallow", help="Refer to the table's files instead of copying them.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing table.")] = False,
    version: Version = None,
    dry_run: DryRun = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Copies the table to another location; repeated with --replace it copies only new files."""
    table = open_table(location, version, option)
    with render.progress("clone", shown=not json) as advance:
        metrics = table.clone(
            target, shallow, replace=replace, dry_run=dry_run, progress=lambda p: advance(p.done, p.total or p.done)
        )
    render.facts({"table": table.table_uri, "clone": target, **metrics}, as_json=json)
