//! A backend over any object_store implementation: memory and the clouds. Owns the listing of
//! direct children and the meaning of a refused conditional put; it must not know which store it
//! uses.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::io::AsyncWriteExt;

use crate::backend::{Backend, Level, Listing, ObjectInfo, PutOutcome, Sink, join_key};
use crate::error;
use crate::limited_parts;
use crate::location::Location;
use crate::options::Redactor;
use crate::retry;

/// Size of a part of a multipart upload: S3 takes 10,000 parts, so files up to 80 GB, and asks
/// for at least 5 MiB.
const PART_BYTES: usize = 8 << 20;
/// Parts of one file under way at once; bounds an upload's memory to about 40 MiB.
const PARTS_IN_FLIGHT: usize = 4;
/// Reads of an object whose body broke off in a way that object_store doesn't continue.
const BROKEN_READS: u32 = 3;
/// Attempts at a conditional put that the store reports as in conflict with a simultaneous request.
const CONFLICT_ATTEMPTS: u32 = 6;

#[derive(Clone)]
pub(super) struct Objects {
    store: Arc<dyn ObjectStore>,
    root: String,
    redactor: Arc<Redactor>,
    /// Whether the store lists in the order of names; S3 Express doesn't.
    ordered: bool,
    /// Whether names may hold a backslash; Azure turns it into a slash.
    backslashes: bool,
}

impl Objects {
    pub(super) fn new(store: Arc<dyn ObjectStore>, location: &Location, redactor: Redactor) -> Result<Self> {
        let objects = Objects {
            store,
            root: location.path().to_owned(),
            redactor: Arc::new(redactor),
            ordered: true,
            backslashes: true,
        };
        if !objects.root.is_empty() {
            objects.path("")?;
        }
        Ok(objects)
    }

    pub(super) fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    pub(super) fn without_backslashes(mut self) -> Self {
        self.backslashes = false;
        self
    }

    fn err(&self, e: &object_store::Error) -> Error {
        error::from_object_store(e, &self.redactor)
    }

    /// The full path of a key or directory. Names are taken literally, never escaped, so that
    /// other writers' names are found as they are.
    fn path(&self, key: &str) -> Result<Path> {
        if !self.backslashes && key.contains('\\') {
            return Err(Error::invalid_argument(
                "this store turns a backslash in a name into a slash; rename the file",
            ));
        }
        let full = join_key(&self.root, key);
        Path::parse(full.trim_end_matches('/')).map_err(|e| self.err(&object_store::Error::InvalidPath { source: e }))
    }

    fn file(&self, key: &str) -> Result<Path> {
        if key.is_empty() {
            return Err(Error::invalid_argument("an empty path names no file of the table"));
        }
        self.path(key)
    }

    /// The key of a full path.
    fn key(&self, full: &str) -> String {
        match self.root.as_str() {
            "" => full.to_owned(),
            root => full
                .strip_prefix(root)
                .map_or(full, |k| k.trim_start_matches('/'))
                .to_owned(),
        }
    }

    fn info(&self, meta: ObjectMeta) -> ObjectInfo {
        ObjectInfo {
            key: self.key(meta.location.as_ref()),
            size_bytes: meta.size,
            modified_ms: meta.last_modified.timestamp_millis(),
            // Azure quotes the tag in headers but not in listings.
            etag: meta.e_tag.map(|tag| tag.trim_matches('"').to_owned()),
        }
    }

    fn objects_after(&self, dir: &Path, offset: Option<&str>) -> Result<RawListing> {
        let prefix = (!dir.is_root()).then_some(dir);
        Ok(match offset {
            None => self.store.list(prefix),
            Some(name) => {
                let offset = Path::parse(join_key(dir.as_ref(), name))
                    .map_err(|e| self.err(&object_store::Error::InvalidPath { source: e }))?;
                self.store.list_with_offset(prefix, &offset)
            }
        })
    }

    /// Direct children in order. Listings are flat, so at the first object of a subdirectory the
    /// listing starts again after it: one request instead of one per thousand objects in there.
    fn children(&self, dir: &str, from: &str) -> Result<Listing> {
        let dir = dir.trim_matches('/');
        let walk = Walk {
            objects: self.clone(),
            listing: self.objects_after(&self.path(dir)?, just_before(from).as_deref())?,
            dir: self.path(dir)?,
            from: from.to_owned(),
            behind: String::new(),
            skips: self.ordered,
        };
        Ok(stream::try_unfold(walk, |mut walk| async move {
            let next = walk.next().await?;
            Ok(next.map(|info| (info, walk)))
        })
        .boxed())
    }

    /// An object or a range of it. A read whose body broke off is repeated from its start.
    async fn get(&self, path: &Path, range: Option<Range<u64>>) -> Result<(ObjectInfo, Bytes)> {
        let mut attempt = 0;
        loop {
            let body = async {
                let options = GetOptions::new().with_range(range.clone());
                let result = self.store.get_opts(path, options).await?;
                Ok((self.info(result.meta.clone()), result.bytes().await?))
            };
            match body.await {
                Err(e) if attempt + 1 < BROKEN_READS && error::is_broken_read(&e) => {
                    tokio::time::sleep(retry::pause(attempt)).await;
                    attempt += 1;
                }
                read => return read.map_err(|e| self.err(&e)),
            }
        }
    }

    async fn exists(&self, path: &Path) -> Result<bool> {
        match self.store.head(path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(self.err(&e)),
        }
    }
}

/// A walk through the direct children of a directory.
struct Walk {
    objects: Objects,
    listing: RawListing,
    dir: Path,
    from: String,
    /// The name below the directory after which the listing last started.
    behind: String,
    /// Whether starting again skips a subdirectory. Some servers ignore where to start (Azurite
    /// does): then the same names come again, and repeating would never end.
    skips: bool,
}

impl Walk {
    async fn next(&mut self) -> Result<Option<ObjectInfo>> {
        loop {
            let meta = match self.listing.next().await {
                None | Some(Err(object_store::Error::NotFound { .. })) => return Ok(None),
                Some(Err(e)) => return Err(self.objects.err(&e)),
                Some(Ok(meta)) => meta,
            };
            let full = meta.location.as_ref();
            let name = match self.dir.as_ref() {
                "" => Some(full),
                dir => full.strip_prefix(dir).and_then(|n| n.strip_prefix('/')),
            };
            let Some(name) = name else { continue };
            if name <= self.behind.as_str() && self.objects.ordered {
                self.skips = false;
                continue;
            }
            match name.split_once('/') {
                None if name >= self.from.as_str() => return Ok(Some(self.objects.info(meta))),
                Some((subdirectory, _)) if self.skips => {
                    self.behind = format!("{subdirectory}/{}", char::MAX);
                    self.listing = self.objects.objects_after(&self.dir, Some(&self.behind))?;
                }
                _ => {}
            }
        }
    }
}

type RawListing = stream::BoxStream<'static, object_store::Result<ObjectMeta>>;

/// A name that sorts before `name` with little between them: object_store's offset is exclusive.
fn just_before(name: &str) -> Option<String> {
    let mut chars = name.chars();
    let last = chars.next_back()?;
    let mut before = chars.as_str().to_owned();
    if let '1'..='9' | 'b'..='z' | 'B'..='Z' = last {
        before.extend(char::from_u32(last as u32 - 1));
    }
    (!before.is_empty() && !before.ends_with('/')).then_some(before)
}

#[async_trait]
impl Backend for Objects {
    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        let listing = self.children(dir, from_name)?;
        if self.ordered {
            return Ok(listing);
        }
        let mut all: Vec<ObjectInfo> = listing.try_collect().await?;
        all.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(stream::iter(all.into_iter().map(Ok)).boxed())
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        let path = self.path(dir.trim_matches('/'))?;
        let this = self.clone();
        Ok(self
            .objects_after(&path, None)?
            .filter_map(move |item| {
                let info = match item {
                    Ok(meta) => Some(Ok(this.info(meta))),
                    Err(object_store::Error::NotFound { .. }) => None,
                    Err(e) => Some(Err(this.err(&e))),
                };
                std::future::ready(info)
            })
            .boxed())
    }

    async fn list_level(&self, dir: &str) -> Result<Option<Level>> {
        let path = self.path(dir.trim_matches('/'))?;
        let prefix = (!path.is_root()).then_some(&path);
        let listed = match self.store.list_with_delimiter(prefix).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(Some(Level::default())),
            listed => listed.map_err(|e| self.err(&e))?,
        };
        Ok(Some(Level {
            directories: listed.common_prefixes.iter().map(|p| self.key(p.as_ref())).collect(),
            files: listed.objects.into_iter().map(|meta| self.info(meta)).collect(),
        }))
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        let path = self.file(key)?;
        Ok(self.get(&path, None).await?.1)
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let path = self.file(key)?;
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        Ok(self.get(&path, Some(range)).await?.1)
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        let path = self.file(&object.key)?;
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        match self.get(&path, Some(range)).await {
            Ok((info, bytes)) => {
                object.expect(&info)?;
                Ok(bytes)
            }
            // The object may have been replaced by a shorter one, which ends before the range.
            Err(e) => {
                object.expect(&self.head(&object.key).await?)?;
                Err(e)
            }
        }
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let path = self.file(key)?;
        let meta = self.store.head(&path).await.map_err(|e| self.err(&e))?;
        Ok(self.info(meta))
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let path = self.file(key)?;
        match self.store.put(&path, bytes.into()).await {
            Ok(_) => Ok(()),
            Err(e) => Err(self.err(&e)),
        }
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        let path = self.file(key)?;
        for attempt in 0..CONFLICT_ATTEMPTS {
            let create = PutOptions::from(PutMode::Create);
            let put = self.store.put_opts(&path, bytes.clone().into(), create);
            let e = match put.await {
                Ok(_) => return Ok(PutOutcome::Created),
                Err(e @ object_store::Error::AlreadyExists { .. }) => e,
                Err(e @ object_store::Error::Precondition { .. }) => e,
                Err(e) => return Err(self.err(&e)),
            };
            // 412 means that the object exists. 409 means the same on Azure, but "another request
            // is in progress" on S3: then only a `head` can tell.
            if error::status(&e.to_string()) != Some(409) || self.exists(&path).await? {
                return Ok(PutOutcome::Exists);
            }
            tokio::time::sleep(retry::pause(attempt)).await;
        }
        Err(Error::new(
            Kind::StoreUnavailable,
            format!(
                "the store reported simultaneous requests for this object {CONFLICT_ATTEMPTS} times in a row; try again"
            ),
        ))
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let path = self.file(key)?;
        match self.store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(self.err(&e)),
        }
    }

    async fn delete_all(&self, keys: &[String]) -> Result<()> {
        let paths = keys.iter().map(|key| self.file(key)).collect::<Result<Vec<_>>>()?;
        let mut deleted = self
            .store
            .delete_stream(stream::iter(paths.into_iter().map(Ok)).boxed());
        while let Some(done) = deleted.next().await {
            match done {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(self.err(&e)),
            }
        }
        Ok(())
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        Ok((Arc::clone(&self.store), self.file(key)?))
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        let path = self.file(key)?;
        let writer = BufWriter::with_capacity(limited_parts::for_upload(&self.store), path, PART_BYTES)
            .with_max_concurrency(PARTS_IN_FLIGHT);
        Ok(Box::new(Multipart {
            writer: Some(writer),
            redactor: Arc::clone(&self.redactor),
        }))
    }
}

/// One object being written: a single put if it is small, otherwise parts of bounded size.
struct Multipart {
    writer: Option<BufWriter>,
    redactor: Arc<Redactor>,
}

impl Multipart {
    fn err(&self, e: &object_store::Error) -> Error {
        error::from_object_store(e, &self.redactor)
    }
}

#[async_trait]
impl Sink for Multipart {
    async fn write(&mut self, mut bytes: Bytes) -> Result<()> {
        while let Some(writer) = &mut self.writer
            && !bytes.is_empty()
        {
            // In slices, because the writer starts all parts of one slice at once.
            let slice = bytes.split_to(bytes.len().min(PART_BYTES));
            if let Err(e) = writer.put(slice).await {
                return Err(self.err(&e));
            }
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<()> {
        let Some(mut writer) = self.writer.take() else {
            return Ok(());
        };
        // The writer wraps the store's error in a system error; its cause is the real one.
        writer
            .shutdown()
            .await
            .map_err(|e| match e.downcast::<object_store::Error>() {
                Ok(e) => self.err(&e),
                Err(e) => Error::new(
                    Kind::StoreUnavailable,
                    format!("the upload failed; try again: {}", self.redactor.scrub(&e.to_string())),
                ),
            })
    }

    async fn abort(mut self: Box<Self>) -> Result<()> {
        match self.writer.take() {
            Some(mut writer) => writer.abort().await.map_err(|e| self.err(&e)),
            None => Ok(()),
        }
    }
}

impl Drop for Multipart {
    /// Uploaded parts of an unfinished file cost money until they are aborted.
    fn drop(&mut self) {
        if let (Some(mut writer), Ok(handle)) = (self.writer.take(), tokio::runtime::Handle::try_current()) {
            handle.spawn(async move {
                if writer.abort().await.is_err() {
                    tracing::debug!("an unfinished upload couldn't be aborted; its parts stay");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_lie_before_and_near() {
        for (name, before) in [
            ("00000000000000000017", Some("00000000000000000016")),
            ("00000000000000000020", Some("0000000000000000002")),
            ("b", Some("a")),
            ("0", None),
            ("", None),
            ("é", None),
            ("xé", Some("x")),
        ] {
            assert_eq!(just_before(name).as_deref(), before, "{name}");
        }
    }
}
