"""`DeltaTable.advise` and `maintain`: what would pay for a table by its log, statistics and
workload, and doing it.

Arguments in, results out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from datetime import timedelta

    from deltaplane import _native
    from deltaplane.advisor.advice import AdviceReport, MaintenanceReport, MaintenanceStep
    from deltaplane.advisor.workload import Predicates

__all__ = ["TableUpkeep"]

_TIMES = {"": 1, "s": 1, "m": 60, "h": 3_600}


@checked(predicates="Iterable | PathLike | str | None")
class TableUpkeep:
    """What a table needs."""

    _snapshot: _native.Snapshot
    _location: str

    def advise(self, predicates: Predicates | None = None, *, sample_rows: int = 65_536) -> AdviceReport:
        """Says what would pay for the version that this object shows: files put together, rows in
        another order (by which columns and curve), clustering keys, purge, vacuum, checkpoint,
        statistics, properties. Changes nothing.

        What is read today is exact: each predicate is planned over the table's own statistics. So
        is what VACUUM would free. Other orders of the rows are modelled: rows are sampled (pages at
        some 256 places), brought into the order and into as many files as a rewrite of a partition
        would make, written to a table in memory, and the same pruner says what is left of it;
        bounds of sampled files are a little narrower than real ones would be. A file that is opened
        counts as 4 MiB beside its bytes.

        Args:
            predicates: the workload: a list of predicates (Spark SQL or tuples), or of
                `{"predicate": …, "weight": …}`, or the path of a file with one a line (SQL, or JSON
                for a weight). At most 200 different ones count, the heaviest. Without it look-ups
                of values and ranges are drawn from the sample, for eight columns at most, with a
                look at all rows.
            sample_rows: about how many rows are sampled.

        Returns:
            The advice in order of gain per byte, empty where nothing pays, with today's reading and
            that of each layout that was tried. Printed, it is a text; each piece says why, what it
            costs and the command for it.

        Cost: a pass over the file list (columns, no object for each file), a plan for each
        predicate and layout, the sample's pages, and for VACUUM a request for each file that was
        removed before the retention.

        Raises:
            InvalidArgumentError: no predicate that can be judged by, a file that can't be read,
                `sample_rows` below 1.
            UnsupportedFeatureError: the table can't be written by this version.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for x in range(4):
        ...     _ = write_deltalake("memory://doc-advise/t", pa.table({"x": [x]}), mode="append")
        >>> report = DeltaTable("memory://doc-advise/t").advise(["x >= 1"])
        >>> report.of("optimize").why, report.of("optimize").now.files, report.of("optimize").then.files
        ('4 of 4 files are small or outdated and become 1', 3.0, 1.0)
        """
        from deltaplane.advisor.advising import Asked, advise

        if sample_rows < 1:
            raise InvalidArgumentError(f"sample_rows is a number of rows, not {sample_rows}")
        return advise(self._location, self._snapshot, Asked(predicates, sample_rows))

    def maintain(
        self,
        *,
        budget: int | str | None = None,
        max_time: float | str | timedelta | None = None,
        predicates: Predicates | None = None,
        dry_run: bool = False,
        progress: Callable[[MaintenanceStep], object] | None = None,
    ) -> MaintenanceReport:
        """Does what `advise` says of the newest version, the most gain for its bytes first:
        checkpoint, VACUUM (of files the log knows, by the table's retention), OPTIMIZE, purge; with
        `predicates` also another order of the rows. Advice is taken anew after each step.
        Properties, statistics' columns and clustering keys are never changed.

        Others may write meanwhile: a step that loses to another writer is reported, and the next
        one is taken.

        Args:
            budget: bytes of old files that may be rewritten, or a text such as `10GB`; groups of
                files beyond are left.
            max_time: seconds, or a text such as `30m`: what begins later is left. What was begun is
                finished.
            predicates: as in `advise`.
            dry_run: only say what would be done: each step by its own dry run, on the table as it
                is.
            progress: called after each step, in this thread.

        Returns:
            The steps: `done`, `planned`, `skipped` or `lost`, with reasons and what their commands
            report.

        Raises:
            InvalidArgumentError: a budget or time that is none; as `advise`.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for x in range(4):
        ...     _ = write_deltalake("memory://doc-maintain/t", pa.table({"x": [x]}), mode="append")
        >>> table = DeltaTable("memory://doc-maintain/t")
        >>> [(step.kind, step.state) for step in table.maintain().steps], len(table.files())
        ([('optimize', 'done')], 1)
        """
        from deltaplane.advisor.maintaining import Budget, Maintained, maintain
        from deltaplane.commands.duckdb_engine import size_bytes

        most = None if budget is None else size_bytes(budget, "budget")
        until = None if max_time is None else time.monotonic() + _seconds(max_time)
        return maintain(cast(Maintained, self), Budget(most, until), predicates, dry_run, progress)


def _seconds(value: float | str | timedelta) -> float:
    if not isinstance(value, (float, int, str)):
        return value.total_seconds()
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*([smh]?)\s*", str(value))
    if match is None:
        raise InvalidArgumentError(f"max_time is seconds or a text such as '90s', '30m' or '2h', not {value!r}")
    return float(match[1]) * _TIMES[match[2]]
