//! Uploads of work that has a retry limit: object_store sends their parts by tasks of its own,
//! which would not have it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use crate::retry_limit::{self, RetryLimit};

/// A store for one upload of the current work.
pub(crate) fn for_upload(store: &Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
    let store = Arc::clone(store);
    match retry_limit::current() {
        Some(limit) => Arc::new(Limited { store, limit }),
        None => store,
    }
}

#[derive(Debug)]
struct Limited {
    store: Arc<dyn ObjectStore>,
    limit: Arc<RetryLimit>,
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Limited {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.store.put_multipart_opts(path, options).await?;
        let limit = Arc::clone(&self.limit);
        Ok(Box::new(LimitedParts { upload, limit }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

#[derive(Debug)]
struct LimitedParts {
    upload: Box<dyn MultipartUpload>,
    limit: Arc<RetryLimit>,
}

#[async_trait]
impl MultipartUpload for LimitedParts {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let part = self.upload.put_part(data);
        retry_limit::with_limit_of(Arc::clone(&self.limit), part).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        retry_limit::with_limit_of(Arc::clone(&self.limit), self.upload.complete()).await
    }

    async fn abort(&mut self) -> Result<()> {
        retry_limit::with_limit_of(Arc::clone(&self.limit), self.upload.abort()).await
    }
}
