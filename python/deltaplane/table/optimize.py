"""`DeltaTable.optimize`: the methods that change the layout of a table's files, under deltalake's
names.

Converts arguments and results; `commands.optimize` does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, cast

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.expr import Predicate
from deltaplane.io.tracing import traced
from deltaplane.write.refresh import refresh_after_commit

if TYPE_CHECKING:
    from datetime import timedelta

    from deltaplane import _native
    from deltaplane.commands.optimize import Layout, Progress
    from deltaplane.commands.rewriting import Settings, Target
    from deltaplane.properties import CommitProperties, PostCommitHookProperties, WriterProperties
    from deltaplane.table.results import OptimizedFiles

__all__ = ["LayoutCommands", "TableOptimizer"]


class LayoutCommands:
    """Commands that change the layout of a table's files."""

    _snapshot: _native.Snapshot

    if TYPE_CHECKING:

        def _target(self) -> Target: ...

    @property
    def optimize(self) -> TableOptimizer:
        """Commands that rewrite files so that scans read less; no row changes."""
        return TableOptimizer(self)

    def _optimized(self, what: Layout, settings: Settings) -> OptimizedFiles:
        """Runs OPTIMIZE and moves the object to the committed version."""
        from deltaplane.commands.optimize import optimize

        versions: list[int] = []
        try:
            result = cast("OptimizedFiles", optimize(self._target(), what, settings))
            versions = result.get("versions", [])
            return result
        finally:
            # A failure after some commits leaves those commits in place.
            if not what.dry_run:
                refresh_after_commit(lambda: self._move_to(versions[-1] if versions else None))

    def _move_to(self, version: int | None) -> None:
        """Moves to a version that this process committed, or to the newest one."""
        before = self._snapshot
        self._snapshot = before.update() if version is None else before.after_own_commit(version)


@checked()
class TableOptimizer:
    """What `DeltaTable.optimize` returns.

    Rows and row ids stay the same; the change data feed shows no change. Concurrent appends don't
    conflict, and rows that concurrent commits delete by vectors stay deleted. A group of files is
    skipped if another writer rewrote one of its files; the command fails with a conflict only if no
    group is left. Old files stay for time travel until VACUUM deletes them. Each commit is
    independent: a command that fails keeps the commits that it made.
    """

    def __init__(self, table: LayoutCommands) -> None:
        self._table = table

    @traced("OPTIMIZE")
    def compact(
        self,
        partition_filters: Predicate | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        memory_limit: int | str | None = None,
        full: bool = False,
        max_deleted_rows_ratio: float = 0.05,
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> OptimizedFiles:
        """Joins small files; in a clustered table, also orders the rows of new files (P152).

        A file is small below three quarters of the target size. Files of one partition are joined
        in the order in which they were written. Files with many deleted rows are rewritten without
        these rows. A second run without new files does nothing. A clustered table's rows are
        ordered along a Hilbert curve through its columns: rows of new files, and of earlier runs
        that aren't much larger; files that were clustered by other columns stay as they are.

        Args:
            partition_filters: selects partitions, as Spark SQL or tuples over partition columns;
                default all.
            target_size: approximate bytes of a file; default `delta.targetFileSize`, or 256 MiB to
                1 GiB by the table's size (2.5 to 10 TiB).
            max_concurrent_tasks: groups of files in progress at once; default the number of cores.
            memory_limit: bytes, or a text such as `500MB`, of rows held in memory for sorting;
                other rows go to temporary files. Default 256 MiB. `max_spill_size` is deltalake's
                name for it.
            max_temp_directory_size: must be None.
            min_commit_interval: minimum seconds between commits of finished groups, 0 for a commit
                after each group. Default: one commit at the end.
            full: whether to rewrite files that are already clustered, by any columns.
            max_deleted_rows_ratio: share of rows deleted by vectors from which a file is rewritten.
            dry_run: whether to return only the planned work: `numFilesToRewrite`,
                `numBytesToRewrite`, `numBatches`.
            progress: called after each group of files, in this thread. An exception that it raises
                ends the command: commits that were made stay, and a note on the exception names
                their versions; another call continues.
            writer_properties, commit_properties, post_commithook_properties: see these classes.

        Returns:
            `numFilesAdded`, `numFilesRemoved`, `partitionsOptimized` and more, as deltalake names
            them, and the committed `versions`. The commits' metrics have delta-spark's names.

        Raises:
            InvalidArgumentError: an argument is out of range, or `full` on a table that isn't
                clustered.
            UnsupportedExpressionError: a condition over other columns than partition columns.
            DeltaConcurrentModificationException: other writers changed files of every group first,
                as in `delete`.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for x in range(3):
        ...     _ = write_deltalake("memory://doc-optimize/t", pa.table({"x": [x]}), mode="append")
        >>> table = DeltaTable("memory://doc-optimize/t")
        >>> done = table.optimize.compact()
        >>> done["numFilesRemoved"], done["numFilesAdded"], len(table.files())
        (3, 1, 1)
        """
        what = _layout(
            partition_filters,
            max_concurrent_tasks,
            max_spill_size,
            max_temp_directory_size,
            min_commit_interval,
            memory_limit,
            full,
            max_deleted_rows_ratio,
            dry_run,
            progress,
        )
        settings = _settings(writer_properties, commit_properties, post_commithook_properties, target_size)
        return self._table._optimized(what, settings)

    @traced("OPTIMIZE")
    def z_order(
        self,
        columns: Iterable[str],
        partition_filters: Predicate | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        curve: Literal["zorder", "hilbert", "kdtree"] = "zorder",
        memory_limit: int | str | None = None,
        full: bool = False,
        max_deleted_rows_ratio: float = 0.05,
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> OptimizedFiles:
        """Orders rows along a space-filling curve, so that rows with similar values are in few
        files and scans skip the other files.

        Values are compared by rank in a sample, so skew has no effect; every type with an order is
        accepted. Tags of the files record the order, so a second run orders only new files,
        together with earlier runs that aren't much larger.

        Args:
            columns: up to twelve columns, which should have statistics; fields of structs by dotted
                paths.
            curve: `zorder`, `hilbert` (better for most columns), or `kdtree`, which gives each file
                a box of values: best on average, less even between the columns.
            full: whether to rewrite files that are already in this order.
            partition_filters, target_size, max_concurrent_tasks, max_spill_size,
                max_temp_directory_size, min_commit_interval, memory_limit, max_deleted_rows_ratio,
                dry_run, progress, writer_properties, commit_properties, post_commithook_properties:
                as in `compact`.

        Returns:
            Metrics, as in `compact`.

        Raises:
            InvalidArgumentError: a column has no order, the table is clustered, or an argument is
                refused as in `compact`.
            UnsupportedExpressionError, DeltaConcurrentModificationException: as in `compact`.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> rows = pa.table({"x": [n % 8 for n in range(64)], "y": [n // 8 for n in range(64)]})
        >>> _ = write_deltalake("memory://doc-z-order/t", rows)
        >>> table = DeltaTable("memory://doc-z-order/t")
        >>> done = table.optimize.z_order(["x", "y"], target_size=1 + table.get_add_actions()["size_bytes"][0].as_py() // 4)
        >>> done["numFilesAdded"], len(table.files("x = 1")), len(table.files("y = 1"))
        (4, 2, 2)
        """
        what = _layout(
            partition_filters,
            max_concurrent_tasks,
            max_spill_size,
            max_temp_directory_size,
            min_commit_interval,
            memory_limit,
            full,
            max_deleted_rows_ratio,
            dry_run,
            progress,
        )
        named = [columns] if isinstance(columns, str) else list(columns)
        if not named:
            raise InvalidArgumentError("z_order needs a column at least")
        from dataclasses import replace

        settings = _settings(writer_properties, commit_properties, post_commithook_properties, target_size)
        return self._table._optimized(replace(what, columns=named, curve=curve), settings)


def _layout(
    partitions: Predicate | None,
    tasks: int | None,
    max_spill_size: int | None,
    max_temp_directory_size: int | None,
    min_commit_interval: int | timedelta | None,
    memory_limit: int | str | None,
    full: bool,
    most_deleted: float,
    dry_run: bool,
    progress: Callable[[Progress], object] | None,
) -> Layout:
    from datetime import timedelta

    from deltaplane.commands.optimize import Layout

    if memory_limit is not None and max_spill_size is not None:
        raise InvalidArgumentError("memory_limit and max_spill_size are two names for one limit: give one")
    if max_temp_directory_size is not None:
        raise UnsupportedFeatureError(
            "temporary files take what the sorted rows beyond memory_limit need: leave max_temp_directory_size out"
        )
    if isinstance(min_commit_interval, timedelta):
        min_commit_interval = int(min_commit_interval.total_seconds())
    return Layout(
        partitions=partitions,
        full=full,
        most_deleted=most_deleted,
        tasks=tasks,
        memory_limit=max_spill_size if memory_limit is None else memory_limit,
        commit_interval=min_commit_interval,
        dry_run=dry_run,
        progress=progress,
    )


def _settings(
    writer: WriterProperties | None,
    commit: CommitProperties | None,
    hook: PostCommitHookProperties | None,
    target_size: int | None,
) -> Settings:
    from deltaplane.commands.rewriting import Settings

    return Settings(writer, commit, hook, target_size)
