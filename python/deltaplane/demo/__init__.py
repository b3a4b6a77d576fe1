"""The demos: a bank's daily files through Spark into a Delta table, read with and without Spark;
and two tables of a catalog in one transaction.

`deltaplane demo` calls `run` or `run_catalog`, which return whether every total reconciled. Imports
Spark at the call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["run", "run_catalog"]


def run(path: Path | None = None, *, days: int = 10, rows: int = 4_000) -> bool:
    """Runs the demo in `path`, which is kept, or in a temporary directory, which is deleted. Needs
    Java 17 and the extras cli and spark.

    Returns whether the table's totals, read by Arrow, by Spark and at an older version, equal those
    of the files.
    """
    from deltaplane.demo.show import show

    return _in_directory(show, path, days, rows)


def run_catalog(path: Path | None = None, *, days: int = 10, rows: int = 4_000) -> bool:
    """Runs the demo of catalogs in `path`, which is kept, or in a temporary directory, which is
    deleted. Needs the extra cli.

    Returns whether both tables agree with the bookings that were loaded.
    """
    from deltaplane.demo.catalog import show

    return _in_directory(show, path, days, rows)


def _in_directory(show: Callable[..., bool], path: Path | None, days: int, rows: int) -> bool:
    import tempfile

    if path is not None:
        return show(path, days=days, rows=rows, keep=True)
    with tempfile.TemporaryDirectory(prefix="deltaplane-demo-") as directory:
        return show(Path(directory), days=days, rows=rows, keep=False)
