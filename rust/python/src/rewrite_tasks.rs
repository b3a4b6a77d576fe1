//! What tasks on other machines do for a command that changes rows, as functions over text.

use std::collections::HashMap;

use deltaplane_boundary::boundary;
use deltaplane_operations::rewrite::tasks::{self, TaskSpec};
use pyo3::prelude::*;

use crate::errors::run;
use crate::incoming::reader_of;
use crate::record::Record;
use crate::snapshot::store;

/// Writes rows of one task to files that no log names yet, recorded as this change; returns what
/// was done, as JSON.
///
/// `inserts` says that the rows are new in the table: identity columns that they lack are filled
/// from the range of the task's number.
#[boundary]
#[pyfunction]
#[pyo3(signature = (location, options, spec, data, change, inserts, task))]
#[allow(
    clippy::too_many_arguments,
    reason = "each is a part of a task that travels by itself"
)]
pub(crate) fn write_rows(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    spec: Record<TaskSpec>,
    data: &Bound<'_, PyAny>,
    change: Option<&str>,
    inserts: bool,
    task: u32,
) -> PyResult<String> {
    let reader = reader_of(data)?;
    run(py, || {
        let store = spec.0.store(store(location, options)?)?;
        tasks::write_rows(&store, &spec.0, reader, change, inserts, task)?.to_json()
    })
}

/// Deletes rows of files: by vectors where files take one, else by copying the other rows.
///
/// The stream has a row for each row to be deleted, with its file's decoded path (`file`), its
/// position (`row`) and the number of the clause that deletes it (`act`), and for each file a row
/// with its add action as JSON (`add`). Clauses in `deletes` may name a row several times. With
/// `records` the old rows are recorded, where the table records changes, as deleted by these and as
/// updated by others. Returns what was done, as JSON.
#[boundary]
#[pyfunction]
pub(crate) fn take_out_rows(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    spec: Record<TaskSpec>,
    data: &Bound<'_, PyAny>,
    deletes: Vec<i32>,
    records: bool,
) -> PyResult<String> {
    let reader = reader_of(data)?;
    run(py, || {
        let store = spec.0.store(store(location, options)?)?;
        tasks::take_out_rows(&store, &spec.0, reader, deletes, records)?.to_json()
    })
}
