//! ALTER across the boundary, and what the core knows of features and properties.

use std::collections::HashMap;

use deltaplane_boundary::boundary;
use deltaplane_log::AlterRequest;
use deltaplane_protocol::features::{self, Kind};
use deltaplane_protocol::properties::{KNOWN, Values};
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::errors::run;
use crate::record::Record;
use crate::records::command_results::{AlterResult, FeatureInfo, PropertyInfo};
use crate::snapshot::store;

/// Plans and commits one change of a table's metadata.
#[boundary]
#[pyfunction]
pub(crate) fn alter_table(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    request: Record<AlterRequest>,
) -> PyResult<AlterResult> {
    let done = run(py, || {
        block_on(deltaplane_log::alter(&store(location, options)?, &request.0))
    })?;
    Ok(done.into())
}

/// Every feature of the protocol that this build knows, with what it can do with a table that
/// supports it.
#[boundary]
#[pyfunction]
pub(crate) fn known_features() -> Vec<FeatureInfo> {
    let all = features::all().map(|f| FeatureInfo {
        name: f.name.to_owned(),
        reader: f.kind == Kind::ReaderWriter,
        legacy: f.legacy,
        requires: f.requires.iter().map(|name| (*name).to_owned()).collect(),
        reads: features::reads(f),
        writes: features::writes(f),
    });
    all.collect()
}

/// Every table property that Delta knows.
#[boundary]
#[pyfunction]
pub(crate) fn known_properties() -> Vec<PropertyInfo> {
    let all = KNOWN.iter().map(|k| PropertyInfo {
        key: k.key(),
        values: k.values.describe(),
        default: k.default.map(str::to_owned),
        meaning: k.meaning.to_owned(),
        settable: k.values != Values::Internal,
    });
    all.collect()
}
