//! A store in memory that records its requests, and fails those that a test selects: for tests of
//! the requests that a cache saves, and of requests beside or after others.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{
    Backend, Listing, Location, ObjectInfo, ObjectPath, ObjectStore, Opener, Options, PutOutcome, Sink, Store, Upload,
    async_trait, register_scheme,
};
use futures::{StreamExt, TryStreamExt};

/// What every store of one scheme was asked, one text for each request; and what fails.
#[derive(Clone, Default)]
pub struct Asked(Arc<Mutex<Vec<String>>>, Arc<Mutex<Option<String>>>);

#[allow(dead_code, reason = "not every test binary lets it fail")]
impl Asked {
    fn note(&self, what: String) -> Result<()> {
        let fails = self.1.lock().unwrap().as_ref().is_some_and(|part| what.contains(part));
        self.0.lock().unwrap().push(what);
        match fails {
            true => Err(Error::new(Kind::StoreUnavailable, "the test lets it fail")),
            false => Ok(()),
        }
    }

    /// Lets requests fail from now on whose text has this part; `None` lets all pass.
    pub fn fail(&self, part: Option<&str>) {
        *self.1.lock().unwrap() = part.map(str::to_owned);
    }

    /// What was asked since the last call, sorted: requests run side by side.
    pub fn take(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.0.lock().unwrap());
        asked.sort();
        asked
    }
}

/// Makes a scheme of counted stores, whose tags become what `tag` makes of them.
#[allow(dead_code, reason = "not every test binary has a scheme")]
pub fn register(scheme: &str, tag: fn(Option<String>) -> Option<String>) -> Asked {
    let asked = Asked::default();
    register_scheme(scheme, opener(&asked, tag)).unwrap();
    asked
}

/// A counted store at a location whose scheme the library knows, such as `s3`; and one of the same
/// objects that isn't counted, as other writers have it.
#[allow(dead_code, reason = "not every test binary has such a store")]
pub fn at(location: &str) -> (Store, Store, Asked) {
    let (asked, others) = (Asked::default(), Asked::default());
    let location = Location::parse(location).unwrap();
    let open = |asked| Store::open_with(&location, &Options::default(), opener(asked, |tag| tag)).unwrap();
    (open(&asked), open(&others), asked)
}

fn opener(asked: &Asked, tag: fn(Option<String>) -> Option<String>) -> Opener {
    let asked = asked.clone();
    Arc::new(move |location: &Location, _: &Options| {
        let below = location.as_str().replacen("://", "/", 1);
        let below = Location::parse(&format!("memory://{below}"))?;
        Ok(Arc::new(Counted {
            store: Store::open(&below, &Options::default())?,
            asked: asked.clone(),
            tag,
        }) as Arc<dyn Backend>)
    })
}

/// Errors as a store raises them: the caller says of which table.
fn bare<T>(done: Result<T>) -> Result<T> {
    done.map_err(|e| Error::new(e.kind(), e.message()))
}

struct Counted {
    store: Store,
    asked: Asked,
    tag: fn(Option<String>) -> Option<String>,
}

impl Counted {
    fn shown(&self, info: ObjectInfo) -> ObjectInfo {
        ObjectInfo {
            etag: (self.tag)(info.etag),
            ..info
        }
    }
}

#[async_trait]
impl Backend for Counted {
    fn local_path(&self, key: &str) -> Option<PathBuf> {
        self.store.local_path(key)
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        self.asked.note(format!("list {dir}"))?;
        let tag = self.tag;
        let listing = bare(self.store.list_from(dir, from_name).await)?;
        Ok(listing
            .map_ok(move |info| ObjectInfo {
                etag: tag(info.etag),
                ..info
            })
            .boxed())
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        self.asked.note(format!("list {dir}"))?;
        bare(self.store.list_all(dir).await)
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        self.asked.note(format!("read {key}"))?;
        bare(self.store.read(key).await)
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.asked.note(format!("read {key} {range:?}"))?;
        bare(self.store.read_range(key, range).await)
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        self.asked.note(format!("part {} {range:?}", object.key))?;
        object.expect(&self.shown(bare(self.store.head(&object.key).await)?))?;
        bare(self.store.read_range(&object.key, range).await)
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        self.asked.note(format!("head {key}"))?;
        bare(self.store.head(key).await).map(|info| self.shown(info))
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.asked.note(format!("put {key}"))?;
        bare(self.store.put(key, bytes).await)
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        self.asked.note(format!("put {key}"))?;
        bare(self.store.put_if_absent(key, bytes).await)
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.asked.note(format!("delete {key}"))?;
        bare(self.store.delete(key).await)
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        bare(self.store.object(key))
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        Ok(Box::new(Through(bare(self.store.upload(key).await)?)))
    }
}

pub(crate) struct Through(pub(crate) Upload);

#[async_trait]
impl Sink for Through {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.0.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<()> {
        self.0.finish().await.map(|_| ())
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.0.abort().await
    }
}
