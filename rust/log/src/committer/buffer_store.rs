//! The files behind a transaction's table: of the log those of the version that the transaction
//! began with, and no later one; new data files are recorded, so that a rollback can delete them.

use std::any::Any;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths::{LOG_DIR, LogFile, parse_log_name};
use deltaplane_store::{
    Backend, Level, Listing, ObjectInfo, ObjectPath, ObjectStore, ProbeResult, PutDraft, PutOutcome, Sink, async_trait,
};
use futures::{TryStreamExt, future};

use crate::committer::Buffer;

/// The backend behind a transaction's log.
pub(super) struct BufferStore {
    behind: Arc<dyn Backend>,
    buffer: Arc<Buffer>,
}

fn log_key(key: &str) -> Option<&str> {
    key.strip_prefix(LOG_DIR)?.strip_prefix('/')
}

impl BufferStore {
    pub(super) fn new(behind: Arc<dyn Backend>, buffer: Arc<Buffer>) -> Self {
        BufferStore { behind, buffer }
    }

    /// Whether a file of the log belongs to a version that others committed after the transaction
    /// began, whose numbers the buffered commits have.
    fn is_later(&self, key: &str) -> bool {
        let newest = |name| match parse_log_name(name) {
            Some((_, LogFile::Compaction { to })) => Some(to),
            parsed => parsed.map(|(version, _)| version),
        };
        log_key(key).and_then(newest) > Some(self.buffer.base_version())
    }

    fn check_read(&self, key: &str) -> Result<()> {
        match self.is_later(key) {
            true => Err(Error::new(
                Kind::ObjectNotFound,
                format!("`{key}` is later than the transaction"),
            )),
            false => Ok(()),
        }
    }

    /// Records a new data file; nothing else is written in a transaction.
    fn note_write(&self, key: &str) -> Result<()> {
        match log_key(key) {
            None => self.buffer.note_written(key),
            Some(name) => Err(Error::invalid_argument(format!(
                "`{name}` of the log can't be written in a transaction over several tables: run this command outside of it"
            ))),
        }
    }

    fn check_delete(&self, key: &str) -> Result<()> {
        match self.buffer.has_written(key) {
            true => Ok(()),
            false => Err(Error::invalid_argument(format!(
                "`{key}` can't be deleted in a transaction over several tables, which didn't write it: run this command outside of it"
            ))),
        }
    }
}

#[async_trait]
impl Backend for BufferStore {
    fn local_path(&self, key: &str) -> Option<PathBuf> {
        self.behind.local_path(key)
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        let listing = self.behind.list_from(dir, from_name).await?;
        let buffer = Arc::clone(&self.buffer);
        let shown = BufferStore::new(Arc::clone(&self.behind), buffer);
        let shows = move |object: &ObjectInfo| future::ready(!shown.is_later(&object.key));
        Ok(Box::pin(listing.try_filter(shows)))
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        self.behind.list_all(dir).await
    }

    async fn list_level(&self, dir: &str) -> Result<Option<Level>> {
        self.behind.list_level(dir).await
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        self.check_read(key)?;
        self.behind.read(key).await
    }

    async fn read_listed(&self, object: &ObjectInfo) -> Result<Bytes> {
        self.check_read(&object.key)?;
        self.behind.read_listed(object).await
    }

    async fn read_if_local(&self, key: &str) -> Result<Option<ProbeResult>> {
        match self.is_later(key) {
            true => Ok(self.behind.local_path("").map(|_| ProbeResult::Absent)),
            false => self.behind.read_if_local(key).await,
        }
    }

    async fn read_all_listed(&self, objects: Arc<[ObjectInfo]>) -> Result<Vec<Result<Bytes>>> {
        objects.iter().try_for_each(|object| self.check_read(&object.key))?;
        self.behind.read_all_listed(objects).await
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.check_read(key)?;
        self.behind.read_range(key, range).await
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        self.check_read(&object.key)?;
        self.behind.read_part(object, range).await
    }

    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check_read(&object.key)?;
        self.behind.read_parts(object, ranges).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        self.check_read(key)?;
        self.behind.head(key).await
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.note_write(key)?;
        self.behind.put(key, bytes).await
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        self.note_write(key)?;
        self.behind.put_if_absent(key, bytes).await
    }

    /// Checksums of buffered versions are not kept.
    async fn put_expendable(&self, _: &str, _: Bytes, _: PutDraft) -> Result<()> {
        Ok(())
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.check_delete(key)?;
        self.behind.delete(key).await
    }

    async fn delete_all(&self, keys: &[String]) -> Result<()> {
        keys.iter().try_for_each(|key| self.check_delete(key))?;
        self.behind.delete_all(keys).await
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        self.behind.object(key)
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        self.note_write(key)?;
        self.behind.upload(key).await
    }

    fn keeps_data(&self) -> bool {
        self.behind.keeps_data()
    }

    fn may_be_cached(&self, key: &str) -> bool {
        self.behind.may_be_cached(key)
    }

    fn remember(&self, object: &ObjectInfo, bytes: &Bytes) {
        self.behind.remember(object, bytes);
    }

    fn behind(&self) -> Option<Arc<dyn Backend>> {
        let behind = self.behind.behind()?;
        Some(Arc::new(BufferStore::new(behind, Arc::clone(&self.buffer))))
    }

    fn wrapper(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.behind.wrapper()
    }
}
