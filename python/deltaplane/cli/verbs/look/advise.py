"""`deltaplane advise`: proposes maintenance that pays for a table.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, PredicatesFile, StoreOptions, Version, open_table

__all__ = ["advise"]

EXAMPLES = ("deltaplane advise s3://bucket/orders -p workload.txt",)


def advise(
    location: Location,
    predicates: PredicatesFile = None,
    sample_rows: Annotated[int, typer.Option(min=1, help="Approximate number of sampled rows.")] = 65_536,
    version: Version = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Lists maintenance that would pay for the table, with reason, cost and command; changes
    nothing."""
    render.report(open_table(location, version, option).advise(predicates, sample_rows=sample_rows), as_json=json)
