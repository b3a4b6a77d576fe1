//! Segments: a task reads the keys of some files, sorts their hashes in bounded memory and writes
//! them as one object. What a task must know and what it returns serialize, since it may run on
//! another machine.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use deltaplane_data::{FileRead, ReadSpec, scan};
use deltaplane_error::{Error, Result};
use deltaplane_index::{DIR, EntrySorter, SegmentFiles, SegmentInfo, each_key, write_segment};
use deltaplane_log::{Snapshot, TableSchema, new_id};
use deltaplane_protocol::hidden_columns::FILE;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_store::{Store, block_on};
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::key_lookup::TableIndex;

/// A segment to be built, by any process.
#[derive(Clone, Serialize, Deserialize)]
pub struct KeyTask {
    /// The table's id.
    table: String,
    schema: TableSchema,
    partition_columns: Vec<String>,
    /// Its column mapping mode.
    mapping: String,
    index: TableIndex,
    /// The number of the index.
    number: usize,
    /// Decoded paths and sizes of the files whose keys it has.
    pub(super) files: Vec<(String, i64)>,
}

/// A segment that a task wrote; no manifest names it yet.
#[derive(Clone, Serialize, Deserialize)]
pub struct BuiltSegment {
    /// The number of the index.
    pub(super) number: usize,
    pub(super) info: SegmentInfo,
}

impl KeyTask {
    pub(super) fn new(snapshot: &Snapshot, index: &TableIndex, number: usize, files: Vec<(String, i64)>) -> Self {
        let state = snapshot.state();
        KeyTask {
            table: state.metadata().id.clone(),
            schema: TableSchema(Arc::clone(state.schema())),
            partition_columns: state.partition_columns().to_vec(),
            mapping: state.mapping().as_str().to_owned(),
            index: index.clone(),
            number,
            files,
        }
    }

    /// The columns of the index, and the file of each row.
    fn read_spec(&self) -> Result<ReadSpec> {
        let mut spec = ReadSpec::new(Arc::clone(&self.schema.0), self.partition_columns.clone());
        spec.mapping = Mapping::parse(&self.mapping)?;
        spec.columns = Some(self.index.names.iter().cloned().chain([FILE.to_owned()]).collect());
        spec.encoded_files = true;
        Ok(spec)
    }
}

/// Reads the keys of a task's files and writes its segment. Blocks the calling thread.
///
/// # Errors
/// Those of reading the files and of the store.
pub fn build_segment(store: &Store, task: &KeyTask) -> Result<BuiltSegment> {
    // A Spark task has one core, and its siblings the others.
    block_on(built(store, task, 1))
}

/// The same, `parallelism` row groups at a time.
pub(super) async fn built(store: &Store, task: &KeyTask, parallelism: usize) -> Result<BuiltSegment> {
    let numbers: HashMap<&str, u32> = task.files.iter().map(|(path, _)| path.as_str()).zip(0..).collect();
    // All rows, without deletion vectors: those that are deleted now are live again in a restored
    // version.
    let reads: Vec<Result<FileRead>> = task.files.iter().map(|(path, size)| Ok(whole(path, *size))).collect();
    let read = Arc::new(task.read_spec()?);
    let mut rows = scan(store.clone(), stream::iter(reads).boxed(), read, parallelism);
    let mut sorter = EntrySorter::default();
    while let Some(batch) = rows.try_next().await? {
        collect(&batch, &task.index, &numbers, &mut sorter)?;
    }
    let key = format!("{DIR}/s-{}.keys", new_id());
    let covered = SegmentFiles {
        table: &task.table,
        columns: &task.index.columns,
        files: &task.files,
        known_bits: None,
    };
    let written = write_segment(store, &key, &covered, sorter.finish()?).await?;
    let info = written.ok_or_else(|| Error::internal("a segment of whole hashes had too few bits"))?;
    Ok(BuiltSegment {
        number: task.number,
        info,
    })
}

fn whole(path: &str, size: i64) -> FileRead {
    FileRead {
        path: path.to_owned(),
        size_bytes: u64::try_from(size).unwrap_or(0),
        ..FileRead::default()
    }
}

/// Adds the keys of a batch.
fn collect(
    batch: &RecordBatch,
    index: &TableIndex,
    numbers: &HashMap<&str, u32>,
    sorter: &mut EntrySorter,
) -> Result<()> {
    let wrong = || Error::internal("the rows of an index have other columns than were asked for");
    let Some((paths, keys)) = batch.columns().split_last() else {
        return Err(wrong());
    };
    let files = file_numbers(paths, numbers).ok_or_else(wrong)?;
    let columns: Vec<_> = index.columns.iter().map(|c| c.class).zip(keys).collect();
    if columns.len() != index.columns.len() {
        return Err(wrong());
    }
    each_key(&columns, |row, hash| {
        sorter.push(hash, *files.get(row).ok_or_else(wrong)?)
    })
}

/// The number of each row's file.
fn file_numbers(paths: &ArrayRef, numbers: &HashMap<&str, u32>) -> Option<Vec<u32>> {
    let encoded = paths.as_dictionary_opt::<Int32Type>()?;
    let texts = encoded.values().as_string_opt::<i32>()?;
    let of_texts: Vec<Option<u32>> = texts.iter().map(|t| numbers.get(t?).copied()).collect();
    let rows = encoded.keys().iter();
    rows.map(|key| *of_texts.get(usize::try_from(key?).ok()?)?).collect()
}
