//! A cache of objects on the local disk: bounded, off unless it is asked for, shared by processes,
//! safe to delete. It keeps blocks of objects under all that tells one object from another; what
//! has no such identity passes through. `stores` puts it over every store but local disk and
//! memory; it knows nothing of tables.

mod blocks;
mod cached;
mod contents;
mod entry;
mod made;
mod place;
mod settings;
mod shelf;
mod walk;

use std::sync::Arc;

use deltaplane_error::Result;

use crate::backend::Backend;
use crate::location::{Location, Scheme};
use crate::options::Options;

pub use contents::{CacheContents, CachedTable, Cleared, cache_contents, clear_cache};
pub use settings::cache_dir;
pub(crate) use settings::{KEYS, switched_off};

/// A file that is made takes no more than this part of a cache.
const MADE_SHARE: u64 = 4;

/// The same store with the cache over it that options and environment ask for, or as it is.
///
/// `InvalidArgument` for a setting that can't be understood. Nothing is read or written before the
/// first object is.
pub(crate) fn over(backend: Arc<dyn Backend>, location: &Location, options: &Options) -> Result<Arc<dyn Backend>> {
    let settings = settings::of(options, &|name| std::env::var(name).ok())?;
    let is_near = matches!(location.scheme(), Scheme::Local | Scheme::Memory);
    let Some(settings) = settings.filter(|_| !is_near) else {
        return Ok(backend);
    };
    let place = place::of(location, options, std::env::vars_os());
    Ok(Arc::new(cached::Cached::new(backend, place, &settings)))
}

/// Where files can be kept that are made of this location's checkpoints, if options and environment
/// ask for that and the cache has room for one of about this size: one that is most of what the
/// cache may hold would be thrown away by all else.
///
/// `InvalidArgument` for a setting that can't be understood.
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
