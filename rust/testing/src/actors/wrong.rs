//! Actors with a planted bug: what writers, readers and cleaners would do if they forgot a rule of
//! the protocol. The simulation has to find each of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use deltaplane_error::{Kind, Result};
use deltaplane_log::{
    Committed, Operation, ReappliedRows, Rewrite, RewriteRequest, Rewritten, RowConflictResolver, Snapshot, Staged,
    commit as put,
};
use deltaplane_operations::rewrite::row_conflicts::MarkedRows;
use deltaplane_protocol::actions::{Add, DeletionVector};
use deltaplane_store::Store;
use futures::TryStreamExt;
use futures::future::BoxFuture;
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

/// Commits what was read in a version as if a newer one had been read: the newest, or the one
/// before, so that the last of the winners is checked only.
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

/// Deletes all commits before the newest, whether or not a checkpoint replaces them.
pub async fn delete_old_commits(me: &Context, newest: &Snapshot) -> Result<()> {
    for version in 0..newest.version() {
        me.store.delete(&format!("_delta_log/{version:020}.json")).await?;
    }
    Ok(())
}

/// A resolver of row conflicts that marks its rows again on the deletion vector which it read,
/// instead of on the winner's: the rows that the winner deleted come back.
pub struct Forgetful {
    resolver: MarkedRows,
    vector: Option<DeletionVector>,
}

impl Forgetful {
    /// The shipped resolver of rows of this file, made forgetful.
    pub fn new(resolver: MarkedRows, file: &Add) -> Self {
        Forgetful {
            resolver,
            vector: file.deletion_vector.clone(),
        }
    }
}

impl RowConflictResolver for Forgetful {
    fn paths(&self) -> HashSet<String> {
        self.resolver.paths()
    }

    fn reapply(&self, files: Vec<Add>) -> BoxFuture<'_, Result<ReappliedRows>> {
        let as_read = |add: &Add| Add {
            deletion_vector: self.vector.clone(),
            ..add.clone()
        };
        let old: Vec<Add> = files.iter().map(as_read).collect();
        Box::pin(async move {
            let mut done = self.resolver.reapply(old).await?;
            // The commit itself is sound: it replaces the file as the winner left it.
            for remove in &mut done.removes {
                if let Some(newest) = files.iter().find(|add| add.path == remove.path) {
                    remove.deletion_vector.clone_from(&newest.deletion_vector);
                }
            }
            Ok(done)
        })
    }
}
