"""`deltaplane report`: how a table is, as one HTML page.

Knows the public API only. Called by `deltaplane.cli.app`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, LongStoreOptions, Version, open_table

__all__ = ["report"]


def report(
    location: Location,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where the page goes.", show_default="only a summary"),
    ] = None,
    version: Version = None,
    option: LongStoreOptions = None,
    json: AsJson = False,
) -> None:
    """How the table is: sizes, growth, clustering, deleted rows, log, engines, and what to do about it."""
    found = open_table(location, version, option).report()
    if output is not None:
        try:
            found.write(output)
        except OSError as e:
            raise typer.BadParameter(f"can't write {output}: {e.strerror}") from e
    render.health(found, output, as_json=json)
