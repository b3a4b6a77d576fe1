//! What a long command tells while it runs, to a function of Python's; what that raises ends the
//! command, and is raised.

use std::sync::{Arc, Mutex, PoisonError};

use deltaplane_error::{Error, Result};
use deltaplane_log::{Progress, Tell};
use pyo3::prelude::*;

use crate::errors::run;

/// A function of Python's, if there is one.
pub(crate) type Function = Option<Py<PyAny>>;

/// Runs work of the core as `run`, which tells how far it has come: the function takes a phase, how
/// much is done, and of how much or None.
pub(crate) fn run_with_progress<T: Send>(
    function: Function,
    work: impl FnOnce(&Tell) -> Result<T> + Send,
) -> PyResult<T> {
    let raised = Arc::new(Mutex::new(None));
    let tell = function.map_or_else(Tell::default, |function| telling(function, raised.clone()));
    let done = run(|| work(&tell));
    match raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(e) => Err(e),
        None => done,
    }
}

fn telling(function: Py<PyAny>, raised: Arc<Mutex<Option<PyErr>>>) -> Tell {
    Tell::to(move |Progress { phase, done, total }| {
        Python::attach(|py| function.call1(py, (phase, done, total)))
            .map(drop)
            .map_err(|e| {
                *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                Error::internal("what is told of the progress raised an error".to_owned())
            })
    })
}
