//! `SimGroup`: commits of several tables that the simulated catalog decides together, each call of
//! which waits until the scheduler serves it.

use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_log::committer::{Content, GroupCommitter, GroupDecision, GroupProposal};
use deltaplane_protocol::paths;
use deltaplane_store::async_trait;

use super::PREFIXES;
use super::planted::GroupBug;
use crate::catalog::GroupDecided;
use crate::world::{Answer, Call, Shared, Who, ask};

/// One actor's way to the catalog for a transaction.
pub struct SimGroup {
    world: Shared,
    who: Who,
    /// The table of each member.
    tables: Vec<usize>,
    bug: Option<GroupBug>,
}

impl SimGroup {
    /// The committer of a transaction over these tables, with a planted bug, if any.
    pub fn new(world: &Shared, who: Who, tables: Vec<usize>, bug: Option<GroupBug>) -> Self {
        SimGroup {
            world: Arc::clone(world),
            who,
            tables,
            bug,
        }
    }

    /// Deletes the staged commits of a proposal.
    async fn delete_staged(&self, group: &[GroupProposal]) {
        for (table, part) in self.tables.iter().zip(group) {
            if let GroupProposal::Commit(proposal) = part
                && let Content::Staged(file) = &proposal.content
            {
                let key = format!("{}{}", PREFIXES[*table], paths::staged_commit(&file.name));
                let _ = ask(&self.world, self.who, Call::Delete(key)).await;
            }
        }
    }
}

#[async_trait]
impl GroupCommitter for SimGroup {
    fn catalog(&self) -> String {
        "the simulated catalog".to_owned()
    }

    fn table_id(&self, member: usize) -> String {
        format!("table {}", self.tables[member])
    }

    async fn propose_all(&self, group: &[GroupProposal]) -> Result<GroupDecision> {
        let parts = self.tables.iter().copied().zip(group.iter().cloned()).collect();
        match ask(&self.world, self.who, Call::ProposeAll(parts)).await {
            Ok(Answer::GroupDecided(GroupDecided::Ratified)) => Ok(GroupDecision::Ratified),
            Ok(Answer::GroupDecided(GroupDecided::Taken(tails))) => Ok(GroupDecision::Taken(tails)),
            // An earlier request may still be under way.
            Ok(Answer::GroupDecided(GroupDecided::PublishFirst)) => {
                Ok(GroupDecision::PublishFirst { is_unclear: false })
            }
            Ok(other) => Err(Error::internal(format!(
                "the simulated catalog answered {other:?} to a group"
            ))),
            Err(e) if self.bug == Some(GroupBug::UnknownTakenForRefused) => Err(Error::invalid_argument(e.message())),
            Err(e) => {
                if self.bug == Some(GroupBug::StagedDeletedEarly) {
                    self.delete_staged(group).await;
                }
                Ok(GroupDecision::Unknown(e))
            }
        }
    }
}
