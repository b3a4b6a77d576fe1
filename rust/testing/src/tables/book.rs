//! The model of two tables that one catalog decides: what each transaction means, and what every
//! ratified commit says, read by plain JSON and by nothing of the product.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use deltaplane_error::Kind;
use serde_json::Value;

use super::TABLES;

/// A transaction, by its place in the book.
pub type IntentId = usize;
/// Versions of the tables.
pub type Versions = [u64; TABLES];

/// What a transaction means for one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Adds files.
    Append,
    /// Replaces all files by new ones.
    Overwrite,
    /// Makes the table.
    Create,
}

/// What the caller of a transaction knows of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing yet, or its caller died.
    Open,
    /// It is in these versions of the tables that it changes.
    Committed([Option<u64>; TABLES]),
    /// It failed for this reason and is nowhere.
    Failed(Kind),
    /// Nobody answered; it may be in the tables.
    Unclear,
}

/// A transaction.
#[derive(Debug, Clone)]
pub struct Intent {
    /// What it means for each table.
    pub effects: [Option<Effect>; TABLES],
    /// The versions that it read, of the tables that must be the same at its commit.
    pub reads: [Option<u64>; TABLES],
    /// What its caller knows.
    pub fate: Fate,
}

/// One version of a table.
#[derive(Debug, Clone)]
pub struct Version {
    /// Live files.
    pub files: BTreeSet<String>,
    /// Its commit.
    pub text: Bytes,
    /// Its time, as its commit says.
    pub time_ms: i64,
}

/// What is known of both tables beside the store and the catalog.
#[derive(Default)]
pub struct Book {
    /// Transactions that were begun.
    pub intents: Vec<Intent>,
    /// The ratified versions of each table.
    pub tables: [Vec<Version>; TABLES],
    /// How many versions of each table have a published file.
    pub published: [u64; TABLES],
    /// The version of each transaction in each table.
    pub places: BTreeMap<IntentId, [Option<u64>; TABLES]>,
    /// Turns that each place's actors have begun.
    pub progress: BTreeMap<usize, usize>,
    /// Names of files that were given away.
    pub files: u64,
    /// What is wrong, as soon as something is.
    pub wrong: Option<String>,
}

/// The book as actors share it.
pub type SharedBook = Arc<Mutex<Book>>;

/// The book, locked: only one thread ever asks for it.
pub fn read(book: &SharedBook) -> MutexGuard<'_, Book> {
    book.lock().expect("a schedule runs on one thread")
}

type Check = Result<(), String>;

/// What a commit says.
struct Commit {
    intent: IntentId,
    time_ms: i64,
    adds: BTreeSet<String>,
    removes: BTreeSet<String>,
}

impl Commit {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|e| format!("a commit is no text: {e}"))?;
        let (mut intent, mut time_ms) = (None, None);
        let (mut adds, mut removes) = (BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            let action: Value = serde_json::from_str(line).map_err(|e| format!("a commit has a torn line: {e}"))?;
            if let Some(info) = action.get("commitInfo") {
                intent = info["simIntent"].as_u64();
                time_ms = info["inCommitTimestamp"].as_i64();
            }
            let path = |kind: &str| {
                action
                    .get(kind)
                    .and_then(|file| file["path"].as_str().map(str::to_owned))
            };
            adds.extend(path("add"));
            removes.extend(path("remove"));
        }
        Ok(Commit {
            intent: intent.ok_or("a commit names no transaction")? as IntentId,
            time_ms: time_ms.ok_or("a commit has no time")?,
            adds,
            removes,
        })
    }
}

impl Book {
    /// The newest version of each table.
    pub fn newest(&self) -> Versions {
        std::array::from_fn(|table| (self.tables[table].len() as u64).saturating_sub(1))
    }

    /// Says that something is wrong, once.
    pub fn accuse(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert(what.into());
    }

    /// A transaction begins.
    pub fn begin(&mut self, effects: [Option<Effect>; TABLES]) -> IntentId {
        self.intents.push(Intent {
            effects,
            reads: [None; TABLES],
            fate: Fate::Open,
        });
        self.intents.len() - 1
    }

    /// The name of a new file.
    pub fn new_file(&mut self) -> String {
        self.files += 1;
        format!("f{}", self.files)
    }

    /// A group of commits was ratified, at one instant: all of a transaction, on what it read.
    pub fn ratified(&mut self, group: &[(usize, u64, Bytes)]) -> Check {
        let before = self.newest();
        let mut intents = BTreeSet::new();
        for (table, version, bytes) in group {
            intents.extend(self.ratified_one(*table, *version, bytes)?);
        }
        for id in intents {
            let intent = &self.intents[id];
            let place = self.places.get(&id).copied().unwrap_or_default();
            for table in 0..TABLES {
                if intent.effects[table].is_some() != place[table].is_some() {
                    return Err(format!("transaction {id} is in one of its tables only: {place:?}"));
                }
                if let Some(read) = intent.reads[table]
                    && read != before[table]
                {
                    return Err(format!(
                        "transaction {id} read version {read} of table {table} and was ratified after version {}",
                        before[table]
                    ));
                }
            }
        }
        Ok(())
    }

    /// The transaction of a version that is new.
    fn ratified_one(&mut self, table: usize, version: u64, bytes: &Bytes) -> Result<Option<IntentId>, String> {
        let versions = &self.tables[table];
        if let Some(known) = versions.get(version as usize) {
            return match known.text == *bytes {
                true => Ok(None),
                false => Err(format!("version {version} of table {table} is ratified twice")),
            };
        }
        if version != versions.len() as u64 {
            return Err(format!(
                "version {version} of table {table} is ratified after {}",
                versions.len()
            ));
        }
        let commit = Commit::parse(bytes)?;
        let id = commit.intent;
        let intent = self.intents.get(id).ok_or("a commit is of no transaction")?;
        if let Fate::Failed(kind) = intent.fate {
            return Err(format!("transaction {id} failed ({kind:?}) and is ratified later"));
        }
        let effect = intent.effects[table];
        let effect = effect.ok_or(format!("transaction {id} has no business with table {table}"))?;
        let place = self.places.entry(id).or_default();
        if let Some(earlier) = place[table] {
            return Err(format!(
                "transaction {id} is in table {table} twice, in versions {earlier} and {version}"
            ));
        }
        place[table] = Some(version);
        let empty = BTreeSet::new();
        let files = versions.last().map_or(&empty, |last| &last.files);
        if let Some(path) = commit.removes.difference(files).next() {
            return Err(format!("transaction {id} removes {path}, which isn't in table {table}"));
        }
        let rest: BTreeSet<String> = files.difference(&commit.removes).cloned().collect();
        let retained = match effect {
            Effect::Append => files.clone(),
            Effect::Overwrite | Effect::Create => BTreeSet::new(),
        };
        if rest != retained {
            return Err(format!(
                "transaction {id} ({effect:?}) leaves {rest:?} of {files:?} in table {table}"
            ));
        }
        if versions.last().is_some_and(|last| last.time_ms >= commit.time_ms) {
            return Err(format!(
                "version {version} of table {table} isn't later than the one before"
            ));
        }
        self.tables[table].push(Version {
            files: rest.union(&commit.adds).cloned().collect(),
            text: bytes.clone(),
            time_ms: commit.time_ms,
        });
        Ok(Some(id))
    }

    /// A version's file was published: after its predecessor, with what was ratified.
    pub fn published(&mut self, table: usize, version: u64, bytes: &Bytes) -> Check {
        if version > self.published[table] {
            return Err(format!(
                "version {version} of table {table} is published before version {}",
                self.published[table]
            ));
        }
        match self.tables[table].get(version as usize) {
            // The first version is published before the catalog has the table.
            None if version == 0 => {}
            None => {
                return Err(format!(
                    "version {version} of table {table} is published and not ratified"
                ));
            }
            Some(known) if known.text != *bytes => {
                return Err(format!(
                    "the file of version {version} of table {table} isn't what was ratified"
                ));
            }
            Some(_) => {}
        }
        self.published[table] = self.published[table].max(version + 1);
        Ok(())
    }

    /// The caller of a transaction learns its end.
    pub fn settle(&mut self, id: IntentId, fate: Fate) {
        self.intents[id].fate = fate;
        if let Err(what) = self.check_fate(id) {
            self.accuse(what);
        }
    }

    fn check_fate(&self, id: IntentId) -> Check {
        let place = self.places.get(&id).copied().unwrap_or_default();
        match self.intents[id].fate {
            Fate::Committed(known) if known != place => Err(format!(
                "transaction {id} was acknowledged in {known:?} and is in {place:?}"
            )),
            Fate::Failed(kind) if place != [None; TABLES] => {
                Err(format!("transaction {id} failed ({kind:?}) and is in {place:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether every transaction's end is the one that its caller knows.
    pub fn check_fates(&self) -> Check {
        (0..self.intents.len()).try_for_each(|id| self.check_fate(id))
    }

    /// Whether versions of both tables are of one instant: each transaction is in both, or in none.
    pub fn check_instant(&self, versions: Versions) -> Check {
        for (id, place) in &self.places {
            let is_in = |table: usize| place[table].map(|version| version <= versions[table]);
            let seen: BTreeSet<bool> = (0..TABLES).filter_map(is_in).collect();
            if seen.len() > 1 {
                return Err(format!(
                    "versions {versions:?} have transaction {id} in one table only: {place:?}"
                ));
            }
        }
        Ok(())
    }
}
