//! Sums over a log: the folder's files by kind, what each commit did to the table's files, and
//! which removed files still take room. Reads no data file, and holds no row per live file.

use std::collections::HashMap;

use arrow::array::RecordBatch;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::layout::{automatic_target, large_enough};
use deltaplane_protocol::paths::{self, LOG_DIR, LogFile, SIDECAR_DIR};
use deltaplane_protocol::segment::{CheckpointFiles, LogName, complete_checkpoints};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::checkpoint::reader::PlanColumns;
use crate::commands::vacuum::retained::hash;
use crate::commit::reader;
use crate::commit::reader::{Commit, File, FileLines};
use crate::listing::list_from;
use crate::{Snapshot, now_ms};

/// The fields of a commit's info that are reported: who did what, and which version it had read.
const INFO_FIELDS: [&str; 4] = ["operation", "engineInfo", "isBlindAppend", "readVersion"];

/// Counts of some files of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFiles {
    /// Number of files.
    pub files: u64,
    /// Their bytes.
    pub size_bytes: u64,
}

impl LogFiles {
    fn count(&mut self, size_bytes: u64) {
        self.files += 1;
        self.size_bytes = self.size_bytes.saturating_add(size_bytes);
    }
}

/// The newest complete checkpoint at or below a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewestCheckpoint {
    /// The version it holds.
    pub version: u64,
    /// `classic`, `multi-part` or `v2`.
    pub kind: String,
    /// When it was written, ms since the epoch.
    pub modified_ms: i64,
    /// Its files, without sidecars.
    pub files: u64,
    /// Their bytes.
    pub size_bytes: u64,
}

/// The files of the log folder up to a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFolder {
    /// Commits.
    pub commits: LogFiles,
    /// Files of checkpoints, whether complete or not.
    pub checkpoints: LogFiles,
    /// Files that V2 checkpoints name, of whatever version.
    pub sidecars: LogFiles,
    /// Compactions of several commits.
    pub compactions: LogFiles,
    /// Version checksums.
    pub checksums: LogFiles,
    /// The version of the oldest commit that is still there.
    pub oldest_commit: Option<u64>,
    /// When that commit was written, ms since the epoch.
    pub oldest_commit_ms: Option<i64>,
    /// The newest version that has a checksum.
    pub newest_checksum: Option<u64>,
    /// The checkpoint from which opening the version starts.
    pub newest_checkpoint: Option<NewestCheckpoint>,
    /// Commits after it, which opening reads as well.
    pub commits_since_checkpoint: LogFiles,
    /// After how many commits the next checkpoint is due.
    pub checkpoint_interval: u64,
    /// The log's retention, ms.
    pub log_retention_ms: i64,
    /// The removed files' retention, ms.
    pub deleted_file_retention_ms: i64,
    /// Whether the log is cleaned up automatically.
    pub cleanup_enabled: bool,
}

/// Sums over one commit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitTotals {
    /// Its version.
    pub version: u64,
    /// Its time in the history, ms since the epoch.
    pub timestamp_ms: i64,
    /// Bytes of the commit's own file.
    pub log_bytes: u64,
    /// Files that it added.
    pub added_files: u64,
    /// Their bytes.
    pub added_bytes: i64,
    /// Files that it removed.
    pub removed_files: u64,
    /// Bytes of the removed files whose size it states.
    pub removed_bytes: i64,
    /// Removed files without a size.
    pub removed_unsized: u64,
    /// Whether any of it changes the table's rows (P028).
    pub data_change: bool,
    /// The other members of the commit info, unchanged: a foreign writer may have put any JSON
    /// there.
    pub info: Map<String, Value>,
}

/// Files that were removed from the table and may still take room. Excludes files outside the
/// table, and files that are still live with another deletion vector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TombstoneTotals {
    /// Files that VACUUM must keep.
    pub kept_files: u64,
    /// Bytes of those whose size the log states.
    pub kept_bytes: i64,
    /// Files that VACUUM may delete, or has deleted: the log doesn't tell.
    pub expired_files: u64,
    /// Bytes of those whose size the log states.
    pub expired_bytes: i64,
    /// Files without a size.
    pub unsized_files: u64,
}

impl Snapshot {
    /// Counts and sizes of the log folder's files up to this version. Costs two listings; reads no
    /// file.
    pub async fn log_folder(&self) -> Result<LogFolder> {
        let mut names = list_from(self.store(), 0).await?;
        names.retain(|n| reaches(n) <= self.version());
        let properties = self.state().properties();
        let mut out = LogFolder {
            sidecars: self.sidecar_files().await?,
            checkpoint_interval: self.log_tail(None).interval(),
            log_retention_ms: properties.log_retention_ms,
            deleted_file_retention_ms: properties.deleted_file_retention_ms,
            cleanup_enabled: properties.cleanup_enabled,
            newest_checkpoint: complete_checkpoints(&names, None).first().map(described),
            ..LogFolder::default()
        };
        let checkpoint = out.newest_checkpoint.as_ref().map(|c| c.version);
        for n in &names {
            match n.kind {
                LogFile::Commit => {
                    out.commits.count(n.size_bytes);
                    if out.oldest_commit.is_none_or(|v| n.version < v) {
                        (out.oldest_commit, out.oldest_commit_ms) = (Some(n.version), Some(n.modified_ms));
                    }
                    if checkpoint.is_none_or(|v| n.version > v) {
                        out.commits_since_checkpoint.count(n.size_bytes);
                    }
                }
                LogFile::Compaction { .. } => out.compactions.count(n.size_bytes),
                LogFile::Checksum => {
                    out.checksums.count(n.size_bytes);
                    out.newest_checksum = out.newest_checksum.max(Some(n.version));
                }
                LogFile::ClassicCheckpoint | LogFile::MultipartCheckpoint { .. } | LogFile::UuidCheckpoint { .. } => {
                    out.checkpoints.count(n.size_bytes);
                }
            }
        }
        Ok(out)
    }

    /// OPTIMIZE's target size in bytes for a table of `table_bytes`, and the size from which it
    /// leaves a file alone.
    pub fn aimed_file_size(&self, table_bytes: i64) -> (i64, f64) {
        let asked = self.state().properties().target_file_size_bytes;
        let asked = asked.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let target = asked.unwrap_or_else(|| automatic_target(table_bytes));
        (target, large_enough(target))
    }

    async fn sidecar_files(&self) -> Result<LogFiles> {
        let mut out = LogFiles::default();
        let listed = async {
            let mut listing = self.store().list_from(&format!("{LOG_DIR}/{SIDECAR_DIR}"), "").await?;
            while let Some(o) = listing.try_next().await? {
                out.count(o.size_bytes);
            }
            Ok::<(), Error>(())
        };
        match listed.await {
            Err(e) if e.kind() == Kind::ObjectNotFound => Ok(LogFiles::default()),
            done => done.map(|()| out),
        }
    }

    /// What each of the newest `limit` commits up to this version did to the table's files, oldest
    /// first, as far back as the log goes. Memory: the text of some commits.
    pub async fn commit_totals(&self, limit: usize) -> Result<Vec<CommitTotals>> {
        let newest = self.newest_commits(Some(limit)).await?;
        let times: HashMap<u64, i64> = newest.iter().map(|(n, t)| (n.version, *t)).collect();
        let names = newest.into_iter().map(|(n, _)| n).collect();
        let mut out = Vec::with_capacity(times.len());
        let mut commits = reader::stream(self.store(), names, FileLines::Retained);
        while let Some(commit) = commits.try_next().await? {
            let file_time = times.get(&commit.version()).copied().unwrap_or_default();
            out.push(self.totals_of(&commit, file_time)?);
        }
        Ok(out)
    }

    fn totals_of(&self, commit: &Commit, file_time: i64) -> Result<CommitTotals> {
        let mut info = commit.info()?;
        let mut out = CommitTotals {
            version: commit.version(),
            timestamp_ms: self.commit_time(&info, commit.version(), file_time)?,
            log_bytes: commit.name.size_bytes,
            added_files: 0,
            added_bytes: 0,
            removed_files: 0,
            removed_bytes: 0,
            removed_unsized: 0,
            data_change: false,
            info: Map::new(),
        };
        out.info
            .extend(INFO_FIELDS.iter().filter_map(|k| info.remove_entry(*k)));
        commit.each_file(|file| {
            match file {
                File::Add(a) => {
                    out.added_files += 1;
                    out.added_bytes = out.added_bytes.saturating_add(a.size);
                    out.data_change |= a.data_change;
                }
                File::Remove(r) => {
                    out.removed_files += 1;
                    out.removed_bytes = out.removed_bytes.saturating_add(r.size.unwrap_or(0));
                    out.removed_unsized += u64::from(r.size.is_none());
                    out.data_change |= r.data_change;
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The removed files of the table's own directory that the log still names. Memory: about 32
    /// bytes per file.
    pub async fn tombstone_totals(&self) -> Result<TombstoneTotals> {
        let cutoff = now_ms().saturating_sub(self.state().properties().deleted_file_retention_ms);
        let gone = self.tombstones_as(i64::MIN, &[], &|batch| self.gone(&batch)).await?;
        // If a file was removed several times, with successive vectors, only the last time counts.
        let mut files: HashMap<u64, Gone> = HashMap::new();
        for (key, tombstone) in gone.into_iter().flatten() {
            let known = files.entry(key).or_insert(tombstone);
            known.at_ms = known.at_ms.max(tombstone.at_ms);
            known.size = known.size.or(tombstone.size);
        }
        if !files.is_empty() {
            let mut live = self.plan(None, PlanColumns::Files);
            while let Some(batch) = live.try_next().await? {
                for (key, _) in self.gone(&batch)? {
                    files.remove(&key);
                }
            }
        }
        let mut out = TombstoneTotals::default();
        for tombstone in files.values() {
            let (count, bytes) = match tombstone.at_ms < cutoff {
                true => (&mut out.expired_files, &mut out.expired_bytes),
                false => (&mut out.kept_files, &mut out.kept_bytes),
            };
            *count += 1;
            *bytes = bytes.saturating_add(tombstone.size.unwrap_or(0));
            out.unsized_files += u64::from(tombstone.size.is_none());
        }
        Ok(out)
    }

    /// The files of the table's own directory that these actions name.
    fn gone(&self, batch: &RecordBatch) -> Result<Vec<(u64, Gone)>> {
        let rows = FileRows::new(batch);
        let mut out = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            if let Some(key) = self.store().own_key(&paths::decode(rows.path(row)?)?)? {
                let size = Some(rows.size(row)).filter(|s| *s > 0);
                let at_ms = rows.deletion_timestamp(row);
                out.push((hash(&key), Gone { at_ms, size }));
            }
        }
        Ok(out)
    }
}

/// A removed file.
#[derive(Debug, Clone, Copy)]
struct Gone {
    at_ms: i64,
    size: Option<i64>,
}

/// The last version that a file of the log covers.
fn reaches(n: &LogName) -> u64 {
    match n.kind {
        LogFile::Compaction { to } => to,
        _ => n.version,
    }
}

fn described(checkpoint: &CheckpointFiles) -> NewestCheckpoint {
    let mut size = LogFiles::default();
    checkpoint.files.iter().for_each(|n| size.count(n.size_bytes));
    let kind = match checkpoint.files.first().map(|n| &n.kind) {
        Some(LogFile::UuidCheckpoint { .. }) => "v2",
        Some(LogFile::MultipartCheckpoint { .. }) => "multi-part",
        _ => "classic",
    };
    NewestCheckpoint {
        version: checkpoint.version,
        kind: kind.to_owned(),
        modified_ms: checkpoint.files.iter().map(|n| n.modified_ms).max().unwrap_or_default(),
        files: size.files,
        size_bytes: size.size_bytes,
    }
}
