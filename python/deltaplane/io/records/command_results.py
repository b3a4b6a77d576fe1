"""Owns what commands on a table did, and what a commit would do."""

from __future__ import annotations

from typing import Any, Literal

from deltaplane.io.records.record import Record
from deltaplane.io.records.tables import Protocol


class AlterResult(Record):
    """A change of metadata: `version` is None where it was only planned, or where there was nothing
    to change."""

    version: int | None
    changed: bool
    operation: str
    before: Protocol
    after: Protocol


class CommandResult(Record):
    """A command that makes at most one commit: `version` is None where there was nothing to do, and
    in a dry run. Metrics have delta-spark's names."""

    version: int | None
    metrics: dict[str, int]


class VacuumResult(Record):
    """What a vacuum deletes: `version` is of its last commit, `paths` are below the root, and so
    are `empty_directories`, which had no file before."""

    files: int
    size_bytes: int
    directories: int
    version: int | None
    paths: list[str]
    empty_directories: list[str]


class Finding(Record):
    """Where log and files disagree: `path` is None if it is about no file."""

    kind: str
    path: str | None
    message: str


class CheckpointResult(Record):
    """A checkpoint that was written: `kind` is `classic` or `v2`; of `sidecars`, `kept_sidecars`
    were there before."""

    version: int
    kind: str
    actions: int
    adds: int
    size_bytes: int
    sidecars: int
    kept_sidecars: int


class CleanupResult(Record):
    """Log files that a clean-up deleted; `kept_from` is the oldest version left, None without
    deletions."""

    kept_from: int | None
    log_files: int
    sidecars: int


class PlannedCommit(Record):
    """What a commit would do, and what it read: `nothing`, `rows` (each by itself), a `set` of
    them, or the `table` with its files; `reads_anywhere` where every file may contain such rows."""

    operation: str
    metrics: dict[str, Any]
    files_removed: int
    bytes_removed: int
    files_marked: int
    files_written: int
    bytes_written: int
    reads: Literal["nothing", "rows", "set", "table"]
    reads_anywhere: bool
    isolation: str
    app_ids: list[str]
    metadata: bool
    protocol: bool
