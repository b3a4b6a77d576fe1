//! A shorter bound on repeating failed requests, for work that its caller can do without, such as
//! that after a commit; and since when each host fails. Knows times and hosts, no store.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{Either, lazy};
use tokio::task::JoinHandle;

use crate::per_process::PerProcess;
use crate::traced_work::{current_operation, with_operation};

/// Bytes a second that an upload may be as slow as without counting as unanswered.
const SLOWEST_UPLOAD: u64 = 128 * 1024;
/// How long an answer is waited for at least, also by work whose time is over.
const SHORTEST_ANSWER: Duration = Duration::from_millis(250);
/// How long after its last failed request a host still counts as failing: longer than the pause
/// before a request is repeated.
const STILL_FAILING: Duration = Duration::from_secs(10);
/// Most failing hosts that are remembered.
const MOST_HOSTS: usize = 64;

tokio::task_local! {
    static LIMIT: Arc<RetryLimit>;
}

thread_local! {
    /// The limit of everything that this thread waits for, and how often it was begun.
    static OF_THREAD: RefCell<Option<(Arc<RetryLimit>, usize)>> = const { RefCell::new(None) };
}

/// How long the store may fail, and since when it has.
#[derive(Debug)]
pub(crate) struct RetryLimit {
    limit: Duration,
    failing_since: Mutex<Option<Instant>>,
}

/// Runs work whose failed HTTP requests aren't repeated once the store has failed for this time
/// without a success between, and whose unanswered requests end after it. The time begins with the
/// first failure, also of an earlier work if the host has failed since. Work within work that has a
/// limit of at most this time has that limit. Tasks have it if [`spawn_task`] starts them.
///
/// Isn't an async function, whose future would be as large as the work several times over.
pub fn with_retry_limit<F: Future>(limit: Duration, work: F) -> impl Future<Output = F::Output> {
    let begun = lazy(move |_| match current() {
        Some(outer) if outer.limit <= limit => Either::Left(work),
        _ => Either::Right(LIMIT.scope(Arc::new(RetryLimit::new(limit)), work)),
    });
    begun.flatten()
}

/// `tokio::spawn` for work that its caller waits for: it has the caller's retry limit, and belongs
/// to the caller's operation.
pub fn spawn_task<F>(work: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let work = with_operation(current_operation(), work);
    match current() {
        Some(limit) => tokio::spawn(LIMIT.scope(limit, work)),
        None => tokio::spawn(work),
    }
}

/// Gives this limit to all that the thread waits for by [`block_on`](crate::block_on), until
/// [`end_thread_limit`] is called as often as this.
pub fn begin_thread_limit(limit: Duration) {
    OF_THREAD.with_borrow_mut(|held| match held {
        Some((_, begun)) => *begun += 1,
        None => *held = Some((Arc::new(RetryLimit::new(limit)), 1)),
    });
}

/// Ends what [`begin_thread_limit`] began.
pub fn end_thread_limit() {
    OF_THREAD.with_borrow_mut(|held| match held {
        Some((_, begun)) if *begun > 1 => *begun -= 1,
        _ => *held = None,
    });
}

/// Runs work with the thread's limit, if it has one and the work has none.
pub(crate) fn with_thread_limit<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let held = OF_THREAD.with_borrow(|held| held.as_ref().map(|(limit, _)| Arc::clone(limit)));
    match held {
        Some(limit) if current().is_none() => Either::Right(LIMIT.scope(limit, work)),
        _ => Either::Left(work),
    }
}

/// How long the current work may repeat failed requests, if it has a limit.
pub fn retry_limit() -> Option<Duration> {
    current().map(|limit| limit.limit)
}

/// The limit of the current work, if it has one.
pub(crate) fn current() -> Option<Arc<RetryLimit>> {
    LIMIT.try_with(Arc::clone).ok()
}

/// Runs a part of work that has this limit.
pub(crate) fn with_limit_of<F: Future>(limit: Arc<RetryLimit>, part: F) -> impl Future<Output = F::Output> {
    LIMIT.scope(limit, part)
}

impl RetryLimit {
    fn new(limit: Duration) -> Self {
        RetryLimit {
            limit,
            failing_since: Mutex::new(None),
        }
    }

    /// How long the store may take to answer a request with a body of this size, if its host has
    /// failed since then.
    pub(crate) fn answer_time(&self, body_bytes: u64, host: Option<Instant>) -> Duration {
        let own = *self.failing_since.lock().unwrap_or_else(PoisonError::into_inner);
        let failing = own.or(host).map_or(Duration::ZERO, |since| since.elapsed());
        let left = self.limit.saturating_sub(failing).max(SHORTEST_ANSWER);
        left + Duration::from_secs(body_bytes / SLOWEST_UPLOAD)
    }

    /// Notes a successful request, or one that failed while its host has failed since then; returns
    /// whether a failed one may be repeated.
    pub(crate) fn may_repeat(&self, failing: Option<Instant>) -> bool {
        let mut since = self.failing_since.lock().unwrap_or_else(PoisonError::into_inner);
        match failing {
            None => {
                *since = None;
                true
            }
            Some(host) => since.get_or_insert(host).elapsed() < self.limit,
        }
    }
}

/// A host's failures since its last success.
struct Failing {
    since: Instant,
    last: Instant,
}

static FAILING: PerProcess<Mutex<HashMap<String, Failing>>> = PerProcess::new(Mutex::default, drop);

/// Since when requests to a host have failed without a success between, if the last one failed a
/// short time ago.
pub(crate) fn failing_since(host: &str) -> Option<Instant> {
    let hosts = FAILING.get().lock().unwrap_or_else(PoisonError::into_inner);
    let failing = hosts.get(host).filter(|failing| failing.last.elapsed() < STILL_FAILING);
    failing.map(|failing| failing.since)
}

/// Notes the result of a request to a host that began then; returns since when the host has failed,
/// if this one failed.
pub(crate) fn note(host: &str, began: Instant, failed: bool) -> Option<Instant> {
    let since = failing_since(host).unwrap_or(began);
    let mut hosts = FAILING.get().lock().unwrap_or_else(PoisonError::into_inner);
    if !failed {
        hosts.remove(host);
        return None;
    }
    hosts.retain(|_, failing| failing.last.elapsed() < STILL_FAILING);
    if hosts.len() < MOST_HOSTS {
        let last = Instant::now();
        hosts.insert(host.to_owned(), Failing { since, last });
    }
    Some(since)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const LIMIT_OF_TESTS: Duration = Duration::from_secs(5);

    fn earlier(seconds: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn failures_are_repeated_until_the_limit_and_a_success_begins_again() {
        crate::block_on(with_retry_limit(LIMIT_OF_TESTS, async {
            let limit = current().unwrap();
            assert!(limit.may_repeat(Some(Instant::now())));
            assert!(limit.may_repeat(None));
            assert!(!limit.may_repeat(Some(earlier(6))));
            // The time counts from the first failure.
            assert!(!limit.may_repeat(Some(Instant::now())));
            assert!(limit.may_repeat(None) && limit.may_repeat(Some(Instant::now())));
        }));
        assert!(current().is_none());
    }

    #[test]
    fn large_uploads_have_more_time_and_a_failing_store_less() {
        let limit = RetryLimit::new(LIMIT_OF_TESTS);
        assert_eq!(limit.answer_time(1000, None), LIMIT_OF_TESTS);
        assert_eq!(limit.answer_time(8 << 20, None), Duration::from_secs(69));
        assert_eq!(limit.answer_time(0, Some(earlier(60))), SHORTEST_ANSWER);
        assert!(limit.answer_time(0, Some(earlier(2))) <= Duration::from_secs(3));
    }

    #[test]
    fn later_work_counts_the_failures_of_earlier_work() {
        let host = "later-work.example";
        let first = earlier(4);
        assert_eq!(note(host, first, true), Some(first));
        assert_eq!(note(host, Instant::now(), true), Some(first));
        assert_eq!(failing_since(host), Some(first));
        assert_eq!(note(host, Instant::now(), false), None);
        assert_eq!(failing_since(host), None);
        let now = Instant::now();
        assert_eq!(note(host, now, true), Some(now));
    }

    #[test]
    fn tasks_and_work_within_work_have_the_limit_of_the_outer_work() {
        let held = |limit: &Option<Arc<RetryLimit>>| limit.as_ref().map(|limit| limit.limit);
        crate::block_on(with_retry_limit(LIMIT_OF_TESTS, async {
            let outer = current().unwrap();
            let task = spawn_task(async { current() }).await.unwrap();
            assert!(Arc::ptr_eq(&outer, &task.unwrap()));
            let within = with_retry_limit(Duration::from_secs(9), async { current() }).await;
            assert!(Arc::ptr_eq(&outer, &within.unwrap()));
            let shorter = with_retry_limit(Duration::from_secs(2), async { current() }).await;
            assert_eq!(held(&shorter), Some(Duration::from_secs(2)));
        }));
    }

    #[test]
    fn a_thread_has_its_limit_until_the_last_end() {
        let now = || crate::block_on(async { current() });
        begin_thread_limit(LIMIT_OF_TESTS);
        let first = now().unwrap();
        begin_thread_limit(Duration::from_secs(1));
        assert!(Arc::ptr_eq(&first, &now().unwrap()));
        assert!(std::thread::spawn(move || now().is_none()).join().unwrap());
        end_thread_limit();
        assert!(now().is_some());
        end_thread_limit();
        assert!(now().is_none());
    }
}
