"""`deltaplane prove-erased`: searches a table for rows and values that were erased.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, open_table

__all__ = ["prove_erased"]

EXAMPLES = ("deltaplane prove-erased s3://bucket/customers --where \"email = 'a@example.org' OR id = 4711\"",)


def prove_erased(
    location: Location,
    where: Annotated[
        str, typer.Option("--where", "-w", metavar="SQL", help="The erased rows: column = value, IN, AND, OR.")
    ],
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Searches data files of all versions, deletion vectors, change files, the log, indexes and the
    cache for erased rows and their values; exits with 1 if any are left."""
    from deltaplane import prove_erased as search

    report = search(open_table(location, None, option), where)
    render.erasure(report, as_json=json)
    if not report.is_erased:
        raise typer.Exit(1)
