//! The tokio runtime of the process: created at the first use, and again in a forked child. Owns
//! threads only.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use deltaplane_error::{Error, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinError, JoinHandle};

use crate::per_process::PerProcess;
use crate::retry_limit::with_thread_limit;
use crate::traced_work::{current_operation, thread_operation, with_operation};

static CURRENT: PerProcess<Runtime> = PerProcess::new(build, Runtime::shutdown_background);

fn current() -> &'static Runtime {
    CURRENT.get()
}

/// As many workers as cores, or one worker if the system grants no more threads.
fn build() -> Runtime {
    let multi = |builder: &mut Builder| builder.thread_name("deltaplane").enable_all().build();
    multi(&mut Builder::new_multi_thread())
        .or_else(|_| multi(Builder::new_multi_thread().worker_threads(1)))
        .unwrap_or_else(|e| {
            // Without a thread or a poll handle no call of this library can work, and the signature
            // of `block_on` can't return an error.
            std::panic::resume_unwind(Box::new(format!(
                "the system refused to start threads for deltaplane ({e}); raise its limits on processes and open files"
            )))
        })
}

/// Runs a future to its end on the process-wide runtime.
///
/// May be called inside another call of it, as when a user's stream that is being written reads a
/// table itself; not from tasks that are spawned on the runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut output = None;
    wait_for(pin!(Storing {
        work: pin!(future),
        output: &mut output,
    }));
    // The runtime returns from a future only when it is ready, which stores the output.
    output.unwrap_or_else(|| unreachable!("a future ended without an output"))
}

/// Waits for work of any type. The loop of the runtime that polls it would otherwise be compiled
/// for each of the hundreds of futures that are waited for, one megabyte in all.
fn wait_for(work: Pin<&mut dyn Future<Output = ()>>) {
    let _waits = Waiting::begin();
    let work = with_operation(thread_operation(), with_thread_limit(work));
    match Handle::try_current() {
        Ok(_) => tokio::task::block_in_place(|| current().block_on(work)),
        Err(_) => current().block_on(work),
    }
}

/// A future without a value: it stores what the work gives.
struct Storing<'a, F: Future> {
    work: Pin<&'a mut F>,
    output: &'a mut Option<F::Output>,
}

// Nothing in it is pinned in place: the work is behind a pointer of its own.
impl<F: Future> Unpin for Storing<'_, F> {}

impl<F: Future> Future for Storing<'_, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.work
            .as_mut()
            .poll(context)
            .map(|output| *self.output = Some(output))
    }
}

thread_local! {
    /// Whether this thread only waits for a future of [`block_on`].
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Marks its thread as waiting while it exists.
struct Waiting {
    before: bool,
}

impl Waiting {
    fn begin() -> Self {
        Waiting {
            before: WAITS.replace(true),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITS.set(self.before);
    }
}

/// Work that no caller waits for.
static BACKGROUND: PerProcess<Mutex<Vec<AbortHandle>>> = PerProcess::new(Mutex::default, drop);

/// Starts work on the process-wide runtime that goes on without its caller. The end of the process
/// cuts it short unless [`finish_background`] waits for it.
pub fn run_in_background<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let task = handle().spawn(with_operation(current_operation(), work));
    let mut running = BACKGROUND.get().lock().unwrap_or_else(PoisonError::into_inner);
    running.retain(|task| !task.is_finished());
    running.push(task.abort_handle());
    task
}

/// Ends the pauses of work in the background.
static FINISHING: PerProcess<Notify> = PerProcess::new(Notify::new, drop);

/// Waits this long, for work in the background, or until [`finish_background`] waits for it.
pub async fn pause_in_background(time: Duration) {
    tokio::select! {
        () = FINISHING.get().notified() => {}
        () = tokio::time::sleep(time) => {}
    }
}

/// Waits for the work in the background, at most this long. What pauses there continues at once.
pub fn finish_background(most: Duration) {
    let begun = Instant::now();
    loop {
        FINISHING.get().notify_waiters();
        let mut running = BACKGROUND.get().lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|task| !task.is_finished());
        if running.is_empty() || begun.elapsed() >= most {
            return;
        }
        drop(running);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A handle to the process-wide runtime, for spawning tasks on it.
pub fn handle() -> Handle {
    current().handle().clone()
}

/// Runs blocking file-system work outside the async workers: on the caller's runtime, or on the
/// process's.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn(work).await.map_err(cut_short)?
}

/// Starts it in the background.
pub(crate) fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Handle::try_current().unwrap_or_else(|_| handle()).spawn_blocking(work)
}

/// The error for blocking work that panicked or was cancelled.
pub(crate) fn cut_short(e: JoinError) -> Error {
    Error::internal(format!("a file operation was cut short ({e}); please report this"))
}

/// `blocking` for a few calls that take less time than handing them to another thread: runs them on
/// the calling thread if that only waits.
pub(crate) async fn quick<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match WAITS.get() {
        true => work(),
        false => blocking(work).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_runtime_serves_many_threads() {
        let threads: Vec<_> = (0..8)
            .map(|i| std::thread::spawn(move || block_on(async move { i + 1 })))
            .collect();
        let sum: i32 = threads.into_iter().map(|t| t.join().unwrap_or(0)).sum();
        assert_eq!(sum, 36);
        assert!(std::ptr::eq(current(), current()));
    }

    #[test]
    fn work_in_the_background_is_waited_for_within_a_bound() {
        let (done, is_done) = std::sync::mpsc::channel();
        drop(run_in_background(async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            done.send(())
        }));
        finish_background(Duration::from_secs(60));
        assert!(is_done.try_recv().is_ok());
        let endless = run_in_background(std::future::pending::<()>());
        let begun = Instant::now();
        finish_background(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        endless.abort();
    }

    #[test]
    fn a_pause_in_the_background_ends_when_it_is_waited_for() {
        let (done, is_done) = std::sync::mpsc::channel();
        let begun = Instant::now();
        drop(run_in_background(async move {
            pause_in_background(Duration::from_secs(3600)).await;
            done.send(())
        }));
        finish_background(Duration::from_secs(60));
        assert!(is_done.try_recv().is_ok());
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_call_inside_of_a_call_is_served() {
        assert_eq!(block_on(async { block_on(async { 1 }) + block_on(async { 2 }) }), 3);
    }
}
