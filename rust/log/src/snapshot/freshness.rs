//! How long what was read of a table may be built upon. Beyond it, the versions after it may have
//! come, been checkpointed and cleaned up again: their names would be free, and nothing of them
//! left to check against.

use crate::{Snapshot, now_ms};

/// The bound for usual retentions of the log; half the retention where that is less.
const LONGEST_MS: i64 = 3_600_000;
/// The bound for retentions of next to nothing: clean-up takes whole days.
const SHORTEST_MS: i64 = 60_000;

impl Snapshot {
    /// Whether it was the newest version so lately that commits after it can't have been cleaned
    /// up.
    pub(crate) fn is_fresh(&self) -> bool {
        let retention = self.state().properties().log_retention_ms;
        let bound = (retention / 2).clamp(SHORTEST_MS, LONGEST_MS);
        // A clock that was set back says nothing.
        (0..bound).contains(&now_ms().saturating_sub(self.newest_until_ms()))
    }
}
