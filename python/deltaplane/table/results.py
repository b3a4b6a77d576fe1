"""The results of a table's commands, as types for checkers and editors: each is a plain dict.

Keys of a class whose name begins with `Committed` are there only if the command committed.
"""

from __future__ import annotations

from typing import TypedDict

__all__ = [
    "ClonedFiles",
    "DeletedRows",
    "ForgottenHistory",
    "MergedRows",
    "OptimizedFiles",
    "Problem",
    "PurgedFiles",
    "RemovedFiles",
    "RestoredFiles",
    "UpdatedRows",
]


class CommittedRows(TypedDict, total=False):
    """Metrics of a commit that changed rows, and its version."""

    version: int
    num_removed_bytes: int
    num_added_bytes: int
    num_added_change_files: int
    num_deletion_vectors_added: int
    num_deletion_vectors_updated: int
    num_deletion_vectors_removed: int
    rewrite_time_ms: int


class PurgedFiles(CommittedRows):
    """The result of `purge`."""

    num_added_files: int
    num_removed_files: int
    num_copied_rows: int
    execution_time_ms: int
    scan_time_ms: int


class DeletedRows(PurgedFiles):
    """The result of `delete`."""

    num_deleted_rows: int


class UpdatedRows(PurgedFiles):
    """The result of `update`."""

    num_updated_rows: int


class CommittedMerge(TypedDict, total=False):
    """Metrics of a MERGE that committed, and its version."""

    version: int
    num_target_files_scanned: int
    num_target_bytes_removed: int
    num_target_bytes_added: int
    num_target_change_files_added: int
    num_target_deletion_vectors_added: int
    num_target_deletion_vectors_updated: int
    num_target_deletion_vectors_removed: int
    num_target_rows_matched_updated: int
    num_target_rows_matched_deleted: int
    num_target_rows_not_matched_by_source_updated: int
    num_target_rows_not_matched_by_source_deleted: int


class MergedRows(CommittedMerge):
    """The result of `TableMerger.execute`."""

    num_source_rows: int
    num_output_rows: int
    num_target_rows_inserted: int
    num_target_rows_updated: int
    num_target_rows_deleted: int
    num_target_rows_copied: int
    num_target_files_added: int
    num_target_files_removed: int
    execution_time_ms: int
    scan_time_ms: int
    rewrite_time_ms: int


class CommittedLayout(TypedDict, total=False):
    """Metrics that a dry run of OPTIMIZE doesn't have; `filesAdded` and `filesRemoved` are JSON."""

    numFilesAdded: int
    numFilesRemoved: int
    filesAdded: str
    filesRemoved: str
    partitionsOptimized: int
    numBatches: int
    totalConsideredFiles: int
    totalFilesSkipped: int
    preserveInsertionOrder: bool
    plannerStrategy: str
    preservedStableOrder: bool
    maxBinSpanFiles: int
    versions: list[int]


class OptimizedFiles(CommittedLayout):
    """The result of `optimize.compact` and `optimize.z_order`."""

    numFilesToRewrite: int
    numBytesToRewrite: int
    targetFileSize: int


class RestoredFiles(TypedDict):
    """The result of `restore`."""

    numOfFilesAfterRestore: int
    tableSizeAfterRestore: int
    numRemovedFiles: int
    numRestoredFiles: int
    removedFilesSize: int
    restoredFilesSize: int


class ClonedFiles(TypedDict):
    """The result of `clone`."""

    sourceNumOfFiles: int
    sourceTableSize: int
    numCopiedFiles: int
    copiedFilesSize: int
    numRemovedFiles: int
    removedFilesSize: int


class RemovedFiles(TypedDict):
    """The result of `repair`."""

    dry_run: bool
    files_removed: list[str]


class ForgottenHistory(TypedDict):
    """The result of `forget_history`."""

    version: int | None
    log_files: int
    sidecars: int


class Problem(TypedDict):
    """A problem that `check` reports."""

    kind: str
    path: str | None
    message: str
