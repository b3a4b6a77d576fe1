"""OPTIMIZE: rewrites files so that scans read less, by joining small files or by ordering rows.

No row changes. The core selects the files to rewrite (`_native.Layout`); this module runs the job
group by group, and commits once, or at intervals.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from deltaplane import _native
from deltaplane.commands.condition import PredicateSelection
from deltaplane.commands.duckdb_engine import memory_bytes
from deltaplane.commands.rewriting import Settings, Target
from deltaplane.exceptions import NOT_COMMITTED, InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import Predicate
from deltaplane.io import records
from deltaplane.io.index_properties import build_indexes, has_indexes
from deltaplane.io.retry_limit import bounded_after_commit
from deltaplane.properties import commit_request, file_request

__all__ = ["Extender", "Joiner", "Layout", "Mover", "Progress", "after_commit", "begin", "optimize"]

_log = logging.getLogger(__name__)

# A file is rewritten if more than this share of its rows is deleted by a vector, as in delta-spark.
MOST_DELETED = 0.05
# Number of small files in a partition from which auto compaction joins them, as in delta-spark.
_SMALL_FILES = 50
# Default of bytes held in memory for sorting; other rows go to temporary files.
_MEMORY_BYTES = 256 << 20


@dataclass(frozen=True)
class Progress:
    """Progress of a command: groups of files, and the bytes of the replaced files."""

    groups_done: int
    groups: int
    bytes_done: int
    bytes: int


@dataclass(frozen=True)
class Layout:
    """The arguments of OPTIMIZE.

    `columns` to order rows by, empty for joining small files or for a clustered table's own
    columns; `curve` None for the default; `memory_limit` in bytes or as text; `commit_interval` in
    seconds between commits, None for one commit; `auto_min_files` for the compaction after a
    commit. `most_bytes` limits the bytes of the rewritten files; no group starts after `until` (of
    `time.monotonic`).
    """

    partitions: Predicate | None = None
    columns: Sequence[str] = ()
    curve: str | None = None
    full: bool = False
    most_deleted: float = MOST_DELETED
    tasks: int | None = None
    memory_limit: int | str | None = None
    commit_interval: float | None = None
    auto_min_files: int | None = None
    most_bytes: int | None = None
    until: float | None = None
    dry_run: bool = False
    progress: Callable[[Progress], object] | None = None


# A function that rewrites groups of files, sorting with the given number of bytes of memory. It
# yields the size in bytes of each group's old files after the group's new files are written.
Mover: TypeAlias = Callable[[_native.Layout, int], Iterator[int]]
# Functions that join a version's small files, and that bring its indexes of keys up to date.
Joiner: TypeAlias = Callable[[_native.Snapshot, Layout], object]
Extender: TypeAlias = Callable[[_native.Snapshot], object]


def optimize(
    target: Target, what: Layout, settings: Settings, mover: Mover | None = None, extend: Extender | None = None
) -> dict[str, Any]:
    """Runs the job, in this process unless there is another mover, and extends the table's indexes
    of keys; returns the result or, with `dry_run`, the plan, under deltalake's names."""
    memory = _MEMORY_BYTES if what.memory_limit is None else memory_bytes(what.memory_limit)
    job, plan = begin(target, what, settings)
    done = _Done(plan)
    if what.dry_run or job.was_done or plan.groups == 0:
        return done.metrics()
    _run(job, (mover or _here(what.tasks or os.cpu_count() or 1))(job, memory), what, done)
    _extend_indexes(target.snapshot, extend)
    return done.metrics()


def _extend_indexes(known: _native.Snapshot, extend: Extender | None) -> None:
    """Covers the files of commits after a version by the table's indexes of keys. Failures are
    logged: look-ups read files that no index covers."""
    # Without a request: the commit is durable, and a store that fails may not delay its return.
    if not has_indexes(known):
        return
    try:
        with bounded_after_commit():
            (extend or build_indexes)(known.update())
    except Exception as e:  # noqa: BLE001 - Spark's errors too: the files are committed
        _log.warning("the key indexes couldn't be extended: %s", e)


def begin(target: Target, what: Layout, settings: Settings) -> tuple[_native.Layout, records.OptimizeSummary]:
    """Plans the job; returns it with its planned work. Writes nothing."""
    job = _native.Layout.begin(target.snapshot, _request(target, what, settings))
    return job, job.summary


def _here(tasks: int) -> Mover:
    """Moves rows in this process, up to `tasks` groups at a time."""

    def moved(job: _native.Layout, memory: int) -> Iterator[int]:
        job.start(tasks, memory)
        while (bytes_moved := job.step()) is not None:
            yield bytes_moved

    return moved


def after_commit(
    newest: Callable[[], _native.Snapshot], join: Joiner | None = None, extend: Extender | None = None
) -> None:
    """Joins small files in the partitions that the newest commit wrote to
    (`delta.autoOptimize.autoCompact`), and extends the indexes of keys
    (`deltaplane.buildIndexesOnWrite`), in this process unless others are given.

    The commit is already durable: failures are logged, a store that fails for some seconds is given
    up, and the next commit tries again.
    """
    try:
        with bounded_after_commit():
            snapshot = newest()
            joins, indexes = snapshot.follow_up
            if joins:
                (join or _join_here)(snapshot, Layout(auto_min_files=_SMALL_FILES))
            if indexes:
                _extend_indexes(snapshot, extend)
    except Exception as e:  # noqa: BLE001 - nothing may make a commit that is there look failed
        _log.warning("small files couldn't be put together after the commit, or indexes not be extended: %s", e)


def _join_here(snapshot: _native.Snapshot, what: Layout) -> None:
    optimize(Target(snapshot.location, snapshot), what, Settings())


def _request(target: Target, what: Layout, settings: Settings) -> records.LayoutRequest:
    condition = PredicateSelection(target.snapshot, what.partitions)
    if condition.check is not None:
        raise UnsupportedExpressionError("files are chosen by partition columns alone: leave others out")
    if what.tasks is not None and what.tasks < 1:
        raise InvalidArgumentError(f"max_concurrent_tasks is a number of tasks, not {what.tasks}")
    if not 0 <= what.most_deleted <= 1:
        raise InvalidArgumentError(f"the share of deleted rows lies between 0 and 1: {what.most_deleted} doesn't")
    commit = commit_request(settings.commit, settings.hook)
    if commit.txn and what.commit_interval is not None:
        raise InvalidArgumentError("an application's version is committed once: leave min_commit_interval out")
    rewrite = records.RewriteRequest(
        operation="OPTIMIZE",
        operation_parameters=dict(condition.parameters),
        data_change=False,
        predicate=condition.tree,
        files=file_request(settings.writer, settings.target_file_size),
        commit=commit,
    )
    return records.LayoutRequest(
        rewrite=rewrite,
        columns=list(what.columns),
        curve=what.curve,
        full=what.full,
        most_deleted=what.most_deleted,
        auto_min_files=what.auto_min_files,
        most_bytes=what.most_bytes,
    )


def _run(job: _native.Layout, groups: Iterator[int], what: Layout, done: _Done) -> None:
    committing = enough = False
    last = time.monotonic()
    try:
        for moved in groups:
            done.add(moved)
            if what.progress is not None:
                what.progress(done.progress())
            if what.commit_interval is not None and time.monotonic() - last >= what.commit_interval:
                committing = True
                done.committed(job.commit())
                committing, last = False, time.monotonic()
            if what.until is not None and time.monotonic() >= what.until:
                enough = True
                break
        if done.uncommitted:
            committing = True
            done.committed(job.commit())
            committing = False
        if enough:
            # Groups that were started.
            job.abort(False)
    except BaseException as failure:
        job.abort(committing and not isinstance(failure, NOT_COMMITTED))
        if done.versions:
            note = _committed_before(done.versions)
            # Python 3.10 has no notes on exceptions.
            if hasattr(failure, "add_note"):
                failure.add_note(note)
            else:
                _log.warning(note)
        raise


def _committed_before(versions: Sequence[int]) -> str:
    """The note on a failure after some of a command's commits."""
    names = ", ".join(map(str, versions))
    named = f"version {names}, which stays" if len(versions) == 1 else f"the versions {names}, which stay"
    return f"OPTIMIZE had committed {named}: run it again for the rest of the files"


@dataclass
class _Done:
    """The accumulated result."""

    plan: records.OptimizeSummary
    added: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    groups: int = 0
    bytes_moved: int = 0
    uncommitted: int = 0
    versions: list[int] = field(default_factory=list)

    def add(self, moved_bytes: int) -> None:
        self.groups += 1
        self.bytes_moved += moved_bytes
        self.uncommitted += 1

    def committed(self, commit: records.OptimizeCommit) -> None:
        """Adds a commit's result, which excludes groups with a file that another writer removed."""
        self.added += commit.added
        self.removed += commit.removed
        self.versions.append(commit.version)
        self.uncommitted = 0

    def progress(self) -> Progress:
        return Progress(self.groups, self.plan.groups, self.bytes_moved, self.plan.bytes)

    def metrics(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "numFilesAdded": len(self.added),
            "numFilesRemoved": len(self.removed),
            "filesAdded": _sizes(self.added),
            "filesRemoved": _sizes(self.removed),
            "partitionsOptimized": plan.partitions,
            "numBatches": plan.groups,
            "totalConsideredFiles": plan.considered_files,
            "totalFilesSkipped": plan.considered_files - plan.files,
            "preserveInsertionOrder": not plan.ordered,
            "plannerStrategy": plan.strategy,
            "preservedStableOrder": not plan.ordered,
            "maxBinSpanFiles": plan.most_files_in_group,
            "numFilesToRewrite": plan.files,
            "numBytesToRewrite": plan.bytes,
            "targetFileSize": plan.target_bytes,
            "versions": self.versions,
        }


def _sizes(sizes: Sequence[int]) -> str:
    """Sizes as text, like deltalake's."""
    average = sum(sizes) / len(sizes) if sizes else 0.0
    lowest, highest = min(sizes, default=0), max(sizes, default=0)
    figures = {"avg": average, "max": highest, "min": lowest, "totalFiles": len(sizes), "totalSize": sum(sizes)}
    return json.dumps(figures, separators=(",", ":"))
