//! Cache of the last snapshots that this process committed to tables on local disks, so that the
//! next write needn't open its table. A hint only: callers must check for newer versions and verify
//! the table's identity.

use std::collections::HashMap;
use std::sync::Mutex;

use deltaplane_log::{Committed, Snapshot};
use deltaplane_store::{Scheme, Store};

/// Tables that are known at most; the one that was written to the longest ago goes first.
const TABLES: usize = 8;
/// Bytes of commits and checkpoints beyond which nothing is kept: what a snapshot holds of them is
/// memory.
const MOST_COMMIT_BYTES: u64 = 4 << 20;
const MOST_CHECKPOINT_BYTES: u64 = 256 << 20;

type Options = HashMap<String, String>;

struct Known {
    options: Options,
    snapshot: Snapshot,
}

/// In the order of the last writes.
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// What was kept of a table under the same options. It isn't waited for: in a forked process nobody
/// may ever let it go.
pub fn of(store: &Store, options: Option<&Options>) -> Option<Snapshot> {
    if store.location().scheme() != Scheme::Local {
        return None;
    }
    let known = KNOWN.try_lock().ok()?;
    let entry = known.iter().find(|k| k.is_of(store, options));
    entry.map(|k| k.snapshot.clone())
}

/// Keeps what a commit left, in place of what was known of the table.
pub fn keep(done: &Committed, options: Option<&Options>) {
    let (snapshot, store) = (&done.snapshot, done.snapshot.store());
    if store.location().scheme() != Scheme::Local {
        return;
    }
    let Ok(mut known) = KNOWN.try_lock() else { return };
    known.retain(|k| !k.is_of(store, options));
    let log = snapshot.log_size();
    let is_small = log.commit_bytes <= MOST_COMMIT_BYTES && log.checkpoint_bytes <= MOST_CHECKPOINT_BYTES;
    if is_small && !done.begins_anew {
        if known.len() >= TABLES {
            known.remove(0);
        }
        known.push(Known {
            options: options.cloned().unwrap_or_default(),
            snapshot: snapshot.clone(),
        });
    }
}

impl Known {
    fn is_of(&self, store: &Store, options: Option<&Options>) -> bool {
        let same = options.map_or(self.options.is_empty(), |o| *o == self.options);
        same && self.snapshot.store().location().as_str() == store.location().as_str()
    }
}

#[cfg(test)]
mod tests {
    use deltaplane_log::{WriteMode, WriteRequest};
    use deltaplane_protocol::arrow_types::from_arrow_schema;
    use deltaplane_store::block_on;

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
        assert!(of(&table.store, None).is_none());
        keep(&committed(&table), None);
        keep(&committed(&table), None);
        assert_eq!(of(&table.store, None).unwrap().version(), 1);
        let options = Options::from([("timeout".to_owned(), "5s".to_owned())]);
        assert!(
            of(&table.store, Some(&options)).is_none(),
            "another store may be behind them"
        );

        let tables: Vec<Table> = (0..TABLES).map(|_| Table::new()).collect();
        tables.iter().for_each(|table| keep(&committed(table), None));
        assert!(of(&table.store, None).is_none(), "written to the longest ago");
        assert!(tables.iter().all(|table| of(&table.store, None).is_some()));
    }
}
