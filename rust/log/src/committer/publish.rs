//! Publishing: ratified commits are copied to the names that readers without a catalog's answer
//! find, in the order of their versions. Anybody may do it, any number of times (P158).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths::{self, LOG_DIR};
use deltaplane_store::{PutOutcome, Store};
use futures::{StreamExt, TryStreamExt};
use tracing::warn;

use crate::committer::Ratified;
use crate::committer::managed::{self, Managed};
use crate::committer::reporting::{Reporter, report};
use crate::committer::turns::{Work, turn_of};
use crate::listing::name_of;

impl Managed {
    /// Publishes all versions up to this one; returns the highest one up to which all are
    /// published.
    ///
    /// Errors: `CorruptLog` if a file with another content has the name of one of them.
    pub(crate) async fn publish(&self, version: u64) -> Result<u64> {
        let mut from = self.unpublished_from();
        if from > version {
            return Ok(from - 1);
        }
        // Another thread may be publishing the same versions.
        let _turn = turn_of(self, Work::Publishing).await;
        from = self.unpublished_from();
        if from > version {
            return Ok(from - 1);
        }
        let held = |from: u64| (from..=version).all(|v| self.known().commit(v).is_some());
        if !held(from) {
            self.ask_tail(from).await?;
            from = self.unpublished_from();
        }
        for version in from..=version {
            let commit = self.known().commit(version).cloned();
            // What the catalog doesn't hold any more is published.
            if let Some(commit) = commit {
                match self.publish_one(&commit).await {
                    Err(e) if e.kind() == Kind::ObjectNotFound && self.is_cleaned_up(version).await? => {}
                    done => done?,
                }
            }
            self.published_here().fetch_max(version + 1, Ordering::Relaxed);
            let mut known = self.known();
            known.published = known.published.max(Some(version));
        }
        Ok(self.known().published.unwrap_or(version))
    }

    /// The first version that isn't known to be published.
    pub(super) fn unpublished_from(&self) -> u64 {
        let here = self.published_here().load(Ordering::Relaxed);
        let mut known = self.known();
        known.published = known.published.max(here.checked_sub(1));
        known.published.map_or(0, |published| published + 1)
    }

    /// Whether another process published this version, and the log's clean-up has taken it away
    /// since: versions are published in order, so a later one is there.
    async fn is_cleaned_up(&self, version: u64) -> Result<bool> {
        let listed = self.behind.list_from(LOG_DIR, &format!("{:020}.", version + 1)).await?;
        let mut names = listed
            .try_filter_map(|object| async move { Ok(name_of(object)) })
            .boxed();
        Ok(names.try_next().await?.is_some())
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

/// Lets two handles of one table know of each other's publications: what one of them publishes,
/// also later, the other one doesn't publish again.
pub(crate) fn share_publications(first: &Store, second: &Store) {
    if let (Some(first), Some(second)) = (managed::of(first), managed::of(second)) {
        let shared = Arc::clone(&first.published_here());
        *second.published_here() = shared;
    }
}

/// Publishes a version that this process has just committed; a failure is only logged, since
/// anybody can publish it later. The catalog learns of it by the next proposal, or by a report
/// before that.
pub(crate) async fn publish_after_commit(store: &Store, version: u64) {
    let Some(managed) = managed::of(store) else { return };
    match Box::pin(managed.publish(version)).await {
        Ok(published) => report(&managed, published, Reporter::Publisher).await,
        Err(e) => warn!(version, error = %e, "the commit is safe, but it isn't published yet"),
    }
}
