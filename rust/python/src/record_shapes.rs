//! The structs that cross as Python classes, in builds for tests alone: a test compares their
//! fields with those of the classes.

use std::collections::BTreeMap;

use deltaplane_boundary::boundary;
use deltaplane_log as log;
use deltaplane_operations::{optimize, rewrite, write_job};
use deltaplane_protocol::features::identity_columns::Fill;
use deltaplane_protocol::features::{ColumnRule, RowCheck, RowRules, StoredIds};
use pyo3::prelude::*;

use crate::record::Shape;

/// Makes a table of struct names and fields.
macro_rules! shapes {
    ($($kind:ty,)+) => { [$(Shape::of::<$kind>()),+] };
}

/// Requests that the log crate takes.
fn log_requests() -> Vec<Option<Shape>> {
    shapes![
        log::AlterRequest,
        log::CloneRequest,
        log::IncomingRequest,
        log::LayoutRequest,
        log::ReadRequest,
        log::RepairRequest,
        log::RestoreRequest,
        log::RewriteRequest,
        log::TailLimits,
        log::TailRequest,
        log::TailStart,
        log::VacuumRequest,
        log::WriteRequest,
    ]
    .into()
}

/// Results of the log crate.
fn log_results() -> Vec<Option<Shape>> {
    shapes![
        log::Altered,
        log::CheckpointReport,
        log::CleanupReport,
        log::Cloned,
        log::ColumnSteps,
        log::CommitTotals,
        log::DryRun,
        log::FeatureInfo,
        log::Finding,
        log::HistoryEntry,
        log::LogFiles,
        log::LogFolder,
        log::LogSize,
        log::NewestCheckpoint,
        log::PropertyInfo,
        log::ProtocolInfo,
        log::Protocols,
        log::Restored,
        log::ScanReport,
        log::TableInfo,
        log::TombstoneTotals,
        log::TrackedColumns,
        log::VacuumResult,
    ]
    .into()
}

/// The fields of each struct by its name, in the struct's order.
#[boundary]
#[pyfunction]
pub(crate) fn record_fields() -> BTreeMap<&'static str, &'static [&'static str]> {
    let others = shapes![
        ColumnRule,
        Fill,
        RowCheck,
        RowRules,
        StoredIds,
        optimize::OptimizeCommit,
        optimize::OptimizeSummary,
        rewrite::tasks::TaskSpec,
        write_job::CommitResult,
        write_job::Spec,
    ];
    let shapes = log_requests().into_iter().chain(log_results()).chain(others);
    shapes.flatten().map(|shape| (shape.name, shape.fields)).collect()
}
