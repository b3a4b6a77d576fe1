//! The contract suite over a store from elsewhere, registered under a scheme of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{
    Backend, Listing, Location, ObjectInfo, ObjectPath, ObjectStore, Options, PutOutcome, Sink, Store, async_trait,
    objects_of, register_scheme,
};
use futures::{StreamExt, stream};

#[path = "contract/suite.rs"]
#[allow(dead_code)] // what only stores with buckets are asked
mod suite;

fn open(text: &str) -> Store {
    Store::open(&Location::parse(text).unwrap(), &Options::default()).unwrap()
}

#[test]
fn plugin() {
    let shelves: Arc<Mutex<BTreeMap<String, Shelf>>> = Arc::default();
    let opener = move |location: &Location, _: &Options| {
        let mut shelves = shelves.lock().unwrap();
        let shelf = shelves.entry(location.to_string()).or_default();
        Ok(Arc::new(shelf.clone()) as Arc<dyn Backend>)
    };
    assert!(Location::parse("shelf://a/t").is_err());
    register_scheme("shelf", Arc::new(opener)).unwrap();
    suite::run(
        &|name| open(&format!("shelf://host:1/tables/{name}")),
        &suite::Traits::of_page(100),
    );
    assert!(register_scheme("s3", Arc::new(|_, _| Err(Error::internal("never")))).is_err());
}

/// Objects in a map: the least that a store from elsewhere is.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<BTreeMap<String, (Bytes, ObjectInfo)>>>);

impl Shelf {
    fn infos(&self, keep: impl Fn(&str) -> bool) -> Listing {
        let objects = self.0.lock().unwrap();
        let infos: Vec<_> = objects.values().map(|(_, info)| info.clone()).collect();
        stream::iter(infos.into_iter().filter(|i| keep(&i.key)).map(Ok).collect::<Vec<_>>()).boxed()
    }

    fn found(&self, key: &str) -> Result<(Bytes, ObjectInfo)> {
        let objects = self.0.lock().unwrap();
        let object = objects.get(checked(key)?).cloned();
        object.ok_or_else(|| Error::new(Kind::ObjectNotFound, "no such object"))
    }
}

fn checked(key: &str) -> Result<&str> {
    match key.is_empty() || key.split('/').any(|part| part == "..") {
        true => Err(Error::invalid_argument("no path of the table")),
        false => Ok(key),
    }
}

fn below(dir: &str) -> String {
    match dir.trim_matches('/') {
        "" => String::new(),
        dir => format!("{dir}/"),
    }
}

#[async_trait]
impl Backend for Shelf {
    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        let dir = below(dir);
        Ok(self.infos(|key| {
            let name = key.strip_prefix(&dir);
            name.is_some_and(|name| !name.contains('/') && name >= from_name)
        }))
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        let dir = below(dir);
        Ok(self.infos(|key| key.starts_with(&dir)))
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        Ok(self.found(key)?.0)
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let (bytes, _) = self.found(key)?;
        let (start, end) = (range.start as usize, (range.end as usize).min(bytes.len()));
        match (start >= end, start >= bytes.len()) {
            (true, _) if range.is_empty() => Ok(Bytes::new()),
            (_, true) => Err(Error::invalid_argument("behind the end")),
            _ => Ok(bytes.slice(start..end)),
        }
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        Ok(self.found(key)?.1)
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let mut objects = self.0.lock().unwrap();
        let info = ObjectInfo {
            key: checked(key)?.to_owned(),
            size_bytes: bytes.len() as u64,
            modified_ms: chrono::Utc::now().timestamp_millis(),
            etag: Some(format!("{:?}", bytes.as_ptr())),
        };
        objects.insert(key.to_owned(), (bytes, info));
        Ok(())
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        let info = ObjectInfo {
            key: checked(key)?.to_owned(),
            size_bytes: bytes.len() as u64,
            modified_ms: chrono::Utc::now().timestamp_millis(),
            etag: Some(format!("{:?}", bytes.as_ptr())),
        };
        let mut objects = self.0.lock().unwrap();
        if objects.contains_key(key) {
            return Ok(PutOutcome::Exists);
        }
        objects.insert(key.to_owned(), (bytes, info));
        Ok(PutOutcome::Created)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.0.lock().unwrap().remove(checked(key)?);
        Ok(())
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        Ok(objects_of(Arc::new(self.clone()), checked(key)?))
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        Ok(Box::new(Growing(self.clone(), checked(key)?.to_owned(), Vec::new())))
    }
}

struct Growing(Shelf, String, Vec<u8>);

#[async_trait]
impl Sink for Growing {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.2.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<()> {
        self.0.put(&self.1, self.2.into()).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
