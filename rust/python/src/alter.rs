//! ALTER across the boundary, and what the core knows of features and properties.

use std::collections::BTreeMap;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_log::{AlterRequest, Altered, FeatureInfo, PropertyInfo};
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::record::Record;
use crate::snapshot::{Options, store};

/// Plans and commits one change of a table's metadata.
#[boundary]
pub(crate) fn alter_table(location: &str, options: Options, request: Record<AlterRequest>) -> Result<Record<Altered>> {
    block_on(deltaplane_log::alter(&store(location, options)?, &request.0)).map(Record)
}

/// Every feature of the protocol that this build knows.
#[boundary]
pub(crate) fn known_features() -> Record<Vec<FeatureInfo>> {
    Record(deltaplane_log::known_features())
}

/// Refuses properties that Delta doesn't know and values that aren't legal, each on its own.
#[boundary]
pub(crate) fn check_properties(properties: BTreeMap<String, String>) -> Result<()> {
    deltaplane_log::check_properties(&properties)
}

/// Every table property that Delta knows.
#[boundary]
pub(crate) fn known_properties() -> Record<Vec<PropertyInfo>> {
    Record(deltaplane_log::known_properties())
}
