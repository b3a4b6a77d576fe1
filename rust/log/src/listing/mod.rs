//! Lists the log folder, starting at the hint where there is one (P003, P010).

pub(crate) mod last_checkpoint;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths::{LOG_DIR, LogFile};
use deltaplane_protocol::segment::LogName;
use deltaplane_store::{ObjectInfo, Store};
use futures::TryStreamExt;

/// How often a listing with a gap is repeated while the gap moves.
const LOOKS: usize = 8;

/// The log files from this version on, ascending by name.
///
/// Errors: `TableNotFound` if the bucket or container doesn't exist.
pub(crate) async fn list_from(store: &Store, version: u64) -> Result<Vec<LogName>> {
    let mut names = list_once(store, version).await?;
    for _ in 0..LOOKS {
        let Some(gap) = first_gap(&names) else { break };
        // During writes a listing may show a commit without the previous one. That one existed
        // before the next listing starts, which therefore shows it: only a gap that stays is real.
        names = list_once(store, version).await?;
        if first_gap(&names) == Some(gap) {
            break;
        }
    }
    Ok(names)
}

/// The first commit that is missing between others, or before a checksum, which is written after
/// its commit.
fn first_gap(names: &[LogName]) -> Option<u64> {
    let versions = |kind: LogFile| names.iter().filter(move |n| n.kind == kind).map(|n| n.version);
    let commits = || versions(LogFile::Commit);
    let expected = commits().map(|v| v + 1);
    let between = expected.zip(commits().skip(1)).find(|(e, v)| e != v).map(|(e, _)| e);
    between.or_else(|| {
        let after = commits().next_back()? + 1;
        versions(LogFile::Checksum).any(|v| v >= after).then_some(after)
    })
}

async fn list_once(store: &Store, version: u64) -> Result<Vec<LogName>> {
    let from = format!("{version:020}.");
    let listed = store.list_from(LOG_DIR, &from).await.map_err(no_place)?;
    listed
        .map_err(no_place)
        .try_filter_map(|o| async move { Ok(name_of(o)) })
        .try_collect()
        .await
}

/// All log files if the oldest commit is at least this old, otherwise none: the listing then ends
/// at that commit.
pub(crate) async fn list_where_old(store: &Store, cutoff_ms: i64) -> Result<Vec<LogName>> {
    let mut listed = store.list_from(LOG_DIR, "").await.map_err(no_place)?;
    let (mut names, mut is_old) = (Vec::new(), false);
    while let Some(object) = listed.try_next().await.map_err(no_place)? {
        let Some(name) = name_of(object) else { continue };
        if !is_old && name.kind == LogFile::Commit {
            if name.modified_ms > cutoff_ms {
                return Ok(Vec::new());
            }
            is_old = true;
        }
        names.push(name);
    }
    Ok(names)
}

/// The meaning of an object's name in the log, `None` if it has none; [`listed`] is the inverse.
pub(crate) fn name_of(object: ObjectInfo) -> Option<LogName> {
    let name = object.key.rsplit('/').next().unwrap_or_default();
    LogName::parse(name, object.size_bytes, object.modified_ms).map(|n| n.with_etag(object.etag))
}

/// The listed object of this name.
pub(crate) fn listed(name: &LogName) -> ObjectInfo {
    ObjectInfo {
        key: [LOG_DIR, "/", &name.name].concat(),
        size_bytes: name.size_bytes,
        modified_ms: name.modified_ms,
        etag: name.etag.as_deref().map(str::to_owned),
    }
}

fn no_place(e: Error) -> Error {
    match e.kind() {
        Kind::ObjectNotFound => missing_place(e),
        _ => e,
    }
}

/// The error of a location where no table can be created: without a bucket or container, or whose
/// name in a catalog has another table by now, or none.
pub(crate) fn missing_place(e: Error) -> Error {
    let cause = Error::new(Kind::ObjectNotFound, e.message());
    e.with_kind(Kind::TableNotFound).with_source(cause)
}

/// Whether there is no table because its place is missing: then none can be created.
pub(crate) fn is_missing_place(e: &Error) -> bool {
    let cause = std::error::Error::source(e).and_then(|cause| cause.downcast_ref::<Error>());
    e.kind() == Kind::TableNotFound && cause.is_some_and(|cause| cause.kind() == Kind::ObjectNotFound)
}

/// Whether this location has a table: its log contains a commit or a checkpoint.
///
/// # Errors
/// `TableNotFound` if its bucket or container doesn't exist, or if its name in a catalog has
/// another table by now, or none; errors of the store.
pub async fn is_table(store: &Store) -> Result<bool> {
    Ok(list_from(store, 0)
        .await?
        .iter()
        .any(|n| !matches!(n.kind, LogFile::Checksum | LogFile::Compaction { .. })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_commit_that_is_missing_between_others() {
        let gap = |names: &[&str]| {
            let names: Vec<LogName> = names.iter().filter_map(|n| LogName::parse(n, 1, 0)).collect();
            first_gap(&names)
        };
        let (five, six) = ("00000000000000000005.json", "00000000000000000006.json");
        let (sum, eight) = ("00000000000000000007.crc", "00000000000000000008.json");
        assert_eq!(gap(&[]), None);
        assert_eq!(gap(&[six]), None);
        assert_eq!(gap(&[five, six, sum]), Some(7));
        assert_eq!(gap(&[sum]), None);
        assert_eq!(gap(&[five, six, "00000000000000000006.crc"]), None);
        assert_eq!(gap(&[five, six, sum, eight]), Some(7));
        assert_eq!(gap(&[five, eight]), Some(6));
    }
}
