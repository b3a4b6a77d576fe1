//! `SimStore`: a backend whose every call waits until the scheduler serves it, and the environment
//! of the core in a simulation: the world's clock and chance.

use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::committer::managed;
use deltaplane_log::{Environment, EnvironmentGuard, with_environment};
use deltaplane_store::{Backend, Listing, Location, ObjectInfo, Options, ProbeResult, PutOutcome, Sink, Store};
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::committer::SimCommitter;
use crate::planted::{Bug, Faulty};
use crate::world::{Answer, Call, Shared, Who, ask, lock};

tokio::task_local! {
    /// Whose code runs.
    pub static ACTOR: Who;
}

/// One actor's way to the world.
#[derive(Clone)]
pub struct SimStore {
    world: Shared,
    who: Who,
    /// What the table's keys begin with in the world, if it has several tables.
    prefix: &'static str,
}

/// The table as an actor opens it, with a planted bug between it and the store, if any.
pub fn open(world: &Shared, who: Who, bug: Option<Bug>) -> Store {
    let plain = plain(world, who, "", bug);
    let is_managed = !lock(world).catalogs.is_empty();
    let takes_unknown_for_refused = bug == Some(Bug::UnknownTakenForRefused);
    let committer = || Arc::new(SimCommitter::new(world, who, 0, takes_unknown_for_refused));
    match is_managed {
        true => managed(&plain, committer(), None).expect("a store"),
        false => plain,
    }
}

/// The store of a table whose keys begin with this prefix in the world, without a catalog.
pub fn plain(world: &Shared, who: Who, prefix: &'static str, bug: Option<Bug>) -> Store {
    let backend = SimStore {
        world: Arc::clone(world),
        who,
        prefix,
    };
    let location = Location::parse(&format!("memory://simulation/{prefix}table")).expect("a location");
    let opener = move |_: &Location, _: &Options| -> Result<Arc<dyn Backend>> {
        Ok(match bug {
            None => Arc::new(backend.clone()),
            Some(bug) => Arc::new(Faulty::new(Arc::new(backend.clone()), bug)),
        })
    };
    Store::open_with(&location, &Options::default(), Arc::new(opener)).expect("a store")
}

impl SimStore {
    async fn ask(&self, call: Call) -> Result<Answer> {
        ask(&self.world, self.who, call).await
    }

    async fn bytes(&self, call: Call) -> Result<Bytes> {
        match self.ask(call).await? {
            Answer::Bytes(bytes) => Ok(bytes),
            other => Err(mixed_up(&other)),
        }
    }

    async fn page(&self, dir: String, from: String, after: Option<String>) -> Result<(Vec<ObjectInfo>, bool)> {
        let call = Call::List {
            dir: self.key(&dir),
            from,
            after: after.map(|key| self.key(&key)),
        };
        self.listed(call).await
    }

    async fn listed(&self, call: Call) -> Result<(Vec<ObjectInfo>, bool)> {
        match self.ask(call).await? {
            Answer::Page(page, more) => Ok((page.into_iter().map(|object| self.own(object)).collect(), more)),
            other => Err(mixed_up(&other)),
        }
    }

    /// A key of the table as the world knows it.
    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// An object of the world as the table knows it.
    fn own(&self, object: ObjectInfo) -> ObjectInfo {
        let key = object.key.strip_prefix(self.prefix).unwrap_or(&object.key).to_owned();
        ObjectInfo { key, ..object }
    }
}

fn mixed_up(answer: &Answer) -> Error {
    Error::internal(format!("the simulation answered {answer:?} to another call"))
}

#[async_trait]
impl Backend for SimStore {
    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        let (dir, from) = (dir.to_owned(), from_name.to_owned());
        // Pages are fetched as the caller gets there: the store changes between them.
        let first = self.page(dir.clone(), from.clone(), None).await?;
        let state = (self.clone(), dir, from, first.0, first.1);
        let rest = stream::try_unfold(
            Some(state),
            async |state| -> Result<Option<(Vec<ObjectInfo>, Option<_>)>> {
                let Some((store, dir, from, page, more)) = state else {
                    return Ok(None);
                };
                let (Some(last), true) = (page.last().map(|o: &ObjectInfo| o.key.clone()), more) else {
                    return Ok(Some((page, None)));
                };
                let (next, more) = store.page(dir.clone(), from.clone(), Some(last)).await?;
                Ok(Some((page, Some((store, dir, from, next, more)))))
            },
        );
        Ok(rest
            .map_ok(|page| stream::iter(page.into_iter().map(Ok)))
            .try_flatten()
            .boxed())
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        let (page, _) = self.listed(Call::ListAll(self.key(dir))).await?;
        Ok(stream::iter(page.into_iter().map(Ok)).boxed())
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        self.bytes(Call::Read(self.key(key))).await
    }

    async fn read_if_local(&self, key: &str) -> Result<Option<ProbeResult>> {
        if !lock(&self.world).is_near() {
            return Ok(None);
        }
        let object = match self.head(key).await {
            Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(Some(ProbeResult::Absent)),
            object => object?,
        };
        match self.read(key).await {
            Err(e) if e.kind() == Kind::ObjectNotFound => Ok(None),
            bytes => Ok(Some(ProbeResult::Found(object, bytes?))),
        }
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        self.bytes(Call::ReadRange(self.key(key), None, range)).await
    }

    async fn read_part(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Bytes> {
        let key = self.key(&object.key);
        let shown = ObjectInfo {
            key: key.clone(),
            ..object.clone()
        };
        self.bytes(Call::ReadRange(key, Some(shown), range)).await
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        match self.ask(Call::Head(self.key(key))).await? {
            Answer::Info(info) => Ok(self.own(info)),
            other => Err(mixed_up(&other)),
        }
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        self.ask(Call::Put(self.key(key), bytes)).await.map(drop)
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        match self.ask(Call::PutIfAbsent(self.key(key), bytes)).await? {
            Answer::Put(outcome) => Ok(outcome),
            other => Err(mixed_up(&other)),
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.ask(Call::Delete(self.key(key))).await.map(drop)
    }

    fn object(&self, _: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        Err(Error::invalid_argument("the simulated store holds no rows"))
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        Ok(Box::new(SimUpload {
            store: self.clone(),
            key: key.to_owned(),
            bytes: BytesMut::new(),
        }))
    }
}

/// Nobody sees it before its end, so its end is its only step.
struct SimUpload {
    store: SimStore,
    key: String,
    bytes: BytesMut,
}

#[async_trait]
impl Sink for SimUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<()> {
        self.store.put(&self.key, self.bytes.freeze()).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct Simulated(Shared);

/// Gives this thread the world's time and chance.
pub fn with_simulated_environment(world: &Shared) -> EnvironmentGuard {
    with_environment(Rc::new(Simulated(Arc::clone(world))))
}

impl Environment for Simulated {
    fn now_ms(&self) -> i64 {
        let world = lock(&self.0);
        let ahead = ACTOR.try_with(|who| world.ahead_ms.get(who).copied());
        world.now_ms + ahead.ok().flatten().unwrap_or(0)
    }

    fn random(&self) -> u128 {
        let mut world = lock(&self.0);
        (u128::from(world.chance.next()) << 64) | u128::from(world.chance.next())
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        let (world, who) = (Arc::clone(&self.0), ACTOR.try_with(|who| *who).unwrap_or_default());
        Box::pin(async move {
            let _ = ask(&world, who, Call::Sleep).await;
        })
    }
}
