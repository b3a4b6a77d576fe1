//! Searches a table's live files and history for uses of a feature before the feature is dropped
//! (P098). Which uses count is defined by the feature's room in `protocol`.

use std::collections::{BTreeSet, HashSet};

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Action, Remove};
use deltaplane_protocol::deletion_vectors::Place;
use deltaplane_protocol::features::checkpoint_protection::protected_before;
use deltaplane_protocol::features::{Dropped, FeatureUsage};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::segment::LogName;
use futures::TryStreamExt;

use crate::commit::reader;
use crate::listing::list_from;
use crate::{PlanColumns, Snapshot, history, now_ms};

/// Commits in memory at once while history is searched.
const COMMITS_AT_ONCE: usize = 64;
const MINUTE_MS: i64 = 60 * 1000;

/// Refuses if live files must first be rewritten under other column names.
pub(crate) async fn check_names(snapshot: &Snapshot, dropped: &Dropped) -> Result<()> {
    if let Some(why) = &dropped.rewrite {
        let live = count(snapshot, |_, _| true).await?;
        if live > 0 {
            return Err(Error::invalid_argument(format!(
                "the feature {} is in use: {why}, so that the table's {live} files have to be rewritten first, as alter.set_table_properties does for delta.columnMapping.mode = none, and DeltaTable.alter.drop_feature; another writer took it into use again if this was called from there: run it again",
                dropped.feature
            )));
        }
    }
    Ok(())
}

/// Refuses if live files need the feature. `rewritten`: the version at which no file was found to
/// have an old type.
pub(crate) async fn check_files(snapshot: &Snapshot, dropped: &Dropped, rewritten: Option<u64>) -> Result<()> {
    match to_rewrite(snapshot, dropped).await? {
        0 => Ok(()),
        _ if dropped.usage == FeatureUsage::OldTypes && only_removes_since(snapshot, rewritten).await? => Ok(()),
        live => Err(Error::invalid_argument(format!(
            "the feature {} is in use: {live} files may need it and have to be rewritten first, as purge() and DeltaTable.alter.drop_feature do; another writer's were added meanwhile if this was called from there: run it again",
            dropped.feature
        ))),
    }
}

/// The rewrite of live files that must precede the drop of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteFirst {
    /// A purge, which removes the uses.
    Purge,
    /// A rewrite under the columns' own names.
    RemoveColumnMapping,
}

impl RewriteFirst {
    /// The command that does it.
    pub fn as_str(self) -> &'static str {
        match self {
            RewriteFirst::Purge => "purge",
            RewriteFirst::RemoveColumnMapping => "remove_column_mapping",
        }
    }
}

/// The rewrite that this drop needs; `None` if files can stay as they are.
pub(crate) async fn rewrite_first(snapshot: &Snapshot, dropped: &Dropped) -> Result<Option<RewriteFirst>> {
    if dropped.rewrite.is_some() && count(snapshot, |_, _| true).await? > 0 {
        return Ok(Some(RewriteFirst::RemoveColumnMapping));
    }
    Ok((to_rewrite(snapshot, dropped).await? > 0).then_some(RewriteFirst::Purge))
}

/// How many live files may have content that a purge removes.
async fn to_rewrite(snapshot: &Snapshot, dropped: &Dropped) -> Result<usize> {
    match dropped.usage {
        FeatureUsage::None | FeatureUsage::RowIds => Ok(0),
        FeatureUsage::OldTypes => count(snapshot, |_, _| true).await,
        FeatureUsage::Vectors => count(snapshot, |f, row| f.deletion_vector(row).is_some()).await,
    }
}

async fn only_removes_since(snapshot: &Snapshot, version: Option<u64>) -> Result<bool> {
    let Some(version) = version.filter(|v| *v <= snapshot.version()) else {
        return Ok(false);
    };
    let commits = snapshot.commits_after(Some(version)).await?;
    if commits.len() as u64 != snapshot.version() - version {
        return Ok(false);
    }
    for c in commits {
        if c.files()?.adds.num_rows() > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tombstones for the files of deletion vectors that old versions need: programs that don't know
/// vectors would delete them as garbage.
pub(crate) async fn vector_tombstones(snapshot: &Snapshot) -> Result<Vec<Remove>> {
    let now = now_ms();
    let kept_ms = snapshot.state().properties().deleted_file_retention_ms;
    let (mut vectors, mut there) = (BTreeSet::new(), HashSet::new());
    for batch in snapshot.tombstones(now.saturating_sub(kept_ms), &[]).await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            match rows.deletion_vector(row) {
                None => {
                    there.insert(paths::decode(rows.path(row)?)?);
                }
                Some(vector) => {
                    if let Place::File { path, .. } = Place::of(&vector)? {
                        vectors.insert(path);
                    }
                }
            }
        }
    }
    let missing = vectors.into_iter().filter(|path| !there.contains(path));
    let tombstone = |path: String| Remove {
        path: paths::encode(&path),
        deletion_timestamp: Some(now),
        data_change: false,
        ..Remove::default()
    };
    Ok(missing.map(tombstone).collect())
}

/// Refuses if files have row ids.
pub(crate) async fn check_no_ids(snapshot: &Snapshot, dropped: &Dropped) -> Result<()> {
    if dropped.usage != FeatureUsage::RowIds {
        return Ok(());
    }
    match count(snapshot, |f, row| f.base_row_id(row).is_some()).await? {
        0 => Ok(()),
        given_ids => Err(Error::invalid_argument(format!(
            "another writer gave row ids to {given_ids} files while the feature {} was being dropped: run it again",
            dropped.feature
        ))),
    }
}

async fn count(snapshot: &Snapshot, test: impl Fn(&FileRows<'_>, usize) -> bool) -> Result<usize> {
    let mut files = 0;
    let mut batches = snapshot.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        files += (0..batch.num_rows()).filter(|r| test(&rows, *r)).count();
    }
    Ok(files)
}

/// Deletes expired history, and refuses if the rest needs the feature and must expire first.
/// `fresh`: the feature was in use until now, so that history certainly needs it.
pub(crate) async fn truncate(snapshot: &Snapshot, dropped: &Dropped, fresh: bool) -> Result<()> {
    let retention_ms = snapshot.state().properties().truncated_history_ms;
    let wait = |reason: &str| {
        Error::invalid_argument(format!(
            "the feature {} can't be dropped yet: {reason} (DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD). The table is prepared; run it again when this is {} hours ago (delta.dropFeatureTruncateHistory.retentionDuration)",
            dropped.feature,
            retention_ms / (60 * MINUTE_MS)
        ))
    };
    if fresh && dropped.uses.is_some() {
        return Err(wait("it was in use until now, and old versions need it"));
    }
    let now = now_ms();
    let cutoff = now.saturating_sub(retention_ms);
    snapshot
        .truncate_log(now, cutoff - cutoff.rem_euclid(MINUTE_MS))
        .await?;
    let mut names = list_from(snapshot.store(), 0).await?;
    names.retain(|n| n.version <= snapshot.version());
    if dropped.protects_history {
        let before = protected_before(snapshot.state().metadata());
        if let Some(old) = history::commits(names).first().filter(|c| c.version < before) {
            return Err(wait(&format!(
                "the versions {} to {} are protected",
                old.version,
                before - 1
            )));
        }
        return Ok(());
    }
    match dropped.uses {
        Some(uses) => match first_use(snapshot, names, uses).await? {
            Some(version) => Err(wait(&format!("version {version} needs it"))),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

/// The first remaining version whose actions need the feature.
async fn first_use(snapshot: &Snapshot, names: Vec<LogName>, uses: fn(&Action) -> bool) -> Result<Option<u64>> {
    let commits = history::commits(names);
    let Some(oldest) = commits.first().map(|c| c.version) else {
        return Ok(None);
    };
    if oldest > 0 && state_uses(&Snapshot::open(snapshot.store(), Some(oldest)).await?, uses).await? {
        return Ok(Some(oldest));
    }
    for some in commits.chunks(COMMITS_AT_ONCE) {
        for c in reader::read(snapshot.store(), some).await? {
            if c.actions()?.iter().any(uses) {
                return Ok(Some(c.version()));
            }
        }
    }
    Ok(None)
}

/// Whether the oldest checkpoint's content needs the feature.
async fn state_uses(oldest: &Snapshot, uses: fn(&Action) -> bool) -> Result<bool> {
    if uses(&Action::Metadata(oldest.state().metadata().clone())) {
        return Ok(true);
    }
    let mut batches = oldest.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            if uses(&Action::Add(rows.add(row)?)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
