//! The store of a catalog's table: the log's commits are those that the catalog has ratified, from
//! wherever their content is, and a commit's put is its proposal. What isn't part of the log passes
//! through.

use std::any::Any;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths::{self, LOG_DIR, LogFile, STAGED_DIR, parse_log_name};
use deltaplane_store::{
    Backend, Level, Listing, ObjectInfo, ObjectPath, ObjectStore, ProbeResult, PutDraft, PutOutcome, Sink, async_trait,
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::committer::known::{Known, as_listed};
use crate::committer::propose::Proposed;
use crate::committer::{Committer, Content, LogTail, Maintenance, Ratified, StagedFile, at_catalog, opening};

/// Listings after the catalog's answer until one shows the versions that it says are published.
const LISTINGS: usize = 3;

/// A catalog's table: its committer, and the store behind.
pub(crate) struct Managed {
    pub(super) behind: Arc<dyn Backend>,
    pub(super) committer: Arc<dyn Committer>,
    pub(super) proposed: Proposed,
    known: Mutex<Known>,
    /// The answer that named the table, until the first question.
    first: Arc<Mutex<Option<LogTail>>>,
}

impl Managed {
    pub(super) fn new(
        behind: Arc<dyn Backend>,
        committer: Arc<dyn Committer>,
        known: Known,
        first: Arc<Mutex<Option<LogTail>>>,
    ) -> Self {
        Managed {
            behind,
            committer,
            proposed: Proposed::default(),
            known: Mutex::new(known),
            first,
        }
    }

    pub(crate) fn name(&self) -> String {
        self.committer.name()
    }

    pub(crate) fn permits(&self, work: Maintenance) -> bool {
        self.committer.permits(work)
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the catalog for the newest ratified version and the commits from `from` on.
    pub(crate) async fn ask_tail(&self, from: u64) -> Result<Option<u64>> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(first) = first {
            return Ok(self.known().latest.max(first.latest));
        }
        let before = self.known().latest;
        let tail = self.committer.log_tail(from).await;
        let tail = tail.map_err(|e| at_catalog(self.committer.as_ref(), &e))?;
        if tail.latest < before {
            let what = format!(
                "the catalog says that version {} is the newest, after version {} was: it was set back, or the table was created again; open the table anew",
                tail.latest.map_or("none".to_owned(), |v| v.to_string()),
                before.unwrap_or_default()
            );
            return Err(at_catalog(self.committer.as_ref(), &Error::corrupt_log(what)));
        }
        let mut known = self.known();
        known
            .learn(from, tail)
            .map_err(|e| at_catalog(self.committer.as_ref(), &e))?;
        Ok(known.latest)
    }

    /// Where the commit of a version is; asks the catalog only about versions after the newest known
    /// one.
    async fn place(&self, version: u64) -> Result<Place> {
        if let Some(place) = self.known_place(version) {
            return Ok(place);
        }
        self.ask_tail(version).await?;
        Ok(self.known_place(version).unwrap_or(Place::Nowhere))
    }

    fn known_place(&self, version: u64) -> Option<Place> {
        let known = self.known();
        match known.commit(version) {
            Some(commit) => Some(Place::Held(commit.clone())),
            None => (Some(version) <= known.latest).then_some(Place::Published),
        }
    }

    /// The content of a commit that the catalog holds. Its staged file may have been cleaned up
    /// after it was published.
    pub(super) async fn content(&self, commit: &Ratified) -> Result<Bytes> {
        let file = match &commit.content {
            Content::Inline(bytes) => return Ok(bytes.clone()),
            Content::Staged(file) | Content::Published(file) => file,
        };
        match self.behind.read_listed(&staged_object(file)).await {
            Err(e) if e.kind() == Kind::ObjectNotFound => self.behind.read(&paths::commit(commit.version)).await,
            read => read,
        }
    }

    /// A listing of the log with the catalog's commits, without anything after its newest version.
    async fn list(&self, from_name: &str) -> Result<Vec<ObjectInfo>> {
        let from = first_version(from_name);
        let (latest, mut objects) = futures::try_join!(opening::latest(self, from), self.list_files(from_name))?;
        for _ in 0..LISTINGS {
            let merged = self.merged(from, latest, objects);
            // A version that was published after the listing is missing in it.
            let newest = latest.filter(|latest| *latest >= from).map(paths::commit);
            if newest.is_none_or(|newest| merged.iter().any(|object| object.key == newest)) {
                return Ok(merged);
            }
            objects = self.list_files(from_name).await?;
        }
        let version = latest.unwrap_or_default();
        let what = format!(
            "version {version} is the newest one and neither a file of the log nor held by the catalog: restore _delta_log/{version:020}.json from a backup"
        );
        Err(at_catalog(
            self.committer.as_ref(),
            &Error::corrupt_log(what).with_version(version),
        ))
    }

    async fn list_files(&self, from_name: &str) -> Result<Vec<ObjectInfo>> {
        let listing = self.behind.list_from(LOG_DIR, from_name).await?;
        listing.try_collect().await
    }

    fn merged(&self, from: u64, latest: Option<u64>, files: Vec<ObjectInfo>) -> Vec<ObjectInfo> {
        let known = self.known();
        let counts = |object: &ObjectInfo| {
            let name = object.key.rsplit('/').next().and_then(parse_log_name);
            match name {
                None => true,
                Some((version, LogFile::Commit)) => Some(version) <= latest && known.commit(version).is_none(),
                Some((_, LogFile::Compaction { to })) => Some(to) <= latest,
                Some((version, _)) => Some(version) <= latest,
            }
        };
        let mut objects: Vec<ObjectInfo> = files.into_iter().filter(counts).collect();
        let held = known.commits_from(from).filter(|c| Some(c.version) <= latest);
        objects.extend(held.map(as_listed));
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        objects
    }

    /// Refuses to delete what only clean-up of the log may, unless the catalog permits it (P158).
    fn check_delete(&self, key: &str) -> Result<()> {
        let is_staged = key
            .strip_prefix(LOG_DIR)
            .is_some_and(|rest| rest.trim_start_matches('/').starts_with(STAGED_DIR));
        match is_staged || log_name(key).is_some() {
            true if !self.permits(Maintenance::LogCleanup) => Err(Error::internal(format!(
                "`{key}` was about to be deleted, which {} doesn't permit; please report this",
                self.name()
            ))),
            _ => Ok(()),
        }
    }

    /// Publishes the versions that a file of the log stands for, before it is written (P007).
    async fn check_write(&self, key: &str) -> Result<()> {
        match log_name(key) {
            None | Some((_, LogFile::Checksum)) => Ok(()),
            Some((_, LogFile::Commit)) => Err(Error::internal(format!(
                "the commit `{key}` was about to be written without a proposal; please report this"
            ))),
            Some((_, LogFile::Compaction { to })) => self.publish(to).await.map(drop),
            Some((version, _)) => self.publish(version).await.map(drop),
        }
    }
}

/// Where a commit is.
enum Place {
    /// With the catalog.
    Held(Ratified),
    /// In its file.
    Published,
    /// It isn't ratified.
    Nowhere,
}

/// A staged file as a listing of its folder shows it.
pub(super) fn staged_object(file: &StagedFile) -> ObjectInfo {
    ObjectInfo {
        key: paths::staged_commit(&file.name),
        size_bytes: file.size_bytes,
        modified_ms: file.modified_ms,
        etag: None,
    }
}

/// The version and kind of a key in the log folder itself.
fn log_name(key: &str) -> Option<(u64, LogFile)> {
    let name = key.strip_prefix(LOG_DIR)?.strip_prefix('/')?;
    parse_log_name(name)
}

fn commit_version(key: &str) -> Option<u64> {
    match log_name(key) {
        Some((version, LogFile::Commit)) => Some(version),
        _ => None,
    }
}

fn first_version(from_name: &str) -> u64 {
    from_name.get(..20).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn absent(key: &str) -> Error {
    Error::new(
        Kind::ObjectNotFound,
        format!("`{key}` isn't ratified by the table's catalog"),
    )
}

/// A range of a commit that is in memory.
fn cut(bytes: &Bytes, range: &Range<u64>) -> Result<Bytes> {
    let length = bytes.len() as u64;
    if range.start >= length && !range.is_empty() {
        return Err(Error::invalid_argument("the object ends before the range begins"));
    }
    let at = |place: u64| usize::try_from(place.min(length)).unwrap_or(bytes.len());
    Ok(bytes.slice(at(range.start)..at(range.end)))
}

/// The wrapper itself.
pub(crate) struct LogStore(Arc<Managed>);

impl LogStore {
    pub(super) fn new(managed: Managed) -> Self {
        LogStore(Arc::new(managed))
    }

    /// The commit that the catalog holds in the place of this file, if it is a commit; fails for one
    /// that isn't ratified.
    async fn held(&self, key: &str) -> Result<Option<Ratified>> {
        let Some(version) = commit_version(key) else {
            return Ok(None);
        };
        match self.0.place(version).await? {
            Place::Held(commit) => Ok(Some(commit)),
            Place::Published => Ok(None),
            Place::Nowhere => Err(absent(key)),
        }
    }
}

#[async_trait]
impl Backend for LogStore {
    fn local_path(&self, key: &str) -> Option<PathBuf> {
        match commit_version(key) {
            Some(_) => None,
            None => self.0.behind.local_path(key),
        }
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        match dir == LOG_DIR {
            true => Ok(stream::iter(self.0.list(from_name).await?.into_iter().map(Ok)).boxed()),
            false => self.0.behind.list_from(dir, from_name).await,
        }
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        self.0.behind.list_all(dir).await
    }

    async fn list_level(&self, dir: &str) -> Result<Option<Level>> {
        self.0.behind.list_level(dir).await
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        match self.held(key).await? {
            Some(commit) => self.0.content(&commit).await,
            None => self.0.behind.read(key).await,
        }
    }

    async fn read_listed(&self, object: &ObjectInfo) -> Result<Bytes> {
        match self.held(&object.key).await? {
            Some(commit) => self.0.content(&commit).await,
            None => self.0.behind.read_listed(object).await,
        }
    }

    async fn read_if_local(&self, key: &str) -> Result<Option<ProbeResult>> {
        let Some(version) = commit_version(key) else {
            return self.0.behind.read_if_local(key).await;
        };
        if self.0.behind.local_path("").is_none() {
            return Ok(None);
        }
        match self.0.place(version).await? {
            Place::Held(commit) => {
                let bytes = self.0.content(&commit).await?;
                Ok(Some(ProbeResult::Found(as_listed(&commit), bytes)))
            }
            Place::Published => self.0.behind.read_if_local(key).await,
            Place::Nowhere => Ok(Some(ProbeResult::Absent)),
        }
    }

    async fn read_all_listed(&self, objects: Arc<[ObjectInfo]>) -> Result<Vec<Result<Bytes>>> {
        let mut held = Vec::with_capacity(objects.len());
        for object in objects.iter() {
            held.push(self.held(&object.key).await?);
        }
        // The store behind reads its files together.
        let files: Vec<ObjectInfo> = objects
            .iter()
            .zip(&held)
            .filter(|(_, h)| h.is_none())
            .map(|(o, _)| o.clone())
            .collect();
        let commits = held.iter().flatten().map(|commit| self.0.content(commit));
        let (files, commits) = futures::join!(
            self.0.behind.read_all_listed(files.into()),
            futures::future::join_all(commits)
        );
        let (mut files, mut commits) = (files?.into_iter(), commits.into_iter());
        let next = |commit: &Option<Ratified>| if commit.is_some() { commits.next() } else { files.next() };
        let missing = || Err(Error::internal("a store left out a file that it was asked for"));
        Ok(held.iter().map(next).map(|read| read.unwrap_or_else(missing)).collect())
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        match self.held(key).await? {
            Some(commit) => cut(&self.0.content(&commit).await?, &range),
            None => self.0.behind.read_range(key, range).await,
        }
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        match self.held(&object.key).await? {
            Some(commit) => cut(&self.0.content(&commit).await?, &range),
            None => self.0.behind.read_part(object, range).await,
        }
    }

    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.held(&object.key).await? {
            Some(commit) => {
                let bytes = self.0.content(&commit).await?;
                ranges.iter().map(|range| cut(&bytes, range)).collect()
            }
            None => self.0.behind.read_parts(object, ranges).await,
        }
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        match self.held(key).await? {
            Some(commit) => Ok(as_listed(&commit)),
            None => self.0.behind.head(key).await,
        }
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.0.check_write(key).await?;
        self.0.behind.put(key, bytes).await
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        match commit_version(key) {
            Some(version) => self.0.commit(version, bytes).await,
            None => {
                self.0.check_write(key).await?;
                self.0.behind.put_if_absent(key, bytes).await
            }
        }
    }

    async fn put_expendable(&self, key: &str, bytes: Bytes, begun: PutDraft) -> Result<()> {
        self.0.check_write(key).await?;
        self.0.behind.put_expendable(key, bytes, begun).await
    }

    fn begin_expendable(&self, key: &str, bytes: &Bytes) -> PutDraft {
        self.0.behind.begin_expendable(key, bytes)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.0.check_delete(key)?;
        self.0.behind.delete(key).await
    }

    async fn delete_all(&self, keys: &[String]) -> Result<()> {
        keys.iter().try_for_each(|key| self.0.check_delete(key))?;
        self.0.behind.delete_all(keys).await
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        self.0.behind.object(key)
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        self.0.check_write(key).await?;
        self.0.behind.upload(key).await
    }

    fn keeps_data(&self) -> bool {
        self.0.behind.keeps_data()
    }

    fn may_be_cached(&self, key: &str) -> bool {
        commit_version(key).is_none() && self.0.behind.may_be_cached(key)
    }

    fn remember(&self, object: &ObjectInfo, bytes: &Bytes) {
        if commit_version(&object.key).is_none() {
            self.0.behind.remember(object, bytes);
        }
    }

    fn behind(&self) -> Option<Arc<dyn Backend>> {
        let managed = &self.0;
        let behind = Managed::new(
            managed.behind.behind()?,
            Arc::clone(&managed.committer),
            managed.known().clone(),
            Arc::clone(&managed.first),
        );
        Some(Arc::new(LogStore::new(behind)))
    }

    fn wrapper(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::clone(&self.0) as Arc<dyn Any + Send + Sync>)
    }
}
