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

/// The last one written to stands last.
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// What was kept of a table under the same options. It isn't waited for: in a forked process nobody
/// may ever let it go.
pub(crate) fn of(store: &Store, options: Option<&Options>) -> Option<Snapshot> {
    if store.location().scheme() != Scheme::Local {
        return None;
    }
    let known = KNOWN.try_lock().ok()?;
    let found = known.iter().find(|k| k.is_of(store, options));
    found.map(|k| k.snapshot.clone())
}

/// Keeps what a commit left, in place of what was known of the table.
pub(crate) fn keep(done: &Committed, options: Option<&Options>) {
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
