//! What Spark's scans ask of the core: plans, splits for its tasks, distributed replay.

mod plan;
mod replay;
pub(crate) mod splits;

use pyo3::prelude::*;

/// Adds these modules' names to the native module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    plan::register(module)?;
    replay::register(module)?;
    splits::register(module)
}
