//! The wall clock, the one place that asks for it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in ms since the epoch.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
