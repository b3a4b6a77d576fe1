//! Commit times and provenance: history, and which version a time means (P081–P086).

use arrow::array::RecordBatch;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Action, CommitInfo};
use deltaplane_protocol::features::in_commit_timestamp;
use deltaplane_protocol::paths::LogFile;
use deltaplane_protocol::segment::{LogName, complete_checkpoints, monotone_times};
use deltaplane_store::Store;
use tracing::debug;

use crate::commit_reader::{self, Commit};
use crate::listing::list_from;
use crate::snapshot::Snapshot;

/// One commit as history tells it.
#[derive(Debug, Clone)]
pub struct HistoryEntry {
    /// Its version.
    pub version: u64,
    /// Its time in ms: its own where it carries one, else the file's, made increasing (P081, P082).
    pub timestamp_ms: i64,
    /// What it says of itself; empty when it says nothing.
    pub info: CommitInfo,
}

/// What a commit says of itself; empty when it says nothing.
pub(crate) fn info_of(c: &Commit) -> CommitInfo {
    let info = c.state.iter().find_map(|a| match a {
        Action::CommitInfo(i) => Some(i.clone()),
        _ => None,
    });
    info.unwrap_or_default()
}

/// What a commit says of itself, for messages: operation and program.
pub(crate) fn describe(c: &Commit) -> String {
    let info = info_of(c);
    let text = |k: &str| info.get(k).and_then(|v| v.as_str()).map(str::to_owned);
    let mut out = format!("version {}", c.version());
    for part in [text("operation"), text("engineInfo")].into_iter().flatten() {
        out.push_str(", ");
        out.push_str(&part);
    }
    out
}

/// The commits among these files, ascending.
pub(crate) fn commits(names: Vec<LogName>) -> Vec<LogName> {
    let mut c: Vec<LogName> = names.into_iter().filter(|n| n.kind == LogFile::Commit).collect();
    c.sort_by_key(|n| n.version);
    c
}

impl Snapshot {
    /// Opens the newest version at or before a time in ms since the epoch (P086).
    pub async fn open_at(store: &Store, timestamp_ms: i64) -> Result<Self> {
        let version = version_at(store, timestamp_ms).await;
        let version = version.map_err(|e| e.with_table(store.location().as_str()))?;
        Self::open(store, Some(version)).await
    }

    /// The newest `limit` commits up to this version, newest first; all without a limit.
    pub async fn history(&self, limit: Option<usize>) -> Result<Vec<HistoryEntry>> {
        let mut names = commits(list_from(self.store(), 0).await?);
        names.retain(|n| n.version <= self.version());
        let times = monotone_times(&names);
        let skip = limit.map_or(0, |l| names.len().saturating_sub(l));
        let wanted = names.get(skip..).unwrap_or_default();
        let read = commit_reader::read(self.store(), wanted).await?;
        let own_from = in_commit_timestamp::enabled_from(self.state().metadata());
        let entries = read
            .iter()
            .zip(times.iter().skip(skip))
            .map(|(c, (version, file_time))| {
                let info = info_of(c);
                let own = own_from
                    .filter(|from| from <= version)
                    .and_then(|_| in_commit_timestamp::time_of(&info));
                HistoryEntry {
                    version: *version,
                    timestamp_ms: own.unwrap_or(*file_time),
                    info,
                }
            });
        let mut entries: Vec<HistoryEntry> = entries.collect();
        entries.reverse();
        Ok(entries)
    }

    /// The time of this version's commit in ms, if its file is still there.
    pub async fn timestamp_ms(&self) -> Result<Option<i64>> {
        if let (Some(from), Some(actions)) = (
            in_commit_timestamp::enabled_from(self.state().metadata()),
            self.commit_actions(),
        ) && from <= self.version()
        {
            let own = actions.iter().find_map(|a| match a {
                Action::CommitInfo(i) => in_commit_timestamp::time_of(i),
                _ => None,
            });
            if own.is_some() {
                return Ok(own);
            }
        }
        Ok(self
            .history(Some(1))
            .await?
            .first()
            .filter(|e| e.version == self.version())
            .map(|e| e.timestamp_ms))
    }
}

/// The newest version whose time is at or before `timestamp_ms`; a time after the newest commit is
/// the newest version, as in delta-rs (delta-spark refuses it).
async fn version_at(store: &Store, timestamp_ms: i64) -> Result<u64> {
    let names = list_from(store, 0).await?;
    let oldest_checkpoint = complete_checkpoints(&names, None).last().map(|c| c.version);
    let latest = Snapshot::open(store, None).await?;
    let entries = match in_commit_timestamp::enabled_from(latest.state().metadata()) {
        Some(_) => {
            let mut e = latest.history(None).await?;
            e.reverse();
            e.into_iter().map(|e| (e.version, e.timestamp_ms)).collect()
        }
        None => monotone_times(&commits(names)),
    };
    // Only versions that can be rebuilt count: from commit 0 or from a checkpoint on.
    let first = entries
        .first()
        .map(|e| e.0)
        .filter(|v| *v == 0)
        .or(oldest_checkpoint)
        .unwrap_or(0);
    let found = entries
        .iter()
        .filter(|(v, t)| *v >= first && *t <= timestamp_ms)
        .map(|(v, _)| *v)
        .max();
    debug!(timestamp_ms, version = found, "resolved a time");
    found.ok_or_else(|| {
        let earliest = entries.iter().find(|(v, _)| *v >= first).map_or(0, |e| e.1);
        Error::version_not_found(format!(
            "no version is as old as {timestamp_ms} ms: the earliest one that can be rebuilt is {first}, committed at {earliest} ms since the epoch"
        ))
    })
}

/// The number of rows of batches, for reports.
pub(crate) fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}
