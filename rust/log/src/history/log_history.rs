//! The history of a log without opening its table: reads only the requested commits.

use deltaplane_error::Result;
use deltaplane_protocol::actions::CommitInfo;
use deltaplane_protocol::features::in_commit_timestamp;
use deltaplane_protocol::segment::{LogName, LogSegment, complete_checkpoints};
use deltaplane_store::Store;
use tracing::debug;

use crate::commit::reader;
use crate::history::distributed_replay::LogHead;
use crate::history::{HistoryEntry, commits, newest_dated, with_earlier};
use crate::listing::last_checkpoint;
use crate::listing::list_from;

/// The newest `limit` commits of a log, newest first, as [`Snapshot::history`] returns them,
/// without opening the table: other commits aren't read, and the table's protocol isn't checked.
///
/// Errors: those of opening if there is no table, or its log has gaps.
pub async fn log_history(store: &Store, limit: Option<usize>) -> Result<Vec<HistoryEntry>> {
    let entries = entries_of_log(store, limit).await;
    entries.map_err(|e| e.with_table(store.location().as_str()))
}

async fn entries_of_log(store: &Store, limit: Option<usize>) -> Result<Vec<HistoryEntry>> {
    let newest = newest_names(store, limit).await?;
    let read = reader::read_states(store, newest.iter().map(|(n, _)| n.clone()).collect()).await?;
    let infos: Vec<CommitInfo> = read.iter().map(|c| c.info()).collect::<Result<_>>()?;
    if infos.iter().any(|info| in_commit_timestamp::stamp_of(info).is_some()) {
        // The metadata tells whether in-commit timestamps apply (P082).
        return LogHead::open(store, None).await?.history(limit).await;
    }
    let entries = newest.into_iter().zip(infos);
    let entries = entries.map(|((name, timestamp_ms), info)| HistoryEntry {
        version: name.version,
        timestamp_ms,
        info,
    });
    Ok(entries.rev().collect())
}

/// The newest `limit` commits of a log, ascending, each with its file's time.
async fn newest_names(store: &Store, limit: Option<usize>) -> Result<Vec<(LogName, i64)>> {
    let hint = match limit {
        Some(_) => last_checkpoint::read(store).await?,
        None => None,
    };
    let first = hint.map_or(0, |h| h.saturating_sub(with_earlier(limit).unwrap_or(h)));
    let mut names = list_from(store, first).await?;
    if first > 0 && complete_checkpoints(&names, None).is_empty() {
        debug!(hint, "the checkpoint hint leads nowhere, listing the whole log");
        names = list_from(store, 0).await?;
    }
    // Judges the names as opening the table does.
    let checkpoint = complete_checkpoints(&names, None).into_iter().next();
    LogSegment::build(&names, checkpoint, None)?;
    Ok(newest_dated(commits(names), limit))
}
