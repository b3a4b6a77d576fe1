"""`deltaplane advise` and `deltaplane maintain`: which maintenance pays for a table, and running it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltaplane.advisor.advice import MaintenanceStep
from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, Version, open_table

__all__ = ["advise", "maintain"]

PredicatesFile = Annotated[
    Path | None,
    typer.Option(
        "--predicates",
        "-p",
        metavar="FILE",
        help='File with the workload, one predicate a line: SQL, or JSON such as {"predicate": "x = 1", "weight": 2}.',
        show_default=False,
    ),
]


def advise(
    location: Location,
    predicates: PredicatesFile = None,
    sample_rows: Annotated[int, typer.Option(min=1, help="Approximate number of sampled rows.")] = 65_536,
    version: Version = None,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Lists maintenance that would pay for the table, with reason, cost and command; changes nothing."""
    render.report(open_table(location, version, option).advise(predicates, sample_rows=sample_rows), as_json=json)


def maintain(
    location: Location,
    budget: Annotated[
        str | None, typer.Option(help="Maximum number of bytes to rewrite, such as 10GB.", show_default="no limit")
    ] = None,
    max_time: Annotated[
        str | None,
        typer.Option(help="Duration after which no further step starts, such as 30m.", show_default="no limit"),
    ] = None,
    predicates: PredicatesFile = None,
    dry_run: DryRun = False,
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Runs what advise proposes, highest gain per byte first, within a budget; never deletes files within the retention."""
    table = open_table(location, None, option)
    with render.steps("maintain", shown=not json) as advance:

        def told(step: MaintenanceStep) -> None:
            advance(f"{step.kind} {step.state}")

        done = table.maintain(budget=budget, max_time=max_time, predicates=predicates, dry_run=dry_run, progress=told)
    render.report(done, as_json=json)
