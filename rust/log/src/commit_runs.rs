//! File actions of commits from the newest to the oldest, those of many small ones in one batch: a tail of thousands of commits
//! would be as many batches of one row else. Called by `snapshot`.

use std::sync::Arc;

use deltaplane_error::Result;
use deltaplane_protocol::actions::{Action, Add, Remove};
use deltaplane_protocol::files::{adds_to_batch, removes_to_batch};
use deltaplane_protocol::replay::Turn;

use crate::commit_reader::{Commit, CommitFiles};

/// Tails up to this length keep each commit's columns, so that the next version has them too.
const SHORT_TAIL: usize = 64;
/// A commit with more text than this keeps its own.
const SMALL_COMMIT_BYTES: usize = 1 << 14;
/// Actions of a batch.
const RUN_ACTIONS: usize = 8192;

/// Gives the file actions of these commits (ascending) to `take`, the newest first.
pub(crate) fn newest_first(
    commits: &[Arc<Commit>],
    mut take: impl FnMut(&CommitFiles, &[Turn]) -> Result<()>,
) -> Result<()> {
    let mut run = Run::default();
    for commit in commits.iter().rev() {
        if commits.len() > SHORT_TAIL && commit.is_small(SMALL_COMMIT_BYTES) {
            run.push(commit)?;
            if run.adds.len() + run.removes.len() >= RUN_ACTIONS {
                run.give(&mut take)?;
            }
        } else {
            run.give(&mut take)?;
            let files = commit.files()?;
            take(files, &[Turn::whole(commit.version(), &files.adds, &files.removes)])?;
        }
    }
    run.give(&mut take)
}

#[derive(Default)]
struct Run {
    adds: Vec<Add>,
    removes: Vec<Remove>,
    turns: Vec<Turn>,
}

impl Run {
    fn push(&mut self, commit: &Commit) -> Result<()> {
        let (adds, removes) = (self.adds.len(), self.removes.len());
        commit.each_file(|action| match action {
            Action::Add(add) => self.adds.push(add),
            Action::Remove(remove) => self.removes.push(remove),
            _ => {}
        })?;
        self.turns.push(Turn {
            version: commit.version(),
            adds: self.adds.len() - adds,
            removes: self.removes.len() - removes,
        });
        Ok(())
    }

    fn give(&mut self, take: &mut impl FnMut(&CommitFiles, &[Turn]) -> Result<()>) -> Result<()> {
        let run = std::mem::take(self);
        if run.turns.is_empty() {
            return Ok(());
        }
        let files = CommitFiles {
            adds: adds_to_batch(&run.adds)?,
            removes: removes_to_batch(&run.removes)?,
        };
        take(&files, &run.turns)
    }
}
