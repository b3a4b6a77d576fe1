//! Listing the log folder, from the hint where there is one (P003, P010).

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths::{LOG_DIR, LogFile};
use deltaplane_protocol::segment::LogName;
use deltaplane_store::{ObjectInfo, Store};
use futures::TryStreamExt;

/// The log files from this version on, ascending by name.
///
/// Errors: `TableNotFound` when the bucket or container isn't there.
pub(crate) async fn list_from(store: &Store, version: u64) -> Result<Vec<LogName>> {
    let from = format!("{version:020}.");
    let listed = store.list_from(LOG_DIR, &from).await.map_err(no_place)?;
    listed
        .map_err(no_place)
        .try_filter_map(|o| async move { Ok(name_of(o)) })
        .try_collect()
        .await
}

/// What an object of the log is by its name, `None` where that means nothing; [`listed`] is the way back.
pub(crate) fn name_of(object: ObjectInfo) -> Option<LogName> {
    let name = object.key.rsplit('/').next().unwrap_or_default();
    LogName::parse(name, object.size_bytes, object.modified_ms).map(|n| n.with_etag(object.etag))
}

/// The object that a listing showed under this name.
pub(crate) fn listed(name: &LogName) -> ObjectInfo {
    ObjectInfo {
        key: format!("{LOG_DIR}/{}", name.name),
        size_bytes: name.size_bytes,
        modified_ms: name.modified_ms,
        etag: name.etag.clone(),
    }
}

fn no_place(e: Error) -> Error {
    match e.kind() {
        Kind::ObjectNotFound => e.with_kind(Kind::TableNotFound),
        _ => e,
    }
}

/// Whether a table is at this location: its log holds a commit or a checkpoint.
pub async fn is_table(store: &Store) -> Result<bool> {
    let names = match list_from(store, 0).await {
        Err(e) if e.kind() == Kind::TableNotFound => return Ok(false),
        names => names?,
    };
    Ok(names
        .iter()
        .any(|n| !matches!(n.kind, LogFile::Checksum | LogFile::Compaction { .. })))
}
