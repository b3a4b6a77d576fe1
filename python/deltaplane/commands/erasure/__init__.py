"""`prove_erased`: where the values of erased rows still are, and until when.

After DELETE, rows stay in files that older versions need, and their values in statistics, commands
and checkpoints of the log. The proof reads every object of the table and reports what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaplane.arguments import checked
from deltaplane.commands.erasure.report import ErasureReport, Trace
from deltaplane.commands.erasure.search_terms import SearchTerms

if TYPE_CHECKING:
    import os

    from deltaplane.commands.erasure.table_objects import Inspected

__all__ = ["ErasureReport", "SearchTerms", "Trace", "prove_erased"]


@checked(table="DeltaTable")
def prove_erased(table: Inspected, where: str, cache_dir: str | os.PathLike[str] | None = None) -> ErasureReport:
    """Searches everything that a table stores for rows and for their values.

    Reads every object below the table's location: data files of all versions and files of none,
    deletion vectors, change files, commits, checkpoints and checksums. Cost: the bytes of the
    columns in `where` in all data files, and all bytes of the log. Memory holds one batch of rows,
    and one commit or row of a checkpoint.

    Args:
        table: the table; its newest version is inspected.
        where: the rows that were erased, in Spark SQL: comparisons of columns with values by `=`,
            `<=>` and `IN`, combined by AND and OR.
        cache_dir: the directory of the local cache; by default the environment's.

    Raises:
        InvalidArgumentError: a condition that names no values to search for, or that doesn't fit
            the table.
        DeltaError: the table can't be read.
    """
    from deltaplane.commands.erasure.searching import Search

    return Search(table, SearchTerms.of(where), cache_dir).run()
