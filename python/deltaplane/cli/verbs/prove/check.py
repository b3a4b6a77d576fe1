"""`deltaplane check`: checks the log against the data files.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Version, open_table

__all__ = ["check"]

EXAMPLES = ("deltaplane check s3://bucket/orders --deep",)


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
        problems = table.check(deep, progress=lambda p: advance(p.phase, p.done, p.total))
    render.findings(problems, as_json=json)
    if problems:
        raise typer.Exit(1)
