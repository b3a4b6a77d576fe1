//! Errors of the core as Python exceptions: a class for each kind.

use deltaplane_error::{Error, Kind, OtherCommit, Result};
use deltaplane_operations::error_classes::class_name;
use deltaplane_operations::panics::caught;
use pyo3::call::PyCallArgs;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::events;

fn other_commit<'py>(py: Python<'py>, c: &OtherCommit) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("deltaplane.exceptions")?.getattr("ConflictingCommit")?;
    class.call1((c.version, &c.operation, &c.engine_info, &c.user_name, c.timestamp_ms))
}

fn build(py: Python<'_>, e: &Error) -> PyResult<PyErr> {
    let class = py.import("deltaplane.exceptions")?.getattr(class_name(e.kind()))?;
    let details = PyDict::new(py);
    details.set_item("kind", format!("{:?}", e.kind()))?;
    details.set_item("table", e.table())?;
    details.set_item("version", e.version())?;
    details.set_item("path", e.path())?;
    if let Some(other) = e.other_commit() {
        details.set_item("conflicting_commit", other_commit(py, other)?)?;
    }
    let mut text = e.to_string();
    if e.kind() == Kind::Internal && !text.contains("report") {
        text.push_str(": this is a fault of deltaplane; please report it with this text");
    }
    Ok(PyErr::from_value(class.call((text,), Some(&details))?))
}

/// The kind that an exception of ours tells, where a store written in Python raises it; `None` for
/// all others.
pub(crate) fn kind_of(py: Python<'_>, e: &PyErr) -> Option<Kind> {
    const PYTHON_KINDS: &[Kind] = &[
        Kind::StoreDenied,
        Kind::StoreUnavailable,
        Kind::ObjectNotFound,
        Kind::InvalidArgument,
        Kind::UnsupportedFeature,
    ];
    let is = |kind: &Kind| {
        let class = py.import("deltaplane.exceptions")?.getattr(class_name(*kind))?;
        e.value(py).is_instance(&class)
    };
    PYTHON_KINDS.iter().copied().find(|kind| is(kind).unwrap_or(false))
}

/// Calls a function of a Python module. Only errors of ours keep their text: any other may show
/// what it failed with, and that may be a secret. `failed` makes the error for the exception's
/// class.
pub(crate) fn call_module<T: for<'py> FromPyObjectOwned<'py>>(
    module: &str,
    function: &str,
    arguments: impl for<'py> PyCallArgs<'py>,
    failed: impl FnOnce(&Bound<'_, PyType>) -> Error,
) -> Result<T> {
    Python::attach(|py| {
        let answer = || {
            let answer = py.import(module)?.getattr(function)?.call1(arguments)?;
            answer.extract().map_err(Into::into)
        };
        answer().map_err(|e: PyErr| match kind_of(py, &e) {
            Some(kind) => Error::new(kind, e.value(py).to_string()),
            None => failed(&e.get_type(py)),
        })
    })
}

/// The exception for an error of the core.
pub(crate) fn to_python(e: &Error) -> PyErr {
    Python::attach(|py| build(py, e).unwrap_or_else(|_| PyRuntimeError::new_err(e.to_string())))
}

/// Runs a function that Python called. A panic ends here, as an error: `PanicException` is no
/// `Exception`, and few callers would see that it means a fault of this package. `#[boundary]` puts
/// it around every function.
pub(crate) fn guard<T>(call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    caught(call).unwrap_or_else(|panic| Err(to_python(&panic)))
}

/// Runs work of the core without the GIL, delivers its events and raises its error. `#[boundary]`
/// puts it around every function that returns the core's `Result`.
pub(crate) fn run<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    Python::attach(|py| {
        let done = py.detach(work);
        events::deliver(py);
        done.map_err(|e| to_python(&e))
    })
}
