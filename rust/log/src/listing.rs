//! Listing the log folder, from the hint where there is one (P003, P010).

use deltaplane_error::Result;
use deltaplane_protocol::paths::{LOG_DIR, LogFile};
use deltaplane_protocol::segment::LogName;
use deltaplane_store::Store;
use futures::TryStreamExt;

/// The log files from this version on, ascending by name.
pub(crate) async fn list_from(store: &Store, version: u64) -> Result<Vec<LogName>> {
    let from = format!("{version:020}.");
    let listed = store.list_from(LOG_DIR, &from).await?;
    listed
        .try_filter_map(|o| async move {
            let name = o.key.rsplit('/').next().unwrap_or_default();
            Ok(LogName::parse(name, o.size_bytes, o.modified_ms))
        })
        .try_collect()
        .await
}

/// Whether a table is at this location: its log holds a commit or a checkpoint.
pub async fn is_table(store: &Store) -> Result<bool> {
    let names = list_from(store, 0).await?;
    Ok(names
        .iter()
        .any(|n| !matches!(n.kind, LogFile::Checksum | LogFile::Compaction { .. })))
}
