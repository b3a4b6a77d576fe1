//! ALTER across the boundary, and what the core knows of features and properties.

use std::collections::HashMap;

use deltaplane_boundary::boundary;
use deltaplane_error::Error;
use deltaplane_log::{AlterRequest, protocol_json};
use deltaplane_protocol::features::{self, Kind};
use deltaplane_protocol::properties::{KNOWN, Values};
use deltaplane_store::block_on;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors::run;
use crate::snapshot::{Snapshot, store};

/// Plans and commits one change of a table's metadata; both texts are JSON.
#[boundary]
#[pyfunction]
pub(crate) fn alter_table(
    py: Python<'_>,
    location: &str,
    options: Option<HashMap<String, String>>,
    request: &str,
) -> PyResult<String> {
    run(py, || {
        let request: AlterRequest = serde_json::from_str(request)
            .map_err(|e| Error::invalid_argument(format!("not a change of a table: {e}")))?;
        let store = store(location, options)?;
        Ok(block_on(deltaplane_log::alter(&store, &request))?.to_json())
    })
}

/// Every feature of the protocol that this build knows, with what it can do with a table that supports it.
#[boundary]
#[pyfunction]
pub(crate) fn features_json() -> String {
    let all = features::all().map(|f| {
        json!({
            "name": f.name,
            "reader": f.kind == Kind::ReaderWriter,
            "legacy": f.legacy,
            "requires": f.requires,
            "reads": features::reads(f),
            "writes": features::writes(f),
        })
    });
    Value::Array(all.collect()).to_string()
}

/// Every table property that Delta knows.
#[boundary]
#[pyfunction]
pub(crate) fn properties_json() -> String {
    let all = KNOWN.iter().map(|k| {
        json!({
            "key": k.key(),
            "values": k.values.describe(),
            "default": k.default,
            "meaning": k.meaning,
            "settable": k.values != Values::Internal,
        })
    });
    Value::Array(all.collect()).to_string()
}

/// The protocol of a snapshot with all that it supports, listed or implied, and why this build wouldn't write it.
#[boundary]
#[pyfunction]
pub(crate) fn supported_json(snapshot: &Snapshot) -> String {
    let state = snapshot.inner.state();
    let refusal = state.check_write().err().map(|e| e.message().to_owned());
    json!({"protocol": protocol_json(state.protocol()), "refuses_to_write": refusal}).to_string()
}
