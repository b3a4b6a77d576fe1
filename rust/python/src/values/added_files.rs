//! Data files that were written and are not committed, as a frozen class that holds their add
//! actions.

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_operations::write_job::{adds_of_rows, split_empty};
use deltaplane_protocol::actions::{Add, claimed_sum};
use pyo3::prelude::*;

use crate::incoming::Rows;

/// Data files, in the order in which they were written.
#[pyclass(frozen, eq, module = "deltaplane._native")]
#[derive(PartialEq)]
pub(crate) struct AddedFiles(pub(crate) Vec<Add>);

#[boundary(pickles)]
impl AddedFiles {
    /// From the add actions, as JSON, in the column `add` of rows that another process made.
    #[staticmethod]
    fn of_rows(rows: Rows) -> Result<Self> {
        adds_of_rows(rows.0).map(AddedFiles)
    }

    /// All files of several, in their order.
    #[staticmethod]
    fn joined(parts: Vec<PyRef<'_, AddedFiles>>) -> Self {
        AddedFiles(parts.iter().flat_map(|part| part.0.iter().cloned()).collect())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Bytes of all files.
    #[getter]
    fn size_bytes(&self) -> i64 {
        claimed_sum(self.0.iter().map(|add| add.size))
    }

    /// The files that have rows, and the decoded paths of those that have none.
    fn split_empty(&self) -> Result<(Self, Vec<String>)> {
        split_empty(&self.0).map(|(files, empty)| (AddedFiles(files), empty))
    }
}
