//! Builds the indexes of a table: reads their columns from the files that no segment covers, sorts
//! the keys' hashes in bounded memory, and publishes new segments by a new manifest. Commits
//! nothing.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use deltaplane_data::FileRead;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_index::{
    DIR, EntrySorter, MOST_FILES, Manifest, Segment, SegmentFiles, SegmentInfo, each_key, newest, publish,
    refresh_copy, unneeded, write_segment,
};
use deltaplane_log::{PlanColumns, Snapshot, new_id, now_ms};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::hidden_columns::FILE;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::merging::{self, MOST_ROWS};
use crate::file_sets::file_read;
use crate::key_lookup::{OpenIndex, TableIndex, table_indexes};
use crate::scan::Scan;

/// Attempts to publish a manifest while others publish theirs.
const ATTEMPTS: usize = 16;
/// Age of objects that are deleted once the newest manifest doesn't name them: readers may have an
/// older one, and other builders may be about to publish theirs.
const UNNEEDED_MS: i64 = 24 * 60 * 60 * 1000;

/// An index of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyIndex {
    /// The names of the columns that keys are made of, in the order of their values.
    pub columns: Vec<String>,
    /// Objects that hold the index.
    pub segments: u64,
    /// Their bytes.
    pub size_bytes: u64,
    /// Different pairs of file and key, also of files that were removed.
    pub entries: u64,
    /// Live files whose keys it has.
    pub covered_files: u64,
    /// Live files that are read in each look-up.
    pub uncovered_files: u64,
}

/// A live file.
struct LiveFile {
    read: FileRead,
    size: i64,
    rows: u64,
}

/// Brings every index up to date; `again` builds it from all files. Returns the state of each.
///
/// # Errors
/// Those of reading the log and data files and of the store; `ConcurrentWrite` if other builders
/// publish manifests all the time.
pub async fn build(snapshot: &Snapshot, again: bool) -> Result<Vec<KeyIndex>> {
    let indexes = table_indexes(snapshot.state());
    if indexes.is_empty() {
        return Ok(Vec::new());
    }
    let live = live_files(snapshot).await?;
    for index in &indexes {
        update(snapshot, index, &live, again).await?;
    }
    clean_up(snapshot).await;
    states(snapshot, &indexes, &live).await
}

/// The state of every index.
///
/// # Errors
/// Those of reading the log and of the store.
pub async fn describe(snapshot: &Snapshot) -> Result<Vec<KeyIndex>> {
    let indexes = table_indexes(snapshot.state());
    match indexes.is_empty() {
        true => Ok(Vec::new()),
        false => states(snapshot, &indexes, &live_files(snapshot).await?).await,
    }
}

/// Deletes old objects that no manifest names; with `dropped` also the segments of indexes that
/// the table has no more, which it removes from the manifest.
///
/// # Errors
/// Those of the store; `ConcurrentWrite` as in [`build`].
pub async fn clean(snapshot: &Snapshot, dropped: bool) -> Result<()> {
    match dropped {
        true => drop_segments(snapshot).await,
        false => {
            clean_up(snapshot).await;
            Ok(())
        }
    }
}

async fn drop_segments(snapshot: &Snapshot) -> Result<()> {
    let indexes = table_indexes(snapshot.state());
    let is_indexed = |s: &SegmentInfo| indexes.iter().any(|index| s.is_of(&index.columns));
    let (_, manifest) = newest(snapshot.store(), &snapshot.state().metadata().id).await?;
    let gone: Vec<String> = manifest
        .segments
        .iter()
        .filter(|s| !is_indexed(s))
        .map(|s| s.path.clone())
        .collect();
    if gone.is_empty() {
        return Ok(());
    }
    publish_change(snapshot, |segments| segments.retain(is_indexed)).await?;
    // A reader with the older manifest reads files without them.
    snapshot.store().delete_all(&gone).await
}

async fn live_files(snapshot: &Snapshot) -> Result<Vec<LiveFile>> {
    let mut files = Vec::new();
    let mut batches = snapshot.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            files.push(LiveFile {
                // Rows that are deleted now are live again in a restored version.
                read: FileRead {
                    deletion_vector: None,
                    ..file_read(&rows, row)?
                },
                size: rows.size(row),
                rows: rows.num_records(row).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            });
        }
    }
    Ok(files)
}

/// The opened segments of an index; those that can't be opened are left out.
async fn opened(snapshot: &Snapshot, index: &TableIndex, manifest: &Manifest) -> Vec<(SegmentInfo, Arc<Segment>)> {
    let open = OpenIndex::of(snapshot);
    let mut segments = Vec::new();
    for info in manifest.segments.iter().filter(|s| index.has(s)) {
        if let Some(segment) = open.segment(info).await {
            segments.push((info.clone(), segment));
        }
    }
    segments
}

fn is_covered(file: &LiveFile, segments: &[(SegmentInfo, Arc<Segment>)]) -> bool {
    segments
        .iter()
        .any(|(_, s)| s.covered().number(&file.read.path, file.size).is_some())
}

async fn update(snapshot: &Snapshot, index: &TableIndex, live: &[LiveFile], again: bool) -> Result<()> {
    let (_, manifest) = newest(snapshot.store(), &snapshot.state().metadata().id).await?;
    let segments = opened(snapshot, index, &manifest).await;
    let covered: usize = segments.iter().map(|(_, s)| s.covered().len()).sum();
    let live_covered = live.iter().filter(|f| is_covered(f, &segments)).count();
    let again = again || covered.saturating_sub(live_covered) > live.len();
    let merged = match again {
        true => None,
        false => merging::merge(snapshot, &segments).await?,
    };
    let known: Vec<String> = manifest.segments.iter().map(|s| s.path.clone()).collect();
    let of_index = manifest.segments.iter().filter(|s| s.is_of(&index.columns)).count();
    let is_replaced = |path: &String| merged.as_ref().is_some_and(|m| m.replaced.contains(path));
    let sound = segments.iter().map(|(info, _)| info.path.clone());
    let retained: Vec<String> = sound.filter(|path| !again && !is_replaced(path)).collect();
    let covering: Vec<_> = segments
        .into_iter()
        .filter(|(info, _)| !again && !merged.as_ref().is_some_and(|m| m.loses(info)))
        .collect();
    let files = live.iter().filter(|f| !is_covered(f, &covering)).collect();
    let mut built: Vec<SegmentInfo> = merged.and_then(|m| m.segment).into_iter().collect();
    for group in grouped(files) {
        built.push(build_segment(snapshot, index, &group).await?);
    }
    if built.is_empty() && retained.len() == of_index {
        return Ok(());
    }
    publish_change(snapshot, |of_table| {
        // Segments that other builders published meanwhile stay.
        let stays = |s: &SegmentInfo| !known.contains(&s.path) || retained.contains(&s.path);
        of_table.retain(|s| !s.is_of(&index.columns) || stays(s));
        of_table.extend(built.iter().cloned());
    })
    .await
}

/// The files of each new segment.
fn grouped(files: Vec<&LiveFile>) -> Vec<Vec<&LiveFile>> {
    let mut groups: Vec<(u64, Vec<&LiveFile>)> = Vec::new();
    for file in files {
        match groups.last_mut() {
            Some((rows, group)) if group.len() < MOST_FILES && *rows + file.rows <= MOST_ROWS => {
                *rows += file.rows;
                group.push(file);
            }
            _ => groups.push((file.rows, vec![file])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

async fn build_segment(snapshot: &Snapshot, index: &TableIndex, files: &[&LiveFile]) -> Result<SegmentInfo> {
    let listed: Vec<(String, i64)> = files.iter().map(|f| (f.read.path.clone(), f.size)).collect();
    let numbers: HashMap<&str, u32> = listed.iter().map(|(path, _)| path.as_str()).zip(0..).collect();
    let reads = files.iter().map(|f| f.read.clone()).collect();
    let columns = index.names.iter().cloned().chain([FILE.to_owned()]).collect();
    let mut rows = Scan::of_files(snapshot, reads, columns)?.stream();
    let mut sorter = EntrySorter::default();
    while let Some(batch) = rows.try_next().await? {
        collect(&batch, index, &numbers, &mut sorter)?;
    }
    let key = format!("{DIR}/s-{}.keys", new_id());
    let covered = SegmentFiles {
        table: &snapshot.state().metadata().id,
        columns: &index.columns,
        files: &listed,
        known_bits: None,
    };
    let written = write_segment(snapshot.store(), &key, &covered, sorter.finish()?).await?;
    written.ok_or_else(|| Error::internal("a segment of whole hashes had too few bits"))
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

/// Publishes the newest manifest with its segments changed.
async fn publish_change(snapshot: &Snapshot, change: impl Fn(&mut Vec<SegmentInfo>)) -> Result<()> {
    let (store, table) = (snapshot.store(), &snapshot.state().metadata().id);
    for _ in 0..ATTEMPTS {
        let (number, mut manifest) = newest(store, table).await?;
        change(&mut manifest.segments);
        if publish(store, number + 1, &manifest).await? {
            if let Err(e) = refresh_copy(store, &manifest).await {
                warn!(table = %store.location(), error = %e, "readers of the key index can't be shown its newest manifest now");
            }
            OpenIndex::of(snapshot).keep(&Arc::new(manifest));
            return Ok(());
        }
    }
    Err(Error::new(
        Kind::ConcurrentWrite,
        "other builders of the table's key index published theirs each time: build it again later",
    )
    .with_table(store.location().as_str()))
}

/// Deletes what no reader needs; a failure is left to the next build.
async fn clean_up(snapshot: &Snapshot) {
    let store = snapshot.store();
    let cleaned = async {
        let (number, manifest) = newest(store, &snapshot.state().metadata().id).await?;
        // Another builder may have replaced the copy by that of an older manifest.
        if number > 0 {
            refresh_copy(store, &manifest).await?;
        }
        let old = unneeded(store, number, &manifest, now_ms() - UNNEEDED_MS).await?;
        match old.is_empty() {
            true => Ok(()),
            false => store.delete_all(&old).await,
        }
    };
    if let Err(e) = cleaned.await {
        warn!(table = %store.location(), error = %e, "old objects of the key index can't be deleted");
    }
}

async fn states(snapshot: &Snapshot, indexes: &[TableIndex], live: &[LiveFile]) -> Result<Vec<KeyIndex>> {
    let (_, manifest) = newest(snapshot.store(), &snapshot.state().metadata().id).await?;
    let mut out = Vec::with_capacity(indexes.len());
    for index in indexes {
        let segments = opened(snapshot, index, &manifest).await;
        let covered = live.iter().filter(|f| is_covered(f, &segments)).count();
        out.push(KeyIndex {
            columns: index.names.clone(),
            segments: segments.len() as u64,
            size_bytes: segments.iter().map(|(s, _)| s.size_bytes).sum(),
            entries: segments.iter().map(|(s, _)| s.entries).sum(),
            covered_files: covered as u64,
            uncovered_files: (live.len() - covered) as u64,
        });
    }
    Ok(out)
}
