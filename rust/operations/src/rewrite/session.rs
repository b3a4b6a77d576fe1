//! A command that changes rows, whichever state it is in: for callers that keep one object for all
//! its steps. A step that the state doesn't have is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use deltaplane_error::{Error, Result};
use deltaplane_log::{DryRun, Protocols, RewriteRequest, Snapshot};
use serde_json::Value;

use super::tasks::{Outcome, TaskSpec};
use super::{Command, FileSummary, Rewrite, Selected, Staged};
use crate::write_job::Spec;

/// A command and its state. Its new files are deleted when it is dropped uncommitted.
pub struct Session {
    command: Arc<Command>,
    state: Mutex<State>,
}

/// The states of a command, of which each has its own steps.
enum State {
    Begun(Rewrite),
    Selected(Box<Selected>),
    Staged(Box<Staged>),
    /// It was committed or aborted, was a dry run, or failed.
    Ended,
}

impl Session {
    /// Begins a command on this version.
    ///
    /// # Errors
    /// As [`Rewrite::begin`].
    pub fn begin(snapshot: &Snapshot, request: RewriteRequest) -> Result<Self> {
        let begun = Rewrite::begin(snapshot, request)?;
        Ok(Session {
            command: begun.command().clone(),
            state: Mutex::new(State::Begun(begun)),
        })
    }

    /// What the command is.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Whether it has files that dropping it deletes.
    pub fn has_files(&self) -> bool {
        matches!(*self.locked(), State::Selected(_) | State::Staged(_))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Selects rows, once.
    ///
    /// # Errors
    /// `InvalidArgument` if the command has selected its rows; those of `select`.
    pub fn select<T>(&self, select: impl FnOnce(Rewrite) -> Result<(Selected, T)>) -> Result<T> {
        let mut state = self.locked();
        match std::mem::replace(&mut *state, State::Ended) {
            State::Begun(begun) => {
                let (selected, rows) = select(begun)?;
                *state = State::Selected(Box::new(selected));
                Ok(rows)
            }
            other => refuse(&mut state, other, "select rows"),
        }
    }

    /// Why nothing is to be done, if so: the application's version was committed before.
    pub fn skip(&self) -> Option<&'static str> {
        self.command.was_done().then_some("txn")
    }

    /// The protocol before and after.
    pub fn protocols(&self) -> Protocols {
        self.command.protocols().into()
    }

    /// Whether changed rows are recorded.
    pub fn records_changes(&self) -> bool {
        self.command.records_changes()
    }

    /// Whether the command's condition selects whole files.
    pub fn selects_files(&self) -> bool {
        self.command.selects_files()
    }

    /// What tasks on other machines must know.
    ///
    /// # Errors
    /// As [`Command::task_spec`].
    pub fn task_spec(&self) -> Result<TaskSpec> {
        self.command.task_spec()
    }

    /// How new files are written.
    ///
    /// # Errors
    /// As [`Command::spec`].
    pub fn spec(&self) -> Result<Spec> {
        self.command.spec()
    }

    /// The number of files with selected rows.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn picked_files(&self) -> Result<usize> {
        self.read(Selected::num_files, Staged::num_files)
    }

    /// The bytes of these files.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn picked_bytes(&self) -> Result<i64> {
        self.read(Selected::num_bytes, Staged::num_bytes)
    }

    /// The rows that were written, without copied ones.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn written_rows(&self) -> Result<usize> {
        self.read(Selected::written_rows, Staged::written_rows)
    }

    /// Whether other rows of the selected rows' files are copied to new files.
    ///
    /// # Errors
    /// As [`selected`](Self::selected).
    pub fn copies_rows(&self) -> Result<bool> {
        self.selected(|selected| Ok(selected.copies_rows()))
    }

    /// Copies the rows beside the selected ones, where files are not marked.
    ///
    /// # Errors
    /// As [`selected`](Self::selected).
    pub fn copy_others(&self) -> Result<()> {
        self.selected(Selected::copy_others)
    }

    /// As [`Selected::patch_columns`].
    ///
    /// # Errors
    /// As [`selected`](Self::selected).
    pub fn patch_columns(&self, columns: Vec<String>, at_least: i64) -> Result<usize> {
        self.selected(|selected| selected.patch_columns(&columns, at_least))
    }

    /// The decoded paths of the files that were chosen so.
    ///
    /// # Errors
    /// As [`selected`](Self::selected).
    pub fn patched_paths(&self) -> Result<Vec<String>> {
        self.selected(|selected| selected.patched_paths())
    }

    /// Records the selected rows as this change, where changes are recorded.
    ///
    /// # Errors
    /// As [`selected`](Self::selected).
    pub fn record_picked(&self, change: &str) -> Result<()> {
        self.selected(|selected| selected.record_selected(change))
    }

    /// As [`Rewrite::select_files`]; returns how many rows, if the log says so.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn pick_files(&self) -> Result<Option<i64>> {
        self.select(Rewrite::select_files)
    }

    /// As [`Rewrite::select_outdated`]; returns how many files.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn pick_outdated(&self) -> Result<usize> {
        self.select(|begun| begun.select_outdated().map(with_num_files))
    }

    /// As [`Rewrite::select_renamed`]; returns how many files.
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn pick_renamed(&self) -> Result<usize> {
        self.select(|begun| begun.select_renamed().map(with_num_files))
    }

    /// A step on selected rows: on none, if the command hasn't selected any.
    ///
    /// # Errors
    /// `InvalidArgument` if the command's files are complete; those of `step`.
    pub fn selected<T>(&self, step: impl FnOnce(&mut Selected) -> Result<T>) -> Result<T> {
        let mut state = self.locked();
        select_nothing(&mut state);
        match &mut *state {
            State::Selected(selected) => step(selected),
            other => Err(wrong_state(other, "read or write rows")),
        }
    }

    /// Takes over what tasks on other machines did.
    ///
    /// # Errors
    /// `InvalidArgument` if the command's files are complete.
    pub fn adopt(&self, outcomes: Vec<Outcome>) -> Result<()> {
        self.selected(|selected| {
            outcomes.into_iter().for_each(|outcome| selected.adopt(outcome));
            Ok(())
        })
    }

    /// A fact that a command keeps once its files are complete.
    ///
    /// # Errors
    /// `InvalidArgument` if the command has ended.
    pub fn read<T>(&self, selected: impl FnOnce(&Selected) -> T, staged: impl FnOnce(&Staged) -> T) -> Result<T> {
        let mut state = self.locked();
        select_nothing(&mut state);
        match &*state {
            State::Selected(rows) => Ok(selected(rows)),
            State::Staged(files) => Ok(staged(files)),
            other => Err(wrong_state(other, "say what it selected")),
        }
    }

    /// Writes the files that [`Selected::patch_columns`] chose with new values in their selected
    /// rows; returns how many rows.
    ///
    /// # Errors
    /// `InvalidArgument` if the command's files are complete; the first error of the rows or of the
    /// store.
    pub fn patch(&self, rows: impl Iterator<Item = Result<RecordBatch>>) -> Result<usize> {
        // The rows' source may ask this object, so its state isn't locked while they are written.
        let Some(patches) = self.selected(|selected| selected.patches())? else {
            return Ok(0);
        };
        let (patched, written) = patches.write(rows);
        let rows = patched.rows;
        self.selected(|selected| {
            selected.adopt_patched(patched);
            written.map(|()| rows)
        })
    }

    /// Completes the new files and deletes the selected rows.
    ///
    /// # Errors
    /// `InvalidArgument` if this was done before; as [`Selected::finish`].
    pub fn finish(&self) -> Result<FileSummary> {
        let mut state = self.locked();
        select_nothing(&mut state);
        match std::mem::replace(&mut *state, State::Ended) {
            State::Selected(selected) => {
                let staged = selected.finish()?;
                let summary = staged.summary();
                *state = State::Staged(Box::new(staged));
                Ok(summary)
            }
            other => refuse(&mut state, other, "complete files"),
        }
    }

    /// What the commit with these metrics would be.
    ///
    /// # Errors
    /// `InvalidArgument` if the files aren't complete; as [`Staged::dry_run`].
    pub fn dry_run(&self, metrics: BTreeMap<String, String>) -> Result<DryRun> {
        self.end(|staged| staged.dry_run(values(metrics)))
    }

    /// Commits with these metrics; returns the version.
    ///
    /// # Errors
    /// `InvalidArgument` if the files aren't complete; as [`Staged::commit`].
    pub fn commit(&self, metrics: BTreeMap<String, String>) -> Result<u64> {
        self.end(|staged| staged.commit(values(metrics)))
    }

    /// The last step of a command whose files are complete.
    fn end<T>(&self, step: impl FnOnce(Staged) -> Result<T>) -> Result<T> {
        let mut state = self.locked();
        match std::mem::replace(&mut *state, State::Ended) {
            State::Staged(staged) => step(*staged),
            other => refuse(&mut state, other, "commit"),
        }
    }

    /// Drops the state, and so the files of a command that was neither committed nor aborted.
    pub fn discard(&self) {
        drop(std::mem::replace(&mut *self.locked(), State::Ended));
    }

    /// Deletes what was written for a commit that didn't happen.
    ///
    /// # Errors
    /// Those of the store.
    pub fn abort(&self) -> Result<()> {
        match std::mem::replace(&mut *self.locked(), State::Ended) {
            State::Selected(selected) => selected.abort(),
            State::Staged(staged) => staged.abort(),
            State::Begun(_) | State::Ended => Ok(()),
        }
    }
}

fn values(metrics: BTreeMap<String, String>) -> BTreeMap<String, Value> {
    metrics.into_iter().map(|(name, text)| (name, text.into())).collect()
}

fn with_num_files(selected: Selected) -> (Selected, usize) {
    let files = selected.num_files();
    (selected, files)
}

fn select_nothing(state: &mut State) {
    if matches!(state, State::Begun(_))
        && let State::Begun(begun) = std::mem::replace(state, State::Ended)
    {
        *state = State::Selected(Box::new(begun.select_nothing()));
    }
}

/// Puts a state back that doesn't have a step.
fn refuse<T>(state: &mut State, unchanged: State, step: &str) -> Result<T> {
    let refused = Err(wrong_state(&unchanged, step));
    *state = unchanged;
    refused
}

/// A step that the command's state doesn't have.
fn wrong_state(state: &State, step: &str) -> Error {
    let (actual, remedy) = match state {
        State::Begun(_) => ("has no complete files", "call finish() first"),
        State::Selected(_) => (
            "has selected its rows, and its files aren't complete",
            "call finish() first",
        ),
        State::Staged(_) => ("has complete files", "commit or abort it, and begin another one"),
        State::Ended => ("has ended", "begin another one"),
    };
    Error::invalid_argument(format!("this command {actual}, so it can't {step}: {remedy}"))
}

#[cfg(test)]
mod tests {
    use deltaplane_error::Kind;
    use serde_json::json;

    use super::*;
    use crate::testing::Table;

    fn session(table: &Table) -> Session {
        let request = serde_json::from_value(json!({"operation": "DELETE"})).unwrap();
        Session::begin(&table.snapshot(), request).unwrap()
    }

    fn message<T>(refused: Result<T>) -> String {
        let error = refused.err().unwrap();
        assert_eq!(error.kind(), Kind::InvalidArgument);
        error.message().to_owned()
    }

    #[test]
    fn every_step_is_refused_in_a_state_that_does_not_have_it() {
        let table = Table::new();
        table.append(&[1, 2]);
        let session = session(&table);
        let commit = || session.commit(BTreeMap::new());
        assert!(message(commit()).contains("call finish() first"));
        assert!(!session.has_files());
        assert_eq!(session.select(Rewrite::select_files).unwrap(), Some(2));
        assert!(message(session.select(Rewrite::select_files)).contains("can't select rows"));
        assert!(message(commit()).contains("its files aren't complete"));
        assert_eq!(session.finish().unwrap().num_removed_files, 1);
        assert!(message(session.finish()).contains("can't complete files"));
        assert!(message(session.selected(|_| Ok(()))).contains("can't read or write rows"));
        assert_eq!(session.read(Selected::num_files, Staged::num_files).unwrap(), 1);
        assert_eq!(commit().unwrap(), 1);
        assert!(message(commit()).contains("begin another one"));
        assert!(!session.has_files());
        session.abort().unwrap();
    }

    #[test]
    fn a_command_that_selects_nothing_completes_no_files() {
        let table = Table::new();
        table.append(&[1]);
        let session = session(&table);
        assert_eq!(session.read(Selected::num_files, Staged::num_files).unwrap(), 0);
        assert!(session.has_files());
        assert_eq!(session.finish().unwrap().num_removed_files, 0);
        session.abort().unwrap();
        assert!(message(session.finish()).contains("has ended"));
    }
}
