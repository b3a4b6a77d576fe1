"""`deltaplane advise` and `deltaplane maintain`: what would pay for a table, and doing it. Called by `app`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, Version, open_table
from deltaplane.upkeep.advice import MaintenanceStep

__all__ = ["advise", "maintain"]

PredicatesFile = Annotated[
    Path | None,
    typer.Option(
        "--predicates",
        "-p",
        metavar="FILE",
        help='The workload, a predicate a line: SQL, or JSON as {"predicate": "x = 1", "weight": 2}.',
        show_default=False,
    ),
]


def advise(
    location: Location,
    predicates: PredicatesFile = None,
    sample_rows: Annotated[int, typer.Option(min=1, help="About how many rows are sampled.")] = 65_536,
    version: Version = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Says which care would pay for the table, why, what it costs, and the commands for it; changes nothing."""
    render.report(open_table(location, version, option).advise(predicates, sample_rows=sample_rows), as_json=json)


def maintain(
    location: Location,
    budget: Annotated[
        str | None, typer.Option(help="Bytes that may be rewritten, such as 10GB.", show_default="no limit")
    ] = None,
    max_time: Annotated[
        str | None, typer.Option(help="When no more is begun, such as 30m.", show_default="no limit")
    ] = None,
    predicates: PredicatesFile = None,
    dry_run: DryRun = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Does what advise says, the most gain for its bytes first, within a budget; never beyond the safe retention."""
    table = open_table(location, None, option)
    with render.steps("maintain", shown=not json) as advance:

        def told(step: MaintenanceStep) -> None:
            advance(f"{step.kind} {step.state}")

        done = table.maintain(budget=budget, max_time=max_time, predicates=predicates, dry_run=dry_run, progress=told)
    render.report(done, as_json=json)
