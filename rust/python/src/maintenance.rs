//! Care for a table across the boundary: VACUUM, RESTORE, FSCK, CLONE, and what CONVERT reads.
//! Requests and reports are JSON, lists of paths are lists.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use deltaplane_boundary::boundary;
use deltaplane_data::{Vectors, WriteSpec, footer_schema, footer_stats};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::{
    CloneRequest, CloneSource, Cloned, Copies, Deletes, FileRequest, FileTarget, Finding, ParquetFiles, PlanColumns,
    RepairRequest, RestoreRequest, Restored, Tell, VacuumRequest, VacuumResult,
};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::features::{FileForm, RowRules};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::stats_contradiction;
use deltaplane_protocol::schema_changes::merge;
use deltaplane_store::{ObjectInfo, Store, block_on};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use crate::errors::{kind_of, run};
use crate::incoming::{Incoming, reader_of};
use crate::progress::run_with_progress;
use crate::record::Record;
use crate::snapshot::{Snapshot, store};
use crate::table_schema::TableSchema;
use crate::write::Spec;

/// Files whose rows are looked at at once: each holds some row groups in memory.
const CHECKED_AT_ONCE: usize = 4;

/// Footers that are read at once: enough to hide a store's latency.
const FOOTERS_AT_ONCE: usize = 32;

fn parse<T: DeserializeOwned>(request: &str, what: &str) -> Result<T> {
    serde_json::from_str(request).map_err(|e| Error::invalid_argument(format!("not {what}: {e}")))
}

/// Deletes files that nothing needs; `keys` says whether the result names them. `deletes` is asked
/// first to delete files by their keys, many at once, and says whether it did.
#[boundary]
#[pyfunction]
#[pyo3(signature = (snapshot, request, inventory = None, keys = true, deletes = None, progress = None))]
pub(crate) fn vacuum(
    py: Python<'_>,
    snapshot: &Snapshot,
    request: &str,
    inventory: Option<&Bound<'_, PyAny>>,
    keys: bool,
    deletes: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Record<VacuumResult>> {
    let inventory = inventory.map(reader_of).transpose()?;
    let delegate = deletes.map(deleting);
    run_with_progress(py, progress, |tell| {
        let request: VacuumRequest = parse(request, "a vacuum")?;
        let store = snapshot.inner.store();
        let done = block_on(deltaplane_log::vacuum(
            store,
            &request,
            inventory.map(objects),
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
    request: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Record<Restored>> {
    run_with_progress(py, progress, |tell| {
        let request: RestoreRequest = parse(request, "a restore")?;
        let done = block_on(deltaplane_log::restore(snapshot.inner.store(), &request, tell))?;
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
    let table = &snapshot.inner;
    let found = run_with_progress(py, progress, |tell| {
        let state = table.state();
        let files = FileRequest::default();
        let target = FileTarget {
            schema: state.schema(),
            partition_columns: state.partition_columns(),
            mapping: state.mapping(),
            form: FileForm::default(),
            properties: state.properties(),
            request: &files,
        };
        let spec = Spec::of(&target, &[], &RowRules::default(), false).write_spec()?;
        let (store, vectors) = (table.store(), Vectors::new(table.store().clone()));
        let adds = table.plan(None, PlanColumns::Logged).map(|batch| {
            let batch = batch?;
            let rows = FileRows::new(&batch);
            let adds = (0..batch.num_rows())
                .map(|row| rows.add(row))
                .collect::<Result<Vec<_>>>()?;
            Ok(stream::iter(adds).map(Ok))
        });
        let checked = adds
            .try_flatten()
            .map_ok(|add| check_file(store, &vectors, &spec, add))
            .try_buffered(CHECKED_AT_ONCE);
        block_on(all_found(checked, tell))
    })?;
    Ok(found.into_iter().map(Record).collect())
}

/// What was found in files, of which each is told.
async fn all_found(checked: impl Stream<Item = Result<Option<Finding>>>, tell: &Tell) -> Result<Vec<Finding>> {
    let mut checked = std::pin::pin!(checked);
    let (mut done, mut found) = (0, Vec::new());
    while let Some(finding) = checked.try_next().await? {
        found.extend(finding);
        done += 1;
        tell.tell("reading", done, None)?;
    }
    tell.tell("reading", done, Some(done))?;
    Ok(found)
}

/// What is wrong inside of a file or of its vector; errors of the store that say nothing of it are
/// raised.
async fn check_file(store: &Store, vectors: &Vectors, spec: &WriteSpec, add: Add) -> Result<Option<Finding>> {
    let path = paths::decode(&add.path)?;
    let read = footer_stats(store, &path, spec).await;
    let (kind, message) = match read {
        Err(e) if is_damage(&e) => ("unreadable", e.message().to_owned()),
        Err(e) => return Err(e),
        Ok((_, exact)) => match stats_contradiction(add.stats.as_deref().unwrap_or("{}"), &exact) {
            Some(why) => ("statistics", why),
            None => match &add.deletion_vector {
                None => return Ok(None),
                Some(vector) => match vectors.load(vector).await {
                    Ok(_) => return Ok(None),
                    Err(e) if is_damage(&e) => ("deletion vector", e.message().to_owned()),
                    Err(e) => return Err(e),
                },
            },
        },
    };
    Ok(Some(Finding {
        kind,
        path: Some(path),
        message,
    }))
}

fn is_damage(e: &Error) -> bool {
    let kinds = [
        Kind::FileMissing,
        Kind::CorruptFile,
        Kind::SchemaMismatch,
        Kind::ObjectNotFound,
    ];
    kinds.contains(&e.kind())
}

/// Takes files out of the log that are gone; returns their paths and the version that it made.
#[boundary]
#[pyfunction]
pub(crate) fn repair(py: Python<'_>, snapshot: &Snapshot, request: &str) -> PyResult<(Vec<String>, Option<u64>)> {
    run(py, || {
        let request: RepairRequest = parse(request, "a repair")?;
        let done = block_on(snapshot.inner.repair(&request))?;
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
    request: &str,
    progress: Option<Py<PyAny>>,
    copies: Option<Py<PyAny>>,
    parquet: Option<ParquetSource>,
) -> PyResult<Record<Cloned>> {
    let delegate = copies.map(copying);
    run_with_progress(py, progress, |tell| {
        let request: CloneRequest = parse(request, "a clone")?;
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
        let done = block_on(deltaplane_log::clone_table(&source, &target, &request, tell, delegate))?;
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
    let merged = run(py, || {
        let store = store(location, options)?;
        let schemas = stream::iter(files).map(|key| {
            let store = store.clone();
            async move { Ok::<_, Error>((footer_schema(&store, &key).await?, key)) }
        });
        let merged = schemas
            .buffered(FOOTERS_AT_ONCE)
            .try_fold(None, |so_far, (schema, key)| async move {
                let Some(so_far) = so_far else { return Ok(Some(schema)) };
                let merged = merge::merge_equal(&so_far, &schema).map_err(|e| e.with_path(key))?;
                Ok(Some(merged))
            });
        Ok(block_on(merged)?.unwrap_or_default())
    })?;
    Ok(merged.into())
}

/// The rows of an inventory: `path`, `length` and `modificationTime`, in this order.
fn objects(rows: Incoming) -> BoxStream<'static, Result<ObjectInfo>> {
    stream::iter(rows)
        .map(|batch| Ok(stream::iter(infos(&batch?)?).map(Ok)))
        .try_flatten()
        .boxed()
}

fn infos(batch: &RecordBatch) -> Result<Vec<ObjectInfo>> {
    let wrong = || Error::invalid_argument("an inventory has the columns path, length and modificationTime");
    let [path, length, time] = batch.columns() else {
        return Err(wrong());
    };
    let path = path.as_string_opt::<i32>().ok_or_else(wrong)?;
    let length = length.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
    let time = time.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?;
    if path.null_count() + time.null_count() > 0 {
        return Err(Error::invalid_argument(
            "an inventory says of every file where it is and when it was written",
        ));
    }
    let info = |row| ObjectInfo {
        key: path.value(row).to_owned(),
        size_bytes: u64::try_from(length.value(row)).unwrap_or(0),
        modified_ms: time.value(row),
        etag: None,
    };
    Ok((0..batch.num_rows()).map(info).collect())
}
