//! What commands on a table did, as frozen classes.

use std::collections::BTreeMap;

use deltaplane_log as core;

use pyo3::prelude::*;

use crate::records::record;
use crate::records::table_info::Protocol;

record! {
    /// A command that makes at most one commit: `version` is None where there was nothing to do,
    /// and in a dry run. Metrics have delta-spark's names.
    CommandResult {
        version: Option<u64>,
        metrics: BTreeMap<String, i64>,
    }
}

record! {
    /// What a vacuum deleted, or would: `version` is that of its last commit, `paths` are below the
    /// table's root.
    VacuumResult {
        files: usize,
        size_bytes: u64,
        directories: usize,
        version: Option<u64>,
        paths: Vec<String>,
    }
}

record! {
    /// Where log and files disagree: `path` is None if it is about no file.
    Finding {
        kind: String,
        path: Option<String>,
        message: String,
    }
}

impl From<core::Finding> for Finding {
    fn from(f: core::Finding) -> Self {
        Finding {
            kind: f.kind.to_owned(),
            path: f.path,
            message: f.message,
        }
    }
}

record! {
    /// A checkpoint that was written: `kind` is `classic` or `v2`; of `sidecars`, `kept_sidecars`
    /// were there before.
    CheckpointResult {
        version: u64,
        kind: String,
        actions: u64,
        adds: u64,
        size_bytes: u64,
        sidecars: u64,
        kept_sidecars: u64,
    }
}

impl From<core::CheckpointReport> for CheckpointResult {
    fn from(r: core::CheckpointReport) -> Self {
        CheckpointResult {
            version: r.version,
            kind: r.kind.to_owned(),
            actions: r.actions,
            adds: r.adds,
            size_bytes: r.size_bytes,
            sidecars: r.sidecars,
            kept_sidecars: r.kept_sidecars,
        }
    }
}

record! {
    /// Files of the log that a clean-up deleted; `kept_from` is the oldest version left, None if
    /// none was deleted.
    CleanupResult {
        kept_from: Option<u64>,
        log_files: u64,
        sidecars: u64,
    }
}

impl From<core::CleanupReport> for CleanupResult {
    fn from(r: core::CleanupReport) -> Self {
        CleanupResult {
            kept_from: r.kept_from,
            log_files: r.log_files,
            sidecars: r.sidecars,
        }
    }
}

record! {
    /// A change of metadata: `version` is None where it was only planned, or where there was
    /// nothing to change.
    AlterResult {
        version: Option<u64>,
        changed: bool,
        operation: String,
        before: Protocol,
        after: Protocol,
    }
}

impl From<core::Altered> for AlterResult {
    fn from(a: core::Altered) -> Self {
        AlterResult {
            version: a.version,
            changed: a.changed,
            operation: a.operation,
            before: Protocol::from(&a.before),
            after: Protocol::from(&a.after),
        }
    }
}

record! {
    /// A feature that this build knows: `legacy` are the lowest reader and writer versions that
    /// imply it.
    FeatureInfo {
        name: String,
        reader: bool,
        legacy: Option<(i32, i32)>,
        requires: Vec<String>,
        reads: bool,
        writes: bool,
    }
}

record! {
    /// A table property that Delta knows.
    PropertyInfo {
        key: String,
        values: String,
        default: Option<String>,
        meaning: String,
        settable: bool,
    }
}
