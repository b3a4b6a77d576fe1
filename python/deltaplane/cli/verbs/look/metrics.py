"""`deltaplane metrics`: figures of tables for Prometheus.

Uses the public API only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, StoreOptions, store_options
from deltaplane.cli.exit_codes import exit_code
from deltaplane.cli.fleets import fleet_reports
from deltaplane.exceptions import DeltaError
from deltaplane.report.metrics import DOWN, METRICS, measure

__all__ = ["metrics"]

EXAMPLES = ("deltaplane metrics 's3://bucket/*/orders'", "deltaplane metrics sqlite:///lake.db --json")


def metrics(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET…", help="Locations, patterns with * and ?, @FILE with a target a line, catalogs."
        ),
    ],
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Prints figures of tables in Prometheus' text format: size, age, files for OPTIMIZE and
    VACUUM, log, advice. A table that can't be read has deltaplane_table_up 0; the exit code is that
    of the last one."""
    code, values = 0, {}
    for table, facts in fleet_reports(targets, store_options(option)):
        if isinstance(facts, DeltaError):
            code, values[table.location] = exit_code(facts), dict(DOWN)
        else:
            values[table.location] = measure(facts)
    if json:
        render.print_json(values)
    else:
        print(_text(values), end="")
    if code:
        raise typer.Exit(code)


def _text(values: Mapping[str, Mapping[str, float]]) -> str:
    """The exposition format: https://prometheus.io/docs/instrumenting/exposition_formats/"""
    lines = []
    for metric in METRICS:
        full = f"deltaplane_table_{metric.name}"
        lines += [f"# HELP {full} {metric.meaning}", f"# TYPE {full} gauge"]
        lines += [
            f'{full}{{table="{_escaped(table)}"}} {of_table[metric.name]:.15g}'
            for table, of_table in values.items()
            if metric.name in of_table
        ]
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
