//! Arrow out of the core by PyCapsules: schemas and streams of the Arrow PyCapsule interface.
//! `incoming` is the way in.

use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use deltaplane_boundary::boundary;
use deltaplane_error::{Error, Result};
use futures::StreamExt;
use futures::stream::BoxStream;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{panicked, to_python};
use crate::log_store::waiting;

pub(crate) const SCHEMA: &CStr = c"arrow_schema";
pub(crate) const STREAM: &CStr = c"arrow_array_stream";

/// Where a stream leaves the error that ended it: C streams carry text alone.
pub(crate) type LastError = Arc<Mutex<Option<Error>>>;

/// Raises the error that ended the last stream, as its own class.
pub(crate) fn raise_last(error: &LastError) -> PyResult<()> {
    match error.lock().ok().and_then(|mut e| e.take()) {
        Some(e) => Err(to_python(&e)),
        None => Ok(()),
    }
}

/// Batches of an async stream, pulled by the reader of the C stream.
struct Pulled {
    schema: SchemaRef,
    stream: BoxStream<'static, Result<RecordBatch>>,
    error: LastError,
}

impl Pulled {
    /// The next batch. A C stream's caller can't be unwound into: a panic, in a decoder that meets
    /// hostile bytes, would end the process, so it becomes an error here.
    fn pull(&mut self) -> Option<Result<RecordBatch>> {
        let next = || waiting(|| deltaplane_store::block_on(self.stream.next()));
        catch_unwind(AssertUnwindSafe(next)).unwrap_or_else(|panic| Some(Err(panicked(panic.as_ref()))))
    }
}

impl Iterator for Pulled {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.pull()? {
            Ok(batch) => Some(Ok(batch)),
            Err(e) => {
                // A C string ends at its first NUL, and arrow would end the process: hostile paths
                // hold some.
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

/// What `__arrow_c_stream__` returns: a capsule of a stream of batches of this schema, which leaves
/// the error that ends it in `error`. The protocol lets a producer ignore the requested schema; the
/// consumer casts.
pub(crate) fn stream_capsule<'py>(
    py: Python<'py>,
    requested_schema: Option<Bound<'py, PyAny>>,
    schema: &SchemaRef,
    stream: BoxStream<'static, Result<RecordBatch>>,
    error: &LastError,
) -> PyResult<Bound<'py, PyCapsule>> {
    drop(requested_schema);
    let reader = Pulled {
        schema: schema.clone(),
        stream,
        error: error.clone(),
    };
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
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

#[boundary]
#[pymethods]
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
