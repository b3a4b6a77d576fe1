//! A store in memory that misbehaves by rules: bodies cut short, and puts whose outcome is open.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{
    Backend, Listing, Location, ObjectInfo, ObjectPath, ObjectStore, Options, PutOutcome, Sink, Store, async_trait,
};
use futures::StreamExt;

/// Reads of `key` end after `bytes`, the next `times` times.
#[derive(Clone)]
pub(super) struct Cut {
    pub key: String,
    pub bytes: usize,
    pub times: usize,
}

/// What becomes of one put of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PutFault {
    /// It never arrives; the caller gets `StoreUnavailable`.
    Lost,
    /// It is stored; the caller gets `StoreUnavailable`.
    AnswerLost,
    /// It is stored twice by a client that retried: the caller gets `Exists`.
    Doubled,
    /// It arrives at the next put of the same name, before that one; the caller gets
    /// `StoreUnavailable`.
    Late,
    /// The caller gets `Exists`, and nothing is there.
    ExistsFalsely,
    /// Another writer's commit takes the name first; the caller gets `StoreUnavailable`.
    LostToOther,
}

#[derive(Default)]
pub(super) struct Rules {
    pub cut: Option<Cut>,
    /// The next puts of commits, the first one last.
    pub puts: Vec<PutFault>,
    /// `head` and `read` of commits that fail.
    pub failing_looks: usize,
    /// Puts on their way.
    pub late: Vec<(String, Bytes)>,
}

/// The store's rules, shared with its test.
#[derive(Clone, Default)]
pub(super) struct Faults(Arc<Mutex<Rules>>);

impl Faults {
    pub(super) fn set(&self, rules: Rules) {
        *self.0.lock().unwrap() = rules;
    }

    fn cut(&self, key: &str, start: u64, bytes: Bytes) -> Bytes {
        let mut rules = self.0.lock().unwrap();
        let Some(cut) = rules.cut.as_mut().filter(|c| c.key == key && c.times > 0) else {
            return bytes;
        };
        let end = cut
            .bytes
            .saturating_sub(usize::try_from(start).unwrap())
            .min(bytes.len());
        if end < bytes.len() {
            cut.times -= 1;
        }
        bytes.slice(..end)
    }

    fn look(&self, key: &str) -> Result<()> {
        let mut rules = self.0.lock().unwrap();
        if !is_commit(key) || rules.failing_looks == 0 {
            return Ok(());
        }
        rules.failing_looks -= 1;
        Err(failed())
    }
}

fn is_commit(key: &str) -> bool {
    key.starts_with("_delta_log/") && key.ends_with(".json") && !key.contains("checkpoint")
}

fn failed() -> Error {
    Error::new(Kind::StoreUnavailable, "the store didn't answer in time; try again")
}

/// Errors as a store raises them: the caller adds the table.
fn bare<T>(done: Result<T>) -> Result<T> {
    done.map_err(|e| Error::new(e.kind(), e.message()))
}

/// The store of `location` in memory with faults in front of it.
pub(super) fn open(store: &Store, options: Options) -> (Store, Faults) {
    let faults = Faults::default();
    let (shared, inner) = (faults.clone(), store.clone());
    let opener = move |_: &Location, _: &Options| {
        Ok(Arc::new(FaultyStore {
            inner: inner.clone(),
            faults: shared.clone(),
        }) as Arc<dyn Backend>)
    };
    let opened = Store::open_with(store.location(), &options, Arc::new(opener)).unwrap();
    (opened, faults)
}

struct FaultyStore {
    inner: Store,
    faults: Faults,
}

#[async_trait]
impl Backend for FaultyStore {
    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        Ok(bare(self.inner.list_from(dir, from_name).await)?.boxed())
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        bare(self.inner.list_all(dir).await)
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        self.faults.look(key)?;
        Ok(self.faults.cut(key, 0, bare(self.inner.read(key).await)?))
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let start = range.start;
        Ok(self
            .faults
            .cut(key, start, bare(self.inner.read_range(key, range).await)?))
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        self.faults.look(key)?;
        bare(self.inner.head(key).await)
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        bare(self.inner.put(key, bytes).await)
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        let (fault, late) = {
            let mut rules = self.faults.0.lock().unwrap();
            let fault = if is_commit(key) { rules.puts.pop() } else { None };
            (fault, std::mem::take(&mut rules.late))
        };
        for (key, bytes) in late {
            bare(self.inner.put_if_absent(&key, bytes).await)?;
        }
        let put = async |bytes: Bytes| bare(self.inner.put_if_absent(key, bytes).await);
        match fault {
            None => put(bytes).await,
            Some(PutFault::Lost) => Err(failed()),
            Some(PutFault::AnswerLost) => put(bytes).await.and_then(|_| Err(failed())),
            Some(PutFault::Doubled) => {
                put(bytes.clone()).await?;
                put(bytes).await
            }
            Some(PutFault::Late) => {
                self.faults.0.lock().unwrap().late.push((key.to_owned(), bytes));
                Err(failed())
            }
            Some(PutFault::ExistsFalsely) => Ok(PutOutcome::Exists),
            Some(PutFault::LostToOther) => {
                put(Bytes::from_static(OTHER)).await?;
                Err(failed())
            }
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        bare(self.inner.delete(key).await)
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        bare(self.inner.object(key))
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        Ok(Box::new(super::counted::Through(bare(self.inner.upload(key).await)?)))
    }
}

/// A commit of another writer.
const OTHER: &[u8] = br#"{"commitInfo":{"operation":"WRITE","txnId":"other"}}
{"add":{"path":"other","partitionValues":{},"size":10,"modificationTime":1,"dataChange":true}}
"#;
