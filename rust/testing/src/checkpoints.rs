//! Checkpoints as the model sees them: decoded with the Parquet library alone and compared with the
//! replay of all commits; and which versions the files of the log can rebuild.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, AsArray, RecordBatch, StructArray};
use arrow::datatypes::{Int32Type, Int64Type};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use crate::book::{FileKey, Version, vector_id};
use crate::world::World;

/// What a checkpoint's file holds.
#[derive(Debug, Default)]
pub struct Content {
    adds: BTreeSet<FileKey>,
    removes: BTreeSet<FileKey>,
    txns: BTreeMap<String, i64>,
    sidecars: Vec<String>,
    has_state: bool,
}

/// The version and kind of a file of the log: `json`, `checkpoint`, or another.
pub fn log_file(key: &str) -> Option<(u64, &str)> {
    let name = key.strip_prefix("_delta_log/")?;
    let (version, rest) = name.split_once('.')?;
    let kind = rest.split('.').next()?;
    Some((version.parse().ok()?, kind))
}

impl Content {
    fn decode(bytes: &Bytes) -> Result<Content, String> {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(bytes.clone(), options)
            .and_then(|b| b.build())
            .map_err(|e| e.to_string())?;
        let mut out = Content::default();
        for batch in reader {
            out.absorb(&batch.map_err(|e| e.to_string())?);
        }
        Ok(out)
    }

    fn absorb(&mut self, batch: &RecordBatch) {
        let column_of = |name: &str| {
            let column = batch.column_by_name(name).and_then(|c| c.as_struct_opt().cloned());
            column.map(|c| {
                (0..c.len())
                    .filter(|r| c.is_valid(*r))
                    .map(|r| (c.clone(), r))
                    .collect::<Vec<_>>()
            })
        };
        self.adds
            .extend(column_of("add").into_iter().flatten().map(|(c, r)| file_key(&c, r)));
        self.removes
            .extend(column_of("remove").into_iter().flatten().map(|(c, r)| file_key(&c, r)));
        for (c, r) in column_of("txn").into_iter().flatten() {
            self.txns.insert(
                text(&c, "appId", r).unwrap_or_default(),
                long(&c, "version", r).unwrap_or(-1),
            );
        }
        let named = column_of("sidecar")
            .into_iter()
            .flatten()
            .filter_map(|(c, r)| text(&c, "path", r));
        self.sidecars.extend(named);
        self.has_state |= column_of("metaData").is_some_and(|rows| !rows.is_empty());
    }
}

fn text(rows: &StructArray, name: &str, row: usize) -> Option<String> {
    let column = rows.column_by_name(name).filter(|c| c.is_valid(row))?;
    Some(column.as_string_opt::<i32>()?.value(row).to_owned())
}

fn long(rows: &StructArray, name: &str, row: usize) -> Option<i64> {
    let column = rows.column_by_name(name).filter(|c| c.is_valid(row))?;
    let narrow = column.as_primitive_opt::<Int32Type>().map(|c| i64::from(c.value(row)));
    narrow.or_else(|| Some(column.as_primitive_opt::<Int64Type>()?.value(row)))
}

fn file_key(file: &StructArray, row: usize) -> FileKey {
    let vector = file.column_by_name("deletionVector").and_then(|c| c.as_struct_opt());
    let vector = vector.filter(|v| v.is_valid(row)).map(|v| {
        vector_id(
            &text(v, "storageType", row).unwrap_or_default(),
            &text(v, "pathOrInlineDv", row).unwrap_or_default(),
            long(v, "offset", row),
        )
    });
    (text(file, "path", row).unwrap_or_default(), vector)
}

/// The files of a checkpoint: its own and its sidecars'. An error when it isn't whole.
fn whole(world: &World, key: &str) -> Result<Content, String> {
    let object = world.objects.get(key).ok_or_else(|| format!("{key} isn't there"))?;
    let mut content = Content::decode(&object.bytes).map_err(|e| format!("{key} can't be decoded: {e}"))?;
    let mut files = Content::default();
    for name in &content.sidecars {
        let sidecar = format!("_delta_log/_sidecars/{name}");
        let object = world
            .objects
            .get(&sidecar)
            .ok_or_else(|| format!("{key} names {name}, which isn't there"))?;
        let inside = Content::decode(&object.bytes).map_err(|e| format!("{sidecar} can't be decoded: {e}"))?;
        files.adds.extend(inside.adds);
        files.removes.extend(inside.removes);
    }
    content.adds.extend(files.adds);
    content.removes.extend(files.removes);
    Ok(content)
}

/// Whether a checkpoint says what the replay of all commits says; the sidecars that it names.
/// Tombstones may be left out once they expired.
pub fn check(world: &World, key: &str, version: &Version, retention_ms: i64) -> Result<Vec<String>, String> {
    let content = whole(world, key)?;
    if !content.has_state {
        return Err(format!("{key} holds no metadata"));
    }
    if content.adds != version.keys() {
        let (lost, more): (Vec<_>, Vec<_>) = (
            version.keys().difference(&content.adds).cloned().collect(),
            content.adds.difference(&version.keys()).cloned().collect(),
        );
        return Err(format!("{key} lacks the files {lost:?} and has {more:?} too many"));
    }
    if content.txns != version.txns {
        return Err(format!(
            "{key} has the applications {:?} instead of {:?}",
            content.txns, version.txns
        ));
    }
    let expired = world.now_ms - retention_ms;
    let wanted = version.tombstones.iter().filter(|(_, t)| **t > expired);
    if let Some((lost, _)) = wanted.into_iter().find(|(key, _)| !content.removes.contains(*key)) {
        return Err(format!("{key} lacks the tombstone of {lost:?}, which hasn't expired"));
    }
    match content.removes.iter().find(|r| !version.tombstones.contains_key(*r)) {
        Some(invented) => Err(format!("{key} has a tombstone of {invented:?}, which never went")),
        None => Ok(content.sidecars),
    }
}

/// Whether a checkpoint that was right is there with all that it names.
fn is_whole(world: &World, key: &str) -> bool {
    let sidecars = world.checkpoints.get(key);
    let there = |name: &String| world.objects.contains_key(&format!("_delta_log/_sidecars/{name}"));
    sidecars.is_some_and(|names| names.iter().all(there))
}

/// The versions up to `newest` that the log's files can rebuild.
pub fn rebuildable(world: &World, newest: u64) -> BTreeSet<u64> {
    let mut checkpoints = BTreeSet::new();
    let mut commits = BTreeSet::new();
    for key in world.objects.keys() {
        match log_file(key) {
            Some((v, "json")) => {
                commits.insert(v);
            }
            Some((v, "checkpoint")) if is_whole(world, key) => {
                checkpoints.insert(v);
            }
            _ => {}
        }
    }
    if let Some(catalog) = world.catalogs.first() {
        let there = catalog
            .held
            .values()
            .filter(|c| world.content("", &c.content).is_some());
        commits.extend(there.map(|c| c.version));
    }
    let mut out = BTreeSet::new();
    let mut sound = false;
    for v in 0..=newest {
        sound = checkpoints.contains(&v) || (commits.contains(&v) && (sound || v == 0));
        if sound {
            out.insert(v);
        }
    }
    out
}
