//! Tables on a local (or mounted) file system, with durable atomic writes. Uses the system's own
//! calls, because object_store's local store escapes or refuses some legal file names.
//! `local_objects` gives Parquet readers the same files.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Result};
use futures::{StreamExt, stream};
use object_store::ObjectStore;
use tokio::task::JoinHandle;

use super::Spec;
use super::local_dirs::{Dirs, find_empty, remove_if_empty};
use super::local_draft::{Draft, FileSink};
use super::local_folder::Folder;
use super::local_objects::LocalObjects;
use super::local_read;
use super::local_root::{About, Root};
use crate::backend::{Backend, Level, Listing, ObjectInfo, ProbeResult, PutDraft, PutOutcome, Sink, join_key};
use crate::error::OUT_OF_RANGE;
use crate::location::{Location, Scheme};
use crate::options::Options;
use crate::runtime::{blocking, cut_short, quick, spawn};

pub(super) const SPEC: Spec = Spec {
    scheme: Scheme::Local,
    knows: |_| false,
    names: &[],
    open,
};

/// Files whose metadata is fetched in one batch outside the async threads; the first batches are
/// smaller, since some callers need only the first names.
const LISTING_BATCH: usize = 1000;
const FIRST_BATCH: usize = 16;
/// A part up to this size, such as a footer, is read faster than another thread would start.
const QUICK_BYTES: u64 = 64 << 10;
/// Files up to this size are read within microseconds.
const NEAR_BYTES: usize = 1 << 20;

fn open(location: &Location, _: &Options) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(Local {
        root: Root::new(location.path()),
        dirs: Arc::default(),
    }))
}

struct Local {
    root: Root,
    dirs: Arc<Dirs>,
}

impl Local {
    /// A part of a file, which must be the object `of` if there is one.
    async fn part(&self, key: String, object: Option<ObjectInfo>, range: Range<u64>) -> Result<Bytes> {
        let parts = self.parts(key, object, vec![range]).await?;
        Ok(parts.into_iter().next().unwrap_or_default())
    }

    /// Parts of it, all by one thread: handing each to another one takes longer than reading it.
    async fn parts(&self, key: String, object: Option<ObjectInfo>, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        let (root, path) = (self.root.clone(), self.root.file(&key)?);
        if ranges.iter().all(Range::is_empty) {
            return Ok(vec![Bytes::new(); ranges.len()]);
        }
        let bytes = ranges
            .iter()
            .map(|range| range.end.saturating_sub(range.start))
            .fold(0, u64::saturating_add);
        let work = move || {
            let err = |e: io::Error| root.read_err(&e, "reading a part of a file");
            let file = File::open(path).map_err(err)?;
            let actual = info(key, &About::of(&file.metadata().map_err(err)?));
            if let Some(object) = object {
                object.expect(&actual)?;
            }
            let read = |range: Range<u64>| {
                if range.is_empty() {
                    return Ok(Bytes::new());
                }
                let end = actual.size_bytes.min(range.end);
                if range.start >= end {
                    return Err(Error::invalid_argument(OUT_OF_RANGE));
                }
                local_read::part(&file, range.start..end).map_err(err)
            };
            ranges.into_iter().map(read).collect()
        };
        match bytes {
            ..=QUICK_BYTES => quick(work).await,
            _ => blocking(work).await,
        }
    }
}

fn info(key: String, about: &About) -> ObjectInfo {
    ObjectInfo {
        key,
        size_bytes: about.size_bytes,
        modified_ms: about.modified_ms(),
        etag: Some(about.etag()),
    }
}

/// `None` if the file is too large for that.
fn probe_result(key: String, opened: io::Result<File>) -> io::Result<Option<ProbeResult>> {
    let mut file = opened?;
    let info = info(key, &About::of(&file.metadata()?));
    let Some(size) = usize::try_from(info.size_bytes).ok().filter(|n| *n <= NEAR_BYTES) else {
        return Ok(None);
    };
    let mut bytes = vec![0; size];
    file.read_exact(&mut bytes)?;
    Ok(Some(ProbeResult::Found(info, Bytes::from(bytes))))
}

/// Files that a listing returned, all in one allocation.
fn all_listed(root: &Root, objects: &[ObjectInfo]) -> Vec<Result<Bytes>> {
    let listed = |object: &ObjectInfo| usize::try_from(object.size_bytes).unwrap_or(0);
    let mut read = Vec::with_capacity(objects.iter().map(listed).fold(1, usize::saturating_add));
    let mut ends = Vec::with_capacity(objects.len());
    let mut held: Option<(&str, Folder)> = None;
    for object in objects {
        let err = |e: io::Error| root.read_err(&e, "reading a file");
        let (dir, name) = object.key.rsplit_once('/').unwrap_or(("", &object.key));
        let folder = match held.take().filter(|(held_dir, _)| *held_dir == dir) {
            Some((_, folder)) => Ok(folder),
            None => root.dir(dir).and_then(|path| Folder::open(&path).map_err(err)),
        };
        let whole = |folder: Folder| {
            let from = read.len();
            let done = folder.read(name, listed(object), &mut read).map_err(err);
            held = Some((dir, folder));
            done.map(|()| from..read.len())
        };
        ends.push(folder.and_then(whole));
    }
    let read = Bytes::from(read);
    let part = |range: Result<Range<usize>>| range.map(|range| read.slice(range));
    ends.into_iter().map(part).collect()
}

/// Files of unfinished puts begin with a dot and are left out.
fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

/// The names in a directory; empty if it is missing. Names that aren't UTF-8 can't be in a table.
fn names(root: &Root, dir: &Path) -> Result<Vec<(String, bool)>> {
    let what = "listing a directory";
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(root.err(&e, what)),
    };
    let mut listing = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| root.err(&e, what))?;
        if let Ok(name) = entry.file_name().into_string() {
            // The type comes with the entry: links to directories are not followed, so that a
            // link to a parent can't make the listing endless.
            listing.push((name, entry.file_type().is_ok_and(|t| t.is_dir())));
        }
    }
    Ok(listing)
}

/// The direct children of a directory, without hidden files.
fn level(root: &Root, dir: &str) -> Result<Level> {
    let entries = names(root, &root.dir(dir)?)?;
    let (inner, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(_, is_dir)| *is_dir);
    let files = files.into_iter().map(|(name, _)| name).filter(|name| !is_hidden(name));
    Ok(Level {
        directories: inner.iter().map(|(name, _)| join_key(dir, name)).collect(),
        files: infos(root, dir, &files.collect::<Vec<_>>())?,
    })
}

/// Size and time of a directory's files; files that vanished meanwhile are left out.
fn infos(root: &Root, dir: &str, names: &[String]) -> Result<Vec<ObjectInfo>> {
    let mut objects = Vec::with_capacity(names.len());
    let failed = |e: io::Error| root.err(&e, "reading a file's metadata");
    let folder = match Folder::open(&root.dir(dir)?) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(objects),
        opened => opened.map_err(failed)?,
    };
    for name in names {
        match folder.about(name) {
            Ok(about) if about.is_file => objects.push(info(join_key(dir, name), &about)),
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
        }
    }
    Ok(objects)
}

/// A draft that another thread writes.
type Begun = JoinHandle<io::Result<Draft>>;

/// A draft that isn't flushed, so that a power failure may damage it.
fn unsynced(path: PathBuf, bytes: Bytes) -> io::Result<Draft> {
    let mut draft = Draft::new(path)?;
    draft.write(&[bytes])?;
    Ok(draft)
}

/// A draft whose name was taken: synced, and usable for the next name.
struct Loser {
    draft: Draft,
    bytes: Bytes,
}

#[async_trait]
impl Backend for Local {
    fn local_path(&self, key: &str) -> Option<PathBuf> {
        self.root.dir(key).ok()
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        let (root, dir, from) = (self.root.clone(), dir.to_owned(), from_name.to_owned());
        let path = root.dir(&dir)?;
        let folder_root = root.clone();
        let mut left = quick(move || {
            let mut names: Vec<String> = names(&folder_root, &path)?
                .into_iter()
                .filter(|(name, is_dir)| !is_dir && !is_hidden(name) && *name >= from)
                .map(|(name, _)| name)
                .collect();
            // In reverse order: batches are cut off the end.
            names.sort_unstable_by(|a, b| b.cmp(a));
            Ok(names)
        })
        .await?;
        let mut size = FIRST_BATCH;
        let batches = std::iter::from_fn(move || {
            let rest = left.len().saturating_sub(size);
            let mut batch = left.split_off(rest);
            size = LISTING_BATCH;
            batch.reverse();
            (!batch.is_empty()).then_some(batch)
        });
        Ok(stream::iter(batches)
            .then(move |batch| {
                let (root, dir) = (root.clone(), dir.clone());
                quick(move || infos(&root, &dir, &batch))
            })
            .flat_map(unbatched)
            .boxed())
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        self.root.dir(dir)?;
        let state = (self.root.clone(), vec![dir.trim_matches('/').to_owned()]);
        let directories = stream::try_unfold(state, |(root, mut dirs)| async move {
            let Some(dir) = dirs.pop() else {
                return Ok(None);
            };
            let folder_root = root.clone();
            let listing = blocking(move || level(&folder_root, &dir)).await?;
            dirs.extend(listing.directories);
            Ok(Some((listing.files, (root, dirs))))
        });
        Ok(directories.flat_map(unbatched).boxed())
    }

    async fn list_level(&self, dir: &str) -> Result<Option<Level>> {
        let (root, dir) = (self.root.clone(), dir.trim_matches('/').to_owned());
        blocking(move || level(&root, &dir).map(Some)).await
    }

    async fn empty_directories(&self, dir: &str, before_ms: i64) -> Result<Vec<String>> {
        let (root, dir) = (self.root.clone(), self.root.dir(dir)?);
        let before = UNIX_EPOCH + Duration::from_millis(u64::try_from(before_ms).unwrap_or(0));
        blocking(move || {
            let mut empty = Vec::new();
            match find_empty(&dir, before, &mut empty) {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                walked => {
                    walked.map_err(|e| root.err(&e, "listing a directory"))?;
                }
            }
            let below = empty
                .iter()
                .filter_map(|dir| dir.strip_prefix(root.path()).ok()?.to_str());
            Ok(below.filter(|key| !key.is_empty()).map(str::to_owned).collect())
        })
        .await
    }

    async fn remove_directories(&self, dirs: &[String]) -> Result<()> {
        let root = self.root.clone();
        let paths = dirs.iter().map(|dir| self.root.file(dir));
        let paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
        blocking(move || {
            let removed = paths.iter().try_for_each(|dir| remove_if_empty(dir));
            removed.map_err(|e| root.err(&e, "removing an empty directory"))
        })
        .await
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        let (root, path) = (self.root.clone(), self.root.file(key)?);
        quick(move || {
            fs::read(path)
                .map(Bytes::from)
                .map_err(|e| root.read_err(&e, "reading a file"))
        })
        .await
    }

    async fn read_if_local(&self, key: &str) -> Result<Option<ProbeResult>> {
        let (root, path, key) = (self.root.clone(), self.root.file(key)?, key.to_owned());
        quick(move || match File::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Some(ProbeResult::Absent)),
            opened => probe_result(key, opened).map_err(|e| root.read_err(&e, "reading a file")),
        })
        .await
    }

    /// All by one thread: handing each to another one takes longer than reading it.
    async fn read_all_listed(&self, objects: Arc<[ObjectInfo]>) -> Result<Vec<Result<Bytes>>> {
        let root = self.root.clone();
        quick(move || Ok(all_listed(&root, &objects))).await
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.part(key.to_owned(), None, range).await
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        self.part(object.key.clone(), Some(object.clone()), range).await
    }

    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.parts(object.key.clone(), Some(object.clone()), ranges.to_vec())
            .await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let (root, path, key) = (self.root.clone(), self.root.file(key)?, key.to_owned());
        quick(move || {
            let err = |e: io::Error| root.read_err(&e, "reading a file's metadata");
            let meta = fs::metadata(path).map_err(err)?;
            if meta.is_dir() {
                return Err(err(ErrorKind::IsADirectory.into()));
            }
            Ok(info(key, &About::of(&meta)))
        })
        .await
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let (root, path) = (self.root.clone(), self.root.file(key)?);
        blocking(move || {
            Draft::written(path, &bytes)
                .and_then(Draft::replace)
                .map_err(|e| root.err(&e, "writing a file"))
        })
        .await
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        self.put_if_absent_again(key, bytes, &mut PutDraft::default()).await
    }

    async fn put_if_absent_again(&self, key: &str, bytes: Bytes, loser_draft: &mut PutDraft) -> Result<PutOutcome> {
        let (root, path) = (self.root.clone(), self.root.file(key)?);
        let before = loser_draft
            .0
            .take()
            .and_then(|loser_draft| loser_draft.downcast::<Loser>().ok());
        let (outcome, loser) = quick(move || {
            // Saves the loser of a long-decided race two flushes.
            if path.symlink_metadata().is_ok() {
                return Ok((PutOutcome::Exists, before));
            }
            let draft = match before {
                Some(loser) if loser.bytes == bytes => Ok(loser.draft.aimed_at(path)),
                _ => Draft::written(path, &bytes),
            };
            let linked = draft.and_then(Draft::link);
            Ok(match linked.map_err(|e| root.err(&e, "creating a file"))? {
                None => (PutOutcome::Created, None),
                Some(draft) => (PutOutcome::Exists, Some(Box::new(Loser { draft, bytes }))),
            })
        })
        .await?;
        loser_draft.0 = loser.map(|loser| loser as Box<_>);
        Ok(outcome)
    }

    async fn put_expendable(&self, key: &str, bytes: Bytes, begun: PutDraft) -> Result<()> {
        let (root, path) = (self.root.clone(), self.root.file(key)?);
        let begun = begun.0.and_then(|begun| begun.downcast::<Begun>().ok());
        let draft = match begun {
            Some(begun) => Some(begun.await.map_err(cut_short)?),
            None => None,
        };
        quick(move || {
            let draft = draft.unwrap_or_else(|| unsynced(path, bytes));
            match draft.and_then(|mut draft| draft.claim()) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(root.err(&e, "creating a file")),
                _ => Ok(()),
            }
        })
        .await
    }

    /// On another thread: creating a file takes some tenths of a millisecond on a disk without a
    /// journal.
    fn begin_expendable(&self, key: &str, bytes: &Bytes) -> PutDraft {
        let Ok(path) = self.root.file(key) else {
            return PutDraft::default();
        };
        let bytes = bytes.clone();
        let begun: Begun = spawn(move || unsynced(path, bytes));
        PutDraft(Some(Box::new(begun)))
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let (root, path) = (self.root.clone(), self.root.file(key)?);
        blocking(move || match fs::remove_file(path) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(root.err(&e, "deleting a file")),
        })
        .await
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, object_store::path::Path)> {
        self.root.file(key)?;
        let objects = LocalObjects::new(self.root.clone());
        Ok((Arc::new(objects), LocalObjects::path(key)))
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        let (root, path) = (self.root.clone(), self.root.file(key)?);
        Ok(Box::new(FileSink::new(path, root, self.dirs.clone())))
    }
}

fn unbatched(batch: Result<Vec<ObjectInfo>>) -> stream::BoxStream<'static, Result<ObjectInfo>> {
    match batch {
        Ok(infos) => stream::iter(infos.into_iter().map(Ok)).boxed(),
        Err(e) => stream::iter([Err(e)]).boxed(),
    }
}
