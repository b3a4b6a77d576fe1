//! The core's events (`tracing`, through `log`), buffered until a caller takes them: a worker
//! thread must not wait for the consumer, which may hold a lock that the thread needs.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use log::{Level, LevelFilter, Log, Metadata, Record};

/// The maximum number of buffered events; the oldest are dropped first.
const MOST: usize = 1024;
/// What the targets of our own crates begin with.
const OWN: &str = "deltaplane_";

/// An event of one of our crates.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its severity.
    pub level: Level,
    /// The module that it comes from, as Rust names it.
    pub target: String,
    /// Its text.
    pub text: String,
    /// The line in that module's file; 0 if unknown.
    pub line: u32,
    /// Seconds since the epoch.
    pub seconds: f64,
}

impl Event {
    /// Its module with dots: `deltaplane.log.transaction` for `deltaplane_log::transaction`.
    pub fn dotted_target(&self) -> String {
        self.target.replacen('_', ".", 1).replace("::", ".")
    }

    /// Its severity as loggers number it: 10 for details, 20, 30 for warnings, 40 for errors.
    pub fn severity(&self) -> u8 {
        match self.level {
            Level::Error => 40,
            Level::Warn => 30,
            Level::Info => 20,
            Level::Debug | Level::Trace => 10,
        }
    }
}

static EVENTS: Mutex<VecDeque<Event>> = Mutex::new(VecDeque::new());

struct Buffer;

impl Log for Buffer {
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
        let mut events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() >= MOST {
            events.pop_front();
        }
        events.push_back(event);
    }

    fn flush(&self) {}
}

/// Starts buffering events, if no other logger is set in the process.
pub fn listen() {
    if log::set_logger(&Buffer).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

/// Takes the buffered events, the oldest first.
pub fn take() -> VecDeque<Event> {
    std::mem::take(&mut *EVENTS.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_our_crates_are_buffered_and_the_oldest_dropped() {
        listen();
        log::debug!(target: "other_crate", "not ours");
        log::trace!(target: "deltaplane_log::events", "too fine");
        for number in 0..=MOST {
            log::info!(target: "deltaplane_log::events_test", "number {number}");
        }
        let events: Vec<Event> = take()
            .into_iter()
            .filter(|e| e.target.ends_with("events_test"))
            .collect();
        assert!(events.len() <= MOST && events.iter().all(|e| e.level == Level::Info && e.seconds > 1e9));
        let last = events.last().unwrap();
        assert_eq!(last.text, format!("number {MOST}"));
        assert_eq!(last.dotted_target(), "deltaplane.log.events_test");
        assert_eq!(last.severity(), 20);
        assert!(events.iter().all(|e| e.text != "number 0"));
    }
}
