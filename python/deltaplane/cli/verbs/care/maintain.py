"""`deltaplane maintain`: runs the maintenance that `advise` proposes.

Uses the public API only.
"""

from __future__ import annotations

from typing import Annotated

import typer

from deltaplane.advisor.advice import MaintenanceStep
from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, PredicatesFile, StoreOptions, open_table

__all__ = ["maintain"]

EXAMPLES = ("deltaplane maintain s3://bucket/orders --budget 10GB --dry-run",)


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
    """Runs what advise proposes, highest gain per byte first, within a budget; never deletes files
    within the retention."""
    table = open_table(location, None, option)
    with render.steps("maintain", shown=not json) as advance:

        def show_step(step: MaintenanceStep) -> None:
            advance(f"{step.kind} {step.state}")

        done = table.maintain(
            budget=budget, max_time=max_time, predicates=predicates, dry_run=dry_run, progress=show_step
        )
    render.report(done, as_json=json)
