//! The simulated store as its scheduler sees it: objects, calls that wait to be served, calls that
//! arrive late. Serving one call is one atomic step. Knows keys and bytes, nothing of tables.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::committer::{Content, GroupProposal, LogTail, Proposal};
use deltaplane_protocol::paths;
use deltaplane_store::{ObjectInfo, PutOutcome};
use futures::channel::oneshot;

use crate::catalog::{Catalog, Decided, GroupDecided, decide_all};
use crate::chance::Chance;

/// Who calls: every start of an actor gets its own number.
pub type Who = usize;

/// A stored object.
#[derive(Debug, Clone)]
pub struct Object {
    /// Its content.
    pub bytes: Bytes,
    /// When it was written, ms since the epoch.
    pub modified_ms: i64,
    /// Which write of all it was.
    pub written: u64,
}

/// What an actor wants of the store.
#[derive(Debug, Clone)]
pub enum Call {
    /// A page of the files directly in a directory, of names from `from` on or after `after`.
    List {
        /// The directory.
        dir: String,
        /// First name.
        from: String,
        /// Last key of the page before.
        after: Option<String>,
    },
    /// All files below a directory.
    ListAll(String),
    /// A whole object.
    Read(String),
    /// A part of an object, of this writing of it if one is named.
    ReadRange(String, Option<ObjectInfo>, Range<u64>),
    /// Size and time.
    Head(String),
    /// Writes over what is there: a put, or the end of an upload.
    Put(String, Bytes),
    /// Writes if the name is free.
    PutIfAbsent(String, Bytes),
    /// Deletes.
    Delete(String),
    /// Proposes a commit of a table to the catalog.
    Propose(usize, Box<Proposal>),
    /// The catalog's newest commits of a table from a version on.
    LogTail(usize, u64),
    /// Tells the catalog what of a table is published.
    TellPublished(usize, u64),
    /// Proposes commits of several tables to the catalog, all or nothing.
    ProposeAll(Vec<(usize, GroupProposal)>),
    /// The catalog's newest commits of all tables at one instant.
    LoadAll,
    /// Waits until the scheduler thinks that it was long enough.
    Sleep,
}

impl Call {
    /// Whether the store is another one after it.
    pub fn changes(&self) -> bool {
        matches!(
            self,
            Call::Put(..)
                | Call::PutIfAbsent(..)
                | Call::Delete(_)
                | Call::Propose(..)
                | Call::TellPublished(..)
                | Call::ProposeAll(_)
        )
    }

    /// Whether it proposes commits to the catalog.
    pub fn proposes(&self) -> bool {
        matches!(self, Call::Propose(..) | Call::ProposeAll(_))
    }

    /// Whether it goes to the catalog.
    pub fn asks_catalog(&self) -> bool {
        self.proposes() || matches!(self, Call::LogTail(..) | Call::TellPublished(..) | Call::LoadAll)
    }

    /// For traces.
    pub fn text(&self) -> String {
        let short = |key: &str| key.trim_start_matches("_delta_log/").to_owned();
        match self {
            Call::List { from, after, .. } => match after {
                None => format!("list from {from}"),
                Some(key) => format!("list on after {}", short(key)),
            },
            Call::ListAll(dir) => format!("list all of {dir}"),
            Call::Read(key) => format!("read {}", short(key)),
            Call::ReadRange(key, _, range) => format!("read {}..{} of {}", range.start, range.end, short(key)),
            Call::Head(key) => format!("head {}", short(key)),
            Call::Put(key, bytes) => format!("put {} ({} bytes)", short(key), bytes.len()),
            Call::PutIfAbsent(key, bytes) => format!("put-if-absent {} ({} bytes)", short(key), bytes.len()),
            Call::Delete(key) => format!("delete {}", short(key)),
            Call::Propose(table, proposal) => format!("propose {} of table {table}", proposal.version),
            Call::LogTail(table, from) => format!("log tail of table {table} from {from}"),
            Call::TellPublished(table, version) => format!("tell that {version} of table {table} is published"),
            Call::ProposeAll(group) => {
                let parts = group.iter().map(|(table, part)| match part {
                    GroupProposal::Commit(proposal) => format!("{} of table {table}", proposal.version),
                    GroupProposal::Unchanged(version) => format!("table {table} at {version}"),
                });
                format!("propose {}", parts.collect::<Vec<_>>().join(" and "))
            }
            Call::LoadAll => "load all tables".to_owned(),
            Call::Sleep => "wake".to_owned(),
        }
    }
}

/// What a served call says.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A page, and whether more follows.
    Page(Vec<ObjectInfo>, bool),
    /// Content.
    Bytes(Bytes),
    /// Size and time.
    Info(ObjectInfo),
    /// Of a put-if-absent.
    Put(PutOutcome),
    /// Of a proposal.
    Decided(Decided),
    /// The catalog's newest commits.
    Tail(LogTail),
    /// Of a group of proposals.
    GroupDecided(GroupDecided),
    /// The catalog's newest commits of all tables.
    Tails(Vec<LogTail>),
    /// Nothing else to say.
    Done,
}

/// A call that waits.
pub struct Pending {
    /// Its caller.
    pub who: Who,
    /// What it wants.
    pub call: Call,
    /// Where the answer goes; closed when nobody waits for it any more.
    pub answer: oneshot::Sender<Result<Answer>>,
}

/// The store and what waits before it.
pub struct World {
    /// The objects by key.
    pub objects: BTreeMap<String, Object>,
    /// How many writes were served.
    pub writes: u64,
    /// Calls that wait, in the order of their coming.
    pub pending: Vec<Pending>,
    /// Changes whose callers were told that the store failed, and that arrive later or never.
    pub late: Vec<(Who, Call)>,
    /// Starts of actors that ended by a crash.
    pub dead: HashSet<Who>,
    /// Now, ms since the epoch.
    pub now_ms: i64,
    /// How far the clocks of single actors are ahead.
    pub ahead_ms: BTreeMap<Who, i64>,
    /// Objects of a page of a listing.
    pub page: usize,
    /// Failures that were served, by caller.
    pub failures: BTreeMap<Who, u64>,
    /// Checkpoints that were found right, with the sidecars that they name.
    pub checkpoints: BTreeMap<String, Vec<String>>,
    /// What the catalog that decides the tables' commits knows of each of them; empty if none does.
    pub catalogs: Vec<Catalog>,
    /// What of that is durable, if its answers may come before.
    pub durable: Option<Vec<Catalog>>,
    /// Whether deletions of staged commits are forgotten.
    pub keeps_staged: bool,
    /// How often the clock jumped by days.
    pub jumps: u64,
    /// Ids and pauses.
    pub chance: Chance,
}

/// The world as actors share it.
pub type Shared = Arc<Mutex<World>>;

/// The world, locked: only one thread ever asks for it.
pub fn lock(shared: &Shared) -> MutexGuard<'_, World> {
    shared.lock().expect("a schedule runs on one thread")
}

/// Puts a call before the scheduler and waits for its answer.
pub async fn ask(world: &Shared, who: Who, call: Call) -> Result<Answer> {
    let (answer, wait) = oneshot::channel();
    {
        let mut world = lock(world);
        if !world.dead.contains(&who) {
            world.pending.push(Pending { who, call, answer });
        }
    }
    match wait.await {
        Ok(answer) => answer,
        // Its caller crashed: what would come next never happens.
        Err(_) => std::future::pending().await,
    }
}

/// The failure that stores answer with when something passing is wrong.
pub fn unavailable() -> Error {
    Error::new(Kind::StoreUnavailable, "the simulated store failed")
}

impl World {
    /// An empty store at this time.
    pub fn new(now_ms: i64, page: usize, chance: Chance) -> Self {
        World {
            objects: BTreeMap::new(),
            writes: 0,
            pending: Vec::new(),
            late: Vec::new(),
            dead: HashSet::new(),
            now_ms,
            ahead_ms: BTreeMap::new(),
            page,
            failures: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            catalogs: Vec::new(),
            durable: None,
            keeps_staged: false,
            jumps: 0,
            chance,
        }
    }

    /// Whether names may be requested one by one: a store that lists all names at once represents a
    /// file system.
    pub fn is_near(&self) -> bool {
        self.page >= 1000
    }

    /// Serves a call, whole and at once.
    pub fn serve(&mut self, call: &Call) -> Result<Answer> {
        match call {
            Call::List { dir, from, after } => Ok(self.list(dir, from, after.as_deref())),
            Call::ListAll(dir) => Ok(Answer::Page(self.below(dir).map(|(k, o)| info(k, o)).collect(), false)),
            Call::Read(key) => Ok(Answer::Bytes(self.object(key)?.bytes.clone())),
            Call::ReadRange(key, object, range) => self.part(key, object.as_ref(), range),
            Call::Head(key) => Ok(Answer::Info(info(key, self.object(key)?))),
            Call::Put(key, bytes) => {
                self.write(key, bytes);
                Ok(Answer::Done)
            }
            Call::PutIfAbsent(key, _) if self.objects.contains_key(key) => Ok(Answer::Put(PutOutcome::Exists)),
            Call::PutIfAbsent(key, bytes) => {
                self.write(key, bytes);
                Ok(Answer::Put(PutOutcome::Created))
            }
            Call::Delete(key) if self.keeps_staged && key.contains(paths::STAGED_DIR) => Ok(Answer::Done),
            Call::Delete(key) => {
                self.objects.remove(key);
                Ok(Answer::Done)
            }
            Call::Propose(table, proposal) => {
                self.keep_durable();
                Ok(Answer::Decided(self.catalog(*table)?.decide(proposal)))
            }
            Call::LogTail(table, from) => Ok(Answer::Tail(self.catalog(*table)?.tail(*from))),
            Call::TellPublished(table, version) => {
                self.catalog(*table)?.forget(*version);
                Ok(Answer::Done)
            }
            Call::ProposeAll(group) => {
                self.keep_durable();
                Ok(Answer::GroupDecided(decide_all(&mut self.catalogs, group)))
            }
            Call::LoadAll => Ok(Answer::Tails(self.catalogs.iter().map(|c| c.tail(0)).collect())),
            Call::Sleep => Ok(Answer::Done),
        }
    }

    /// The content of a commit that the catalog ratifies, of the table whose keys begin with this
    /// prefix; `None` if its file isn't there.
    pub fn content(&self, prefix: &str, commit: &Content) -> Option<Bytes> {
        let key = match commit {
            Content::Inline(bytes) => return Some(bytes.clone()),
            Content::Staged(file) => paths::staged_commit(&file.name),
            Content::Published(_) => paths::commit(0),
        };
        let object = self.objects.get(&format!("{prefix}{key}"));
        object.map(|object| object.bytes.clone())
    }

    /// The catalog's server starts again, with what is durable.
    pub fn catalog_restarts(&mut self) {
        if let Some(durable) = &mut self.durable {
            // What was published in the meantime is published.
            for (durable, catalog) in durable.iter_mut().zip(&self.catalogs) {
                durable.published = catalog.published;
            }
            self.catalogs.clone_from(durable);
        }
    }

    /// A database that answers before its transaction is durable: the one before it is.
    fn keep_durable(&mut self) {
        if let Some(durable) = &mut self.durable {
            durable.clone_from(&self.catalogs);
        }
    }

    fn catalog(&mut self, table: usize) -> Result<&mut Catalog> {
        let catalog = self.catalogs.get_mut(table);
        catalog.ok_or_else(|| Error::internal("the simulated table has no catalog"))
    }

    fn write(&mut self, key: &str, bytes: &Bytes) {
        let object = Object {
            bytes: bytes.clone(),
            modified_ms: self.now_ms,
            written: self.writes,
        };
        self.writes += 1;
        self.objects.insert(key.to_owned(), object);
    }

    fn object(&self, key: &str) -> Result<&Object> {
        let body = self.objects.get(key);
        body.ok_or_else(|| Error::new(Kind::ObjectNotFound, "the simulated store holds no such object"))
    }

    fn part(&self, key: &str, shown: Option<&ObjectInfo>, range: &Range<u64>) -> Result<Answer> {
        let object = self.object(key)?;
        if let Some(shown) = shown {
            shown.expect(&info(key, object))?;
        }
        let bytes = &object.bytes;
        let (start, end) = (range.start as usize, (range.end as usize).min(bytes.len()));
        if start > end {
            return Err(Error::invalid_argument("the object ends before the range"));
        }
        Ok(Answer::Bytes(bytes.slice(start..end)))
    }

    fn below(&self, dir: &str) -> impl Iterator<Item = (&String, &Object)> {
        let prefix = match dir.is_empty() || dir.ends_with('/') {
            true => dir.to_owned(),
            false => format!("{dir}/"),
        };
        let from = self.objects.range(prefix.clone()..);
        from.take_while(move |(key, _)| key.starts_with(&prefix))
    }

    fn list(&self, dir: &str, from: &str, after: Option<&str>) -> Answer {
        let first = format!("{dir}/{from}");
        let children = self.below(dir).filter(|(key, _)| !key[dir.len() + 1..].contains('/'));
        let rest = children.filter(|(key, _)| **key >= first && after.is_none_or(|a| key.as_str() > a));
        let mut page: Vec<_> = rest.map(|(k, o)| info(k, o)).take(self.page + 1).collect();
        let more = page.len() > self.page;
        page.truncate(self.page);
        Answer::Page(page, more)
    }
}

fn info(key: &str, object: &Object) -> ObjectInfo {
    ObjectInfo {
        key: key.to_owned(),
        size_bytes: object.bytes.len() as u64,
        modified_ms: object.modified_ms,
        etag: Some(object.written.to_string()),
    }
}
