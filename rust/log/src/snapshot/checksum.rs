//! Version checksums in the log (P018, P019): read where they save reading the checkpoint, written
//! after commits. A checksum that is absent, unreadable, inconsistent with the log or unwritable is
//! never an error.

use std::sync::Arc;

use deltaplane_error::{Kind, Result};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::segment::{LogName, LogSegment};
use deltaplane_store::Store;
use tracing::warn;

use crate::commit::reader::{Commit, newest_state};
use crate::listing::listed;

/// Commits with more bytes aren't parsed for a checksum.
const DERIVED_BYTES: u64 = 256 << 10;

/// The segment's newest checksum, if it agrees with the commits that it covers.
pub(crate) async fn read_sound(
    store: &Store,
    segment: &LogSegment,
    commits: &[Arc<Commit>],
) -> Result<Option<VersionChecksum>> {
    let Some(name) = &segment.checksum else { return Ok(None) };
    Ok(sound(read(store, name).await?, name, commits))
}

/// A checksum that was read, if it agrees with the commits that it covers. A checksum that arrived
/// late in a table that was deleted and created again names another transaction than its commit.
pub(crate) fn sound(sum: Option<VersionChecksum>, name: &LogName, commits: &[Arc<Commit>]) -> Option<VersionChecksum> {
    let sum = sum?;
    let covered = commits.partition_point(|c| c.version() <= name.version);
    let covered = commits.get(..covered).unwrap_or_default();
    let (protocol, metadata) = newest_state(covered);
    let own = covered.last().filter(|c| c.is_single() && c.version() == name.version);
    let info = own.and_then(|c| c.info().ok());
    let txn_id = info.as_ref().and_then(|i| i.get("txnId")?.as_str());
    let is_foreign = sum.txn_id.as_deref().zip(txn_id).is_some_and(|(a, b)| a != b);
    if is_foreign || protocol.is_some_and(|p| *p != sum.protocol) || metadata.is_some_and(|m| *m != sum.metadata) {
        warn!(
            file = &*name.name,
            "a version checksum contradicts the log, going on without it"
        );
        return None;
    }
    Some(sum)
}

/// A checksum that this process wrote, and its version.
pub(crate) type KnownChecksum = (u64, Arc<VersionChecksum>);

/// The checksum of `version`, computed from a known one and the commits since if these are few;
/// their writers' checksum files may not exist yet.
pub(crate) fn derived(known: &KnownChecksum, commits: &[Arc<Commit>], version: u64) -> Option<VersionChecksum> {
    let (since, sum) = known;
    let news = commits.get(commits.partition_point(|c| c.version() <= *since)..)?;
    let bytes = news.iter().map(|c| c.name.size_bytes).fold(0, u64::saturating_add);
    let whole = news.iter().all(|c| c.is_single()) && *since + news.len() as u64 == version;
    if !whole || bytes > DERIVED_BYTES {
        return None;
    }
    let first = sum.as_ref().clone();
    news.iter().try_fold(first, |sum, c| sum.after(&c.actions().ok()?))
}

/// A checksum file; `None` if it is missing or invalid.
pub(crate) async fn read(store: &Store, name: &LogName) -> Result<Option<VersionChecksum>> {
    let text = match store.read_text(&listed(name)).await {
        Ok(text) => text,
        Err(e) if matches!(e.kind(), Kind::CorruptLog | Kind::CorruptFile) => {
            warn!(file = &*name.name, error = %e, "a version checksum is too large or cut short, going on without it");
            return Ok(None);
        }
        Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    match VersionChecksum::parse(&text) {
        Ok(sum) => Ok(Some(sum)),
        Err(e) => {
            warn!(file = &*name.name, error = %e, "a version checksum can't be read, going on without it");
            Ok(None)
        }
    }
}
