//! Work that callers trace: the operation of a caller that it belongs to, when it ran, and what it
//! was. Nothing is noted of threads that have entered no operation. Knows no tracing library.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use futures::future::Either;

use crate::per_process::PerProcess;

/// Maximum number of noted works; the oldest are dropped first.
const MOST: usize = 16_384;

tokio::task_local! {
    static OPERATION: u64;
}

thread_local! {
    /// The operation of everything that this thread waits for; 0 for none.
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Work that ran for an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedWork {
    /// The number with which the caller entered the operation, or the `id` of the work that this is
    /// a part of.
    pub operation: u64,
    /// The operation that parts of this work belong to.
    pub id: u64,
    /// `request` or `commit`.
    pub kind: &'static str,
    /// Nanoseconds since the epoch.
    pub began_ns: u64,
    /// Nanoseconds since the epoch.
    pub ended_ns: u64,
    /// Names and values; a name may occur several times.
    pub fields: Vec<(&'static str, String)>,
}

/// The number of the next work; callers number their operations from 1.
static NEXT: AtomicU64 = AtomicU64::new(1 << 32);

static NOTED: PerProcess<Mutex<VecDeque<TracedWork>>> = PerProcess::new(Mutex::default, drop);

/// Sets the operation of all that this thread waits for by [`block_on`](crate::block_on), 0 for
/// none; returns the one before.
pub fn enter_operation(operation: u64) -> u64 {
    OF_THREAD.replace(operation)
}

/// Takes the noted work of all operations in the order of its ends.
pub fn take_traced_work() -> Vec<TracedWork> {
    let noted = NOTED.get().lock().unwrap_or_else(PoisonError::into_inner).split_off(0);
    noted.into()
}

/// The operation that this thread has entered; 0 for none.
pub fn thread_operation() -> u64 {
    OF_THREAD.get()
}

/// The operation of the current task, or else of the thread; 0 for none.
pub(crate) fn current_operation() -> u64 {
    OPERATION.try_with(|id| *id).unwrap_or_else(|_| thread_operation())
}

/// Runs work as a part of an operation.
pub fn with_operation<F: Future>(operation: u64, work: F) -> impl Future<Output = F::Output> {
    match operation {
        0 => Either::Left(work),
        id => Either::Right(OPERATION.scope(id, work)),
    }
}

/// Begins work of the current operation; `None` without one. `fields` is called only with one.
pub fn begin_traced(kind: &'static str, fields: impl FnOnce() -> Vec<(&'static str, String)>) -> Option<RunningWork> {
    let operation = current_operation();
    if operation == 0 {
        return None;
    }
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(RunningWork {
        began: Instant::now(),
        work: TracedWork {
            operation,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            kind,
            began_ns: u64::try_from(began.as_nanos()).unwrap_or(u64::MAX),
            ended_ns: 0,
            fields: fields(),
        },
    })
}

/// Work that runs; it ends, and is noted, when this is dropped, so that cut off work is noted too.
#[derive(Debug)]
pub struct RunningWork {
    began: Instant,
    work: TracedWork,
}

impl RunningWork {
    /// The operation that parts of this work belong to; 0 for work that isn't traced.
    pub fn id(running: Option<&Self>) -> u64 {
        running.map_or(0, |running| running.work.id)
    }

    /// Adds a field.
    pub fn add(&mut self, name: &'static str, value: impl ToString) {
        self.work.fields.push((name, value.to_string()));
    }

    /// Adds a field with the present time, in nanoseconds since the epoch.
    pub fn add_time(&mut self, name: &'static str) {
        let now = self.now_ns();
        self.add(name, now);
    }

    fn now_ns(&self) -> u64 {
        let elapsed = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.work.began_ns.saturating_add(elapsed)
    }
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        self.work.ended_ns = self.now_ns();
        let mut noted = NOTED.get().lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() >= MOST {
            noted.pop_front();
        }
        noted.push_back(self.work.clone());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The noted work of one operation; that of other tests stays.
    fn noted(operation: u64) -> Vec<TracedWork> {
        let mut all = NOTED.get().lock().unwrap();
        let (own, others) = all.drain(..).partition(|work| work.operation == operation);
        *all = others;
        Vec::from_iter::<VecDeque<_>>(own)
    }

    async fn work() {
        drop(begin_traced("request", || vec![("method", "GET".to_owned())]));
    }

    #[test]
    fn nothing_is_noted_without_an_operation() {
        let begun = crate::block_on(async { begin_traced("request", || unreachable!()) });
        assert!(begun.is_none());
    }

    #[test]
    fn tasks_background_work_and_later_polls_belong_to_the_operation_that_began_them() {
        assert_eq!(enter_operation(7), 0);
        crate::block_on(work());
        crate::block_on(async { crate::spawn_task(work()).await.unwrap() });
        let background = crate::run_in_background(work());
        let later = with_operation(thread_operation(), work());
        assert_eq!(enter_operation(8), 7);
        crate::block_on(later);
        crate::block_on(background).unwrap();
        assert_eq!(enter_operation(0), 8);
        assert_eq!((noted(7).len(), noted(8).len()), (4, 0));
    }

    #[test]
    fn cut_off_work_is_noted_with_its_times() {
        crate::block_on(with_operation(9, async {
            let mut running = begin_traced("commit", Vec::new).unwrap();
            with_operation(RunningWork::id(Some(&running)), work()).await;
            running.add("attempts", 2);
            running.add_time("lost");
        }));
        let [work] = noted(9).try_into().unwrap();
        assert_eq!((noted(work.id).len(), RunningWork::id(None)), (1, 0));
        assert_eq!(work.fields.first(), Some(&("attempts", "2".to_owned())));
        let lost: u64 = work.fields.last().unwrap().1.parse().unwrap();
        assert!(work.began_ns > 1_700_000_000_000_000_000);
        assert!(work.began_ns <= lost && lost <= work.ended_ns);
    }
}
