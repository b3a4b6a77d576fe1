"""Owns what commands on the log and its files ask for: VACUUM, RESTORE, CLONE, repair, ALTER, and
commits of what was read. `commit` holds the settings of `deltaplane.properties.commit_request`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from deltaplane.io.records.record import Record
from deltaplane.io.records.writing import CommitRequest

if TYPE_CHECKING:
    from deltaplane import _native


class VacuumRequest(Record):
    """Which files may go, and whether commits record it."""

    retention_ms: int | None = None
    enforce_retention: bool = False
    lite: bool = False
    keep_versions: Sequence[int] = ()
    dry_run: bool = False
    commits: Literal["deleting", "always", "never"] = "deleting"
    commit: CommitRequest = CommitRequest()


class RestoreRequest(Record):
    """A version to go back to, by its number or by a time."""

    version: int | None = None
    timestamp_ms: int | None = None
    timestamp: str | None = None
    ignore_missing_files: bool = False
    ignore_unfinished_vacuum: bool = False
    protocol_downgrade_allowed: bool = False
    dry_run: bool = False
    commit: CommitRequest = CommitRequest()


class RepairRequest(Record):
    """The removal of missing files from the log."""

    dry_run: bool = False
    commit: CommitRequest = CommitRequest()


class CloneRequest(Record):
    """How a version is cloned."""

    shallow: bool = False
    replace: bool = False
    properties: Mapping[str, str] = {}
    source_name: str | None = None
    dry_run: bool = False
    commit: CommitRequest = CommitRequest()


class ReadRequest(Record):
    """The rows that were read: those that meet a predicate, or all rows for None."""

    predicate: _native.Predicate | None = None
    predicate_sql: str = ""
    commit: CommitRequest = CommitRequest()


class AlterRequest(Record):
    """A change of a table's metadata: its arguments by their names, and as `change` its own name.
    Its commit has neither versions of applications nor a clean-up."""

    change: Mapping[str, Any]
    dry_run: bool = False
    always: bool = False
    commit: CommitRequest = CommitRequest()
