"""`deltaplane diff`: lists the files, or with keys the rows, in which two versions differ."""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Limit, Location, StoreOptions, open_table

__all__ = ["diff"]

EXAMPLES = ("deltaplane diff /data/orders 3 -k id",)


def diff(
    location: Location,
    from_version: Annotated[int, typer.Argument(min=0, metavar="FROM", help="A version number.", show_default=False)],
    to_version: Annotated[
        int | None, typer.Argument(min=0, metavar="TO", help="A version number.", show_default="newest")
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option("--keys", "-k", help="A key column, which identifies rows; may be repeated.", show_default=False),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column", "-c", help="With --keys: a column whose values before and after are shown; may be repeated."
        ),
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="With --keys: maximum memory, such as 500MB.", show_default="80 % of the memory")
    ] = None,
    limit: Limit = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Lists the files in which two versions differ; with --keys the inserted, updated and deleted
    rows."""
    table = open_table(location, None, option)
    if not keys:
        if column or memory_limit:
            raise typer.BadParameter("--column and --memory-limit are for --keys")
        render.rows(table.diff(from_version, to_version)[:limit], as_json=json)
        return
    changes = table.diff(from_version, to_version, keys=keys, columns=column, memory_limit=memory_limit)
    render.stream(changes, limit, as_json=json)
