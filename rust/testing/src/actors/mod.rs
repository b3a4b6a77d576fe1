//! Who works on the simulated table: writers, readers, checkpointers, cleaners and publishers, all
//! of them the product's own code.

mod checkpointer;
mod cleaner;
mod files;
mod publisher;
mod reader;
mod writer;
mod wrong;

use std::sync::Arc;

pub use writer::schema;

use deltaplane_error::{Error, Kind};
use deltaplane_log::Snapshot;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_store::Store;
use futures::TryStreamExt;

use crate::book::{FileKey, SharedBook, read, vector_id};
use crate::chance::Chance;
use crate::planted::Bug;
use crate::scenario::{Role, Scenario};
use crate::world::{Call, Shared, Who, ask, lock};

/// Calls of a rest.
const LONGEST_REST: usize = 20;

/// What an actor has.
#[derive(Clone)]
pub struct Context {
    /// Its number among all starts of actors.
    pub who: Who,
    /// Its place among the schedule's actors, the same after a crash.
    pub place: usize,
    /// What it does.
    pub role: Role,
    /// How often it has to do it.
    pub turns: usize,
    /// Its view of the table.
    pub store: Store,
    /// The store behind.
    pub world: Shared,
    /// The model.
    pub book: SharedBook,
    /// What it decides by.
    pub chance: Chance,
    /// The schedule's settings.
    pub scenario: Arc<Scenario>,
    /// What it committed last, from which its next write may begin.
    pub own: Option<Snapshot>,
}

/// How much went wrong around an actor when it began something: what it may be told depends on it.
#[derive(Clone, Copy)]
struct Weather {
    failures: u64,
    jumps: u64,
}

impl Context {
    fn bug(&self) -> Option<Bug> {
        self.scenario.bug
    }

    fn weather(&self) -> Weather {
        let world = lock(&self.world);
        Weather {
            failures: world.failures.get(&self.who).copied().unwrap_or(0),
            jumps: world.jumps,
        }
    }

    /// Whether an error is one that a sound table may give in what happened since.
    fn excuses(&self, since: Weather, e: &Error) -> bool {
        let now = self.weather();
        match e.kind() {
            Kind::StoreUnavailable if now.failures > since.failures => true,
            // What it read of the log, or was about to read back, was cleaned up while it slept.
            Kind::StoreUnavailable | Kind::VersionNotFound | Kind::ObjectNotFound | Kind::ConcurrentWrite => {
                now.jumps > since.jumps
            }
            _ => false,
        }
    }

    /// Does nothing until a day has passed, if one passes soon.
    async fn rest(&self) {
        let today = self.weather().jumps;
        for _ in 0..LONGEST_REST {
            let _ = ask(&self.world, self.who, Call::Sleep).await;
            if self.weather().jumps > today {
                return;
            }
        }
    }

    /// Writes rows, which at times takes as long as the scheduler pleases: days may pass between a
    /// plan and its commit.
    async fn write_rows(&mut self) {
        if self.chance.happens(100) {
            let _ = ask(&self.world, self.who, Call::Sleep).await;
        }
    }

    fn accuse(&self, what: String) {
        read(&self.book).accuse(format!("actor {}: {what}", self.who));
    }

    fn newest(&self) -> Option<u64> {
        read(&self.book).newest()
    }
}

/// Does an actor's work.
pub async fn act(context: Context) {
    match context.role {
        Role::Writer => writer::act(context).await,
        Role::Reader => reader::act(context).await,
        Role::Checkpointer => checkpointer::act(context).await,
        Role::Cleaner => cleaner::act(context).await,
        Role::Publisher => publisher::act(context).await,
    }
}

/// The live files of a snapshot.
pub async fn live(snapshot: &Snapshot) -> Result<Vec<FileKey>, Error> {
    let mut batches = snapshot.plan(None, deltaplane_log::PlanColumns::Logged);
    let mut out = Vec::new();
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            let vector = rows.deletion_vector(row);
            let id = vector.map(|v| vector_id(&v.storage_type, &v.path_or_inline_dv, v.offset.map(i64::from)));
            out.push((rows.path(row)?.to_owned(), id));
        }
    }
    Ok(out)
}

/// What the product's reader says of a version, against the model.
pub async fn compare(snapshot: &Snapshot, book: &SharedBook) -> Result<Option<String>, Error> {
    let version = snapshot.version();
    let mut files = live(snapshot).await?;
    files.sort();
    let txns = snapshot.transactions(0).await?;
    let txns = txns.into_iter().map(|t| (t.app_id, t.version)).collect();
    let book = read(book);
    let Some(model) = book.versions.get(version as usize) else {
        return Ok(Some(format!("version {version} was read before it was committed")));
    };
    let wanted: Vec<FileKey> = model.keys().into_iter().collect();
    Ok(if files != wanted {
        Some(format!(
            "version {version} was read with the files {files:?} instead of {wanted:?}"
        ))
    } else if model.txns != txns {
        Some(format!(
            "version {version} was read with the applications {txns:?} instead of {:?}",
            model.txns
        ))
    } else if model.configuration != snapshot.state().metadata().configuration {
        Some(format!("version {version} was read with other properties"))
    } else {
        None
    })
}
