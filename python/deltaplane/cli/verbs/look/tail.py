"""`deltaplane tail`: prints the rows that later versions add.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Where, open_table

__all__ = ["tail"]

EXAMPLES = ("deltaplane tail /data/orders --since 12", "deltaplane tail s3://bucket/orders --follow --json")


def tail(
    location: Location,
    since: Annotated[
        int | None,
        typer.Option(
            min=-1, help="The version after which to begin; -1 is before the first.", show_default="the newest"
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for further commits, until interrupted.")
    ] = False,
    column: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="A column; may be repeated.", show_default="all")
    ] = None,
    where: Where = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Prints the rows that were committed after a version, in commit order, with --json one a
    line."""
    table = open_table(location, None, option)
    begin = table.version() if since is None else since
    for rows in table.tail(begin, columns=column, predicate=where, follow=follow):
        render.stream(rows.to_reader(), None, as_json=json, when_empty=None)
