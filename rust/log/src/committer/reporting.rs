//! Reports of publication: by them a table's catalog learns which commits have files, and shows
//! these versions to clients that know files only. One report covers all commits of a bounded time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths;
use deltaplane_store::{PerProcess, pause_in_background, run_in_background};
use tracing::debug;

use crate::committer::known::at_catalog;
use crate::committer::managed::Managed;

/// Whose report it is. A reader may lack the right to report, so its report never replaces a
/// writer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reporter {
    /// It published the versions.
    Publisher,
    /// It read the table, and saw files of versions that the catalog doesn't know to be published.
    Reader,
}

/// A table by its committer's name, the reporter, and the time after which it reports.
type Key = (String, Reporter, Duration);

/// A report that waits for its time.
struct Waiting {
    managed: Arc<Managed>,
    version: u64,
}

/// The reports that wait: one for each table, however many commits it covers.
static WAITING: PerProcess<Mutex<HashMap<Key, Waiting>>> = PerProcess::new(Mutex::default, drop);

fn waiting() -> MutexGuard<'static, HashMap<Key, Waiting>> {
    WAITING.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the catalog notified, within the time that its committer says, that all versions up to this
/// one are published. Failures are only logged: the next proposal, and the next reader, report the
/// same.
pub(super) async fn report(managed: &Arc<Managed>, version: u64, by: Reporter) {
    let Some(delay) = managed.committer.report_delay() else {
        return;
    };
    if !managed.known().lacks_report(version) {
        return;
    }
    if delay.is_zero() {
        return Box::pin(managed.report_now(version)).await;
    }
    let key = (managed.name().to_owned(), by, delay);
    let mut all = waiting();
    let waits = all.get(&key).map(|report| report.version);
    if waits.is_none_or(|waits| waits < version) {
        let managed = Arc::clone(managed);
        all.insert(key.clone(), Waiting { managed, version });
    }
    drop(all);
    if waits.is_none() {
        drop(run_in_background(async move {
            pause_in_background(delay).await;
            let due = waiting().remove(&key);
            if let Some(due) = due {
                due.managed.report_now(due.version).await;
            }
        }));
    }
}

impl Managed {
    async fn report_now(&self, version: u64) {
        let done = async {
            let published = self.compared(version).await?;
            // A proposal may have reported it meanwhile.
            let is_news = self.known().lacks_report(published);
            if is_news {
                self.tell_published(published).await?;
            }
            Ok::<_, Error>(())
        };
        if let Err(e) = done.await {
            if e.kind() == Kind::StoreDenied {
                self.known().must_not_report = true;
            }
            debug!(version, error = %e, "that a version is published isn't reported yet");
        }
    }

    /// Compares the files of versions that this process didn't publish with what the catalog
    /// ratified: the catalog forgets the content of what is reported.
    async fn compared(&self, version: u64) -> Result<u64> {
        let mut published = self.known().published;
        while published < Some(version) {
            let next = published.map_or(0, |version| version + 1);
            let commit = self.known().commit(next).cloned();
            // What the catalog doesn't hold any more is published.
            if let Some(commit) = commit {
                let key = paths::commit(next);
                if self.behind.read(&key).await? != self.content(&commit).await? {
                    return Err(Error::corrupt_log(format!(
                        "`{key}` isn't the commit that the table's catalog ratified"
                    )));
                }
            }
            published = Some(next);
            let mut known = self.known();
            known.published = known.published.max(published);
        }
        Ok(published.unwrap_or(version))
    }

    /// Tells the catalog that all versions up to this one are published.
    pub(crate) async fn tell_published(&self, version: u64) -> Result<()> {
        let answer = self.committer.published(version).await;
        answer.map_err(|e| at_catalog(self.committer.as_ref(), &e))?;
        let mut known = self.known();
        known.reported = known.reported.max(Some(version));
        Ok(())
    }
}
