//! A catalog's table: the questions that its catalog is asked, and where the content of a commit
//! is.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths;
use deltaplane_store::{Backend, ObjectInfo, Store};

use crate::committer::known::{Known, at_catalog};
use crate::committer::proposed::Proposed;
use crate::committer::{Buffer, Committer, Content, LogTail, Maintenance, Ratified, StagedFile};
use crate::listing::missing_place;

/// A catalog's table: its committer, and the store behind.
pub(crate) struct Managed {
    /// The committer's name, which is asked for more often than it can change.
    name: String,
    pub(super) behind: Arc<dyn Backend>,
    pub(super) committer: Arc<dyn Committer>,
    pub(super) proposed: Proposed,
    known: Mutex<Known>,
    /// The number of versions up to the newest one that handles of this process published, which
    /// may be more than the catalog knows. Shared with the handle before this one.
    published_here: Mutex<Arc<AtomicU64>>,
    /// The answer that named the table, until the first question.
    pub(super) first: Arc<Mutex<Option<LogTail>>>,
    /// The committer, if it keeps the commits of a transaction over several tables.
    pub(super) buffer: Option<Arc<Buffer>>,
}

impl Managed {
    pub(super) fn new(
        behind: Arc<dyn Backend>,
        committer: Arc<dyn Committer>,
        known: Known,
        first: Arc<Mutex<Option<LogTail>>>,
    ) -> Self {
        Managed {
            name: committer.name(),
            behind,
            committer,
            proposed: Proposed::default(),
            known: Mutex::new(known),
            published_here: Mutex::default(),
            first,
            buffer: None,
        }
    }

    pub(super) fn with_buffer(self, buffer: Arc<Buffer>) -> Self {
        Managed {
            buffer: Some(buffer),
            ..self
        }
    }

    /// The catalog and the table, as messages name them.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn permits(&self, work: Maintenance) -> bool {
        self.committer.permits(work)
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn published_here(&self) -> MutexGuard<'_, Arc<AtomicU64>> {
        self.published_here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the catalog for the newest ratified version and the commits from `from` on.
    pub(crate) async fn ask_tail(&self, from: u64) -> Result<Option<u64>> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(first) = first {
            return Ok(self.known().latest.max(first.latest));
        }
        let before = self.known().latest;
        let tail = self.committer.log_tail(from).await;
        let tail = tail.map_err(|e| match at_catalog(self.committer.as_ref(), &e) {
            gone if gone.kind() == Kind::TableNotFound => missing_place(gone),
            e => e,
        })?;
        if tail.latest < before {
            let what = format!(
                "the catalog says that version {} is the newest, after version {} was: it was set back, or the table was dropped and created; open the table again",
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

    /// Where the commit of a version is; asks the catalog only about versions after the newest
    /// known one.
    pub(super) async fn place(&self, version: u64) -> Result<Place> {
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

    /// Whether commits of this process propose one after another: not within a transaction over
    /// several tables.
    pub(super) fn takes_turns(&self) -> bool {
        self.buffer.is_none() && self.committer.takes_turns()
    }

    /// The content of a version's commit, if the catalog holds it.
    pub(crate) async fn held_content(&self, version: u64) -> Result<Option<Bytes>> {
        match self.place(version).await? {
            Place::Held(commit) => self.content(&commit).await.map(Some),
            Place::Published | Place::Nowhere => Ok(None),
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
}

/// Where a commit is.
pub(super) enum Place {
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

/// The wrapper of a catalog's table; `None` for every other table.
pub(crate) fn of(store: &Store) -> Option<Arc<Managed>> {
    store.wrapper()?.downcast().ok()
}
