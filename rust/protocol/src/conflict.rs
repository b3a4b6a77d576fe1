//! Decides whether a commit that lost the race may be rebased onto the winner (protocol.md section
//! 5.1): a pure function of facts about both, never of pairs of statements. Called once for each
//! winning commit, in order.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::compute::and;
use chrono::{DateTime, SecondsFormat};
use deltaplane_error::OtherCommit;

use crate::actions::{Metadata, Protocol};
use crate::features::{metadata_clash, protocol_clash, row_tracking};
use crate::files::rows::FileRows;
use crate::prune::Pruner;
use crate::{Error, Kind, Result, paths};

#[cfg(test)]
mod tests;

/// Operations that add a file again only to delete more of its rows by a vector (P122).
const MARKING: [&str; 3] = ["DELETE", "UPDATE", "MERGE"];

/// What a transaction read before it wrote.
#[derive(Clone, Default)]
pub enum ReadSet {
    /// Nothing of the table's rows: a blind append.
    #[default]
    Nothing,
    /// Every row.
    Table,
    /// The rows that a condition selects, each by itself: other rows conflict only if they come to
    /// meet the condition. The pruner knows files without such rows; absent if no file can be ruled
    /// out.
    Rows(Option<Arc<Pruner>>),
    /// The rows that a condition selects, as a set: none may be added or removed. All rows if
    /// absent. Moving rows doesn't matter.
    Set(Option<Selection>),
}

/// Rows that a condition selects.
#[derive(Clone)]
pub struct Selection {
    /// Decoded paths of the files that may have them.
    pub files: Arc<HashSet<String>>,
    /// Knows files that have none of them.
    pub pruner: Arc<Pruner>,
}

/// Table property: the isolation level of its writers.
pub const ISOLATION_LEVEL: &str = "delta.isolationLevel";

/// Which rows of other writers a transaction must have seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All: the history equals one that a single writer could have made.
    #[default]
    Serializable,
    /// All except those that blind appends added.
    WriteSerializable,
    /// None: the transaction changes no row.
    Snapshot,
}

impl Isolation {
    /// The level of a transaction on a table with this value of `delta.isolationLevel`: one that
    /// only moves rows needs to see none.
    pub fn of(property: Option<&str>, changes_rows: bool) -> Self {
        match property {
            _ if !changes_rows => Isolation::Snapshot,
            Some(level) if level.eq_ignore_ascii_case("WriteSerializable") => Isolation::WriteSerializable,
            _ => Isolation::Serializable,
        }
    }

    /// Its name in commits.
    pub fn as_str(self) -> &'static str {
        match self {
            Isolation::Serializable => "Serializable",
            Isolation::WriteSerializable => "WriteSerializable",
            Isolation::Snapshot => "SnapshotIsolation",
        }
    }
}

/// The facts of the transaction to commit.
#[derive(Default)]
pub struct Intent {
    /// What it read.
    pub read: ReadSet,
    /// Applications whose version it read or sets.
    pub app_ids: HashSet<String>,
    /// Domains that it sets explicitly, not as an effect of its files.
    pub domains: HashSet<String>,
    /// Decoded paths of the files it removes.
    pub removed: HashSet<String>,
    /// Those in which it only deletes rows by vectors: it can repeat that on a newer vector.
    pub marked: HashSet<String>,
    /// Whether it can find these rows by their ids in files to which others moved them (P142).
    pub relocates_rows: bool,
    /// Whether it replaces the metadata.
    pub metadata: bool,
    /// Whether it replaces the protocol.
    pub protocol: bool,
    /// Its isolation level.
    pub isolation: Isolation,
    /// Whether it only assigns row ids to files, or removes them.
    pub backfill: bool,
}

impl Intent {
    /// Whether a winner's added or removed files can conflict with it.
    pub fn looks_at_files(&self) -> bool {
        let names_files = !self.removed.is_empty() || !self.marked.is_empty() || self.relocates_rows || self.backfill;
        names_files || !matches!(self.read, ReadSet::Nothing)
    }
}

/// The state of the table on which a winner committed.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    /// Its protocol.
    pub protocol: &'a Protocol,
    /// Its metadata.
    pub metadata: &'a Metadata,
}

/// The facts of a commit that won.
pub struct Winner<'a> {
    /// Its description of itself.
    pub commit: OtherCommit,
    /// Its new protocol, if any.
    pub protocol: Option<&'a Protocol>,
    /// Its new metadata, if any.
    pub metadata: Option<&'a Metadata>,
    /// Applications whose version it sets.
    pub app_ids: &'a [&'a str],
    /// Domains that it sets.
    pub domains: &'a [&'a str],
    /// Its adds.
    pub adds: &'a RecordBatch,
    /// Its removes.
    pub removes: &'a RecordBatch,
    /// Whether it claims to be a blind append.
    pub blind_append: bool,
}

impl Winner<'_> {
    fn operation(&self) -> &str {
        self.commit.operation.as_deref().unwrap_or_default()
    }

    /// Whether it only assigned row ids to files, or removed them.
    fn is_backfill(&self) -> bool {
        row_tracking::only_numbers_files(self.operation()) && self.removes.num_rows() == 0
    }

    fn marked(&self) -> Result<HashSet<String>> {
        marked_files(self.operation(), self.adds, self.removes)
    }

    /// Whether it added files without reading any, according to its commit info.
    fn is_blind_append(&self) -> bool {
        self.blind_append && self.removes.num_rows() == 0
    }
}

/// Decoded paths of the files in which a commit only deleted rows by vectors: files that it removed
/// and added again with a vector. Other operations (RESTORE) may bring rows back in this way.
///
/// # Errors
/// `CorruptLog` for a path that can't be decoded.
pub fn marked_files(operation: &str, adds: &RecordBatch, removes: &RecordBatch) -> Result<HashSet<String>> {
    let mut marked = HashSet::new();
    if !MARKING.contains(&operation) {
        return Ok(marked);
    }
    let (added, gone) = (FileRows::new(adds), FileRows::new(removes));
    for row in (0..adds.num_rows()).filter(|row| added.deletion_vector(*row).is_some()) {
        marked.insert(paths::decode(added.path(row)?)?);
    }
    let mut removed = HashSet::new();
    if !marked.is_empty() {
        for row in 0..removes.num_rows() {
            removed.insert(paths::decode(gone.path(row)?)?);
        }
    }
    marked.retain(|path| removed.contains(path));
    Ok(marked)
}

/// Refuses with the matching kind of conflict, or permits another attempt on the winner's version,
/// whose protocol and metadata then apply. `before` is absent if the winner created the table.
pub fn check(intent: &Intent, before: Option<Before<'_>>, winner: &Winner<'_>) -> Result<()> {
    check_protocol(intent, before, winner)?;
    check_metadata(intent, before, winner)?;
    check_domains(intent, winner)?;
    if let Some(app) = winner.app_ids.iter().find(|a| intent.app_ids.contains(**a)) {
        return Err(lost(
            Kind::ConcurrentTransaction,
            winner,
            &format!("wrote for the same application `{app}`"),
        ));
    }
    let marked = winner.marked()?;
    check_adds(intent, winner, &marked)?;
    check_removes(intent, winner, &marked)
}

/// Rule 1.
fn check_protocol(intent: &Intent, before: Option<Before<'_>>, winner: &Winner<'_>) -> Result<()> {
    let Some(after) = winner.protocol else { return Ok(()) };
    let clash = match before {
        None => Some("created the table".to_owned()),
        Some(_) if intent.protocol => {
            Some("changed the table's protocol, which this transaction changes too,".to_owned())
        }
        Some(b) => protocol_clash(b.protocol, after),
    };
    clash.map_or(Ok(()), |what| Err(lost(Kind::ProtocolChanged, winner, &what)))
}

/// Rule 2.
fn check_metadata(intent: &Intent, before: Option<Before<'_>>, winner: &Winner<'_>) -> Result<()> {
    let Some(after) = winner.metadata else { return Ok(()) };
    let clash = match before {
        None => Some("created the table".to_owned()),
        Some(_) if intent.metadata => {
            Some("changed the table's schema or properties, as this transaction does,".to_owned())
        }
        Some(b) => metadata_clash(b.metadata, after, winner.protocol.unwrap_or(b.protocol))?,
    };
    clash.map_or(Ok(()), |what| Err(lost(Kind::MetadataChanged, winner, &what)))
}

/// Rule 3: row ids are assigned again at each attempt, whatever the winner's high-water mark.
/// Domains in which the protocol stores columns were checked with the metadata that the intent
/// replaces.
fn check_domains(intent: &Intent, winner: &Winner<'_>) -> Result<()> {
    let mut others = winner.domains.iter().filter(|d| **d != row_tracking::DOMAIN);
    if let Some(domain) = others.clone().find(|d| intent.domains.contains(**d)) {
        return Err(lost(
            Kind::ConcurrentTransaction,
            winner,
            &format!("set the same domain `{domain}`"),
        ));
    }
    if let (true, Some(domain)) = (intent.metadata, others.find(|d| d.starts_with("delta."))) {
        return Err(lost(
            Kind::MetadataChanged,
            winner,
            &format!("set the domain `{domain}`, which goes with the metadata that this transaction replaces,"),
        ));
    }
    Ok(())
}

/// Rule 6.
fn check_adds(intent: &Intent, winner: &Winner<'_>, marked: &HashSet<String>) -> Result<()> {
    let unseen = match intent.isolation {
        Isolation::Snapshot => true,
        Isolation::WriteSerializable => winner.is_blind_append() && !intent.metadata,
        Isolation::Serializable => false,
    };
    if unseen || intent.backfill || winner.is_backfill() || winner.adds.num_rows() == 0 {
        return Ok(());
    }
    let seen = match &intent.read {
        ReadSet::Nothing => false,
        ReadSet::Table => true,
        ReadSet::Rows(None) | ReadSet::Set(None) => any(&brings_rows(winner, marked)?),
        ReadSet::Rows(Some(pruner)) | ReadSet::Set(Some(Selection { pruner, .. })) => {
            any(&and(&pruner.keep(winner.adds)?, &brings_rows(winner, marked)?).map_err(masks)?)
        }
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

/// Which of a winner's adds have rows that weren't in the table before: neither moved rows (P028),
/// nor the remaining rows of files in which it deleted rows.
fn brings_rows(winner: &Winner<'_>, marked: &HashSet<String>) -> Result<BooleanArray> {
    let adds = FileRows::new(winner.adds);
    (0..winner.adds.num_rows())
        .map(|row| {
            Ok(Some(
                adds.data_change(row) && !marked.contains(&paths::decode(adds.path(row)?)?),
            ))
        })
        .collect()
}

fn masks(e: arrow::error::ArrowError) -> Error {
    Error::internal(format!("can't compare files: {e}"))
}

/// Rules 8 and 7. Removed rows that were read each by itself matter only if this transaction
/// changes them, which means that it removes their file.
fn check_removes(intent: &Intent, winner: &Winner<'_>, marked: &HashSet<String>) -> Result<()> {
    let rows = FileRows::new(winner.removes);
    for row in 0..winner.removes.num_rows() {
        let path = paths::decode(rows.path(row)?)?;
        let moved = intent.relocates_rows && !rows.data_change(row);
        let follows = intent.marked.contains(&path) && (moved || marked.contains(&path));
        if intent.removed.contains(&path) && !follows {
            return Err(lost(
                Kind::ConcurrentDeleteDelete,
                winner,
                &format!("removed `{path}`, which this transaction removes too"),
            ));
        }
    }
    if takes_read_rows(&intent.read, winner)? {
        return Err(lost(
            Kind::ConcurrentDeleteRead,
            winner,
            "removed files that this transaction read",
        ));
    }
    Ok(())
}

/// Whether a winner removed rows that were read as a set, or, for a read of the whole table, files.
fn takes_read_rows(read: &ReadSet, winner: &Winner<'_>) -> Result<bool> {
    let set = match read {
        ReadSet::Nothing | ReadSet::Rows(_) => return Ok(false),
        ReadSet::Table => return Ok(winner.removes.num_rows() > 0),
        ReadSet::Set(set) => set,
    };
    let rows = FileRows::new(winner.removes);
    for row in 0..winner.removes.num_rows() {
        let was_read = match set {
            None => true,
            Some(selection) => selection.files.contains(&paths::decode(rows.path(row)?)?),
        };
        if was_read && rows.data_change(row) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn any(mask: &BooleanArray) -> bool {
    (0..mask.len()).any(|i| mask.is_valid(i) && mask.value(i))
}

/// The conflict error for this winner.
pub fn lost(kind: Kind, winner: &Winner<'_>, what: &str) -> Error {
    Error::new(
        kind,
        format!(
            "another writer {what} first ({}): nothing of this transaction was committed; load the newest version and run it again",
            describe(&winner.commit)
        ),
    )
    .with_version(winner.commit.version)
    .with_other_commit(winner.commit.clone())
}

/// The description of a commit for messages: version, operation, program, user and time, as far as
/// known.
fn describe(commit: &OtherCommit) -> String {
    let time = commit.timestamp_ms.and_then(DateTime::from_timestamp_millis);
    let parts = [
        Some(format!("version {}", commit.version)),
        commit.operation.clone(),
        commit.engine_info.clone(),
        commit.user_name.as_ref().map(|name| format!("by {name}")),
        time.map(|t| format!("at {}", t.to_rfc3339_opts(SecondsFormat::Millis, true))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
