//! One attempt of a commit as the rooms of features see and change it: what only the base decides
//! comes out the same for the same base, intent and time (P073).

use std::collections::BTreeMap;

use crate::actions::{Action, CommitInfo, DomainMetadata, Metadata, Protocol};
use crate::features::supported;

/// The version that an attempt builds on.
#[derive(Clone, Copy)]
pub struct Base<'a> {
    /// Its number.
    pub version: u64,
    /// The base's time in ms; required if the table's commits have their own time.
    pub time_ms: Option<i64>,
    /// Its protocol.
    pub protocol: &'a Protocol,
    /// Its metadata.
    pub metadata: &'a Metadata,
    /// The base's domains; required if the table has any.
    pub domains: &'a BTreeMap<String, DomainMetadata>,
    /// Whether some of its files stay live after the commit, needed where the commit enables row
    /// tracking.
    pub keeps_files: bool,
}

/// One attempt, as the rooms see and change it.
pub struct Attempt<'a> {
    /// The version that the attempt builds on; absent for a new table.
    pub base: Option<Base<'a>>,
    /// The version that the commit creates.
    pub version: u64,
    /// The clock at the attempt, ms.
    pub now_ms: i64,
    /// The commit's actions.
    pub actions: Vec<Action>,
}

impl Attempt<'_> {
    /// The table's metadata after the commit.
    pub fn metadata(&self) -> Option<&Metadata> {
        let new = self.actions.iter().find_map(|a| match a {
            Action::Metadata(m) => Some(m),
            _ => None,
        });
        new.or(self.base.map(|b| b.metadata))
    }

    /// Whether the table supports a feature, by its name, after the commit.
    pub fn supports(&self, feature: &str) -> bool {
        let new = self.actions.iter().find_map(|a| match a {
            Action::Protocol(p) => Some(p),
            _ => None,
        });
        let protocol = new.or(self.base.map(|b| b.protocol));
        protocol.is_some_and(|p| supported(p).contains(feature))
    }

    /// The commit's provenance.
    pub fn info(&mut self) -> Option<&mut CommitInfo> {
        self.actions.iter_mut().find_map(|a| match a {
            Action::CommitInfo(i) => Some(i),
            _ => None,
        })
    }

    /// The metadata that the commit sets.
    pub fn new_metadata(&mut self) -> Option<&mut Metadata> {
        self.actions.iter_mut().find_map(|a| match a {
            Action::Metadata(m) => Some(m),
            _ => None,
        })
    }

    /// Sets a domain, in place of what the commit said of it.
    pub fn set_domain(&mut self, new: DomainMetadata) {
        self.actions
            .retain(|a| !matches!(a, Action::DomainMetadata(d) if d.domain == new.domain));
        self.actions.push(Action::DomainMetadata(new));
    }
}
