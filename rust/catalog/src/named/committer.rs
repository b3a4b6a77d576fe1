//! A committer that notes when the catalog has another table under the name by now, so that the
//! process resolves the name again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::committer::{Committer, Decision, LogTail, Maintenance, Proposal};

use crate::committer::CatalogCommitter;

pub(super) struct Watched {
    inner: CatalogCommitter,
    gone: Arc<AtomicBool>,
    exists: Arc<AtomicBool>,
}

impl Watched {
    /// Sets `gone` when the catalog says that the name has another table by now, or none, and
    /// `exists` when this table has its first version.
    pub(super) fn new(inner: CatalogCommitter, gone: Arc<AtomicBool>, exists: Arc<AtomicBool>) -> Self {
        Watched { inner, gone, exists }
    }

    fn noted<T>(&self, answer: Result<T>) -> Result<T> {
        answer.inspect_err(|e| {
            if matches!(e.kind(), Kind::TableNotFound | Kind::TableAlreadyExists) {
                self.gone.store(true, Ordering::Release);
            }
        })
    }
}

#[async_trait]
impl Committer for Watched {
    fn name(&self) -> String {
        self.inner.name()
    }

    async fn propose(&self, proposal: &Proposal) -> Result<Decision> {
        let decision = self.noted(self.inner.propose(proposal).await)?;
        if matches!(decision, Decision::Ratified | Decision::Taken(_)) {
            self.exists.store(true, Ordering::Release);
        }
        Ok(decision)
    }

    async fn log_tail(&self, from: u64) -> Result<LogTail> {
        let tail = self.inner.log_tail(from).await;
        self.noted(tail.and_then(|tail| match tail.latest {
            None if self.exists.load(Ordering::Acquire) => Err(Error::new(
                Kind::TableNotFound,
                "the table was dropped, renamed or replaced",
            )),
            _ => Ok(tail),
        }))
    }

    async fn published(&self, version: u64) -> Result<()> {
        self.noted(self.inner.published(version).await)
    }

    fn report_delay(&self) -> Option<Duration> {
        self.inner.report_delay()
    }

    fn takes_turns(&self) -> bool {
        self.inner.takes_turns()
    }

    fn permits(&self, work: Maintenance) -> bool {
        self.inner.permits(work)
    }

    fn most_inline_bytes(&self) -> u64 {
        self.inner.most_inline_bytes()
    }
}
