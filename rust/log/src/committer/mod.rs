//! What decides the commits of a table (P158). The file system does so by put-if-absent: then a
//! table's store is all there is. For a table of a catalog, [`managed`] wraps the store: its log
//! shows the catalog's commits in the place of files, and a put of a commit is a proposal. So no
//! reader or writer of the log has another way to it.

pub(crate) mod buffer;
mod buffer_store;
mod group;
mod known;
mod log_store;
pub(crate) mod managed;
mod opening;
mod propose;
mod proposed;
mod publish;
mod reporting;
mod seam;
mod staging;
mod turns;

use std::sync::{Arc, Mutex, PoisonError};

use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::catalog_managed::Authority;
use deltaplane_store::Store;

pub use buffer::Buffer;
pub use group::{GroupCommitter, GroupDecision, GroupProposal};
pub use seam::{Committer, Content, Decision, LogTail, Maintenance, Proposal, Ratified, StagedFile};

pub(crate) use managed::of;
pub(crate) use opening::with_one_answer;
pub(crate) use publish::{publish_after_commit, share_publications};
pub(crate) use staging::{delete_staged, orphans};
pub(crate) use turns::{Turn, turn};

use buffer_store::BufferStore;
use known::{Known, at_catalog};
use log_store::LogStore;
use managed::Managed;

/// The store of a table whose commits this committer decides. `tail` is the catalog's answer that
/// named the table, if it had the newest commits: the next opening then asks nothing more.
///
/// # Errors
/// `CorruptLog` if the catalog's answer contradicts itself.
pub fn managed(store: &Store, committer: Arc<dyn Committer>, tail: Option<LogTail>) -> Result<Store> {
    let known = learnt(committer.as_ref(), tail.as_ref())?;
    let first = Arc::new(Mutex::new(tail));
    store.wrapped(move |behind| {
        let managed = Managed::new(behind, Arc::clone(&committer), known.clone(), Arc::clone(&first));
        Arc::new(LogStore::new(managed))
    })
}

/// Makes the next opening of a [`managed`] table ask its catalog: the answer that named the table
/// may be old by now.
pub fn forget_first_answer(store: &Store) {
    if let Some(managed) = of(store) {
        managed.first.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// What the catalog's answer says, if there is one.
fn learnt(committer: &dyn Committer, tail: Option<&LogTail>) -> Result<Known> {
    let mut known = Known::default();
    if let Some(tail) = tail {
        known.learn(0, tail.clone()).map_err(|e| at_catalog(committer, &e))?;
    }
    Ok(known)
}

/// The store of a table within a transaction over several tables, whose commands the buffer keeps.
///
/// # Errors
/// `CorruptLog` if the catalog's answer contradicts itself.
pub fn buffered(store: &Store, buffer: Arc<Buffer>) -> Result<Store> {
    let known = learnt(buffer.as_ref(), Some(buffer.base()))?;
    store.wrapped(move |behind| {
        let behind = Arc::new(BufferStore::new(behind, Arc::clone(&buffer)));
        let committer = Arc::clone(&buffer) as Arc<dyn Committer>;
        let managed = Managed::new(behind, committer, known.clone(), Arc::default());
        Arc::new(LogStore::new(managed.with_buffer(Arc::clone(&buffer))))
    })
}

/// The buffer of a transaction's table; `None` outside of transactions over several tables.
pub(crate) fn buffer_of(store: &Store) -> Option<Arc<Buffer>> {
    of(store)?.buffer.clone()
}

/// Whether the same decides the commits of both stores' tables: a version that was read through one
/// of them is one of the other's, if they have the same location.
pub fn decide_alike(first: &Store, second: &Store) -> bool {
    match (of(first), of(second)) {
        (None, None) => true,
        (Some(first), Some(second)) => first.name() == second.name(),
        _ => false,
    }
}

/// Whether a catalog decides the commits of the table in this store.
pub(crate) fn is_managed(store: &Store) -> bool {
    of(store).is_some()
}

/// Whether commits of this process to the table in this store propose one after another.
pub(crate) fn takes_turns(store: &Store) -> bool {
    of(store).is_some_and(|managed| managed.takes_turns())
}

/// Whether a commit to the table in this store reports its publication before it returns.
pub(crate) fn reports_at_once(store: &Store) -> bool {
    of(store).is_some_and(|managed| managed.committer.report_delay().is_some_and(|delay| delay.is_zero()))
}

/// What decides the commits of the table in this store.
pub(crate) fn authority(store: &Store) -> Authority {
    match of(store) {
        Some(_) => Authority::Catalog,
        None => Authority::FileSystem,
    }
}

/// Whether this client may do such work.
pub(crate) fn permits(store: &Store, work: Maintenance) -> bool {
    of(store).is_none_or(|managed| managed.permits(work))
}

/// Refuses work that the table's catalog doesn't permit (P158).
pub(crate) fn check_permitted(store: &Store, work: Maintenance) -> Result<()> {
    match of(store) {
        Some(managed) if !managed.permits(work) => Err(Error::unsupported_feature(format!(
            "{} doesn't permit its clients {}: the catalog does this work itself, or has to be set to permit it",
            managed.name(),
            match work {
                Maintenance::LogCleanup => "to clean up the table's log",
                Maintenance::Vacuum => "to VACUUM the table",
                Maintenance::Optimize => "to rewrite the table's files (OPTIMIZE, REORG)",
            }
        ))),
        _ => Ok(()),
    }
}
