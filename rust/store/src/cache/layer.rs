//! A cache as a backend over another one: it answers some reads itself, and passes all other calls
//! on.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Result};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::backend::{Backend, Level, Listing, ObjectInfo, ProbeResult, PutDraft, PutOutcome, Sink};

/// What a cache does itself, as the methods of [`Backend`] with the same names. All reads state the
/// object's identity.
#[async_trait]
pub(super) trait Layer: Send + Sync + 'static {
    /// The backend behind the cache.
    fn inner(&self) -> &Arc<dyn Backend>;
    async fn read_listed(&self, object: &ObjectInfo) -> Result<Bytes>;
    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;
    fn keeps_data(&self) -> bool;
    fn may_be_cached(&self, key: &str) -> bool;
    fn remember(&self, object: &ObjectInfo, bytes: &Bytes);
    fn behind(&self) -> Option<Arc<dyn Backend>>;
}

/// The backend of a cache.
pub(super) struct Layered<L>(pub(super) L);

#[async_trait]
impl<L: Layer> Backend for Layered<L> {
    fn local_path(&self, key: &str) -> Option<PathBuf> {
        self.0.inner().local_path(key)
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        self.0.inner().list_from(dir, from_name).await
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        self.0.inner().list_all(dir).await
    }

    async fn list_level(&self, dir: &str) -> Result<Option<Level>> {
        self.0.inner().list_level(dir).await
    }

    async fn empty_directories(&self, dir: &str, before_ms: i64) -> Result<Vec<String>> {
        self.0.inner().empty_directories(dir, before_ms).await
    }

    async fn remove_directories(&self, dirs: &[String]) -> Result<()> {
        self.0.inner().remove_directories(dirs).await
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        self.0.inner().read(key).await
    }

    async fn read_listed(&self, object: &ObjectInfo) -> Result<Bytes> {
        self.0.read_listed(object).await
    }

    async fn read_if_local(&self, key: &str) -> Result<Option<ProbeResult>> {
        self.0.inner().read_if_local(key).await
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.0.inner().read_range(key, range).await
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        let parts = self.read_parts(object, std::slice::from_ref(&range)).await?;
        parts.into_iter().next().ok_or_else(no_part)
    }

    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.read_parts(object, ranges).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        self.0.inner().head(key).await
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.0.inner().put(key, bytes).await
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        self.0.inner().put_if_absent(key, bytes).await
    }

    async fn put_if_absent_again(&self, key: &str, bytes: Bytes, draft: &mut PutDraft) -> Result<PutOutcome> {
        self.0.inner().put_if_absent_again(key, bytes, draft).await
    }

    async fn put_expendable(&self, key: &str, bytes: Bytes, begun: PutDraft) -> Result<()> {
        self.0.inner().put_expendable(key, bytes, begun).await
    }

    fn begin_expendable(&self, key: &str, bytes: &Bytes) -> PutDraft {
        self.0.inner().begin_expendable(key, bytes)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.0.inner().delete(key).await
    }

    async fn delete_all(&self, keys: &[String]) -> Result<()> {
        self.0.inner().delete_all(keys).await
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        self.0.inner().object(key)
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        self.0.inner().upload(key).await
    }

    fn keeps_data(&self) -> bool {
        self.0.keeps_data()
    }

    fn may_be_cached(&self, key: &str) -> bool {
        self.0.may_be_cached(key)
    }

    fn remember(&self, object: &ObjectInfo, bytes: &Bytes) {
        self.0.remember(object, bytes);
    }

    fn behind(&self) -> Option<Arc<dyn Backend>> {
        self.0.behind()
    }
}

/// The error of a read of one range that gave no bytes.
pub(super) fn no_part() -> Error {
    Error::internal("one range was read and gave no bytes; please report this")
}
