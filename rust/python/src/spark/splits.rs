//! Splits of scans for readers in Python workers: both pickle, the snapshot stays on the driver.

use std::collections::HashMap;

use deltaplane_boundary::boundary;
pub(crate) use deltaplane_spark_plan::splits::of_parts as split_parts;
use deltaplane_spark_plan::splits::{self, Split as CoreSplit, SplitScan as CoreScan};
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::arrow_bridge::ArrowStream;
use crate::errors::run;
use crate::snapshot::{Snapshot, store};
use crate::values::pickling::{Pickled, pickled, unpickled};
use crate::values::predicate::{Predicate, expr};

/// Adds this module's names to the native module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Split>()?;
    module.add_class::<SplitScan>()?;
    module.add_function(wrap_pyfunction!(scan_splits, module)?)?;
    module.add_function(wrap_pyfunction!(change_splits, module)?)
}

/// Some files of a scan, which one task reads.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Split(CoreSplit);

pub(crate) fn splits_of(splits: Vec<CoreSplit>) -> Vec<Split> {
    splits.into_iter().map(Split).collect()
}

#[boundary]
#[pymethods]
impl Split {
    #[new]
    fn new(state: &[u8]) -> PyResult<Self> {
        unpickled(state).map(Split)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf.as_any(), &slf.get().0)
    }
}

/// What is the same for all splits of a scan.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct SplitScan(CoreScan);

#[boundary]
#[pymethods]
impl SplitScan {
    #[new]
    fn new(state: &[u8]) -> PyResult<Self> {
        unpickled(state).map(SplitScan)
    }

    /// A version's rows that meet a condition, or changed rows with the columns of changes.
    #[staticmethod]
    #[pyo3(signature = (snapshot, predicate = None, changes = false))]
    fn of(py: Python<'_>, snapshot: &Snapshot, predicate: Option<&Predicate>, changes: bool) -> PyResult<Self> {
        let predicate = expr(predicate).cloned();
        let scan = run(py, || match changes {
            true => CoreScan::of_changes(&snapshot.inner, predicate),
            false => Ok(CoreScan::of_rows(&snapshot.inner, predicate)),
        });
        scan.map(SplitScan)
    }

    /// The rows of one split with these columns, on any machine.
    fn rows(
        &self,
        py: Python<'_>,
        location: &str,
        options: Option<HashMap<String, String>>,
        columns: Vec<String>,
        split: &Split,
    ) -> PyResult<ArrowStream> {
        let read = || self.0.read(store(location, options)?, columns, split.0.clone());
        run(py, read).map(|(schema, rows)| ArrowStream::new(schema, rows))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf.as_any(), &slf.get().0)
    }
}

/// The files that can match a predicate, in splits of about `target_bytes` of files each.
#[boundary]
#[pyfunction]
fn scan_splits(
    py: Python<'_>,
    snapshot: &Snapshot,
    predicate: Option<&Predicate>,
    target_bytes: u64,
) -> PyResult<Vec<Split>> {
    let plan = || block_on(splits::splits(&snapshot.inner, expr(predicate), target_bytes));
    run(py, plan).map(splits_of)
}

/// The files with the rows that the versions from `first` up to the snapshot's changed, likewise.
#[boundary]
#[pyfunction]
fn change_splits(
    py: Python<'_>,
    snapshot: &Snapshot,
    first: u64,
    predicate: Option<&Predicate>,
    target_bytes: u64,
) -> PyResult<Vec<Split>> {
    let predicate = expr(predicate);
    let plan = || block_on(splits::change_splits(&snapshot.inner, first, predicate, target_bytes));
    run(py, plan).map(splits_of)
}
