//! Cache of the last commits that this process made to tables whose catalog never takes a version
//! back. A commit that waited for its turn while others made a checkpoint is checked against all
//! commits since its own version; the newest snapshot has only those after the checkpoint, and to
//! list and read the others would take longer than the commit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltaplane_store::{PerProcess, Store};

use crate::commit::reader::Commit;
use crate::transaction::own_commits::is_alike;
use crate::{Snapshot, committer};

/// Commits of all tables; the oldest go first.
const MOST: usize = 1024;
/// Bytes beyond which a commit isn't cached.
const MOST_BYTES: u64 = 64 << 10;

static COMMITS: PerProcess<Mutex<VecDeque<Made>>> = PerProcess::new(Mutex::default, drop);

struct Made {
    store: Store,
    table_id: String,
    commit: Arc<Commit>,
}

fn cached() -> MutexGuard<'static, VecDeque<Made>> {
    COMMITS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the commit of this process that made the version of a catalog's table.
pub(super) fn keep(snapshot: &Snapshot) {
    let Some(commit) = snapshot.commit_in_hand(snapshot.version()) else {
        return;
    };
    if commit.name.size_bytes > MOST_BYTES {
        return;
    }
    let mut cached = cached();
    if cached.len() >= MOST {
        cached.pop_front();
    }
    cached.push_back(Made {
        store: snapshot.store().clone(),
        table_id: snapshot.state().metadata().id.clone(),
        commit: Arc::clone(commit),
    });
}

/// Each commit after version `base` up to a snapshot's, oldest first; `None` unless all are cached.
pub(crate) fn since(snapshot: &Snapshot, base: Option<u64>) -> Option<Vec<Arc<Commit>>> {
    let (store, id) = (snapshot.store(), &snapshot.state().metadata().id);
    // Within a transaction over several tables its own proposals have these versions.
    if !committer::takes_turns(store) {
        return None;
    }
    let wanted = base.map_or(0, |base| base + 1)..=snapshot.version();
    let is_wanted =
        |made: &&Made| wanted.contains(&made.commit.version()) && made.table_id == *id && is_alike(&made.store, store);
    let mut matches: Vec<_> = cached()
        .iter()
        .filter(is_wanted)
        .map(|made| Arc::clone(&made.commit))
        .collect();
    matches.sort_by_key(|commit| commit.version());
    matches
        .iter()
        .map(|commit| commit.version())
        .eq(wanted)
        .then_some(matches)
}
