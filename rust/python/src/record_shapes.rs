//! The structs that cross as Python classes, in builds for tests alone: a test compares their fields
//! with those of the classes.

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
    let shapes = shapes![
        log::AlterRequest,
        log::CloneRequest,
        log::CommitTotals,
        log::HistoryEntry,
        log::LogFiles,
        log::LogFolder,
        log::LogSize,
        log::NewestCheckpoint,
        log::ReadRequest,
        log::RepairRequest,
        log::RestoreRequest,
        log::ScanReport,
        log::TailLimits,
        log::TombstoneTotals,
        log::VacuumRequest,
    ];
    shapes
        .into_iter()
        .flatten()
        .map(|shape| (shape.name, shape.fields))
        .collect()
}
