//! Frozen classes that take a value of the core to other processes: they pickle as the bytes that
//! the core makes of the value, which nobody else reads.

use deltaplane_error::Error;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::errors::to_python;

/// A class and the bytes that make the object again.
pub(crate) type Pickled<'py> = (Bound<'py, PyType>, (Bound<'py, PyBytes>,));

/// What pickle needs of an object that holds this value.
pub(crate) fn pickled<'py>(object: &Bound<'py, PyAny>, value: &impl Serialize) -> PyResult<Pickled<'py>> {
    let bytes = serde_json::to_vec(value).map_err(|e| to_python(&Error::internal(format!("can't pickle: {e}"))))?;
    Ok((object.get_type(), (PyBytes::new(object.py(), &bytes),)))
}

/// The value of pickled bytes.
pub(crate) fn unpickled<T: DeserializeOwned>(bytes: &[u8]) -> PyResult<T> {
    let wrong = |e| Error::invalid_argument(format!("these bytes are pickled by another version: {e}"));
    serde_json::from_slice(bytes).map_err(|e| to_python(&wrong(e)))
}
