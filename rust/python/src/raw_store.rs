//! A store's own operations, as the check of its contract calls them. Tables are worked on by the
//! other files.

use std::borrow::Cow;

use bytes::Bytes;
use deltaplane_boundary::boundary;
use deltaplane_error::Result;
use deltaplane_store::{Listing, ObjectInfo, PutOutcome, Store, block_on};
use futures::TryStreamExt;
use pyo3::prelude::*;

use crate::snapshot::{Options, store};

/// The bytes below one location.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct RawStore(Store);

/// Path, size, time and tag.
type Shown = (String, u64, i64, Option<String>);

fn shown(info: ObjectInfo) -> Shown {
    (info.key, info.size_bytes, info.modified_ms, info.etag)
}

async fn all(listing: Result<Listing>) -> Result<Vec<Shown>> {
    listing?.map_ok(shown).try_collect().await
}

/// Bytes as Python's `bytes`.
type Data = Cow<'static, [u8]>;

#[boundary]
impl RawStore {
    #[staticmethod]
    #[pyo3(signature = (location, options = None))]
    fn open(location: &str, options: Options) -> Result<Self> {
        store(location, options).map(RawStore)
    }

    fn put(&self, path: &str, data: Vec<u8>) -> Result<()> {
        block_on(self.0.put(path, Bytes::from(data)))
    }

    fn put_if_absent(&self, path: &str, data: Vec<u8>) -> Result<bool> {
        block_on(self.0.put_if_absent(path, Bytes::from(data))).map(|outcome| outcome == PutOutcome::Created)
    }

    fn read(&self, path: &str) -> Result<Data> {
        block_on(self.0.read(path)).map(|bytes| bytes.to_vec().into())
    }

    fn read_range(&self, path: &str, start: u64, end: u64) -> Result<Data> {
        block_on(self.0.read_range(path, start..end)).map(|bytes| bytes.to_vec().into())
    }

    fn head(&self, path: &str) -> Result<Shown> {
        block_on(self.0.head(path)).map(shown)
    }

    fn list_from(&self, directory: &str, name: &str) -> Result<Vec<Shown>> {
        block_on(async { all(self.0.list_from(directory, name).await).await })
    }

    fn list_all(&self, directory: &str) -> Result<Vec<Shown>> {
        block_on(async { all(self.0.list_all(directory).await).await })
    }

    /// Names of the directories directly in one, and the files there; `None` where the store can't
    /// tell.
    fn list_level(&self, directory: &str) -> Result<Option<(Vec<String>, Vec<Shown>)>> {
        let level = block_on(self.0.list_level(directory))?;
        Ok(level.map(|l| (l.directories, l.files.into_iter().map(shown).collect())))
    }

    fn delete(&self, path: &str) -> Result<()> {
        block_on(self.0.delete(path))
    }

    fn delete_all(&self, paths: Vec<String>) -> Result<()> {
        block_on(self.0.delete_all(&paths))
    }
}
