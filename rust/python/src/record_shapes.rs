//! The structs that cross as Python classes, in builds for tests alone: a test compares their
//! fields with those of the classes.

use std::collections::BTreeMap;

use deltaplane_boundary::boundary;
use deltaplane_log as log;
use pyo3::prelude::*;

use crate::record::Shape;

/// Makes a table of struct names and fields.
macro_rules! shapes {
    ($($kind:ty,)+) => { [$(Shape::of::<$kind>()),+] };
}

/// The fields of each struct by its name, in the struct's order.
#[boundary]
#[pyfunction]
pub(crate) fn record_fields() -> BTreeMap<&'static str, &'static [&'static str]> {
    let shapes = requests().into_iter().chain(results());
    shapes.flatten().map(|shape| (shape.name, shape.fields)).collect()
}

fn requests() -> [Option<Shape>; 9] {
    shapes![
        log::AlterRequest,
        log::CloneRequest,
        log::ReadRequest,
        log::RepairRequest,
        log::RestoreRequest,
        log::TailLimits,
        log::TailRequest,
        log::TailStart,
        log::VacuumRequest,
    ]
}

fn results() -> [Option<Shape>; 23] {
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
}
