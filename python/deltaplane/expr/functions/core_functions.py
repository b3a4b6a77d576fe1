"""The functions of the core that DuckDB calls where it has no function with Spark's results."""

from __future__ import annotations

from typing import Any

from deltaplane.expr.functions import decimals, mathematics

__all__ = ["register"]


def register(connection: Any, sql: str, known: set[str]) -> None:
    """Makes the functions that a statement calls known to a DuckDB connection, and adds their names
    to those that it knows already."""
    for family in (decimals, mathematics):
        family.register(connection, sql, known)
