//! Threads that own connections: one writes, some read. The writer takes all units of work that
//! wait and commits them together, so that many commits cost one wait for the disk.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use crate::error::{CatalogError, ErrorType, Result};
use crate::store::connection::{Access, Connection};

/// The most units of work of one database transaction.
const MAX_GROUP: usize = 256;
/// The most units that wait; further ones are refused.
const MAX_WAITING: usize = 10_000;
/// How often a group is tried again after a deadlock or a lost connection.
const ATTEMPTS: usize = 3;

/// Delivers a unit's result once the outcome of its transaction is known.
type Delivery = Box<dyn FnOnce(Result<()>) + Send>;
/// Runs a unit, and returns how it ended and who waits for it.
type Run = Box<dyn Fn(&mut Connection) -> (Result<()>, Delivery) + Send>;

/// A unit of work.
struct Work {
    /// Units are run in the order of their keys, so that groups of several servers lock tables in
    /// one order.
    key: String,
    /// May run again if another unit of its group fails.
    run: Run,
    /// Delivers an error without running.
    refuse: Box<dyn FnOnce(CatalogError) + Send>,
}
/// Opens a connection in its thread.
pub(crate) type Open = Arc<dyn Fn() -> Result<Connection> + Send + Sync>;

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Work>,
    closed: bool,
}

impl Queue {
    fn push(&self, work: Work) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(CatalogError::new(ErrorType::Unavailable, "the catalog is closed"));
        }
        if state.waiting.len() >= MAX_WAITING {
            return Err(CatalogError::new(
                ErrorType::TooManyRequests,
                "too many requests wait for the catalog's database: try again later",
            ));
        }
        state.waiting.push_back(work);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Up to `most` units; `None` once the queue is closed and empty.
    fn take(&self, most: usize) -> Option<Vec<Work>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting.is_empty() {
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = state.waiting.len().min(most);
        Some(state.waiting.drain(..count).collect())
    }

    fn close(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.filled.notify_all();
    }
}

/// The threads of a store; dropping them finishes the work that waits.
pub(crate) struct Workers {
    writes: Arc<Queue>,
    reads: Arc<Queue>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Workers {
    pub(crate) fn start(open: &Open, readers: usize) -> Result<Self> {
        let (writes, reads) = (Arc::new(Queue::default()), Arc::new(Queue::default()));
        let mut threads = Vec::new();
        let mut spawn = |name: &str, queue: &Arc<Queue>, access: Access| {
            let (queue, open) = (Arc::clone(queue), Arc::clone(open));
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || run(&queue, &open, access));
            thread
                .map(|thread| threads.push(thread))
                .map_err(|e| CatalogError::internal(format!("no thread for the catalog's database: {e}")))
        };
        spawn("catalog-write", &writes, Access::Write)?;
        for _ in 0..readers {
            spawn("catalog-read", &reads, Access::Read)?;
        }
        Ok(Workers { writes, reads, threads })
    }

    /// Runs a unit of work in a transaction, possibly with others, and returns once it is durable.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        key: &str,
        work: impl Fn(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        submit(&self.writes, key, work).await
    }

    /// Runs reading work on one state of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        submit(&self.reads, "", work).await
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.writes.close();
        self.reads.close();
        let own = thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner may be a delivery on one of these threads.
            if thread.thread().id() != own {
                let _ = thread.join();
            }
        }
    }
}

async fn submit<T: Send + 'static>(
    queue: &Queue,
    key: &str,
    work: impl Fn(&mut Connection) -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let for_refusal = Arc::clone(&sender);
    let answer = |sender: &Mutex<Option<oneshot::Sender<Result<T>>>>, result| {
        if let Some(sender) = sender.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = sender.send(result);
        }
    };
    queue.push(Work {
        key: key.to_owned(),
        run: Box::new(move |connection| {
            let result = work(connection);
            let status = result.as_ref().map(|_| ()).map_err(Clone::clone);
            let sender = Arc::clone(&sender);
            let delivery: Delivery = Box::new(move |committed| answer(&sender, committed.and(result)));
            (status, delivery)
        }),
        refuse: Box::new(move |error| answer(&for_refusal, Err(error))),
    })?;
    receiver.await.unwrap_or_else(|_| {
        Err(CatalogError::new(
            ErrorType::CommitStateUnknown,
            "the catalog ended before its answer: load the table to see the outcome",
        ))
    })
}

/// Serves a queue until it is closed.
fn run(queue: &Queue, open: &Open, access: Access) {
    let mut connection = None;
    let most = if access == Access::Write { MAX_GROUP } else { 1 };
    while let Some(group) = queue.take(most) {
        serve(group, &mut connection, open, access);
    }
}

/// Runs the units of a group in one transaction. A unit that fails after it has written is answered
/// with its error, and the others run again without it.
fn serve(mut group: Vec<Work>, slot: &mut Option<Connection>, open: &Open, access: Access) {
    let mut attempt = 0;
    group.sort_by(|left, right| left.key.cmp(&right.key));
    while !group.is_empty() {
        let connection = match usable(slot, open) {
            Ok(connection) => connection,
            Err(e) => return refuse(group, &e),
        };
        match transact(&group, connection, access) {
            Ok(()) => return,
            Err((index, _)) if index < group.len() => {
                // The transaction was rolled back because of this unit, which has its answer.
                drop(group.remove(index));
            }
            Err((_, e)) => {
                attempt += 1;
                if attempt >= ATTEMPTS {
                    return refuse(group, &e);
                }
                *slot = None;
            }
        }
    }
}

fn usable<'a>(slot: &'a mut Option<Connection>, open: &Open) -> Result<&'a mut Connection> {
    if slot.as_ref().is_none_or(|connection| !connection.is_open()) {
        *slot = Some(open()?);
    }
    slot.as_mut()
        .ok_or_else(|| CatalogError::internal("no connection to the catalog's database"))
}

fn refuse(group: Vec<Work>, error: &CatalogError) {
    for work in group {
        (work.refuse)(error.clone());
    }
}

/// One transaction. `Err` has the index of the unit that broke it, or the group's length if the
/// database did before any unit wrote.
fn transact(group: &[Work], connection: &mut Connection, access: Access) -> Result<(), (usize, CatalogError)> {
    let all = group.len();
    connection.begin(access).map_err(|e| (all, e))?;
    let mut deliveries = Vec::with_capacity(all);
    for (index, work) in group.iter().enumerate() {
        connection.begin_work();
        let (status, delivery) = (work.run)(connection);
        let Err(e) = status else {
            deliveries.push((delivery, None));
            continue;
        };
        let database_failed = matches!(e.error_type, ErrorType::Unavailable | ErrorType::InternalServerError);
        let aborted = database_failed && connection.is_postgres();
        if !(connection.has_written() || aborted) {
            // Refused before it changed anything: the transaction goes on.
            deliveries.push((delivery, Some(e)));
            continue;
        }
        connection.rollback();
        if !connection.is_open() || e.error_type == ErrorType::Unavailable {
            return Err((all, e));
        }
        delivery(Err(e.clone()));
        return Err((index, e));
    }
    if let Err(e) = connection.flush() {
        connection.rollback();
        return Err((all, e));
    }
    let committed = connection.commit();
    for (delivery, refused) in deliveries {
        // A refusal is true whatever becomes of the transaction.
        delivery(match refused {
            Some(e) => Err(e),
            None => committed.clone(),
        });
    }
    Ok(())
}
