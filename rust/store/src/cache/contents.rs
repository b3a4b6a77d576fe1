//! Counts or clears the content of a cache directory, for the command line. Blocking.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use deltaplane_error::{Error, Result};

use super::{entry, walk};
use crate::error;

/// An entry names its location within this many bytes.
const NAME_BYTES: u64 = 4096;

/// Counts of a cache directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheContents {
    /// Entries: blocks of objects.
    pub entries: u64,
    /// Bytes on the disk.
    pub size_bytes: u64,
    /// Files that are being written, or were left behind by processes that ended.
    pub drafts: u64,
    /// The last use of the entry that would be evicted next, in ms since 1970.
    pub oldest_use_ms: Option<u64>,
    /// Entries by their location.
    pub tables: BTreeMap<String, CachedTable>,
}

/// The cache's entries of one location.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CachedTable {
    /// Blocks of its objects.
    pub entries: u64,
    /// Bytes on the disk.
    pub size_bytes: u64,
}

/// Counts of the deleted files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Entries and drafts.
    pub files: u64,
    /// Bytes on the disk.
    pub size_bytes: u64,
}

/// Counts the content of this cache directory; zeros where there is none. Opens every entry.
///
/// `StoreDenied` and the like if the directory can't be read.
pub fn cache_contents(dir: &Path) -> Result<CacheContents> {
    let ours = walk::ours(dir);
    let failed = |e: io::Error| failed(&e, "counting the cache", dir);
    let mut out = CacheContents {
        drafts: walk::drafts_in(&ours).map_err(failed)?.len() as u64,
        ..CacheContents::default()
    };
    for entry in walk::entries(&ours).map_err(failed)? {
        out.entries += 1;
        out.size_bytes = out.size_bytes.saturating_add(entry.disk_bytes);
        out.oldest_use_ms = Some(out.oldest_use_ms.map_or(entry.used_ms, |ms| ms.min(entry.used_ms)));
        // Missing or damaged entries count for no table.
        if let Ok(Some(location)) = location(&walk::file(&ours, entry.id)) {
            let table = out.tables.entry(location).or_default();
            table.entries += 1;
            table.size_bytes = table.size_bytes.saturating_add(entry.disk_bytes);
        }
    }
    Ok(out)
}

/// Deletes the content of this cache directory. Processes that use it continue and fill it again;
/// foreign files in the directory stay.
///
/// `StoreDenied` and the like if a file can't be removed.
pub fn clear_cache(dir: &Path) -> Result<Cleared> {
    let ours = walk::ours(dir);
    let failed = |e: io::Error| failed(&e, "clearing the cache", dir);
    let mut out = Cleared::default();
    let drafts = walk::drafts_in(&ours).map_err(failed)?;
    let drafts = drafts.into_iter().map(|d| (d.path, d.disk_bytes));
    let entries = walk::entries(&ours).map_err(failed)?;
    let entries = entries.into_iter().map(|e| (walk::file(&ours, e.id), e.disk_bytes));
    for (path, disk_bytes) in drafts.chain(entries) {
        if walk::remove(&path).map_err(failed)? {
            out.files += 1;
            out.size_bytes = out.size_bytes.saturating_add(disk_bytes);
        }
    }
    walk::remove_empty(&ours);
    Ok(out)
}

fn failed(e: &io::Error, what: &str, dir: &Path) -> Error {
    error::from_io(e, what).with_path(dir.display().to_string())
}

fn location(path: &Path) -> io::Result<Option<String>> {
    let mut start = Vec::new();
    File::open(path)?.take(NAME_BYTES).read_to_end(&mut start)?;
    Ok(entry::location_in(&start).map(str::to_owned))
}
