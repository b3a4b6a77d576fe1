//! The scheduler of simulations: a seed decides who goes on, what the store and the catalog do to
//! each call, who crashes and when days pass. One thread, no clock: the same seed gives the same
//! steps. What the actors do, and what must hold, is a [`Play`]'s.

use std::collections::BTreeMap;

use deltaplane_error::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Builder;
use tokio::task::{JoinHandle, yield_now};

use crate::chance::Chance;
use crate::checkpoints::log_file;
use crate::store::ACTOR;
use crate::world::{Answer, Call, Pending, Shared, Who, World, lock, unavailable};

/// When simulated time begins: 2026-01-01.
pub const BEGIN_MS: i64 = 1_767_225_600_000;
/// A day.
pub const DAY_MS: i64 = 24 * 3600 * 1000;
/// Steps after which a schedule counts as stuck.
const MOST_STEPS: u64 = 20_000;
/// Jumps of the clock that a sleeping actor misses: some, or all until the others have come to
/// their end.
const NIGHTS: [u64; 2] = [3, 1_000];
/// Jumps in a thousand calls while an actor sleeps.
const NIGHTLY: u64 = 25;

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

impl Outcome {
    /// Counts things that happened.
    pub fn count(&mut self, name: &'static str, more: u64) {
        *self.events.entry(name).or_default() += more;
    }
}

/// An actor that starts, for the first time or after a crash.
pub struct Start {
    /// Its number among all starts.
    pub who: Who,
    /// Its place among the schedule's actors.
    pub place: usize,
    /// What it decides by.
    pub chance: Chance,
    /// The simulated store and catalog.
    pub world: Shared,
}

/// What is played on the schedule's stage.
pub trait Play {
    /// The number of actors.
    fn places(&self) -> usize;

    /// The work of an actor, and its name for traces.
    fn start(&mut self, start: Start) -> (BoxFuture<'static, ()>, String);

    /// What is wrong after a change of the world, if something is.
    fn judge(&self, world: &mut World, call: &Call, answer: &Result<Answer>) -> Result<(), String>;

    /// Says that something is wrong.
    fn accuse(&self, what: String);

    /// What is wrong, as soon as something is.
    fn wrong(&self) -> Option<String>;

    /// Whether the actor of a place may be busy with something else than the store.
    fn is_writer(&self, _place: usize) -> bool {
        false
    }

    /// How far a clock falls behind that sleeps while a day passes, for each of these actors.
    fn clock_sleeps(&self) -> bool {
        false
    }
}

/// How bad the store, the catalog and the machines are, in events of a thousand calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hazards {
    /// Failures of the store and the catalog.
    pub failures: u64,
    /// Crashes of actors.
    pub crashes: u64,
    /// Jumps of the clock by a day.
    pub jumps: u64,
    /// Crashes of the catalog's server.
    pub outages: u64,
}

struct Running {
    place: usize,
    task: JoinHandle<()>,
}

/// The scheduler, and how far it is.
pub struct Schedule<P> {
    /// The simulated store and catalog.
    pub world: Shared,
    /// What is played.
    pub play: P,
    /// What the scheduler decides by.
    pub chance: Chance,
    /// What happened so far.
    pub out: Outcome,
    hazards: Hazards,
    running: BTreeMap<Who, Running>,
    /// How likely each place goes on.
    weights: Vec<u64>,
    /// An actor that sleeps until the clock has made this number of jumps.
    asleep: Option<(usize, u64)>,
    starts: usize,
    traced: bool,
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

/// Runs a schedule's future on this thread: the scheduler goes on only when every actor waits for
/// it, since tokio polls it when its queue is empty.
pub fn block_on<T>(schedule: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().event_interval(u32::MAX).build();
    let runtime = runtime.expect("a runtime without threads and drivers");
    runtime.block_on(schedule)
}

impl<P: Play> Schedule<P> {
    /// A schedule before its first step.
    pub fn new(world: Shared, play: P, hazards: Hazards, chance: Chance, seed: u64, traced: bool) -> Self {
        Schedule {
            world,
            play,
            chance,
            out: Outcome {
                seed,
                ..Outcome::default()
            },
            hazards,
            running: BTreeMap::new(),
            weights: Vec::new(),
            asleep: None,
            starts: 0,
            traced,
        }
    }

    /// Runs all actors to their end, or to the first thing that is wrong.
    pub async fn run(&mut self) {
        for place in 0..self.play.places() {
            self.start(place);
        }
        self.draw_weights();
        while self.out.violation.is_none() && self.step().await {}
    }

    /// Ends the actors that still run.
    pub fn stop(&mut self) {
        for running in self.running.values() {
            running.task.abort();
        }
    }

    /// Serves every call as it comes until this task ends.
    pub async fn serve_all<T>(&mut self, task: &JoinHandle<T>) {
        while !task.is_finished() {
            yield_now().await;
            let pending = std::mem::take(&mut lock(&self.world).pending);
            for p in pending {
                let reply = self.perform(&p.call);
                let _ = p.answer.send(reply);
            }
        }
    }

    /// Does what all late calls want.
    pub fn deliver_all_late(&mut self) {
        let late = std::mem::take(&mut lock(&self.world).late);
        for (_, call) in late {
            let _ = self.perform(&call);
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.traced {
            let line = format!("{:>5} {}", self.out.steps, text());
            self.out.trace.push(line);
        }
    }

    /// Starts the actor of a place, for the first time or after a crash.
    fn start(&mut self, place: usize) {
        let who = self.starts;
        self.starts += 1;
        let (work, name) = self.play.start(Start {
            who,
            place,
            chance: self.chance.branch(),
            world: std::sync::Arc::clone(&self.world),
        });
        let task = tokio::spawn(ACTOR.scope(who, work));
        self.running.insert(who, Running { place, task });
        self.note(|| format!("actor {who} starts: {name} at place {place}"));
    }

    fn draw_weights(&mut self) {
        let places = self.play.places();
        self.weights = (0..places).map(|_| self.chance.one(&[1, 2, 5, 20])).collect();
    }

    /// One call is served; false when nobody is left.
    async fn step(&mut self) -> bool {
        yield_now().await;
        self.take_finished();
        self.out.violation = self.play.wrong();
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
        if self.hazards.outages > 0 && self.chance.happens(self.hazards.outages) {
            self.crash_catalog();
        }
        if let Some(pending) = self.pick() {
            let treatment = self.treatment(&pending);
            self.serve(pending, treatment);
        }
        true
    }

    /// Forgets the actors that came to their end; one that panicked did wrong.
    fn take_finished(&mut self) {
        let play = &self.play;
        self.running.retain(|who, r| {
            if !r.task.is_finished() {
                return true;
            }
            if let Some(Err(e)) = (&mut r.task).now_or_never()
                && e.is_panic()
            {
                play.accuse(format!("actor {who} panicked: {e}"));
            }
            false
        });
    }

    fn pass_time(&mut self) {
        let jumps = match self.asleep {
            Some(_) => self.hazards.jumps.max(NIGHTLY),
            None => self.hazards.jumps,
        };
        let days = self.chance.happens(jumps);
        let mut world = lock(&self.world);
        world.now_ms += 1;
        // A transaction may sleep for days, but no request is under way for that long.
        let days = days && !world.pending.iter().any(|p| p.call.changes());
        if days {
            let pause = DAY_MS + DAY_MS / 24;
            world.now_ms += pause;
            if self.play.clock_sleeps() {
                let writers = self.running.iter().filter(|(_, r)| self.play.is_writer(r.place));
                writers.for_each(|(who, _)| *world.ahead_ms.entry(*who).or_default() -= pause);
            }
            world.jumps += 1;
            world.late.clear();
        }
        let jumps = world.jumps;
        drop(world);
        if days {
            if self.asleep.is_none() && self.chance.happens(400) {
                let sleeper = self.at_rest().unwrap_or_else(|| self.chance.below(self.play.places()));
                self.asleep = Some((sleeper, jumps + self.chance.one(&NIGHTS)));
            }
            self.out.count("days", 1);
            self.note(|| "a day passes".to_owned());
        }
    }

    /// The place of a writer that is busy with something else than the store.
    fn at_rest(&self) -> Option<usize> {
        let world = lock(&self.world);
        let mut resting = world.pending.iter().filter(|p| matches!(p.call, Call::Sleep));
        let place = |p: &Pending| self.running.get(&p.who).map(|r| r.place);
        resting.find_map(|p| place(p).filter(|index| self.play.is_writer(*index)))
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
        if self.chance.happens(self.hazards.crashes) {
            return match changes {
                true => self
                    .chance
                    .one(&[Treatment::CrashBefore, Treatment::CrashAfter, Treatment::CrashLate]),
                false => Treatment::CrashBefore,
            };
        }
        // Commits are where failures matter most.
        let is_commit = matches!(&pending.call, Call::PutIfAbsent(key, _) if matches!(log_file(key), Some((_, "json"))))
            || pending.call.proposes();
        let failures = if is_commit {
            self.hazards.failures * 4
        } else {
            self.hazards.failures
        };
        if !self.chance.happens(failures) {
            return Treatment::Served;
        }
        match changes {
            _ if pending.call.proposes() || matches!(pending.call, Call::PutIfAbsent(..)) => {
                self.chance
                    .one(&[Treatment::Lost, Treatment::Unclear, Treatment::Late, Treatment::Doubled])
            }
            true => self.chance.one(&[Treatment::Lost, Treatment::Unclear]),
            false => Treatment::Lost,
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
            self.out.count(treatment.name(), 1);
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

    /// The catalog's server dies: what it was asked is answered with an error, and was done for a
    /// part of the requests. What was under way to it never arrives.
    fn crash_catalog(&mut self) {
        let mut world = lock(&self.world);
        let pending = std::mem::take(&mut world.pending);
        let (asked, others) = pending.into_iter().partition(|p| p.call.asks_catalog());
        world.pending = others;
        world.late.retain(|(_, call)| !call.asks_catalog());
        drop(world);
        self.out.count("crashes of the catalog", 1);
        self.note(|| "the catalog crashes".to_owned());
        let mut is_done = true;
        for Pending { who, call, answer } in asked {
            // One transaction of its database after the other, up to the crash.
            is_done = is_done && self.chance.happens(500);
            let text = call.text();
            self.note(|| format!("  actor {who}: {text}, done: {is_done}"));
            if is_done {
                let _ = self.perform(&call);
            }
            let reply = self.failed(who);
            let _ = answer.send(reply);
        }
        let mut world = lock(&self.world);
        world.catalog_restarts();
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
        let judged = match call.changes() {
            true => self.play.judge(&mut world, call, &answer),
            false => Ok(()),
        };
        drop(world);
        if let Err(what) = judged {
            self.play.accuse(what);
        }
        answer
    }
}
