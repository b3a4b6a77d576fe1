//! Staged files whose proposals were not decided yet.

use std::sync::{Mutex, PoisonError};

use crate::committer::{Proposal, StagedFile};

/// Staged files that are remembered for a repetition of their proposal.
const MOST_REMEMBERED: usize = 16;

/// Staged files whose proposals were not decided, so that a repetition proposes the same file: by
/// version and transaction.
#[derive(Default)]
pub(super) struct Proposed(Mutex<Vec<((u64, String), StagedFile)>>);

impl Proposed {
    pub(super) fn find(&self, version: u64, txn_id: &str) -> Option<StagedFile> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = open.iter().filter(|((v, id), _)| *v == version && id == txn_id);
        own.next().map(|(_, file)| file.clone())
    }

    pub(super) fn remember(&self, proposal: &Proposal, file: &StagedFile) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MOST_REMEMBERED {
            open.remove(0);
        }
        open.push(((proposal.version, proposal.txn_id.clone()), file.clone()));
    }

    pub(super) fn forget(&self, proposal: &Proposal) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|((v, id), _)| (*v, id) != (proposal.version, &proposal.txn_id));
    }
}
