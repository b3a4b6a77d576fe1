//! Dry run of a transaction: validates it as its commit would be, rebases it onto the newest
//! version, and reports what it would do. Writes nothing.

use std::collections::{BTreeMap, HashMap, HashSet};

use deltaplane_error::Result;
use deltaplane_protocol::actions::{Add, claimed_sum};
use deltaplane_protocol::conflict::ReadSet;
use deltaplane_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Snapshot;
use crate::transaction::rebase::{Rebase, rebase_to_newest};
use crate::transaction::{AsOf, Staged};

/// What a transaction would do, and which other commits would conflict with it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename = "PlannedCommit")]
pub struct DryRun {
    /// Name of the operation in the history.
    pub operation: String,
    /// Its metrics.
    pub metrics: BTreeMap<String, Value>,
    /// Files that it removes from the table.
    pub files_removed: usize,
    /// Their bytes.
    pub bytes_removed: i64,
    /// Files in which it deletes rows by deletion vectors.
    pub files_marked: usize,
    /// New files of the table.
    pub files_written: usize,
    /// Bytes of new files, of vectors and of recorded changes.
    pub bytes_written: i64,
    /// The rows that it read: `nothing`, `rows` (each by itself), a `set` of them, or the `table`
    /// with its files.
    pub reads: &'static str,
    /// Whether every file may contain rows that it read.
    pub reads_anywhere: bool,
    /// The isolation level of its conflict check.
    pub isolation: &'static str,
    /// Applications whose version it sets.
    pub app_ids: Vec<String>,
    /// Whether it replaces the table's metadata.
    pub metadata: bool,
    /// Whether it replaces the table's protocol.
    pub protocol: bool,
}

/// Validates a transaction as its commit would be validated now.
///
/// # Errors
/// Those of [`commit`](crate::commit), without the attempt.
pub(crate) async fn dry_run(store: &Store, base: Option<&Snapshot>, staged: &Staged) -> Result<DryRun> {
    let done = checked(store, base, staged).await;
    done.map_err(|e| e.with_table(store.location().as_str()))
}

async fn checked(store: &Store, base: Option<&Snapshot>, staged: &Staged) -> Result<DryRun> {
    let (intent, mut rebase) = (staged.intent(base)?, Rebase::default());
    let newest = match base {
        Some(b) => Some(rebase_to_newest(store, Some(b), &intent, &[], &mut rebase).await?),
        None => None,
    };
    let marked = rebase.take_marked();
    let mut staged = match marked.is_empty() {
        true => staged.clone(),
        false => staged.with_reapplied_rows(marked).await?,
    };
    if let Some((from, to)) = rebase.take_moved() {
        staged = staged.with_relocated_rows(from, to).await?;
    }
    staged.check_all(store, newest.as_ref()).await?;
    let as_of = AsOf::now(newest.as_ref());
    staged.actions(newest.as_ref(), &rebase, "dry run", as_of).await?;
    let added: HashSet<&str> = staged.adds.iter().map(|a| a.path.as_str()).collect();
    let removed: HashSet<&str> = staged.removes.iter().map(|r| r.path.as_str()).collect();
    let gone = staged.removes.iter().filter(|r| !added.contains(r.path.as_str()));
    let (marked, written): (Vec<&Add>, Vec<&Add>) = staged.adds.iter().partition(|a| removed.contains(a.path.as_str()));
    let vectors = marked.iter().filter_map(|a| a.deletion_vector.as_ref());
    let bytes = written.iter().map(|a| a.size).chain(staged.cdc.iter().map(|c| c.size));
    Ok(DryRun {
        files_removed: gone.clone().count(),
        bytes_removed: claimed_sum(gone.filter_map(|r| r.size)),
        files_marked: marked.len(),
        files_written: written.len(),
        bytes_written: claimed_sum(bytes.chain(vectors.map(|v| i64::from(v.size_in_bytes)))),
        reads: match staged.read {
            ReadSet::Nothing => "nothing",
            ReadSet::Table => "table",
            ReadSet::Rows(_) => "rows",
            ReadSet::Set(_) => "set",
        },
        reads_anywhere: matches!(staged.read, ReadSet::Table | ReadSet::Rows(None) | ReadSet::Set(None)),
        isolation: staged.isolation(base.map(|b| b.state().metadata())).as_str(),
        app_ids: staged.transactions.iter().map(|t| t.app_id.clone()).collect(),
        metadata: staged.metadata.is_some(),
        protocol: staged.protocol.is_some(),
        operation: staged.operation.name,
        metrics: staged.operation.metrics,
    })
}

/// Estimates how many files hold new rows and copied rows, if only the bytes of the latter are
/// known.
pub(crate) fn with_copies<'a>(
    written: impl Iterator<Item = &'a Add>,
    copied: &'a [Add],
    target_file_size_bytes: u64,
) -> usize {
    if copied.is_empty() {
        return written.count();
    }
    let mut partitions: HashMap<_, u64> = HashMap::new();
    for add in written.chain(copied) {
        let bytes = partitions.entry(&add.partition_values).or_default();
        *bytes = bytes.saturating_add(u64::try_from(add.size).unwrap_or(0));
    }
    let files = partitions
        .values()
        .map(|b| b.div_ceil(target_file_size_bytes.max(1)).max(1));
    usize::try_from(files.fold(0, u64::saturating_add)).unwrap_or(usize::MAX)
}
