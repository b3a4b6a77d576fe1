//! The cache as a backend over another one: a read that states the object's identity is answered
//! from the disk where possible. All other reads go to the store, because without an identity a
//! cached answer could be stale.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Kind, Result};
use futures::{StreamExt, stream};
use tokio::sync::Semaphore;

use super::blocks::{self, Wanted};
use super::entry::Name;
use super::layer::{Layer, no_part};
use super::place::Place;
use super::settings::Settings;
use super::shelf::Shelf;
use crate::backend::{Backend, ObjectInfo};
use crate::runtime::blocking;

/// Concurrent requests for missing blocks, for all reads of a store: the blocks are held beside the
/// bytes that callers get, which bounds that memory to some 64 MiB.
const PARALLEL_REQUESTS: usize = 8;

pub(super) struct Cached {
    inner: Arc<dyn Backend>,
    entries: Arc<Entries>,
    data: bool,
    requests: Semaphore,
}

/// The shelf with the entries, and the prefix of their names.
struct Entries {
    shelf: Shelf,
    place: Place,
}

/// An object with the tag that identifies its content.
#[derive(Clone)]
struct Tagged {
    key: String,
    tag: String,
    size_bytes: u64,
}

impl Tagged {
    /// `None` without such a tag.
    fn of(info: &ObjectInfo) -> Option<Self> {
        let tag = info.strong_tag()?;
        (info.size_bytes > 0).then(|| Tagged {
            key: info.key.clone(),
            tag: tag.to_owned(),
            size_bytes: info.size_bytes,
        })
    }
}

impl Entries {
    fn name(&self, object: &Tagged, block: u64) -> Name {
        let (size, block) = (object.size_bytes.to_string(), block.to_string());
        let place = [self.place.location.as_str(), &self.place.settings];
        Name::new(
            place
                .into_iter()
                .chain([object.key.as_str(), &object.tag, &size, &block]),
        )
    }

    /// Fills in cached bytes; returns the missing blocks.
    fn take(&self, object: &Tagged, ranges: &[Range<u64>], wanted: &mut [Wanted]) -> Vec<u64> {
        let name = |block| self.name(object, block);
        taken(&self.shelf, object.size_bytes, name, ranges, wanted)
    }

    /// Stores the blocks of a run in the cache.
    fn keep(&self, object: &Tagged, run: &Range<u64>, bytes: &Bytes) {
        let start = blocks::span(run.start, object.size_bytes).start;
        for block in run.clone() {
            let span = blocks::span(block, object.size_bytes);
            let within = |place: u64| usize::try_from(place - start).unwrap_or(usize::MAX);
            if let Some(body) = bytes.get(within(span.start)..within(span.end)) {
                self.shelf.put(&self.name(object, block), body);
            }
        }
    }
}

/// The parts being read. Its lock is never held across an await.
type Parts = Arc<Mutex<Vec<Wanted>>>;

impl Cached {
    pub(super) fn new(inner: Arc<dyn Backend>, place: Place, settings: &Settings) -> Self {
        let shelf = Shelf::new(&settings.dir, settings.bytes);
        Cached {
            inner,
            entries: Arc::new(Entries { shelf, place }),
            data: settings.data,
            requests: Semaphore::new(PARALLEL_REQUESTS),
        }
    }

    /// Parts of an object by its blocks; `None` where the cache can't serve them.
    async fn by_blocks(&self, info: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Option<Vec<Bytes>>> {
        let Some(tagged) = Tagged::of(info) else {
            return Ok(None);
        };
        let clip = |r: &Range<u64>| r.start..r.end.min(tagged.size_bytes);
        // The store judges ranges that begin beyond the end.
        if ranges.iter().any(|r| !r.is_empty() && r.start >= tagged.size_bytes) {
            return Ok(None);
        }
        let ranges: Vec<_> = ranges.iter().map(clip).collect();
        let Some(wanted) = ranges.iter().cloned().map(Wanted::new).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let (here, asked) = (Arc::clone(&self.entries), tagged.clone());
        let (wanted, missing) = blocking(move || {
            let mut wanted = wanted;
            let missing = match here.shelf.is_usable() {
                true => Some(here.take(&asked, &ranges, &mut wanted)),
                false => None,
            };
            Ok((wanted, missing))
        })
        .await?;
        let Some(missing) = missing else { return Ok(None) };
        let parts = Arc::new(Mutex::new(wanted));
        let requests = blocks::runs(&missing)
            .into_iter()
            .map(|run| self.fetch(info, &tagged, run, &parts));
        let mut requests = stream::iter(requests.collect::<Vec<_>>()).buffer_unordered(PARALLEL_REQUESTS);
        while let Some(is_whole) = requests.next().await {
            if !is_whole? {
                return Ok(None);
            }
        }
        drop(requests);
        let parts = std::mem::take(&mut *parts.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Some(parts.into_iter().map(Wanted::into_bytes).collect()))
    }

    /// Reads missing blocks, caches them, and fills in the wanted bytes; false if the store
    /// returned another length.
    async fn fetch(&self, info: &ObjectInfo, object: &Tagged, run: Range<u64>, parts: &Parts) -> Result<bool> {
        let last = blocks::span(run.end.saturating_sub(1), object.size_bytes);
        let span = blocks::span(run.start, object.size_bytes).start..last.end;
        let _permit = self.requests.acquire().await;
        let bytes = self.inner.read_part(info, span.clone()).await?;
        if bytes.len() as u64 != span.end - span.start {
            return Ok(false);
        }
        for part in parts.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            part.take_from(span.start, &bytes);
        }
        let (here, object) = (Arc::clone(&self.entries), object.clone());
        blocking(move || {
            here.keep(&object, &run, &bytes);
            Ok(())
        })
        .await?;
        Ok(true)
    }
}

#[async_trait]
impl Layer for Cached {
    fn inner(&self) -> &Arc<dyn Backend> {
        &self.inner
    }

    async fn read_listed(&self, object: &ObjectInfo) -> Result<Bytes> {
        let whole = 0..object.size_bytes;
        match self.by_blocks(object, std::slice::from_ref(&whole)).await {
            Ok(Some(parts)) => parts.into_iter().next().ok_or_else(no_part),
            // The object that has the name now is read instead.
            Err(e) if e.kind() != Kind::ObjectNotFound => Err(e),
            _ => self.inner.read_listed(object).await,
        }
    }

    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.by_blocks(object, ranges).await? {
            Some(parts) => Ok(parts),
            None => self.inner.read_parts(object, ranges).await,
        }
    }

    fn keeps_data(&self) -> bool {
        self.data
    }

    /// Entries are found by their objects' identities, not by names alone.
    fn may_be_cached(&self, _key: &str) -> bool {
        self.entries.shelf.is_usable()
    }

    /// Nothing is written to the disk for a read that was made without the cache.
    fn remember(&self, _object: &ObjectInfo, _bytes: &Bytes) {}

    fn behind(&self) -> Option<Arc<dyn Backend>> {
        Some(Arc::clone(&self.inner))
    }
}

/// Fills in bytes from a file of this size whose blocks have these names in the shelf; returns the
/// missing blocks.
pub(super) fn taken(
    shelf: &Shelf,
    size_bytes: u64,
    name: impl Fn(u64) -> Name,
    ranges: &[Range<u64>],
    wanted: &mut [Wanted],
) -> Vec<u64> {
    let mut missing = Vec::new();
    for block in blocks::needed(ranges) {
        let span = blocks::span(block, size_bytes);
        match shelf.get(&name(block), span.end - span.start) {
            Some(bytes) => wanted.iter_mut().for_each(|w| w.take_from(span.start, &bytes)),
            None => missing.push(block),
        }
    }
    missing
}
