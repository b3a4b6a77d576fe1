//! Care for a table across the boundary: VACUUM. Requests and reports are JSON, lists of paths are lists.

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchReader};
use arrow::datatypes::Int64Type;
use deltaplane_error::{Error, Result};
use deltaplane_log::VacuumRequest;
use deltaplane_store::{ObjectInfo, block_on};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::arrow_bridge::reader_of;
use crate::errors::run;
use crate::snapshot::Snapshot;

fn parse<T: DeserializeOwned>(request: &str, what: &str) -> Result<T> {
    serde_json::from_str(request).map_err(|e| Error::invalid_argument(format!("not {what}: {e}")))
}

/// Deletes files that nothing needs; returns their keys and a report as JSON.
#[pyfunction]
#[pyo3(signature = (snapshot, request, inventory = None))]
pub(crate) fn vacuum(
    py: Python<'_>,
    snapshot: &Snapshot,
    request: &str,
    inventory: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Vec<String>, String)> {
    let inventory = inventory.map(reader_of).transpose()?;
    run(py, || {
        let request: VacuumRequest = parse(request, "a vacuum")?;
        let store = snapshot.inner.store();
        let done = block_on(deltaplane_log::vacuum(store, &request, inventory.map(objects)))?;
        let report = json!({
            "size_bytes": done.size_bytes, "directories": done.directories, "version": done.version,
        });
        Ok((done.files, report.to_string()))
    })
}

/// The rows of an inventory: `path`, `length` and `modificationTime`, in this order.
fn objects(rows: Box<dyn RecordBatchReader + Send>) -> BoxStream<'static, Result<ObjectInfo>> {
    stream::iter(rows)
        .map_err(|e| Error::invalid_argument(format!("the inventory can't be read: {e}")))
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
