"""`deltaplane demo`: loads data through Spark and reads it back.

Uses the public API only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]

EXAMPLES = ("deltaplane demo --days 10",)


def demo(
    path: Annotated[
        Path | None,
        typer.Option(help="An empty or new directory, which is not deleted afterwards.", show_default="temporary"),
    ] = None,
    days: Annotated[int, typer.Option(min=7, max=60, help="Number of daily deliveries.")] = 10,
    rows: Annotated[int, typer.Option(min=100, max=1_000_000, help="Approximate number of bookings a day.")] = 4_000,
) -> None:
    """Loads a bank's daily files into a Delta table through Spark, and reads them with and without
    Spark."""
    from deltaplane.demo import run as run_demo

    if not run_demo(path, days=days, rows=rows):
        raise typer.Exit(1)
