//! A panic on demand, in builds for tests alone: the boundary must turn it into an error wherever
//! it happens.

use arrow::datatypes::{Field, Schema};
use deltaplane_boundary::boundary;
use deltaplane_error::{Error, Result};
use deltaplane_store::block_on;
use futures::StreamExt;
use pyo3::prelude::*;

use crate::arrow_bridge::ArrowStream;
use crate::errors::run;

#[allow(clippy::panic, reason = "planted")]
fn planted() -> Result<()> {
    panic!("planted")
}

/// Panics in the call itself, in `work` without the GIL, in a `task` of the runtime, or in the
/// `stream` that it returns.
#[boundary]
#[pyfunction]
pub(crate) fn panic_at(py: Python<'_>, place: &str) -> PyResult<ArrowStream> {
    match place {
        "work" => run(py, planted)?,
        "task" => run(py, || {
            let task = block_on(async { tokio::spawn(async { planted() }).await });
            task.unwrap_or_else(|e| Err(Error::internal(e.to_string())))
        })?,
        "stream" => {
            let batches = futures::stream::once(async { planted() }).map(|_| Err(Error::internal("no batch")));
            let schema = Schema::new(vec![Field::new("x", arrow::datatypes::DataType::Int64, true)]);
            return Ok(ArrowStream::new(schema.into(), batches.boxed()));
        }
        _ => {
            let _ = planted();
        }
    }
    Err(pyo3::exceptions::PyValueError::new_err("no such place"))
}
