//! Users' Arrow data on its way in: objects of the Arrow PyCapsule interface become `Incoming`,
//! which checks them.

use arrow::datatypes::Schema;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_operations::incoming::Incoming;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow_bridge::{SCHEMA, STREAM, capsule};

/// An argument with `__arrow_c_stream__` or `__arrow_c_array__`.
pub(crate) struct Rows(pub(crate) Incoming);

impl<'py> FromPyObject<'_, 'py> for Rows {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        reader_of(&object).map(Rows)
    }
}

/// An argument with `__arrow_c_schema__` or `__arrow_c_stream__`.
pub(crate) struct Columns(pub(crate) Schema);

impl<'py> FromPyObject<'_, 'py> for Columns {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        schema_of(&object).map(Columns)
    }
}

/// The schema of any object with `__arrow_c_schema__` or `__arrow_c_stream__`.
fn schema_of(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    if !object.hasattr("__arrow_c_schema__")? {
        return Ok(reader_of(object)?.schema().as_ref().clone());
    }
    let capsule = capsule(object, "__arrow_c_schema__")?;
    let pointer = capsule.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name holds a valid ArrowSchema for as long as it lives.
    let schema = Schema::try_from(unsafe { pointer.as_ref() });
    schema.map_err(|e| PyValueError::new_err(format!("not a readable Arrow schema: {e}")))
}

/// The batches of any object with `__arrow_c_stream__` or `__arrow_c_array__`.
fn reader_of(object: &Bound<'_, PyAny>) -> PyResult<Incoming> {
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = capsule(object, "__arrow_c_stream__")?;
        let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: a capsule of this name holds a valid ArrowArrayStream, which is moved out of it once.
        let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
        let incoming = Incoming::of_stream(stream);
        return incoming.map_err(|e| PyValueError::new_err(format!("not a readable Arrow stream: {e}")));
    }
    if object.hasattr("__arrow_c_array__")? {
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
            object.call_method0("__arrow_c_array__")?.extract()?;
        let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
        let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
        // SAFETY: a capsule of this name holds a valid ArrowSchema for as long as it lives.
        let schema = Schema::try_from(unsafe { schema.as_ref() });
        let schema = schema.map_err(|e| PyValueError::new_err(format!("not a readable Arrow array: {e}")))?;
        // SAFETY: a capsule of this name holds a valid ArrowArray, which is moved out of it once.
        let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
        return Ok(Incoming::of_array(schema, array));
    }
    Err(PyTypeError::new_err(
        "expected Arrow data: an object with __arrow_c_stream__ or __arrow_c_array__ (a pyarrow, Polars, pandas or DuckDB table)",
    ))
}

/// Refuses data that isn't what its types say; `first_row` is the number of its first row where it
/// comes from.
#[boundary]
pub(crate) fn check_batch(data: Rows, first_row: u64) -> Result<()> {
    data.0.from_row(first_row).try_for_each(|batch| batch.map(drop))
}
