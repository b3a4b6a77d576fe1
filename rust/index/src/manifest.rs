//! The manifest: which segments a table's index has. Manifests are immutable and numbered; the
//! newest one counts, and an old one is as right as it was.

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{ObjectInfo, PutOutcome, Store};
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use crate::keys::KeyColumn;

/// The folder of a table's index. The names that VACUUM of other engines spares begin with `_`,
/// except those that begin with `_delta_index` or `_change_data`, which it empties.
pub const DIR: &str = "_deltaplane_index";
/// The version of the manifest's format.
const VERSION: u32 = 2;
/// A copy of the newest manifest, or of an older one: readers get it by one request, without a
/// listing.
const COPY: &str = "_deltaplane_index/newest.json";
/// Older manifests that are tried where the newest can't be read.
const TRIED: usize = 3;

/// A segment, as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// Its key below the table.
    pub path: String,
    /// The columns that keys are made of, in the order of their values.
    pub columns: Vec<KeyColumn>,
    /// Covered files.
    pub files: u64,
    /// Different pairs of file and key.
    pub entries: u64,
    /// Its size.
    pub size_bytes: u64,
    /// The bytes at its end that opening it reads.
    pub tail_bytes: u64,
}

impl SegmentInfo {
    /// Whether it is of the columns with these names in files, whatever their types were.
    pub fn is_of(&self, columns: &[KeyColumn]) -> bool {
        let names = self.columns.iter().map(|c| &c.name);
        names.eq(columns.iter().map(|c| &c.name))
    }
}

/// The segments of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    version: u32,
    /// The table's id.
    pub table: String,
    /// The segments, of all indexes.
    pub segments: Vec<SegmentInfo>,
}

impl Manifest {
    /// Of a table with these segments.
    pub fn new(table: &str, segments: Vec<SegmentInfo>) -> Self {
        Manifest {
            version: VERSION,
            table: table.to_owned(),
            segments,
        }
    }

    fn serialized(&self) -> Result<Bytes> {
        let text = serde_json::to_vec(self).map(Bytes::from);
        text.map_err(|e| Error::internal(format!("a manifest of an index can't be written: {e}")))
    }
}

/// The newest manifest of a table that can be read, with the number of the newest one; an empty one
/// with the number 0 where there is none.
///
/// # Errors
/// Those of the store. A damaged manifest and one of another table count as none.
pub async fn newest(store: &Store, table: &str) -> Result<(u64, Manifest)> {
    let listed: Vec<ObjectInfo> = store.list_from(DIR, "").await?.try_collect().await?;
    let mut numbered: Vec<_> = listed.into_iter().filter_map(|o| Some((number(&o.key)?, o))).collect();
    numbered.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    let newest = numbered.first().map_or(0, |(number, _)| *number);
    for (_, object) in numbered.iter().take(TRIED) {
        let text = match store.read_listed(object).await {
            Err(e) if matches!(e.kind(), Kind::ObjectNotFound | Kind::CorruptFile) => continue,
            text => text?,
        };
        if let Some(read) = parsed(&text, table) {
            return Ok((newest, read));
        }
    }
    Ok((newest, Manifest::new(table, Vec::new())))
}

/// A manifest of this table; `None` for a damaged one, and one of another table or format.
fn parsed(text: &[u8], table: &str) -> Option<Manifest> {
    let read: Manifest = serde_json::from_slice(text).ok()?;
    (read.version == VERSION && read.table == table).then_some(read)
}

/// The newest manifest, or an older one, which is as right: by one request where there is a copy.
///
/// # Errors
/// As [`newest`].
pub async fn recent(store: &Store, table: &str) -> Result<Manifest> {
    match copy(store, table).await? {
        Some(manifest) => Ok(manifest),
        None => Ok(newest(store, table).await?.1),
    }
}

async fn copy(store: &Store, table: &str) -> Result<Option<Manifest>> {
    match store.read(COPY).await {
        Err(e) if matches!(e.kind(), Kind::ObjectNotFound | Kind::CorruptFile) => Ok(None),
        text => Ok(parsed(&text?, table)),
    }
}

/// Makes the copy that [`recent`] reads equal to a manifest, which is the newest.
///
/// # Errors
/// Those of the store.
pub async fn refresh_copy(store: &Store, manifest: &Manifest) -> Result<()> {
    match copy(store, &manifest.table).await? {
        Some(known) if known == *manifest => Ok(()),
        _ => store.put(COPY, manifest.serialized()?).await,
    }
}

/// Puts a manifest under a number; false if another one has it.
///
/// # Errors
/// Those of the store.
pub async fn publish(store: &Store, number: u64, manifest: &Manifest) -> Result<bool> {
    let text = manifest.serialized()?;
    let key = format!("{DIR}/{number:020}.json");
    match store.put_if_absent(&key, text.clone()).await? {
        PutOutcome::Created => Ok(true),
        // The first answer may have been lost.
        PutOutcome::Exists => Ok(store.read(&key).await? == text),
    }
}

/// The keys of segments and manifests that the newest manifest doesn't need, and that are older
/// than this time, in ms since the epoch.
///
/// # Errors
/// Those of the store.
pub async fn unneeded(store: &Store, number: u64, manifest: &Manifest, before_ms: i64) -> Result<Vec<String>> {
    let listed: Vec<ObjectInfo> = store.list_from(DIR, "").await?.try_collect().await?;
    let is_needed = |key: &str| match self::number(key) {
        Some(other) => other >= number,
        None if key == COPY => true,
        None => manifest.segments.iter().any(|s| s.path == key),
    };
    let old = listed
        .into_iter()
        .filter(|o| o.modified_ms < before_ms && !is_needed(&o.key));
    Ok(old.map(|o| o.key).collect())
}

/// The number of a manifest with this key.
fn number(key: &str) -> Option<u64> {
    let digits = key.strip_prefix(DIR)?.strip_prefix('/')?.strip_suffix(".json")?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}
