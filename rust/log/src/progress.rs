//! Progress of a long command, reported to the caller that waits for it.

use std::sync::Arc;

use deltaplane_error::Result;

/// Files that a command passes between two calls: a call may wait for Python.
const BETWEEN: u64 = 10_000;

/// What a command is doing, and how much of it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The part of the command.
    pub phase: &'static str,
    /// Files, or bytes where they are copied.
    pub done: u64,
    /// Of how many, where that is known.
    pub total: Option<u64>,
}

/// Takes what a command tells; its error ends the command. None takes nothing.
#[derive(Clone, Default)]
pub struct Tell(Option<Arc<dyn Fn(Progress) -> Result<()> + Send + Sync>>);

impl Tell {
    /// What is told goes to a function; it may be called by any thread.
    pub fn to(function: impl Fn(Progress) -> Result<()> + Send + Sync + 'static) -> Self {
        Tell(Some(Arc::new(function)))
    }

    /// So much is done.
    ///
    /// # Errors
    /// Those of who is told.
    pub fn tell(&self, phase: &'static str, done: u64, total: Option<u64>) -> Result<()> {
        self.0
            .as_ref()
            .map_or(Ok(()), |function| function(Progress { phase, done, total }))
    }

    /// As `tell`, for single files of very many: at times, and for the last.
    ///
    /// # Errors
    /// Those of who is told.
    pub fn tell_at_times(&self, phase: &'static str, done: u64, total: Option<u64>) -> Result<()> {
        match done.is_multiple_of(BETWEEN) || total == Some(done) {
            true => self.tell(phase, done, total),
            false => Ok(()),
        }
    }
}
