//! Any backend as an object_store, for Parquet readers: reading only, any key. Paths are
//! percent-encoded keys. For stores that object_store doesn't have.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use deltaplane_error::Kind;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use percent_encoding::percent_decode_str;

use crate::backend::{Backend, ObjectInfo};

struct BackendObjects(Arc<dyn Backend>);

/// A view of a backend for Parquet readers, and the path of a key in it. Serves as
/// [`Backend::object`] for stores that have no object_store of their own. It reads by `head` and
/// `read_range`.
pub fn objects_of(backend: Arc<dyn Backend>, key: &str) -> (Arc<dyn ObjectStore>, Path) {
    (Arc::new(BackendObjects(backend)), Path::from(key))
}

fn key(location: &Path) -> String {
    percent_decode_str(location.as_ref()).decode_utf8_lossy().into_owned()
}

fn failed(location: &Path, e: deltaplane_error::Error) -> Error {
    let path = location.to_string();
    match e.kind() {
        Kind::ObjectNotFound => Error::NotFound {
            path,
            source: Box::new(e),
        },
        Kind::StoreDenied => Error::PermissionDenied {
            path,
            source: Box::new(e),
        },
        _ => generic(e),
    }
}

fn generic(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic {
        store: "backend",
        source: e.into(),
    }
}

fn meta(location: &Path, info: ObjectInfo) -> ObjectMeta {
    ObjectMeta {
        location: location.clone(),
        last_modified: DateTime::from_timestamp_millis(info.modified_ms).unwrap_or_default(),
        size: info.size_bytes,
        e_tag: info.etag,
        version: None,
    }
}

fn read_only(operation: &str) -> Error {
    Error::NotImplemented {
        operation: operation.to_owned(),
        implementer: "a store's view for readers".to_owned(),
    }
}

impl fmt::Display for BackendObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store's view for readers")
    }
}

impl fmt::Debug for BackendObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackendObjects")
    }
}

#[async_trait]
impl ObjectStore for BackendObjects {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let key = key(location);
        let object = self.0.head(&key).await.map_err(|e| failed(location, e))?;
        let meta = meta(location, object);
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(meta.size).map_err(generic)?,
            None => 0..meta.size,
        };
        let bytes = match options.head || range.is_empty() {
            true => Bytes::new(),
            false => self
                .0
                .read_range(&key, range.clone())
                .await
                .map_err(|e| failed(location, e))?,
        };
        Ok(GetResult {
            payload: GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed()),
            meta,
            range,
            attributes: Attributes::default(),
            extensions: Default::default(),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let key = key(location);
        let reads = ranges.iter().map(|range| self.0.read_range(&key, range.clone()));
        futures::future::try_join_all(reads)
            .await
            .map_err(|e| failed(location, e))
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
