"""`deltaplane demo`: loads data and reads it back, through Spark, or through a catalog.

Uses the public API only.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]

EXAMPLES = ("deltaplane demo --days 10", "deltaplane demo catalog")


class Demonstration(str, Enum):
    """The demos."""

    SPARK = "spark"
    CATALOG = "catalog"


def demo(
    which: Annotated[Demonstration, typer.Argument(help="Which demo to run.")] = Demonstration.SPARK,
    path: Annotated[
        Path | None,
        typer.Option(help="An empty or new directory, which is not deleted afterwards.", show_default="temporary"),
    ] = None,
    days: Annotated[int, typer.Option(min=7, max=60, help="Number of daily deliveries.")] = 10,
    rows: Annotated[int, typer.Option(min=100, max=1_000_000, help="Approximate number of bookings a day.")] = 4_000,
) -> None:
    """Loads a bank's daily files into a Delta table through Spark, and reads them with and without
    Spark. `catalog` loads two tables of a catalog in one transaction, and reads them with DuckDB,
    without Spark."""
    from deltaplane import demo as demos

    run_demo = demos.run_catalog if which is Demonstration.CATALOG else demos.run
    if not run_demo(path, days=days, rows=rows):
        raise typer.Exit(1)
