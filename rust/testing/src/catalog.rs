//! The simulated catalog: what it has ratified is part of the world, so a coordinator that crashes
//! keeps it; each call to it waits until the scheduler serves it, like a call of the store.

use std::collections::BTreeMap;

use deltaplane_log::committer::{Content, LogTail, Proposal, Ratified};

/// A bug that is planted in a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It ratifies a version again.
    RatifiesTwice,
    /// Its answers are one version behind.
    TailLags,
    /// It forgets a commit before it is published.
    ForgetsEarly,
}

/// What a catalog knows of the table.
#[derive(Debug, Default)]
pub struct Catalog {
    /// The newest ratified version.
    pub latest: Option<u64>,
    /// The catalog was notified that versions up to this one are published.
    pub notified: Option<u64>,
    /// The ratified commits that it holds.
    pub held: BTreeMap<u64, Ratified>,
    /// The highest version whose file was published.
    pub published: Option<u64>,
    /// The largest inline commit.
    pub inline_bytes: u64,
    /// How many commits it holds before it wants some published.
    pub most_held: usize,
    /// The bug that is planted in it, if any.
    pub flaw: Option<Flaw>,
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
            published: self.notified,
        };
        if self.flaw == Some(Flaw::TailLags) && self.latest > Some(1) && self.notified < self.latest {
            tail.commits.pop();
            tail.latest = tail.latest.map(|v| v - 1);
        }
        tail
    }

    /// Forgets commits that are published.
    pub fn forget(&mut self, published: u64) {
        self.notified = self.notified.max(Some(published));
        let early = u64::from(self.flaw == Some(Flaw::ForgetsEarly));
        self.held.retain(|v, _| *v > published + early);
    }

    /// Decides a proposal.
    pub fn decide(&mut self, proposal: &Proposal) -> Decided {
        if let Some(published) = proposal.published {
            self.forget(published);
        }
        let next = self.latest.map_or(0, |v| v + 1);
        let again = self.flaw == Some(Flaw::RatifiesTwice) && proposal.version + 1 == next && next > 1;
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
            self.notified = Some(proposal.version);
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
