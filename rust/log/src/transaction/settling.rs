//! The end of a commit whose caller continues while it is published, its checksum is put, and its
//! time and tag are read. The commit is durable; nothing of this can fail it.

use bytes::Bytes;
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_store::{Scheme, Store, run_in_background, with_retry_limit};
use tracing::debug;

use crate::Snapshot;
use crate::checkpoint_writer;
use crate::committer::{publish_after_commit, reports_at_once, takes_turns};
use crate::snapshot::settling::Settling;
use crate::transaction::post_commit::Ahead;
use crate::transaction::{AFTER_COMMIT, Attempted, Staged};

/// Whether the work after a commit, apart from a checkpoint, may be done in the background.
pub(super) fn may_settle_later(store: &Store) -> bool {
    let is_remote = matches!(store.location().scheme(), Scheme::S3 | Scheme::Azure | Scheme::Gcs);
    is_remote && !reports_at_once(store)
}

/// Whether all work after the commits of a catalog's tables that were decided together may be done
/// in the background.
pub(super) fn may_settle_together(store: &Store) -> bool {
    takes_turns(store) && !reports_at_once(store)
}

/// The snapshot of a commit that was put on `base`, without waiting for the store; gives the
/// checksum back if more is to be done than to put it.
pub(super) async fn settle_later(
    store: &Store,
    base: &Snapshot,
    staged: &Staged,
    made: &Attempted,
    put_ms: i64,
    ahead: Ahead,
) -> Result<Snapshot, Ahead> {
    let unread = made
        .commit()
        .and_then(|commit| Snapshot::after_unread(store, Some(base), commit));
    let Ok(unread) = unread else {
        return Err(ahead);
    };
    let unread = unread.own(Some(base), put_ms);
    if needs_more(base, &unread, staged).await {
        return Err(ahead);
    }
    unread.keep_checksum(ahead.sum().clone());
    let (store, base, text) = (store.clone(), base.clone(), made.text.clone());
    // The next write and the next refresh wait for it.
    let task = run_in_background(async move { settle(&store, &base, text, put_ms, ahead).await });
    Ok(unread.settling(Settling::new(async move { task.await.ok().flatten() })))
}

/// Whether more follows the commit that made this snapshot than to publish it and to put its
/// checksum.
pub(super) async fn needs_more(base: &Snapshot, unread: &Snapshot, staged: &Staged) -> bool {
    base.has_too_long_tail()
        || staged.cleanup == Some(true)
        || checkpoint_writer::is_due(unread, unread.is_among_many(), staged.as_delta_rs).await
}

/// Publishes a commit, puts its checksum, and returns its snapshot as the store shows it; `None` if
/// the store didn't answer.
pub(super) async fn settle(store: &Store, base: &Snapshot, text: Bytes, put_ms: i64, ahead: Ahead) -> Option<Snapshot> {
    let (version, sum) = (base.version() + 1, ahead.sum().clone());
    let work = async {
        let publishing = publish_after_commit(store, version);
        let (_, read, ()) = futures::join!(ahead.put(store, version), base.after_own(text), publishing);
        settled(base, sum, read, put_ms)
    };
    with_retry_limit(AFTER_COMMIT, work).await
}

fn settled(
    base: &Snapshot,
    sum: VersionChecksum,
    read: deltaplane_error::Result<Snapshot>,
    put_ms: i64,
) -> Option<Snapshot> {
    match read {
        Ok(own) => {
            let own = own.own(Some(base), put_ms);
            own.keep_checksum(sum);
            Some(own)
        }
        Err(e) => {
            debug!(error = %e, "an own commit couldn't be looked at: the next write opens the table");
            None
        }
    }
}
