//! A cache of objects on the local disk: bounded, off unless it is asked for, shared by processes, safe to delete.
//! It keeps blocks of objects under all that tells one object from another; what has no such identity passes through.
//! `stores` puts it over every store but local disk and memory; it knows nothing of tables.

mod blocks;
mod cached;
mod contents;
mod entry;
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

/// The same store with the cache over it that options and environment ask for, or as it is.
///
/// `InvalidArgument` for a setting that can't be understood. Nothing is read or written before the first object is.
pub(crate) fn over(backend: Arc<dyn Backend>, location: &Location, options: &Options) -> Result<Arc<dyn Backend>> {
    let settings = settings::of(options, &|name| std::env::var(name).ok())?;
    let is_near = matches!(location.scheme(), Scheme::Local | Scheme::Memory);
    let Some(settings) = settings.filter(|_| !is_near) else {
        return Ok(backend);
    };
    let place = place::of(location, options, std::env::vars_os());
    Ok(Arc::new(cached::Cached::new(backend, place, &settings)))
}
