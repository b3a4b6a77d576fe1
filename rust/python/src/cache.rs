//! The local cache of log and data files: what is in it, and emptying it. `deltaplane.cache`
//! documents both.

use std::collections::BTreeMap;
use std::path::PathBuf;

use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_store as store;
use pyo3::prelude::*;

/// Entries, bytes, drafts, the oldest use, and entries and bytes by location.
type Contents = (u64, u64, u64, Option<u64>, BTreeMap<String, (u64, u64)>);

/// The directory that the environment names.
#[boundary]
pub(crate) fn cache_dir() -> Option<PathBuf> {
    store::cache_dir()
}

/// What is in a directory's cache.
#[boundary]
pub(crate) fn cache_contents(path: PathBuf) -> Result<Contents> {
    let all = store::cache_contents(&path)?;
    let tables = all.tables.into_iter();
    let tables = tables.map(|(name, t)| (name, (t.entries, t.size_bytes))).collect();
    Ok((all.entries, all.size_bytes, all.drafts, all.oldest_use_ms, tables))
}

/// Throws it away; files and bytes that went.
#[boundary]
pub(crate) fn clear_cache(path: PathBuf) -> Result<(u64, u64)> {
    store::clear_cache(&path).map(|cleared| (cleared.files, cleared.size_bytes))
}
