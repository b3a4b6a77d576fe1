//! The store of a catalog's table: the log's commits are those that the catalog has ratified, from
//! wherever their content is, and a commit's put is its proposal. What isn't part of the log passes
//! through.

use std::any::Any;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths::{self, LOG_DIR, LogFile, STAGED_DIR, parse_log_name};
use deltaplane_store::{
    Backend, Level, Listing, ObjectInfo, ObjectPath, ObjectStore, ProbeResult, PutDraft, PutOutcome, Sink, async_trait,
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::committer::known::{as_listed, at_catalog};
use crate::committer::managed::{Managed, Place};
use crate::committer::reporting::{Reporter, report};
use crate::committer::{Maintenance, Ratified, opening};

/// Listings, and answers of the catalog, until one listing fits an answer.
const LISTINGS: usize = 3;

/// Whether an object of the log is a checkpoint of a version after the newest one.
fn is_checkpoint_after(object: &ObjectInfo, latest: Option<u64>) -> bool {
    let name = object.key.rsplit('/').next().and_then(parse_log_name);
    name.is_some_and(|(version, kind)| {
        let is_checkpoint = !matches!(kind, LogFile::Commit | LogFile::Checksum | LogFile::Compaction { .. });
        is_checkpoint && Some(version) > latest
    })
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
    let index = |place: u64| usize::try_from(place.min(length)).unwrap_or(bytes.len());
    Ok(bytes.slice(index(range.start)..index(range.end)))
}

/// The wrapper itself.
pub(crate) struct LogStore(Arc<Managed>);

impl LogStore {
    pub(super) fn new(managed: Managed) -> Self {
        LogStore(Arc::new(managed))
    }

    /// A listing of the log with the catalog's commits, without anything after its newest version.
    async fn list(&self, from_name: &str) -> Result<Vec<ObjectInfo>> {
        let from = first_version(from_name);
        let (mut latest, mut objects) = futures::try_join!(opening::latest(&self.0, from), self.list_files(from_name))?;
        for listings in 1..=LISTINGS {
            // A checkpoint after the newest version: the answer is older than the listing, and may
            // name versions that were cleaned up since.
            let is_outdated = objects.iter().any(|object| is_checkpoint_after(object, latest));
            let unreported = self.unreported(from, &objects);
            let merged = self.merged(from, latest, objects);
            // A version that was published after the listing is missing in it.
            let newest = latest.filter(|latest| *latest >= from).map(paths::commit);
            let is_complete = newest.is_none_or(|newest| merged.iter().any(|object| object.key == newest));
            if is_complete && (!is_outdated || listings == LISTINGS) {
                if let Some(version) = unreported {
                    // Its publisher ended before it reported it, or is about to.
                    report(&self.0, version, Reporter::Reader).await;
                }
                return Ok(merged);
            }
            if listings < LISTINGS {
                latest = self.0.ask_tail(from).await?;
            }
            objects = self.list_files(from_name).await?;
        }
        let version = latest.unwrap_or_default();
        let what = format!(
            "version {version} is the newest one and neither a file of the log nor held by the catalog: restore _delta_log/{version:020}.json from a backup"
        );
        Err(at_catalog(
            self.0.committer.as_ref(),
            &Error::corrupt_log(what).with_version(version),
        ))
    }

    /// The highest version that a listing from `from` on shows as published, after the last one
    /// that the catalog knows to be published.
    fn unreported(&self, from: u64, files: &[ObjectInfo]) -> Option<u64> {
        let known = self.0.known();
        let mut highest = None;
        let mut next = from.max(known.reported? + 1);
        for version in files.iter().filter_map(|file| commit_version(&file.key)) {
            if version == next && known.commit(version).is_some() {
                highest = Some(version);
                next += 1;
            }
        }
        highest
    }

    async fn list_files(&self, from_name: &str) -> Result<Vec<ObjectInfo>> {
        let listing = self.0.behind.list_from(LOG_DIR, from_name).await?;
        listing.try_collect().await
    }

    fn merged(&self, from: u64, latest: Option<u64>, files: Vec<ObjectInfo>) -> Vec<ObjectInfo> {
        let known = self.0.known();
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
            true if !self.0.permits(Maintenance::LogCleanup) => Err(Error::internal(format!(
                "`{key}` was about to be deleted, which {} doesn't permit; please report this",
                self.0.name()
            ))),
            _ => Ok(()),
        }
    }

    /// Publishes the versions that a file of the log replaces, before it is written (P007).
    async fn check_write(&self, key: &str) -> Result<()> {
        match log_name(key) {
            None | Some((_, LogFile::Checksum)) => Ok(()),
            Some((_, LogFile::Commit)) => Err(Error::internal(format!(
                "the commit `{key}` was about to be written without a proposal; please report this"
            ))),
            Some((_, LogFile::Compaction { to })) => self.0.publish(to).await.map(drop),
            Some((version, _)) => self.0.publish(version).await.map(drop),
        }
    }

    /// The commit that the catalog holds in the place of this file, if it is a commit; fails for
    /// one that isn't ratified.
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
            true => Ok(stream::iter(self.list(from_name).await?.into_iter().map(Ok)).boxed()),
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
        self.check_write(key).await?;
        self.0.behind.put(key, bytes).await
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        match commit_version(key) {
            Some(version) => self.0.commit(version, bytes).await,
            None => {
                self.check_write(key).await?;
                self.0.behind.put_if_absent(key, bytes).await
            }
        }
    }

    async fn put_expendable(&self, key: &str, bytes: Bytes, begun: PutDraft) -> Result<()> {
        self.check_write(key).await?;
        self.0.behind.put_expendable(key, bytes, begun).await
    }

    fn begin_expendable(&self, key: &str, bytes: &Bytes) -> PutDraft {
        self.0.behind.begin_expendable(key, bytes)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.check_delete(key)?;
        self.0.behind.delete(key).await
    }

    async fn delete_all(&self, keys: &[String]) -> Result<()> {
        keys.iter().try_for_each(|key| self.check_delete(key))?;
        self.0.behind.delete_all(keys).await
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        self.0.behind.object(key)
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        self.check_write(key).await?;
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
        Some(Arc::new(LogStore::new(match &managed.buffer {
            Some(buffer) => behind.with_buffer(Arc::clone(buffer)),
            None => behind,
        })))
    }

    fn wrapper(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::clone(&self.0) as Arc<dyn Any + Send + Sync>)
    }
}
