//! Bytes of one Parquet file: a local file is read in place, a remote one by ranges fetched
//! beforehand. Knows only offsets.

use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{ObjectInfo, Store};
use futures::{StreamExt, TryStreamExt, stream};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use super::{FileRead, SourceFile};

/// The first read of a remote file's end: has most footers, so that one request is enough.
const FOOTER_BYTES: u64 = 64 << 10;
/// Wanted ranges closer than this are fetched in one request: a request costs more than the gap.
pub(super) const MERGE_GAP_BYTES: u64 = 1 << 20;
/// Concurrent requests for one row group.
const PARALLEL_REQUESTS: usize = 8;
/// A longer range is fetched by several requests at once, each about as long as this: one
/// connection to a store transfers less than a machine can receive.
const REQUEST_BYTES: u64 = 8 << 20;

/// Files up to this size are read by one request where all of their columns are needed.
const WHOLE_BYTES: u64 = 2 * REQUEST_BYTES;

/// Attempts to read a range whose answer is shorter than the log states.
pub(super) const READS: usize = 4;

/// A local file of at most these bytes is read by one system call: each takes about as long as to
/// copy some kilobytes.
const WHOLE_LOCAL_BYTES: u64 = 64 << 10;

/// An opened data file.
#[derive(Clone)]
pub(super) enum Source {
    /// On the local disk.
    Local(Arc<LocalFile>),
    /// In an object store.
    Remote(Remote),
}

/// A file in an object store.
#[derive(Clone)]
pub(super) struct Remote {
    store: Store,
    key: String,
    size_bytes: u64,
    /// The store's object, if identifying it is useful because its bytes may be cached.
    shown: Option<ObjectInfo>,
    /// The file's last bytes, which the footer's read returned: all of a small file, so that no
    /// request is needed for its columns.
    tail: Arc<OnceLock<Bytes>>,
}

/// Finds the file.
pub(super) async fn open(store: &Store, file: &FileRead) -> Result<Source> {
    let (store, key) = store.resolve(&file.path)?;
    if let Some(path) = store.local_path(&key) {
        let opened = blocking(move || LocalFile::open(&path)).await?;
        return Ok(Source::Local(Arc::new(opened.map_err(not_opened)?)));
    }
    // The log states a file's size, but not its identity among files of the same name.
    let shown = match file.size_bytes == 0 || store.keeps_data() {
        true => Some(store.head(&key).await.map_err(not_found)?),
        false => None,
    };
    let size_bytes = match (file.size_bytes, &shown) {
        (0, Some(shown)) => shown.size_bytes,
        (n, _) => n,
    };
    // Without a tag nothing is cached, and reading an exact object may cost a `head` each time.
    let shown = shown.filter(|s| s.etag.is_some() && store.keeps_data());
    Ok(Source::Remote(Remote {
        store,
        key,
        size_bytes,
        shown,
        tail: Arc::new(file.tail.clone().map_or_else(OnceLock::new, OnceLock::from)),
    }))
}

/// Opens files of the local disk and reads their footers, in one task. `None` if one of them is
/// elsewhere, or makes the decoder panic, whose error must name the file.
pub(super) async fn open_local(store: &Store, files: &[FileRead], page_index: bool) -> Option<Vec<Result<SourceFile>>> {
    let paths = files.iter().map(|file| {
        let (store, key) = store.resolve(&file.path).ok()?;
        store.local_path(&key)
    });
    let paths: Vec<_> = paths.collect::<Option<_>>()?;
    let open = move |path: PathBuf| {
        let source = Arc::new(LocalFile::open(&path).map_err(not_opened)?);
        let footer = footer_reader(page_index).parse_and_finish(source.as_ref());
        Ok(SourceFile {
            source: Source::Local(source),
            footer: Arc::new(footer.map_err(|e| corrupt(&e))?),
        })
    };
    blocking(move || paths.into_iter().map(open).collect()).await.ok()
}

fn footer_reader(page_index: bool) -> ParquetMetaDataReader {
    let policy = if page_index {
        PageIndexPolicy::Optional
    } else {
        PageIndexPolicy::Skip
    };
    ParquetMetaDataReader::new().with_page_index_policy(policy)
}

fn not_opened(e: std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::NotFound => missing(),
        _ => Error::new(Kind::StoreDenied, format!("opening a data file failed: {e}")).with_source(e),
    }
}

fn missing() -> Error {
    Error::file_missing(
        "a data file that the table's log names is missing: restore it from a backup, or repair the table so that the log no longer names it (FSCK REPAIR TABLE); it may have been vacuumed or deleted by hand",
    )
}

fn not_found(e: Error) -> Error {
    if e.kind() == Kind::ObjectNotFound {
        missing().with_source(e)
    } else {
        e
    }
}

pub(super) fn corrupt(e: &ParquetError) -> Error {
    Error::corrupt_file(format!(
        "a data file isn't readable Parquet ({e}): it was cut short or damaged; restore it, or remove it from the table"
    ))
}

/// Runs file access or decoding where it may block. A panic of the decoder means a damaged file.
pub(super) async fn blocking<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(f).await.map_err(|e| {
        if e.is_panic() {
            panicked()
        } else {
            Error::internal(format!("reading a data file was interrupted: {e}"))
        }
    })
}

/// Decodes on this thread. A panic of the decoder means a damaged file.
pub(super) fn unpanicking<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> Error {
    Error::corrupt_file(
        "decoding a data file failed in an unexpected way: it is most likely damaged; restore it, or remove it from the table",
    )
}

impl Source {
    /// The file's footer, with its page index if it exists and is wanted.
    pub(super) async fn footer(&self, page_index: bool) -> Result<Arc<ParquetMetaData>> {
        let reader = footer_reader(page_index);
        let footer = match self {
            Source::Local(file) => {
                let file = file.clone();
                blocking(move || reader.parse_and_finish(file.as_ref()))
                    .await?
                    .map_err(|e| corrupt(&e))
            }
            Source::Remote(file) => file.footer(reader).await,
        };
        footer.map(Arc::new)
    }

    /// Whether byte ranges must be fetched before decoding.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self, Source::Remote(_))
    }

    /// The file's size.
    pub(super) fn size_bytes(&self) -> u64 {
        match self {
            Source::Local(file) => file.size_bytes,
            Source::Remote(file) => file.size_bytes,
        }
    }

    /// Whether reading these bytes takes no request.
    pub(super) fn has(&self, range: &Range<u64>) -> bool {
        match self {
            Source::Local(_) => true,
            Source::Remote(file) => file.in_tail(range).is_some(),
        }
    }

    /// Reads all of a remote file that isn't large, for a caller that needs all of its columns: no
    /// later read is a request. Returns the bytes.
    pub(super) async fn read_whole(&self) -> Result<Option<Bytes>> {
        let Source::Remote(file) = self else { return Ok(None) };
        if file.tail.get().is_none() && (1..=WHOLE_BYTES).contains(&file.size_bytes) {
            let bytes = file.request(0..file.size_bytes).await?;
            let _ = file.tail.set(bytes);
        }
        Ok(file.tail.get().cloned())
    }

    /// Input for a decoder that reads nothing outside these ranges.
    pub(super) async fn fetch(&self, ranges: Vec<Range<u64>>) -> Result<Input> {
        match self {
            Source::Local(file) => Ok(Input::Local(file.clone())),
            Source::Remote(file) => {
                let merged = merge(ranges);
                let pieces: Vec<Bytes> = stream::iter(merged.iter().flat_map(pieces))
                    .map(|piece| file.read(piece))
                    .buffered(PARALLEL_REQUESTS)
                    .try_collect()
                    .await?;
                let mut pieces_left = pieces.into_iter();
                let joined = merged.iter().map(|range| {
                    let own = pieces_left.by_ref().take(self::pieces(range).count());
                    (range.start, joined(own.collect()))
                });
                Ok(Input::Parts(Arc::new(joined.collect()), file.size_bytes))
            }
        }
    }
}

impl Remote {
    /// Bytes within the size that the log states: from the tail where that has them.
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        match self.in_tail(&range) {
            Some(bytes) => Ok(bytes),
            None => self.request(range).await,
        }
    }

    fn in_tail(&self, range: &Range<u64>) -> Option<Bytes> {
        let tail = self.tail.get()?;
        let start = self.size_bytes.checked_sub(tail.len() as u64)?;
        let offset = |place: u64| usize::try_from(place.min(self.size_bytes).checked_sub(start)?).ok();
        let (from, to) = (offset(range.start)?, offset(range.end)?);
        (from <= to).then(|| tail.slice(from..to))
    }

    /// Requests bytes of the store. A shorter answer is read again, then refused.
    async fn request(&self, range: Range<u64>) -> Result<Bytes> {
        let expected = range.end.min(self.size_bytes).saturating_sub(range.start);
        let mut length = 0;
        for _ in 0..READS {
            let read = match &self.shown {
                Some(shown) => self.store.read_part(shown, range.clone()).await,
                None => self.store.read_range(&self.key, range.clone()).await,
            };
            let bytes = match read {
                // Deleting a file takes more than one answer that it isn't there.
                Err(e) if e.kind() == Kind::ObjectNotFound && self.is_there().await => continue,
                read => read.map_err(not_found)?,
            };
            length = bytes.len() as u64;
            if length == expected {
                return Ok(bytes);
            }
        }
        Err(Error::corrupt_file(format!(
            "the store sent {length} of the {expected} bytes that the log states for a part of a data file: the file was cut short, or a proxy cuts its answers; restore it, or remove it from the table"
        )))
    }

    /// Whether the file has the size that the log states.
    async fn is_there(&self) -> bool {
        let there = self.store.head(&self.key).await;
        there.is_ok_and(|there| there.size_bytes == self.size_bytes)
    }

    async fn footer(&self, mut reader: ParquetMetaDataReader) -> Result<ParquetMetaData> {
        let size_bytes = self.size_bytes;
        let mut wanted = FOOTER_BYTES.min(size_bytes);
        // The second read requests exactly the needed bytes.
        for _ in 0..3 {
            let tail = self.read(size_bytes - wanted..size_bytes).await?;
            match reader.try_parse_sized(&tail, size_bytes) {
                Ok(()) => {
                    // Another read of the footer may have stored the same bytes first.
                    let _ = self.tail.set(tail);
                    return reader.finish().map_err(|e| corrupt(&e));
                }
                Err(ParquetError::NeedMoreData(n)) => wanted = u64::try_from(n).unwrap_or(size_bytes).min(size_bytes),
                Err(e) => return Err(corrupt(&e)),
            }
        }
        Err(Error::corrupt_file(
            "a data file's footer gives no consistent size: it was cut short or damaged",
        ))
    }
}

/// Cuts a range into the ranges of its requests.
fn pieces(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let end = range.end;
    let step = usize::try_from(REQUEST_BYTES).unwrap_or(usize::MAX);
    let whole = range.end - range.start <= WHOLE_BYTES;
    let starts = (range.start..end).step_by(if whole { usize::MAX } else { step });
    starts.map(move |start| match whole {
        true => start..end,
        false => start..start.saturating_add(REQUEST_BYTES).min(end),
    })
}

/// The bytes of a range from those of its pieces.
fn joined(pieces: Vec<Bytes>) -> Bytes {
    match <[Bytes; 1]>::try_from(pieces) {
        Ok([whole]) => whole,
        Err(pieces) => pieces.concat().into(),
    }
}

fn merge(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|r| r.start);
    let mut out: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for r in ranges {
        match out.last_mut() {
            Some(last) if r.start <= last.end.saturating_add(MERGE_GAP_BYTES) => last.end = last.end.max(r.end),
            _ => out.push(r),
        }
    }
    out
}

/// A local file read by position, so that threads can share it.
pub(crate) struct LocalFile {
    file: File,
    size_bytes: u64,
    /// All bytes of a small file.
    whole: Option<Bytes>,
}

impl LocalFile {
    fn open(path: &std::path::Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        let size_bytes = file.metadata()?.len();
        let mut opened = LocalFile {
            file,
            size_bytes,
            whole: None,
        };
        if size_bytes <= WHOLE_LOCAL_BYTES {
            // A reader that needs the bytes gets the error.
            opened.whole = read_exact(&opened, 0, usize::try_from(size_bytes).unwrap_or(0)).ok();
        }
        Ok(opened)
    }

    /// The bytes from `start` on, if the file is in memory.
    fn bytes_from(&self, start: u64) -> Option<Bytes> {
        let whole = self.whole.as_ref()?;
        let start = usize::try_from(start).ok().filter(|start| *start <= whole.len())?;
        Some(whole.slice(start..))
    }

    #[cfg(unix)]
    fn read_at(&self, out: &mut [u8], offset: u64) -> std::io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.file, out, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, out: &mut [u8], offset: u64) -> std::io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.file, out, offset)
    }

    /// Reads into a buffer's spare room without clearing it; returns the number of bytes.
    #[cfg(unix)]
    fn append_at(&self, out: &mut Vec<u8>, offset: u64) -> std::io::Result<usize> {
        Ok(rustix::io::pread(
            &self.file,
            rustix::buffer::spare_capacity(out),
            offset,
        )?)
    }

    #[cfg(windows)]
    fn append_at(&self, out: &mut Vec<u8>, offset: u64) -> std::io::Result<usize> {
        let had = out.len();
        out.resize(out.capacity(), 0);
        let read = self.read_at(out.get_mut(had..).unwrap_or_default(), offset);
        out.truncate(had + read.as_ref().map_or(0, |n| *n));
        read
    }
}

/// Reads sequentially from a position.
pub(super) struct Cursor<T> {
    input: T,
    offset: u64,
}

impl Read for Cursor<Arc<LocalFile>> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.input.read_at(out, self.offset)?;
        self.offset += u64::try_from(n).unwrap_or(0);
        Ok(n)
    }
}

fn read_exact(file: &LocalFile, start: u64, length: usize) -> ParquetResult<Bytes> {
    let end = start.checked_add(u64::try_from(length).unwrap_or(u64::MAX));
    if end.is_none_or(|end| end > file.size_bytes) {
        return Err(ParquetError::EOF(format!(
            "{length} bytes at {start} are beyond the file's {}",
            file.size_bytes
        )));
    }
    if let Some(from) = file.bytes_from(start) {
        return Ok(from.slice(..length));
    }
    let mut out = Vec::with_capacity(length);
    while out.len() < length {
        let offset = start + out.len() as u64;
        if file.append_at(&mut out, offset)? == 0 {
            return Err(ParquetError::EOF(
                "the file became shorter while it was read".to_owned(),
            ));
        }
    }
    // The spare room may be larger.
    out.truncate(length);
    Ok(out.into())
}

impl Length for LocalFile {
    fn len(&self) -> u64 {
        self.size_bytes
    }
}

impl ChunkReader for LocalFile {
    type T = std::io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let length = self.size_bytes.saturating_sub(start).min(HEADER_BYTES);
        Ok(std::io::Cursor::new(
            self.get_bytes(start, usize::try_from(length).unwrap_or(0))?,
        ))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        read_exact(self, start, length)
    }
}

/// The most bytes of a footer's reads before they state a length.
const HEADER_BYTES: u64 = 4 << 10;

/// A decoder's input.
#[derive(Clone)]
pub(crate) enum Input {
    /// A local file.
    Local(Arc<LocalFile>),
    /// Fetched parts by offset, and the file's size.
    Parts(Arc<Vec<(u64, Bytes)>>, u64),
}

impl Length for Input {
    fn len(&self) -> u64 {
        match self {
            Input::Local(file) => file.size_bytes,
            Input::Parts(_, size_bytes) => *size_bytes,
        }
    }
}

impl Input {
    /// Whether it has all bytes from an offset on of this length.
    pub(super) fn covers(&self, (start, length): (u64, u64)) -> bool {
        match self {
            Input::Local(_) => true,
            Input::Parts(parts, _) => parts.iter().any(|(first, bytes)| {
                *first <= start && start.saturating_add(length) <= first.saturating_add(bytes.len() as u64)
            }),
        }
    }

    /// The fetched bytes from an offset to the end of their part.
    fn part(&self, start: u64) -> ParquetResult<Bytes> {
        let Input::Parts(parts, _) = self else {
            return Err(ParquetError::General("no part".to_owned()));
        };
        let bytes_of_part = parts
            .iter()
            .rev()
            .find(|(offset, _)| *offset <= start)
            .and_then(|(offset, bytes)| {
                let skip = usize::try_from(start - offset).ok()?;
                (skip <= bytes.len()).then(|| bytes.slice(skip..))
            });
        bytes_of_part.ok_or_else(|| {
            ParquetError::EOF(format!(
                "the position {start} is outside of the column chunks that the footer names"
            ))
        })
    }
}

impl ChunkReader for Input {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(match self {
            Input::Local(file) => match file.bytes_from(start) {
                Some(from) => Box::new(std::io::Cursor::new(from)),
                None => Box::new(BufReader::new(Cursor {
                    input: file.clone(),
                    offset: start,
                })),
            },
            Input::Parts(..) => Box::new(std::io::Cursor::new(self.part(start)?)),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        match self {
            Input::Local(file) => read_exact(file, start, length),
            Input::Parts(..) => {
                let part = self.part(start)?;
                if length > part.len() {
                    return Err(ParquetError::EOF(format!(
                        "{length} bytes at {start} are beyond the column chunk"
                    )));
                }
                Ok(part.slice(..length))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read;
    use std::sync::Arc;

    use parquet::file::reader::ChunkReader;

    use super::{Input, LocalFile, WHOLE_LOCAL_BYTES};
    use crate::testing::Folder;

    /// The bytes of a part by both ways of reading, or the errors' texts.
    fn read(input: &Input, start: u64, length: usize) -> Vec<Result<Vec<u8>, String>> {
        let part = input.get_bytes(start, length).map(|bytes| bytes.to_vec());
        let (mut reader, mut rest) = (input.get_read(start).unwrap(), Vec::new());
        let streamed = reader.read_to_end(&mut rest).map(|_| rest);
        vec![part.map_err(|e| e.to_string()), streamed.map_err(|e| e.to_string())]
    }

    #[test]
    fn a_file_in_memory_has_the_parts_of_one_on_disk() {
        let t = Folder::new();
        let bytes: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        t.put("small", &bytes);
        let small = LocalFile::open(&t.path("small")).unwrap();
        assert_eq!(small.whole.as_deref(), Some(bytes.as_slice()));
        let on_disk = LocalFile {
            whole: None,
            ..LocalFile::open(&t.path("small")).unwrap()
        };
        let (small, on_disk) = (Input::Local(Arc::new(small)), Input::Local(Arc::new(on_disk)));
        for start in [0, 1, 500, 999, 1_000, 1_001, u64::MAX] {
            for length in [0, 1, 499, 500, 1_000, 1_001, usize::MAX] {
                assert_eq!(
                    read(&small, start, length),
                    read(&on_disk, start, length),
                    "{start}, {length}"
                );
            }
        }
    }

    #[test]
    fn large_files_are_not_read_when_they_are_opened() {
        let t = Folder::new();
        let limit = usize::try_from(WHOLE_LOCAL_BYTES).unwrap();
        for (name, length, is_whole) in [("empty", 0, true), ("limit", limit, true), ("more", limit + 1, false)] {
            t.put(name, &vec![7; length]);
            let opened = LocalFile::open(&t.path(name)).unwrap();
            assert_eq!(opened.whole.is_some(), is_whole, "{name}");
        }
    }
}
