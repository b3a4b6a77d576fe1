"""Owns what is known of a table's log: its files, its commits, and what a plan looked at."""

from __future__ import annotations

from typing import Any

from deltaplane.io.records.record import Record


class LogSize(Record):
    """The size of the log's files for opening a version, without sidecars."""

    checkpoint: int | None
    checkpoint_bytes: int
    commits: int
    commit_bytes: int
    checkpoint_interval: int


class HistoryEntry(Record):
    """A commit: version, time in milliseconds since the epoch, and `commitInfo`."""

    version: int
    timestamp_ms: int
    info: dict[str, Any]


class LogFiles(Record):
    """Files of one kind."""

    files: int
    size_bytes: int


class NewestCheckpoint(Record):
    """The newest complete checkpoint; `kind` is `classic`, `multi-part` or `v2`; `files` excludes
    sidecars."""

    version: int
    kind: str
    modified_ms: int
    files: int
    size_bytes: int


class LogFolder(Record):
    """The files in the log directory up to a version."""

    commits: LogFiles
    checkpoints: LogFiles
    sidecars: LogFiles
    compactions: LogFiles
    checksums: LogFiles
    oldest_commit: int | None
    oldest_commit_ms: int | None
    newest_checksum: int | None
    newest_checkpoint: NewestCheckpoint | None
    commits_since_checkpoint: LogFiles
    checkpoint_interval: int
    log_retention_ms: int
    deleted_file_retention_ms: int
    cleanup_enabled: bool


class CommitTotals(Record):
    """The totals of a commit's file actions; `removed_unsized`: removed files without a size in the
    commit."""

    version: int
    timestamp_ms: int
    log_bytes: int
    added_files: int
    added_bytes: int
    removed_files: int
    removed_bytes: int
    removed_unsized: int
    data_change: bool
    info: dict[str, Any]


class TombstoneTotals(Record):
    """Removed files that the log still names."""

    kept_files: int
    kept_bytes: int
    expired_files: int
    expired_bytes: int
    unsized_files: int


class ScanReport(Record):
    """The numbers of files that the stages of a plan examined and excluded."""

    in_commits: int
    in_checkpoint: int
    row_groups: int
    row_groups_skipped: int
    skipped_by_row_groups: int
    skipped_by_pages: int
    skipped_by_partition: int
    skipped_by_statistics: int
    skipped_by_index: int
    replaced: int
    selected: int
    selected_bytes: int
    selected_without_statistics: dict[str, int]


class KeyIndex(Record):
    """An index of keys: its columns, its objects and bytes, its pairs of file and key, and the live
    files that it covers."""

    columns: list[str]
    segments: int
    size_bytes: int
    entries: int
    covered_files: int
    uncovered_files: int
