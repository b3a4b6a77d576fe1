"""`DeltaTable.advise` and `maintain`: proposes maintenance from a table's log, statistics and
workload, and runs it.

Converts arguments and results.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io.tracing import traced

if TYPE_CHECKING:
    from datetime import timedelta

    from deltaplane import _native
    from deltaplane.advisor.advice import AdviceReport, MaintenanceReport, MaintenanceStep
    from deltaplane.advisor.workload import Predicates

__all__ = ["TableUpkeep"]

_TIMES = {"": 1, "s": 1, "m": 60, "h": 3_600}


@checked(predicates="Iterable | PathLike | str | None")
class TableUpkeep:
    """Methods that propose and run maintenance."""

    _snapshot: _native.Snapshot
    _location: str

    @traced("ADVISE")
    def advise(self, predicates: Predicates | None = None, *, sample_rows: int = 65_536) -> AdviceReport:
        """Proposes maintenance for this version: joining files, another order of the rows (by which
        columns and curve), clustering columns, purge, vacuum, checkpoint, statistics, indexes of
        keys, properties. Changes nothing.

        Figures about the present layout are exact: each predicate is planned with the table's own
        statistics, and VACUUM's file list is computed. Other orders of the rows are modelled: a
        sample of the rows (pages at some 256 positions) is sorted into as many files as a rewrite
        of a partition would make, in a table in memory, and the pruner computes what it would read.
        Bounds of modelled files are slightly narrower than those of real files would be. Opening a
        file counts as reading 4 MiB.

        Args:
            predicates: the workload: a list of predicates (Spark SQL or tuples), or of
                `{"predicate": …, "weight": …}`, or the path of a file with one predicate a line
                (SQL, or JSON for a weight). At most the 200 heaviest distinct predicates count.
                Without a workload, look-ups of values and ranges are drawn from the sample, for at
                most eight columns, together with a read of all rows.
            sample_rows: approximate number of sampled rows.

        Returns:
            The advice in descending order of gain per byte, empty if no maintenance pays, with the
            cost of the present layout and of each layout that was tried. `print` shows each piece
            with its reason, cost and command.

        Cost: a pass over the file list (columns, no object for each file), a plan for each
        predicate and layout, the sample's pages, and for VACUUM a request for each file that was
        removed before the retention.

        Raises:
            InvalidArgumentError: no predicate is usable, the workload file can't be read, or
                `sample_rows` is below 1.
            UnsupportedFeatureError: this version can't write the table.

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

    @traced("MAINTAIN")
    def maintain(
        self,
        *,
        budget: int | str | None = None,
        max_time: float | str | timedelta | None = None,
        predicates: Predicates | None = None,
        dry_run: bool = False,
        progress: Callable[[MaintenanceStep], object] | None = None,
    ) -> MaintenanceReport:
        """Runs what `advise` proposes for the newest version, highest gain per byte first:
        checkpoint, VACUUM (of files that the log records as removed, with the table's retention),
        OPTIMIZE, purge, extending indexes of keys, and with `predicates` also another order of the
        rows. Repeats the analysis after each step. Never changes properties, columns with
        statistics, or clustering columns, and adds no index.

        Works beside other writers: a step that loses a conflict is reported as lost, and the next
        step runs.

        Args:
            budget: maximum number of bytes of old files to rewrite, or a text such as `10GB`;
                groups of files beyond it are left out.
            max_time: seconds, or a text such as `30m`, after which no step starts; a running step
                is completed.
            predicates: as in `advise`.
            dry_run: whether to only plan: each step makes its own dry run on the unchanged table.
            progress: called after each step, in this thread.

        Returns:
            The steps, each `done`, `planned`, `skipped` or `lost`, with reasons and the results of
            their commands.

        Raises:
            InvalidArgumentError: an invalid budget or time, or an error as in `advise`.

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
