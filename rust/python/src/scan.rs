//! The scan class: rows of one version as an Arrow stream.

use deltaplane_boundary::boundary;
pub(crate) use deltaplane_operations::scan::{Scan as Rows, ScanRequest, bind, members_of};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_bridge::{LastError, raise_last, schema_capsule, stream_capsule};

/// Rows of one version; each reader reads them from the beginning.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Scan {
    rows: Rows,
    error: LastError,
}

impl From<Rows> for Scan {
    fn from(rows: Rows) -> Self {
        Scan {
            rows,
            error: LastError::default(),
        }
    }
}

#[boundary]
#[pymethods]
impl Scan {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        stream_capsule(
            py,
            requested_schema,
            self.rows.schema(),
            self.rows.stream(),
            &self.error,
        )
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, self.rows.schema())
    }

    /// Raises the error that ended the last stream, as its own class: C streams carry text alone.
    fn raise_error(&self) -> PyResult<()> {
        raise_last(&self.error)
    }
}
