"""`deltaplane alter`: changes columns, constraints, properties and features of a table.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, store_options

__all__ = ["alter"]

EXAMPLES = (
    'deltaplane alter /data/orders "ADD COLUMNS (channel STRING AFTER day)"',
    "deltaplane alter /data/orders \"SET TBLPROPERTIES ('delta.appendOnly' = 'true')\"",
)


def alter(
    location: Location,
    change: Annotated[str, typer.Argument(help="What follows ALTER TABLE name in Spark SQL.", show_default=False)],
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Changes columns, constraints, properties and features of the table by one commit."""
    from deltaplane.cli.statement_texts import table
    from deltaplane.statements import sql

    done = sql(f"ALTER TABLE {table(location)} {change}", storage_options=store_options(option))
    render.rows(done.to_arrow(), as_json=json)
