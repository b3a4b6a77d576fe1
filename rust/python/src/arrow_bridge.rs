//! Arrow out of the core by PyCapsules: schemas and streams of the Arrow PyCapsule interface.
//! `incoming` is the way in.

use std::ffi::CStr;
use std::sync::Mutex;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::ffi::FFI_ArrowSchema;
use deltaplane_boundary::boundary;
use deltaplane_operations::c_stream::{Batches, LastError, c_stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::to_python;
use crate::log_store::waiting;

pub(crate) const SCHEMA: &CStr = c"arrow_schema";
pub(crate) const STREAM: &CStr = c"arrow_array_stream";

/// Raises the error that ended the last stream, as its own class.
pub(crate) fn raise_last(error: &LastError) -> PyResult<()> {
    error.take().map_or(Ok(()), |e| Err(to_python(&e)))
}

/// What `__arrow_c_stream__` returns: a capsule of a stream of batches of this schema, which leaves
/// the error that ends it in `error`. The protocol lets a producer ignore the requested schema; the
/// consumer casts.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    requested_schema: Option<Bound<'py, PyAny>>,
    schema: &SchemaRef,
    stream: Batches,
    error: &LastError,
) -> PyResult<Bound<'py, PyCapsule>> {
    drop(requested_schema);
    PyCapsule::new_with_value(py, c_stream(schema.clone(), stream, error.clone(), waiting), STREAM)
}

/// A capsule of a schema.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let ffi = FFI_ArrowSchema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))?;
    PyCapsule::new_with_value(py, ffi, SCHEMA)
}

/// The capsule that a method of the Arrow PyCapsule interface gives.
pub(crate) fn capsule<'py>(object: &Bound<'py, PyAny>, method: &str) -> PyResult<Bound<'py, PyCapsule>> {
    Ok(object.call_method0(method)?.cast_into::<PyCapsule>()?)
}

/// An Arrow schema behind the capsule protocol.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct ArrowSchema(pub(crate) SchemaRef);

#[boundary]
impl ArrowSchema {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0)
    }
}

/// A stream of batches that can be taken once.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct ArrowStream {
    schema: SchemaRef,
    stream: Mutex<Option<Batches>>,
    error: LastError,
}

impl From<(SchemaRef, Batches)> for ArrowStream {
    fn from((schema, stream): (SchemaRef, Batches)) -> Self {
        ArrowStream {
            schema,
            stream: Mutex::new(Some(stream)),
            error: LastError::default(),
        }
    }
}

#[boundary]
impl ArrowStream {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let taken = self
            .stream
            .lock()
            .map_err(|_| PyValueError::new_err("the stream was left by a failed reader"))?
            .take();
        let stream = taken.ok_or_else(|| PyValueError::new_err("this stream was read already: ask for a new one"))?;
        stream_capsule(py, requested_schema, &self.schema, stream, &self.error)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Raises the error that ended the stream, as its own class.
    fn raise_error(&self) -> PyResult<()> {
        raise_last(&self.error)
    }
}
