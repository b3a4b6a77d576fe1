//! The newest parts of log files in memory: bounded, on by default, shared by all tables of a
//! process. Files of the log are small, never change and are read by every open and plan, and a
//! request for one takes some ten thousand times as long as its copy from memory. Objects without
//! an identity are not cached.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::Result;
use lru::LruCache;

use super::layer::Layer;
use super::place::Place;
use crate::backend::{Backend, LOG_DIR, ObjectInfo};
use crate::per_process::PerProcess;

/// A part that is larger than one in this many of the cache is not stored: it would evict too many
/// others.
const LARGEST_SHARE: u64 = 8;

static RECENT: PerProcess<Mutex<Recent>> = PerProcess::new(|| Mutex::new(Recent::new()), drop);

fn recent() -> MutexGuard<'static, Recent> {
    RECENT.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// A store's log file with its full identity.
type Name = (Arc<Place>, String, String, u64);

/// Parts of objects; the least recently used object leaves first.
struct Recent {
    objects: LruCache<Name, Vec<Part>>,
    /// How many of the objects have a name in a place: those that replaced each other.
    named: HashMap<(Arc<Place>, String), usize>,
    bytes: u64,
}

/// Bytes from an offset on.
struct Part {
    start: u64,
    bytes: Bytes,
}

impl Part {
    fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }

    fn slice(&self, range: &Range<u64>) -> Option<Bytes> {
        let own = self.range();
        let is_within = own.start <= range.start && range.end <= own.end;
        let offset = |place: u64| usize::try_from(place - own.start).ok();
        is_within
            .then(|| Some(self.bytes.slice(offset(range.start)?..offset(range.end)?)))
            .flatten()
    }
}

impl Recent {
    fn new() -> Self {
        Recent {
            objects: LruCache::unbounded(),
            named: HashMap::new(),
            bytes: 0,
        }
    }

    fn has_named(&self, place: &Arc<Place>, key: &str) -> bool {
        self.named.contains_key(&(Arc::clone(place), key.to_owned()))
    }

    fn get(&mut self, name: &Name, range: &Range<u64>) -> Option<Bytes> {
        self.objects.get(name)?.iter().find_map(|part| part.slice(range))
    }

    /// Stores a copy, since a slice would hold all bytes of its answer, then evicts objects until
    /// at most `most` bytes are left.
    fn put(&mut self, name: &Name, start: u64, bytes: &Bytes, most: u64) {
        let new = Part {
            start,
            bytes: Bytes::copy_from_slice(bytes),
        };
        let range = new.range();
        if !self.objects.contains(name) {
            *self.named.entry((Arc::clone(&name.0), name.1.clone())).or_default() += 1;
        }
        let parts = self.objects.get_or_insert_mut(name.clone(), Vec::new);
        let is_covered = |old: &Part| range.start <= old.start && old.range().end <= range.end;
        for old in parts.extract_if(.., |old| is_covered(old)) {
            self.bytes -= old.bytes.len() as u64;
        }
        self.bytes += new.bytes.len() as u64;
        parts.push(new);
        while self.bytes > most
            && let Some((name, evicted)) = self.objects.pop_lru()
        {
            if let Entry::Occupied(mut named) = self.named.entry((name.0, name.1)) {
                match named.get() {
                    0 | 1 => drop(named.remove()),
                    _ => *named.get_mut() -= 1,
                }
            }
            self.bytes -= evicted.iter().map(|part| part.bytes.len() as u64).sum::<u64>();
        }
    }
}

/// A backend whose log files are read from memory where possible.
pub(super) struct InMemory {
    inner: Arc<dyn Backend>,
    place: Arc<Place>,
    /// The bound on the bytes of the process's cache after a read of this store.
    most: u64,
}

impl InMemory {
    pub(super) fn new(inner: Arc<dyn Backend>, place: Place, most: u64) -> Self {
        InMemory {
            inner,
            place: Arc::new(place),
            most,
        }
    }

    /// `None` for an object that isn't a file of the log, or has no identity.
    fn name(&self, object: &ObjectInfo) -> Option<Name> {
        let is_log = object
            .key
            .strip_prefix(LOG_DIR)
            .is_some_and(|below| below.starts_with('/'));
        let tag = object.strong_tag().filter(|_| is_log && object.size_bytes > 0)?;
        Some((
            Arc::clone(&self.place),
            object.key.clone(),
            tag.to_owned(),
            object.size_bytes,
        ))
    }

    fn has_room(&self, range: &Range<u64>) -> bool {
        range.end.saturating_sub(range.start) <= self.most / LARGEST_SHARE
    }

    /// Parts of the exact object, those that are missing by one call of the store.
    async fn parts(&self, name: &Name, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let within = |r: &Range<u64>| r.start..r.end.min(object.size_bytes);
        let mut parts: Vec<Option<Bytes>> = {
            let mut recent = recent();
            ranges.iter().map(|r| recent.get(name, &within(r))).collect()
        };
        let lacks = |(range, part): (&Range<u64>, &Option<Bytes>)| part.is_none().then(|| range.clone());
        let missing: Vec<Range<u64>> = ranges.iter().zip(&parts).filter_map(lacks).collect();
        let mut read = match missing.is_empty() {
            true => Vec::new(),
            false => self.inner.read_parts(object, &missing).await?,
        }
        .into_iter();
        for (part, range) in parts.iter_mut().zip(ranges) {
            if part.is_some() {
                continue;
            }
            let Some(bytes) = read.next() else { continue };
            let range = within(range);
            // Bytes of another length are judged above, and never stored.
            let is_whole = bytes.len() as u64 == range.end.saturating_sub(range.start);
            if is_whole && !bytes.is_empty() && self.has_room(&range) {
                recent().put(name, range.start, &bytes, self.most);
            }
            *part = Some(bytes);
        }
        Ok(parts.into_iter().map(Option::unwrap_or_default).collect())
    }
}

#[async_trait]
impl Layer for InMemory {
    fn inner(&self) -> &Arc<dyn Backend> {
        &self.inner
    }

    async fn read_listed(&self, object: &ObjectInfo) -> Result<Bytes> {
        let whole = 0..object.size_bytes;
        let Some(name) = self.name(object).filter(|_| self.has_room(&whole)) else {
            return self.inner.read_listed(object).await;
        };
        let known = recent().get(&name, &whole);
        if let Some(bytes) = known {
            return Ok(bytes);
        }
        // The store's own read of a whole object: it may return another object that has the name
        // now, which is then of another length and judged by the caller.
        let bytes = self.inner.read_listed(object).await?;
        self.remember(object, &bytes);
        Ok(bytes)
    }

    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        // The store judges ranges that are empty or begin beyond the end.
        let is_plain = |r: &Range<u64>| r.start < r.end && r.start < object.size_bytes;
        match self.name(object).filter(|_| ranges.iter().all(is_plain)) {
            Some(name) => self.parts(&name, object, ranges).await,
            None => self.inner.read_parts(object, ranges).await,
        }
    }

    fn keeps_data(&self) -> bool {
        self.inner.keeps_data()
    }

    fn may_be_cached(&self, key: &str) -> bool {
        recent().has_named(&self.place, key) || self.inner.may_be_cached(key)
    }

    fn remember(&self, object: &ObjectInfo, bytes: &Bytes) {
        let is_whole = bytes.len() as u64 == object.size_bytes && self.has_room(&(0..object.size_bytes));
        if let Some(name) = self.name(object).filter(|_| is_whole) {
            recent().put(&name, 0, bytes, self.most);
        }
    }

    fn behind(&self) -> Option<Arc<dyn Backend>> {
        self.inner.behind().or_else(|| Some(Arc::clone(&self.inner)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::location::Location;
    use crate::options::Options;

    fn name(key: &str) -> Name {
        let location = Location::parse("s3://bucket/table").unwrap();
        let place = super::super::place::of(&location, &Options::new([]), std::iter::empty());
        (Arc::new(place), key.to_owned(), "tag".to_owned(), 100)
    }

    fn held(recent: &Recent) -> u64 {
        let parts = recent.objects.iter().flat_map(|(_, parts)| parts);
        parts.map(|part| part.bytes.len() as u64).sum()
    }

    #[test]
    fn the_bound_evicts_the_least_recently_used_object() {
        let mut recent = Recent::new();
        let body = Bytes::from(vec![7; 40]);
        recent.put(&name("a"), 0, &body, 100);
        recent.put(&name("b"), 0, &body, 100);
        assert!(recent.get(&name("a"), &(0..40)).is_some());
        recent.put(&name("c"), 0, &body, 100);
        let is_there = |recent: &mut Recent, key: &str| recent.get(&name(key), &(0..1)).is_some();
        assert_eq!(
            ["a", "b", "c"].map(|key| is_there(&mut recent, key)),
            [true, false, true]
        );
        let place = |key: &str| recent.has_named(&name(key).0, key);
        assert_eq!(["a", "b", "c"].map(place), [true, false, true]);
        assert_eq!((recent.bytes, held(&recent)), (80, 80));
    }

    #[test]
    fn a_part_replaces_those_within_it() {
        let mut recent = Recent::new();
        let body: Bytes = (0..100).collect::<Vec<u8>>().into();
        for range in [0..10, 20..30, 90..100, 5..40] {
            recent.put(&name("a"), range.start as u64, &body.slice(range), 1000);
        }
        assert_eq!((recent.bytes, held(&recent)), (55, 55));
        for (range, expected) in [
            (6..40, true),
            (0..10, true),
            (0..11, false),
            (39..41, false),
            (95..100, true),
        ] {
            let part = recent.get(&name("a"), &range);
            let start = usize::try_from(range.start).unwrap();
            let end = usize::try_from(range.end).unwrap();
            assert_eq!(part, expected.then(|| body.slice(start..end)), "{range:?}");
        }
    }
}
