//! One table of a transaction over several tables: commits of its commands are kept here, on top of
//! the version that the transaction began with, until the transaction ends. Readers in the
//! transaction see them as versions of the log.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deltaplane_error::{Error, Result};
use deltaplane_store::async_trait;

use crate::committer::{Committer, Content, Decision, LogTail, Maintenance, Proposal, Ratified};
use crate::now_ms;

/// A command or a read, whose type only the room knows that notes it.
pub(crate) type Noted = Arc<dyn Any + Send + Sync>;

/// What a transaction has read and done on one table.
pub struct Buffer {
    name: String,
    base: LogTail,
    latest: u64,
    began_ms: i64,
    permits_optimize: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The buffered commits, as the log shows them.
    commits: Vec<Ratified>,
    /// What they are made of.
    commands: Vec<Noted>,
    /// Commands that are about to be proposed, by transaction id.
    offered: BTreeMap<String, Noted>,
    reads: Vec<Noted>,
    /// Whether one of the reads is of all rows.
    has_read_all: bool,
    /// Keys of the files that were written, outside of the log.
    written: BTreeSet<String>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// The transaction commits: only it writes files.
    Committing,
    Ended,
}

impl Buffer {
    /// Over the table's commits of this instant. `name` identifies the table and the transaction;
    /// `committer` decides the table's commits outside of the transaction.
    ///
    /// # Errors
    /// `UnsupportedFeature` for a table whose first version isn't ratified.
    pub fn new(name: String, base: LogTail, committer: &dyn Committer) -> Result<Self> {
        let latest = base.latest.ok_or_else(|| {
            Error::unsupported_feature(format!(
                "{name}: a table is created outside of a transaction over several tables"
            ))
        })?;
        Ok(Buffer {
            name,
            base,
            latest,
            began_ms: now_ms(),
            permits_optimize: committer.permits(Maintenance::Optimize),
            state: Mutex::default(),
        })
    }

    /// The table's commits that the transaction began with.
    pub(super) fn base(&self) -> &LogTail {
        &self.base
    }

    /// The version that the transaction began with.
    pub fn base_version(&self) -> u64 {
        self.latest
    }

    /// When the transaction began, ms since the epoch.
    pub(crate) fn began_ms(&self) -> i64 {
        self.began_ms
    }

    /// Whether the transaction wrote to the table.
    pub fn has_commands(&self) -> bool {
        !self.state().commands.is_empty()
    }

    /// Whether the transaction read rows of the table, apart from what its commands read.
    pub fn has_reads(&self) -> bool {
        !self.state().reads.is_empty()
    }

    /// Ends the commands: no other commit is taken.
    ///
    /// # Errors
    /// `InvalidArgument` after the transaction ended, or while a command still runs.
    pub fn close(&self) -> Result<()> {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return Err(self.ended());
        }
        if !state.offered.is_empty() {
            return Err(Error::invalid_argument(format!(
                "a command on {} still runs: wait for it before the transaction ends",
                self.name
            )));
        }
        state.phase = Phase::Committing;
        Ok(())
    }

    /// Ends the transaction on this table; nothing is written any more.
    pub fn end(&self) {
        let mut state = self.state();
        state.phase = Phase::Ended;
        // They have snapshots, whose store has this buffer: none of them would ever be freed.
        let noted = (
            std::mem::take(&mut state.commands),
            std::mem::take(&mut state.offered),
            std::mem::take(&mut state.reads),
        );
        drop(state);
        drop(noted);
    }

    /// Keys of the files that the transaction wrote, except those that these keys name.
    pub fn written_except(&self, named: &BTreeSet<String>) -> Vec<String> {
        self.state().written.difference(named).cloned().collect()
    }

    /// What the buffered commits are made of.
    pub(crate) fn commands(&self) -> Vec<Noted> {
        self.state().commands.clone()
    }

    /// The rows that were read.
    pub(crate) fn reads(&self) -> Vec<Noted> {
        self.state().reads.clone()
    }

    /// The name of table and transaction for messages.
    pub(crate) fn shown_name(&self) -> &str {
        &self.name
    }

    /// Takes a command that is about to be proposed under this transaction id.
    ///
    /// # Errors
    /// `InvalidArgument` after the transaction ended.
    pub(crate) fn offer(&self, txn_id: &str, command: Noted) -> Result<()> {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return Err(self.ended());
        }
        state.offered.insert(txn_id.to_owned(), command);
        Ok(())
    }

    /// Forgets a command whose proposal failed or is made again.
    pub(crate) fn withdraw(&self, txn_id: &str) {
        self.state().offered.remove(txn_id);
    }

    /// Notes a read of rows of a version: of all, or of some.
    pub(crate) fn note_read(&self, version: u64, is_of_all: bool, read: Noted) {
        // Versions before the first one of the transaction never change.
        if version < self.latest {
            return;
        }
        let mut state = self.state();
        if state.phase != Phase::Open || state.has_read_all {
            return;
        }
        if is_of_all {
            state.reads.clear();
            state.has_read_all = true;
        }
        state.reads.push(read);
    }

    pub(super) fn note_written(&self, key: &str) -> Result<()> {
        let mut state = self.state();
        if state.phase == Phase::Ended {
            return Err(self.ended());
        }
        state.written.insert(key.to_owned());
        Ok(())
    }

    /// Whether the transaction wrote this file.
    pub(super) fn has_written(&self, key: &str) -> bool {
        self.state().written.contains(key)
    }

    fn ended(&self) -> Error {
        Error::invalid_argument(format!(
            "{}: the transaction has ended; begin another one, or open the table outside of it",
            self.name
        ))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Committer for Buffer {
    fn name(&self) -> String {
        self.name.clone()
    }

    async fn propose(&self, proposal: &Proposal) -> Result<Decision> {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return Err(self.ended());
        }
        if proposal.version != self.latest + 1 + state.commits.len() as u64 {
            return Ok(Decision::Taken(None));
        }
        let Some(command) = state.offered.remove(&proposal.txn_id) else {
            return Err(Error::internal(
                "a commit was proposed to a transaction that doesn't know its command; please report this",
            ));
        };
        let Content::Inline(_) = &proposal.content else {
            return Err(Error::internal(
                "a transaction was given a commit as a file; please report this",
            ));
        };
        state.commands.push(command);
        state.commits.push(Ratified {
            version: proposal.version,
            content: proposal.content.clone(),
            timestamp_ms: proposal.timestamp_ms,
        });
        Ok(Decision::Ratified)
    }

    async fn log_tail(&self, from: u64) -> Result<LogTail> {
        let state = self.state();
        let all = self.base.commits.iter().chain(&state.commits);
        Ok(LogTail {
            latest: Some(self.latest + state.commits.len() as u64),
            commits: all.filter(|commit| commit.version >= from).cloned().collect(),
            published: self.base.published,
        })
    }

    async fn published(&self, _: u64) -> Result<()> {
        Err(Error::internal(
            "a buffered commit can't be published; please report this",
        ))
    }

    fn permits(&self, work: Maintenance) -> bool {
        work == Maintenance::Optimize && self.permits_optimize
    }

    fn most_inline_bytes(&self) -> u64 {
        u64::MAX
    }
}
