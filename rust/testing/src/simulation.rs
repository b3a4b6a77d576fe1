//! Schedules of one table: writers, readers, checkpointers, cleaners and publishers run the
//! product's own code; after every step the model is compared with the store.

use std::sync::{Arc, Mutex};

use deltaplane_error::Result;
use deltaplane_log::{Snapshot, create_table};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::actors::{Context, act, compare, schema};
use crate::book::{Book, Fate, Operation, SharedBook, read};
use crate::catalog::Catalog;
use crate::chance::Chance;
use crate::checkpoints::rebuildable;
use crate::judge::judge;
use crate::planted::Bug;
use crate::scenario::{Role, Scenario};
use crate::schedule::{BEGIN_MS, DAY_MS, Hazards, Outcome, Play, Schedule, Start, block_on};
use crate::store::{ACTOR, open, with_simulated_environment};
use crate::world::{Answer, Call, Shared, World, lock};

/// Runs the schedule of a seed, with a planted bug, if any.
pub fn run(seed: u64, bug: Option<Bug>, traced: bool) -> Outcome {
    let mut chance = Chance::new(seed);
    let scenario = Arc::new(Scenario::draw(&mut chance, bug));
    let mut world = World::new(BEGIN_MS, scenario.page, chance.branch());
    world.catalogs.extend(scenario.catalog.map(|catalog| Catalog {
        inline_bytes: catalog.inline_bytes,
        most_held: catalog.most_held,
        reports: catalog.reports,
        flaw: bug.and_then(Bug::flaw_of_catalog),
        ..Catalog::default()
    }));
    let world: Shared = Arc::new(Mutex::new(world));
    let _environment = with_simulated_environment(&world);
    let hazards = Hazards {
        failures: scenario.failures,
        crashes: scenario.crashes,
        jumps: scenario.jumps,
        outages: 0,
    };
    let play = OneTable {
        book: Arc::new(Mutex::new(Book::default())),
        scenario,
    };
    let mut schedule = Schedule::new(world, play, hazards, chance, seed, traced);
    block_on(simulate(&mut schedule));
    schedule.out
}

async fn simulate(schedule: &mut Schedule<OneTable>) {
    if schedule.play.scenario.begun {
        begin_table(schedule).await;
    }
    schedule.run().await;
    if schedule.out.violation.is_none() {
        end(schedule).await;
    }
    schedule.stop();
    let book = read(&schedule.play.book);
    let unclear = book.intents.iter().filter(|i| i.fate == Fate::Unclear).count();
    let conflicts = book
        .intents
        .iter()
        .filter(|i| matches!(i.fate, Fate::Failed(_)))
        .count();
    schedule.out.commits = book.versions.len() as u64;
    drop(book);
    schedule.out.count("unclear transactions", unclear as u64);
    schedule.out.count("conflicts", conflicts as u64);
}

/// The table's actors and its model.
struct OneTable {
    book: SharedBook,
    scenario: Arc<Scenario>,
}

impl Play for OneTable {
    fn places(&self) -> usize {
        self.scenario.actors.len()
    }

    fn start(&mut self, start: Start) -> (BoxFuture<'static, ()>, String) {
        let Start {
            who,
            place,
            chance,
            world,
        } = start;
        let (role, turns) = self.scenario.actors[place];
        let month = 30 * DAY_MS;
        let ahead = match (self.scenario.bug, role) {
            (Some(Bug::TombstonesDropped), Role::Checkpointer) | (Some(Bug::CleanedTooEarly), Role::Cleaner) => month,
            _ => 0,
        };
        lock(&world).ahead_ms.insert(who, ahead);
        let context = Context {
            who,
            place,
            role,
            turns,
            store: open(&world, who, self.scenario.bug),
            world,
            book: Arc::clone(&self.book),
            chance,
            scenario: Arc::clone(&self.scenario),
            own: None,
        };
        (Box::pin(act(context)), format!("{role:?}"))
    }

    fn judge(&self, world: &mut World, call: &Call, answer: &Result<Answer>) -> std::result::Result<(), String> {
        judge(world, &mut read(&self.book), call, answer)
    }

    fn accuse(&self, what: String) {
        read(&self.book).accuse(what);
    }

    fn wrong(&self) -> Option<String> {
        read(&self.book).wrong.clone()
    }

    fn is_writer(&self, place: usize) -> bool {
        self.scenario.actors[place].0 == Role::Writer
    }

    fn clock_sleeps(&self) -> bool {
        self.scenario.bug == Some(Bug::SleeperTrusted)
    }
}

async fn begin_table(schedule: &mut Schedule<OneTable>) {
    let (book, scenario) = (Arc::clone(&schedule.play.book), Arc::clone(&schedule.play.scenario));
    let intent = read(&book).begin(Operation::Create, None);
    let configuration: Value = scenario.properties.iter().cloned().collect();
    let request = json!({
        "mode": "error", "partition_by": ["p"], "configuration": configuration,
        "commit": {"commit_info": {"simIntent": intent}},
    });
    let request = serde_json::from_value(request).expect("a request");
    let (store, who) = (open(&schedule.world, usize::MAX, None), usize::MAX);
    let task = tokio::spawn(ACTOR.scope(who, async move { create_table(&store, schema(), request).await }));
    schedule.serve_all(&task).await;
    match task.await {
        Ok(Ok(snapshot)) => read(&book).settle(intent, Fate::Committed(snapshot.version())),
        Ok(Err(e)) => read(&book).accuse(format!("the table can't be made: {e}")),
        Err(e) => read(&book).accuse(format!("the table can't be made: {e}")),
    }
}

/// What must hold when all is quiet: a fresh reader finds every version that can be rebuilt.
async fn end(schedule: &mut Schedule<OneTable>) {
    schedule.deliver_all_late();
    let book = Arc::clone(&schedule.play.book);
    let newest = read(&book).newest();
    let store = open(&schedule.world, usize::MAX, None);
    let versions = newest
        .map(|n| rebuildable(&lock(&schedule.world), n))
        .unwrap_or_default();
    let oldest = versions.iter().next().copied();
    let wanted: Vec<Option<u64>> = newest.map(|_| [None, oldest].into()).unwrap_or_default();
    let is_managed = schedule.play.scenario.catalog.is_some();
    let readers = Arc::clone(&book);
    let task = tokio::spawn(ACTOR.scope(usize::MAX, async move {
        for version in wanted {
            if let Some(wrong) = look(&store, version, &readers).await {
                read(&readers).accuse(wrong);
            }
        }
        if is_managed && let Err(e) = publish_all(&store).await {
            read(&readers).accuse(format!("at the end the newest version can't be published: {e}"));
        }
    }));
    schedule.serve_all(&task).await;
    let mut book = read(&book);
    if let Err(what) = book.check_fates() {
        book.accuse(what);
    }
    schedule.out.violation = book.wrong.clone();
}

async fn publish_all(store: &deltaplane_store::Store) -> Result<u64> {
    Snapshot::open(store, None).await?.publish().await
}

async fn look(store: &deltaplane_store::Store, version: Option<u64>, book: &SharedBook) -> Option<String> {
    let snapshot = match Snapshot::open(store, version).await {
        Ok(snapshot) => snapshot,
        Err(e) => return Some(format!("at the end version {version:?} can't be opened: {e}")),
    };
    if version.is_none() && Some(snapshot.version()) != read(book).newest() {
        return Some(format!(
            "at the end the newest version is read as {}",
            snapshot.version()
        ));
    }
    match compare(&snapshot, book).await {
        Ok(difference) => difference,
        Err(e) => Some(format!("at the end version {} can't be read: {e}", snapshot.version())),
    }
}
