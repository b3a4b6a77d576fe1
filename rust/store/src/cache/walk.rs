//! The files of a cache directory: paths of entries, and listing them. All files are in one
//! subdirectory of the directory that the user named; files with other names are never touched.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The subdirectory with all files of the cache; the number is the layout's, so that another layout
/// gets another directory.
const OURS: &str = "deltaplane-cache-1";
/// The folder for drafts.
const DRAFTS: &str = "drafts";
/// The least size of a file on a disk: small files would otherwise count for too little.
const DISK_BLOCK_BYTES: u64 = 4096;
/// A time this far in the future comes from a wrong clock.
const AHEAD_MS: u64 = 24 * 3_600_000;

/// The cache's own subdirectory.
pub(super) fn ours(dir: &Path) -> PathBuf {
    dir.join(OURS)
}

/// The directory for files before they become entries.
pub(super) fn drafts(ours: &Path) -> PathBuf {
    ours.join(DRAFTS)
}

/// An entry's path, in one of 256 directories, so that none gets too large.
pub(super) fn file(ours: &Path, id: u128) -> PathBuf {
    let name = format!("{id:032x}");
    let (dir, name) = name.split_at_checked(2).unwrap_or(("", &name));
    ours.join(dir).join(name)
}

/// An entry that exists.
pub(super) struct Found {
    pub(super) id: u128,
    /// Bytes on the disk.
    pub(super) disk_bytes: u64,
    /// When it was last written or used, in ms since 1970.
    pub(super) used_ms: u64,
}

/// A draft: being written, or abandoned by a process that ended.
pub(super) struct Draft {
    pub(super) path: PathBuf,
    pub(super) disk_bytes: u64,
    pub(super) used_ms: u64,
}

/// The current time, in ms since 1970.
pub(super) fn now_ms() -> u64 {
    millis(SystemTime::now())
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A file's last use; a time in the far future counts as long ago.
pub(super) fn used_ms(meta: &Metadata) -> u64 {
    let ms = meta.modified().map(millis).unwrap_or_default();
    if ms > now_ms().saturating_add(AHEAD_MS) { 0 } else { ms }
}

/// All entries, in any order. Entries that vanish during the walk are left out.
pub(super) fn entries(ours: &Path) -> io::Result<Vec<Found>> {
    let mut out = Vec::new();
    for dir in names(ours)? {
        if !is_hex(&dir, 2) {
            continue;
        }
        for name in names(&ours.join(&dir))? {
            let id = Some(&name).filter(|n| is_hex(n, 30));
            let id = id.and_then(|n| u128::from_str_radix(&format!("{dir}{n}"), 16).ok());
            let meta = fs::symlink_metadata(ours.join(&dir).join(&name));
            if let (Some(id), Ok(meta)) = (id, meta)
                && meta.is_file()
            {
                out.push(Found {
                    id,
                    disk_bytes: on_disk(meta.len()),
                    used_ms: used_ms(&meta),
                });
            }
        }
    }
    Ok(out)
}

/// All drafts.
pub(super) fn drafts_in(ours: &Path) -> io::Result<Vec<Draft>> {
    let dir = drafts(ours);
    let entries = names(&dir)?
        .into_iter()
        .filter(|name| is_hex(name, 32))
        .map(|n| dir.join(n));
    let draft = |path: PathBuf| {
        let meta = fs::symlink_metadata(&path).ok().filter(Metadata::is_file)?;
        Some(Draft {
            disk_bytes: on_disk(meta.len()),
            used_ms: used_ms(&meta),
            path,
        })
    };
    Ok(entries.filter_map(draft).collect())
}

/// The bytes that a file of this length takes on the disk.
pub(super) fn on_disk(length: u64) -> u64 {
    length.div_ceil(DISK_BLOCK_BYTES).saturating_mul(DISK_BLOCK_BYTES)
}

/// Removes a file; false if it was gone already.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Removes empty directories below the cache's own one. The own one stays: where others may write
/// beside it, somebody could put a foreign directory in its place.
pub(super) fn remove_empty(ours: &Path) {
    let inner = names(ours).unwrap_or_default().into_iter();
    for name in inner.filter(|name| name == DRAFTS || is_hex(name, 2)) {
        // A directory that isn't empty stays; the error is expected.
        let _ = fs::remove_dir(ours.join(name));
    }
}

fn is_hex(name: &str, length: usize) -> bool {
    name.len() == length && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The names in a directory; empty if it is missing, a link or a file.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let known = |r: io::Result<Metadata>| match r {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        kind => kind.map(|meta| meta.is_dir()),
    };
    if !known(fs::symlink_metadata(dir))? {
        return Ok(Vec::new());
    }
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    entries
        .filter_map(|entry| entry.map(|e| e.file_name().into_string().ok()).transpose())
        .collect()
}
