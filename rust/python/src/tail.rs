//! The tail class: a table that is followed, its offsets as texts, its new rows as an Arrow stream,
//! as splits for Spark's tasks or as add actions for Spark's own scan. Boundary; what is new is the
//! log's matter.

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::{ColumnSteps, Tail as Inner, TailLimits, TailOffset, TailRequest, TailStart, TrackedColumns};
use deltaplane_operations::changes::{Changes, Part, tail_parts};
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::record::Record;
use crate::scan::Scan;
use crate::snapshot::{Options, Snapshot, store};
use crate::spark::splits::{Split, split_parts, splits_of};
use crate::values::added_files::AddedFiles;
use crate::values::predicate::{Predicate, expr};

/// One table, followed with the columns that it had when this was opened.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Tail {
    inner: Inner,
}

#[boundary]
impl Tail {
    #[staticmethod]
    fn open(location: &str, options: Options, request: Record<TailRequest>) -> Result<Self> {
        let inner = block_on(Inner::open(&store(location, options)?, request.0))?;
        Ok(Tail { inner })
    }

    /// The version whose columns rows are shown with.
    #[getter]
    fn snapshot(&self) -> Snapshot {
        self.inner.reading().clone().into()
    }

    /// The number of the newest version now.
    fn newest_version(&self) -> Result<u64> {
        block_on(self.inner.newest()).map(|newest| newest.version())
    }

    /// The offset to begin with.
    #[pyo3(signature = (from, /))]
    fn start(&self, from: Record<TailStart>) -> Result<String> {
        block_on(self.inner.start(from.0)).map(|start| start.to_text())
    }

    /// How far a reader comes in one go.
    #[pyo3(signature = (start, limits, until = None))]
    fn end(&self, start: &str, limits: Record<TailLimits>, until: Option<u64>) -> Result<String> {
        let start = TailOffset::parse(start)?;
        block_on(self.inner.end(&start, limits.0, until)).map(|end| end.to_text())
    }

    /// The columns of the next rows, as a request takes them, if a reader with fixed columns has
    /// reached a commit with others.
    fn next_columns(&self, offset: &str) -> Result<Option<Record<TrackedColumns>>> {
        let next = block_on(self.inner.next_columns(&TailOffset::parse(offset)?))?;
        Ok(next.map(Record))
    }

    /// The columns of rows that are read at an offset, and whether this reader shows rows with
    /// them.
    fn columns_at(&self, offset: &str) -> Result<(Record<TrackedColumns>, bool)> {
        let columns = block_on(self.inner.columns_at(&TailOffset::parse(offset)?))?;
        let shown = TrackedColumns::of(columns.version, self.inner.reading().state());
        let same = columns.shows_as(&shown)?;
        Ok((Record(columns), same))
    }

    /// How columns differ from older ones.
    #[staticmethod]
    fn column_steps(older: Record<TrackedColumns>, newer: Record<TrackedColumns>) -> Result<Record<ColumnSteps>> {
        newer.0.steps_from(&older.0).map(Record)
    }

    /// The files with the rows between two offsets.
    fn adds(&self, start: &str, end: &str) -> Result<AddedFiles> {
        block_on(self.inner.files(&TailOffset::parse(start)?, &TailOffset::parse(end)?)).map(AddedFiles)
    }

    /// The same files in splits of about `target_bytes` bytes of files each.
    fn splits(&self, start: &str, end: &str, target_bytes: u64) -> Result<Vec<Split>> {
        Ok(splits_of(split_parts(self.parts(start, end, None)?, target_bytes)))
    }

    /// The rows between two offsets.
    #[pyo3(signature = (start, end, columns = None, predicate = None))]
    fn rows(
        &self,
        start: &str,
        end: &str,
        columns: Option<Vec<String>>,
        predicate: Option<&Predicate>,
    ) -> Result<Scan> {
        let parts = self.parts(start, end, predicate)?;
        let (reading, with_changes) = (self.inner.reading(), self.inner.tells_changes());
        Changes::of_parts(reading, parts, columns, expr(predicate), with_changes).map(Scan::from)
    }
}

impl Tail {
    fn parts(&self, start: &str, end: &str, predicate: Option<&Predicate>) -> Result<Vec<Part>> {
        let (start, end) = (TailOffset::parse(start)?, TailOffset::parse(end)?);
        block_on(tail_parts(&self.inner, &start, &end, expr(predicate)))
    }
}
