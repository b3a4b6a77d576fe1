//! A catalog in memory: the rules of the protocol for one table, answers that are lost as a test
//! says, and a record of the calls.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::committer::{Committer, Content, Decision, LogTail, Maintenance, Proposal, Ratified};
use deltaplane_store::async_trait;

/// What becomes of the next proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It is lost before it is decided.
    LostBefore,
    /// It is decided, and the answer is lost.
    LostAfter,
    /// It is refused for good.
    Refused,
}

#[derive(Default)]
pub struct MemoryCatalog {
    pub state: Mutex<State>,
    /// Whether maintenance is permitted.
    pub permits: bool,
    /// The largest inline commit.
    pub inline_bytes: u64,
    /// When it is notified of published versions.
    pub report_delay: Option<Duration>,
    /// Whether it takes no reports of this client.
    pub denies_reports: bool,
    /// How many unpublished commits it holds.
    pub most_unpublished: Option<usize>,
    /// Whether commits of this process take turns.
    pub takes_turns: bool,
}

#[derive(Default)]
pub struct State {
    latest: Option<u64>,
    published: Option<u64>,
    commits: BTreeMap<u64, Ratified>,
    next: Vec<Next>,
    calls: Vec<String>,
    proposals: Vec<Proposal>,
    lie: Option<LogTail>,
}

impl MemoryCatalog {
    pub fn fail(&self, next: &[Next]) {
        self.state.lock().unwrap().next = next.to_vec();
    }

    /// Answers this from now on, whatever is true.
    pub fn lie(&self, tail: LogTail) {
        self.state.lock().unwrap().lie = Some(tail);
    }

    /// The calls since the last time.
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    /// The proposals of all time.
    pub fn proposals(&self) -> Vec<Proposal> {
        self.state.lock().unwrap().proposals.clone()
    }

    /// The commits that it holds.
    pub fn held(&self) -> Vec<Ratified> {
        self.state.lock().unwrap().commits.values().cloned().collect()
    }

    pub fn published_to(&self) -> Option<u64> {
        self.state.lock().unwrap().published
    }

    /// Ratifies a commit as if a foreign client had proposed it.
    pub fn ratify(&self, commit: Ratified) {
        let mut state = self.state.lock().unwrap();
        assert_eq!(commit.version, state.latest.map_or(0, |v| v + 1));
        state.latest = Some(commit.version);
        state.commits.insert(commit.version, commit);
    }
}

impl State {
    fn tail(&self, from: u64) -> LogTail {
        LogTail {
            latest: self.latest,
            commits: self.commits.range(from..).map(|(_, c)| c.clone()).collect(),
            published: self.published,
        }
    }

    fn forget(&mut self, published: u64) {
        self.published = self.published.max(Some(published));
        self.commits.retain(|v, _| *v > published);
    }

    fn decide(&mut self, proposal: &Proposal, most_unpublished: Option<usize>) -> Decision {
        if let Some(published) = proposal.published {
            self.forget(published);
        }
        let expected = self.latest.map_or(0, |v| v + 1);
        if proposal.version < expected {
            let same = self
                .commits
                .get(&proposal.version)
                .is_some_and(|c| c.content == proposal.content);
            return if same {
                Decision::Ratified
            } else {
                Decision::Taken(Some(self.tail(proposal.version)))
            };
        }
        assert_eq!(
            proposal.version, expected,
            "a version was proposed before its predecessor"
        );
        if most_unpublished.is_some_and(|most| self.commits.len() >= most) {
            return Decision::PublishFirst;
        }
        self.latest = Some(proposal.version);
        if matches!(proposal.content, Content::Published(_)) {
            self.published = Some(proposal.version);
            return Decision::Ratified;
        }
        self.commits.insert(
            proposal.version,
            Ratified {
                version: proposal.version,
                content: proposal.content.clone(),
                timestamp_ms: proposal.timestamp_ms,
            },
        );
        Decision::Ratified
    }
}

#[async_trait]
impl Committer for MemoryCatalog {
    fn name(&self) -> String {
        "the catalog of this test".to_owned()
    }

    async fn propose(&self, proposal: &Proposal) -> Result<Decision> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(format!("propose {}", proposal.version));
        state.proposals.push(proposal.clone());
        let next = if state.next.is_empty() {
            None
        } else {
            Some(state.next.remove(0))
        };
        let lost = || Decision::Unknown(Error::new(Kind::StoreUnavailable, "the answer was lost"));
        match next {
            None => Ok(state.decide(proposal, self.most_unpublished)),
            Some(Next::LostBefore) => Ok(lost()),
            Some(Next::LostAfter) => {
                state.decide(proposal, self.most_unpublished);
                Ok(lost())
            }
            Some(Next::Refused) => Err(Error::new(Kind::StoreDenied, "no right to write this table")),
        }
    }

    async fn log_tail(&self, from: u64) -> Result<LogTail> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(format!("tail {from}"));
        Ok(state.lie.clone().unwrap_or_else(|| state.tail(from)))
    }

    async fn published(&self, version: u64) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(format!("published {version}"));
        if self.denies_reports {
            return Err(Error::new(Kind::StoreDenied, "no right to write this table"));
        }
        state.forget(version);
        Ok(())
    }

    fn report_delay(&self) -> Option<Duration> {
        self.report_delay
    }

    fn takes_turns(&self) -> bool {
        self.takes_turns
    }

    fn permits(&self, _: Maintenance) -> bool {
        self.permits
    }

    fn most_inline_bytes(&self) -> u64 {
        self.inline_bytes
    }
}
