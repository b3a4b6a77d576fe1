//! The threads that decode the units of one scan. A thread that has decoded a unit takes the next
//! one that is ready: to wake another thread for each unit takes longer than to decode a small one,
//! and the thread has its decompressor and its processor already.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;

type Work = Box<dyn FnOnce() + Send>;

/// Decodes at most `most` units at a time, in the order in which they became ready.
pub(super) struct Decoders {
    most: usize,
    /// Whose threads for blocking work these are.
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    threads: usize,
}

impl Decoders {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(most: usize) -> Arc<Decoders> {
        Arc::new(Decoders {
            most: most.max(1),
            runtime: Handle::current(),
            state: Mutex::default(),
        })
    }

    /// Has work done by a thread that decodes already, or by another one where fewer than `most`
    /// do. The work must not panic: what waits behind it would be lost.
    pub(super) fn submit(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        let mut state = self.state();
        state.waiting.push_back(Box::new(work));
        if state.threads < self.most {
            state.threads += 1;
            drop(state);
            let decoders = self.clone();
            self.runtime.spawn_blocking(move || {
                while let Some(work) = decoders.next() {
                    work();
                }
            });
        }
    }

    /// The next work; `None` ends the thread that asks.
    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        let next = state.waiting.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::Decoders;

    #[test]
    fn all_work_is_done_in_order_by_few_threads() {
        for most in [1, 2, 4] {
            let (tx, mut rx) = mpsc::unbounded_channel();
            let (now, highest) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            deltaplane_store::block_on(async {
                let decoders = Decoders::new(most);
                for number in 0..200 {
                    let (tx, now, highest) = (tx.clone(), now.clone(), highest.clone());
                    decoders.submit(move || {
                        highest.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tx.send(number).unwrap();
                        if number % 40 == 0 {
                            std::thread::sleep(Duration::from_millis(2));
                        }
                        now.fetch_sub(1, Ordering::SeqCst);
                    });
                    if number % 50 == 0 {
                        // Lets the threads run out of work.
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
                drop(tx);
                let mut done = Vec::new();
                while let Some(number) = rx.recv().await {
                    done.push(number);
                }
                if most > 1 {
                    done.sort_unstable();
                }
                assert!(done.into_iter().eq(0..200), "{most}");
            });
            assert!(
                (1..=most).contains(&highest.load(Ordering::SeqCst)),
                "{highest:?} of {most}"
            );
        }
    }
}
