//! Figures of the log folder and of commits, and the commits of the history, as frozen classes.

use std::collections::BTreeMap;

use deltaplane_log as core;

use pyo3::prelude::*;

use crate::records::json_value::JsonObject;
use crate::records::record;

record! {
    /// A commit: its version, its time in milliseconds since the epoch, and what it says of itself.
    HistoryEntry {
        version: u64,
        timestamp_ms: i64,
        info: JsonObject,
    }
}

impl From<core::HistoryEntry> for HistoryEntry {
    fn from(e: core::HistoryEntry) -> Self {
        HistoryEntry {
            version: e.version,
            timestamp_ms: e.timestamp_ms,
            info: JsonObject(e.info),
        }
    }
}

record! {
    /// Files of one kind.
    LogFiles {
        files: u64,
        size_bytes: u64,
    }
}

impl From<core::LogFiles> for LogFiles {
    fn from(f: core::LogFiles) -> Self {
        LogFiles {
            files: f.files,
            size_bytes: f.size_bytes,
        }
    }
}

record! {
    /// The newest complete checkpoint: `kind` is `classic`, `multi-part` or `v2`, and `files` has
    /// no sidecars.
    NewestCheckpoint {
        version: u64,
        kind: String,
        modified_ms: i64,
        files: u64,
        size_bytes: u64,
    }
}

impl From<core::NewestCheckpoint> for NewestCheckpoint {
    fn from(c: core::NewestCheckpoint) -> Self {
        NewestCheckpoint {
            version: c.version,
            kind: c.kind.to_owned(),
            modified_ms: c.modified_ms,
            files: c.size.files,
            size_bytes: c.size.size_bytes,
        }
    }
}

record! {
    /// The files of the log folder up to a version.
    LogFolder {
        commits: LogFiles,
        checkpoints: LogFiles,
        sidecars: LogFiles,
        compactions: LogFiles,
        checksums: LogFiles,
        oldest_commit: Option<u64>,
        oldest_commit_ms: Option<i64>,
        newest_checksum: Option<u64>,
        newest_checkpoint: Option<NewestCheckpoint>,
        commits_since_checkpoint: LogFiles,
        checkpoint_interval: u64,
        log_retention_ms: i64,
        deleted_file_retention_ms: i64,
        cleanup_enabled: bool,
    }
}

impl From<core::LogFolder> for LogFolder {
    fn from(f: core::LogFolder) -> Self {
        LogFolder {
            commits: f.commits.into(),
            checkpoints: f.checkpoints.into(),
            sidecars: f.sidecars.into(),
            compactions: f.compactions.into(),
            checksums: f.checksums.into(),
            oldest_commit: f.oldest_commit,
            oldest_commit_ms: f.oldest_commit_ms,
            newest_checksum: f.newest_checksum,
            newest_checkpoint: f.newest_checkpoint.map(Into::into),
            commits_since_checkpoint: f.commits_since_checkpoint.into(),
            checkpoint_interval: f.checkpoint_interval,
            log_retention_ms: f.log_retention_ms,
            deleted_file_retention_ms: f.deleted_file_retention_ms,
            cleanup_enabled: f.cleanup_enabled,
        }
    }
}

record! {
    /// What one commit did to the table's files; `removed_unsized` are files whose size it doesn't
    /// say.
    CommitTotals {
        version: u64,
        timestamp_ms: i64,
        log_bytes: u64,
        added_files: u64,
        added_bytes: i64,
        removed_files: u64,
        removed_bytes: i64,
        removed_unsized: u64,
        data_change: bool,
        info: JsonObject,
    }
}

impl From<core::CommitTotals> for CommitTotals {
    fn from(t: core::CommitTotals) -> Self {
        CommitTotals {
            version: t.version,
            timestamp_ms: t.timestamp_ms,
            log_bytes: t.log_bytes,
            added_files: t.added_files,
            added_bytes: t.added_bytes,
            removed_files: t.removed_files,
            removed_bytes: t.removed_bytes,
            removed_unsized: t.removed_unsized,
            data_change: t.data_change,
            info: JsonObject(t.info),
        }
    }
}

record! {
    /// Removed files that the log still names.
    TombstoneTotals {
        kept_files: u64,
        kept_bytes: i64,
        expired_files: u64,
        expired_bytes: i64,
        unsized_files: u64,
    }
}

impl From<core::TombstoneTotals> for TombstoneTotals {
    fn from(t: core::TombstoneTotals) -> Self {
        TombstoneTotals {
            kept_files: t.kept_files,
            kept_bytes: t.kept_bytes,
            expired_files: t.expired_files,
            expired_bytes: t.expired_bytes,
            unsized_files: t.unsized_files,
        }
    }
}

record! {
    /// What the stages of a plan looked at and left out.
    ScanReport {
        in_commits: u64,
        in_checkpoint: u64,
        row_groups: u64,
        row_groups_skipped: u64,
        skipped_by_row_groups: u64,
        skipped_by_pages: u64,
        skipped_by_partition: u64,
        skipped_by_statistics: u64,
        replaced: u64,
        selected: u64,
        selected_bytes: u64,
        selected_without_statistics: BTreeMap<String, u64>,
    }
}

impl From<core::ScanReport> for ScanReport {
    fn from(r: core::ScanReport) -> Self {
        ScanReport {
            in_commits: r.in_commits,
            in_checkpoint: r.in_checkpoint,
            row_groups: r.row_groups,
            row_groups_skipped: r.row_groups_skipped,
            skipped_by_row_groups: r.skipped_by_row_groups,
            skipped_by_pages: r.skipped_by_pages,
            skipped_by_partition: r.skipped_by_partition,
            skipped_by_statistics: r.skipped_by_statistics,
            replaced: r.replaced,
            selected: r.selected,
            selected_bytes: r.selected_bytes,
            selected_without_statistics: r.selected_without_statistics,
        }
    }
}
