//! Opens a segment, and looks keys up in it.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::prune::CoveredFiles;
use deltaplane_store::Store;
use futures::{StreamExt, TryStreamExt, future, stream};
use xxhash_rust::xxh3::xxh3_64;

use super::{DIRECTORY_ENTRY, Description, MAGIC, TRAILER, bucket_checksum};
use crate::bucket::{BUCKET_ENTRIES, Coding};
use crate::manifest::SegmentInfo;

/// Buckets with at most this many bytes between them are read at once.
const GAP_BYTES: u64 = 64 << 10;
/// Bytes of one read, unless a bucket is larger.
const READ_BYTES: u64 = 8 << 20;
/// Reads at once.
const PARALLEL_READS: usize = 16;
/// A segment of at most this many bytes is read whole when it is opened, and stays in memory.
const WHOLE_BYTES: u64 = 256 << 10;
/// Hashes for which buckets are read while the tail is, from where they are likely to be.
const AHEAD: usize = 4;
/// Bytes of a tail that are read at most: those of a million long paths.
const MOST_TAIL_BYTES: u64 = 1 << 30;

/// An opened segment: its directory and covered files are in memory.
#[derive(Debug)]
pub struct Segment {
    store: Store,
    path: String,
    coding: Coding,
    /// Where each bucket begins, and its checksum.
    buckets: Vec<(u64, u32)>,
    /// The end of the last bucket.
    end: u64,
    /// All buckets of a small segment.
    body: Option<Bytes>,
    covered: Arc<CoveredFiles>,
}

/// A bucket, and the stored bits that are looked for in it.
type Wanted = (usize, Vec<u64>);

/// A part of a segment that was read already, and where it begins.
type Part = (u64, Bytes);

impl Segment {
    /// Opens a segment that a manifest names, and looks hashes up in it: in one round if they are
    /// few, as far as the buckets are where evenly spread keys would put them.
    ///
    /// # Errors
    /// Those of [`open`](Self::open); the look-up's own are its result.
    pub async fn open_and_find(
        store: &Store,
        info: &SegmentInfo,
        table: &str,
        hashes: &[u64],
    ) -> Result<(Segment, Result<HashSet<u32>>)> {
        let likely = likely_places(info, hashes);
        let parts = future::join_all(likely.into_iter().map(|range| async move {
            let bytes = store.read_range(&info.path, range.clone()).await;
            // A part that can't be read now is read by the look-up.
            bytes.ok().map(|bytes| (range.start, bytes))
        }));
        let (segment, parts) = future::join(Self::open(store, info, table), parts).await;
        let segment = segment?;
        let parts: Vec<Part> = parts.into_iter().flatten().collect();
        let matches = segment.find_with(hashes, &parts).await;
        Ok((segment, matches))
    }

    /// Reads the tail of a segment that a manifest names, and all of a small one.
    ///
    /// # Errors
    /// `ObjectNotFound` for a missing one, `CorruptFile` for a damaged one, one of another table,
    /// and one of a format that isn't known; those of the store.
    pub async fn open(store: &Store, info: &SegmentInfo, table: &str) -> Result<Segment> {
        let damaged = |what: &str| damaged(store, &info.path, what);
        let begin = info.size_bytes.checked_sub(info.tail_bytes);
        let begin = begin.filter(|_| info.tail_bytes <= MOST_TAIL_BYTES);
        let begin = begin.ok_or_else(|| damaged("has an impossible size"))?;
        let first = if info.size_bytes <= WHOLE_BYTES { 0 } else { begin };
        let mut tail = match store.read_range(&info.path, first..info.size_bytes).await {
            Err(e) if e.kind() == Kind::InvalidArgument => return Err(damaged("is truncated")),
            tail => tail?,
        };
        if tail.len() as u64 != info.size_bytes - first {
            return Err(damaged("is truncated"));
        }
        let body = tail.split_to(usize::try_from(begin - first).unwrap_or(usize::MAX).min(tail.len()));
        let parts = Parts::of(&tail).ok_or_else(|| damaged("has a wrong checksum or an unknown format"))?;
        let description: Description =
            serde_json::from_slice(parts.description).map_err(|_| damaged("has an unknown description"))?;
        if description.table != table || description.columns != info.columns {
            return Err(damaged("belongs to another table or other columns"));
        }
        let coding = description.coding;
        let (buckets, end) = directory(parts.directory);
        if !coding.is_sound() || buckets.len() as u64 != coding.buckets() || end != begin {
            return Err(damaged("has a wrong directory"));
        }
        let covered = covered_files(parts.files).ok_or_else(|| damaged("has a wrong list of files"))?;
        Ok(Segment {
            store: store.clone(),
            path: info.path.clone(),
            coding,
            buckets,
            end,
            body: (first == 0).then_some(body),
            covered: Arc::new(covered),
        })
    }

    /// The files whose keys it has.
    pub fn covered(&self) -> &Arc<CoveredFiles> {
        &self.covered
    }

    /// The numbers of the covered files that can have a key with one of these hashes: all that
    /// have, and few others. Reads a bucket for each hash, close ones together.
    ///
    /// # Errors
    /// `CorruptFile` for a damaged bucket; those of the store.
    pub async fn find(&self, hashes: &[u64]) -> Result<HashSet<u32>> {
        self.find_with(hashes, &[]).await
    }

    async fn find_with(&self, hashes: &[u64], ahead: &[Part]) -> Result<HashSet<u32>> {
        let mut wanted: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for hash in hashes {
            let (bucket, stored) = self.coding.cut(*hash);
            let bucket = usize::try_from(bucket).unwrap_or(usize::MAX);
            wanted.entry(bucket).or_default().push(stored);
        }
        let reads = self.reads(wanted);
        let matches = stream::iter(reads)
            .map(|read| self.find_in(read, ahead))
            .buffer_unordered(PARALLEL_READS);
        matches
            .try_fold(HashSet::new(), async |mut all, files| {
                all.extend(files);
                Ok(all)
            })
            .await
    }

    /// How many of the first bits of a key's hash it has.
    pub fn hash_bits(&self) -> u32 {
        self.coding.hash_bits()
    }

    /// Calls a function with each entry, (the known bits of a hash followed by zeros, a file's
    /// number), in order.
    ///
    /// # Errors
    /// `CorruptFile` for a damaged bucket; those of the store and of the function.
    pub async fn each(&self, mut take: impl FnMut(u64, u32) -> Result<()> + Send) -> Result<()> {
        let all = (0..self.buckets.len()).map(|bucket| (bucket, Vec::new())).collect();
        for read in self.reads(all) {
            for (bucket, bytes) in self.buckets_of(&read, &[]).await? {
                let mut taken = Ok(());
                let whole = self.coding.each(&bytes, |stored, file| {
                    if taken.is_ok() {
                        taken = take(self.coding.joined(bucket as u64, stored), file);
                    }
                });
                taken?;
                whole.ok_or_else(|| self.damaged_bucket())?;
            }
        }
        Ok(())
    }

    fn damaged_bucket(&self) -> Error {
        damaged(&self.store, &self.path, "has a damaged bucket")
    }

    fn extent(&self, bucket: usize) -> Option<(u64, u64, u32)> {
        let (begin, checksum) = *self.buckets.get(bucket)?;
        let end = self.buckets.get(bucket + 1).map_or(self.end, |(next, _)| *next);
        Some((begin, end, checksum))
    }

    /// Groups buckets that are read together; empty ones need no read.
    fn reads(&self, wanted: BTreeMap<usize, Vec<u64>>) -> Vec<Vec<Wanted>> {
        let mut reads: Vec<(u64, u64, Vec<Wanted>)> = Vec::new();
        for (bucket, mut stored) in wanted {
            let Some((begin, end, _)) = self.extent(bucket).filter(|(begin, end, _)| end > begin) else {
                continue;
            };
            stored.sort_unstable();
            match reads.last_mut() {
                Some((first, last, buckets)) if begin <= *last + GAP_BYTES && end - *first <= READ_BYTES => {
                    *last = end;
                    buckets.push((bucket, stored));
                }
                _ => reads.push((begin, end, vec![(bucket, stored)])),
            }
        }
        reads.into_iter().map(|(_, _, buckets)| buckets).collect()
    }

    async fn find_in(&self, read: Vec<Wanted>, ahead: &[Part]) -> Result<Vec<u32>> {
        let mut files = Vec::new();
        for ((_, stored), (_, bytes)) in read.iter().zip(self.buckets_of(&read, ahead).await?) {
            let whole = self.coding.find(&bytes, stored, |file| files.push(file));
            whole.ok_or_else(|| self.damaged_bucket())?;
        }
        Ok(files)
    }

    /// The bytes of buckets that are read together, by their numbers.
    async fn buckets_of(&self, read: &[Wanted], ahead: &[Part]) -> Result<Vec<(usize, Bytes)>> {
        let damaged = || self.damaged_bucket();
        let extents = read.iter().map(|(bucket, _)| self.extent(*bucket));
        let extents: Option<Vec<_>> = extents.collect();
        let extents = extents.ok_or_else(damaged)?;
        let (Some((begin, ..)), Some((_, end, _))) = (extents.first(), extents.last()) else {
            return Ok(Vec::new());
        };
        let in_memory = self.body.iter().map(|body| (0, body));
        let in_memory = in_memory.chain(ahead.iter().map(|(first, bytes)| (*first, bytes)));
        let known = in_memory
            .into_iter()
            .find_map(|(first, bytes)| part_of(first, bytes, *begin..*end));
        let bytes = match known {
            Some(bytes) => bytes,
            None => match self.store.read_range(&self.path, *begin..*end).await {
                Err(e) if e.kind() == Kind::InvalidArgument => return Err(damaged()),
                bytes => bytes?,
            },
        };
        let mut buckets = Vec::with_capacity(read.len());
        for ((bucket, _), (first, last, checksum)) in read.iter().zip(&extents) {
            let place = |offset: u64| usize::try_from(offset - begin).ok();
            let range = place(*first).zip(place(*last)).filter(|(_, l)| *l <= bytes.len());
            let part = range.map(|(f, l)| bytes.slice(f..l));
            let part = part.filter(|b| bucket_checksum(b) == *checksum).ok_or_else(damaged)?;
            buckets.push((*bucket, part));
        }
        Ok(buckets)
    }
}

/// A range of an object, of which bytes from `first` on are known.
fn part_of(first: u64, bytes: &Bytes, range: Range<u64>) -> Option<Bytes> {
    let place = |offset: u64| usize::try_from(offset.checked_sub(first)?).ok();
    let (begin, end) = (place(range.start)?, place(range.end)?);
    (begin <= end && end <= bytes.len()).then(|| bytes.slice(begin..end))
}

/// Where the buckets of a few hashes are, if keys are spread evenly; none for a small segment.
///
/// The number of entries before a hash of n differs from its share of n by the square root of n / 4
/// on average, and by four times as many hardly ever.
fn likely_places(info: &SegmentInfo, hashes: &[u64]) -> Vec<Range<u64>> {
    let body = info.size_bytes.saturating_sub(info.tail_bytes);
    if hashes.len() > AHEAD || info.size_bytes <= WHOLE_BYTES || body == 0 || info.entries == 0 {
        return Vec::new();
    }
    let entries = info.entries as f64;
    let around = (BUCKET_ENTRIES as f64 + 2.0 * entries.sqrt()) * (body as f64 / entries);
    let place = |hash: u64| {
        let middle = hash as f64 / u64::MAX as f64 * body as f64;
        let begin = (middle - around).max(0.0) as u64;
        begin..((middle + around).ceil() as u64).min(body)
    };
    hashes.iter().map(|h| place(*h)).filter(|r| !r.is_empty()).collect()
}

/// The parts of a tail with a right checksum.
struct Parts<'a> {
    directory: &'a [u8],
    files: &'a [u8],
    description: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(tail: &'a [u8]) -> Option<Parts<'a>> {
        let (rest, magic) = tail.split_last_chunk::<8>()?;
        let (rest, checksum) = rest.split_last_chunk::<8>()?;
        if *magic != MAGIC || u64::from_le_bytes(*checksum) != xxh3_64(rest) {
            return None;
        }
        let (rest, lengths) = rest.split_last_chunk::<{ TRAILER - 16 }>()?;
        let mut lengths = lengths
            .as_chunks::<4>()
            .0
            .iter()
            .map(|l| u32::from_le_bytes(*l) as usize);
        let (directory, rest) = rest.split_at_checked(lengths.next()?)?;
        let (files, rest) = rest.split_at_checked(lengths.next()?)?;
        (rest.len() == lengths.next()?).then_some(Parts {
            directory,
            files,
            description: rest,
        })
    }
}

/// Where each bucket begins with its checksum, and where the last one ends.
fn directory(bytes: &[u8]) -> (Vec<(u64, u32)>, u64) {
    let mut end = 0;
    let (entries, _) = bytes.as_chunks::<DIRECTORY_ENTRY>();
    let begins = entries.iter().map(|entry| {
        let [a, b, c, d, checksum @ ..] = *entry;
        let begin = end;
        end += u64::from(u32::from_le_bytes([a, b, c, d]));
        (begin, u32::from_le_bytes(checksum))
    });
    let begins = begins.collect();
    (begins, end)
}

fn covered_files(mut bytes: &[u8]) -> Option<CoveredFiles> {
    let mut files = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (path, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        files.push((str::from_utf8(path).ok()?.to_owned(), i64::from_le_bytes(*size)));
        bytes = rest;
    }
    Some(files.into_iter().collect())
}

fn damaged(store: &Store, path: &str, what: &str) -> Error {
    let e = Error::corrupt_file(format!(
        "a segment of the table's key index {what}: files are read without it; build the index again to replace it"
    ));
    e.with_table(store.location().as_str()).with_path(path)
}
