//! Reads of rows within a transaction over several tables, which its commit checks.

use std::sync::Arc;

use deltaplane_protocol::prune::Pruner;

use crate::Snapshot;
use crate::committer::buffer_of;

/// Rows of a version that were read: those that may meet a condition, or all without one.
#[derive(Clone)]
pub(crate) struct NotedRead {
    pub snapshot: Snapshot,
    pub pruner: Option<Arc<Pruner>>,
}

impl Snapshot {
    /// Records that rows of this version are read, those that the pruner keeps, if the version was
    /// opened in a transaction over several tables: its commit then checks that they are the same.
    pub fn note_read(&self, pruner: Option<&Arc<Pruner>>) {
        let Some(buffer) = buffer_of(self.store()) else { return };
        let read = NotedRead {
            snapshot: self.clone(),
            pruner: pruner.cloned(),
        };
        buffer.note_read(self.version(), pruner.is_none(), Arc::new(read));
    }
}
