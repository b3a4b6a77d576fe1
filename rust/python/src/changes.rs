//! The changes class: the change data feed as an Arrow stream.

use deltaplane_boundary::boundary;
pub(crate) use deltaplane_operations::changes::{Changes as Rows, Part, parts_of};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_bridge::{LastError, raise_last, schema_capsule, stream_capsule};

/// Changed rows of a range of versions; each reader reads them from the beginning.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct Changes {
    rows: Rows,
    error: LastError,
}

impl From<Rows> for Changes {
    fn from(rows: Rows) -> Self {
        Changes {
            rows,
            error: LastError::default(),
        }
    }
}

#[boundary]
#[pymethods]
impl Changes {
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

    /// How many files they are in.
    #[getter]
    fn num_files(&self) -> usize {
        self.rows.num_files()
    }

    /// Raises the error that ended the last stream, as its own class: C streams carry text alone.
    fn raise_error(&self) -> PyResult<()> {
        raise_last(&self.error)
    }
}
