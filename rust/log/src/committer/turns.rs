//! Turns: commits of one process to a catalog's table wait for each other instead of racing. Of
//! many threads that append to one table, each would otherwise lose against all others, and
//! propose, read and check as many versions as there are threads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deltaplane_store::{PerProcess, Store};
use tokio::sync::OwnedMutexGuard;

use crate::committer::managed::{self, Managed};

/// How long one waits for its turn. After that it races: the one before it may wait for a catalog
/// or a store that doesn't answer.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Tables beyond which those without commits are forgotten.
const MOST_TABLES: usize = 1_000;

/// What is done by one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Committing,
    Publishing,
}

type Turns = Mutex<HashMap<(String, Work), Arc<tokio::sync::Mutex<()>>>>;

/// By the committer's name: a forked child begins without those that its parent's threads hold.
static TURNS: PerProcess<Turns> = PerProcess::new(Mutex::default, drop);

/// The right to do such work on a table, until it is dropped.
pub(crate) struct Turn {
    /// Whether another commit had it first.
    pub(crate) waited: bool,
    _right: OwnedMutexGuard<()>,
}

/// Waits for the turn of a commit; `None` where commits race: if the file system decides, within a
/// transaction over several tables, and after a long wait.
pub(crate) async fn turn(store: &Store) -> Option<Turn> {
    turn_of(managed::of(store)?.as_ref(), Work::Committing).await
}

/// As [`turn`], for any work.
pub(super) async fn turn_of(managed: &Managed, work: Work) -> Option<Turn> {
    if !managed.takes_turns() {
        return None;
    }
    let lock = lock_of((managed.name().to_owned(), work));
    if let Ok(right) = Arc::clone(&lock).try_lock_owned() {
        return Some(Turn {
            waited: false,
            _right: right,
        });
    }
    let right = tokio::time::timeout(LONGEST_WAIT, lock.lock_owned()).await.ok()?;
    Some(Turn {
        waited: true,
        _right: right,
    })
}

fn lock_of(key: (String, Work)) -> Arc<tokio::sync::Mutex<()>> {
    let mut turns = TURNS.get().lock().unwrap_or_else(PoisonError::into_inner);
    if turns.len() >= MOST_TABLES {
        turns.retain(|_, lock| Arc::strong_count(lock) > 1);
    }
    Arc::clone(turns.entry(key).or_default())
}
