//! `Store`: the bytes of one table root, whatever the scheme, and `Upload`: one new file. Adds
//! table and file to every error, gives forked children connections of their own, and resolves data
//! file paths. All crates above use the store through it.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::backend::{Backend, Level, ObjectInfo, ProbeResult, PutDraft, PutOutcome, Sink};
use crate::cache;
use crate::dry_run::DryRunStore;
use crate::external_files;
use crate::length_check;
use crate::limits;
use crate::location::{self, Location, Scheme};
use crate::options::Options;
use crate::retry;
use crate::stores::{self, Opener};

/// The store of one table root. Cloning is cheap; all clones share connections.
///
/// Keys are decoded paths relative to the root, with `/` between their parts. Futures of a remote
/// store need a tokio runtime: [`block_on`](crate::block_on) or a caller's own.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    location: Location,
    options: Options,
    opener: Opener,
    pid: u32,
    backend: Arc<dyn Backend>,
    /// A forked child must not write into its parent's sockets, so it opens the store again. The
    /// parent never locks this, so no child inherits it locked by another thread.
    after_fork: Mutex<Option<(u32, Arc<dyn Backend>)>>,
}

impl Store {
    /// Opens the store of a location without asking the network: wrong options and missing
    /// credentials fail here (`InvalidArgument`, `StoreDenied`), everything else at the first call.
    pub fn open(location: &Location, options: &Options) -> Result<Store> {
        Self::open_with(location, options, Arc::new(stores::open))
    }

    /// `open` without a cache, whatever the options say: for a store that another store uses
    /// internally.
    pub fn open_uncached(location: &Location, options: &Options) -> Result<Store> {
        Self::open_with(location, options, Arc::new(stores::open_uncached))
    }

    /// Opens a store with a custom opener.
    pub fn open_with(location: &Location, options: &Options, opener: Opener) -> Result<Store> {
        let backend = opener(location, options).map_err(|e| e.with_table(location.as_str()))?;
        Ok(Store(Arc::new(Inner {
            location: location.clone(),
            options: options.clone(),
            opener,
            pid: process::id(),
            backend,
            after_fork: Mutex::new(None),
        })))
    }

    /// The same store without its cache, for callers that must see the current objects before an
    /// irreversible deletion; shares the connections.
    pub fn without_cache(&self) -> Result<Store> {
        let Some(backend) = self.backend()?.behind() else {
            return Ok(self.clone());
        };
        Ok(Store(Arc::new(Inner {
            location: self.location().clone(),
            options: cache::switched_off(self.options()),
            opener: Arc::clone(&self.0.opener),
            pid: process::id(),
            backend,
            after_fork: Mutex::new(None),
        })))
    }

    /// The cache for files derived from this table's, for callers that can work without them: each
    /// complete or absent, read by `head` and `read_part`. `None` where the options don't ask for
    /// it, and for a file of about this size that exceeds the cache's room.
    ///
    /// `InvalidArgument` for an invalid setting of the cache.
    pub fn made_files(&self, size_bytes: u64) -> Result<Option<Store>> {
        let made = cache::of_made(self.location(), self.options(), size_bytes);
        let Some(backend) = made.map_err(|e| e.with_table(self.location().as_str()))? else {
            return Ok(None);
        };
        // It holds no state that a forked child may not share.
        let shared = Arc::clone(&backend);
        Ok(Some(Store(Arc::new(Inner {
            location: self.location().clone(),
            options: self.options().clone(),
            opener: Arc::new(move |_: &Location, _: &Options| Ok(Arc::clone(&shared))),
            pid: process::id(),
            backend,
            after_fork: Mutex::new(None),
        }))))
    }

    /// The same store for a dry run: reads work, writes and deletions succeed without effect, and
    /// `put_if_absent` fails; shares the connections.
    pub fn dry_run(&self) -> Result<Store> {
        let behind = Arc::clone(&self.0.opener);
        let opener: Opener = Arc::new(move |location: &Location, options: &Options| {
            Ok(Arc::new(DryRunStore(behind(location, options)?)) as Arc<dyn Backend>)
        });
        Ok(Store(Arc::new(Inner {
            location: self.location().clone(),
            options: self.options().clone(),
            opener,
            pid: process::id(),
            backend: Arc::new(DryRunStore(self.backend()?)),
            after_fork: Mutex::new(None),
        })))
    }

    /// The same table root with `wrap` around its bytes, also in forked children; shares the
    /// connections. Stores of other locations, where data files may be, stay as they are.
    pub fn wrapped(
        &self,
        wrap: impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync + 'static,
    ) -> Result<Store> {
        let (behind, root) = (Arc::clone(&self.0.opener), self.location().clone());
        let backend = wrap(self.backend()?);
        let opener: Opener = Arc::new(move |location: &Location, options: &Options| {
            let opened = behind(location, options)?;
            Ok(match location.as_str() == root.as_str() {
                true => wrap(opened),
                false => opened,
            })
        });
        Ok(Store(Arc::new(Inner {
            location: self.location().clone(),
            options: self.options().clone(),
            opener,
            pid: process::id(),
            backend,
            after_fork: Mutex::new(None),
        })))
    }

    /// What the wrapper around this store shows to the crate that made it; `None` without one.
    pub fn wrapper(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.backend().ok()?.wrapper()
    }

    /// The table root.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// The options the store was opened with.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// A key's file on the local disk; `None` for every other store, and for a key with `..`.
    pub fn local_path(&self, key: &str) -> Option<PathBuf> {
        self.0.backend.local_path(key)
    }

    /// Whether the objects are files of the local disk, which answers within microseconds: requests
    /// beside each other save no time there.
    pub fn is_local(&self) -> bool {
        self.local_path("").is_some()
    }

    /// The files directly in `dir` whose name is `from_name` or sorts after it, in the order of
    /// their names' bytes. A missing directory is empty; hidden local files are left out.
    pub async fn list_from(&self, dir: &str, from_name: &str) -> Result<BoxStream<'static, Result<ObjectInfo>>> {
        let listing = self.backend()?.list_from(dir, from_name).await;
        self.listing(dir, listing)
    }

    /// All files below `dir`, in any order. A missing directory is empty; hidden local files are
    /// left out, links to local directories are not followed.
    pub async fn list_all(&self, dir: &str) -> Result<BoxStream<'static, Result<ObjectInfo>>> {
        let listing = self.backend()?.list_all(dir).await;
        self.listing(dir, listing)
    }

    /// The direct children of `dir`, as [`list_all`](Self::list_all) shows them; `None` where the
    /// store can't tell without listing all that is below.
    pub async fn list_level(&self, dir: &str) -> Result<Option<Level>> {
        let listed = self.backend()?.list_level(dir).await;
        listed.map_err(|e| self.at(dir, e))
    }

    /// The directories at and below `dir`, except the root, that have no file at any depth and were
    /// last changed before a time in milliseconds, each after those below it. Only local file
    /// systems have such; links to directories count as files.
    pub async fn empty_directories(&self, dir: &str, before_ms: i64) -> Result<Vec<String>> {
        let listed = self.backend()?.empty_directories(dir, before_ms).await;
        listed.map_err(|e| self.at(dir, e))
    }

    /// Removes directories in this order; those that have entries by then stay.
    pub async fn remove_directories(&self, dirs: &[String]) -> Result<()> {
        let removed = self.backend()?.remove_directories(dirs).await;
        removed.map_err(|e| e.with_table(self.location().as_str()))
    }

    /// A whole object. `ObjectNotFound` if there is none.
    pub async fn read(&self, key: &str) -> Result<Bytes> {
        let read = self.backend()?.read(key).await;
        read.map_err(|e| self.at(key, e))
    }

    /// A whole object that a listing returned. If another object has its name now, either of the
    /// two. Costs no request where a cache has it. `ObjectNotFound` if there is none.
    ///
    /// A read of another length than the store lists is repeated a few times, then refused as
    /// `CorruptFile`.
    pub async fn read_listed(&self, object: &ObjectInfo) -> Result<Bytes> {
        let backend = self.backend()?;
        let first = backend.read_listed(object).await;
        let read = length_check::whole(backend.as_ref(), object, first).await;
        read.map_err(|e| self.at(&object.key, e))
    }

    /// As [`read_listed`](Self::read_listed), for a text of the log, which is parsed whole.
    ///
    /// `CorruptLog` if it exceeds the option `max_commit_bytes`.
    pub async fn read_text(&self, object: &ObjectInfo) -> Result<Bytes> {
        self.check_text(&object.key, object.size_bytes)?;
        self.read_listed(object).await
    }

    /// Reads a text of the log without a listing, on a local store, where probing one name after
    /// another is cheaper than listing; `None` on other stores.
    ///
    /// `CorruptLog` if it exceeds the option `max_commit_bytes`.
    pub async fn read_text_if_local(&self, key: &str) -> Result<Option<ProbeResult>> {
        let read = self.backend()?.read_if_local(key).await;
        let read = read.map_err(|e| self.at(key, e))?;
        if let Some(ProbeResult::Found(info, bytes)) = &read {
            self.check_text(key, info.size_bytes)?;
            // The caller then lists, and reads the listed object.
            if info.size_bytes != bytes.len() as u64 {
                return Ok(None);
            }
        }
        Ok(read)
    }

    /// Several texts, each as by [`read_text`](Self::read_text), in their order: cheaper than
    /// single reads on a local store. Texts after one that exceeds the limit aren't read.
    pub async fn read_texts(&self, objects: Vec<ObjectInfo>) -> Result<Vec<Result<Bytes>>> {
        let refused = objects
            .iter()
            .map(|object| self.check_text(&object.key, object.size_bytes));
        let refused = refused
            .enumerate()
            .find_map(|(index, checked)| Some((index, checked.err()?)));
        let mut wanted = objects;
        wanted.truncate(refused.as_ref().map_or(wanted.len(), |(index, _)| *index));
        let wanted: Arc<[ObjectInfo]> = wanted.into();
        let backend = self.backend()?;
        let read = backend.read_all_listed(wanted.clone()).await?;
        let mut checked = Vec::with_capacity(wanted.len());
        for (object, read) in wanted.iter().zip(read) {
            let read = length_check::whole(backend.as_ref(), object, read).await;
            checked.push(read.map_err(|e| self.at(&object.key, e)));
        }
        checked.extend(refused.map(|(_, e)| Err(e)));
        Ok(checked)
    }

    /// How long a failed request may be repeated: the option `retry_timeout`, 60 s by default.
    pub fn retry_timeout(&self) -> Duration {
        retry::timeout(self.options())
    }

    /// Refuses a text of the log whose size readers would refuse.
    pub fn check_text(&self, key: &str, size_bytes: u64) -> Result<()> {
        limits::check(self.options(), key, size_bytes)
    }

    /// Bytes of an object: fewer than asked for if it ends before the range does, none for an
    /// empty range, `InvalidArgument` if it ends before the range begins.
    pub async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let read = self.backend()?.read_range(key, range).await;
        read.map_err(|e| self.at(key, e))
    }

    /// Whether a cache may have the object under this name: then a read of what a listing shows may
    /// cost no request, and one by the name alone always costs one.
    pub fn may_be_cached(&self, key: &str) -> bool {
        self.backend().is_ok_and(|backend| backend.may_be_cached(key))
    }

    /// Puts a listed object that was read whole by its name into the cache in memory.
    pub fn remember(&self, object: &ObjectInfo, bytes: &Bytes) {
        if let Ok(backend) = self.backend() {
            backend.remember(object, bytes);
        }
    }

    /// A range of the exact object that [`head`](Self::head) or a listing returned, so that several
    /// ranges come from one content: `ObjectNotFound` if another object has its name now, unless a
    /// cache has the bytes. A read that is shorter than the object is repeated a few times, then
    /// refused as `CorruptFile`.
    pub async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        let backend = self.backend()?;
        let first = backend.read_part(object, range.clone()).await.map(|part| vec![part]);
        let read = length_check::parts(backend.as_ref(), object, std::slice::from_ref(&range), first).await;
        let part = read.map(|parts| parts.into_iter().next().unwrap_or_default());
        part.map_err(|e| self.at(&object.key, e))
    }

    /// Several ranges of it at once, in their order: close ranges cost a cache one request.
    pub async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let backend = self.backend()?;
        let first = backend.read_parts(object, ranges).await;
        let read = length_check::parts(backend.as_ref(), object, ranges, first).await;
        read.map_err(|e| self.at(&object.key, e))
    }

    /// Whether parts of data files are cached, so that a [`head`](Self::head) before reading them
    /// by [`read_part`](Self::read_part) pays.
    pub fn keeps_data(&self) -> bool {
        self.backend().is_ok_and(|b| b.keeps_data())
    }

    /// Size and time of an object. `ObjectNotFound` if there is none.
    pub async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let head = self.backend()?.head(key).await;
        head.map_err(|e| self.at(key, e))
    }

    /// Writes an object, replacing an existing one. Readers see the old or the new one, whole; when
    /// this returns it is durable.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let put = self.backend()?.put(key, bytes).await;
        put.map_err(|e| self.at(key, e))
    }

    /// Writes an object if its name is free: of all racing callers exactly one creates it.
    ///
    /// Two answers of a remote store leave the result open, and only the content can tell: after
    /// `StoreUnavailable` the object may exist; and `Exists` may mean this call's own object, if
    /// the store failed after writing it and the request was repeated. Read it back and look for
    /// content that only this writer can have written.
    pub async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        let put = self.backend()?.put_if_absent(key, bytes).await;
        put.map_err(|e| self.at(key, e))
    }

    /// [`put_if_absent`](Self::put_if_absent) for bytes that are put under one name after another
    /// until one is free; `kept` is the draft of the previous call. Bytes may differ from call to
    /// call; a draft of other bytes is discarded.
    pub async fn put_if_absent_again(&self, key: &str, bytes: Bytes, draft: &mut PutDraft) -> Result<PutOutcome> {
        let put = self.backend()?.put_if_absent_again(key, bytes, draft).await;
        put.map_err(|e| self.at(key, e))
    }

    /// Writes an object that can be recreated, if its name is free. Readers see it only as a whole,
    /// but it isn't flushed: after a power failure it may be truncated or empty, so its readers
    /// have to check it. `begun` is the result of [`begin_expendable`](Self::begin_expendable) for
    /// the same bytes and name, or nothing.
    pub async fn put_expendable(&self, key: &str, bytes: Bytes, begun: PutDraft) -> Result<()> {
        let put = self.backend()?.put_expendable(key, bytes, begun).await;
        put.map_err(|e| self.at(key, e))
    }

    /// Begins writing such an object in the background, on stores where it stays invisible until it
    /// is put.
    pub fn begin_expendable(&self, key: &str, bytes: &Bytes) -> PutDraft {
        let backend = self.backend();
        backend.map_or_else(|_| PutDraft::default(), |backend| backend.begin_expendable(key, bytes))
    }

    /// Deletes an object; it may be absent.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let delete = self.backend()?.delete(key).await;
        delete.map_err(|e| self.at(key, e))
    }

    /// Deletes several objects, each of which may be absent: by requests for many where the store
    /// has them. An error leaves open which of them are gone.
    pub async fn delete_all(&self, keys: &[String]) -> Result<()> {
        let delete = self.backend()?.delete_all(keys).await;
        delete.map_err(|e| e.with_table(self.location().as_str()))
    }

    /// The object_store and the path under which a Parquet reader finds an object. For reading:
    /// writes go through this type. Errors of that store don't carry the table's location.
    pub fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        self.backend()?.object(key).map_err(|e| self.at(key, e))
    }

    /// Resolves the decoded path of a data file: to a key of this store, or, for a path or URI
    /// elsewhere on the same scheme, to a store of that directory and the file's name.
    ///
    /// `CorruptLog` for `..` or NUL in the path, `InvalidArgument` for another scheme and for a
    /// file outside the table that the option `allow_external_files` doesn't allow, unless
    /// [`trust`](Self::trust) does.
    pub fn resolve(&self, path: &str) -> Result<(Store, String)> {
        // The message omits the path: text that is no location may hold a credential.
        let located = self.locate(path);
        let located = located.map_err(|e| e.with_table(self.location().as_str()))?;
        let Some(file) = located else {
            return Ok((self.clone(), path.to_owned()));
        };
        if let Some(key) = self.key_of(&file) {
            return Ok((self.clone(), key));
        }
        external_files::check(self.location(), self.options(), &file)
            .map_err(|e| e.with_table(self.location().as_str()))?;
        let (parent, name) = file.split_last().map_err(|e| self.at(path, e))?;
        let store = Store::open_with(&parent, self.options(), Arc::clone(&self.0.opener))?;
        Ok((store, name.to_owned()))
    }

    /// Lets the log of this table name files below the source, in this process: creating a shallow
    /// clone means trusting the source's files, and those that the source's options allow.
    ///
    /// `InvalidArgument` if these options name no location.
    pub fn trust(&self, source: &Store) -> Result<()> {
        external_files::trust(self.location(), source.location(), source.options())
    }

    /// The key of the data file at this decoded path, if it is in this store; absolute paths into
    /// the table are its own files as well. Resolves links; doesn't check whether a file elsewhere
    /// may be read.
    ///
    /// `CorruptLog` for `..` or NUL in the path.
    pub fn own_key(&self, path: &str) -> Result<Option<String>> {
        match self.locate(path) {
            Ok(None) => Ok(Some(path.to_owned())),
            Ok(Some(file)) => Ok(self.key_of(&file)),
            // Another kind of store, or no location at all.
            Err(e) if e.kind() == Kind::InvalidArgument => Ok(None),
            Err(e) => Err(e.with_table(self.location().as_str())),
        }
    }

    fn key_of(&self, file: &Location) -> Option<String> {
        let inside = self.location().relative(file).map(str::to_owned);
        inside.or_else(|| external_files::through_link(self.location(), file))
    }

    /// The location of an absolute path or URI; `None` for a relative path.
    fn locate(&self, path: &str) -> Result<Option<Location>> {
        if path.is_empty() || path.contains('\0') || path.split('/').any(|part| part == "..") {
            return Err(Error::corrupt_log(
                "a data file's path is empty or holds '..' or a NUL character; the log names no file that way, so it was not written by a correct writer",
            ).with_path(path));
        }
        let root = self.location();
        let uri = location::has_scheme(path);
        let file = match (path.starts_with('/'), uri) {
            (false, false) => return Ok(None),
            (false, true) => Location::from_decoded(path)?,
            (true, _) if root.scheme() == Scheme::Local => Location::from_decoded(path)?,
            // Hadoop reads a path without scheme on the table's own store.
            (true, _) => Location::below(root.scheme(), root.base().to_owned(), path)?,
        };
        if file.scheme() != root.scheme() {
            return Err(Error::invalid_argument(format!(
                "a data file lies in another kind of store ({file}) than its table; copy it into the table's store"
            )));
        }
        Ok(Some(file))
    }

    /// Begins a new data file; parent directories are created. Its name appears at
    /// [`Upload::finish`]; takes at most some tens of megabytes of memory.
    pub async fn upload(&self, key: &str) -> Result<Upload> {
        let sink = self.backend()?.upload(key).await;
        Ok(Upload {
            sink: sink.map_err(|e| self.at(key, e))?,
            store: self.clone(),
            key: key.to_owned(),
            size_bytes: 0,
        })
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        let pid = process::id();
        if pid == self.0.pid {
            return Ok(Arc::clone(&self.0.backend));
        }
        let mut reopened = self.0.after_fork.lock().unwrap_or_else(PoisonError::into_inner);
        match &*reopened {
            Some((owner, backend)) if *owner == pid => Ok(Arc::clone(backend)),
            _ => {
                let backend = (self.0.opener)(self.location(), self.options())?;
                *reopened = Some((pid, Arc::clone(&backend)));
                Ok(backend)
            }
        }
    }

    fn at(&self, key: &str, e: Error) -> Error {
        e.with_table(self.location().as_str()).with_path(key)
    }

    fn listing(
        &self,
        dir: &str,
        listing: Result<BoxStream<'static, Result<ObjectInfo>>>,
    ) -> Result<BoxStream<'static, Result<ObjectInfo>>> {
        let (store, dir) = (self.clone(), dir.to_owned());
        let listing = listing.map_err(|e| self.at(&dir, e))?;
        Ok(listing.map(move |item| item.map_err(|e| store.at(&dir, e))).boxed())
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("location", self.location())
            .field("options", self.options())
            .finish()
    }
}

/// A new file being written. It is invisible before [`Upload::finish`]; dropping it discards it.
pub struct Upload {
    sink: Box<dyn Sink>,
    store: Store,
    key: String,
    size_bytes: u64,
}

impl Upload {
    /// The file's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Bytes written so far.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Appends bytes, waiting while too many are in flight. After an error the file can only be
    /// discarded.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let length = bytes.len() as u64;
        let written = self.sink.write(bytes).await;
        written.map_err(|e| self.store.at(&self.key, e))?;
        self.size_bytes += length;
        Ok(())
    }

    /// Makes the file durable and visible; returns its size in bytes.
    pub async fn finish(self) -> Result<u64> {
        let finished = self.sink.finish().await;
        finished.map_err(|e| self.store.at(&self.key, e))?;
        Ok(self.size_bytes)
    }

    /// Discards the file and frees its stored parts.
    pub async fn abort(self) -> Result<()> {
        let aborted = self.sink.abort().await;
        aborted.map_err(|e| self.store.at(&self.key, e))
    }
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upload({}, {} bytes)", self.key, self.size_bytes)
    }
}
