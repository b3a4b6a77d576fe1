//! Commit times and provenance: history, and the version at a time (P081–P086).

pub(crate) mod ahead;
pub(crate) mod changes;
pub(crate) mod distributed_replay;
pub(crate) mod log_history;

use chrono::{DateTime, SecondsFormat};
use deltaplane_error::{Error, OtherCommit, Result};
use deltaplane_protocol::actions::CommitInfo;
use deltaplane_protocol::features::in_commit_timestamp;
use deltaplane_protocol::paths::LogFile;
use deltaplane_protocol::segment::{LogName, complete_checkpoints, monotone_times};
use deltaplane_store::Store;
use serde::{Deserialize, Serialize};
use tracing::debug;

use crate::commit::reader;
use crate::commit::reader::Commit;
use crate::listing::list_from;
use crate::snapshot::Snapshot;

/// How many earlier commits influence the times of the wanted ones: as many as file times may be
/// out of order by. delta-spark's history uses none.
const EARLIER: usize = 100;

/// One entry of the history.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Its version.
    pub version: u64,
    /// Its time in ms: the in-commit timestamp, or else the file's time, made increasing (P081,
    /// P082).
    pub timestamp_ms: i64,
    /// Its commit info; empty if it has none.
    pub info: CommitInfo,
}

/// The description of a winning commit in a conflict error.
pub(crate) fn as_other(c: &Commit, info: &CommitInfo) -> OtherCommit {
    let text = |k: &str| info.get(k).and_then(|v| v.as_str()).map(str::to_owned);
    OtherCommit {
        version: c.version(),
        operation: text("operation"),
        engine_info: text("engineInfo"),
        user_name: text("userName"),
        timestamp_ms: info.get("timestamp").and_then(|v| v.as_i64()),
    }
}

/// The commits among these files, ascending.
pub(crate) fn commits(names: Vec<LogName>) -> Vec<LogName> {
    let mut c: Vec<LogName> = names.into_iter().filter(|n| n.kind == LogFile::Commit).collect();
    c.sort_by_key(|n| n.version);
    c
}

/// How many commits influence the times of the newest `limit`.
pub(crate) fn with_earlier(limit: Option<usize>) -> Option<u64> {
    limit.and_then(|l| u64::try_from(l.saturating_add(EARLIER)).ok())
}

/// The newest `limit` of these commits, each with its file's time, made increasing.
pub(crate) fn newest_dated(names: Vec<LogName>, limit: Option<usize>) -> Vec<(LogName, i64)> {
    let times = monotone_times(&names);
    let skip = limit.map_or(0, |l| names.len().saturating_sub(l));
    let dated = names.into_iter().zip(times).map(|(n, (_, time))| (n, time));
    dated.skip(skip).collect()
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
        let (dated, ahead) = futures::join!(self.newest_commits(limit), self.commits_ahead(limit));
        let (names, times): (Vec<LogName>, Vec<i64>) = dated?.into_iter().unzip();
        let read = self.states_of(&names, ahead).await?;
        let mut entries = Vec::with_capacity(read.len());
        for ((c, name), file_time) in read.iter().zip(&names).zip(times) {
            let info = c.info()?;
            entries.push(HistoryEntry {
                version: name.version,
                timestamp_ms: self.commit_time(&info, name.version, file_time)?,
                info,
            });
        }
        entries.reverse();
        Ok(entries)
    }

    /// The newest `limit` commits up to this version that the log has, ascending, each with its
    /// file's time.
    pub(crate) async fn newest_commits(&self, limit: Option<usize>) -> Result<Vec<(LogName, i64)>> {
        // Older commits need no times: a log may have very many.
        let first = with_earlier(limit).map_or(0, |n| self.version().saturating_add(1).saturating_sub(n));
        let mut names = commits(list_from(self.store(), first).await?);
        names.retain(|n| n.version <= self.version());
        Ok(newest_dated(names, limit))
    }

    /// A commit's time: the in-commit timestamp, or else the file's time.
    pub(crate) fn commit_time(&self, info: &CommitInfo, version: u64, file_time: i64) -> Result<i64> {
        match in_commit_timestamp::enabled_from(self.state().metadata()) {
            Some(from) if from <= version => in_commit_timestamp::time_of(info, version),
            _ => Ok(file_time),
        }
    }

    /// The time of this version's commit in ms, if its file is still there.
    pub async fn timestamp_ms(&self) -> Result<Option<i64>> {
        let own_from = in_commit_timestamp::enabled_from(self.state().metadata());
        if own_from.is_some_and(|from| from <= self.version()) {
            if let Some(commit) = self.commit_in_hand(self.version()) {
                return commit.own_time_ms().map(Some);
            }
            // Where the version begins at its checkpoint.
            if let Some(time_ms) = self.known_checksum().and_then(|sum| sum.in_commit_timestamp_opt) {
                return Ok(Some(time_ms));
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
pub(crate) async fn version_at(store: &Store, timestamp_ms: i64) -> Result<u64> {
    let names = list_from(store, 0).await?;
    let oldest_checkpoint = complete_checkpoints(&names, None).last().map(|c| c.version);
    let latest = Snapshot::open(store, None).await?;
    let commits = commits(names);
    // Only versions that can be rebuilt count: from commit 0 or from a checkpoint on.
    let first = match (commits.first(), oldest_checkpoint) {
        (Some(c), _) if c.version == 0 => 0,
        (_, Some(c)) => c,
        _ => 0,
    };
    let times = monotone_times(&commits);
    let (mut by_file, mut own): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    let own_from = in_commit_timestamp::enabled_from(latest.state().metadata());
    for (c, t) in commits.into_iter().zip(times).filter(|(c, _)| c.version >= first) {
        if own_from.is_some_and(|from| c.version >= from) {
            own.push(c);
        } else {
            by_file.push(t);
        }
    }
    let newest = match newest_by_own_time(store, &own, timestamp_ms).await? {
        Some(v) => Some(v),
        None => by_file
            .iter()
            .filter(|(_, t)| *t <= timestamp_ms)
            .map(|(v, _)| *v)
            .max(),
    };
    debug!(timestamp_ms, version = newest, "resolved a time");
    newest.ok_or_else(|| {
        let since = by_file.first().map(|(_, t)| format!(", committed at {}", moment(*t)));
        Error::version_not_found(format!(
            "no version is as old as {}: the earliest one that can be rebuilt is {first}{}",
            moment(timestamp_ms),
            since.unwrap_or_default()
        ))
    })
}

/// A time in a readable format.
pub(crate) fn moment(ms: i64) -> String {
    match DateTime::from_timestamp_millis(ms) {
        Some(timestamp) => timestamp.to_rfc3339_opts(SecondsFormat::Millis, true),
        None => format!("{ms} ms since the epoch"),
    }
}

/// The newest of these commits whose in-commit timestamp isn't after the time, by a binary search
/// that reads few commits (P082).
async fn newest_by_own_time(store: &Store, commits: &[LogName], timestamp_ms: i64) -> Result<Option<u64>> {
    let (mut low, mut high) = (0, commits.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(name) = commits.get(middle) else { break };
        let read = reader::read(store, std::slice::from_ref(name)).await?;
        let info = read.first().map(|c| c.info()).transpose()?.unwrap_or_default();
        if in_commit_timestamp::time_of(&info, name.version)? <= timestamp_ms {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low.checked_sub(1).and_then(|i| commits.get(i)).map(|c| c.version))
}
