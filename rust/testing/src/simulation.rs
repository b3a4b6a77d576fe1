//! One schedule: a seed decides who goes on, what the store does to each call, who crashes and when
//! days pass; after every step the model is compared with the store. One thread, no clock: the same
//! seed gives the same steps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use deltaplane_error::Result;
use deltaplane_log::{Snapshot, create_table};
use futures::FutureExt;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, yield_now};

use crate::actors::{Context, act, compare, schema};
use crate::book::{Book, Fate, Operation, SharedBook, read};
use crate::catalog::Catalog;
use crate::chance::Chance;
use crate::checkpoints::{log_file, rebuildable};
use crate::judge::judge;
use crate::planted::Bug;
use crate::scenario::{Role, Scenario};
use crate::store::{ACTOR, open, with_simulated_environment};
use crate::world::{Answer, Call, Pending, Shared, Who, World, lock, unavailable};

/// When simulated time begins: 2026-01-01.
const BEGIN_MS: i64 = 1_767_225_600_000;
/// Steps after which a schedule counts as stuck.
const MOST_STEPS: u64 = 20_000;
/// Jumps of the clock that a sleeping actor misses: some, or all until the others have come to
/// their end.
const NIGHTS: [u64; 2] = [3, 1_000];
/// Jumps in a thousand calls while an actor sleeps.
const NIGHTLY: u64 = 25;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// What a schedule came to.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What decided it.
    pub seed: u64,
    /// Calls that were served.
    pub steps: u64,
    /// Versions at the end.
    pub commits: u64,
    /// Things that happened, by name.
    pub events: BTreeMap<&'static str, u64>,
    /// What went wrong.
    pub violation: Option<String>,
    /// Every step as text, if it was asked for.
    pub trace: Vec<String>,
}

/// Runs the schedule of a seed, with a planted bug, if any.
pub fn run(seed: u64, bug: Option<Bug>, traced: bool) -> Outcome {
    let mut chance = Chance::new(seed);
    let scenario = Arc::new(Scenario::draw(&mut chance, bug));
    let mut world = World::new(BEGIN_MS, scenario.page, chance.branch());
    world.catalog = scenario.catalog.map(|catalog| Catalog {
        inline_bytes: catalog.inline_bytes,
        most_held: catalog.most_held,
        flaw: bug.and_then(Bug::flaw_of_catalog),
        ..Catalog::default()
    });
    let world: Shared = Arc::new(Mutex::new(world));
    let _environment = with_simulated_environment(&world);
    let mut simulation = Simulation {
        world,
        book: Arc::new(Mutex::new(Book::default())),
        scenario,
        chance,
        running: BTreeMap::new(),
        weights: Vec::new(),
        asleep: None,
        starts: 0,
        traced,
        out: Outcome {
            seed,
            ..Outcome::default()
        },
    };
    // The scheduler goes on only when every actor waits for it: tokio polls it when its queue is
    // empty.
    let runtime = Builder::new_current_thread().event_interval(u32::MAX).build();
    let runtime = runtime.expect("a runtime without threads and drivers");
    runtime.block_on(simulation.schedule());
    simulation.out
}

struct Running {
    place: usize,
    task: JoinHandle<()>,
}

struct Simulation {
    world: Shared,
    book: SharedBook,
    scenario: Arc<Scenario>,
    chance: Chance,
    running: BTreeMap<Who, Running>,
    /// How likely each place goes on.
    weights: Vec<u64>,
    /// An actor that sleeps until the clock has made this number of jumps.
    asleep: Option<(usize, u64)>,
    starts: usize,
    traced: bool,
    out: Outcome,
}

/// What the store does to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// It is served.
    Served,
    /// It fails and did nothing.
    Lost,
    /// It fails and did its work.
    Unclear,
    /// It fails and does its work later, or never.
    Late,
    /// It is done twice, and the second answer counts.
    Doubled,
    /// Its caller dies before it.
    CrashBefore,
    /// Its caller dies after it.
    CrashAfter,
    /// Its caller dies, and it arrives later, or never.
    CrashLate,
}

impl Treatment {
    fn name(self) -> &'static str {
        match self {
            Treatment::Served => "served",
            Treatment::Lost => "lost calls",
            Treatment::Unclear => "unclear calls",
            Treatment::Late => "late calls",
            Treatment::Doubled => "doubled calls",
            Treatment::CrashBefore | Treatment::CrashAfter | Treatment::CrashLate => "crashes",
        }
    }
}

impl Simulation {
    async fn schedule(&mut self) {
        if self.scenario.begun {
            self.begin_table().await;
        }
        for place in 0..self.scenario.actors.len() {
            self.start(place);
        }
        self.draw_weights();
        while self.out.violation.is_none() && self.step().await {}
        if self.out.violation.is_none() {
            self.end().await;
        }
        for running in self.running.values() {
            running.task.abort();
        }
        let book = read(&self.book);
        self.out.commits = book.versions.len() as u64;
        let unclear = book.intents.iter().filter(|i| i.fate == Fate::Unclear).count();
        let conflicts = book
            .intents
            .iter()
            .filter(|i| matches!(i.fate, Fate::Failed(_)))
            .count();
        drop(book);
        self.count("unclear transactions", unclear as u64);
        self.count("conflicts", conflicts as u64);
    }

    fn count(&mut self, name: &'static str, more: u64) {
        *self.out.events.entry(name).or_default() += more;
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.traced {
            let line = format!("{:>5} {}", self.out.steps, text());
            self.out.trace.push(line);
        }
    }

    /// Starts the actor of a place, for the first time or after a crash.
    fn start(&mut self, place: usize) {
        let (role, turns) = self.scenario.actors[place];
        let who = self.starts;
        self.starts += 1;
        let month = 30 * DAY_MS;
        let ahead = match (self.scenario.bug, role) {
            (Some(Bug::TombstonesDropped), Role::Checkpointer) | (Some(Bug::CleanedTooEarly), Role::Cleaner) => month,
            _ => 0,
        };
        lock(&self.world).ahead_ms.insert(who, ahead);
        let context = Context {
            who,
            place,
            role,
            turns,
            store: open(&self.world, who, self.scenario.bug),
            world: Arc::clone(&self.world),
            book: Arc::clone(&self.book),
            chance: self.chance.branch(),
            scenario: Arc::clone(&self.scenario),
            own: None,
        };
        let task = tokio::spawn(ACTOR.scope(who, act(context)));
        self.running.insert(who, Running { place, task });
        self.note(|| format!("actor {who} starts: {role:?} at place {place}"));
    }

    fn draw_weights(&mut self) {
        let places = self.scenario.actors.len();
        self.weights = (0..places).map(|_| self.chance.one(&[1, 2, 5, 20])).collect();
    }

    /// One call is served; false when nobody is left.
    async fn step(&mut self) -> bool {
        yield_now().await;
        self.take_finished();
        self.out.violation = read(&self.book).wrong.clone();
        if self.out.violation.is_some() {
            return false;
        }
        if self.running.is_empty() {
            return false;
        }
        self.out.steps += 1;
        if self.out.steps > MOST_STEPS {
            self.out.violation = Some("the actors come to no end".to_owned());
            return false;
        }
        self.pass_time();
        if self.chance.happens(50) {
            self.deliver_late();
        }
        if let Some(pending) = self.pick() {
            let treatment = self.treatment(&pending);
            self.serve(pending, treatment);
        }
        true
    }

    /// Forgets the actors that came to their end; one that panicked did wrong.
    fn take_finished(&mut self) {
        let book = &self.book;
        self.running.retain(|who, r| {
            if !r.task.is_finished() {
                return true;
            }
            if let Some(Err(e)) = (&mut r.task).now_or_never()
                && e.is_panic()
            {
                read(book).accuse(format!("actor {who} panicked: {e}"));
            }
            false
        });
    }

    fn pass_time(&mut self) {
        let jumps = match self.asleep {
            Some(_) => self.scenario.jumps.max(NIGHTLY),
            None => self.scenario.jumps,
        };
        let days = self.chance.happens(jumps);
        let mut world = lock(&self.world);
        world.now_ms += 1;
        // A transaction may sleep for days, but no request is under way for that long.
        let days = days && !world.pending.iter().any(|p| p.call.changes());
        if days {
            let pause = DAY_MS + DAY_MS / 24;
            world.now_ms += pause;
            if self.scenario.bug == Some(Bug::SleeperTrusted) {
                let writers = self
                    .running
                    .iter()
                    .filter(|(_, r)| self.scenario.actors[r.place].0 == Role::Writer);
                writers.for_each(|(who, _)| *world.ahead_ms.entry(*who).or_default() -= pause);
            }
            world.jumps += 1;
            world.late.clear();
        }
        let jumps = world.jumps;
        drop(world);
        if days {
            if self.asleep.is_none() && self.chance.happens(400) {
                let sleeper = self
                    .at_rest()
                    .unwrap_or_else(|| self.chance.below(self.scenario.actors.len()));
                self.asleep = Some((sleeper, jumps + self.chance.one(&NIGHTS)));
            }
            self.count("days", 1);
            self.note(|| "a day passes".to_owned());
        }
    }

    /// The place of a writer that is busy with something else than the store.
    fn at_rest(&self) -> Option<usize> {
        let world = lock(&self.world);
        let mut resting = world.pending.iter().filter(|p| matches!(p.call, Call::Sleep));
        let place = |p: &Pending| self.running.get(&p.who).map(|r| r.place);
        resting.find_map(|p| place(p).filter(|index| self.scenario.actors[*index].0 == Role::Writer))
    }

    fn pick(&mut self) -> Option<Pending> {
        if self.chance.happens(30) {
            self.draw_weights();
        }
        let mut world = lock(&self.world);
        let dead = std::mem::take(&mut world.dead);
        world
            .pending
            .retain(|p| !p.answer.is_canceled() && !dead.contains(&p.who));
        world.dead = dead;
        self.asleep = self.asleep.filter(|(_, until)| world.jumps < *until);
        let sleeper = self.asleep.map(|(place, _)| place);
        let weight = |p: &Pending| match self.running.get(&p.who) {
            Some(r) if Some(r.place) == sleeper => 0,
            Some(r) => self.weights[r.place],
            None => 1,
        };
        let weights: Vec<u64> = world.pending.iter().map(weight).collect();
        let total: u64 = weights.iter().sum();
        if total == 0 {
            // All others have come to their end.
            self.asleep = None;
            return None;
        }
        let mut ticket = self.chance.next() % total;
        let picked = weights.iter().position(|w| {
            let here = ticket < *w;
            ticket = ticket.wrapping_sub(*w);
            here
        })?;
        Some(world.pending.remove(picked))
    }

    fn treatment(&mut self, pending: &Pending) -> Treatment {
        let changes = pending.call.changes();
        if matches!(pending.call, Call::Sleep) || !self.running.contains_key(&pending.who) {
            return Treatment::Served;
        }
        if self.chance.happens(self.scenario.crashes) {
            return match changes {
                true => self
                    .chance
                    .one(&[Treatment::CrashBefore, Treatment::CrashAfter, Treatment::CrashLate]),
                false => Treatment::CrashBefore,
            };
        }
        // Commits are where failures matter most.
        let is_commit = matches!(&pending.call, Call::PutIfAbsent(key, _) if matches!(log_file(key), Some((_, "json"))))
            || matches!(&pending.call, Call::Propose(_));
        let failures = if is_commit {
            self.scenario.failures * 4
        } else {
            self.scenario.failures
        };
        if !self.chance.happens(failures) {
            return Treatment::Served;
        }
        match (&pending.call, changes) {
            (Call::PutIfAbsent(..) | Call::Propose(_), _) => {
                self.chance
                    .one(&[Treatment::Lost, Treatment::Unclear, Treatment::Late, Treatment::Doubled])
            }
            (_, true) => self.chance.one(&[Treatment::Lost, Treatment::Unclear]),
            (_, false) => Treatment::Lost,
        }
    }

    fn serve(&mut self, pending: Pending, treatment: Treatment) {
        let Pending { who, call, answer } = pending;
        if self.traced {
            let text = call.text();
            self.note(|| match treatment {
                Treatment::Served => format!("actor {who}: {text}"),
                other => format!("actor {who}: {text} [{other:?}]"),
            });
        }
        if treatment != Treatment::Served {
            self.count(treatment.name(), 1);
        }
        let reply = match treatment {
            Treatment::Served => self.perform(&call),
            Treatment::Doubled => {
                // The first one arrives, its answer is lost, the client's second one finds it
                // there.
                let _ = self.perform(&call);
                self.perform(&call)
            }
            Treatment::Lost => self.failed(who),
            Treatment::Unclear => {
                let _ = self.perform(&call);
                self.failed(who)
            }
            Treatment::Late => {
                lock(&self.world).late.push((who, call));
                self.failed(who)
            }
            Treatment::CrashBefore => return self.crash(who),
            Treatment::CrashAfter => {
                let _ = self.perform(&call);
                return self.crash(who);
            }
            Treatment::CrashLate => {
                lock(&self.world).late.push((who, call));
                return self.crash(who);
            }
        };
        // Nobody may want it any more.
        let _ = answer.send(reply);
    }

    fn failed(&mut self, who: Who) -> Result<Answer> {
        *lock(&self.world).failures.entry(who).or_default() += 1;
        Err(unavailable())
    }

    fn crash(&mut self, who: Who) {
        let Some(running) = self.running.remove(&who) else {
            return;
        };
        running.task.abort();
        let mut world = lock(&self.world);
        world.dead.insert(who);
        world.pending.retain(|p| p.who != who);
        drop(world);
        self.note(|| format!("actor {who} is dead"));
        self.start(running.place);
    }

    fn deliver_late(&mut self) {
        let mut world = lock(&self.world);
        if world.late.is_empty() {
            return;
        }
        let index = self.chance.below(world.late.len());
        let (who, call) = world.late.remove(index);
        drop(world);
        if self.chance.happens(200) {
            return;
        }
        self.note(|| format!("late from actor {who}: {}", call.text()));
        let _ = self.perform(&call);
    }

    /// Does what a call wants, and judges what it did.
    fn perform(&mut self, call: &Call) -> Result<Answer> {
        let mut world = lock(&self.world);
        let answer = world.serve(call);
        let mut book = read(&self.book);
        let judged = match call {
            call if call.changes() => judge(&mut world, &mut book, call, &answer),
            _ => Ok(()),
        };
        if let Err(what) = judged {
            book.accuse(what);
        }
        answer
    }

    async fn begin_table(&mut self) {
        let intent = read(&self.book).begin(Operation::Create, None);
        let configuration: Value = self.scenario.properties.iter().cloned().collect();
        let request = json!({
            "mode": "error", "partition_by": ["p"], "configuration": configuration,
            "commit": {"commit_info": {"simIntent": intent}},
        });
        let request = serde_json::from_value(request).expect("a request");
        let (store, who) = (open(&self.world, usize::MAX, None), usize::MAX);
        let task = tokio::spawn(ACTOR.scope(who, async move { create_table(&store, schema(), request).await }));
        self.serve_all(&task).await;
        match task.await {
            Ok(Ok(snapshot)) => read(&self.book).settle(intent, Fate::Committed(snapshot.version())),
            Ok(Err(e)) => read(&self.book).accuse(format!("the table can't be made: {e}")),
            Err(e) => read(&self.book).accuse(format!("the table can't be made: {e}")),
        }
    }

    /// Serves every call as it comes until this task ends.
    async fn serve_all<T>(&mut self, task: &JoinHandle<T>) {
        while !task.is_finished() {
            yield_now().await;
            let pending = std::mem::take(&mut lock(&self.world).pending);
            for p in pending {
                let reply = self.perform(&p.call);
                let _ = p.answer.send(reply);
            }
        }
    }

    /// What must hold when all is quiet: a fresh reader finds every version that can be rebuilt.
    async fn end(&mut self) {
        let late = std::mem::take(&mut lock(&self.world).late);
        for (_, call) in late {
            let _ = self.perform(&call);
        }
        let newest = read(&self.book).newest();
        let (store, book) = (open(&self.world, usize::MAX, None), Arc::clone(&self.book));
        let versions = newest.map(|n| rebuildable(&lock(&self.world), n)).unwrap_or_default();
        let oldest = versions.iter().next().copied();
        let wanted: Vec<Option<u64>> = newest.map(|_| [None, oldest].into()).unwrap_or_default();
        let is_managed = self.scenario.catalog.is_some();
        let task = tokio::spawn(ACTOR.scope(usize::MAX, async move {
            for version in wanted {
                if let Some(wrong) = look(&store, version, &book).await {
                    read(&book).accuse(wrong);
                }
            }
            if is_managed && let Err(e) = publish_all(&store).await {
                read(&book).accuse(format!("at the end the newest version can't be published: {e}"));
            }
        }));
        self.serve_all(&task).await;
        let mut book = read(&self.book);
        if let Err(what) = book.check_fates() {
            book.accuse(what);
        }
        self.out.violation = book.wrong.clone();
    }
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
