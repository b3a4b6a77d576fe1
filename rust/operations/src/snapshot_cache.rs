//! Cache of the last snapshots that this process committed, so that the next write needn't open its
//! table: it lists the log from its own commit on. A hint only: callers must check for newer
//! versions and verify the table's identity.

use std::sync::Mutex;

use deltaplane_log::{Committed, Snapshot};
use deltaplane_store::Store;

/// Tables that are known at most; the one that was written to the longest ago goes first.
const TABLES: usize = 8;
/// Bytes of commits and checkpoints beyond which nothing is kept: what a snapshot holds of them is
/// memory.
const MOST_COMMIT_BYTES: u64 = 4 << 20;
const MOST_CHECKPOINT_BYTES: u64 = 256 << 20;

/// In the order of the last writes.
static KNOWN: Mutex<Vec<Snapshot>> = Mutex::new(Vec::new());

/// What was kept of a table under the same options. It isn't waited for: in a forked process nobody
/// may ever let it go.
pub fn of(store: &Store) -> Option<Snapshot> {
    let known = KNOWN.try_lock().ok()?;
    known.iter().find(|snapshot| is_of(snapshot, store)).cloned()
}

/// The snapshot that this process's commit of `version` left, or a later commit of it, for a caller
/// that has an older snapshot of the same table: it needn't list and read its own commit. `None` if
/// it wasn't kept.
pub fn after_commit(older: &Snapshot, version: u64) -> Option<Snapshot> {
    let is_same = |own: &Snapshot| own.state().metadata().id == older.state().metadata().id;
    of(older.store()).filter(|own| own.version() >= version && own.version() >= older.version() && is_same(own))
}

/// Keeps what a commit left, in place of what was known of the table.
pub fn keep(done: &Committed) {
    let snapshot = &done.snapshot;
    let Ok(mut known) = KNOWN.try_lock() else { return };
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

/// Whether a snapshot is of the table at this location, opened with these options: another store
/// may be behind others.
fn is_of(snapshot: &Snapshot, store: &Store) -> bool {
    let own = snapshot.store();
    own.options() == store.options() && own.location().as_str() == store.location().as_str()
}

#[cfg(test)]
mod tests {
    use deltaplane_log::{WriteMode, WriteRequest};
    use deltaplane_protocol::arrow_types::from_arrow_schema;
    use deltaplane_store::{Options, block_on};

    use super::*;
    use crate::testing::{Table, rows};
    use crate::write_job::{WriteJob, write_files};

    fn committed(table: &Table) -> Committed {
        let (rows, request) = (rows(&[1]), WriteRequest::new(WriteMode::Append));
        let schema = from_arrow_schema(&rows.schema()).unwrap();
        let job = block_on(WriteJob::begin(&table.store, None, schema, request)).unwrap();
        let spec = job.spec().unwrap();
        let files = write_files(table.store.clone(), &spec, [Ok(rows)].into_iter(), 0);
        block_on(job.commit(block_on(files).unwrap())).unwrap().unwrap()
    }

    // One test, since the cache is one for the process.
    #[test]
    fn the_last_commits_to_some_tables_are_known_under_their_options() {
        let table = Table::new();
        assert!(of(&table.store).is_none());
        keep(&committed(&table));
        let first = of(&table.store).unwrap();
        keep(&committed(&table));
        assert_eq!(of(&table.store).unwrap().version(), 1);
        assert_eq!(after_commit(&first, 1).unwrap().version(), 1);
        assert!(after_commit(&first, 2).is_none(), "a commit that wasn't kept");
        let timeout = Options::new([("timeout".to_owned(), "5s".to_owned())]);
        let other = Store::open(table.store.location(), &timeout).unwrap();
        assert!(of(&other).is_none(), "another store may be behind them");

        let tables: Vec<Table> = (0..TABLES).map(|_| Table::new()).collect();
        tables.iter().for_each(|table| keep(&committed(table)));
        assert!(of(&table.store).is_none(), "written to the longest ago");
        assert!(tables.iter().all(|table| of(&table.store).is_some()));
    }
}
