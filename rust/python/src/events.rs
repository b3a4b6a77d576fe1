//! Hands the core's events to Python's `logging`: those of `deltaplane_log::transaction` go to the
//! logger `deltaplane.log.transaction`. A worker thread must not wait for the GIL, which the
//! consumer of its stream may hold: events are buffered, and delivered when the next call of the
//! core returns.

use deltaplane_boundary::boundary;
use deltaplane_operations::event_buffer::{self, Event};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Delivers what is buffered. A handler that fails is Python's to report: the call whose end this
/// is has succeeded.
pub(crate) fn deliver(py: Python<'_>) {
    for event in event_buffer::take() {
        handle(py, &event).unwrap_or_else(|e| e.write_unraisable(py, None));
    }
}

/// Python's logger of this name. It is the same one for the process: asking `logging` each time
/// takes longer than all the rest of an event that nobody wants.
fn logger<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static KNOWN: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let known = KNOWN.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    if let Some(logger) = known.get_item(name)? {
        return Ok(logger);
    }
    let logger = py.import("logging")?.call_method1("getLogger", (name,))?;
    known.set_item(name, &logger)?;
    Ok(logger)
}

/// Gives one event to its logger.
fn handle(py: Python<'_>, event: &Event) -> PyResult<()> {
    let (name, level) = (event.dotted_target(), event.severity());
    let logger = logger(py, &name)?;
    if !logger
        .call_method1(intern!(py, "isEnabledFor"), (level,))?
        .extract::<bool>()?
    {
        return Ok(());
    }
    let (target, text) = (event.target.as_str(), event.text.as_str());
    // No arguments: a `%` in the text is a percent sign.
    let arguments = (name.as_str(), level, target, event.line, text, (), py.None());
    let record = logger.call_method1("makeRecord", arguments)?;
    record.setattr("created", event.seconds)?;
    record.setattr("msecs", (event.seconds.fract() * 1000.0).floor())?;
    logger.call_method1("handle", (record,))?;
    Ok(())
}

/// Operation, id, kind, nanoseconds since the epoch at begin and end, names and values.
type TracedWork = (u64, u64, &'static str, u64, u64, Vec<(&'static str, String)>);

/// Sets the operation that the core notes this thread's work for, 0 for none; the one before.
#[boundary]
pub(crate) fn enter_operation(operation: u64) -> u64 {
    deltaplane_store::enter_operation(operation)
}

/// Takes the noted work of all operations.
#[boundary]
pub(crate) fn take_traced_work() -> Vec<TracedWork> {
    let noted = deltaplane_store::take_traced_work().into_iter();
    noted
        .map(|w| (w.operation, w.id, w.kind, w.began_ns, w.ended_ns, w.fields))
        .collect()
}
