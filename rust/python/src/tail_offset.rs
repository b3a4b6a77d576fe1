//! The offset of a follower as a class, read from the text that its user keeps.

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log as core;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// An offset of a follower, read from the text that its user keeps.
#[pyclass(frozen, eq, module = "deltaplane._native")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TailOffset(pub(crate) core::TailOffset);

#[boundary(get(table_id: String, version: u64, index: u64, is_starting_version: bool))]
impl TailOffset {
    #[new]
    fn new(text: &str) -> Result<Self> {
        core::TailOffset::parse(text).map(TailOffset)
    }

    /// Whether nothing of the version has been read.
    #[getter]
    fn is_between_versions(&self) -> bool {
        self.0.is_between_versions()
    }

    /// An offset in the last version of which rows were read.
    fn last_read(&self) -> Self {
        TailOffset(self.0.last_read())
    }

    fn __str__(&self) -> String {
        self.0.to_text()
    }

    fn __repr__(&self) -> String {
        format!("TailOffset({:?})", self.0.to_text())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (String,)) {
        (slf.get_type(), (slf.get().0.to_text(),))
    }
}
