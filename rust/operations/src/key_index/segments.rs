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
use deltaplane_store::Store;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::key_lookup::TableIndex;

/// What a task must know of the table and its indexes.
#[derive(Clone, Serialize, Deserialize)]
pub struct KeySpec {
    /// The table's id.
    table: String,
    schema: TableSchema,
    partition_columns: Vec<String>,
    /// Its column mapping mode.
    mapping: String,
    indexes: Vec<TableIndex>,
}

/// Files whose keys are in one segment.
#[derive(Clone, Serialize, Deserialize)]
pub struct KeyGroup {
    /// The number of the index.
    pub(super) index: usize,
    /// Their decoded paths and sizes.
    pub(super) files: Vec<(String, i64)>,
}

impl KeyGroup {
    /// The number of its files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }
}

/// A segment that a task wrote; no manifest names it yet.
#[derive(Clone, Serialize, Deserialize)]
pub struct BuiltSegment {
    pub(super) index: usize,
    pub(super) info: SegmentInfo,
}

impl KeySpec {
    pub(super) fn of(snapshot: &Snapshot, indexes: &[TableIndex]) -> Self {
        let state = snapshot.state();
        KeySpec {
            table: state.metadata().id.clone(),
            schema: TableSchema(Arc::clone(state.schema())),
            partition_columns: state.partition_columns().to_vec(),
            mapping: state.mapping().as_str().to_owned(),
            indexes: indexes.to_vec(),
        }
    }

    /// The columns of an index, and the file of each row.
    fn read_spec(&self, index: &TableIndex) -> Result<ReadSpec> {
        let mut spec = ReadSpec::new(Arc::clone(&self.schema.0), self.partition_columns.clone());
        spec.mapping = Mapping::parse(&self.mapping)?;
        spec.columns = Some(index.names.iter().cloned().chain([FILE.to_owned()]).collect());
        spec.encoded_files = true;
        Ok(spec)
    }
}

/// Reads the keys of a group's files, `parallelism` row groups at a time, and writes its segment.
///
/// # Errors
/// Those of reading the files and of the store.
pub async fn build_segment(
    store: &Store,
    spec: &KeySpec,
    group: &KeyGroup,
    parallelism: usize,
) -> Result<BuiltSegment> {
    let index = spec
        .indexes
        .get(group.index)
        .ok_or_else(|| Error::internal("a group of files is of an index that its table doesn't have"))?;
    let numbers: HashMap<&str, u32> = group.files.iter().map(|(path, _)| path.as_str()).zip(0..).collect();
    // All rows, without deletion vectors: those that are deleted now are live again in a restored
    // version.
    let reads: Vec<Result<FileRead>> = group.files.iter().map(|(path, size)| Ok(whole(path, *size))).collect();
    let read = Arc::new(spec.read_spec(index)?);
    let mut rows = scan(store.clone(), stream::iter(reads).boxed(), read, parallelism);
    let mut sorter = EntrySorter::default();
    while let Some(batch) = rows.try_next().await? {
        collect(&batch, index, &numbers, &mut sorter)?;
    }
    let key = format!("{DIR}/s-{}.keys", new_id());
    let covered = SegmentFiles {
        table: &spec.table,
        columns: &index.columns,
        files: &group.files,
        known_bits: None,
    };
    let written = write_segment(store, &key, &covered, sorter.finish()?).await?;
    let info = written.ok_or_else(|| Error::internal("a segment of whole hashes had too few bits"))?;
    Ok(BuiltSegment {
        index: group.index,
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
