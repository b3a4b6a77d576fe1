//! Progress of a long command, reported to the caller that waits for it.

use std::sync::Arc;

use deltaplane_error::Result;

/// Files that a command processes between two reports: a report may wait for Python.
const BETWEEN: u64 = 10_000;

/// What a command is doing, and how much of it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The phase of the command.
    pub phase: &'static str,
    /// Files, or bytes where they are copied.
    pub done: u64,
    /// The total, if known.
    pub total: Option<u64>,
}

/// Receives a command's progress; its error ends the command. Without a function it ignores
/// progress.
#[derive(Clone, Default)]
pub struct Tell(Option<Arc<dyn Fn(Progress) -> Result<()> + Send + Sync>>);

impl Tell {
    /// Reports to a function, which may be called by any thread.
    pub fn to(function: impl Fn(Progress) -> Result<()> + Send + Sync + 'static) -> Self {
        Tell(Some(Arc::new(function)))
    }

    /// Reports progress.
    ///
    /// # Errors
    /// The function's errors.
    pub fn tell(&self, phase: &'static str, done: u64, total: Option<u64>) -> Result<()> {
        self.0
            .as_ref()
            .map_or(Ok(()), |function| function(Progress { phase, done, total }))
    }

    /// As `tell`, for counting many files one by one: reports now and then, and at the end.
    ///
    /// # Errors
    /// The function's errors.
    pub fn tell_at_times(&self, phase: &'static str, done: u64, total: Option<u64>) -> Result<()> {
        match done.is_multiple_of(BETWEEN) || total == Some(done) {
            true => self.tell(phase, done, total),
            false => Ok(()),
        }
    }
}
