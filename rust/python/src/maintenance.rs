//! Care for a table across the boundary: VACUUM, RESTORE, FSCK, CLONE, and what CONVERT reads.
//! Requests and reports are classes, lists of paths are lists.

use std::collections::HashMap;
use std::sync::Arc;

use deltaplane_boundary::boundary;
use deltaplane_error::{Error, Kind};
use deltaplane_log::{
    CloneRequest, CloneSource, Cloned, Copies, Deletes, Finding, ParquetFiles, RepairRequest, RestoreRequest, Restored,
    VacuumRequest, VacuumResult,
};
use deltaplane_operations::file_inventory::{common_schema, inventory as objects_of};
use deltaplane_operations::table_check::check_rows as check_all_rows;
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::errors::{kind_of, run};
use crate::incoming::reader_of;
use crate::progress::run_with_progress;
use crate::record::Record;
use crate::snapshot::{Snapshot, store};
use crate::table_schema::TableSchema;

/// Deletes files that nothing needs; `keys` says whether the result names them. `deletes` is asked
/// first to delete files by their keys, many at once, and says whether it did.
#[boundary]
#[pyfunction]
#[pyo3(signature = (snapshot, request, inventory = None, keys = true, deletes = None, progress = None))]
pub(crate) fn vacuum(
    py: Python<'_>,
    snapshot: &Snapshot,
    request: Record<VacuumRequest>,
    inventory: Option<&Bound<'_, PyAny>>,
    keys: bool,
    deletes: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Record<VacuumResult>> {
    let inventory = inventory.map(reader_of).transpose()?;
    let delegate = deletes.map(deleting);
    run_with_progress(py, progress, |tell| {
        let store = snapshot.inner.store();
        let done = block_on(deltaplane_log::vacuum(
            store,
            &request.0,
            inventory.map(objects_of),
            delegate,
            tell,
        ))?;
        Ok(Record(done.result(keys)))
    })
}

/// A function of the caller's that deletes; an error of ours stays what it is.
fn deleting(function: Py<PyAny>) -> Deletes {
    Arc::new(move |keys| {
        Python::attach(|py| {
            let done = function.call1(py, (keys,)).and_then(|done| done.extract::<bool>(py));
            done.map_err(|e| of_tasks(py, &e, "deleting by tasks failed, vacuum again to go on"))
        })
    })
}

/// What failed where others did the work.
fn of_tasks(py: Python<'_>, e: &PyErr, what: &str) -> Error {
    let kind = kind_of(py, e).unwrap_or(Kind::StoreUnavailable);
    Error::new(kind, format!("{what}: {}", e.value(py)))
}

/// Goes back to an older version; returns the version that it made and metrics.
#[boundary]
#[pyfunction]
#[pyo3(signature = (snapshot, request, progress = None))]
pub(crate) fn restore(
    py: Python<'_>,
    snapshot: &Snapshot,
    request: Record<RestoreRequest>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Record<Restored>> {
    run_with_progress(py, progress, |tell| {
        let done = block_on(deltaplane_log::restore(snapshot.inner.store(), &request.0, tell))?;
        Ok(Record(done))
    })
}

/// What of the version doesn't agree with the files that are there.
#[boundary]
#[pyfunction]
#[pyo3(signature = (snapshot, progress = None))]
pub(crate) fn check(
    py: Python<'_>,
    snapshot: &Snapshot,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Record<Finding>>> {
    let found = run_with_progress(py, progress, |tell| block_on(snapshot.inner.check(tell)))?;
    Ok(found.into_iter().map(Record).collect())
}

/// What reading every data file and deletion vector finds.
#[boundary]
#[pyfunction]
#[pyo3(signature = (snapshot, progress = None))]
pub(crate) fn check_rows(
    py: Python<'_>,
    snapshot: &Snapshot,
    progress: Option<Py<PyAny>>,
) -> PyResult<Vec<Record<Finding>>> {
    let found = run_with_progress(py, progress, |tell| block_on(check_all_rows(&snapshot.inner, tell)))?;
    Ok(found.into_iter().map(Record).collect())
}

/// Takes files out of the log that are gone; returns their paths and the version that it made.
#[boundary]
#[pyfunction]
pub(crate) fn repair(
    py: Python<'_>,
    snapshot: &Snapshot,
    request: Record<RepairRequest>,
) -> PyResult<(Vec<String>, Option<u64>)> {
    run(py, || {
        let done = block_on(snapshot.inner.repair(&request.0))?;
        Ok((done.files, done.version))
    })
}

/// Location, the store's options, and the name in the history.
type ParquetSource = (String, Option<HashMap<String, String>>, String);

/// Makes a table a clone of this version; returns the version that it made and metrics. `parquet`:
/// location, options and name of the Parquet files that the snapshot's log, which is no table's,
/// describes.
#[boundary]
#[pyfunction]
#[pyo3(signature = (snapshot, target, options, request, progress = None, copies = None, parquet = None))]
#[allow(clippy::too_many_arguments, reason = "each is a part of what Python asks for")]
pub(crate) fn clone_table(
    py: Python<'_>,
    snapshot: &Snapshot,
    target: &str,
    options: Option<HashMap<String, String>>,
    request: Record<CloneRequest>,
    progress: Option<Py<PyAny>>,
    copies: Option<Py<PyAny>>,
    parquet: Option<ParquetSource>,
) -> PyResult<Record<Cloned>> {
    let delegate = copies.map(copying);
    run_with_progress(py, progress, |tell| {
        let target = store(target, options)?;
        let files = parquet
            .map(|(location, options, name)| Ok::<_, Error>((store(&location, options)?, name)))
            .transpose()?;
        let source = CloneSource {
            snapshot: &snapshot.inner,
            parquet: files.as_ref().map(|(store, name)| ParquetFiles {
                store,
                name: name.clone(),
            }),
        };
        let done = block_on(deltaplane_log::clone_table(
            &source, &target, &request.0, tell, delegate,
        ))?;
        Ok(Record(done))
    })
}

/// A function of the caller's that copies; an error of ours stays what it is.
fn copying(function: Py<PyAny>) -> Copies {
    Arc::new(move |files| {
        Python::attach(|py| {
            let done = function.call1(py, (files,));
            let done = done.and_then(|done| done.extract::<Option<Vec<u64>>>(py));
            done.map_err(|e| of_tasks(py, &e, "copying by tasks failed, nothing of the clone is visible"))
        })
    })
}

/// Copies files of a table to another, from decoded paths to keys; the bytes of each.
#[boundary]
#[pyfunction]
pub(crate) fn copy_files(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    target: &str,
    target_options: Option<HashMap<String, String>>,
    files: Vec<(String, String)>,
) -> PyResult<Vec<u64>> {
    run(py, || {
        let (from, to) = (store(location, options)?, store(target, target_options)?);
        block_on(deltaplane_log::copy_files(&from, &to, &files))
    })
}

/// The keys of all files at a location that aren't hidden, given the names of partition columns.
#[boundary]
#[pyfunction]
pub(crate) fn visible_files(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    partition_columns: Vec<String>,
) -> PyResult<Vec<String>> {
    run(py, || {
        let store = store(location, options)?;
        block_on(deltaplane_log::visible_files(&store, &partition_columns))
    })
}

/// The columns of these Parquet files together: each has one type in all files that have it.
#[boundary]
#[pyfunction]
pub(crate) fn parquet_schema(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    files: Vec<String>,
) -> PyResult<TableSchema> {
    run(py, || block_on(common_schema(&store(location, options)?, files))).map(Into::into)
}
