//! The scan class: rows of a version, or rows that versions changed, as an Arrow stream.

use deltaplane_boundary::boundary;
use deltaplane_operations::c_stream::LastError;
use deltaplane_operations::row_source::RowSource;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_bridge::{raise_last, schema_capsule, stream_capsule};

/// Rows of files; each reader reads them from the beginning.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Scan {
    source: RowSource,
    error: LastError,
}

impl<T: Into<RowSource>> From<T> for Scan {
    fn from(rows: T) -> Self {
        let (source, error) = (rows.into(), LastError::default());
        Scan { source, error }
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
        let (schema, stream) = (self.source.schema(), self.source.stream());
        stream_capsule(py, requested_schema, &schema, stream, &self.error)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.source.schema())
    }

    /// How many files changed rows are in; None for rows of a version.
    #[getter]
    fn num_files(&self) -> Option<usize> {
        self.source.num_changed_files()
    }

    /// Raises the error that ended the last stream, as its own class: C streams carry text alone.
    fn raise_error(&self) -> PyResult<()> {
        raise_last(&self.error)
    }
}
