//! The operations of every store as one trait, between `Store` and the files in `stores/`; stores
//! of other crates implement it, too. Errors leave here with a kind and a message; `Store` adds the
//! table and the file.

use std::any::Any;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use futures::stream::BoxStream;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::error::OUT_OF_RANGE;

/// Concurrent deletes on stores that delete one object per request: enough to hide the latency.
const DELETES_AT_ONCE: usize = 32;
/// Objects that [`Backend::read_all_listed`] reads at once: enough to hide a store's latency.
const READS_AT_ONCE: usize = 16;

/// Ranges of an object with a smaller gap are read in one request: reading the gap takes less time
/// than another request.
const CLOSE: u64 = 64 << 10;
/// A run of ranges that is longer than this is not extended: long requests run side by side.
const LONGEST_RUN: u64 = 8 << 20;

/// An object of a store, as a listing or `head` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The decoded path relative to the table root, with `/` between its parts.
    pub key: String,
    /// The object's length.
    pub size_bytes: u64,
    /// When it was last written, in milliseconds since 1970 (UTC).
    pub modified_ms: i64,
    /// A value that changes whenever the content does, where the store has one.
    pub etag: Option<String>,
}

impl ObjectInfo {
    /// Whether both describe the same bytes: by their tags, or without tags by size and time.
    pub fn is_same(&self, other: &ObjectInfo) -> bool {
        match (&self.etag, &other.etag) {
            (Some(first), Some(two)) => first == two,
            _ => (self.size_bytes, self.modified_ms) == (other.size_bytes, other.modified_ms),
        }
    }

    /// The tag that identifies this content among all that ever have this name. `None` without a
    /// tag, since size and time may be equal for a table that is created again within a second;
    /// also for a weak tag, which several contents may share.
    pub fn strong_tag(&self) -> Option<&str> {
        let tag = self.etag.as_deref();
        tag.filter(|tag| !tag.is_empty() && !tag.starts_with("W/"))
    }

    /// Fails with `ObjectNotFound` unless `now` is the same object.
    pub fn expect(&self, now: &ObjectInfo) -> Result<()> {
        match self.is_same(now) {
            true => Ok(()),
            false => Err(Error::new(
                Kind::ObjectNotFound,
                "another writer replaced the object while it was being read: read it again from the start",
            )),
        }
    }
}

/// The answer of a put-if-absent: a lost race is a value, not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// This call created the object.
    Created,
    /// The object was there already and is unchanged.
    Exists,
}

/// The answer of a local store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// The object.
    Found(ObjectInfo, Bytes),
    /// There is none.
    Absent,
}

/// State that a store holds between repeated puts of the same bytes. Dropping it discards it.
#[derive(Default)]
pub struct PutDraft(pub(crate) Option<Box<dyn Any + Send + Sync>>);

/// Listings are streams, so that listing a directory of millions of files takes bounded memory.
pub type Listing = BoxStream<'static, Result<ObjectInfo>>;

/// The direct children of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Level {
    /// Keys of the directories.
    pub directories: Vec<String>,
    /// The files.
    pub files: Vec<ObjectInfo>,
}

/// The bytes of one table root. Keys are decoded paths relative to the root.
///
/// A backend has to keep the promises that [`Store`](crate::Store) makes of each method. Above all:
/// of all racing calls of `put_if_absent` for one key exactly one creates it, whole, and every
/// later listing shows it.
#[async_trait]
pub trait Backend: Send + Sync {
    /// A key's file on the local disk, where there is one.
    fn local_path(&self, key: &str) -> Option<PathBuf>;
    /// The files directly in `dir` whose names sort at or after `from_name`, in the order of their
    /// bytes; empty for a missing directory.
    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing>;
    /// All files below `dir`, in any order; empty for a missing directory.
    async fn list_all(&self, dir: &str) -> Result<Listing>;
    /// The direct children of `dir`, so that its directories can be listed in parallel; `None`
    /// where a store can't tell without listing all that is below.
    async fn list_level(&self, _dir: &str) -> Result<Option<Level>> {
        Ok(None)
    }
    /// The directories at and below `dir`, except the root, that have no file at any depth and were
    /// last changed before a time in milliseconds, each after those below it; none where a store
    /// has no directories of its own.
    async fn empty_directories(&self, _dir: &str, _before_ms: i64) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Removes directories in this order; those that have entries stay.
    async fn remove_directories(&self, _dirs: &[String]) -> Result<()> {
        Ok(())
    }
    /// A whole object; `ObjectNotFound` if there is none.
    async fn read(&self, key: &str) -> Result<Bytes>;
    /// A whole object that a listing or `head` returned. If another object has its name now, either
    /// of the two.
    async fn read_listed(&self, object: &ObjectInfo) -> Result<Bytes> {
        self.read(&object.key).await
    }
    /// Reads a whole object and its `head` in one step, on stores where this takes microseconds and
    /// is as fresh as a listing. `None` on all other stores, whose callers list.
    async fn read_if_local(&self, _key: &str) -> Result<Option<ProbeResult>> {
        Ok(None)
    }
    /// Several objects, each as by `read_listed`, in their order.
    async fn read_all_listed(&self, objects: Arc<[ObjectInfo]>) -> Result<Vec<Result<Bytes>>> {
        let mut read = Vec::with_capacity(objects.len());
        for some in objects.chunks(READS_AT_ONCE) {
            read.extend(futures::future::join_all(some.iter().map(|object| self.read_listed(object))).await);
        }
        Ok(read)
    }
    /// A part of an object, shorter where the object ends; `InvalidArgument` if it ends before the
    /// range begins.
    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes>;
    /// A part of the exact object that `head` returned, shorter where it ends; `ObjectNotFound` if
    /// another object has its name now, unless a cache has the bytes. Without this check a file
    /// read in parts could mix two contents.
    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        let read = self.read_range(&object.key, range).await;
        // Checked after reading: if the object is the same now, it was the same during the read.
        object.expect(&self.head(&object.key).await?)?;
        read
    }
    /// Several parts of it, each as by `read_part`.
    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let runs = runs(ranges);
        let reads = runs.iter().map(|run| self.read_part(object, run.clone()));
        let read = futures::future::try_join_all(reads).await?;
        ranges.iter().map(|range| part(&runs, &read, range)).collect()
    }
    /// Size and time of an object; `ObjectNotFound` if there is none.
    async fn head(&self, key: &str) -> Result<ObjectInfo>;
    /// Writes an object, replacing an existing one: readers see the old or the new one, whole, and
    /// it is durable.
    async fn put(&self, key: &str, bytes: Bytes) -> Result<()>;
    /// Writes an object if its name is free: durable, and visible only as a whole. After
    /// `StoreUnavailable` it may or may not have been written; after every other error it wasn't.
    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome>;
    /// `put_if_absent` for bytes that are put under one name after another until one is free; the
    /// draft saves repeated work between the calls.
    async fn put_if_absent_again(&self, key: &str, bytes: Bytes, _kept: &mut PutDraft) -> Result<PutOutcome> {
        self.put_if_absent(key, bytes).await
    }
    /// `put_if_absent` without waiting for durability, for an object that can be recreated: after a
    /// power failure it may be truncated or empty. `begun` is the result of `begin_expendable`, or
    /// nothing.
    async fn put_expendable(&self, key: &str, bytes: Bytes, _begun: PutDraft) -> Result<()> {
        self.put_if_absent(key, bytes).await.map(drop)
    }
    /// Begins writing such an object in the background, on stores where it stays invisible until it
    /// is put.
    fn begin_expendable(&self, _key: &str, _bytes: &Bytes) -> PutDraft {
        PutDraft::default()
    }
    /// Deletes an object; it may be absent.
    async fn delete(&self, key: &str) -> Result<()>;
    /// Deletes several objects, each of which may be absent; an error leaves open which of them are
    /// gone.
    async fn delete_all(&self, keys: &[String]) -> Result<()> {
        for some in keys.chunks(DELETES_AT_ONCE) {
            futures::future::try_join_all(some.iter().map(|key| self.delete(key))).await?;
        }
        Ok(())
    }
    /// The object_store and the path through which a Parquet reader reads an object.
    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)>;
    /// Begins a new file.
    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>>;
    /// Whether parts of data files are cached, so that a `head` before reading by `read_part` pays.
    fn keeps_data(&self) -> bool {
        false
    }
    /// Whether a cache may have the object under this name. Only its identity, which a listing
    /// shows, says whether it is the same.
    fn may_be_cached(&self, _key: &str) -> bool {
        false
    }
    /// Puts this object, which was read whole by its name, into the cache in memory.
    fn remember(&self, _object: &ObjectInfo, _bytes: &Bytes) {}
    /// The store behind this one, if this one is a cache.
    fn behind(&self) -> Option<Arc<dyn Backend>> {
        None
    }
    /// What a wrapper of [`Store::wrapped`](crate::Store::wrapped) shows to the crate that made it.
    fn wrapper(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        None
    }
}

/// The receiving end of one streaming write. The file is invisible before `finish`; dropping the
/// sink discards it.
#[async_trait]
pub trait Sink: Send {
    /// Appends bytes, waiting while too many are under way.
    async fn write(&mut self, bytes: Bytes) -> Result<()>;
    /// Makes the file durable and visible.
    async fn finish(self: Box<Self>) -> Result<()>;
    /// Discards the file and frees its stored parts.
    async fn abort(self: Box<Self>) -> Result<()>;
}

/// The table's directory whose files readers find by listing it.
pub(crate) const LOG_DIR: &str = "_delta_log";

/// `dir` and `name` as one key; the root directory is the empty string.
pub(crate) fn join_key(dir: &str, name: &str) -> String {
    match dir.trim_matches('/') {
        "" => name.to_owned(),
        dir => [dir, "/", name].concat(),
    }
}

/// Ranges that cover all of these, in order; ranges close to each other are merged.
fn runs(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<&Range<u64>> = ranges.iter().filter(|r| !r.is_empty()).collect();
    sorted.sort_by_key(|r| (r.start, r.end));
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match runs.last_mut() {
            Some(run) if range.end <= run.end => {}
            Some(run)
                if range.start <= run.end.saturating_add(CLOSE)
                    && range.end.saturating_sub(run.start) <= LONGEST_RUN =>
            {
                run.end = range.end;
            }
            _ => runs.push(range.clone()),
        }
    }
    runs
}

/// Cuts a range out of the runs that were read.
fn part(runs: &[Range<u64>], read: &[Bytes], range: &Range<u64>) -> Result<Bytes> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let holding = runs
        .iter()
        .zip(read)
        .find(|(r, _)| r.start <= range.start && range.end <= r.end);
    let (run, bytes) = holding.ok_or_else(|| Error::internal("a range was left out; please report this"))?;
    let offset = |place: u64| usize::try_from(place - run.start).map_or(bytes.len(), |n| n.min(bytes.len()));
    match offset(range.start)..offset(range.end) {
        clipped if clipped.is_empty() => Err(Error::invalid_argument(OUT_OF_RANGE)),
        clipped => Ok(bytes.slice(clipped)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use super::*;

    #[test]
    fn neighbours_are_read_at_once() {
        let far = 10 + CLOSE;
        assert_eq!(
            runs(&[far + 20..far + 30, 0..5, 5..10, 3..3]),
            [0..10, far + 20..far + 30]
        );
        assert_eq!(runs(&[0..10, far..far + 1, 2..4]), [0..far + 1]);
        assert_eq!(runs(&[0..LONGEST_RUN, LONGEST_RUN..LONGEST_RUN + 1]).len(), 2);
        assert!(runs(&[]).is_empty());
    }

    #[test]
    fn parts_end_where_the_object_does() {
        let ranges = [4..8, 0..2, 5..5, 2..4];
        let (runs, read) = (runs(&ranges), [Bytes::from_static(b"abcdef")]);
        let part_of = |range: &Range<u64>| part(&runs, &read, range);
        let parts: Vec<Bytes> = ranges.iter().map(|r| part_of(r).unwrap()).collect();
        assert_eq!(parts, ["ef", "ab", "", "cd"]);
        assert_eq!(part_of(&(6..8)).unwrap_err().kind(), Kind::InvalidArgument);
    }
}
