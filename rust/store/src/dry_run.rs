//! Store for dry runs: reads from the store behind it and discards writes. `Store::dry_run` makes
//! it.

use std::any::Any;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Result};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::backend::{Backend, Listing, ObjectInfo, PutOutcome, Sink};

/// Reads go to the store behind; writes and deletions succeed without effect.
pub(crate) struct DryRunStore(pub(crate) Arc<dyn Backend>);

#[async_trait]
impl Backend for DryRunStore {
    fn local_path(&self, key: &str) -> Option<PathBuf> {
        self.0.local_path(key)
    }
    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        self.0.list_from(dir, from_name).await
    }
    async fn list_all(&self, dir: &str) -> Result<Listing> {
        self.0.list_all(dir).await
    }
    async fn read(&self, key: &str) -> Result<Bytes> {
        self.0.read(key).await
    }
    async fn read_listed(&self, object: &ObjectInfo) -> Result<Bytes> {
        self.0.read_listed(object).await
    }
    async fn read_all_listed(&self, objects: Arc<[ObjectInfo]>) -> Result<Vec<Result<Bytes>>> {
        self.0.read_all_listed(objects).await
    }
    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.0.read_range(key, range).await
    }
    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        self.0.read_part(object, range).await
    }
    async fn read_parts(&self, object: &ObjectInfo, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.read_parts(object, ranges).await
    }
    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        self.0.head(key).await
    }
    async fn put(&self, _: &str, _: Bytes) -> Result<()> {
        Ok(())
    }
    async fn put_if_absent(&self, key: &str, _: Bytes) -> Result<PutOutcome> {
        // Only a real put can decide whether a commit would win.
        Err(Error::internal(format!(
            "a dry run was about to commit `{key}`; please report this"
        )))
    }
    async fn delete(&self, _: &str) -> Result<()> {
        Ok(())
    }
    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        self.0.object(key)
    }
    async fn upload(&self, _: &str) -> Result<Box<dyn Sink>> {
        Ok(Box::new(Nowhere))
    }
    fn keeps_data(&self) -> bool {
        self.0.keeps_data()
    }
    fn wrapper(&self) -> Option<Arc<dyn Any + Send + Sync>> {
        self.0.wrapper()
    }
}

struct Nowhere;

#[async_trait]
impl Sink for Nowhere {
    async fn write(&mut self, _: Bytes) -> Result<()> {
        Ok(())
    }
    async fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;

    use crate::{Location, Options, Store, block_on};

    #[test]
    fn what_is_there_is_read_and_nothing_is_kept() {
        let location = Location::parse("memory://unwritten/t").unwrap();
        let store = Store::open(&location, &Options::default()).unwrap();
        let dry_run = store.dry_run().unwrap();
        block_on(async {
            store.put("there", Bytes::from_static(b"old")).await.unwrap();
            dry_run.put("there", Bytes::from_static(b"new")).await.unwrap();
            dry_run.delete("there").await.unwrap();
            assert_eq!(dry_run.read("there").await.unwrap(), Bytes::from_static(b"old"));
            let mut upload = dry_run.upload("new").await.unwrap();
            upload.write(Bytes::from_static(b"12345")).await.unwrap();
            assert_eq!(upload.finish().await.unwrap(), 5);
            assert!(store.head("new").await.is_err());
            assert!(dry_run.put_if_absent("commit", Bytes::new()).await.is_err());
            assert!(store.head("commit").await.is_err());
        });
    }
}
