//! How long a snapshot may be used as a base without a listing. After that, later versions may have
//! been committed, checkpointed and cleaned up: their names would be free, and no trace of them
//! left for conflict checks.

use crate::{Snapshot, now_ms};

/// The bound for usual retentions of the log; half the retention if that is less.
const LONGEST_MS: i64 = 3_600_000;
/// The bound for very short retentions: clean-up deletes whole days.
const SHORTEST_MS: i64 = 60_000;

impl Snapshot {
    /// Whether it was the newest version so recently that later commits can't have been cleaned up.
    pub(crate) fn is_fresh(&self) -> bool {
        let retention = self.state().properties().log_retention_ms;
        let bound = (retention / 2).clamp(SHORTEST_MS, LONGEST_MS);
        // If the clock was set back, freshness is unknown.
        (0..bound).contains(&now_ms().saturating_sub(self.newest_until_ms()))
    }
}
