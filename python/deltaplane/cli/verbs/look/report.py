"""`deltaplane report`: writes a table's health report as one HTML page.

Uses the public API only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, LongStoreOptions, PredicatesFile, Version, open_table

__all__ = ["report"]

EXAMPLES = ("deltaplane report /data/orders -o orders.html",)


def report(
    location: Location,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File for the page.", show_default="only a summary"),
    ] = None,
    advise: Annotated[
        bool,
        typer.Option(
            "--advise", help="Include the advice of `deltaplane advise`, which samples rows and tries other layouts."
        ),
    ] = False,
    predicates: PredicatesFile = None,
    version: Version = None,
    option: LongStoreOptions = None,
    json: AsJson = False,
) -> None:
    """Reports sizes, growth, clustering, deleted rows, log and engines of the table, with
    advice."""
    table = open_table(location, version, option)
    advice = table.advise(predicates) if advise or predicates is not None else None
    health = table.report(advice=advice)
    if output is not None:
        try:
            health.write(output)
        except OSError as e:
            raise typer.BadParameter(f"can't write {output}: {e.strerror}") from e
    render.health(health, output, as_json=json)
