//! Bugs that are planted to see whether the simulation of two tables finds them. The product's code
//! stays as it is.

use crate::catalog::Flaw;

/// A planted bug, named after the rule that it violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBug {
    /// The catalog decides about each table of a transaction by itself.
    DecidedOneByOne,
    /// The catalog doesn't compare tables that a transaction only read.
    ReadsUnchecked,
    /// The catalog ratifies a version again.
    RatifiedTwice,
    /// The catalog forgets a commit before it is published.
    ForgottenEarly,
    /// The catalog answers before its decision is durable, and crashes.
    AnsweredBeforeDurable,
    /// Tables are loaded one by one, at two instants.
    LoadedOneByOne,
    /// A lost answer is taken for a refusal.
    UnknownTakenForRefused,
    /// Staged commits are deleted after a lost answer, before the outcome is known.
    StagedDeletedEarly,
    /// A transaction looks at what it writes only, not at what it read.
    ReadsForgotten,
    /// A publisher publishes the newest version before the others.
    PublishedOutOfOrder,
    /// A loser leaves its staged commits behind.
    LosersLeftBehind,
}

impl GroupBug {
    /// All of them.
    pub const ALL: [GroupBug; 11] = [
        GroupBug::DecidedOneByOne,
        GroupBug::ReadsUnchecked,
        GroupBug::RatifiedTwice,
        GroupBug::ForgottenEarly,
        GroupBug::AnsweredBeforeDurable,
        GroupBug::LoadedOneByOne,
        GroupBug::UnknownTakenForRefused,
        GroupBug::StagedDeletedEarly,
        GroupBug::ReadsForgotten,
        GroupBug::PublishedOutOfOrder,
        GroupBug::LosersLeftBehind,
    ];

    /// The flaw of a catalog that it is, if it is one.
    pub fn flaw_of_catalog(self) -> Option<Flaw> {
        match self {
            GroupBug::DecidedOneByOne => Some(Flaw::DecidesOneByOne),
            GroupBug::ReadsUnchecked => Some(Flaw::IgnoresReads),
            GroupBug::RatifiedTwice => Some(Flaw::RatifiesTwice),
            GroupBug::ForgottenEarly => Some(Flaw::ForgetsEarly),
            _ => None,
        }
    }
}
