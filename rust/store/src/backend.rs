//! What every store can do, as one trait: the seam between `Store` and the files in `stores/`.
//! Errors leave here with a kind and a message; `Store` adds the table and the file.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::Result;
use futures::stream::BoxStream;
use object_store::ObjectStore;
use object_store::path::Path;

/// An object of a store, as a listing or `head` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The decoded path relative to the table root, with `/` between its parts.
    pub key: String,
    /// The object's length.
    pub size_bytes: u64,
    /// When it was last written, in milliseconds since 1970 (UTC).
    pub modified_ms: i64,
    /// A value that changes whenever the content does, where the store has one.
    pub etag: Option<String>,
}

/// The answer of a put-if-absent: a lost race is a value, not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// This call made the object.
    Created,
    /// The object was there already and is unchanged.
    Exists,
}

/// Listings are streams, so that a directory of millions of files needs no memory of its size.
pub(crate) type Listing = BoxStream<'static, Result<ObjectInfo>>;

#[async_trait]
pub(crate) trait Backend: Send + Sync {
    fn local_path(&self, key: &str) -> Option<PathBuf>;
    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing>;
    async fn list_all(&self, dir: &str) -> Result<Listing>;
    async fn read(&self, key: &str) -> Result<Bytes>;
    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes>;
    async fn head(&self, key: &str) -> Result<ObjectInfo>;
    async fn put(&self, key: &str, bytes: Bytes) -> Result<()>;
    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome>;
    async fn delete(&self, key: &str) -> Result<()>;
    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)>;
    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>>;
}

/// The receiving end of one streaming write.
#[async_trait]
pub(crate) trait Sink: Send {
    async fn write(&mut self, bytes: Bytes) -> Result<()>;
    async fn finish(self: Box<Self>) -> Result<()>;
    async fn abort(self: Box<Self>) -> Result<()>;
}

/// `dir` and `name` as one key; the root directory is the empty string.
pub(crate) fn join_key(dir: &str, name: &str) -> String {
    match dir.trim_matches('/') {
        "" => name.to_owned(),
        dir => format!("{dir}/{name}"),
    }
}
