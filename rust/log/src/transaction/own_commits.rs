//! Cache of the last snapshots that this process committed, so that the next write needn't open its
//! table: it lists the log from its own commit on. A hint only: callers must check for newer
//! versions and verify the table's identity.

use std::sync::Mutex;

use deltaplane_error::Result;
use deltaplane_store::{Store, with_retry_limit};

use crate::Snapshot;
use crate::committer::decide_alike;
use crate::transaction::{AFTER_COMMIT, Committed};

/// Tables that are known at most; the one that was written to the longest ago goes first.
const TABLES: usize = 8;
/// Bytes of commits and checkpoints beyond which nothing is kept: what a snapshot holds of them is
/// memory.
const MOST_COMMIT_BYTES: u64 = 4 << 20;
const MOST_CHECKPOINT_BYTES: u64 = 256 << 20;

static KNOWN: SnapshotCache = SnapshotCache::new();

/// What was kept of a table under the same options.
pub fn of(store: &Store) -> Option<Snapshot> {
    KNOWN.of(store)
}

/// Keeps what a commit left, in place of what was known of the table. Each commit, of any command,
/// does so: a table that was replaced by an older copy of itself has the same id and, after a
/// commit, may have a version that is known of the lost one.
pub(super) fn keep(done: &Committed) {
    KNOWN.keep(done);
}

/// The snapshot after this process's commit of `version`, for a caller that has an older snapshot
/// of the same table: the one that the commit or a later one left, which needn't be listed and
/// read. The newest version if none was kept; a store that fails is given up after some seconds,
/// since the commit is done.
pub async fn after_commit(older: &Snapshot, version: u64) -> Result<Snapshot> {
    match KNOWN.after_commit(older, version) {
        Some(own) => Ok(own),
        None => with_retry_limit(AFTER_COMMIT, older.update()).await,
    }
}

/// Snapshots in the order of the last writes.
struct SnapshotCache(Mutex<Vec<Snapshot>>);

impl SnapshotCache {
    const fn new() -> Self {
        SnapshotCache(Mutex::new(Vec::new()))
    }

    /// It isn't waited for: in a forked process nobody may ever let it go.
    fn of(&self, store: &Store) -> Option<Snapshot> {
        let known = self.0.try_lock().ok()?;
        known.iter().find(|snapshot| is_of(snapshot, store)).cloned()
    }

    fn after_commit(&self, older: &Snapshot, version: u64) -> Option<Snapshot> {
        let is_same = |own: &Snapshot| own.state().metadata().id == older.state().metadata().id;
        let is_newer = |own: &Snapshot| own.version() >= version.max(older.version());
        self.of(older.store()).filter(|own| is_newer(own) && is_same(own))
    }

    fn keep(&self, done: &Committed) {
        let snapshot = &done.snapshot;
        let Ok(mut known) = self.0.try_lock() else { return };
        known.retain(|older| !is_of(older, snapshot.store()));
        let log = snapshot.log_size();
        let is_small = log.commit_bytes <= MOST_COMMIT_BYTES && log.checkpoint_bytes <= MOST_CHECKPOINT_BYTES;
        if is_small && !done.begins_anew {
            if known.len() >= TABLES {
                known.remove(0);
            }
            known.push(snapshot.clone());
        }
    }
}

/// Whether a snapshot is of the table at this location, opened with these options and by the same
/// catalog, if any: another store may be behind others.
fn is_of(snapshot: &Snapshot, store: &Store) -> bool {
    let own = snapshot.store();
    own.options() == store.options() && own.location().as_str() == store.location().as_str() && decide_alike(own, store)
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

    #[test]
    fn the_last_commits_to_some_tables_are_known_under_their_options() {
        let (cache, table) = (SnapshotCache::new(), Table::new());
        assert!(cache.of(&table.store).is_none());
        cache.keep(&table.committed());
        let first = cache.of(&table.store).unwrap();
        cache.keep(&table.committed());
        assert_eq!(cache.of(&table.store).unwrap().version(), 1);
        assert_eq!(cache.after_commit(&first, 1).unwrap().version(), 1);
        assert!(cache.after_commit(&first, 2).is_none(), "a commit that wasn't kept");
        let timeout = Options::new([("timeout".to_owned(), "5s".to_owned())]);
        let other = Store::open(table.store.location(), &timeout).unwrap();
        assert!(cache.of(&other).is_none(), "another store may be behind them");

        let tables: Vec<Table> = (0..TABLES).map(|_| Table::new()).collect();
        tables.iter().for_each(|table| cache.keep(&table.committed()));
        assert!(cache.of(&table.store).is_none(), "written to the longest ago");
        assert!(tables.iter().all(|table| cache.of(&table.store).is_some()));
    }
}
