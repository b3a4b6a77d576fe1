//! Local files as an object_store, for Parquet readers: reading only, any legal file name. Paths
//! are percent-encoded keys, which can spell every name; the file on disk has the key itself as its
//! name.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use percent_encoding::percent_decode_str;

use super::local_read;
use super::local_root::{About, Root};
use crate::runtime::blocking;

#[derive(Debug)]
pub(super) struct LocalObjects {
    root: Root,
}

impl LocalObjects {
    pub(super) fn new(root: Root) -> Self {
        LocalObjects { root }
    }

    /// The percent-encoded path of a key.
    pub(super) fn path(key: &str) -> Path {
        Path::from(key)
    }

    fn file(&self, location: &Path) -> Result<std::path::PathBuf> {
        let key = percent_decode_str(location.as_ref()).decode_utf8_lossy();
        self.root.file(&key).map_err(generic)
    }
}

fn generic(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic {
        store: "local",
        source: e.into(),
    }
}

fn failed(e: io::Error, location: &Path) -> Error {
    let path = location.to_string();
    let source = Box::new(e);
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Error::NotFound { path, source },
        io::ErrorKind::PermissionDenied => Error::PermissionDenied { path, source },
        _ => generic(source),
    }
}

fn meta(location: &Path, meta: &fs::Metadata) -> ObjectMeta {
    let about = About::of(meta);
    ObjectMeta {
        location: location.clone(),
        last_modified: DateTime::from_timestamp_millis(about.modified_ms()).unwrap_or_default(),
        size: about.size_bytes,
        e_tag: Some(about.etag()),
        version: None,
    }
}

fn read_only(operation: &str) -> Error {
    Error::NotImplemented {
        operation: operation.to_owned(),
        implementer: "the local store's view for readers".to_owned(),
    }
}

impl fmt::Display for LocalObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.root)
    }
}

/// Runs on a thread that may block, and returns object_store's own error type.
async fn waiting<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    blocking(move || Ok(work())).await.map_err(generic)?
}

#[async_trait]
impl ObjectStore for LocalObjects {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (path, location) = (self.file(location)?, location.clone());
        waiting(move || {
            let file = File::open(&path).map_err(|e| failed(e, &location))?;
            let metadata = file.metadata().map_err(|e| failed(e, &location))?;
            if metadata.is_dir() {
                return Err(failed(io::ErrorKind::NotFound.into(), &location));
            }
            let meta = meta(&location, &metadata);
            options.check_preconditions(&meta)?;
            let range = match &options.range {
                Some(range) => range.as_range(meta.size).map_err(generic)?,
                None => 0..meta.size,
            };
            Ok(GetResult {
                payload: GetResultPayload::File(file, path),
                meta,
                range,
                attributes: Attributes::default(),
                extensions: Default::default(),
            })
        })
        .await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (path, location, ranges) = (self.file(location)?, location.clone(), ranges.to_vec());
        waiting(move || {
            let file = File::open(path).map_err(|e| failed(e, &location))?;
            let read = |range| local_read::part(&file, range).map_err(|e| failed(e, &location));
            ranges.into_iter().map(read).collect()
        })
        .await
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only("put"))
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only("put_multipart"))
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::iter([Err(read_only("delete"))]).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::iter([Err(read_only("list"))]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(read_only("list"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only("copy"))
    }
}
