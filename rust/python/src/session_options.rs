//! Options that the process has for all stores, such as those of a Spark session or the shared
//! files of AWS: asks `deltaplane.io.session_options` for each store that is opened by a URL.

use std::collections::HashMap;

use deltaplane_error::{Error, Result};
use deltaplane_store::{Location, Options, Store};
use pyo3::prelude::*;

use crate::errors::kind_of;
use crate::log_store::python_is_called;

const MODULE: &str = "deltaplane.io.session_options";

/// Opens the store of a location. Options of the call precede those of the session.
pub(crate) fn store(location: &str, options: Option<HashMap<String, String>>) -> Result<Store> {
    let parsed = Location::parse(location)?;
    let options = options.unwrap_or_default();
    let translated = options
        .keys()
        .any(|key| key.starts_with("fs.") || key.starts_with("google.cloud."));
    // Paths of the local disk have no options but the given ones.
    if !translated && !location.contains("://") {
        return Store::open(&parsed, &Options::new(options));
    }
    python_is_called();
    let merged: HashMap<String, String> = call("merged", |function| function.call1((location, options))?.extract())?;
    Store::open(&parsed, &Options::new(merged)).map_err(|e| advised(e, location))
}

/// Adds the names of the session's settings to an error that names storage options.
fn advised(error: Error, location: &str) -> Error {
    let advice: Result<Option<String>> = call("advice", |function| {
        function.call1((location, error.message()))?.extract()
    });
    match advice {
        Ok(Some(advice)) => {
            let text = format!("{}; {advice}", error.message());
            Error::new(error.kind(), text).with_table(location)
        }
        _ => error,
    }
}

fn call<T>(name: &str, read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
    Python::attach(|py| {
        let answer = py.import(MODULE).and_then(|module| module.getattr(name));
        // Only errors of ours have a text: any other may show a setting, and that may be a secret.
        answer
            .and_then(|function| read(&function))
            .map_err(|e: PyErr| match kind_of(py, &e) {
                Some(kind) => Error::new(kind, e.value(py).to_string()),
                None => Error::invalid_argument(format!(
                    "the session's options for this store can't be read ({})",
                    e.get_type(py)
                )),
            })
    })
}
