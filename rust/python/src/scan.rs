//! The scan class: rows of a version, or rows that versions changed, as an Arrow stream.

use deltaplane_boundary::boundary;
use deltaplane_operations::c_stream::LastError;
use deltaplane_operations::changes::Changes;
use deltaplane_operations::scan::Scan as Rows;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_bridge::{raise_last, schema_capsule, stream_capsule};

enum Source {
    Rows(Rows),
    Changes(Changes),
}

/// Rows of files; each reader reads them from the beginning.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Scan {
    source: Source,
    error: LastError,
}

impl From<Source> for Scan {
    fn from(source: Source) -> Self {
        let error = LastError::default();
        Scan { source, error }
    }
}

impl From<Rows> for Scan {
    fn from(rows: Rows) -> Self {
        Source::Rows(rows).into()
    }
}

impl From<Changes> for Scan {
    fn from(changes: Changes) -> Self {
        Source::Changes(changes).into()
    }
}

#[boundary]
impl Scan {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let (schema, stream) = match &self.source {
            Source::Rows(rows) => (rows.schema(), rows.stream()),
            Source::Changes(changes) => (changes.schema(), changes.stream()),
        };
        stream_capsule(py, requested_schema, schema, stream, &self.error)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        match &self.source {
            Source::Rows(rows) => schema_capsule(py, rows.schema()),
            Source::Changes(changes) => schema_capsule(py, changes.schema()),
        }
    }

    /// How many files changed rows are in; None for rows of a version.
    #[getter]
    fn num_files(&self) -> Option<usize> {
        match &self.source {
            Source::Rows(_) => None,
            Source::Changes(changes) => Some(changes.num_files()),
        }
    }

    /// Raises the error that ended the last stream, as its own class: C streams carry text alone.
    fn raise_error(&self) -> PyResult<()> {
        raise_last(&self.error)
    }
}
