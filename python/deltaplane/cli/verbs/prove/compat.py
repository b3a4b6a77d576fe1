"""`deltaplane compat`: lists the engines that read and write a table.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Version, open_table

__all__ = ["compat"]

EXAMPLES = ("deltaplane compat /data/orders",)


def compat(
    location: Location,
    version: Version = None,
    option: StoreOptions = None,
    property: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Show which engines setting this property would exclude; may be repeated.",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Lists which engines, in which versions, can read and write the table."""
    pairs = [text.partition("=") for text in property or []]
    if any(not (key and equals) for key, equals, _ in pairs):
        raise typer.BadParameter("give properties as --set key=value")
    properties = {key: value for key, _, value in pairs} or None
    render.compat(open_table(location, version, option).compatibility(properties), as_json=json)
