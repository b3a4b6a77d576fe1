//! Arrow across the boundary by PyCapsules: the Arrow PyCapsule interface, both ways.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use arrow::array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use deltaplane_error::{Error, Result};
use futures::StreamExt;
use futures::stream::BoxStream;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::to_python;
use crate::log_store::waiting;

const SCHEMA: &CStr = c"arrow_schema";
const STREAM: &CStr = c"arrow_array_stream";

/// Where a stream leaves the error that ended it: C streams carry text alone.
pub(crate) type LastError = Arc<Mutex<Option<Error>>>;

/// Raises the error that ended the last stream, as its own class.
pub(crate) fn raise_last(error: &LastError) -> PyResult<()> {
    match error.lock().ok().and_then(|mut e| e.take()) {
        Some(e) => Err(to_python(&e)),
        None => Ok(()),
    }
}

/// Batches of an async stream, pulled by whoever reads the C stream.
struct Pulled {
    schema: SchemaRef,
    stream: BoxStream<'static, Result<RecordBatch>>,
    error: LastError,
}

impl Pulled {
    /// The next batch. A C stream's caller can't be unwound into: a panic, in a decoder that meets hostile bytes, would
    /// end the process, so it becomes an error here.
    fn pull(&mut self) -> Option<Result<RecordBatch>> {
        let next = || waiting(|| deltaplane_store::block_on(self.stream.next()));
        catch_unwind(AssertUnwindSafe(next)).unwrap_or_else(|_| {
            let what =
                "rows can't be decoded: a decoder gave up (its message is on standard error); please report this";
            Some(Err(Error::internal(what)))
        })
    }
}

impl Iterator for Pulled {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.pull()? {
            Ok(batch) => Some(Ok(batch)),
            Err(e) => {
                // A C string ends at its first NUL, and arrow would end the process: hostile paths hold some.
                let text = e.to_string().replace('\0', "\\0");
                if let Ok(mut last) = self.error.lock() {
                    *last = Some(e);
                }
                self.stream = futures::stream::empty().boxed();
                Some(Err(ArrowError::ComputeError(text)))
            }
        }
    }
}

impl RecordBatchReader for Pulled {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A capsule of a stream of batches of this schema.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    stream: BoxStream<'static, Result<RecordBatch>>,
    error: LastError,
) -> PyResult<Bound<'py, PyCapsule>> {
    let reader = Pulled { schema, stream, error };
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

/// A capsule of a schema.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let ffi = FFI_ArrowSchema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))?;
    PyCapsule::new_with_value(py, ffi, SCHEMA)
}

fn capsule<'py>(object: &Bound<'py, PyAny>, method: &str) -> PyResult<Bound<'py, PyCapsule>> {
    Ok(object.call_method0(method)?.cast_into::<PyCapsule>()?)
}

/// The schema of any object with `__arrow_c_schema__` or `__arrow_c_stream__`.
pub(crate) fn schema_of(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    if !object.hasattr("__arrow_c_schema__")? {
        return Ok(reader_of(object)?.schema().as_ref().clone());
    }
    let capsule = capsule(object, "__arrow_c_schema__")?;
    let pointer = capsule.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name holds a valid ArrowSchema for as long as it lives.
    let ffi = unsafe { pointer.as_ref() };
    Schema::try_from(ffi).map_err(|e| PyValueError::new_err(format!("not a readable Arrow schema: {e}")))
}

/// The batches of any object with `__arrow_c_stream__` or `__arrow_c_array__`.
pub(crate) fn reader_of(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if object.hasattr("__arrow_c_stream__")? {
        let capsule = capsule(object, "__arrow_c_stream__")?;
        let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: a capsule of this name holds a valid ArrowArrayStream, which is moved out of it once.
        let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) };
        let reader = reader.map_err(|e| PyValueError::new_err(format!("not a readable Arrow stream: {e}")))?;
        return Ok(Box::new(reader));
    }
    if object.hasattr("__arrow_c_array__")? {
        let batch = batch_of(object)?;
        let schema = batch.schema();
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    Err(PyTypeError::new_err(
        "expected Arrow data: an object with __arrow_c_stream__ or __arrow_c_array__ (a pyarrow, Polars, pandas or DuckDB table)",
    ))
}

fn batch_of(object: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    use arrow::array::{Array, StructArray};
    use arrow::ffi::{FFI_ArrowArray, from_ffi};
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        object.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold a valid ArrowSchema and ArrowArray; the array is moved out once.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    let data = data.map_err(|e| PyValueError::new_err(format!("not a readable Arrow array: {e}")))?;
    let rows = StructArray::from(data);
    if rows.null_count() > 0 {
        return Err(PyValueError::new_err("an Arrow array with null rows isn't a table"));
    }
    Ok(RecordBatch::from(rows))
}

/// An Arrow schema behind the capsule protocol.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct ArrowSchema(pub(crate) SchemaRef);

#[pymethods]
impl ArrowSchema {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.0)
    }
}

/// A stream of batches that can be taken once.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct ArrowStream {
    schema: SchemaRef,
    stream: Mutex<Option<BoxStream<'static, Result<RecordBatch>>>>,
    error: LastError,
}

impl ArrowStream {
    pub(crate) fn new(schema: SchemaRef, stream: BoxStream<'static, Result<RecordBatch>>) -> Self {
        ArrowStream {
            schema,
            stream: Mutex::new(Some(stream)),
            error: LastError::default(),
        }
    }
}

#[pymethods]
impl ArrowStream {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer ignore the request; the consumer casts.
        drop(requested_schema);
        let taken = self
            .stream
            .lock()
            .map_err(|_| PyValueError::new_err("the stream was left by a failed reader"))?
            .take();
        let stream = taken.ok_or_else(|| PyValueError::new_err("this stream was read already: ask for a new one"))?;
        stream_capsule(py, self.schema.clone(), stream, self.error.clone())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// Raises the error that ended the stream, as its own class.
    fn raise_error(&self) -> PyResult<()> {
        raise_last(&self.error)
    }
}
