//! The simulated catalog: what it has ratified is part of the world, so a coordinator that crashes
//! keeps it; each call to it waits until the scheduler serves it, like a call of the store.

use std::collections::BTreeMap;

use deltaplane_log::committer::{Content, GroupProposal, LogTail, Proposal, Ratified};

/// A bug that is planted in a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// It ratifies a version again.
    RatifiesTwice,
    /// Its answers are one version behind.
    TailLags,
    /// It forgets a commit before it is published.
    ForgetsEarly,
    /// It decides about each table of a group by itself, and stops at one that is taken.
    DecidesOneByOne,
    /// It doesn't compare the versions of tables that a group only read.
    IgnoresReads,
}

/// What a catalog knows of a table.
#[derive(Debug, Default, Clone)]
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
    /// Whether its clients report what they published at once.
    pub reports: bool,
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
        match self.verdict(proposal) {
            Verdict::Next => {
                self.ratify(proposal);
                Decided::Ratified
            }
            Verdict::Repeated => Decided::Ratified,
            Verdict::Taken => Decided::Taken(self.tail(proposal.version)),
            Verdict::Full => Decided::PublishFirst,
        }
    }

    fn verdict(&self, proposal: &Proposal) -> Verdict {
        let next = self.latest.map_or(0, |v| v + 1);
        let again = self.flaw == Some(Flaw::RatifiesTwice) && proposal.version + 1 == next && next > 1;
        if proposal.version != next && !again {
            let is_same = self
                .held
                .get(&proposal.version)
                .is_some_and(|c| c.content == proposal.content);
            return match is_same {
                true => Verdict::Repeated,
                false => Verdict::Taken,
            };
        }
        match self.held.len() >= self.most_held {
            true => Verdict::Full,
            false => Verdict::Next,
        }
    }

    fn ratify(&mut self, proposal: &Proposal) {
        self.latest = Some(proposal.version);
        if matches!(proposal.content, Content::Published(_)) {
            self.notified = Some(proposal.version);
            return;
        }
        let commit = Ratified {
            version: proposal.version,
            content: proposal.content.clone(),
            timestamp_ms: proposal.timestamp_ms,
        };
        self.held.insert(proposal.version, commit);
    }
}

/// What a proposal is to a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The next version.
    Next,
    /// A version that was ratified with the same content.
    Repeated,
    /// A version that was ratified with other content, or isn't next.
    Taken,
    /// The next version, and too many commits are held.
    Full,
}

/// A catalog's decision about commits of several tables.
#[derive(Debug, Clone)]
pub enum GroupDecided {
    /// As [`GroupDecision::Ratified`](deltaplane_log::committer::GroupDecision::Ratified).
    Ratified,
    /// As `Taken`: of all tables that were named.
    Taken(Vec<LogTail>),
    /// As `PublishFirst`.
    PublishFirst,
}

/// Decides about commits of several tables in one transaction of the catalog's database: all are
/// ratified, or none.
pub fn decide_all(catalogs: &mut Vec<Catalog>, group: &[(usize, GroupProposal)]) -> GroupDecided {
    let mut after = catalogs.clone();
    let flaw = catalogs.first().and_then(|catalog| catalog.flaw);
    let (mut verdicts, mut is_unchanged) = (Vec::new(), true);
    for (table, part) in group {
        let catalog = &mut after[*table];
        match part {
            GroupProposal::Commit(proposal) => {
                if let Some(published) = proposal.published {
                    catalog.forget(published);
                }
                let verdict = catalog.verdict(proposal);
                verdicts.push(verdict);
                if verdict == Verdict::Next {
                    catalog.ratify(proposal);
                }
                if flaw == Some(Flaw::DecidesOneByOne) && verdict == Verdict::Next {
                    catalogs[*table] = catalog.clone();
                }
            }
            GroupProposal::Unchanged(version) => is_unchanged &= catalog.latest == Some(*version),
        }
    }
    let are_all = |verdict| verdicts.iter().all(|s| *s == verdict);
    let is_unchanged = is_unchanged || flaw == Some(Flaw::IgnoresReads);
    if are_all(Verdict::Repeated) {
        return GroupDecided::Ratified;
    }
    if are_all(Verdict::Next) && is_unchanged {
        *catalogs = after;
        return GroupDecided::Ratified;
    }
    if verdicts.contains(&Verdict::Full) && !verdicts.contains(&Verdict::Taken) && is_unchanged {
        return GroupDecided::PublishFirst;
    }
    GroupDecided::Taken(group.iter().map(|(table, _)| catalogs[*table].tail(0)).collect())
}
