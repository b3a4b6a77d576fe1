//! `SimCommitter`: a committer whose every call waits until the scheduler serves it.

use std::sync::Arc;
use std::time::Duration;

use deltaplane_error::{Error, Result};
use deltaplane_log::committer::{Committer, Decision, LogTail, Maintenance, Proposal};
use deltaplane_store::async_trait;

use crate::catalog::Decided;
use crate::world::{Answer, Call, Shared, Who, ask, lock};

/// One actor's way to the catalog.
pub struct SimCommitter {
    world: Shared,
    who: Who,
    table: usize,
    /// Whether it takes a lost answer for a refusal.
    takes_unknown_for_refused: bool,
}

impl SimCommitter {
    /// The committer of an actor for a table, with a planted bug: whether it takes a lost answer
    /// for a refusal.
    pub fn new(world: &Shared, who: Who, table: usize, takes_unknown_for_refused: bool) -> Self {
        SimCommitter {
            world: Arc::clone(world),
            who,
            table,
            takes_unknown_for_refused,
        }
    }
}

fn mixed_up(answer: &Answer) -> Error {
    Error::internal(format!("the simulated catalog answered {answer:?} to another call"))
}

#[async_trait]
impl Committer for SimCommitter {
    fn name(&self) -> String {
        format!("table {} of the simulated catalog", self.table)
    }

    async fn propose(&self, proposal: &Proposal) -> Result<Decision> {
        match ask(
            &self.world,
            self.who,
            Call::Propose(self.table, Box::new(proposal.clone())),
        )
        .await
        {
            Ok(Answer::Decided(Decided::Ratified)) => Ok(Decision::Ratified),
            Ok(Answer::Decided(Decided::Taken(tail))) => Ok(Decision::Taken(Some(tail))),
            Ok(Answer::Decided(Decided::PublishFirst)) => Ok(Decision::PublishFirst),
            Ok(other) => Err(mixed_up(&other)),
            Err(e) if self.takes_unknown_for_refused => Err(Error::invalid_argument(e.message())),
            Err(e) => Ok(Decision::Unknown(e)),
        }
    }

    async fn log_tail(&self, from: u64) -> Result<LogTail> {
        match ask(&self.world, self.who, Call::LogTail(self.table, from)).await? {
            Answer::Tail(tail) => Ok(tail),
            other => Err(mixed_up(&other)),
        }
    }

    async fn published(&self, version: u64) -> Result<()> {
        let call = Call::TellPublished(self.table, version);
        ask(&self.world, self.who, call).await.map(drop)
    }

    fn report_delay(&self) -> Option<Duration> {
        let world = lock(&self.world);
        let reports = world.catalogs.get(self.table).is_some_and(|catalog| catalog.reports);
        // A time would need a task beside the actors.
        reports.then_some(Duration::ZERO)
    }

    fn permits(&self, _: Maintenance) -> bool {
        true
    }

    fn most_inline_bytes(&self) -> u64 {
        lock(&self.world).catalogs.get(self.table).map_or(0, |c| c.inline_bytes)
    }
}
