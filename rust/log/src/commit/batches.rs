//! File actions of commits from the newest to the oldest, with those of many small commits in one
//! batch: a tail of thousands of commits would otherwise be as many batches of one row.

use std::sync::Arc;

use deltaplane_error::Result;
use deltaplane_protocol::replay::Turn;

use crate::commit::reader::{Commit, CommitFiles, FileColumns};

/// Tails up to this length keep each commit's columns, for reuse by the next version.
const SHORT_TAIL: usize = 64;
/// A commit with more text than this keeps its own columns.
const SMALL_COMMIT_BYTES: usize = 1 << 14;
/// Actions of a batch.
const RUN_ACTIONS: usize = 8192;

/// Passes the file actions of these commits (ascending) to `take`, the newest first.
pub(crate) fn newest_first(
    commits: &[Arc<Commit>],
    mut take: impl FnMut(&CommitFiles, &[Turn]) -> Result<()>,
) -> Result<()> {
    // Most small commits add at most one file.
    let room = commits.len().min(RUN_ACTIONS);
    let mut run = Run::new(0);
    for commit in commits.iter().rev() {
        if commits.len() > SHORT_TAIL && commit.is_small(SMALL_COMMIT_BYTES) {
            if run.turns.is_empty() {
                run = Run::new(room);
            }
            run.push(commit)?;
            if run.is_full() {
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

struct Run {
    files: FileColumns,
    turns: Vec<Turn>,
}

impl Run {
    fn new(adds: usize) -> Self {
        Run {
            files: FileColumns::with_capacity(adds),
            turns: Vec::new(),
        }
    }

    fn push(&mut self, commit: &Commit) -> Result<()> {
        let before = self.files.len();
        self.files.push(commit)?;
        let (adds, removes) = self.files.len();
        self.turns.push(Turn {
            version: commit.version(),
            adds: adds - before.0,
            removes: removes - before.1,
        });
        Ok(())
    }

    fn is_full(&self) -> bool {
        let (adds, removes) = self.files.len();
        adds + removes >= RUN_ACTIONS
    }

    fn give(&mut self, take: &mut impl FnMut(&CommitFiles, &[Turn]) -> Result<()>) -> Result<()> {
        let run = std::mem::replace(self, Run::new(0));
        if run.turns.is_empty() {
            return Ok(());
        }
        take(&run.files.finish()?, &run.turns)
    }
}
