//! When a commit that lost the race may follow the winner (protocol.md section 5.1): a pure function
//! of facts about both, never of pairs of statements. Called once for each winning commit, in order.

use std::collections::HashSet;

use arrow::array::{Array, BooleanArray, RecordBatch};

use crate::actions::{Metadata, Protocol};
use crate::files::FileRows;
use crate::prune::Pruner;
use crate::{Error, Kind, Result, paths};

/// What a transaction read before it wrote.
#[derive(Clone, Default)]
pub enum ReadSet {
    /// Nothing of the table's rows: a blind append.
    #[default]
    Nothing,
    /// Every row.
    Table,
    /// The rows that a predicate on partition columns selects.
    Partitions(std::sync::Arc<Pruner>),
}

/// The facts of the transaction that wants to commit.
#[derive(Default)]
pub struct Intent {
    /// What it read.
    pub read: ReadSet,
    /// Applications whose version it read or sets.
    pub app_ids: HashSet<String>,
    /// Domains that it sets of itself, rather than as an effect of its files.
    pub domains: HashSet<String>,
    /// Decoded paths of the files it removes.
    pub removed: HashSet<String>,
    /// Whether it replaces the metadata.
    pub metadata: bool,
    /// Whether it replaces the protocol.
    pub protocol: bool,
}

/// The facts of a commit that won.
pub struct Winner<'a> {
    /// Its version.
    pub version: u64,
    /// Its new protocol, if any.
    pub protocol: Option<&'a Protocol>,
    /// Its new metadata, if any.
    pub metadata: Option<&'a Metadata>,
    /// Applications whose version it sets.
    pub app_ids: &'a [String],
    /// Domains that it sets.
    pub domains: &'a [&'a str],
    /// Its adds.
    pub adds: &'a RecordBatch,
    /// Its removes.
    pub removes: &'a RecordBatch,
    /// What it says of itself: operation and time.
    pub description: String,
}

/// Refuses with the matching kind of conflict, or lets the intent be tried on the winner's version.
pub fn check(intent: &Intent, winner: &Winner<'_>) -> Result<()> {
    if winner.protocol.is_some() {
        return Err(lost(Kind::ProtocolChanged, winner, "changed the table's protocol"));
    }
    if winner.metadata.is_some() {
        return Err(lost(
            Kind::MetadataChanged,
            winner,
            "changed the table's schema or properties",
        ));
    }
    if let Some(domain) = winner.domains.iter().find(|d| intent.domains.contains(**d)) {
        return Err(lost(
            Kind::ConcurrentTransaction,
            winner,
            &format!("set the same domain `{domain}`"),
        ));
    }
    if let Some(app) = winner.app_ids.iter().find(|a| intent.app_ids.contains(*a)) {
        return Err(lost(
            Kind::ConcurrentTransaction,
            winner,
            &format!("wrote for the same application `{app}`"),
        ));
    }
    check_adds(intent, winner)?;
    check_removes(intent, winner)
}

fn check_adds(intent: &Intent, winner: &Winner<'_>) -> Result<()> {
    if winner.adds.num_rows() == 0 {
        return Ok(());
    }
    let seen = match &intent.read {
        ReadSet::Nothing => false,
        ReadSet::Table => true,
        ReadSet::Partitions(p) => any(&p.keep(winner.adds)?),
    };
    if seen {
        return Err(lost(
            Kind::ConcurrentAppend,
            winner,
            "added files that this transaction should have read",
        ));
    }
    Ok(())
}

fn check_removes(intent: &Intent, winner: &Winner<'_>) -> Result<()> {
    let rows = FileRows::new(winner.removes);
    for row in 0..winner.removes.num_rows() {
        let path = paths::decode(rows.path(row)?)?;
        if intent.removed.contains(&path) {
            return Err(lost(
                Kind::ConcurrentDeleteDelete,
                winner,
                &format!("removed `{path}`, which this transaction removes too"),
            ));
        }
    }
    let seen = match &intent.read {
        ReadSet::Nothing => false,
        ReadSet::Table => winner.removes.num_rows() > 0,
        ReadSet::Partitions(p) => any(&p.keep(winner.removes)?),
    };
    if seen {
        return Err(lost(
            Kind::ConcurrentDeleteRead,
            winner,
            "removed files that this transaction read",
        ));
    }
    Ok(())
}

fn any(mask: &BooleanArray) -> bool {
    (0..mask.len()).any(|i| mask.is_valid(i) && mask.value(i))
}

fn lost(kind: Kind, winner: &Winner<'_>, what: &str) -> Error {
    Error::new(
        kind,
        format!(
            "another writer {what} first ({}): nothing of this transaction was committed; load the newest version and run it again",
            winner.description
        ),
    )
    .with_version(winner.version)
}
