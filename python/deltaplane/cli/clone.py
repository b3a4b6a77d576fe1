"""`deltaplane clone`: another table with a table's rows.

Knows the public API only. Called by `deltaplane.cli.app`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, Version, open_table

__all__ = ["clone"]


def clone(
    location: Location,
    target: Annotated[str, typer.Argument(help="The clone's path or URL.", show_default=False)],
    shallow: Annotated[bool, typer.Option("--shallow", help="Name the table's files instead of copying them.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of a table that is there.")] = False,
    version: Version = None,
    dry_run: DryRun = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Makes another table with this one's rows; made again with --replace it takes only what is new."""
    table = open_table(location, version, option)
    with render.progress("clone", shown=not json) as advance:
        metrics = table.clone(
            target, shallow, replace=replace, dry_run=dry_run, progress=lambda p: advance(p.done, p.total or p.done)
        )
    render.facts({"table": table.table_uri, "clone": target, **metrics}, as_json=json)
