//! Two caches of objects: of log files in memory, on by default, and of blocks on the local disk,
//! off by default and shared by processes. Both are bounded and use the full identity of each
//! object; objects without one are not cached. `stores` puts them over every store but local disk
//! and memory.

mod blocks;
mod cached;
mod contents;
mod entry;
mod layer;
mod made;
mod memory;
mod place;
mod settings;
mod shelf;
mod walk;

use std::sync::Arc;

use deltaplane_error::Result;

use crate::backend::Backend;
use crate::location::{Location, Scheme};
use crate::options::Options;
use layer::Layered;

pub use contents::{CacheContents, CachedTable, Cleared, cache_contents, clear_cache};
pub use settings::cache_dir;
pub(crate) use settings::{KEYS, switched_off};

/// A derived file takes at most one part in this many of a cache.
const MADE_SHARE: u64 = 4;

/// The store behind the caches that options and environment ask for, or the store itself.
///
/// `InvalidArgument` for an invalid setting. Does no input or output before the first object is
/// read.
pub(crate) fn over(backend: Arc<dyn Backend>, location: &Location, options: &Options) -> Result<Arc<dyn Backend>> {
    let environment = |name: &str| std::env::var(name).ok();
    let on_disk = settings::of(options, &environment)?;
    let memory_bytes = settings::memory_bytes(options, &environment)?;
    let is_near = matches!(location.scheme(), Scheme::Local | Scheme::Memory);
    if is_near || (on_disk.is_none() && memory_bytes == 0) {
        return Ok(backend);
    }
    let place = place::of(location, options, std::env::vars_os());
    let backend = match on_disk {
        Some(settings) => Arc::new(Layered(cached::Cached::new(backend, place.clone(), &settings))),
        None => backend,
    };
    Ok(match memory_bytes {
        0 => backend,
        most => Arc::new(Layered(memory::InMemory::new(backend, place, most))),
    })
}

/// The cache for files derived from this location's checkpoints, if options and environment ask for
/// it and it has room for a file of about this size. A file that fills most of the cache would soon
/// be evicted by other entries.
///
/// `InvalidArgument` for an invalid setting.
pub(crate) fn of_made(location: &Location, options: &Options, size_bytes: u64) -> Result<Option<Arc<dyn Backend>>> {
    let settings = settings::of(options, &|name| std::env::var(name).ok())?;
    let has_room = |bytes: u64| size_bytes <= bytes / MADE_SHARE;
    let Some(settings) = settings.filter(|s| s.checkpoints && has_room(s.bytes) && location.scheme() != Scheme::Memory)
    else {
        return Ok(None);
    };
    let place = place::of(location, options, std::env::vars_os());
    Ok(Some(Arc::new(made::Made::new(place, &settings))))
}
