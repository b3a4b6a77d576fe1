//! The simulated catalog: what it has ratified is part of the world, so a coordinator that crashes
//! keeps it; each call to it waits until the scheduler serves it, like a call of the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_log::committer::{Committer, Content, Decision, LogTail, Maintenance, Proposal, Ratified};
use deltaplane_protocol::paths;
use deltaplane_store::async_trait;

use crate::planted::Bug;
use crate::store::ask;
use crate::world::{Answer, Call, Shared, Who, World, lock};

/// What a catalog knows of the table.
#[derive(Debug, Default)]
pub struct Catalog {
    /// The newest ratified version.
    pub latest: Option<u64>,
    /// Versions up to this one were told to be published.
    pub told: Option<u64>,
    /// The ratified commits that it holds.
    pub held: BTreeMap<u64, Ratified>,
    /// The highest version whose file was published.
    pub published: Option<u64>,
    /// The largest inline commit.
    pub inline_bytes: u64,
    /// How many commits it holds before it wants some published.
    pub most_held: usize,
    /// The bug that is planted in it, if any.
    pub bug: Option<Bug>,
}

/// A catalog's decision, as the scheduler passes it on.
#[derive(Debug, Clone)]
pub enum Decided {
    /// As [`Decision::Ratified`].
    Ratified,
    /// As [`Decision::Taken`].
    Taken(LogTail),
    /// As [`Decision::PublishFirst`].
    PublishFirst,
}

impl Catalog {
    /// The newest commits from this version on.
    pub fn tail(&self, from: u64) -> LogTail {
        let mut tail = LogTail {
            latest: self.latest,
            commits: self.held.range(from..).map(|(_, c)| c.clone()).collect(),
            published: self.told,
        };
        if self.bug == Some(Bug::CatalogTailLags) && self.latest > Some(1) && self.told < self.latest {
            tail.commits.pop();
            tail.latest = tail.latest.map(|v| v - 1);
        }
        tail
    }

    /// Forgets commits that are published.
    pub fn forget(&mut self, published: u64) {
        self.told = self.told.max(Some(published));
        let early = u64::from(self.bug == Some(Bug::CatalogForgetsEarly));
        self.held.retain(|v, _| *v > published + early);
    }

    /// Decides a proposal.
    pub fn decide(&mut self, proposal: &Proposal) -> Decided {
        if let Some(published) = proposal.published {
            self.forget(published);
        }
        let next = self.latest.map_or(0, |v| v + 1);
        let again = self.bug == Some(Bug::CatalogRatifiesTwice) && proposal.version + 1 == next && next > 1;
        if proposal.version != next && !again {
            let is_same = self
                .held
                .get(&proposal.version)
                .is_some_and(|c| c.content == proposal.content);
            return match is_same {
                true => Decided::Ratified,
                false => Decided::Taken(self.tail(proposal.version)),
            };
        }
        if self.held.len() >= self.most_held {
            return Decided::PublishFirst;
        }
        self.latest = Some(proposal.version);
        if matches!(proposal.content, Content::Published(_)) {
            self.told = Some(proposal.version);
            return Decided::Ratified;
        }
        let commit = Ratified {
            version: proposal.version,
            content: proposal.content.clone(),
            timestamp_ms: proposal.timestamp_ms,
        };
        self.held.insert(proposal.version, commit);
        Decided::Ratified
    }
}

/// The content of a commit that the catalog holds; `None` if its file isn't there.
pub fn content(world: &World, commit: &Content) -> Option<Bytes> {
    match commit {
        Content::Inline(bytes) => Some(bytes.clone()),
        Content::Staged(file) => world
            .objects
            .get(&paths::staged_commit(&file.name))
            .map(|o| o.bytes.clone()),
        Content::Published(_) => world.objects.get(&paths::commit(0)).map(|o| o.bytes.clone()),
    }
}

/// One actor's way to the catalog.
pub struct SimCommitter {
    world: Shared,
    who: Who,
}

impl SimCommitter {
    /// The committer of an actor.
    pub fn new(world: &Shared, who: Who) -> Self {
        SimCommitter {
            world: Arc::clone(world),
            who,
        }
    }

    fn bug(&self) -> Option<Bug> {
        lock(&self.world).catalog.as_ref().and_then(|c| c.bug)
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
            Err(e) if self.bug() == Some(Bug::UnknownTakenForRefused) => Err(Error::invalid_argument(e.message())),
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
