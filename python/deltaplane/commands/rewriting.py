"""The steps that commands on rows share: select rows, write new ones, remove the old ones, commit.

A failure before the commit, or a commit that certainly didn't happen, deletes the new files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.phases import phase
from deltaplane.commands.plan_explanation import PlanExplanation
from deltaplane.compat import Protocol
from deltaplane.exceptions import DeltaError
from deltaplane.io import records
from deltaplane.io.arrow import KeptErrors
from deltaplane.metastores.named import keep_in_step
from deltaplane.properties import (
    CommitProperties,
    PostCommitHookProperties,
    WriterProperties,
    commit_request,
    file_request,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.commands.condition import RowSelection

__all__ = ["PATCHED_BYTES", "CommandResult", "Operation", "Rewriting", "Settings", "Target", "rewriting", "rewritten"]

# Smaller files are rewritten completely, several of them as one.
PATCHED_BYTES = 1 << 20

# A command's metrics under delta-spark's names, empty if nothing was committed; or its dry run.
CommandResult = dict[str, int] | DryRun


@dataclass(frozen=True)
class Target:
    """The table that a command changes, at the version that it reads."""

    location: str
    snapshot: _native.Snapshot

    def committed(self) -> None:
        """Called after the command's commit."""


@dataclass(frozen=True)
class Settings:
    """The settings that every command has."""

    writer: WriterProperties | None = None
    commit: CommitProperties | None = None
    hook: PostCommitHookProperties | None = None
    target_file_size: int | None = None
    dry_run: bool = False

    @property
    def free(self) -> bool:
        """Whether files may keep unchanged columns: writer properties set by the caller apply to
        whole files."""
        return self.writer is None and self.target_file_size is None

    @property
    def as_delta_rs(self) -> bool:
        """Whether the command follows delta-rs where its rules differ from delta-spark's."""
        return self.commit is not None and self.commit.as_delta_rs


@dataclass(frozen=True)
class Operation:
    """A command in the log's form.

    The history gets `parameters`. Every row that the command reads satisfies the tree `reads`,
    None for all rows; `condition` is its text. With `reads_others` the result depends on any
    row of the table; `incoming` are the columns of new rows; without `data_change` rows only move.
    `remove_column_mapping` ends the table's column mapping.
    """

    name: str
    parameters: Mapping[str, Any]
    reads: _native.Predicate | None = None
    incoming: records.IncomingRequest | None = None
    data_change: bool = True
    condition: str | None = None
    remove_column_mapping: bool = False
    reads_others: bool = False


class Rewriting:
    """One command in progress. Times in the metrics are in milliseconds.

    A dry run takes the same steps: its files are encoded but not stored, and `dry_run_result`
    describes the commit.
    """

    def __init__(
        self,
        target: Target,
        operation: Operation,
        settings: Settings,
    ) -> None:
        request = records.RewriteRequest(
            operation=operation.name,
            operation_parameters=dict(operation.parameters),
            data_change=operation.data_change,
            predicate=operation.reads,
            reads_others=operation.reads_others,
            incoming=operation.incoming,
            remove_column_mapping=operation.remove_column_mapping,
            files=file_request(settings.writer, settings.target_file_size),
            commit=commit_request(settings.commit, settings.hook),
            dry_run=settings.dry_run,
        )
        self.native = _native.Rewrite.begin(target.snapshot, request)
        self.location = target.location
        self._told: records.PlannedCommit | None = None
        self._target, self._operation, self._dry_run = target, operation, settings.dry_run
        self._files_read = self._bytes_read = 0
        self.skipped = self.native.skip is not None
        # The metrics of a command that commits nothing.
        self.unchanged: dict[str, int] = {}
        self._began = self._scanned = time.monotonic()

    def reads(self, tree: _native.Predicate | None) -> None:
        """Records, for a dry run, that the command reads the files which can contain rows
        satisfying a tree."""
        if self._dry_run:
            plan = PlanExplanation.of(self._target.snapshot.explain(tree))
            self._files_read, self._bytes_read = plan.selected, plan.selected_bytes

    def reads_picked(self) -> None:
        """Records, for a dry run, that the command reads the files of selected rows, unless the
        selection read them."""
        if not self._files_read:
            self._files_read, self._bytes_read = self.native.picked_files, self.native.picked_bytes

    def phase(self, name: str) -> AbstractContextManager[None]:
        """One of the command's phases, for logging."""
        return phase(self._operation.name, self.location, name)

    def select_rows(self, condition: RowSelection) -> int | None:
        """Selects the rows of a condition; returns their number, None if the log doesn't contain
        it."""
        if condition.is_exact and self.native.selects_files:
            with self.phase("find"):
                rows = self.native.pick_files()
            self.found()
            return rows
        self.reads(condition.tree)
        with self.phase("find"):
            return self.pick_rows(condition.rows)

    def pick_rows(self, places: Callable[[], Iterator[pa.RecordBatch]]) -> int:
        """Selects the rows whose `_file` and `_row` a stream contains; returns their number."""
        rows: int = self._streamed(places, self.native.select_rows)
        self.found()
        return rows

    def found(self) -> None:
        """Ends the selection: from now on files are written."""
        self._scanned = time.monotonic()

    def copy_others(self) -> None:
        """Copies the unselected rows of files that are rewritten."""
        if self.native.copies_rows:
            with self.phase("copy"):
                self.native.copy_others()

    def record(self, rows: pa.RecordBatch, change: str) -> None:
        """Records rows as this change, if the table has a change data feed."""
        if self.native.records_changes:
            self.native.record(_reader(rows), change)

    def insert(self, rows: pa.RecordBatch, change: str | None) -> int:
        """Writes new rows of the table; returns their number."""
        return self.native.insert(_reader(rows), change)

    def write(self, rows: Callable[[], Iterator[pa.RecordBatch]], change: str) -> None:
        """Writes rows that replace selected ones, recorded as this change."""
        self._streamed(rows, lambda reader: self.native.write(reader, change))

    def patch(self, rows: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        """Writes the files chosen for patching with new values in columns of selected rows, and
        their other columns unchanged."""
        self._streamed(rows, self.native.patch)

    def finish(self) -> dict[str, int]:
        """Closes the files; returns the metrics of files and times under delta-spark's names."""
        with self.phase("files"):
            summary = self.native.finish()
        ended = time.monotonic()
        summary["scanTimeMs"] = _ms(self._scanned - self._began)
        summary["rewriteTimeMs"] = _ms(ended - self._scanned)
        summary["executionTimeMs"] = _ms(ended - self._began)
        return summary

    def commit(self, metrics: Mapping[str, int | None]) -> dict[str, int]:
        """Commits; returns the known metrics with the version."""
        known = {k: v for k, v in metrics.items() if v is not None}
        texts = {k: str(v) for k, v in known.items()}
        if self._dry_run:
            self._told = self.native.dry_run(texts)
            return known
        with self.phase("commit"):
            done = {**known, "version": self.native.commit(texts)}
        keep_in_step(self.location)
        self._target.committed()
        return done

    def dry_run_result(self) -> DryRun:
        """The result of the dry run."""
        protocols = self.native.protocols
        version = self._target.snapshot.version
        if self._told is None:
            before, skipped = Protocol.of(protocols.before), "txn" if self.skipped else None
            result = DryRun(self._operation.name, version, before, before, skipped=skipped, rows=self.unchanged)
        else:
            result = DryRun.of(self._told, version, protocols, self._operation.condition)
        return replace(result, files_read=self._files_read, bytes_read=self._bytes_read)

    def take_back(self) -> None:
        """Deletes files written before the commit; a commit deletes or retains its files itself."""
        self.native.abort()

    def _streamed(self, rows: Callable[[], Iterator[pa.RecordBatch]], take: Callable[[Any], Any]) -> Any:
        """Passes a stream to the core; raises the stream's own exception."""
        import pyarrow as pa

        batches = rows()
        first = next(batches, None)
        if first is None:
            return 0
        source = KeptErrors(chain([first], batches), self.location)
        try:
            return take(pa.RecordBatchReader.from_batches(first.schema, iter(source)))
        except DeltaError:
            source.raise_error()
            raise


def _reader(rows: pa.RecordBatch) -> pa.RecordBatchReader:
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(rows.schema, [rows])


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def rewriting(
    target: Target, operation: Operation, settings: Settings, run: Callable[[Rewriting], dict[str, int] | None]
) -> CommandResult:
    """Runs a command, or its dry run."""
    job, done = _run(target, operation, settings, run)
    return job.dry_run_result() if settings.dry_run else done


def rewritten(
    target: Target, operation: Operation, settings: Settings, run: Callable[[Rewriting], dict[str, int] | None]
) -> dict[str, int]:
    """Runs a command without a dry run; returns its metrics, empty if nothing was committed."""
    return _run(target, operation, settings, run)[1]


def _run(
    target: Target, operation: Operation, settings: Settings, run: Callable[[Rewriting], dict[str, int] | None]
) -> tuple[Rewriting, dict[str, int]]:
    """Runs a command; deletes all new files if it fails before its commit."""
    job, done = Rewriting(target, operation, settings), None
    if not job.skipped:
        try:
            done = run(job)
        except BaseException:
            job.take_back()
            raise
    return job, job.unchanged if done is None else done
