"""The demo: a bank's daily files through Spark into a Delta table, read back with and without
Spark.

`run` is what `deltaplane demo` calls; it returns whether every total reconciled. Imports Spark when
it runs.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["run"]


def run(path: Path | None = None, *, days: int = 10, rows: int = 4_000) -> bool:
    """Runs the demo in `path` (kept) or a temporary directory (removed). Needs Java 17 and the
    extras cli and spark.

    Returns whether the table's totals are those of the files, by Arrow, by Spark and at an older
    version.
    """
    import tempfile

    from deltaplane.demo.show import show

    if path is not None:
        return show(path, days=days, rows=rows, keep=True)
    with tempfile.TemporaryDirectory(prefix="deltaplane-demo-") as directory:
        return show(Path(directory), days=days, rows=rows, keep=False)
