//! A shorter bound on repeating failed requests, for work that its caller can do without, such as
//! that after a commit. Knows times, no store.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes a second that an upload may be as slow as without counting as unanswered.
const SLOWEST_UPLOAD: u64 = 128 * 1024;

tokio::task_local! {
    static LIMIT: Arc<RetryLimit>;
}

/// How long the store may fail, and since when it has.
#[derive(Debug)]
pub(crate) struct RetryLimit {
    limit: Duration,
    failing_since: Mutex<Option<Instant>>,
}

/// Runs work whose failed HTTP requests aren't repeated once the store has failed for this time
/// without a success between, and whose unanswered requests end after it. Requests of tasks that
/// the work spawns have the bounds of the options.
pub async fn with_retry_limit<F: Future>(limit: Duration, work: F) -> F::Output {
    let limit = RetryLimit {
        limit,
        failing_since: Mutex::new(None),
    };
    LIMIT.scope(Arc::new(limit), work).await
}

/// The limit of the current work, if it has one.
pub(crate) fn current() -> Option<Arc<RetryLimit>> {
    LIMIT.try_with(Arc::clone).ok()
}

impl RetryLimit {
    /// How long the store may take to answer a request with a body of this size.
    pub(crate) fn answer_time(&self, body_bytes: u64) -> Duration {
        self.limit + Duration::from_secs(body_bytes / SLOWEST_UPLOAD)
    }

    /// Notes the result of a request that began then; returns whether a failed one may be repeated.
    pub(crate) fn may_repeat(&self, began: Instant, failed: bool) -> bool {
        let mut since = self.failing_since.lock().unwrap_or_else(PoisonError::into_inner);
        if !failed {
            *since = None;
            return true;
        }
        since.get_or_insert(began).elapsed() < self.limit
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn failures_are_repeated_until_the_limit_and_a_success_begins_again() {
        crate::block_on(with_retry_limit(Duration::from_secs(5), async {
            let limit = current().unwrap();
            let now = Instant::now();
            let earlier = now.checked_sub(Duration::from_secs(6)).unwrap();
            assert!(limit.may_repeat(now, true));
            assert!(limit.may_repeat(earlier, false));
            assert!(!limit.may_repeat(earlier, true));
            // The time counts from the first failure.
            assert!(!limit.may_repeat(now, true));
            assert!(limit.may_repeat(now, false) && limit.may_repeat(now, true));
        }));
        assert!(current().is_none());
    }

    #[test]
    fn large_uploads_have_more_time() {
        let limit = RetryLimit {
            limit: Duration::from_secs(5),
            failing_since: Mutex::new(None),
        };
        assert_eq!(limit.answer_time(1000), Duration::from_secs(5));
        assert_eq!(limit.answer_time(8 << 20), Duration::from_secs(69));
    }
}
