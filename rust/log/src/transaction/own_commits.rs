//! Cache of the last snapshots that this process committed, so that the next write needn't open its
//! table: it lists the log from its own commit on. A hint only: callers must check for newer
//! versions and verify the table's identity.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use deltaplane_error::Result;
use deltaplane_store::{PerProcess, Store, with_retry_limit};

use crate::Snapshot;
use crate::committer::{Buffer, decide_alike, is_managed, share_publications, takes_turns};
use crate::transaction::{AFTER_COMMIT, Committed};

/// Tables that are known at most; the one that was written to the longest ago goes first. A process
/// that writes to more tables in turn opens each of them for each commit.
const TABLES: usize = 256;
/// Bytes of commits and checkpoints beyond which nothing of a table is cached, since its snapshot
/// holds them in memory.
const MOST_COMMIT_BYTES: u64 = 4 << 20;
const MOST_CHECKPOINT_BYTES: u64 = 256 << 20;
/// Bytes of commits and checkpoints of all cached tables.
const ALL_COMMIT_BYTES: u64 = 32 << 20;
const ALL_CHECKPOINT_BYTES: u64 = 2 << 30;

static KNOWN: PerProcess<SnapshotCache> = PerProcess::new(SnapshotCache::default, drop);

/// What was kept of a table under the same options.
pub fn of(store: &Store) -> Option<Snapshot> {
    KNOWN.get().of(store)
}

/// This version of a table whose catalog never takes one back, if it is the cached one, for this
/// handle or another one of the table. Only where commits take turns: simulated processes, which
/// share this one, don't.
pub(crate) fn at(store: &Store, version: u64, handle: &Store) -> Option<Snapshot> {
    let own = of(store).filter(|own| own.version() == version && takes_turns(store))?;
    Some(own.by(handle))
}

/// Caches for a table's handle in a transaction over several tables what is cached for the one
/// `outside` of it, if that is the version with which the transaction began: its first write then
/// opens nothing. The one outside publishes only what this process hasn't published yet.
pub fn lend(outside: &Store, inside: &Store, buffer: &Buffer) {
    let Some(own) = of(outside).filter(|_| takes_turns(outside)) else {
        return;
    };
    share_publications(own.store(), outside);
    if own.version() == buffer.base_version() {
        keep_early(&own.by(inside).newest_until(buffer.began_ms()));
    }
}

/// The cached snapshot of the same table, if it is newer than this one: only for tables whose
/// catalog never takes a version back.
pub(crate) fn newer(older: &Snapshot) -> Option<Snapshot> {
    KNOWN.get().after_commit(older, older.version() + 1)
}

/// Keeps what a commit left, in place of what was known of the table. Each commit, of any command,
/// does so: a table that was replaced by an older copy of itself has the same id and, after a
/// commit, may have a version that is known of the lost one.
pub(super) fn keep(done: &Committed) {
    KNOWN.get().keep(&done.snapshot, done.begins_anew);
}

/// Caches the snapshot of an own commit on `base`, which is made when it is first asked for: its
/// commit has this many bytes. Returns the way to it, and what it replaced, whose memory is to be
/// freed.
pub(super) fn keep_later(
    base: &Snapshot,
    bytes: u64,
    make: impl FnOnce() -> Option<Snapshot> + Send + 'static,
) -> (LaterSnapshot, Vec<Cached>) {
    let cached = Cached {
        store: base.store().clone(),
        version: base.version() + 1,
        snapshot: LaterSnapshot::new(make),
        commit_bytes: commit_bytes(base).saturating_add(bytes),
        checkpoint_bytes: base.checkpoint_bytes(),
    };
    let later = cached.snapshot.clone();
    (later, KNOWN.get().put(cached, base, false))
}

/// Caches the snapshot of an own commit before the work after it is done, for the next commit of
/// this process.
pub(super) fn keep_early(snapshot: &Snapshot) {
    KNOWN.get().keep(snapshot, false);
}

/// The snapshot after this process's commit of `version`, for a caller that has an older snapshot
/// of the same table: the one that the commit or a later one left, which needn't be listed and
/// read. The newest version if none was kept; a store that fails is given up after some seconds,
/// since the commit is done.
pub async fn after_commit(older: &Snapshot, version: u64) -> Result<Snapshot> {
    match KNOWN.get().after_commit(older, version) {
        Some(own) => Ok(own),
        None => with_retry_limit(AFTER_COMMIT, older.update()).await,
    }
}

/// An older snapshot continued by the commits that this process has made since, from wherever it
/// begins: one that begins at a newer checkpoint stays short.
pub(crate) fn continued(older: &Snapshot) -> Option<Snapshot> {
    let newest = newer(older)?;
    if !newest.has_long_tail() || older.has_long_tail() {
        return Some(newest);
    }
    let versions = older.version() + 1..=newest.version();
    let commits: Option<Vec<_>> = versions.map(|v| newest.commit_in_hand(v).cloned()).collect();
    let continued = older.extended(commits?, None).ok()?;
    Some(continued.following(&newest))
}

type Make = Box<dyn FnOnce() -> Option<Snapshot> + Send>;

/// A snapshot that is made when it is first asked for.
#[derive(Clone)]
pub(super) struct LaterSnapshot(Arc<LazyLock<Option<Snapshot>, Make>>);

impl LaterSnapshot {
    fn new(make: impl FnOnce() -> Option<Snapshot> + Send + 'static) -> Self {
        LaterSnapshot(Arc::new(LazyLock::new(Box::new(make))))
    }

    /// `None` if it can't be made.
    pub(super) fn get(&self) -> Option<&Snapshot> {
        LazyLock::force(&self.0).as_ref()
    }
}

/// A snapshot with the bytes that it holds in memory, which are summed up for all tables at each
/// commit.
pub(super) struct Cached {
    store: Store,
    version: u64,
    snapshot: LaterSnapshot,
    commit_bytes: u64,
    checkpoint_bytes: u64,
}

impl Cached {
    fn new(snapshot: Snapshot) -> Self {
        Cached {
            store: snapshot.store().clone(),
            version: snapshot.version(),
            commit_bytes: commit_bytes(&snapshot),
            checkpoint_bytes: snapshot.checkpoint_bytes(),
            snapshot: LaterSnapshot::new(|| Some(snapshot)),
        }
    }
}

fn commit_bytes(snapshot: &Snapshot) -> u64 {
    snapshot.log_bytes().saturating_sub(snapshot.checkpoint_bytes())
}

/// Snapshots in the order of the last writes.
#[derive(Default)]
struct SnapshotCache(Mutex<Vec<Cached>>);

impl SnapshotCache {
    fn known(&self) -> MutexGuard<'_, Vec<Cached>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, store: &Store) -> Option<Snapshot> {
        let later = {
            let known = self.known();
            let cached = known.iter().rev().find(|cached| is_alike(&cached.store, store))?;
            cached.snapshot.clone()
        };
        later.get().cloned()
    }

    fn after_commit(&self, older: &Snapshot, version: u64) -> Option<Snapshot> {
        let is_newer = |own: &Snapshot| own.version() >= version.max(older.version());
        self.of(older.store())
            .filter(|own| is_newer(own) && is_same_table(own, older))
    }

    /// `begins_anew`: the next commit had better open the table from its new checkpoint.
    fn keep(&self, snapshot: &Snapshot, begins_anew: bool) {
        drop(self.put(Cached::new(snapshot.clone()), snapshot, begins_anew));
    }

    /// Returns what isn't cached any more. `like` is any snapshot of the same table.
    fn put(&self, cached: Cached, like: &Snapshot, begins_anew: bool) -> Vec<Cached> {
        let store = &cached.store;
        let mut known = self.known();
        let index = known.iter().rposition(|older| is_alike(&older.store, store));
        let before = index.map(|index| known.remove(index));
        // Commits of several threads end in any order. Only a catalog rules out that a table was
        // replaced by an older copy of itself.
        let is_late = before.as_ref().is_some_and(|before| {
            let is_same = || before.snapshot.get().is_some_and(|before| is_same_table(before, like));
            before.version > cached.version && is_managed(store) && is_same()
        });
        let (newest, older) = match before {
            Some(newer) if is_late => (Some(newer), Some(cached)),
            before => ((!begins_anew).then_some(cached), before),
        };
        let mut replaced: Vec<Cached> = older.into_iter().collect();
        let is_small = |c: &Cached| c.commit_bytes <= MOST_COMMIT_BYTES && c.checkpoint_bytes <= MOST_CHECKPOINT_BYTES;
        let Some(newest) = newest.filter(is_small) else {
            return replaced;
        };
        known.push(newest);
        let mut first = 0;
        let (mut commits, mut checkpoints) = (0u64, 0u64);
        for (index, cached) in known.iter().enumerate().rev() {
            commits = commits.saturating_add(cached.commit_bytes);
            checkpoints = checkpoints.saturating_add(cached.checkpoint_bytes);
            let is_full = known.len() - index > TABLES;
            if is_full || commits > ALL_COMMIT_BYTES || checkpoints > ALL_CHECKPOINT_BYTES {
                first = index + 1;
                break;
            }
        }
        replaced.extend(known.drain(..first));
        replaced
    }
}

fn is_same_table(first: &Snapshot, second: &Snapshot) -> bool {
    first.state().metadata().id == second.state().metadata().id
}

/// Whether stores are of one location, opened with the same options and by the same catalog, if
/// any: another store may be behind others.
pub(super) fn is_alike(own: &Store, store: &Store) -> bool {
    own.location().as_str() == store.location().as_str() && own.options() == store.options() && decide_alike(own, store)
}

#[cfg(test)]
mod tests {
    use deltaplane_protocol::schema::{Field, Primitive, StructType};
    use deltaplane_store::{Location, Options, block_on};
    use serde_json::json;

    use super::*;
    use crate::write::plan::{WritePlan, plan_write};
    use crate::write::request::WriteRequest;

    struct Table {
        store: Store,
        _dir: tempfile::TempDir,
    }

    impl Table {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let location = Location::parse(dir.path().to_str().unwrap()).unwrap();
            let store = Store::open(&location, &Options::default()).unwrap();
            Table { store, _dir: dir }
        }

        fn committed(&self) -> Committed {
            let schema = StructType::new(vec![Field::new("id", Primitive::Long, true)]);
            let request: WriteRequest = serde_json::from_value(json!({"mode": "append"})).unwrap();
            block_on(async {
                match plan_write(&self.store, schema, request).await.unwrap() {
                    WritePlan::Go(planned) => planned.commit(Vec::new()).await.unwrap(),
                    WritePlan::Skip(why) => panic!("skipped: {why}"),
                }
            })
        }
    }

    fn keep(cache: &SnapshotCache, table: &Table) {
        cache.keep(&table.committed().snapshot, false);
    }

    #[test]
    fn the_last_commits_to_some_tables_are_known_under_their_options() {
        let (cache, table) = (SnapshotCache::default(), Table::new());
        assert!(cache.of(&table.store).is_none());
        keep(&cache, &table);
        let first = cache.of(&table.store).unwrap();
        keep(&cache, &table);
        assert_eq!(cache.of(&table.store).unwrap().version(), 1);
        assert_eq!(cache.after_commit(&first, 1).unwrap().version(), 1);
        assert!(cache.after_commit(&first, 2).is_none(), "a commit that wasn't kept");
        let timeout = Options::new([("timeout".to_owned(), "5s".to_owned())]);
        let other = Store::open(table.store.location(), &timeout).unwrap();
        assert!(cache.of(&other).is_none(), "another store may be behind them");

        let tables: Vec<Table> = (0..TABLES).map(|_| Table::new()).collect();
        tables.iter().for_each(|table| keep(&cache, table));
        assert!(cache.of(&table.store).is_none(), "written to the longest ago");
        assert!(tables.iter().all(|table| cache.of(&table.store).is_some()));
    }
}
