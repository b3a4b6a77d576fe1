"""`deltaplane changes`: prints the rows that versions changed.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Limit, Location, StoreOptions, open_table, version_of

__all__ = ["changes"]

EXAMPLES = ("deltaplane changes /data/orders 3 5 --json",)

_MOMENT = "A version number, or an ISO 8601 timestamp (UTC)."


def changes(
    location: Location,
    first: Annotated[str, typer.Argument(metavar="FROM", help=_MOMENT, show_default=False)],
    last: Annotated[str | None, typer.Argument(metavar="TO", help=_MOMENT, show_default="newest")] = None,
    column: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="A column; may be repeated.", show_default="all")
    ] = None,
    limit: Limit = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Prints the rows that the versions from FROM to TO inserted, updated and deleted, with --json
    one a line."""
    table, bounds = open_table(location, None, option), {"starting": version_of(first)}
    if last is not None:
        bounds["ending"] = version_of(last)
    named: dict[str, Any] = {
        f"{end}_{'version' if isinstance(bound, int) else 'timestamp'}": bound for end, bound in bounds.items()
    }
    render.stream(table.load_cdf(columns=column, **named).to_reader(), limit, as_json=json)
