//! `_last_checkpoint`: a hint where to start listing, never more (P010, P013).

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::{hint, paths};
use deltaplane_store::Store;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::debug;

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v2_checkpoint: Option<TopFile>,
}

/// The top file of a V2 checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TopFile {
    /// Bare name.
    pub path: String,
    pub size_in_bytes: i64,
    pub modification_time: i64,
}

/// Most hints are smaller.
const USUAL_BYTES: u64 = 64 << 10;
/// A larger hint isn't read completely: some writers put a checkpoint's schema into it, and nothing
/// larger.
const MOST_BYTES: u64 = 16 << 20;

/// The hinted version; `None` when the hint is absent or unreadable: then the whole log is listed.
pub(crate) async fn read(store: &Store) -> Result<Option<u64>> {
    let key = paths::last_checkpoint();
    let start = match store.read_range(&key, 0..USUAL_BYTES).await {
        Ok(start) if start.len() as u64 == USUAL_BYTES => store.read_range(&key, 0..MOST_BYTES).await,
        start => start,
    };
    // A truncated hint doesn't parse.
    match start {
        Ok(bytes) => Ok(parse(&bytes)),
        Err(e) if e.kind() == Kind::ObjectNotFound => Ok(None),
        // No range starts within an empty object.
        Err(e) if e.kind() == Kind::InvalidArgument => match store.head(&key).await {
            Ok(object) if object.size_bytes == 0 => Ok(None),
            _ => Err(e),
        },
        Err(e) => Err(e),
    }
}

fn parse(bytes: &[u8]) -> Option<u64> {
    let hint: LastCheckpoint = serde_json::from_slice(bytes).ok()?;
    let value: Value = serde_json::from_slice(bytes).ok()?;
    // Writers order long lists differently (P017): only a hint without lists is checked.
    let expected = value.get("checksum").and_then(Value::as_str);
    let judged = expected.filter(|_| !bytes.contains(&b'['));
    if judged.is_some_and(|expected| expected != hint::checksum(&value)) {
        debug!("the checkpoint hint's checksum doesn't match, listing the whole log");
        return None;
    }
    Some(hint.version)
}

/// Overwrites the hint, with its checksum (P016); to be called after the checkpoint is durable.
pub(crate) async fn write(store: &Store, hint: &LastCheckpoint) -> Result<()> {
    let failed = |e| Error::internal(format!("can't write the checkpoint hint: {e}"));
    let mut value = serde_json::to_value(hint).map_err(failed)?;
    let sum = hint::checksum(&value);
    if let Value::Object(members) = &mut value {
        members.insert("checksum".to_owned(), json!(sum));
    }
    store
        .put(&paths::last_checkpoint(), Bytes::from(value.to_string()))
        .await
}
