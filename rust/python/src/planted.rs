//! For builds for tests alone: a panic on demand, which the boundary must turn into an error
//! wherever it happens, and the fields of the structs that cross as classes.

use std::collections::BTreeMap;

use arrow::datatypes::{Field, Schema};
use deltaplane_boundary::boundary;
use deltaplane_catalog::named::CatalogEntry;
use deltaplane_error::{Error, Result};
use deltaplane_operations::struct_shapes::{Shape, requests_and_results};
use deltaplane_spark_plan::question::PlainQuestion;
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
pub(crate) fn panic_at(place: &str) -> PyResult<ArrowStream> {
    match place {
        "work" => run(planted)?,
        "task" => run(|| {
            let task = block_on(async { tokio::spawn(async { planted() }).await });
            task.unwrap_or_else(|e| Err(Error::internal(e.to_string())))
        })?,
        "stream" => {
            let batches = futures::stream::once(async { planted() }).map(|_| Err(Error::internal("no batch")));
            let schema = Schema::new(vec![Field::new("x", arrow::datatypes::DataType::Int64, true)]);
            return Ok((schema.into(), batches.boxed()).into());
        }
        _ => drop(planted()),
    }
    Err(pyo3::exceptions::PyValueError::new_err("no such place"))
}

/// The fields of each struct that crosses as a class, by its name.
#[boundary]
pub(crate) fn record_fields() -> BTreeMap<&'static str, &'static [&'static str]> {
    let mut fields = requests_and_results();
    let others = [Shape::of::<PlainQuestion>(), Shape::of::<CatalogEntry>()];
    fields.extend(others.into_iter().flatten().map(|shape| (shape.name, shape.fields)));
    fields
}
