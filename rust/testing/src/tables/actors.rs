//! Who works on the two simulated tables: writers with transactions over both tables and with
//! commits to one, readers of both tables at one instant, and publishers.

use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::committer::{Buffer, Committer, LogTail, buffered, managed};
use deltaplane_log::{GroupFailure, GroupMember, Snapshot, WritePlan, WriteRequest, commit_group, plan_write};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::paths;
use deltaplane_store::Store;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::book::{Effect, Fate, IntentId, SharedBook, Versions, read};
use super::group::SimGroup;
use super::planted::GroupBug;
use super::{PREFIXES, TABLES};
use crate::actors::{live, schema};
use crate::chance::Chance;
use crate::committer::SimCommitter;
use crate::store::plain;
use crate::world::{Answer, Call, Shared, Who, ask, lock};

/// What an actor does, again whenever it crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Commits.
    Writer,
    /// Reads both tables at one instant.
    Reader,
    /// Publishes commits, at once or much later.
    Publisher,
}

/// What an actor has.
pub struct Context {
    /// Its number among all starts of actors.
    pub who: Who,
    /// Its place among the schedule's actors, the same after a crash.
    pub place: usize,
    /// What it does.
    pub role: Role,
    /// How often it has to do it.
    pub turns: usize,
    /// The simulated store and catalog.
    pub world: Shared,
    /// The model.
    pub book: SharedBook,
    /// What it decides by.
    pub chance: Chance,
    /// The bug that is planted in this schedule.
    pub bug: Option<GroupBug>,
}

/// What a transaction does, by table: what it writes, and whether it reads.
type Work = [(Option<Effect>, bool); TABLES];

const APPENDS: (Option<Effect>, bool) = (Some(Effect::Append), false);
const OVERWRITES: (Option<Effect>, bool) = (Some(Effect::Overwrite), false);
const READS: (Option<Effect>, bool) = (None, true);
const READS_AND_APPENDS: (Option<Effect>, bool) = (Some(Effect::Append), true);

/// The transactions of writers.
const TRANSACTIONS: [Work; 7] = [
    [APPENDS, APPENDS],
    [OVERWRITES, OVERWRITES],
    [READS, APPENDS],
    [APPENDS, READS],
    [OVERWRITES, APPENDS],
    [READS_AND_APPENDS, APPENDS],
    [READS_AND_APPENDS, READS_AND_APPENDS],
];

impl Context {
    fn failures(&self) -> u64 {
        lock(&self.world).failures.get(&self.who).copied().unwrap_or(0)
    }

    /// Whether an error is one that a sound table may give after the failures since then.
    fn excuses(&self, since: u64, e: &Error) -> bool {
        e.kind() == Kind::StoreUnavailable && self.failures() > since
    }

    fn accuse(&self, what: String) {
        read(&self.book).accuse(format!("actor {}: {what}", self.who));
    }

    fn committer(&self, table: usize) -> Arc<SimCommitter> {
        let takes_unknown_for_refused = self.bug == Some(GroupBug::UnknownTakenForRefused);
        Arc::new(SimCommitter::new(
            &self.world,
            self.who,
            table,
            takes_unknown_for_refused,
        ))
    }

    fn plain(&self, table: usize) -> Store {
        plain(&self.world, self.who, PREFIXES[table], None)
    }

    /// The table through its catalog, whose answer about it may be known.
    pub fn open(&self, table: usize, tail: Option<LogTail>) -> Result<Store> {
        managed(&self.plain(table), self.committer(table), tail)
    }

    /// The catalog's commits of both tables at one instant.
    async fn load(&self) -> Result<Vec<LogTail>> {
        if self.bug == Some(GroupBug::LoadedOneByOne) {
            let (first, second) = (self.committer(0), self.committer(1));
            return Ok(vec![first.log_tail(0).await?, second.log_tail(0).await?]);
        }
        match ask(&self.world, self.who, Call::LoadAll).await? {
            Answer::Tails(tails) => Ok(tails),
            other => Err(Error::internal(format!("the simulation answered {other:?} to a load"))),
        }
    }

    /// A new file.
    fn add(&self) -> Add {
        Add {
            path: read(&self.book).new_file(),
            size: 10,
            modification_time: lock(&self.world).now_ms,
            data_change: true,
            stats: Some(json!({"numRecords": 1}).to_string()),
            ..Add::default()
        }
    }

    async fn sleep(&self) {
        let _ = ask(&self.world, self.who, Call::Sleep).await;
    }
}

/// Does an actor's work.
pub fn act(context: Context) -> BoxFuture<'static, ()> {
    match context.role {
        Role::Writer => Box::pin(write(context)),
        Role::Reader => Box::pin(read_both(context)),
        Role::Publisher => Box::pin(publish(context)),
    }
}

async fn write(mut me: Context) {
    loop {
        let turn = {
            let mut book = read(&me.book);
            let turn = book.progress.entry(me.place).or_default();
            *turn += 1;
            *turn
        };
        if turn > me.turns {
            return;
        }
        let before = me.failures();
        let (intent, fate, error) = match me.chance.happens(650) {
            true => transaction(&mut me).await,
            false => single(&mut me).await,
        };
        if let Some(e) = error {
            let excused = match fate {
                Fate::Unclear => me.failures() > before,
                _ => e.kind().is_conflict() && e.kind() != Kind::ConcurrentWrite || me.excuses(before, &e),
            };
            if !excused && me.bug.is_none() {
                me.accuse(format!("transaction {intent} failed without a reason: {e}"));
            }
        }
        read(&me.book).settle(intent, fate);
    }
}

fn request(intent: IntentId, effect: Effect) -> WriteRequest {
    let mode = match effect {
        Effect::Append => "append",
        Effect::Overwrite => "overwrite",
        Effect::Create => "error",
    };
    let request = json!({"mode": mode, "commit": {"commit_info": {"simIntent": intent}}});
    serde_json::from_value(request).expect("a request")
}

/// A commit to one table.
async fn single(me: &mut Context) -> (IntentId, Fate, Option<Error>) {
    let table = me.chance.below(TABLES);
    let effect = me.chance.one(&[Effect::Append, Effect::Append, Effect::Overwrite]);
    let mut effects = [None; TABLES];
    effects[table] = Some(effect);
    let intent = read(&me.book).begin(effects);
    let done = async {
        let store = me.open(table, None)?;
        written(me, &store, intent, effect).await
    };
    match done.await {
        Ok(version) => {
            let mut versions = [None; TABLES];
            versions[table] = Some(version);
            (intent, Fate::Committed(versions), None)
        }
        Err(e) if e.kind() == Kind::StoreUnavailable => (intent, Fate::Unclear, Some(e)),
        Err(e) => (intent, Fate::Failed(e.kind()), Some(e)),
    }
}

/// Writes a file; the version.
async fn written(me: &mut Context, store: &Store, intent: IntentId, effect: Effect) -> Result<u64> {
    let planned = match plan_write(store, schema(), request(intent, effect)).await? {
        WritePlan::Skip(why) => return Err(Error::internal(format!("nothing is written: {why}"))),
        WritePlan::Go(planned) => planned,
    };
    if me.chance.happens(100) {
        me.sleep().await;
    }
    Ok(planned.commit(vec![me.add()]).await?.version)
}

/// A transaction over both tables.
async fn transaction(me: &mut Context) -> (IntentId, Fate, Option<Error>) {
    let mut work = TRANSACTIONS[me.chance.below(TRANSACTIONS.len())];
    if me.chance.happens(500) {
        work.reverse();
    }
    let intent = read(&me.book).begin(work.map(|(effect, _)| effect));
    match commit(me, intent, work).await {
        Ok(versions) => (intent, Fate::Committed(versions), None),
        Err(failure) if failure.is_unclear => (intent, Fate::Unclear, Some(failure.error)),
        Err(failure) => (intent, Fate::Failed(failure.error.kind()), Some(failure.error)),
    }
}

/// The buffers of a transaction, which end with it, also if its actor crashes.
struct Open(Vec<Arc<Buffer>>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.iter().for_each(|buffer| buffer.end());
    }
}

async fn commit(me: &mut Context, intent: IntentId, work: Work) -> Result<[Option<u64>; TABLES], GroupFailure> {
    let is_serializable = me.chance.happens(750);
    let tails = me.load().await?;
    let mut open = Open(Vec::with_capacity(TABLES));
    for (table, tail) in tails.iter().enumerate() {
        let committer = me.committer(table);
        let name = format!("{} in transaction {intent}", committer.name());
        open.0
            .push(Arc::new(Buffer::new(name, tail.clone(), committer.as_ref())?));
    }
    let buffers = &open.0;
    for (table, (effect, reads)) in work.into_iter().enumerate() {
        let inside = buffered(&me.plain(table), Arc::clone(&buffers[table]))?;
        if reads {
            Snapshot::open(&inside, None).await?.note_read(None);
            if is_serializable {
                read(&me.book).intents[intent].reads[table] = tails[table].latest;
            }
        }
        let Some(effect) = effect else { continue };
        written(me, &inside, intent, effect).await?;
        if effect == Effect::Append && me.chance.happens(250) {
            written(me, &inside, intent, effect).await?;
        }
    }
    let (mut tables, mut members) = (Vec::new(), Vec::new());
    for ((table, tail), buffer) in tails.into_iter().enumerate().zip(buffers) {
        buffer.close()?;
        let takes_part = buffer.has_commands() || (is_serializable && buffer.has_reads());
        if takes_part {
            tables.push(table);
            members.push(GroupMember {
                store: me.open(table, Some(tail))?,
                buffer: Arc::clone(buffer),
            });
        }
    }
    let group = SimGroup::new(&me.world, me.who, tables.clone(), me.bug);
    let checks_reads = is_serializable && me.bug != Some(GroupBug::ReadsForgotten);
    let done = commit_group(&group, &format!("transaction {intent}"), &members, checks_reads).await;
    let mut versions = [None; TABLES];
    for (table, committed) in tables.into_iter().zip(done?) {
        versions[table] = committed.map(|committed| committed.version);
    }
    Ok(versions)
}

async fn read_both(me: Context) {
    for _ in 0..me.turns {
        let (before, floor) = (me.failures(), read(&me.book).newest());
        if let Err(e) = compare_both(&me, floor).await
            && !me.excuses(before, &e)
        {
            me.accuse(format!("can't read: {e}"));
        }
        me.sleep().await;
    }
}

/// Reads both tables at one instant, and compares them with the model.
async fn compare_both(me: &Context, floor: Versions) -> Result<()> {
    let tails = me.load().await?;
    let mut versions = [0; TABLES];
    for (table, tail) in tails.iter().enumerate() {
        versions[table] = tail.latest.unwrap_or_default();
        if versions[table] < floor[table] {
            me.accuse(format!("loaded versions {versions:?} when {floor:?} were there"));
        }
    }
    let instant = read(&me.book).check_instant(versions);
    if let Err(what) = instant {
        me.accuse(what);
    }
    for (table, tail) in tails.into_iter().enumerate() {
        let store = me.open(table, Some(tail))?;
        let snapshot = Snapshot::open(&store, None).await?;
        compare(me, table, &snapshot).await?;
    }
    Ok(())
}

/// Compares a version as the product reads it with the model.
pub async fn compare(me: &Context, table: usize, snapshot: &Snapshot) -> Result<()> {
    let files = live(snapshot).await?.into_iter().map(|(path, _)| path).collect();
    let version = snapshot.version();
    let known = read(&me.book).tables[table]
        .get(version as usize)
        .map(|v| v.files.clone());
    if known.as_ref() != Some(&files) {
        me.accuse(format!(
            "version {version} of table {table} was read with the files {files:?} instead of {known:?}"
        ));
    }
    Ok(())
}

async fn publish(mut me: Context) {
    for _ in 0..me.turns {
        let before = me.failures();
        if let Err(e) = publish_one(&mut me).await
            && !me.excuses(before, &e)
        {
            me.accuse(format!("can't publish: {e}"));
        }
    }
}

async fn publish_one(me: &mut Context) -> Result<()> {
    let table = me.chance.below(TABLES);
    let store = me.open(table, None)?;
    let snapshot = Snapshot::open(&store, None).await?;
    for _ in 0..me.chance.below(20) {
        me.sleep().await;
    }
    if me.bug != Some(GroupBug::PublishedOutOfOrder) {
        return snapshot.publish().await.map(drop);
    }
    let newest = {
        let world = lock(&me.world);
        let held = world.catalogs[table].held.values().next_back().cloned();
        held.and_then(|c| Some((c.version, world.content(PREFIXES[table], &c.content)?)))
    };
    if let Some((version, bytes)) = newest {
        let key = format!("{}{}", PREFIXES[table], paths::commit(version));
        ask(&me.world, me.who, Call::PutIfAbsent(key, bytes)).await?;
    }
    Ok(())
}

/// The request that makes a table.
pub fn creation(intent: IntentId) -> Value {
    json!({"mode": "error", "commit": {"commit_info": {"simIntent": intent}}})
}
