//! Options that the process has for all stores, such as those of a Spark session or the shared
//! files of AWS: asks `deltaplane.io.session_options` for each store that is opened by a URL.

use std::collections::HashMap;

use deltaplane_catalog::named::{self, Required};
use deltaplane_error::{Error, Result};
use deltaplane_store::{Session, Store};
use pyo3::call::PyCallArgs;
use pyo3::conversion::FromPyObjectOwned;

use crate::errors::call_module;
use crate::log_store::python_is_called;

#[derive(Clone)]
pub(crate) struct PythonSession;

/// The options of a location's store.
pub(crate) type Options = Option<HashMap<String, String>>;

/// Opens the store of a location. Options of the call precede those of the session.
pub(crate) fn store(location: &str, options: Options) -> Result<Store> {
    named::store(location, options.unwrap_or_default(), &PythonSession)
}

/// Runs work on a table that may be created, with the properties that a new one must have.
pub(crate) fn create_by<T>(uri: &str, options: Options, work: impl Fn(&Store, Required) -> Result<T>) -> Result<T> {
    named::with_store_to_create(uri, options.unwrap_or_default(), &PythonSession, work)
}

/// Runs work that opens a table.
pub(crate) fn with_store<T>(location: &str, options: Options, work: impl Fn(&Store) -> Result<T>) -> Result<T> {
    named::with_store(location, options.unwrap_or_default(), &PythonSession, work)
}

impl Session for PythonSession {
    fn merged(&self, location: &str, options: HashMap<String, String>) -> Result<HashMap<String, String>> {
        python_is_called();
        call("merged", (location, options))
    }

    fn advice(&self, location: &str, message: &str) -> Result<Option<String>> {
        call("advice", (location, message))
    }
}

fn call<T: for<'py> FromPyObjectOwned<'py>>(name: &str, arguments: impl for<'py> PyCallArgs<'py>) -> Result<T> {
    call_module("deltaplane.io.session_options", name, arguments, |class| {
        Error::invalid_argument(format!("the session's options for this store can't be read ({class})"))
    })
}
