//! The tail class: a table that is followed, its offsets as texts, its new rows as an Arrow stream,
//! as splits for Spark's tasks or as add actions for Spark's own scan. Boundary; what is new is the
//! log's matter.

use std::collections::HashMap;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::{ColumnSteps, Tail as Inner, TailLimits, TailOffset, TailRequest, TailStart, TrackedColumns};
use deltaplane_operations::changes::{Changes, Part, tail_parts};
use deltaplane_store::block_on;
use pyo3::prelude::*;
use serde_json::json;

use crate::errors::run;
use crate::record::Record;
use crate::scan::Scan;
use crate::snapshot::{Snapshot, store};
use crate::spark::splits::{Split, split_parts, splits_of};
use crate::values::predicate::{Predicate, expr};

/// One table, followed with the columns that it had when this was opened.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Tail {
    inner: Inner,
}

#[boundary]
#[pymethods]
impl Tail {
    #[staticmethod]
    #[pyo3(signature = (location, options, request))]
    fn open(
        py: Python<'_>,
        location: &str,
        options: Option<HashMap<String, String>>,
        request: Record<TailRequest>,
    ) -> PyResult<Self> {
        let inner = run(py, || block_on(Inner::open(&store(location, options)?, request.0)))?;
        Ok(Tail { inner })
    }

    /// The version whose columns rows are shown with.
    #[getter]
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            inner: self.inner.reading().clone(),
        }
    }

    /// The number of the newest version now.
    fn newest_version(&self, py: Python<'_>) -> PyResult<u64> {
        run(py, || Ok(block_on(self.inner.newest())?.version()))
    }

    /// The offset to begin with.
    #[pyo3(signature = (from, /))]
    fn start(&self, py: Python<'_>, from: Record<TailStart>) -> PyResult<String> {
        run(py, || Ok(block_on(self.inner.start(from.0))?.to_text()))
    }

    /// How far a reader comes in one go.
    #[pyo3(signature = (start, limits, until = None))]
    fn end(&self, py: Python<'_>, start: &str, limits: Record<TailLimits>, until: Option<u64>) -> PyResult<String> {
        run(py, || {
            let start = TailOffset::parse(start)?;
            Ok(block_on(self.inner.end(&start, limits.0, until))?.to_text())
        })
    }

    /// The columns of the next rows, as a request takes them, if a reader with fixed columns has
    /// reached a commit with others.
    fn next_columns(&self, py: Python<'_>, at: &str) -> PyResult<Option<Record<TrackedColumns>>> {
        run(py, || {
            let next = block_on(self.inner.next_columns(&TailOffset::parse(at)?))?;
            Ok(next.map(Record))
        })
    }

    /// The columns of rows that are read at an offset, and whether this reader shows rows with
    /// them.
    fn columns_at(&self, py: Python<'_>, at: &str) -> PyResult<(Record<TrackedColumns>, bool)> {
        run(py, || {
            let columns = block_on(self.inner.columns_at(&TailOffset::parse(at)?))?;
            let shown = TrackedColumns::of(columns.version, self.inner.reading().state());
            let same = columns.shows_as(&shown)?;
            Ok((Record(columns), same))
        })
    }

    /// How columns differ from older ones.
    #[staticmethod]
    fn column_steps(
        py: Python<'_>,
        older: Record<TrackedColumns>,
        newer: Record<TrackedColumns>,
    ) -> PyResult<Record<ColumnSteps>> {
        run(py, || newer.0.steps_from(&older.0)).map(Record)
    }

    /// The files with the rows between two offsets, as add actions.
    fn adds(&self, py: Python<'_>, start: &str, end: &str) -> PyResult<Vec<String>> {
        run(py, || {
            let adds = block_on(self.inner.files(&TailOffset::parse(start)?, &TailOffset::parse(end)?))?;
            Ok(adds.iter().map(|add| json!(add).to_string()).collect())
        })
    }

    /// The same files in splits of about `target_bytes` bytes of files each.
    fn splits(&self, py: Python<'_>, start: &str, end: &str, target_bytes: u64) -> PyResult<Vec<Split>> {
        let splits = || Ok(split_parts(self.parts(start, end, None)?, target_bytes));
        run(py, splits).map(splits_of)
    }

    /// The rows between two offsets.
    #[pyo3(signature = (start, end, columns = None, predicate = None))]
    fn rows(
        &self,
        py: Python<'_>,
        start: &str,
        end: &str,
        columns: Option<Vec<String>>,
        predicate: Option<&Predicate>,
    ) -> PyResult<Scan> {
        run(py, || {
            let parts = self.parts(start, end, predicate)?;
            let (reading, with_changes) = (self.inner.reading(), self.inner.tells_changes());
            Changes::of_parts(reading, parts, columns, expr(predicate), with_changes).map(Scan::from)
        })
    }
}

impl Tail {
    fn parts(&self, start: &str, end: &str, predicate: Option<&Predicate>) -> Result<Vec<Part>> {
        let (start, end) = (TailOffset::parse(start)?, TailOffset::parse(end)?);
        block_on(tail_parts(&self.inner, &start, &end, expr(predicate)))
    }
}
