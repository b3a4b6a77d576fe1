//! Publishing: ratified commits are copied to the names that readers without a catalog's answer
//! find, in the order of their versions. Anybody may do it, any number of times (P158).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltaplane_error::{Error, Result};
use deltaplane_protocol::paths;
use deltaplane_store::{PerProcess, PutOutcome, Store, run_in_background};
use tracing::warn;

use crate::committer::Ratified;
use crate::committer::managed::{self, Managed};
use crate::committer::reporting::{Reporter, report};
use crate::committer::turns::{Work, turn_of};

/// Versions that a commit leaves to the publication in the background. Each reader gets their
/// commits from the catalog, which holds a bounded number of them.
const MOST_BEHIND: u64 = 100;

/// The versions up to which tables are being published in the background, by committer's name.
static WANTED: PerProcess<Mutex<HashMap<String, u64>>> = PerProcess::new(Mutex::default, drop);

fn wanted() -> MutexGuard<'static, HashMap<String, u64>> {
    WANTED.get().lock().unwrap_or_else(PoisonError::into_inner)
}

impl Managed {
    /// Publishes all versions up to this one; returns the highest one up to which all are
    /// published.
    ///
    /// Errors: `CorruptLog` if a file with another content has the name of one of them.
    pub(crate) async fn publish(&self, version: u64) -> Result<u64> {
        let next = |published: Option<u64>| published.map_or(0, |p| p + 1);
        let mut from = next(self.known().published);
        if from > version {
            return Ok(from - 1);
        }
        // Another thread may be publishing the same versions.
        let _turn = turn_of(self, Work::Publishing).await;
        from = next(self.known().published);
        if from > version {
            return Ok(from - 1);
        }
        let held = |from: u64| (from..=version).all(|v| self.known().commit(v).is_some());
        if !held(from) {
            self.ask_tail(from).await?;
            from = next(self.known().published);
        }
        for version in from..=version {
            let commit = self.known().commit(version).cloned();
            // What the catalog doesn't hold any more is published.
            if let Some(commit) = commit {
                self.publish_one(&commit).await?;
            }
            let mut known = self.known();
            known.published = known.published.max(Some(version));
        }
        Ok(self.known().published.unwrap_or(version))
    }

    async fn publish_one(&self, commit: &Ratified) -> Result<()> {
        let key = paths::commit(commit.version);
        let bytes = self.content(commit).await?;
        if self.behind.put_if_absent(&key, bytes.clone()).await? == PutOutcome::Created {
            return Ok(());
        }
        match self.behind.read(&key).await? == bytes {
            true => Ok(()),
            false => Err(Error::corrupt_log(format!(
                "version {} can't be published: another program wrote `{key}` without the table's catalog, which ratified another commit; delete that file",
                commit.version
            ))
            .with_version(commit.version)
            .with_path(key)),
        }
    }
}

/// Publishes a version that this process has just committed; a failure is only logged, since
/// anybody can publish it later. The catalog learns of it by the next proposal, or by a report
/// before that. On a local disk the caller waits for it only if the catalog is to be notified at
/// once, or if publication has fallen behind.
pub(crate) async fn publish_after_commit(store: &Store, version: u64) {
    let Some(managed) = managed::of(store) else { return };
    let is_later = managed.committer.report_delay().is_some_and(|delay| !delay.is_zero());
    let behind = version.saturating_sub(managed.known().published.unwrap_or(version));
    match store.is_local() && is_later && managed.committer.takes_turns() && behind < MOST_BEHIND {
        true => publish_in_background(managed, version),
        false => publish_and_report(&managed, version).await,
    }
}

/// One task publishes a table's versions, however many commits ask for it.
fn publish_in_background(managed: Arc<Managed>, version: u64) {
    let name = managed.name();
    let mut all = wanted();
    if let Some(wanted) = all.get_mut(&name) {
        *wanted = version.max(*wanted);
        return;
    }
    all.insert(name.clone(), version);
    drop(all);
    drop(run_in_background(async move {
        let mut version = version;
        loop {
            publish_and_report(&managed, version).await;
            let mut all = wanted();
            match all.get(&name) {
                Some(later) if *later > version => version = *later,
                _ => {
                    all.remove(&name);
                    return;
                }
            }
        }
    }));
}

async fn publish_and_report(managed: &Arc<Managed>, version: u64) {
    match Box::pin(managed.publish(version)).await {
        Ok(published) => report(managed, published, Reporter::Publisher).await,
        Err(e) => warn!(version, error = %e, "the commit is safe, but it isn't published yet"),
    }
}
