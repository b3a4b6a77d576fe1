//! Log clean-up (P063–P065): deletes the files that no version within the retention needs, oldest
//! commits first, so that an interruption at any point leaves a table that opens. Obeys checkpoint
//! protection (P157).

use std::collections::HashSet;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::features::checkpoint_protection::protected_before;
use deltaplane_protocol::paths::{self, LOG_DIR, LogFile, SIDECAR_DIR};
use deltaplane_protocol::segment::{CheckpointFiles, LogName, complete_checkpoints, newest_until, obsolete};
use deltaplane_store::Store;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tracing::{debug, info, warn};

use crate::checkpoint::reader::CheckpointReader;
use crate::commit::reader::is_damage;
use crate::committer::{Maintenance, check_permitted, delete_staged};
use crate::listing::{list_where_old, listed};
use crate::{Snapshot, now_ms};

const DAY_MS: i64 = 24 * 3600 * 1000;
/// How often the log is listed until no other clean-up deletes what is being read.
const ATTEMPTS: usize = 3;

/// Counts of deleted files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "CleanupResult")]
pub struct CleanupReport {
    /// The oldest version that can be rebuilt; absent when nothing was deleted.
    pub kept_from: Option<u64>,
    /// Files of the log.
    pub log_files: u64,
    /// Sidecars.
    pub sidecars: u64,
}

impl Snapshot {
    /// Deletes log files that only versions past `delta.logRetentionDuration` need.
    ///
    /// Keeps the newest usable checkpoint that is old enough, its commit and everything after.
    /// Without such a checkpoint nothing is deleted.
    pub async fn cleanup_metadata(&self) -> Result<CleanupReport> {
        let now = now_ms();
        let cutoff = midnight(now.saturating_sub(self.state().properties().log_retention_ms));
        self.truncate_log(now, cutoff)
            .await
            .map_err(|e| e.with_table(self.store().location().as_str()))
    }

    /// Deletes log files that only versions before a time need.
    pub(crate) async fn truncate_log(&self, now: i64, cutoff: i64) -> Result<CleanupReport> {
        self.state().check_write()?;
        self.state().check_properties()?;
        check_permitted(self.store(), Maintenance::LogCleanup)?;
        let mut attempts = 1;
        loop {
            match self.truncate_listed(now, cutoff).await {
                // Another clean-up was faster, and deleted what this one found in its listing.
                Err(e) if e.kind() == Kind::ObjectNotFound && attempts < ATTEMPTS => attempts += 1,
                done => return done,
            }
        }
    }

    async fn truncate_listed(&self, now: i64, cutoff: i64) -> Result<CleanupReport> {
        let names = list_where_old(self.store(), cutoff).await?;
        let Some(retained) = self.oldest_kept(&names, cutoff).await? else {
            return Ok(CleanupReport::default());
        };
        let protected = protected_before(self.state().metadata());
        if retained.version < protected {
            debug!(
                retained = retained.version,
                protected, "older checkpoints are protected, nothing is cleaned up"
            );
            return Ok(CleanupReport::default());
        }
        let old = obsolete(&names, retained.version);
        if !old.is_empty() {
            classic_copy(self.store(), &retained).await?;
        }
        for name in &old {
            delete(self.store(), &format!("{LOG_DIR}/{}", name.name)).await?;
        }
        let remaining: Vec<LogName> = names.iter().filter(|n| !old.contains(n)).cloned().collect();
        let report = CleanupReport {
            kept_from: Some(retained.version),
            log_files: old.len() as u64 + delete_staged(self.store(), retained.version).await?,
            sidecars: delete_sidecars(&self.store().without_cache()?, &remaining, midnight(now - DAY_MS)).await?,
        };
        info!(table = %self.store().location(), kept_from = retained.version, files = report.log_files, sidecars = report.sidecars, "cleaned up the log");
        Ok(report)
    }

    /// The newest usable checkpoint at or before the newest commit that is old enough.
    async fn oldest_kept(&self, names: &[LogName], cutoff_ms: i64) -> Result<Option<CheckpointFiles>> {
        let Some(until) = newest_until(names, cutoff_ms) else {
            return Ok(None);
        };
        let itself = self.store().without_cache()?;
        for files in complete_checkpoints(names, Some(until.min(self.version()))) {
            // Deletion is irreversible: the checkpoint must be sound before the commits behind it
            // are deleted.
            let sound = async { CheckpointReader::open(&itself, &files).await?.check().await };
            match sound.await {
                Ok(_) => return Ok(Some(files)),
                Err(e) if is_damage(&e) => warn!(version = files.version, error = %e, "a checkpoint can't be used"),
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }
}

/// The UTC midnight before a time.
fn midnight(ms: i64) -> i64 {
    ms - ms.rem_euclid(DAY_MS)
}

/// Old clients look only for a classic name: with it they fail on the protocol instead of finding
/// no table (P059).
async fn classic_copy(store: &Store, checkpoint: &CheckpointFiles) -> Result<()> {
    let [top] = checkpoint.files.as_slice() else {
        return Ok(());
    };
    if top.kind == (LogFile::UuidCheckpoint { json: false }) {
        let bytes = store.read_listed(&listed(top)).await?;
        let copy = paths::classic_checkpoint(checkpoint.version);
        store.put(&copy, bytes).await?;
        // Another clean-up may have deleted the original meanwhile, and its sidecars: it didn't
        // know of the copy, which nobody can use then.
        match store.head(&listed(top).key).await {
            Err(e) if e.kind() == Kind::ObjectNotFound => delete(store, &copy).await?,
            original => drop(original?),
        }
    }
    Ok(())
}

async fn delete(store: &Store, key: &str) -> Result<()> {
    match store.delete(key).await {
        Err(e) if e.kind() == Kind::ObjectNotFound => Ok(()),
        done => done,
    }
}

/// Deletes sidecars that no checkpoint names and that are older than this: a younger one may belong
/// to an unfinished checkpoint (P064).
async fn delete_sidecars(store: &Store, names: &[LogName], cutoff_ms: i64) -> Result<u64> {
    let dir = format!("{LOG_DIR}/{SIDECAR_DIR}");
    let listed = match store.list_from(&dir, "").await {
        Ok(listed) => listed.try_collect::<Vec<_>>().await,
        Err(e) => Err(e),
    };
    let listed = match listed {
        Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(0),
        listed => listed?,
    };
    let old: Vec<_> = listed.into_iter().filter(|o| o.modified_ms < cutoff_ms).collect();
    if old.is_empty() {
        return Ok(0);
    }
    let used = referenced(store, names).await?;
    let mut deleted = 0;
    for o in old {
        if !used.contains(o.key.rsplit('/').next().unwrap_or_default()) {
            delete(store, &o.key).await?;
            deleted += 1;
        }
    }
    Ok(deleted)
}

/// Bare names of the sidecars of every checkpoint; an unreadable checkpoint keeps all sidecars.
async fn referenced(store: &Store, names: &[LogName]) -> Result<HashSet<String>> {
    let mut used = HashSet::new();
    for files in complete_checkpoints(names, None) {
        let named = CheckpointReader::sidecar_names(store, &files)
            .await
            .map_err(|e: Error| e.with_version(files.version))?;
        used.extend(
            named
                .iter()
                .map(|n| n.rsplit('/').next().unwrap_or_default().to_owned()),
        );
    }
    Ok(used)
}
