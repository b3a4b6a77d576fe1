"""`deltaplane reports`: health reports of many tables, with an index page.

Uses the public API only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, LongStoreOptions, store_options
from deltaplane.cli.exit_codes import exit_code
from deltaplane.cli.fleets import fleet_reports
from deltaplane.exceptions import DeltaError
from deltaplane.report.fleet_index import Reported, write_pages

__all__ = ["reports"]

EXAMPLES = ("deltaplane reports 's3://bucket/*/orders' --output reports", "deltaplane reports @tables.txt -o reports")


def reports(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET…", help="Locations, patterns with * and ?, @FILE with a target a line, catalogs."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the pages.")],
    option: LongStoreOptions = None,
    json: AsJson = False,
) -> None:
    """Writes a report of each table as a page, and index.html, which lists them with the most
    urgent advice first. The exit code is that of the last table that can't be read."""
    code, tables = 0, []
    for table, facts in fleet_reports(targets, store_options(option)):
        if isinstance(facts, DeltaError):
            code = exit_code(facts)
            tables.append(Reported(table.location, None, str(facts)))
        else:
            tables.append(Reported(table.location, facts))
    try:
        index = write_pages(tables, output)
    except OSError as e:
        raise typer.BadParameter(f"can't write to {output}: {e.strerror}") from e
    counts = {"index": str(index), "tables": len(tables), "not read": sum(t.health is None for t in tables)}
    render.facts(counts, as_json=json)
    if code:
        raise typer.Exit(code)
