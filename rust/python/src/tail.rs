//! The tail class: a table that is followed, its offsets, its new rows as an Arrow stream,
//! as splits for Spark's tasks or as add actions for Spark's own scan. Only converts between Python
//! and the log's crate, which finds the new rows.

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::{ColumnSteps, Tail as Inner, TailLimits, TailRequest, TailStart, TrackedColumns};
use deltaplane_operations::changes::{Changes, Part, tail_parts};
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::record::Record;
use crate::scan::Scan;
use crate::session_options::with_store;
use crate::snapshot::{Options, Snapshot};
use crate::spark::splits::{Split, split_parts, splits_of};
use crate::tail_offset::TailOffset;
use crate::values::added_files::AddedFiles;
use crate::values::predicate::{Predicate, expr};

/// One table, followed with the columns that it had when this was opened.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Tail(Inner);

#[boundary]
impl Tail {
    #[staticmethod]
    fn open(location: &str, options: Options, request: Record<TailRequest>) -> Result<Self> {
        with_store(location, options, |store| {
            block_on(Inner::open(store, request.0.clone()))
        })
        .map(Tail)
    }

    /// The version whose columns rows are shown with.
    #[getter]
    fn snapshot(&self) -> Snapshot {
        self.0.reading().clone().into()
    }

    /// The number of the newest version now.
    fn newest_version(&self) -> Result<u64> {
        block_on(self.0.newest()).map(|newest| newest.version())
    }

    /// The offset to begin with.
    #[pyo3(signature = (from, /))]
    fn start(&self, from: Record<TailStart>) -> Result<TailOffset> {
        block_on(self.0.start(from.0)).map(TailOffset)
    }

    /// How far a reader comes in one go.
    #[pyo3(signature = (start, limits, until = None))]
    fn end(&self, start: &TailOffset, limits: Record<TailLimits>, until: Option<u64>) -> Result<TailOffset> {
        block_on(self.0.end(&start.0, limits.0, until)).map(TailOffset)
    }

    /// The columns of the next rows, as a request takes them, if a reader with fixed columns has
    /// reached a commit with others.
    fn next_columns(&self, offset: &TailOffset) -> Result<Option<Record<TrackedColumns>>> {
        Ok(block_on(self.0.next_columns(&offset.0))?.map(Record))
    }

    /// The columns of rows that are read at an offset, and whether this reader shows rows with
    /// them.
    fn columns_at(&self, offset: &TailOffset) -> Result<(Record<TrackedColumns>, bool)> {
        let columns = block_on(self.0.columns_at(&offset.0))?;
        let shown = TrackedColumns::of(columns.version, self.0.reading().state());
        let same = columns.shows_as(&shown)?;
        Ok((Record(columns), same))
    }

    /// How columns differ from older ones.
    #[staticmethod]
    fn column_steps(older: Record<TrackedColumns>, newer: Record<TrackedColumns>) -> Result<Record<ColumnSteps>> {
        newer.0.steps_from(&older.0).map(Record)
    }

    /// The files with the rows between two offsets.
    fn adds(&self, start: &TailOffset, end: &TailOffset) -> Result<AddedFiles> {
        block_on(self.0.files(&start.0, &end.0)).map(AddedFiles)
    }

    /// The same files in splits of about `target_bytes` bytes of files each.
    fn splits(&self, start: &TailOffset, end: &TailOffset, target_bytes: u64) -> Result<Vec<Split>> {
        Ok(splits_of(split_parts(self.parts(start, end, None)?, target_bytes)))
    }

    /// The rows between two offsets.
    #[pyo3(signature = (start, end, columns = None, predicate = None))]
    fn rows(
        &self,
        start: &TailOffset,
        end: &TailOffset,
        columns: Option<Vec<String>>,
        predicate: Option<&Predicate>,
    ) -> Result<Scan> {
        let parts = self.parts(start, end, predicate)?;
        let (reading, with_changes) = (self.0.reading(), self.0.tells_changes());
        Changes::of_parts(reading, parts, columns, expr(predicate), with_changes).map(Scan::from)
    }
}

impl Tail {
    fn parts(&self, start: &TailOffset, end: &TailOffset, predicate: Option<&Predicate>) -> Result<Vec<Part>> {
        block_on(tail_parts(&self.0, &start.0, &end.0, expr(predicate)))
    }
}
