//! ALTER across the boundary, and what the core knows of features and properties.

use std::collections::HashMap;

use deltaplane_boundary::boundary;
use deltaplane_log::{AlterRequest, Altered, FeatureInfo, PropertyInfo};
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::errors::run;
use crate::record::Record;
use crate::snapshot::store;

/// Plans and commits one change of a table's metadata.
#[boundary]
#[pyfunction]
pub(crate) fn alter_table(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    request: Record<AlterRequest>,
) -> PyResult<Record<Altered>> {
    let done = run(py, || {
        block_on(deltaplane_log::alter(&store(location, options)?, &request.0))
    })?;
    Ok(Record(done))
}

/// Every feature of the protocol that this build knows.
#[boundary]
#[pyfunction]
pub(crate) fn known_features() -> Vec<Record<FeatureInfo>> {
    deltaplane_log::known_features().into_iter().map(Record).collect()
}

/// Every table property that Delta knows.
#[boundary]
#[pyfunction]
pub(crate) fn known_properties() -> Vec<Record<PropertyInfo>> {
    deltaplane_log::known_properties().into_iter().map(Record).collect()
}
