//! The class of a command that changes rows: one call of `operations` for each step. It holds the
//! state of the command, and refuses a step that the state doesn't have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltaplane_boundary::boundary;
use deltaplane_error::{Error, Result};
use deltaplane_log::{DryRun, Protocols, RewriteRequest};
use deltaplane_operations::rewrite::tasks::{Outcome, TaskSpec};
use deltaplane_operations::rewrite::{Command, LocatedFile, Rewrite as Begun, Selected, Staged};
use deltaplane_operations::write_job::Spec;
use deltaplane_spark_plan::plan::by_uri;
use pyo3::prelude::*;
use pythonize::pythonize;

use crate::errors::run;
use crate::incoming::reader_of;
use crate::record::Record;
use crate::scan::Scan;
use crate::snapshot::Snapshot;

/// A command on one version of a table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Rewrite {
    command: Arc<Command>,
    state: Mutex<State>,
}

/// The states of a command, of which each has its own steps.
enum State {
    Begun(Begun),
    Selected(Box<Selected>),
    Staged(Box<Staged>),
    /// It was committed or aborted, was a dry run, or failed.
    Ended,
}

/// A file as tasks need it: Spark's URI, the decoded path, the add action as JSON, the first row's
/// id, and whether it takes a vector.
type Located = (String, String, String, Option<i64>, bool);

/// Texts by delta-spark's names of metrics.
type Metrics = BTreeMap<String, String>;

#[boundary]
#[pymethods]
impl Rewrite {
    #[staticmethod]
    fn begin(py: Python<'_>, snapshot: &Snapshot, request: Record<RewriteRequest>) -> PyResult<Self> {
        run(py, || {
            let begun = Begun::begin(&snapshot.inner, request.0)?;
            Ok(Rewrite {
                command: begun.command().clone(),
                state: Mutex::new(State::Begun(begun)),
            })
        })
    }

    #[getter]
    fn skip(&self) -> Option<&'static str> {
        self.command.was_done().then_some("txn")
    }

    /// The number of files with selected rows.
    #[getter]
    fn picked_files(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, Selected::num_files, Staged::num_files)
    }

    /// The bytes of these files.
    #[getter]
    fn picked_bytes(&self, py: Python<'_>) -> PyResult<i64> {
        self.read(py, Selected::num_bytes, Staged::num_bytes)
    }

    /// Whether other rows of the selected rows' files are copied to new files.
    #[getter]
    fn copies_rows(&self, py: Python<'_>) -> PyResult<bool> {
        self.selected(py, |selected| Ok(selected.copies_rows()))
    }

    /// The rows that were written, without copied ones.
    #[getter]
    fn written_rows(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, Selected::written_rows, Staged::written_rows)
    }

    /// Whether changed rows are recorded.
    #[getter]
    fn records_changes(&self) -> bool {
        self.command.records_changes()
    }

    /// The protocol before and after.
    #[getter]
    fn protocols(&self) -> Record<Protocols> {
        Record(self.command.protocols().into())
    }

    #[getter]
    fn selects_files(&self) -> bool {
        self.command.selects_files()
    }

    /// Whether rows are deleted by vectors, in files that take one.
    #[getter]
    fn marks_rows(&self) -> bool {
        self.command.marks_rows()
    }

    /// What tasks on other machines must know.
    #[getter]
    fn task_spec(&self, py: Python<'_>) -> PyResult<Record<TaskSpec>> {
        run(py, || self.command.task_spec()).map(Record)
    }

    /// How new files are written.
    #[getter]
    fn spec(&self) -> Record<Spec> {
        Record(self.command.spec())
    }

    /// The live files that Spark shows under these URIs: each with its URI, decoded path, add
    /// action as JSON, first row id, and whether it takes a vector.
    fn located(&self, py: Python<'_>, uris: Vec<String>) -> PyResult<Vec<Located>> {
        run(py, || {
            let found = self.command.located(uris, by_uri)?;
            found.into_iter().map(located_text).collect()
        })
    }

    /// Takes over what tasks on other machines did, each as JSON.
    fn adopt(&self, py: Python<'_>, outcomes: Vec<String>) -> PyResult<()> {
        self.selected(py, |selected| {
            for text in outcomes {
                selected.adopt(Outcome::parse(&text)?);
            }
            Ok(())
        })
    }

    /// Selects the rows that a stream names by `_file` and `_row`; returns how many.
    fn select_rows(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<u64> {
        let reader = reader_of(rows)?;
        self.select(py, |begun| begun.select_rows(reader))
    }

    /// Selects all rows of the files that the command's condition selects; returns how many, if the
    /// log says so.
    fn pick_files(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.select(py, Begun::select_files)
    }

    /// Selects the files that hold what the table has no more, so that all their rows are copied;
    /// returns how many.
    fn pick_outdated(&self, py: Python<'_>) -> PyResult<usize> {
        self.select(py, |begun| begun.select_outdated().map(with_num_files))
    }

    /// Selects all files, where the command gives columns other names in them; returns how many.
    fn pick_renamed(&self, py: Python<'_>) -> PyResult<usize> {
        self.select(py, |begun| begun.select_renamed().map(with_num_files))
    }

    /// The selected rows, with their ids where they have some.
    fn picked(&self, py: Python<'_>) -> PyResult<Scan> {
        self.selected(py, |selected| selected.rows()).map(Scan::from)
    }

    /// These columns of the selected rows, with their ids where they have some, and their
    /// positions.
    fn picked_places(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Scan> {
        self.selected(py, |selected| selected.positioned_rows(columns))
            .map(Scan::from)
    }

    /// Copies the rows beside the selected ones, where files are not marked.
    fn copy_others(&self, py: Python<'_>) -> PyResult<()> {
        self.selected(py, Selected::copy_others)
    }

    /// Chooses the files of at least `at_least` bytes that keep all but these columns as they are;
    /// returns how many.
    fn patch_columns(&self, py: Python<'_>, columns: Vec<String>, at_least: i64) -> PyResult<usize> {
        self.selected(py, |selected| selected.patch_columns(&columns, at_least))
    }

    /// The decoded paths of the chosen files.
    #[getter]
    fn patched_paths(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.selected(py, |selected| selected.patched_paths())
    }

    /// These columns of the selected rows of the chosen files, with their positions.
    fn patched_places(&self, py: Python<'_>, columns: Vec<String>) -> PyResult<Scan> {
        self.selected(py, |selected| selected.patched_rows(columns))
            .map(Scan::from)
    }

    /// Writes the chosen files with new values in their selected rows, which come in the files'
    /// order, named as `patched_places` does; returns how many rows.
    fn patch(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<usize> {
        let reader = reader_of(rows)?;
        // The rows' reader may ask this object, so its state isn't locked while they are written.
        let Some(patches) = self.selected(py, |selected| selected.patches())? else {
            return Ok(0);
        };
        let (patched, written) = run(py, || Ok(patches.write(reader)))?;
        let rows = patched.rows;
        self.selected(py, |selected| {
            selected.adopt_patched(patched);
            written.map(|()| rows)
        })
    }

    /// Writes rows that the table has from now on, and records them as this change.
    #[pyo3(signature = (rows, change = None))]
    fn write(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, change: Option<&str>) -> PyResult<()> {
        let reader = reader_of(rows)?;
        self.selected(py, |selected| selected.write(reader, change))
    }

    /// Writes rows that are new in the table; columns that they lack get what the table gives them.
    /// Returns how many.
    #[pyo3(signature = (rows, change = None))]
    fn insert(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, change: Option<&str>) -> PyResult<usize> {
        let reader = reader_of(rows)?;
        self.selected(py, |selected| selected.insert(reader, change))
    }

    /// Records rows as this change, where changes are recorded.
    fn record(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, change: &str) -> PyResult<()> {
        let reader = reader_of(rows)?;
        self.selected(py, |selected| selected.record(reader, change))
    }

    /// Records the selected rows as this change, where changes are recorded.
    fn record_picked(&self, py: Python<'_>, change: &str) -> PyResult<()> {
        self.selected(py, |selected| selected.record_selected(change))
    }

    /// Completes the new files and deletes the selected rows; returns what was done to files, by
    /// delta-spark's names of metrics.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let summary = run(py, || {
            let mut state = self.locked();
            let staged = take_selected(&mut state)?.finish()?;
            let summary = staged.summary();
            *state = State::Staged(Box::new(staged));
            Ok(summary)
        })?;
        Ok(pythonize(py, &summary)?)
    }

    /// What the commit with these metrics would be.
    fn dry_run(&self, py: Python<'_>, metrics: Metrics) -> PyResult<Record<DryRun>> {
        run(py, || {
            let metrics = metrics.into_iter().map(|(k, v)| (k, v.into())).collect();
            take_staged(&mut self.locked())?.dry_run(metrics)
        })
        .map(Record)
    }

    /// Commits with these metrics; returns the version.
    fn commit(&self, py: Python<'_>, metrics: Metrics) -> PyResult<u64> {
        run(py, || {
            let metrics = metrics.into_iter().map(|(k, v)| (k, v.into())).collect();
            take_staged(&mut self.locked())?.commit(metrics)
        })
    }

    /// Deletes what was written for a commit that didn't happen.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        run(py, || match std::mem::replace(&mut *self.locked(), State::Ended) {
            State::Selected(selected) => selected.abort(),
            State::Staged(staged) => staged.abort(),
            State::Begun(_) | State::Ended => Ok(()),
        })
    }
}

impl Rewrite {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Selects rows, once.
    fn select<T: Send>(
        &self,
        py: Python<'_>,
        select: impl FnOnce(Begun) -> Result<(Selected, T)> + Send,
    ) -> PyResult<T> {
        run(py, || {
            let mut state = self.locked();
            match std::mem::replace(&mut *state, State::Ended) {
                State::Begun(begun) => {
                    let (selected, rows) = select(begun)?;
                    *state = State::Selected(Box::new(selected));
                    Ok(rows)
                }
                other => {
                    let refused = Err(wrong_state(&other, "select rows"));
                    *state = other;
                    refused
                }
            }
        })
    }

    /// A step on selected rows: on none, if the command hasn't selected any.
    fn selected<T: Send>(&self, py: Python<'_>, step: impl FnOnce(&mut Selected) -> Result<T> + Send) -> PyResult<T> {
        run(py, || {
            let mut state = self.locked();
            select_nothing(&mut state);
            match &mut *state {
                State::Selected(selected) => step(selected),
                other => Err(wrong_state(other, "read or write rows")),
            }
        })
    }

    /// A fact that a command keeps once its files are complete.
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        selected: impl FnOnce(&Selected) -> T + Send,
        staged: impl FnOnce(&Staged) -> T + Send,
    ) -> PyResult<T> {
        run(py, || {
            let mut state = self.locked();
            select_nothing(&mut state);
            match &*state {
                State::Selected(rows) => Ok(selected(rows)),
                State::Staged(files) => Ok(staged(files)),
                other => Err(wrong_state(other, "say what it selected")),
            }
        })
    }
}

impl Drop for Rewrite {
    /// Deletes the files of a command that was neither committed nor aborted. A store in Python
    /// needs the GIL meanwhile.
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *self.locked(), State::Ended);
        if matches!(state, State::Selected(_) | State::Staged(_)) {
            Python::attach(|py| py.detach(|| drop(state)));
        }
    }
}

fn with_num_files(selected: Selected) -> (Selected, usize) {
    let files = selected.num_files();
    (selected, files)
}

fn located_text(file: LocatedFile) -> Result<Located> {
    let text = serde_json::to_string(&file.add);
    let text = text.map_err(|e| Error::internal(format!("can't write an add action: {e}")))?;
    Ok((file.uri, file.path, text, file.add.base_row_id, file.takes_vector))
}

fn select_nothing(state: &mut State) {
    if matches!(state, State::Begun(_))
        && let State::Begun(begun) = std::mem::replace(state, State::Ended)
    {
        *state = State::Selected(Box::new(begun.select_nothing()));
    }
}

fn take_selected(state: &mut State) -> Result<Selected> {
    select_nothing(state);
    match std::mem::replace(state, State::Ended) {
        State::Selected(selected) => Ok(*selected),
        other => {
            let refused = Err(wrong_state(&other, "complete files"));
            *state = other;
            refused
        }
    }
}

fn take_staged(state: &mut State) -> Result<Staged> {
    match std::mem::replace(state, State::Ended) {
        State::Staged(staged) => Ok(*staged),
        other => {
            let refused = Err(wrong_state(&other, "commit"));
            *state = other;
            refused
        }
    }
}

/// A step that the command's state doesn't have.
fn wrong_state(state: &State, step: &str) -> Error {
    let (found, remedy) = match state {
        State::Begun(_) => ("has no complete files", "call finish() first"),
        State::Selected(_) => (
            "has selected its rows, and its files aren't complete",
            "call finish() first",
        ),
        State::Staged(_) => ("has complete files", "commit or abort it, and begin another one"),
        State::Ended => ("has ended", "begin another one"),
    };
    Error::invalid_argument(format!("this command {found}, so it can't {step}: {remedy}"))
}
