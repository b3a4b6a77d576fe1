//! `SimCommitter`: a committer whose every call waits until the scheduler serves it.

use std::sync::Arc;

use deltaplane_error::{Error, Result};
use deltaplane_log::committer::{Committer, Decision, LogTail, Maintenance, Proposal};
use deltaplane_store::async_trait;

use crate::catalog::Decided;
use crate::planted::Bug;
use crate::world::{Answer, Call, Shared, Who, ask, lock};

/// One actor's way to the catalog.
pub struct SimCommitter {
    world: Shared,
    who: Who,
    bug: Option<Bug>,
}

impl SimCommitter {
    /// The committer of an actor, with a planted bug, if any.
    pub fn new(world: &Shared, who: Who, bug: Option<Bug>) -> Self {
        SimCommitter {
            world: Arc::clone(world),
            who,
            bug,
        }
    }
}

fn mixed_up(answer: &Answer) -> Error {
    Error::internal(format!("the simulated catalog answered {answer:?} to another call"))
}

#[async_trait]
impl Committer for SimCommitter {
    fn name(&self) -> String {
        "the simulated catalog".to_owned()
    }

    async fn propose(&self, proposal: &Proposal) -> Result<Decision> {
        match ask(&self.world, self.who, Call::Propose(Box::new(proposal.clone()))).await {
            Ok(Answer::Decided(Decided::Ratified)) => Ok(Decision::Ratified),
            Ok(Answer::Decided(Decided::Taken(tail))) => Ok(Decision::Taken(Some(tail))),
            Ok(Answer::Decided(Decided::PublishFirst)) => Ok(Decision::PublishFirst),
            Ok(other) => Err(mixed_up(&other)),
            Err(e) if self.bug == Some(Bug::UnknownTakenForRefused) => Err(Error::invalid_argument(e.message())),
            Err(e) => Ok(Decision::Unknown(e)),
        }
    }

    async fn log_tail(&self, from: u64) -> Result<LogTail> {
        match ask(&self.world, self.who, Call::LogTail(from)).await? {
            Answer::Tail(tail) => Ok(tail),
            other => Err(mixed_up(&other)),
        }
    }

    async fn published(&self, version: u64) -> Result<()> {
        ask(&self.world, self.who, Call::TellPublished(version)).await.map(drop)
    }

    fn permits(&self, _: Maintenance) -> bool {
        true
    }

    fn most_inline_bytes(&self) -> u64 {
        lock(&self.world).catalog.as_ref().map_or(0, |c| c.inline_bytes)
    }
}
