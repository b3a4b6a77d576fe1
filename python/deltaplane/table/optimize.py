"""`DeltaTable.optimize`: the methods that change how a table's rows lie in files, under deltalake's
names.

Arguments in, results out; `commands.optimize` does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.expr import Predicate

if TYPE_CHECKING:
    from datetime import timedelta

    from deltaplane import _native
    from deltaplane.commands.optimize import Layout, Progress
    from deltaplane.commands.rewriting import Settings, Target
    from deltaplane.properties import CommitProperties, PostCommitHookProperties, WriterProperties

__all__ = ["LayoutCommands", "TableOptimizer"]


class LayoutCommands:
    """How a table's rows lie in files."""

    _snapshot: _native.Snapshot

    if TYPE_CHECKING:

        def _target(self) -> Target: ...

    @property
    def optimize(self) -> TableOptimizer:
        """Commands that write files anew so that the table is read well; no row changes."""
        return TableOptimizer(self)

    def _optimized(self, what: Layout, settings: Settings) -> dict[str, Any]:
        """Runs OPTIMIZE; shows the version that it made."""
        from deltaplane.commands.optimize import optimize

        try:
            return optimize(self._target(), what, settings)
        finally:
            # Where it fails after some commits, those are there.
            if not what.dry_run:
                self._snapshot = self._snapshot.update()


@checked()
class TableOptimizer:
    """What `DeltaTable.optimize` returns.

    Rows stay as they are, with their ids; the change data feed shows nothing. What others append
    meanwhile is in nobody's way, and rows that they delete by vectors stay deleted; groups of files
    of which another writer wrote one anew meanwhile are left to that writer, and it is a conflict
    where no group is left. Old files stay for time travel until they are vacuumed. Each commit
    stands for itself: a command that fails leaves those that it made.
    """

    def __init__(self, table: LayoutCommands) -> None:
        self._table = table

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
    ) -> dict[str, Any]:
        """Puts small files together; a clustered table's new files are clustered (P152).

        Small is below three quarters of the target size. Files of one partition that were written
        after each other go into one file. Files with many deleted rows are written anew without
        them. Done again nothing is to do. A clustered table's rows are brought along a Hilbert
        curve through its columns: those of new files, and of earlier runs that aren't much larger;
        files that were clustered by other columns stay.

        Args:
            partition_filters: which partitions, as Spark SQL or tuples over partition columns; all
                unless given.
            target_size: bytes of a file, about; unless given `delta.targetFileSize`, or 256 MiB to
                1 GiB by the table's size (2.5 to 10 TiB).
            max_concurrent_tasks: groups of files at a time; as many as cores unless given.
            memory_limit: bytes, or a text such as `500MB`, of rows that are held while they are
                sorted; others go to temporary files. 256 MiB unless given. `max_spill_size` is
                deltalake's name for it.
            max_temp_directory_size: must be None.
            min_commit_interval: seconds: what is done is committed that often, 0 after each group.
                Else there is one commit at the end.
            full: also files that are clustered already, by whatever columns.
            max_deleted_rows_ratio: from which share of rows deleted by vectors a file is written
                anew.
            dry_run: only say what would be done: `numFilesToRewrite`, `numBytesToRewrite`,
                `numBatches`.
            progress: called after each group of files, in this thread.
            writer_properties, commit_properties, post_commithook_properties: see these classes.

        Returns:
            `numFilesAdded`, `numFilesRemoved`, `partitionsOptimized` and more, as deltalake names
            them, and `versions` that were made. The commits' metrics have delta-spark's names.

        Raises:
            InvalidArgumentError: an argument out of range; `full` on a table that isn't clustered.
            UnsupportedExpressionError: a condition over other columns than partitions'.
            DeltaConcurrentModificationException: other writers changed files of all groups first;
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
    ) -> dict[str, Any]:
        """Writes rows anew in an order in which those that are near in the columns stand in few
        files, so that scans skip the others.

        Values count by their rank in a sample, so that skew doesn't matter; any type that can be
        ordered will do. Files say in tags what they are ordered by: done again only new files are
        ordered, with those of earlier runs that aren't much larger.

        Args:
            columns: up to twelve, which should have statistics; fields of structs with dots.
            curve: `zorder`, `hilbert` (better for most columns), or `kdtree`, a box of values for
                each file: best on average, less even between the columns.
            full: also files that are in this order already.
            partition_filters, target_size, max_concurrent_tasks, max_spill_size,
                max_temp_directory_size, min_commit_interval, memory_limit, max_deleted_rows_ratio,
                dry_run, progress, writer_properties, commit_properties, post_commithook_properties:
                as in `compact`.

        Returns:
            As `compact`.

        Raises:
            InvalidArgumentError: columns by which rows can't be ordered, a clustered table; as
                `compact`.
            UnsupportedExpressionError, DeltaConcurrentModificationException: as `compact`.

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
