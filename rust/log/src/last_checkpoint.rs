//! `_last_checkpoint`: a hint where to start listing, never more (P010, P013).

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths;
use deltaplane_store::Store;
use serde::{Deserialize, Serialize};

/// The hint's fields that this build writes and reads.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastCheckpoint {
    pub version: u64,
    pub size: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_in_bytes: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_of_add_files: Option<i64>,
}

/// The hinted version; `None` when the hint is absent or unreadable: then the whole log is listed.
pub(crate) async fn read(store: &Store) -> Result<Option<u64>> {
    match store.read(&paths::last_checkpoint()).await {
        Ok(bytes) => Ok(serde_json::from_slice::<LastCheckpoint>(&bytes).ok().map(|h| h.version)),
        Err(e) if e.kind() == Kind::ObjectNotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Overwrites the hint; to be called after the checkpoint is durable.
pub(crate) async fn write(store: &Store, hint: &LastCheckpoint) -> Result<()> {
    let text =
        serde_json::to_vec(hint).map_err(|e| Error::internal(format!("can't write the checkpoint hint: {e}")))?;
    store.put(&paths::last_checkpoint(), Bytes::from(text)).await
}
