//! Actors with a planted bug: what writers, readers and cleaners would do if they forgot a rule of the protocol. The
//! simulation has to find each of them.

use std::collections::{BTreeMap, BTreeSet};

use deltaplane_error::{Kind, Result};
use deltaplane_log::{Committed, Operation, Rewrite, RewriteRequest, Rewritten, Snapshot, Staged, commit as put};
use deltaplane_store::Store;
use futures::TryStreamExt;
use serde_json::{Value, json};

use super::Context;
use super::files::new_add;
use crate::book::{IntentId, read};
use crate::checkpoints::log_file;
use crate::planted::Bug;

/// Takes an unclear commit for a failed one and writes its data again.
pub async fn repeat(me: &Context, intent: IntentId) {
    let Ok(base) = Snapshot::open(&me.store, None).await else {
        return;
    };
    let staged = Staged {
        adds: vec![new_add(me, intent, 0)],
        operation: Operation {
            name: "WRITE".to_owned(),
            ..Operation::default()
        },
        extra_info: BTreeMap::from([("simIntent".to_owned(), json!(intent))]),
        ..Staged::default()
    };
    // Whatever it says: the model judges what appears.
    let _ = put(&me.store, Some(base), &staged).await;
}

/// Commits what was read in a version as if a newer one had been read: the newest, or the one before, so that the last of
/// the winners is checked only.
pub async fn commit(me: &Context, bug: Bug, request: RewriteRequest, read: u64, done: Rewritten) -> Result<Committed> {
    let newest = Snapshot::open(&me.store, None).await?;
    let base = match (bug, newest.version().checked_sub(1)) {
        (Bug::OneWinnerChecked, Some(before)) if before >= read => Snapshot::open(&me.store, Some(before)).await?,
        _ => newest,
    };
    Rewrite::plan(&base, request).await?.commit(done).await
}

/// Takes the version that the hint names for the newest one.
pub async fn open_hinted(store: &Store) -> Result<Snapshot> {
    let hint = match store.read("_delta_log/_last_checkpoint").await {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes).ok(),
        Err(e) if e.kind() == Kind::ObjectNotFound => None,
        Err(e) => return Err(e),
    };
    let version = hint.and_then(|h| h["version"].as_u64());
    Snapshot::open(store, version).await
}

/// Replays the commits that a listing shows and doesn't notice when some are missing.
pub async fn read_past_gaps(me: &Context) {
    let Ok(listing) = me.store.list_from("_delta_log", "").await else {
        return;
    };
    let Ok(objects) = listing.try_collect::<Vec<_>>().await else {
        return;
    };
    let commits = objects
        .into_iter()
        .filter(|o| matches!(log_file(&o.key), Some((_, "json"))));
    let (mut live, mut newest) = (BTreeSet::new(), 0);
    for object in commits {
        let Ok(bytes) = me.store.read(&object.key).await else {
            continue;
        };
        newest = log_file(&object.key).map_or(0, |(v, _)| v);
        for line in String::from_utf8_lossy(&bytes).lines() {
            let Ok(action) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            if let Some(path) = action["remove"]["path"].as_str() {
                live.remove(path);
            }
            if let Some(path) = action["add"]["path"].as_str() {
                live.insert(path.to_owned());
            }
        }
    }
    let wanted: Option<BTreeSet<String>> = {
        let book = read(&me.book);
        book.versions
            .get(newest as usize)
            .map(|v| v.live.keys().cloned().collect())
    };
    if wanted.is_some_and(|w| w != live) {
        me.accuse(format!("version {newest} was read with the files {live:?}"));
    }
}

/// Deletes all commits before the newest, whether or not a checkpoint stands in for them.
pub async fn delete_old_commits(me: &Context, newest: &Snapshot) -> Result<()> {
    for version in 0..newest.version() {
        me.store.delete(&format!("_delta_log/{version:020}.json")).await?;
    }
    Ok(())
}
