//! Hands the core's events (`tracing`, through `log`) to Python's `logging`: the events of
//! `deltaplane_log::transaction` go to the logger `deltaplane.log.transaction`.
//! A worker thread must not wait for the GIL, which the consumer of its stream may hold: events are
//! kept, and delivered when the next call of the core returns.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Events that are kept at most; the oldest go first.
const KEPT: usize = 1024;
/// What the targets of our own crates begin with.
const OWN: &str = "deltaplane_";

struct Event {
    level: Level,
    target: String,
    text: String,
    line: u32,
    seconds: f64,
}

static EVENTS: Mutex<VecDeque<Event>> = Mutex::new(VecDeque::new());

struct Keeper;

impl Log for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Debug && metadata.target().starts_with(OWN)
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let event = Event {
            level: record.level(),
            target: record.target().to_owned(),
            text: record.args().to_string(),
            line: record.line().unwrap_or(0),
            seconds: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |d| d.as_secs_f64()),
        };
        if let Ok(mut events) = EVENTS.lock() {
            if events.len() >= KEPT {
                events.pop_front();
            }
            events.push_back(event);
        }
    }

    fn flush(&self) {}
}

/// Starts keeping events.
pub(crate) fn listen() {
    // Another extension module has a `log` of its own, so only a second import of this one could be
    // earlier.
    if log::set_logger(&Keeper).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

/// Delivers what was kept. A handler that fails is Python's to report: the call whose end this is
/// has succeeded.
pub(crate) fn deliver(py: Python<'_>) {
    let Ok(events) = EVENTS.lock().map(|mut kept| std::mem::take(&mut *kept)) else {
        return;
    };
    for event in events {
        if let Err(e) = event.deliver(py) {
            e.write_unraisable(py, None);
        }
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

impl Event {
    fn deliver(&self, py: Python<'_>) -> PyResult<()> {
        let name = self.target.replacen('_', ".", 1).replace("::", ".");
        let level = match self.level {
            Level::Error => 40,
            Level::Warn => 30,
            Level::Info => 20,
            Level::Debug | Level::Trace => 10,
        };
        let logger = logger(py, &name)?;
        if !logger
            .call_method1(intern!(py, "isEnabledFor"), (level,))?
            .extract::<bool>()?
        {
            return Ok(());
        }
        // No arguments: a `%` in the text is a percent sign.
        let arguments = (
            name.as_str(),
            level,
            self.target.as_str(),
            self.line,
            self.text.as_str(),
            (),
            py.None(),
        );
        let record = logger.call_method1("makeRecord", arguments)?;
        record.setattr("created", self.seconds)?;
        record.setattr("msecs", (self.seconds.fract() * 1000.0).floor())?;
        logger.call_method1("handle", (record,))?;
        Ok(())
    }
}
