//! Commits of several tables that one catalog decides together: all are ratified, or none.

use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::paths;
use deltaplane_store::async_trait;
use tracing::warn;

use crate::commit::reader::Commit;
use crate::committer::known::at_catalog;
use crate::committer::managed::Managed;
use crate::committer::{Content, LogTail, Proposal};

/// Decides the commits of several tables of one catalog. The tables are its members, by number.
#[async_trait]
pub trait GroupCommitter: Send + Sync {
    /// The catalog's name, without any credential.
    fn catalog(&self) -> String;

    /// The catalog's identifier of a member.
    fn table_id(&self, member: usize) -> String;

    /// Proposes a commit or a read version for each member, and waits for the decision. A group may
    /// be proposed again, and is never ratified twice.
    ///
    /// # Errors
    /// The group was certainly not ratified, and never will be, as for
    /// [`Committer::propose`](crate::committer::Committer::propose).
    async fn propose_all(&self, group: &[GroupProposal]) -> Result<GroupDecision>;
}

/// What a group of commits requires of one table.
#[derive(Debug, Clone)]
pub enum GroupProposal {
    /// This becomes its next version.
    Commit(Box<Proposal>),
    /// This is its newest version.
    Unchanged(u64),
}

/// The catalog's answer to a group of proposals.
#[derive(Debug)]
pub enum GroupDecision {
    /// Each proposal is its table's version now.
    Ratified,
    /// At least one version was taken, or isn't the newest one any more. The log tails of all
    /// members, of one instant. The group isn't ratified unless an earlier call, whose answer was
    /// lost, did it: the caller reads the commits to know.
    Taken(Vec<LogTail>),
    /// The catalog holds as many unpublished commits of a member as it wants to; it ratified
    /// nothing now.
    PublishFirst {
        /// An earlier call, whose answer was lost, may still be ratified.
        is_unclear: bool,
    },
    /// The answer was lost: the group may have been ratified, or may be later.
    Unknown(Error),
}

impl Managed {
    /// A commit of a group as its proposal, staged as a file unless it may go inline.
    pub(crate) async fn prepared(&self, commit: &Commit, text: &Bytes, most_inline_bytes: u64) -> Result<Proposal> {
        let mut proposal = self.proposal(commit)?;
        proposal.content = match text.len() as u64 <= most_inline_bytes {
            true => Content::Inline(text.clone()),
            false => Content::Staged(self.stage(&proposal, text.clone()).await?),
        };
        proposal.published = self.published();
        Ok(proposal)
    }

    /// The highest version up to which all are known to be published.
    pub(crate) fn published(&self) -> Option<u64> {
        self.unpublished_from().checked_sub(1)
    }

    /// The newest version that is known to be ratified.
    pub(crate) fn latest(&self) -> Option<u64> {
        self.known().latest
    }

    /// The largest commit in bytes that the catalog takes inline.
    pub(crate) fn most_inline_bytes(&self) -> u64 {
        self.committer.most_inline_bytes()
    }

    /// The catalog ratified this proposal.
    pub(crate) fn won(&self, proposal: Proposal) {
        self.proposed.forget(&proposal);
        self.known().ratified(proposal);
    }

    /// The proposal will never be ratified: deletes its staged file.
    pub(crate) async fn lost(&self, proposal: &Proposal) {
        self.proposed.forget(proposal);
        let Content::Staged(file) = &proposal.content else {
            return;
        };
        let key = paths::staged_commit(&file.name);
        if let Err(e) = self.behind.delete(&key).await {
            warn!(%key, error = %e, "a staged commit of a lost race is left behind: fsck finds it");
        }
    }

    /// Takes in the catalog's answer about the versions from `from` on.
    pub(crate) fn learn(&self, from: u64, tail: LogTail) -> Result<()> {
        let learnt = self.known().learn(from, tail);
        learnt.map_err(|e| at_catalog(self.committer.as_ref(), &e))
    }
}
