"""`deltaplane head`: prints the first rows.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Version, Where, open_table

__all__ = ["head"]

EXAMPLES = ("deltaplane head /data/orders -n 5 -c id -c amount",)


def head(
    location: Location,
    version: Version = None,
    option: StoreOptions = None,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, help="Number of rows.")] = 10,
    column: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="A column; may be repeated.", show_default="all")
    ] = None,
    where: Where = None,
    json: AsJson = False,
) -> None:
    """Prints the first rows of a scan."""
    scan = open_table(location, version, option).scan(column, where)
    head_rows: list[dict[str, Any]] = []
    for batch in scan.batches():
        head_rows += batch.slice(0, rows - len(head_rows)).to_pylist()
        if len(head_rows) >= rows:
            break
    render.head(scan.schema, head_rows, as_json=json)
