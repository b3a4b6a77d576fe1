//! The class of a command that changes rows, and what tasks on other machines do for one: one call
//! of `operations` for each step.

use std::collections::BTreeMap;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::{DryRun, Protocols, RewriteRequest};
use deltaplane_operations::rewrite::tasks::{self, Outcome, TaskSpec};
use deltaplane_operations::rewrite::{LocatedFile, Session};
use deltaplane_operations::write_job::Spec;
use deltaplane_spark_plan::plan::by_uri;
use pyo3::prelude::*;
use pythonize::pythonize;

use crate::errors::run;
use crate::incoming::Rows;
use crate::record::Record;
use crate::scan::Scan;
use crate::snapshot::{Options, Snapshot, store};

/// A command on one version of a table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Rewrite(Session);

/// A file as tasks need it: Spark's URI, the decoded path, the add action as bytes, the first row's
/// id, and whether it takes a vector.
type Located = (String, String, Vec<u8>, Option<i64>, bool);

#[boundary]
impl Rewrite {
    #[staticmethod]
    fn begin(snapshot: &Snapshot, request: Record<RewriteRequest>) -> Result<Self> {
        Session::begin(&snapshot.0, request.0).map(Rewrite)
    }

    #[getter]
    fn skip(&self) -> Option<&'static str>;

    /// The number of files with selected rows.
    #[getter]
    fn picked_files(&self) -> Result<usize>;

    /// The bytes of these files.
    #[getter]
    fn picked_bytes(&self) -> Result<i64>;

    /// Whether other rows of the selected rows' files are copied to new files.
    #[getter]
    fn copies_rows(&self) -> Result<bool>;

    /// The rows that were written, without copied ones.
    #[getter]
    fn written_rows(&self) -> Result<usize>;

    /// Whether changed rows are recorded.
    #[getter]
    fn records_changes(&self) -> bool;

    /// The protocol before and after.
    #[getter]
    fn protocols(&self) -> Record<Protocols>;

    #[getter]
    fn selects_files(&self) -> bool;

    /// What tasks on other machines must know.
    #[getter]
    fn task_spec(&self) -> Result<Record<TaskSpec>>;

    /// How new files are written.
    #[getter]
    fn spec(&self) -> Result<Record<Spec>>;

    /// The live files that Spark shows under these URIs: each with its URI, decoded path, add
    /// action as bytes, first row id, and whether it takes a vector.
    fn located(&self, uris: Vec<String>) -> Result<Vec<Located>> {
        let files = self.0.command().located(uris, by_uri)?;
        files.into_iter().map(LocatedFile::into_parts).collect()
    }

    /// Takes over what tasks on other machines did.
    fn adopt(&self, outcomes: Vec<PyRef<'_, TaskOutcome>>) -> PyResult<()> {
        let outcomes = outcomes.iter().map(|outcome| outcome.0.clone()).collect();
        run(|| self.0.adopt(outcomes))
    }

    /// Selects the rows that a stream names by `_file` and `_row`; returns how many.
    fn select_rows(&self, rows: Rows) -> Result<u64> {
        self.0.select(|begun| begun.select_rows(rows.0))
    }

    /// Selects all rows of the files that the command's condition selects; returns how many, if the
    /// log says so.
    fn pick_files(&self) -> Result<Option<i64>>;

    /// Selects the files that hold what the table has no more, so that all their rows are copied;
    /// returns how many.
    fn pick_outdated(&self) -> Result<usize>;

    /// Selects all files, where the command gives columns other names in them; returns how many.
    fn pick_renamed(&self) -> Result<usize>;

    /// The selected rows, with their ids where they have some.
    fn picked(&self) -> Result<Scan> {
        self.0.selected(|selected| selected.rows()).map(Scan::from)
    }

    /// These columns of the selected rows, with their ids where they have some, and their
    /// positions.
    fn picked_places(&self, columns: Vec<String>) -> Result<Scan> {
        self.0
            .selected(|selected| selected.positioned_rows(columns))
            .map(Scan::from)
    }

    /// Copies the rows beside the selected ones, where files are not marked.
    fn copy_others(&self) -> Result<()>;

    /// Chooses the files of at least `at_least` bytes that keep all but these columns as they are;
    /// returns how many.
    fn patch_columns(&self, columns: Vec<String>, at_least: i64) -> Result<usize>;

    /// The decoded paths of the chosen files.
    #[getter]
    fn patched_paths(&self) -> Result<Vec<String>>;

    /// These columns of the selected rows of the chosen files, with their positions.
    fn patched_places(&self, columns: Vec<String>) -> Result<Scan> {
        self.0
            .selected(|selected| selected.patched_rows(columns))
            .map(Scan::from)
    }

    /// Writes the chosen files with new values in their selected rows, which come in the files'
    /// order, named as `patched_places` does; returns how many rows.
    fn patch(&self, rows: Rows) -> Result<usize> {
        self.0.patch(rows.0)
    }

    /// Writes rows that the table has from now on, and records them as this change.
    #[pyo3(signature = (rows, change = None))]
    fn write(&self, rows: Rows, change: Option<&str>) -> Result<()> {
        self.0.selected(|selected| selected.write(rows.0, change))
    }

    /// Writes rows that are new in the table; columns that they lack get what the table gives them.
    /// Returns how many.
    #[pyo3(signature = (rows, change = None))]
    fn insert(&self, rows: Rows, change: Option<&str>) -> Result<usize> {
        self.0.selected(|selected| selected.insert(rows.0, change))
    }

    /// Records rows as this change, where changes are recorded.
    fn record(&self, rows: Rows, change: &str) -> Result<()> {
        self.0.selected(|selected| selected.record(rows.0, change))
    }

    /// Records the selected rows as this change, where changes are recorded.
    fn record_picked(&self, change: &str) -> Result<()>;

    /// Completes the new files and deletes the selected rows; returns what was done to files, by
    /// delta-spark's names of metrics.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pythonize(py, &run(|| self.0.finish())?)?)
    }

    /// What the commit with these metrics, by delta-spark's names, would be.
    fn dry_run(&self, metrics: BTreeMap<String, String>) -> Result<Record<DryRun>>;

    /// Commits with these metrics; returns the version.
    fn commit(&self, metrics: BTreeMap<String, String>) -> Result<u64>;

    /// Deletes what was written for a commit that didn't happen.
    fn abort(&self) -> Result<()>;
}

impl Drop for Rewrite {
    /// Deletes the files of a command that was neither committed nor aborted. A store in Python
    /// needs the GIL meanwhile.
    fn drop(&mut self) {
        if self.0.has_files() {
            Python::attach(|py| py.detach(|| self.0.discard()));
        }
    }
}

/// What a task did for a command.
#[boundary(pickles, get(written_rows: usize, taken_out: BTreeMap<i32, u64>, twice: u64, task: u32))]
pub(crate) struct TaskOutcome(Outcome);

/// Writes rows of one task to files that no log names yet, recorded as this change.
///
/// `inserts` says that the rows are new in the table: identity columns that they lack are filled
/// from the range of the task's number.
#[boundary]
pub(crate) fn write_rows(
    location: &str,
    options: Options,
    spec: Record<TaskSpec>,
    data: Rows,
    change: Option<&str>,
    inserts: bool,
    task: u32,
) -> Result<TaskOutcome> {
    let store = spec.0.store(store(location, options)?)?;
    tasks::write_rows(&store, &spec.0, data.0, change, inserts, task).map(TaskOutcome)
}

/// Deletes rows of files: by vectors where files take one, else by copying the other rows.
///
/// The stream has a row for each row to be deleted, with its file's decoded path (`file`), its
/// position (`row`) and the number of the clause that deletes it (`act`), and for each file a row
/// with its add action as bytes (`add`). Clauses in `deletes` may name a row several times. With
/// `records` the old rows are recorded, where the table records changes, as deleted by these and as
/// updated by others.
#[boundary]
pub(crate) fn take_out_rows(
    location: &str,
    options: Options,
    spec: Record<TaskSpec>,
    data: Rows,
    deletes: Vec<i32>,
    records: bool,
) -> Result<TaskOutcome> {
    let store = spec.0.store(store(location, options)?)?;
    tasks::take_out_rows(&store, &spec.0, data.0, deletes, records).map(TaskOutcome)
}
