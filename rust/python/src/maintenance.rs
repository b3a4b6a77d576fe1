//! Maintenance of a table across the boundary: VACUUM, RESTORE, FSCK, CLONE, and what CONVERT
//! reads. Requests and reports are classes, lists of paths are lists.

use std::sync::Arc;

use deltaplane_boundary::boundary;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::{
    CloneRequest, CloneSource, Cloned, Copies, Deletes, Finding, ParquetFiles, RepairRequest, RestoreRequest, Restored,
    VacuumRequest, VacuumResult,
};
use deltaplane_operations::file_inventory::{common_schema, inventory as objects_of};
use deltaplane_operations::table_check::check_rows as check_all_rows;
use deltaplane_store::block_on;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;

use crate::errors::kind_of;
use crate::incoming::Rows;
use crate::progress::{Function, run_with_progress};
use crate::record::Record;
use crate::session_options::create_by;
use crate::snapshot::{Options, Snapshot, store};
use crate::table_schema::TableSchema;

/// Deletes files that nothing needs; `keys` says whether the result names them. `deletes` is asked
/// first to delete files by their keys, many at once, and says whether it did.
#[boundary]
#[pyo3(signature = (snapshot, request, inventory = None, keys = true, deletes = None, progress = None))]
pub(crate) fn vacuum(
    snapshot: &Snapshot,
    request: Record<VacuumRequest>,
    inventory: Option<Rows>,
    keys: bool,
    deletes: Function,
    progress: Function,
) -> PyResult<Record<VacuumResult>> {
    let (inventory, deletes) = (inventory.map(|rows| objects_of(rows.0)), deletes.map(deleting));
    run_with_progress(progress, |tell| {
        let vacuum = deltaplane_log::vacuum(snapshot.0.store(), &request.0, inventory, deletes, tell);
        block_on(vacuum).map(|done| Record(done.result(keys)))
    })
}

/// Has a function of the caller's work on files by tasks; an error of ours stays what it is.
fn by_tasks<A, T>(function: &Py<PyAny>, files: A, problem: &str) -> Result<T>
where
    A: for<'py> IntoPyObject<'py>,
    T: for<'py> FromPyObjectOwned<'py>,
{
    Python::attach(|py| {
        let done = function
            .call1(py, (files,))
            .and_then(|done| done.extract(py).map_err(Into::into));
        done.map_err(|e| {
            let kind = kind_of(py, &e).unwrap_or(Kind::StoreUnavailable);
            Error::new(kind, format!("{problem}: {}", e.value(py)))
        })
    })
}

/// A function of the caller's that deletes files.
fn deleting(function: Py<PyAny>) -> Deletes {
    Arc::new(move |keys| by_tasks(&function, keys, "deleting by tasks failed, vacuum again to go on"))
}

/// A function of the caller's that copies files.
fn copying(function: Py<PyAny>) -> Copies {
    let problem = "copying by tasks failed, nothing of the clone is visible";
    Arc::new(move |files| by_tasks(&function, files, problem))
}

/// Goes back to an older version; returns the version that it made and metrics.
#[boundary]
#[pyo3(signature = (snapshot, request, progress = None))]
pub(crate) fn restore(
    snapshot: &Snapshot,
    request: Record<RestoreRequest>,
    progress: Function,
) -> PyResult<Record<Restored>> {
    let store = snapshot.0.store();
    run_with_progress(progress, |tell| {
        block_on(deltaplane_log::restore(store, &request.0, tell)).map(Record)
    })
}

/// What of the version doesn't agree with the files that are there.
#[boundary]
#[pyo3(signature = (snapshot, progress = None))]
pub(crate) fn check(snapshot: &Snapshot, progress: Function) -> PyResult<Record<Vec<Finding>>> {
    run_with_progress(progress, |tell| block_on(snapshot.0.check(tell)).map(Record))
}

/// What reading every data file and deletion vector finds.
#[boundary]
#[pyo3(signature = (snapshot, progress = None))]
pub(crate) fn check_rows(snapshot: &Snapshot, progress: Function) -> PyResult<Record<Vec<Finding>>> {
    run_with_progress(progress, |tell| block_on(check_all_rows(&snapshot.0, tell)).map(Record))
}

/// Takes files out of the log that are gone; returns their paths and the version that it made.
#[boundary]
pub(crate) fn repair(snapshot: &Snapshot, request: Record<RepairRequest>) -> Result<(Vec<String>, Option<u64>)> {
    block_on(snapshot.0.repair(&request.0)).map(|done| (done.files, done.version))
}

/// Location, the store's options, and the name in the history.
type ParquetSource = (String, Options, String);

/// Makes a table a clone of this version; returns the version that it made and metrics. `parquet`:
/// location, options and name of the Parquet files that the snapshot's log, which is no table's,
/// describes.
#[boundary]
#[pyo3(signature = (snapshot, target, options, request, progress = None, copies = None, parquet = None))]
pub(crate) fn clone_table(
    snapshot: &Snapshot,
    target: &str,
    options: Options,
    request: Record<CloneRequest>,
    progress: Function,
    copies: Function,
    parquet: Option<ParquetSource>,
) -> PyResult<Record<Cloned>> {
    run_with_progress(progress, |tell| {
        let files = parquet.map(|(uri, options, name)| store(&uri, options).map(|store| ParquetFiles { store, name }));
        let (snapshot, parquet) = (&snapshot.0, files.transpose()?);
        let source = CloneSource { snapshot, parquet };
        let copies = copies.map(copying);
        create_by(target, options, |target, required| {
            let request = request.0.requiring(required);
            block_on(deltaplane_log::clone_table(
                &source,
                target,
                &request,
                tell,
                copies.clone(),
            ))
            .map(Record)
        })
    })
}

/// Copies files of a table to another, from decoded paths to keys; the bytes of each.
#[boundary]
pub(crate) fn copy_files(
    location: &str,
    options: Options,
    target: &str,
    target_options: Options,
    files: Vec<(String, String)>,
) -> Result<Vec<u64>> {
    let (from, to) = (store(location, options)?, store(target, target_options)?);
    block_on(deltaplane_log::copy_files(&from, &to, &files))
}

/// The keys of all files at a location that aren't hidden, given the names of partition columns.
#[boundary]
pub(crate) fn visible_files(location: &str, options: Options, partition_columns: Vec<String>) -> Result<Vec<String>> {
    let store = store(location, options)?;
    block_on(deltaplane_log::visible_files(&store, &partition_columns))
}

/// The columns of these Parquet files together: each has one type in all files that have it.
#[boundary]
pub(crate) fn parquet_schema(location: &str, options: Options, files: Vec<String>) -> Result<TableSchema> {
    block_on(common_schema(&store(location, options)?, files)).map(Into::into)
}
