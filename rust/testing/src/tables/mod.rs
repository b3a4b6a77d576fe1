//! Schedules of two tables of one catalog: transactions over both, commits to one, readers between,
//! and a catalog whose server crashes. After every step the model is compared with what the catalog
//! and the store have.

mod actors;
mod book;
mod group;
mod planted;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use deltaplane_error::Result;
use deltaplane_log::committer::Content;
use deltaplane_log::{Snapshot, Tell, create_table};
use deltaplane_protocol::paths;
use deltaplane_store::PutOutcome;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::actors::schema;
use crate::catalog::Catalog;
use crate::chance::Chance;
use crate::checkpoints::log_file;
use crate::schedule::{BEGIN_MS, DAY_MS, Hazards, Outcome, Play, Schedule, Start, block_on};
use crate::store::{ACTOR, with_simulated_environment};
use crate::world::{Answer, Call, Shared, Who, World, lock};

use actors::{Context, Role, act, compare, creation};
use book::{Book, Effect, Fate, SharedBook, read};

pub use planted::GroupBug;

/// How many tables there are.
const TABLES: usize = 2;
/// What their keys begin with.
const PREFIXES: [&str; TABLES] = ["a/", "b/"];
/// The actor that makes the tables and looks at them at the end.
const OWNER: Who = usize::MAX;
const HOUR_MS: i64 = 3600 * 1000;

/// The settings of one schedule.
struct Scenario {
    actors: Vec<(Role, usize)>,
    hazards: Hazards,
    bug: Option<GroupBug>,
}

impl Scenario {
    fn draw(chance: &mut Chance, bug: Option<GroupBug>) -> Self {
        let mut actors = vec![(Role::Writer, 3); 3];
        actors.extend([(Role::Reader, 3); 2]);
        actors.push((Role::Publisher, 3));
        Scenario {
            actors,
            hazards: Hazards {
                failures: chance.one(&[0, 0, 10, 30, 80]),
                crashes: chance.one(&[0, 0, 3, 10]),
                jumps: 0,
                outages: chance.one(&[0, 0, 5, 20]),
            },
            bug,
        }
    }

    /// Whether nothing fails.
    fn is_calm(&self) -> bool {
        self.hazards.failures == 0 && self.hazards.crashes == 0 && self.hazards.outages == 0
    }
}

/// Runs the schedule of a seed over two tables, with a planted bug, if any.
pub fn run_tables(seed: u64, bug: Option<GroupBug>, traced: bool) -> Outcome {
    let mut chance = Chance::new(seed);
    let scenario = Scenario::draw(&mut chance, bug);
    let mut world = World::new(BEGIN_MS, chance.one(&[1, 3, 1000]), chance.branch());
    let catalog = Catalog {
        inline_bytes: chance.one(&[0, 0, 700, 1 << 20]),
        most_held: chance.one(&[2, 3, 10]),
        reports: chance.happens(400),
        flaw: bug.and_then(GroupBug::flaw_of_catalog),
        ..Catalog::default()
    };
    world.catalogs = vec![catalog; TABLES];
    world.keeps_staged = bug == Some(GroupBug::LosersLeftBehind);
    let world: Shared = Arc::new(Mutex::new(world));
    let _environment = with_simulated_environment(&world);
    let hazards = scenario.hazards;
    let play = TwoTables {
        book: Arc::new(Mutex::new(Book::default())),
        scenario,
    };
    let mut schedule = Schedule::new(world, play, hazards, chance, seed, traced);
    block_on(simulate(&mut schedule));
    schedule.out
}

async fn simulate(schedule: &mut Schedule<TwoTables>) {
    begin(schedule).await;
    if schedule.play.scenario.bug == Some(GroupBug::AnsweredBeforeDurable) {
        let mut world = lock(&schedule.world);
        world.durable = Some(world.catalogs.clone());
    }
    schedule.run().await;
    if schedule.out.violation.is_none() {
        end(schedule).await;
    }
    schedule.stop();
    let book = read(&schedule.play.book);
    let fates = |counts: fn(&Fate) -> bool| book.intents.iter().filter(|i| counts(&i.fate)).count() as u64;
    let (unclear, failed) = (
        fates(|fate| *fate == Fate::Unclear),
        fates(|fate| matches!(fate, Fate::Failed(_))),
    );
    let in_both = book.places.values().filter(|place| place.iter().all(Option::is_some));
    let transactions = in_both.count() as u64;
    let commits = book.tables.iter().map(|versions| versions.len() as u64).sum();
    drop(book);
    schedule.out.commits = commits;
    schedule.out.count("transactions in both tables", transactions);
    schedule.out.count("unclear transactions", unclear);
    schedule.out.count("failed transactions", failed);
}

/// The tables' actors and their model.
struct TwoTables {
    book: SharedBook,
    scenario: Scenario,
}

impl Play for TwoTables {
    fn places(&self) -> usize {
        self.scenario.actors.len()
    }

    fn start(&mut self, start: Start) -> (BoxFuture<'static, ()>, String) {
        let Start {
            who,
            place,
            mut chance,
            world,
        } = start;
        let (role, turns) = self.scenario.actors[place];
        let ahead = chance.one(&[0, 0, HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS]);
        lock(&world).ahead_ms.insert(who, ahead);
        let context = Context {
            who,
            place,
            role,
            turns,
            world,
            book: Arc::clone(&self.book),
            chance,
            bug: self.scenario.bug,
        };
        (act(context), format!("{role:?}"))
    }

    fn judge(&self, world: &mut World, call: &Call, answer: &Result<Answer>) -> std::result::Result<(), String> {
        let mut book = read(&self.book);
        match call {
            Call::Put(key, bytes) | Call::PutIfAbsent(key, bytes)
                if !matches!(answer, Ok(Answer::Put(PutOutcome::Exists))) =>
            {
                judge_written(&mut book, key, bytes)?;
            }
            _ => {}
        }
        judge_ratified(world, &mut book)
    }

    fn accuse(&self, what: String) {
        read(&self.book).accuse(what);
    }

    fn wrong(&self) -> Option<String> {
        read(&self.book).wrong.clone()
    }
}

fn judge_written(book: &mut Book, key: &str, bytes: &Bytes) -> std::result::Result<(), String> {
    for (table, prefix) in PREFIXES.iter().enumerate() {
        let name = key.strip_prefix(prefix).and_then(log_file);
        if let Some((version, "json")) = name {
            book.published(table, version, bytes)?;
        }
    }
    Ok(())
}

/// What the catalog has ratified, by what it holds: all of it has content, nothing that the model
/// knows is gone or another, and what is new was ratified at one instant.
fn judge_ratified(world: &World, book: &mut Book) -> std::result::Result<(), String> {
    let mut group = Vec::new();
    for (table, catalog) in world.catalogs.iter().enumerate() {
        let (prefix, known) = (PREFIXES[table], book.tables[table].len() as u64);
        let ratified = catalog.latest.map_or(0, |latest| latest + 1);
        if ratified < known {
            return Err(format!("the catalog forgot version {} of table {table}", known - 1));
        }
        if catalog.notified.map_or(0, |version| version + 1) > book.published[table] {
            return Err(format!(
                "the catalog was notified that version {:?} of table {table} is published",
                catalog.notified
            ));
        }
        if known == 0 && ratified > 0 {
            let first = world.objects.get(&format!("{prefix}{}", paths::commit(0)));
            let first = first.ok_or(format!("table {table} has no first version"))?;
            group.push((table, 0, first.bytes.clone()));
        }
        for version in book.published[table].max(1)..ratified {
            if !catalog.held.contains_key(&version) {
                return Err(format!(
                    "version {version} of table {table} is neither held nor published"
                ));
            }
        }
        for (version, commit) in &catalog.held {
            match world.content(prefix, &commit.content) {
                Some(bytes) => group.push((table, *version, bytes)),
                None => return Err(format!("the content of version {version} of table {table} is gone")),
            }
        }
    }
    book.ratified(&group)
}

fn owner(schedule: &Schedule<TwoTables>) -> Context {
    Context {
        who: OWNER,
        place: 0,
        role: Role::Publisher,
        turns: 0,
        world: Arc::clone(&schedule.world),
        book: Arc::clone(&schedule.play.book),
        chance: Chance::new(0),
        bug: None,
    }
}

async fn begin(schedule: &mut Schedule<TwoTables>) {
    for table in 0..TABLES {
        let owner = owner(schedule);
        let mut effects = [None; TABLES];
        effects[table] = Some(Effect::Create);
        let intent = read(&owner.book).begin(effects);
        let book = Arc::clone(&owner.book);
        let task = tokio::spawn(ACTOR.scope(OWNER, async move {
            let request = serde_json::from_value(creation(intent)).expect("a request");
            create_table(&owner.open(table, None)?, schema(), request).await
        }));
        schedule.serve_all(&task).await;
        match task.await {
            Ok(Ok(snapshot)) => {
                let mut versions = [None; TABLES];
                versions[table] = Some(snapshot.version());
                read(&book).settle(intent, Fate::Committed(versions));
            }
            Ok(Err(e)) => read(&book).accuse(format!("table {table} can't be made: {e}")),
            Err(e) => read(&book).accuse(format!("table {table} can't be made: {e}")),
        }
    }
}

/// What must hold when all is quiet: the newest versions are read and can be published, and what
/// losers staged is deleted, or found.
async fn end(schedule: &mut Schedule<TwoTables>) {
    schedule.deliver_all_late();
    let owner = owner(schedule);
    let book = Arc::clone(&owner.book);
    let task = tokio::spawn(ACTOR.scope(OWNER, async move {
        for table in 0..TABLES {
            if let Err(e) = look(&owner, table).await {
                owner_accuses(&owner, table, &e.to_string());
            }
        }
    }));
    schedule.serve_all(&task).await;
    if let Err(e) = task.await {
        read(&book).accuse(format!("the owner failed: {e}"));
    }
    let left = {
        let world = lock(&schedule.world);
        let book = read(&book);
        (0..TABLES).find_map(|table| left_behind(&world, &book, table, schedule.play.scenario.is_calm()))
    };
    let mut book = read(&book);
    if let Err(what) = book.check_fates() {
        book.accuse(what);
    }
    if let Some(what) = left {
        book.accuse(what);
    }
    schedule.out.violation = book.wrong.clone();
}

fn owner_accuses(owner: &Context, table: usize, what: &str) {
    read(&owner.book).accuse(format!("at the end of table {table}: {what}"));
}

async fn look(owner: &Context, table: usize) -> Result<()> {
    let store = owner.open(table, None)?;
    let snapshot = Snapshot::open(&store, None).await?;
    let newest = read(&owner.book).newest()[table];
    if snapshot.version() != newest {
        owner_accuses(
            owner,
            table,
            &format!("version {} is read, not {newest}", snapshot.version()),
        );
    }
    compare(owner, table, &snapshot).await?;
    // Before publication, so that the catalog still holds commits.
    lock(&owner.world).now_ms += 30 * DAY_MS;
    let findings = snapshot.check(&Tell::default()).await?;
    let orphans: BTreeSet<String> = findings
        .into_iter()
        .filter(|finding| finding.kind == "orphan")
        .filter_map(|finding| finding.path)
        .collect();
    let unneeded = unneeded(&lock(&owner.world), table, newest);
    if orphans != unneeded {
        owner_accuses(
            owner,
            table,
            &format!("fsck finds {orphans:?}, and nothing needs {unneeded:?}"),
        );
    }
    snapshot.publish().await.map(drop)
}

/// The staged commits of ratified versions that the catalog doesn't hold.
fn unneeded(world: &World, table: usize, newest: u64) -> BTreeSet<String> {
    let folder = format!("{}_delta_log/_staged_commits/", PREFIXES[table]);
    let held = &world.catalogs[table].held;
    let staged = world.objects.iter().filter(|(key, _)| key.starts_with(&folder));
    let unneeded = staged.filter_map(|(key, _)| {
        let name = key.strip_prefix(&folder)?;
        let version = paths::staged_version(name)?;
        let is_held = held
            .get(&version)
            .is_some_and(|commit| matches!(&commit.content, Content::Staged(file) if file.name == name));
        (version <= newest && !is_held).then(|| key.strip_prefix(PREFIXES[table]).map(str::to_owned))?
    });
    unneeded.collect()
}

/// A staged commit of a transaction that lost, where nothing kept its writer from deleting it.
fn left_behind(world: &World, book: &Book, table: usize, is_calm: bool) -> Option<String> {
    let folder = format!("{}_delta_log/_staged_commits/", PREFIXES[table]);
    let staged = world.objects.iter().filter(|(key, _)| key.starts_with(&folder));
    let mut lost = staged.filter(|(_, object)| {
        let info = object.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let info: Value = serde_json::from_slice(info).unwrap_or_default();
        let is_of_group = info["commitInfo"]["transactionGroup"].is_object();
        is_of_group && !book.tables[table].iter().any(|version| version.text == object.bytes)
    });
    let (key, _) = lost.next().filter(|_| is_calm)?;
    Some(format!("a transaction lost, and {key} is left behind"))
}
