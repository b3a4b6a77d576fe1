//! The class of OPTIMIZE: one call of `operations` for each step, and the function that moves a
//! group in a task.

use std::collections::HashMap;

use deltaplane_boundary::boundary;
use deltaplane_log::LayoutRequest;
use deltaplane_operations::optimize::groups::{move_group, parsed, text};
use deltaplane_operations::optimize::{Optimize, OptimizeCommit, OptimizeSummary};
use pyo3::prelude::*;

use crate::errors::run;

use crate::record::Record;
use crate::snapshot::{Snapshot, store};
use crate::values::predicate::{Predicate, expr};

/// OPTIMIZE on one version of a table.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Layout {
    optimize: Optimize,
}

#[boundary]
#[pymethods]
impl Layout {
    #[staticmethod]
    fn begin(py: Python<'_>, snapshot: &Snapshot, request: Record<LayoutRequest>) -> PyResult<Self> {
        run(py, || {
            let optimize = Optimize::begin(&snapshot.inner, request.0)?;
            Ok(Layout { optimize })
        })
    }

    /// Whether an application's version in the request was committed already.
    #[getter]
    fn was_done(&self) -> bool {
        self.optimize.was_done()
    }

    /// What is to be done.
    #[getter]
    fn summary(&self) -> Record<OptimizeSummary> {
        Record(self.optimize.summary())
    }

    /// Files and bytes that a scan would read if each group were one file: one that may match makes
    /// its whole group match.
    #[pyo3(signature = (predicate = None))]
    fn read_after(&self, py: Python<'_>, predicate: Option<&Predicate>) -> PyResult<(u64, i64)> {
        run(py, || self.optimize.read_after(expr(predicate)))
    }

    /// Starts the job: up to `tasks` groups at a time, which hold up to `memory_bytes` of rows
    /// while sorting.
    fn start(&self, py: Python<'_>, tasks: usize, memory_bytes: usize) -> PyResult<()> {
        run(py, || self.optimize.start(tasks, memory_bytes))
    }

    /// What a task on another machine must know to move groups, as JSON.
    #[getter]
    fn task_spec(&self, py: Python<'_>) -> PyResult<String> {
        run(py, || text(&self.optimize.task_spec()?))
    }

    /// The groups, each as JSON for `arrange_group`.
    fn groups(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        run(py, || self.optimize.groups().iter().map(text).collect())
    }

    /// Takes over a group that a task moved, to be committed; the bytes of its old files.
    fn adopt(&self, py: Python<'_>, moved: &str) -> PyResult<i64> {
        run(py, || self.optimize.adopt(parsed(moved)?))
    }

    /// Goes on until one more group is written; the bytes of its old files, `None` at the end.
    fn step(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        run(py, || self.optimize.step())
    }

    /// Commits the groups that were written since the last commit, except those of which another
    /// writer took a file.
    fn commit(&self, py: Python<'_>) -> PyResult<Record<OptimizeCommit>> {
        run(py, || self.optimize.commit()).map(Record)
    }

    /// Deletes what was written for commits that didn't happen; with `committing` the last one may
    /// have happened.
    fn abort(&self, py: Python<'_>, committing: bool) -> PyResult<()> {
        run(py, || self.optimize.abort(committing))
    }
}

/// Moves the rows of one group to new files, in any process, holding up to `memory_bytes` of rows
/// while sorting; returns the argument for `Layout.adopt`.
#[boundary]
#[pyfunction]
pub(crate) fn arrange_group(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    spec: &str,
    group: &str,
    memory_bytes: usize,
) -> PyResult<String> {
    run(py, || {
        let (spec, group) = (parsed(spec)?, parsed(group)?);
        text(&move_group(store(location, options)?, &spec, &group, memory_bytes)?)
    })
}
