//! What every store can do, as one trait: the seam between `Store` and the files in `stores/`, and
//! where a store from elsewhere is plugged in. Errors leave here with a kind and a message; `Store`
//! adds the table and the file.

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

/// Deletes that are under way at once where a store takes one object a request: enough to hide its
/// latency.
const DELETES_AT_ONCE: usize = 32;
/// Objects of [`Backend::read_all_listed`] that are read at once: enough to hide a store's latency.
const READS_AT_ONCE: usize = 16;

/// Parts of an object that lie so close are one request: what is read between them takes less time
/// than another one.
const CLOSE: u64 = 64 << 10;
/// One that is longer than this is no longer anybody's neighbour: requests for long parts run side
/// by side.
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
    /// Whether the other one shows the same bytes: by their tags, else by size and time.
    pub fn is_same(&self, other: &ObjectInfo) -> bool {
        match (&self.etag, &other.etag) {
            (Some(one), Some(two)) => one == two,
            _ => (self.size_bytes, self.modified_ms) == (other.size_bytes, other.modified_ms),
        }
    }

    /// What tells it from whatever had or gets its name. `None` without a tag, since size and time
    /// are the same for a table that is made anew in one second, and for a weak one, which stands
    /// for more than one content.
    pub fn strong_tag(&self) -> Option<&str> {
        let tag = self.etag.as_deref();
        tag.filter(|tag| !tag.is_empty() && !tag.starts_with("W/"))
    }

    /// Fails with `ObjectNotFound` unless it is what is there now.
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
    /// This call made the object.
    Created,
    /// The object was there already and is unchanged.
    Exists,
}

/// The answer of a store that is near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// The object.
    Found(ObjectInfo, Bytes),
    /// There is none.
    Absent,
}

/// What a store keeps of bytes that it was given to put, from one call to the next. Dropping it
/// gives it up.
#[derive(Default)]
pub struct PutDraft(pub(crate) Option<Box<dyn Any + Send + Sync>>);

/// Listings are streams, so that a directory of millions of files needs no memory of its size.
pub type Listing = BoxStream<'static, Result<ObjectInfo>>;

/// What is directly in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Level {
    /// Keys of the directories.
    pub directories: Vec<String>,
    /// The files.
    pub files: Vec<ObjectInfo>,
}

/// The bytes of one table root. Keys are decoded paths relative to the root.
///
/// What [`Store`](crate::Store) promises of each of these its backend has to keep; above all, of
/// all racing calls of `put_if_absent` for one key exactly one creates it, whole, and whoever lists
/// afterwards finds it.
#[async_trait]
pub trait Backend: Send + Sync {
    /// A key's file on the local disk, where there is one.
    fn local_path(&self, key: &str) -> Option<PathBuf>;
    /// The files directly in `dir` from `from_name` on, by the order of their names' bytes; none of
    /// a missing directory.
    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing>;
    /// All files below `dir`, in any order; none of a missing directory.
    async fn list_all(&self, dir: &str) -> Result<Listing>;
    /// What is directly in `dir`, so that its directories can be listed at once; `None` where a
    /// store can't tell without listing all that is below.
    async fn list_level(&self, _dir: &str) -> Result<Option<Level>> {
        Ok(None)
    }
    /// A whole object; `ObjectNotFound` if there is none.
    async fn read(&self, key: &str) -> Result<Bytes>;
    /// A whole object that a listing or `head` showed: that one or, if another one has its name
    /// now, either of the two.
    async fn read_listed(&self, of: &ObjectInfo) -> Result<Bytes> {
        self.read(&of.key).await
    }
    /// A whole object with what `head` shows of it, where asking for one name costs no more than a
    /// moment and the answer is as new as a listing's; `None` for all other stores, whose callers
    /// list.
    async fn read_if_local(&self, _key: &str) -> Result<Option<ProbeResult>> {
        Ok(None)
    }
    /// Several objects, each like `read_listed`'s, in their order.
    async fn read_all_listed(&self, of: Arc<[ObjectInfo]>) -> Result<Vec<Result<Bytes>>> {
        let mut read = Vec::with_capacity(of.len());
        for some in of.chunks(READS_AT_ONCE) {
            read.extend(futures::future::join_all(some.iter().map(|one| self.read_listed(one))).await);
        }
        Ok(read)
    }
    /// A part of an object, shorter where the object ends; `InvalidArgument` if it ends before the
    /// range begins.
    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes>;
    /// A part of the very object that `head` showed, shorter where it ends; `ObjectNotFound` if
    /// another one has its name now, unless the bytes were kept. A file read in parts would be a
    /// mixture otherwise.
    async fn read_part(&self, of: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        let read = self.read_range(&of.key, range).await;
        // After reading: what is the same now was the same then.
        of.expect(&self.head(&of.key).await?)?;
        read
    }
    /// Several parts of it, each like `read_part`'s.
    async fn read_parts(&self, of: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let runs = runs(ranges);
        let reads = runs.iter().map(|run| self.read_part(of, run.clone()));
        let read = futures::future::try_join_all(reads).await?;
        ranges.iter().map(|range| part(&runs, &read, range)).collect()
    }
    /// Size and time of an object; `ObjectNotFound` if there is none.
    async fn head(&self, key: &str) -> Result<ObjectInfo>;
    /// Writes an object, over one that is there: readers see the old or the new one, whole, and it
    /// is durable.
    async fn put(&self, key: &str, bytes: Bytes) -> Result<()>;
    /// Writes an object if its name is free: durable, and whole for whoever sees it.
    /// `StoreUnavailable` leaves open whether it was written, every other error says that it
    /// wasn't.
    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome>;
    /// The same of bytes that are put under one name after the other until one is free: what
    /// needn't be done again is kept between the calls.
    async fn put_if_absent_again(&self, key: &str, bytes: Bytes, _kept: &mut PutDraft) -> Result<PutOutcome> {
        self.put_if_absent(key, bytes).await
    }
    /// The same as `put_if_absent` of an object that others can do without: a failure of the power
    /// may leave it cut off, or without bytes. `begun` is what `begin_expendable` made of it, or
    /// nothing.
    async fn put_expendable(&self, key: &str, bytes: Bytes, _begun: PutDraft) -> Result<()> {
        self.put_if_absent(key, bytes).await.map(drop)
    }
    /// Begins such an object beside what its caller does next, where a store can without anybody's
    /// seeing it.
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
    /// What a Parquet reader reads an object by.
    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)>;
    /// Begins a new file.
    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>>;
    /// Whether parts of data files are kept, so that it is worth to ask what is there and to read
    /// by `read_part`.
    fn keeps_data(&self) -> bool {
        false
    }
    /// The store behind this one, where this one answers from what it kept.
    fn behind(&self) -> Option<Arc<dyn Backend>> {
        None
    }
}

/// The receiving end of one streaming write. Nobody sees the file before `finish`; dropping it
/// gives it up.
#[async_trait]
pub trait Sink: Send {
    /// Appends bytes, waiting while too many are under way.
    async fn write(&mut self, bytes: Bytes) -> Result<()>;
    /// Makes the file durable and visible.
    async fn finish(self: Box<Self>) -> Result<()>;
    /// Gives the file up and frees what was stored of it.
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

/// Ranges to read that hold all of these, in order: neighbours are one.
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

/// A range of what was read.
fn part(runs: &[Range<u64>], read: &[Bytes], range: &Range<u64>) -> Result<Bytes> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let holding = runs
        .iter()
        .zip(read)
        .find(|(r, _)| r.start <= range.start && range.end <= r.end);
    let (run, bytes) = holding.ok_or_else(|| Error::internal("a range was left out; please report this"))?;
    let at = |place: u64| usize::try_from(place - run.start).map_or(bytes.len(), |n| n.min(bytes.len()));
    match at(range.start)..at(range.end) {
        found if found.is_empty() => Err(Error::invalid_argument(OUT_OF_RANGE)),
        found => Ok(bytes.slice(found)),
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
        let of = |range: &Range<u64>| part(&runs, &read, range);
        let found: Vec<Bytes> = ranges.iter().map(|r| of(r).unwrap()).collect();
        assert_eq!(found, ["ef", "ab", "", "cd"]);
        assert_eq!(of(&(6..8)).unwrap_err().kind(), Kind::InvalidArgument);
    }
}
