"""The methods of `DeltaTable` that change rows, under deltalake's names; `deltaplane.commands` does
the work."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.expr import Predicate
from deltaplane.io.tracing import traced
from deltaplane.write.refresh import refresh_after_commit

if TYPE_CHECKING:
    from deltaplane import _native
    from deltaplane.commands.dry_run import DryRun
    from deltaplane.commands.merge.clauses import Clause
    from deltaplane.commands.rewriting import CommandResult, Target
    from deltaplane.properties import CommitProperties, PostCommitHookProperties, WriterProperties
    from deltaplane.table.merge import TableMerger
    from deltaplane.table.results import DeletedRows, MergedRows, PurgedFiles, UpdatedRows

__all__ = ["COMMON_METRICS", "RowCommands"]

# Metrics that every command returns, even if it changed nothing.
COMMON_METRICS = ("num_added_files", "num_removed_files", "num_copied_rows", "execution_time_ms", "scan_time_ms")


@checked(updates="Mapping[str, object] | None")
class RowCommands:
    """DELETE, UPDATE, MERGE and purge. Each call is one commit; a failed one leaves the table as it
    was."""

    _location: str
    _snapshot: _native.Snapshot

    @overload
    def delete(
        self,
        predicate: Predicate | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: Literal[False] = False,
    ) -> DeletedRows: ...
    @overload
    def delete(
        self,
        predicate: Predicate | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @traced("DELETE")
    def delete(
        self,
        predicate: Predicate | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: bool = False,
    ) -> DeletedRows | DryRun:
        """Deletes the rows that match a condition, or all rows without a condition; the object
        moves to the committed version.

        A condition over partition columns removes whole files and reads no file. Other conditions
        mark rows in deletion vectors if `delta.enableDeletionVectors` is true, which writes no
        rows; otherwise the files with matching rows are rewritten without them.

        Args:
            predicate: Spark SQL, or tuples as in `scan`.
            writer_properties, commit_properties, post_commithook_properties: see these classes.
            dry_run: whether to write nothing and return the planned changes as a `DryRun`.

        Returns:
            `num_deleted_rows`, `num_added_files`, `num_removed_files`, `num_copied_rows`, times in
            milliseconds and the other metrics of the commit. Nothing is committed if no row
            matches.

        Raises:
            InvalidArgumentError: an invalid condition, an append-only table (P100), or a row for
                which evaluating the condition fails.
            UnsupportedExpressionError: deltaplane can't evaluate the named expression with Spark's
                result.
            DeltaConcurrentModificationException: another writer changed matching rows first;
                nothing was committed.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-delete/t", pa.table({"x": [1, 2, 3]}))
        >>> table = DeltaTable("memory://doc-delete/t")
        >>> table.delete("x > 1")["num_deleted_rows"], table.to_pyarrow_table()["x"].to_pylist()
        (2, [1])
        """
        from deltaplane.commands.delete import delete
        from deltaplane.commands.rewriting import Settings

        settings = Settings(writer_properties, commit_properties, post_commithook_properties, dry_run=dry_run)
        return cast(
            "DeletedRows | DryRun",
            self._apply_result(delete(self._target(), predicate, settings), ("num_deleted_rows", *COMMON_METRICS)),
        )

    @overload
    def update(
        self,
        updates: Mapping[str, str] | None = None,
        new_values: Mapping[str, Any] | None = None,
        predicate: Predicate | None = None,
        writer_properties: WriterProperties | None = None,
        error_on_type_mismatch: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: Literal[False] = False,
    ) -> UpdatedRows: ...
    @overload
    def update(
        self,
        updates: Mapping[str, str] | None = None,
        new_values: Mapping[str, Any] | None = None,
        predicate: Predicate | None = None,
        writer_properties: WriterProperties | None = None,
        error_on_type_mismatch: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @traced("UPDATE")
    def update(
        self,
        updates: Mapping[str, str] | None = None,
        new_values: Mapping[str, Any] | None = None,
        predicate: Predicate | None = None,
        writer_properties: WriterProperties | None = None,
        error_on_type_mismatch: bool = True,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: bool = False,
    ) -> UpdatedRows | DryRun:
        """Assigns new values to the rows that match a condition, or to all rows without a
        condition.

        Expressions read a row's old values. Column names are case-insensitive; fields of structs
        are named by dotted paths. Generated columns that aren't assigned are computed again,
        constraints are checked, and rows keep their ids if the table tracks rows.

        Args:
            updates: column → expression in Spark SQL.
            new_values: column → Python value.
            predicate: Spark SQL, or tuples as in `scan`.
            writer_properties, commit_properties, post_commithook_properties: see these classes.
            error_on_type_mismatch: must be True: a value of an incompatible type is never stored as
                null.
            dry_run: whether to write nothing and return the planned changes as a `DryRun`.

        Returns:
            `num_updated_rows`, `num_added_files`, `num_removed_files`, `num_copied_rows`, times in
            milliseconds and the other metrics of the commit. Nothing is committed if no row
            matches.

        Raises:
            InvalidArgumentError: no assignment, an unknown column, an invalid expression, an
                append-only table (P100), or a row for which computing a value fails.
            SchemaMismatchError: a value's type is incompatible with its column.
            ConstraintViolationError: a new value violates a constraint (P101-P105).
            UnsupportedExpressionError: deltaplane can't evaluate the named expression with Spark's
                result.
            DeltaConcurrentModificationException: another writer changed matching rows first;
                nothing was committed.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-update/t", pa.table({"x": [1, 2], "y": ["a", "b"]}))
        >>> table = DeltaTable("memory://doc-update/t")
        >>> table.update({"x": "x * 10"}, predicate="y = 'b'")["num_updated_rows"]
        1
        >>> sorted(table.to_pyarrow_table()["x"].to_pylist())
        [1, 20]
        """
        if not error_on_type_mismatch:
            raise UnsupportedFeatureError(
                "error_on_type_mismatch=False would store nulls for values that a column doesn't take: use try_cast"
            )
        from deltaplane.commands.merge.assignments import Assignments
        from deltaplane.commands.rewriting import Settings
        from deltaplane.commands.update import update

        assignments = Assignments(self._snapshot.schema, updates or {}, new_values or {})
        settings = Settings(writer_properties, commit_properties, post_commithook_properties, dry_run=dry_run)
        done = update(self._target(), assignments, predicate, settings)
        return cast("UpdatedRows | DryRun", self._apply_result(done, ("num_updated_rows", *COMMON_METRICS)))

    @checked(predicate="Sql")
    def merge(
        self,
        source: Any,
        predicate: str,
        source_alias: str | None = None,
        target_alias: str | None = None,
        merge_schema: bool = False,
        error_on_type_mismatch: bool = True,
        writer_properties: WriterProperties | None = None,
        streamed_exec: bool = True,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        memory_limit: int | str | None = None,
        temp_directory: str | None = None,
    ) -> TableMerger:
        """Builds a merge: joins a source to the table, then updates, deletes and inserts rows in
        one commit.

        Skips files that can't hold a match, by the source's smallest and largest keys or by
        partition values. Of the other files it reads first the columns of the conditions, then the
        rows that change. Old rows are marked in deletion vectors, or their files rewritten,
        depending on `delta.enableDeletionVectors`. Memory grows with the source and the changed
        rows; beyond `memory_limit`, rows go to disk.

        Args:
            source: anything with `__arrow_c_stream__` or `__arrow_c_array__`, such as another
                table. Each execution reads it once; a stream allows only one execution.
            predicate: the join condition, as Spark SQL over the columns of both.
            source_alias, target_alias: names for them in expressions.
            merge_schema: whether to add the source's columns that a clause uses and the table
                lacks.
            error_on_type_mismatch: must be True: a value of an incompatible type is never stored as
                null.
            streamed_exec: has no effect: sources are always streamed, and their keys always prune
                files.
            writer_properties, commit_properties, post_commithook_properties: see these classes.
            memory_limit: bytes, or a text such as `500MB`, beyond which rows go to disk; default 80
                % of the machine's memory. `max_spill_size` is deltalake's name for it.
            max_temp_directory_size: maximum bytes on disk; default no limit.
            temp_directory: directory for rows on disk; default the system's temporary directory.

        Returns:
            A builder: add clauses, then `execute`.

        Raises:
            TypeError: the source isn't Arrow data.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-merge/t", pa.table({"id": [1, 2], "name": ["a", "b"]}))
        >>> table = DeltaTable("memory://doc-merge/t")
        >>> new = pa.table({"id": [2, 3], "name": ["B", "C"]})
        >>> merger = table.merge(new, "t.id = s.id", source_alias="s", target_alias="t")
        >>> merger.when_matched_update_all().when_not_matched_insert_all().execute()["num_target_rows_inserted"]
        1
        """
        if not error_on_type_mismatch:
            raise UnsupportedFeatureError(
                "error_on_type_mismatch=False would store nulls for values that a column doesn't take: use try_cast"
            )
        if memory_limit is not None and max_spill_size is not None:
            raise InvalidArgumentError("memory_limit and max_spill_size are two names for one limit: give one")
        from deltaplane.commands.merge.clauses import expression
        from deltaplane.commands.merge.source import MergeSource
        from deltaplane.table.merge import MERGE_METRICS, TableMerger

        expression(predicate, "the merge's predicate")
        rows = MergeSource(source)
        settings = (writer_properties, commit_properties, post_commithook_properties)

        def run(clauses: Sequence[Clause], dry_run: bool, of_itself: bool) -> MergedRows | DryRun:
            from deltaplane.commands.duckdb_engine import Memory
            from deltaplane.commands.merge.run import Merge, merge
            from deltaplane.commands.rewriting import Settings

            what = Merge(
                source=rows.reader(),
                predicate=predicate,
                clauses=clauses,
                source_alias=source_alias,
                target_alias=target_alias,
                merge_schema=merge_schema,
                memory=Memory(memory_limit or max_spill_size, temp_directory, max_temp_directory_size),
                reads_others=of_itself,
            )
            done = merge(self._target(), what, Settings(*settings, dry_run=dry_run))
            return cast("MergedRows | DryRun", self._apply_result(done, MERGE_METRICS))

        return TableMerger(run, self)

    @overload
    def purge(
        self,
        partition_filters: Predicate | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: Literal[False] = False,
    ) -> PurgedFiles: ...
    @overload
    def purge(
        self,
        partition_filters: Predicate | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: Literal[True],
    ) -> DryRun: ...
    @traced("PURGE")
    def purge(
        self,
        partition_filters: Predicate | None = None,
        writer_properties: WriterProperties | None = None,
        *,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        dry_run: bool = False,
    ) -> PurgedFiles | DryRun:
        """Rewrites files that hold removed data: rows deleted by vectors, dropped columns, and
        values in types that were widened later (`REORG TABLE … APPLY (PURGE)`). Rows and row ids
        stay the same.

        The old files stay for time travel until VACUUM deletes them. Reads the footer of each file.

        Args:
            partition_filters: selects partitions, as Spark SQL or tuples over partition columns;
                default all.
            writer_properties, commit_properties, post_commithook_properties: see these classes.
            dry_run: whether to write nothing and return the planned changes as a `DryRun`.

        Returns:
            `num_added_files`, `num_removed_files`, `num_copied_rows`, times in milliseconds and
            more. Nothing is committed if no file needs rewriting.

        Raises:
            UnsupportedExpressionError: a condition over other columns than partition columns.
            DeltaConcurrentModificationException: another writer changed one of the files first.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> vectors = {"delta.enableDeletionVectors": "true"}
        >>> _ = write_deltalake("memory://doc-purge/t", pa.table({"x": [1, 2, 3]}), configuration=vectors)
        >>> table = DeltaTable("memory://doc-purge/t")
        >>> _ = table.delete("x = 2")
        >>> table.purge()["num_copied_rows"], table.purge()["num_removed_files"]
        (2, 0)
        """
        from deltaplane.commands.purge import purge
        from deltaplane.commands.rewriting import Settings

        settings = Settings(writer_properties, commit_properties, post_commithook_properties, dry_run=dry_run)
        return cast(
            "PurgedFiles | DryRun",
            self._apply_result(purge(self._target(), partition_filters, settings), COMMON_METRICS),
        )

    def run_command(
        self, run: Callable[[Target], CommandResult], always: Sequence[str] = COMMON_METRICS
    ) -> dict[str, Any] | DryRun:
        """Runs a command of `deltaplane.commands` on this version and moves the object to the
        committed version.

        Returns:
            Returns the command's metrics, including every name of `always`, or the plan of a dry
            run.
        """
        return self._apply_result(run(self._target()), always)

    def _target(self) -> Target:
        from deltaplane.commands.rewriting import Target

        return Target(self._location, self._snapshot)

    def _move_to_own_commit(self, version: int) -> None:
        self._snapshot = self._snapshot.after_own_commit(version)

    def _move_to_newest(self) -> None:
        self._snapshot = self._snapshot.update()

    def _apply_result(self, metrics: CommandResult, always: Sequence[str]) -> dict[str, Any] | DryRun:
        """Moves the object to the version that a command committed and returns the metrics under
        deltalake's names, including every name of `always`."""
        if not isinstance(metrics, dict):
            return metrics
        if "version" in metrics:
            version = metrics["version"]
            refresh_after_commit(lambda: self._move_to_own_commit(version))
            if any(self._snapshot.follow_up):
                from deltaplane.commands.optimize import after_commit

                after_commit(lambda: self._snapshot)
                refresh_after_commit(self._move_to_newest)
        snake = {re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower(): value for name, value in metrics.items()}
        return {**dict.fromkeys(always, 0), **snake}
