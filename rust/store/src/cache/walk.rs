//! The files of a cache's directory: where an entry stands, and what is there. Everything of ours
//! lies in one directory of its own below the one that the user named; files with other names than
//! ours are never touched.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What takes all of ours; the number is that of the layout, so that another one has a place of its
/// own.
const OURS: &str = "deltaplane-cache-1";
/// Files that are being written.
const DRAFTS: &str = "drafts";
/// What a file takes of a disk at least: small ones would count for too little otherwise.
const DISK_BLOCK_BYTES: u64 = 4096;
/// A time so far ahead is a wrong clock's.
const AHEAD_MS: u64 = 24 * 3_600_000;

/// The directory of ours.
pub(super) fn ours(dir: &Path) -> PathBuf {
    dir.join(OURS)
}

/// Where files are written before they are entries.
pub(super) fn drafts(ours: &Path) -> PathBuf {
    ours.join(DRAFTS)
}

/// An entry's file: 256 directories, so that none gets too large.
pub(super) fn file(ours: &Path, id: u128) -> PathBuf {
    let name = format!("{id:032x}");
    let (dir, name) = name.split_at_checked(2).unwrap_or(("", &name));
    ours.join(dir).join(name)
}

/// An entry that is there.
pub(super) struct Found {
    pub(super) id: u128,
    /// What it takes of the disk.
    pub(super) disk_bytes: u64,
    /// When it was last written or used, in ms since 1970.
    pub(super) used_ms: u64,
}

/// A file under way, or left behind by a process that ended.
pub(super) struct Draft {
    pub(super) path: PathBuf,
    pub(super) disk_bytes: u64,
    pub(super) used_ms: u64,
}

/// Now, in ms since 1970.
pub(super) fn now_ms() -> u64 {
    millis(SystemTime::now())
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A file's last use; one that lies ahead counts as long ago.
pub(super) fn used_ms(meta: &Metadata) -> u64 {
    let ms = meta.modified().map(millis).unwrap_or_default();
    if ms > now_ms().saturating_add(AHEAD_MS) { 0 } else { ms }
}

/// All entries, in any order. Those that vanish meanwhile are left out.
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
    let found = names(&dir)?
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
    Ok(found.filter_map(draft).collect())
}

/// What a file of this length takes of the disk.
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

/// Removes the empty directories in ours, which itself stays: where others may write beside it, one
/// of them could put a directory of theirs in its place.
pub(super) fn remove_empty(ours: &Path) {
    let inner = names(ours).unwrap_or_default().into_iter();
    for name in inner.filter(|name| name == DRAFTS || is_hex(name, 2)) {
        // One that isn't empty stays, which is all that is wanted.
        let _ = fs::remove_dir(ours.join(name));
    }
}

fn is_hex(name: &str, length: usize) -> bool {
    name.len() == length && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The names in a directory; none of one that isn't there, or that is a link or a file.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let known = |r: io::Result<Metadata>| match r {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        found => found.map(|meta| meta.is_dir()),
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
