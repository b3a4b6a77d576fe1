//! The model: what every commit says, read by plain JSON and by nothing of the product, and what
//! its transaction meant. A commit is right if it does to the rows of the version before it what
//! its operation means (a serial history).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use deltaplane_error::Kind;
use deltaplane_protocol::actions::DeletionVector;
use deltaplane_protocol::deletion_vectors::{FRAME_BYTES, Place, Positions, unframe};
use serde_json::Value;

/// A row, by a number that no other has.
pub type Row = u64;
/// A transaction, by its place in the book.
pub type IntentId = usize;
/// A file with its deletion vector: what the log knows a file by.
pub type FileKey = (String, Option<String>);

/// What a transaction means to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Adds rows.
    Append,
    /// Replaces all rows by new ones.
    Overwrite,
    /// Replaces all rows of a partition by new ones.
    Replace(u8),
    /// Deletes all rows of a partition.
    Delete(u8),
    /// Deletes a row by a vector and adds its new form.
    Update(Row),
    /// Deletes a row by a vector. It adds none, so that another writer may mark rows of the same
    /// file meanwhile.
    DeleteRow(Row),
    /// Moves rows of a partition into one file.
    Compact(u8),
    /// Changes a property of the table.
    Alter,
    /// Makes the table.
    Create,
}

/// What its caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing yet, or its caller died.
    Open,
    /// It is in this version.
    Committed(u64),
    /// It failed for this reason and is nowhere.
    Failed(Kind),
    /// The store failed; it may be in the table.
    Unclear,
}

/// A transaction.
#[derive(Debug, Clone)]
pub struct Intent {
    /// What it means.
    pub operation: Operation,
    /// The newest version when it began.
    pub began: Option<u64>,
    /// What its caller was told.
    pub fate: Fate,
    /// Rows that it adds.
    pub rows: BTreeSet<Row>,
    /// The application's version that it carries.
    pub txn: Option<(String, i64)>,
}

/// A data file, as its writer knows it.
#[derive(Debug, Clone)]
pub struct DataFile {
    /// Its partition.
    pub partition: u8,
    /// Its rows by their position.
    pub rows: Vec<Row>,
}

/// One version of the table.
#[derive(Debug, Clone, Default)]
pub struct Version {
    /// Live files and their vectors.
    pub live: BTreeMap<String, Option<String>>,
    /// Removed files and when they went.
    pub tombstones: BTreeMap<FileKey, i64>,
    /// The applications' versions.
    pub txns: BTreeMap<String, i64>,
    /// Properties.
    pub configuration: BTreeMap<String, String>,
    /// When its commit was written.
    pub time_ms: i64,
}

impl Version {
    /// Its live files as keys.
    pub fn keys(&self) -> BTreeSet<FileKey> {
        self.live.iter().map(|(p, v)| (p.clone(), v.clone())).collect()
    }
}

/// Everything that is known of the table beside its store.
#[derive(Default)]
pub struct Book {
    /// Transactions that were begun.
    pub intents: Vec<Intent>,
    /// Data files that were written.
    pub files: BTreeMap<String, DataFile>,
    /// Deleted rows by the id of a vector, as positions.
    pub vectors: BTreeMap<String, BTreeSet<usize>>,
    /// The versions, in order.
    pub versions: Vec<Version>,
    /// Their commits as they were written.
    pub commits: Vec<Bytes>,
    /// The version of each transaction that is in the table.
    pub committed: BTreeMap<IntentId, u64>,
    /// Turns that each place's actors have begun.
    pub progress: BTreeMap<usize, usize>,
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

impl Book {
    /// The newest version.
    pub fn newest(&self) -> Option<u64> {
        (self.versions.len() as u64).checked_sub(1)
    }

    /// Says that something is wrong, once.
    pub fn accuse(&mut self, what: impl Into<String>) {
        self.wrong.get_or_insert(what.into());
    }

    /// A transaction begins.
    pub fn begin(&mut self, operation: Operation, txn: Option<(String, i64)>) -> IntentId {
        let began = self.newest();
        self.intents.push(Intent {
            operation,
            began,
            fate: Fate::Open,
            rows: BTreeSet::new(),
            txn,
        });
        self.intents.len() - 1
    }

    /// A transaction writes a data file of new rows; returns its path.
    pub fn new_file(&mut self, intent: IntentId, partition: u8, rows: usize) -> String {
        let first = intent as Row * 100 + self.intents[intent].rows.len() as Row;
        let rows: Vec<Row> = (first..first + rows as Row).collect();
        self.intents[intent].rows.extend(&rows);
        self.file_of(intent, partition, rows)
    }

    /// A transaction writes a data file of rows that are there already; returns its path.
    pub fn file_of(&mut self, intent: IntentId, partition: u8, rows: Vec<Row>) -> String {
        let path = format!("p={partition}/{intent}-{}.parquet", self.files.len());
        self.files.insert(path.clone(), DataFile { partition, rows });
        path
    }

    /// The rows of a file that its vector leaves.
    pub fn rows_of(&self, path: &str, vector: Option<&str>) -> Vec<Row> {
        let gone = vector.and_then(|v| self.vectors.get(v));
        let rows = self.files.get(path).map(|f| f.rows.as_slice()).unwrap_or_default();
        let left = rows
            .iter()
            .enumerate()
            .filter(|(place, _)| gone.is_none_or(|g| !g.contains(place)));
        left.map(|(_, row)| *row).collect()
    }

    /// The rows of a version with their partition.
    fn content(&self, version: Option<&Version>) -> Result<BTreeMap<Row, u8>, String> {
        let mut out = BTreeMap::new();
        for (path, vector) in version.iter().flat_map(|v| &v.live) {
            let partition = self.files.get(path).map_or(0, |f| f.partition);
            for row in self.rows_of(path, vector.as_deref()) {
                if out.insert(row, partition).is_some() {
                    return Err(format!("row {row} is in the table twice"));
                }
            }
        }
        Ok(out)
    }

    /// The caller of a transaction is told how it ended.
    pub fn settle(&mut self, intent: IntentId, fate: Fate) {
        self.intents[intent].fate = fate;
        let committed = self.committed.get(&intent).copied();
        match (fate, committed) {
            (Fate::Committed(version), committed) if committed != Some(version) => self.accuse(format!(
                "transaction {intent} got the answer that it is version {version}, and is {committed:?}"
            )),
            (Fate::Failed(kind), Some(version)) => self.accuse(format!(
                "transaction {intent} got the answer that it failed ({kind:?}), and is version {version}"
            )),
            _ => {}
        }
    }

    /// A commit file appeared.
    pub fn commit(&mut self, version: u64, bytes: &Bytes, now_ms: i64) -> Check {
        if let Some(before) = self.commits.get(version as usize) {
            let same = before == bytes;
            return same
                .then_some(())
                .ok_or_else(|| format!("version {version} was written over"));
        }
        if version != self.commits.len() as u64 {
            return Err(format!("version {version} follows version {:?}: a gap", self.newest()));
        }
        let (after, intent) = self.replay(version, bytes, now_ms)?;
        if let Some(other) = self.committed.insert(intent, version) {
            return Err(format!("transaction {intent} is version {other} and version {version}"));
        }
        if let Fate::Failed(kind) = self.intents[intent].fate {
            return Err(format!(
                "transaction {intent} got the answer that it failed ({kind:?}), and is version {version} now"
            ));
        }
        let same = |id: &IntentId| self.intents[*id].txn.is_some() && self.intents[*id].txn == self.intents[intent].txn;
        if let Some(twice) = self.committed.keys().find(|id| **id != intent && same(id)) {
            return Err(format!(
                "transactions {twice} and {intent} both did {:?}",
                self.intents[intent].txn
            ));
        }
        self.check_meaning(intent, self.versions.last(), &after)
            .map_err(|e| format!("version {version} (transaction {intent}): {e}"))?;
        self.versions.push(after);
        self.commits.push(bytes.clone());
        Ok(())
    }

    /// Notes the rows of the deletion vectors that a commit names, from the files that `object`
    /// finds by their keys.
    pub fn learn_vectors(&mut self, commit: &Bytes, object: impl Fn(&str) -> Option<Bytes>) -> Check {
        let actions = commit.split(|b| *b == b'\n');
        for action in actions.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
            let described = &action["add"]["deletionVector"];
            if described.is_null() {
                continue;
            }
            let (_, id) = key_of(&action["add"]);
            let rows = rows_of_vector(described, &object)?;
            self.vectors.insert(id.unwrap_or_default(), rows);
        }
        Ok(())
    }

    fn replay(&self, version: u64, bytes: &Bytes, now_ms: i64) -> Result<(Version, IntentId), String> {
        let damaged = |what: &str| format!("version {version} is no whole commit: {what}");
        let text = std::str::from_utf8(bytes).map_err(|e| damaged(&e.to_string()))?;
        let mut out = self.versions.last().cloned().unwrap_or_default();
        out.time_ms = now_ms.max(out.time_ms + 1);
        let (mut adds, mut intent) = (Vec::new(), None);
        for line in text.lines() {
            let action: Value = serde_json::from_str(line).map_err(|e| damaged(&e.to_string()))?;
            if let Some(add) = action.get("add") {
                adds.push(key_of(add));
            } else if let Some(remove) = action.get("remove") {
                let key = key_of(remove);
                if out.live.get(&key.0) != Some(&key.1) {
                    return Err(format!("version {version} removes {key:?}, which isn't in the table"));
                }
                out.live.remove(&key.0);
                out.tombstones
                    .insert(key, remove["deletionTimestamp"].as_i64().unwrap_or(0));
            } else if let Some(txn) = action.get("txn") {
                let (app, new) = (text_of(&txn["appId"]), txn["version"].as_i64().unwrap_or(-1));
                let before = out.txns.insert(app.clone(), new);
                if before.is_some_and(|before| before >= new) {
                    return Err(format!("version {version} repeats {app} {new}, which was done before"));
                }
            } else if let Some(metadata) = action.get("metaData") {
                let configuration = metadata["configuration"].as_object();
                let pairs = configuration.into_iter().flatten();
                out.configuration = pairs.map(|(k, v)| (k.clone(), text_of(v))).collect();
            } else if let Some(info) = action.get("commitInfo") {
                intent = info["simIntent"].as_u64();
            }
        }
        for (path, vector) in adds {
            if out.live.contains_key(&path) {
                return Err(format!("version {version} adds {path}, which is in the table"));
            }
            out.tombstones.remove(&(path.clone(), vector.clone()));
            out.live.insert(path, vector);
        }
        let intent = intent.ok_or_else(|| damaged("it names no transaction"))? as IntentId;
        Ok((out, intent))
    }

    /// Whether a commit does to the version before what its transaction means.
    fn check_meaning(&self, intent: IntentId, before: Option<&Version>, after: &Version) -> Check {
        let intent = &self.intents[intent];
        let (before, after) = (self.content(before)?, self.content(Some(after))?);
        let stays = |row: Row, partition: u8| match &intent.operation {
            Operation::Append | Operation::Compact(_) | Operation::Alter | Operation::Create => true,
            Operation::Overwrite => false,
            Operation::Replace(p) | Operation::Delete(p) => partition != *p,
            Operation::Update(changed) | Operation::DeleteRow(changed) => row != *changed,
        };
        if let Operation::Update(row) | Operation::DeleteRow(row) = intent.operation
            && !before.contains_key(&row)
        {
            return Err(format!("row {row} was changed after it had gone"));
        }
        let expected: BTreeSet<Row> = before
            .iter()
            .filter(|(r, p)| stays(**r, **p))
            .map(|(r, _)| *r)
            .collect();
        let expected: BTreeSet<Row> = expected.union(&intent.rows).copied().collect();
        let rows: BTreeSet<Row> = after.keys().copied().collect();
        if let Some(lost) = expected.difference(&rows).next() {
            return Err(format!("row {lost} is lost ({:?})", intent.operation));
        }
        match rows.difference(&expected).next() {
            Some(row) => Err(format!(
                "row {row} should have been read and isn't ({:?})",
                intent.operation
            )),
            None => Ok(()),
        }
    }

    /// Whether every transaction's end is the one that its caller knows.
    pub fn check_fates(&self) -> Check {
        for (id, intent) in self.intents.iter().enumerate() {
            let version = self.committed.get(&id).copied();
            match intent.fate {
                Fate::Committed(v) if version != Some(v) => {
                    return Err(format!("transaction {id} in version {v} is lost"));
                }
                Fate::Failed(_) if version.is_some() => return Err(format!("failed transaction {id} is visible")),
                _ => {}
            }
        }
        Ok(())
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A file action's key. Paths in simulations need no decoding.
fn key_of(action: &Value) -> FileKey {
    let vector = action.get("deletionVector").filter(|v| !v.is_null());
    let id = vector.map(|v| {
        vector_id(
            &text_of(&v["storageType"]),
            &text_of(&v["pathOrInlineDv"]),
            v["offset"].as_i64(),
        )
    });
    (text_of(&action["path"]), id)
}

/// The positions that a deletion vector has in its file, which must be there before the commit that
/// names it (P120).
fn rows_of_vector(described: &Value, object: &impl Fn(&str) -> Option<Bytes>) -> Result<BTreeSet<usize>, String> {
    let wrong = |e: &dyn std::fmt::Display| format!("the deletion vector {described} can't be read: {e}");
    let vector: DeletionVector = serde_json::from_value(described.clone()).map_err(|e| wrong(&e))?;
    let Place::File {
        path,
        offset,
        size_bytes,
    } = Place::of(&vector).map_err(|e| wrong(&e))?
    else {
        return Err(wrong(&"it is in no file"));
    };
    let file = object(&path).ok_or_else(|| wrong(&"its file isn't there"))?;
    let frame = file.get(offset as usize..).unwrap_or_default();
    let frame = frame.get(..size_bytes + FRAME_BYTES as usize).unwrap_or(frame);
    let read = unframe(frame, size_bytes).and_then(|bytes| Positions::parse(bytes, vector.cardinality));
    let rows = read.map_err(|e| wrong(&e))?;
    Ok(rows.iter().map(|row| row as usize).collect())
}

/// What tells vectors of a file apart.
pub fn vector_id(storage: &str, path: &str, offset: Option<i64>) -> String {
    match offset {
        Some(o) => format!("{storage}{path}@{o}"),
        None => format!("{storage}{path}"),
    }
}
