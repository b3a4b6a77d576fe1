//! A backend over a store of an application that makes one call at a time and may wait: calls run
//! on threads that may block. What the application leaves out is done by a store below, or by other
//! calls where that is possible.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use futures::{StreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path as ObjectPath;

use crate::backend::{Backend, Listing, ObjectInfo, PutOutcome, Sink};
use crate::backend_objects::objects_of;
use crate::runtime::handle;
use crate::store::{Store, Upload};

/// One call of an application's store, with decoded paths relative to the table's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginCall {
    /// The files directly in a directory whose names sort at or after a name.
    ListFrom(String, String),
    /// All files below a directory.
    ListAll(String),
    /// A whole object.
    Read(String),
    /// A part of an object.
    ReadRange(String, Range<u64>),
    /// An object's size and time.
    Head(String),
    /// Writes an object.
    Put(String, Bytes),
    /// Writes an object unless there is one.
    PutIfAbsent(String, Bytes),
    /// Deletes an object.
    Delete(String),
}

impl PluginCall {
    /// The method's name, as applications and messages know it.
    pub fn method(&self) -> &'static str {
        match self {
            PluginCall::ListFrom(..) => "list_from",
            PluginCall::ListAll(_) => "list_all",
            PluginCall::Read(_) => "read",
            PluginCall::ReadRange(..) => "read_range",
            PluginCall::Head(_) => "head",
            PluginCall::Put(..) => "put",
            PluginCall::PutIfAbsent(..) => "put_if_absent",
            PluginCall::Delete(_) => "delete",
        }
    }
}

/// The answer of the call of the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginReply {
    /// Of listings.
    Files(Vec<ObjectInfo>),
    /// Of reads.
    Bytes(Bytes),
    /// Of `Head`.
    Info(ObjectInfo),
    /// Of `PutIfAbsent`: whether it created the object.
    Created(bool),
    /// Of `Put` and `Delete`.
    Done,
}

/// A store of an application.
pub trait StorePlugin: Send + Sync + 'static {
    /// What messages call it.
    fn name(&self) -> &str;
    /// Makes a call, which may block; `None` where the application leaves it to the store below.
    ///
    /// # Errors
    /// What the call means for its caller, by its kind.
    fn call(&self, call: PluginCall) -> Result<Option<PluginReply>>;
}

/// An application's store as a backend; `base` does what the application leaves out.
#[derive(Clone)]
pub struct PluginStore {
    plugin: Arc<dyn StorePlugin>,
    base: Option<Store>,
}

impl PluginStore {
    /// Of an application's store.
    pub fn new(plugin: Arc<dyn StorePlugin>, base: Option<Store>) -> Self {
        PluginStore { plugin, base }
    }

    async fn call(&self, call: PluginCall) -> Result<Option<PluginReply>> {
        let plugin = Arc::clone(&self.plugin);
        let done = handle().spawn_blocking(move || plugin.call(call)).await;
        done.unwrap_or_else(|e| Err(Error::internal(format!("a call of a log store was cut short: {e}"))))
    }

    fn base(&self, method: &str) -> Result<&Store> {
        self.base.as_ref().ok_or_else(|| {
            Error::invalid_argument(format!(
                "the log store {} has no method {method}, and no base that could do it; give it one of the two",
                self.plugin.name()
            ))
        })
    }

    /// The size and time of an object by the listing of its directory, where a plug-in without a
    /// base has no better way.
    async fn head_by_listing(&self, key: &str) -> Result<ObjectInfo> {
        let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
        match self.list_from(dir, name).await?.next().await.transpose()? {
            Some(info) if info.key == key => Ok(info),
            _ => Err(Error::new(Kind::ObjectNotFound, "the log store lists no such object")),
        }
    }
}

fn wrong(reply: &PluginReply) -> Error {
    Error::internal(format!("a log store answered another call: {reply:?}"))
}

fn files(reply: PluginReply) -> Result<Listing> {
    match reply {
        PluginReply::Files(files) => Ok(stream::iter(files.into_iter().map(Ok)).boxed()),
        other => Err(wrong(&other)),
    }
}

fn bytes(reply: PluginReply) -> Result<Bytes> {
    match reply {
        PluginReply::Bytes(bytes) => Ok(bytes),
        other => Err(wrong(&other)),
    }
}

/// A key that stays in the table's directory.
fn checked(key: &str) -> Result<String> {
    if key.is_empty() || key.split('/').any(|part| part == "..") {
        return Err(Error::invalid_argument(
            "a path is empty or leads out of the table's directory",
        ));
    }
    Ok(key.to_owned())
}

fn directory(dir: &str) -> String {
    dir.trim_matches('/').to_owned()
}

#[async_trait]
impl Backend for PluginStore {
    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        match self
            .call(PluginCall::ListFrom(directory(dir), from_name.to_owned()))
            .await?
        {
            Some(reply) => files(reply),
            None => self.base("list_from")?.list_from(dir, from_name).await,
        }
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        match self.call(PluginCall::ListAll(directory(dir))).await? {
            Some(reply) => files(reply),
            None => self.base("list_all")?.list_all(dir).await,
        }
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        match self.call(PluginCall::Read(checked(key)?)).await? {
            Some(reply) => bytes(reply),
            None => self.base("read")?.read(key).await,
        }
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        match self.call(PluginCall::ReadRange(checked(key)?, range.clone())).await? {
            Some(reply) => bytes(reply),
            None => match &self.base {
                Some(base) => base.read_range(key, range).await,
                None => part(&self.read(key).await?, range),
            },
        }
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        match self.call(PluginCall::Head(checked(key)?)).await? {
            Some(PluginReply::Info(info)) => Ok(info),
            Some(other) => Err(wrong(&other)),
            None => match &self.base {
                Some(base) => base.head(key).await,
                None => self.head_by_listing(key).await,
            },
        }
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        match self.call(PluginCall::Put(checked(key)?, bytes.clone())).await? {
            Some(_) => Ok(()),
            None => self.base("put")?.put(key, bytes).await,
        }
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        match self.call(PluginCall::PutIfAbsent(checked(key)?, bytes.clone())).await {
            Ok(Some(PluginReply::Created(true))) => Ok(PutOutcome::Created),
            Ok(Some(PluginReply::Created(false))) => Ok(PutOutcome::Exists),
            Ok(Some(other)) => Err(wrong(&other)),
            Ok(None) => self.base("put_if_absent")?.put_if_absent(key, bytes).await,
            Err(e) if e.kind() == Kind::ObjectExists => Ok(PutOutcome::Exists),
            // Something of the store's own is missing, perhaps after it had written the object.
            Err(e) if e.kind() == Kind::ObjectNotFound => Err(Error::new(Kind::StoreUnavailable, e.message())),
            Err(e) => Err(e),
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        match self.call(PluginCall::Delete(checked(key)?)).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => self.base("delete")?.delete(key).await,
            Err(e) if e.kind() == Kind::ObjectNotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        match &self.base {
            Some(base) => base.object(key),
            None => Ok(objects_of(Arc::new(self.clone()), &checked(key)?)),
        }
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        Ok(match &self.base {
            Some(base) => Box::new(Through(base.upload(key).await?)),
            None => Box::new(Whole {
                store: self.clone(),
                key: checked(key)?,
                bytes: Vec::new(),
            }),
        })
    }
}

fn part(bytes: &Bytes, range: Range<u64>) -> Result<Bytes> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let place = |index: u64| usize::try_from(index).unwrap_or(usize::MAX).min(bytes.len());
    let (start, end) = (place(range.start), place(range.end));
    if start == bytes.len() {
        return Err(Error::invalid_argument(
            "the range to read begins behind the object's end",
        ));
    }
    Ok(bytes.slice(start..end))
}

/// A new file of the store below.
struct Through(Upload);

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

/// A new file of a plug-in without a base, which takes files as a whole.
struct Whole {
    store: PluginStore,
    key: String,
    bytes: Vec<u8>,
}

#[async_trait]
impl Sink for Whole {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<()> {
        let Whole { store, key, bytes } = *self;
        store.put(&key, bytes.into()).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use futures::TryStreamExt;

    use super::*;
    use crate::location::Location;
    use crate::options::Options;
    use crate::runtime::block_on;

    /// Objects in memory; calls of the methods that are left out are left to the base.
    #[derive(Default)]
    struct Objects {
        objects: Mutex<BTreeMap<String, Bytes>>,
        left_out: Vec<&'static str>,
    }

    impl StorePlugin for Objects {
        fn name(&self) -> &'static str {
            "Objects"
        }

        fn call(&self, call: PluginCall) -> Result<Option<PluginReply>> {
            if self.left_out.contains(&call.method()) {
                return Ok(None);
            }
            let mut objects = self.objects.lock().unwrap();
            let missing = || Error::new(Kind::ObjectNotFound, "no such object");
            let info = |(key, bytes): (&String, &Bytes)| ObjectInfo {
                key: key.clone(),
                size_bytes: bytes.len() as u64,
                modified_ms: 7,
                etag: None,
            };
            Ok(Some(match call {
                PluginCall::ListFrom(dir, from) => {
                    let first = format!("{dir}/{from}");
                    PluginReply::Files(objects.range(first..).map(info).collect())
                }
                PluginCall::ListAll(_) => PluginReply::Files(objects.iter().map(info).collect()),
                PluginCall::Read(key) => PluginReply::Bytes(objects.get(&key).ok_or_else(missing)?.clone()),
                PluginCall::ReadRange(key, range) => {
                    PluginReply::Bytes(part(objects.get(&key).ok_or_else(missing)?, range)?)
                }
                PluginCall::Head(key) => PluginReply::Info(info(objects.get_key_value(&key).ok_or_else(missing)?)),
                PluginCall::Put(key, bytes) => {
                    objects.insert(key, bytes);
                    PluginReply::Done
                }
                PluginCall::PutIfAbsent(key, bytes) => {
                    let absent = !objects.contains_key(&key);
                    objects.entry(key).or_insert(bytes);
                    PluginReply::Created(absent)
                }
                PluginCall::Delete(key) => {
                    objects.remove(&key).ok_or_else(missing)?;
                    PluginReply::Done
                }
            }))
        }
    }

    fn store(left_out: &[&'static str], base: Option<Store>) -> PluginStore {
        let plugin = Objects {
            left_out: left_out.to_vec(),
            ..Objects::default()
        };
        PluginStore::new(Arc::new(plugin), base)
    }

    fn keys(listing: Result<Listing>) -> Vec<String> {
        let files: Vec<ObjectInfo> = block_on(listing.unwrap().try_collect()).unwrap();
        files.into_iter().map(|f| f.key).collect()
    }

    #[test]
    fn calls_are_those_of_the_backend() {
        let store = store(&[], None);
        let put = |text: &'static str| block_on(store.put_if_absent("log/1", Bytes::from_static(text.as_bytes())));
        assert_eq!(put("one").unwrap(), PutOutcome::Created);
        assert_eq!(put("two").unwrap(), PutOutcome::Exists);
        block_on(store.put("log/2", Bytes::from_static(b"two"))).unwrap();
        assert_eq!(block_on(store.read("log/1")).unwrap(), "one");
        assert_eq!(block_on(store.read_range("log/1", 1..9)).unwrap(), "ne");
        assert_eq!(block_on(store.head("log/1")).unwrap().size_bytes, 3);
        assert_eq!(keys(block_on(store.list_from("/log/", "2"))), ["log/2"]);
        assert_eq!(keys(block_on(store.list_all(""))), ["log/1", "log/2"]);
        block_on(store.delete("log/1")).unwrap();
        block_on(store.delete("log/1")).unwrap();
        assert_eq!(block_on(store.read("log/1")).unwrap_err().kind(), Kind::ObjectNotFound);
    }

    #[test]
    fn without_a_base_other_calls_do_what_is_left_out() {
        let store = store(&["read_range", "head"], None);
        let mut upload = block_on(store.upload("log/1")).unwrap();
        block_on(upload.write(Bytes::from_static(b"on"))).unwrap();
        block_on(upload.write(Bytes::from_static(b"e"))).unwrap();
        block_on(upload.finish()).unwrap();
        assert_eq!(block_on(store.read_range("log/1", 1..2)).unwrap(), "n");
        assert_eq!(block_on(store.read_range("log/1", 3..3)).unwrap(), "");
        let behind = block_on(store.read_range("log/1", 3..4)).unwrap_err();
        assert_eq!(behind.kind(), Kind::InvalidArgument);
        assert_eq!(block_on(store.head("log/1")).unwrap().modified_ms, 7);
        assert_eq!(block_on(store.head("log/0")).unwrap_err().kind(), Kind::ObjectNotFound);
    }

    #[test]
    fn what_cannot_be_done_otherwise_needs_a_base() {
        let left_out = ["list_all", "put"];
        let e = block_on(store(&left_out, None).put("log/1", Bytes::new())).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert!(e.message().contains("the log store Objects has no method put"), "{e}");
        let location = Location::parse("memory://plugin-store-base/t").unwrap();
        let base = Store::open(&location, &Options::default()).unwrap();
        let over = store(&left_out, Some(base));
        block_on(over.put("log/1", Bytes::from_static(b"one"))).unwrap();
        assert_eq!(keys(block_on(over.list_all(""))), ["log/1"]);
        assert_eq!(
            block_on(over.read("log/1")).unwrap_err().kind(),
            Kind::ObjectNotFound,
            "reads stay its own"
        );
    }

    #[test]
    fn paths_stay_in_the_directory_of_the_table() {
        for key in ["", "../other", "a/../../b"] {
            let e = block_on(store(&[], None).read(key)).unwrap_err();
            assert_eq!(e.kind(), Kind::InvalidArgument, "{key}");
        }
    }
}
