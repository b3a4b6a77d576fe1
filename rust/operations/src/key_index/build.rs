//! Builds the indexes of a table: plans which files each new segment covers, and publishes the
//! segments by a new manifest once tasks have built them. Commits nothing.

use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_index::{MOST_FILES, Manifest, Segment, SegmentInfo, newest, publish, refresh_copy, unneeded};
use deltaplane_log::{PlanColumns, Snapshot, now_ms};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_store::block_on;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::merging::{self, MOST_ROWS};
use super::segments::{BuiltSegment, KeyTask, built};
use crate::key_lookup::{OpenIndex, TableIndex, table_indexes};

/// Attempts to publish a manifest while others publish theirs.
const ATTEMPTS: usize = 16;
/// Rows of a task's files at least, where several tasks build an index: their hashes fit in memory.
const LEAST_ROWS: u64 = 16 << 20;
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
    path: String,
    size: i64,
    rows: u64,
}

/// What is to be done to bring the indexes of a version up to date. Small segments are merged by
/// the plan; files whose keys are read are left to tasks, here or on other machines.
pub struct IndexBuild {
    snapshot: Snapshot,
    live: Vec<LiveFile>,
    changes: Vec<IndexChange>,
    tasks: Vec<KeyTask>,
}

/// The planned change of one index.
struct IndexChange {
    index: TableIndex,
    /// The segments of the whole table that were known.
    known: Vec<String>,
    /// Those of the index that stay.
    retained: Vec<String>,
    /// Whether any of the index's goes.
    loses: bool,
    merged: Option<SegmentInfo>,
}

impl IndexBuild {
    /// Plans the build for up to `tasks` tasks at a time; `again` builds from all files.
    ///
    /// # Errors
    /// Those of reading the log and of the store.
    pub fn begin(snapshot: &Snapshot, again: bool, tasks: usize) -> Result<Self> {
        block_on(Self::planned(snapshot, again, tasks))
    }

    async fn planned(snapshot: &Snapshot, again: bool, tasks: usize) -> Result<Self> {
        let indexes = table_indexes(snapshot.state());
        let (live, manifest) = match indexes.is_empty() {
            true => Default::default(),
            false => {
                let (_, manifest) = newest(snapshot.store(), &snapshot.state().metadata().id).await?;
                (live_files(snapshot).await?, manifest)
            }
        };
        let mut build = IndexBuild {
            snapshot: snapshot.clone(),
            live,
            changes: Vec::with_capacity(indexes.len()),
            tasks: Vec::new(),
        };
        for index in indexes {
            build.plan(index, &manifest, again, tasks).await?;
        }
        Ok(build)
    }

    async fn plan(&mut self, index: TableIndex, manifest: &Manifest, again: bool, tasks: usize) -> Result<()> {
        let (snapshot, live) = (&self.snapshot, &self.live);
        let segments = opened(snapshot, &index, manifest).await;
        let covered: usize = segments.iter().map(|(_, s)| s.covered().len()).sum();
        let live_covered = live.iter().filter(|f| is_covered(f, &segments)).count();
        let again = again || covered.saturating_sub(live_covered) > live.len();
        let merged = match again {
            true => None,
            false => merging::merge(snapshot, &segments).await?,
        };
        let of_index = manifest.segments.iter().filter(|s| s.is_of(&index.columns)).count();
        let is_replaced = |path: &String| merged.as_ref().is_some_and(|m| m.replaced.contains(path));
        let sound = segments.iter().map(|(info, _)| info.path.clone());
        let retained: Vec<String> = sound.filter(|path| !again && !is_replaced(path)).collect();
        let covering: Vec<_> = segments
            .into_iter()
            .filter(|(info, _)| !again && !merged.as_ref().is_some_and(|m| m.loses(info)))
            .collect();
        let files: Vec<_> = live.iter().filter(|f| !is_covered(f, &covering)).collect();
        let number = self.changes.len();
        let most_rows = rows_of_a_task(&files, tasks);
        let of_task = |files: Vec<&LiveFile>| files.into_iter().map(|f| (f.path.clone(), f.size)).collect();
        let groups = grouped(&files, most_rows).into_iter().map(of_task);
        let tasks = groups
            .map(|files| KeyTask::new(snapshot, &index, number, files))
            .collect::<Vec<_>>();
        self.tasks.extend(tasks);
        self.changes.push(IndexChange {
            loses: retained.len() < of_index,
            index,
            known: manifest.segments.iter().map(|s| s.path.clone()).collect(),
            retained,
            merged: merged.and_then(|m| m.segment),
        });
        Ok(())
    }

    /// The segments to be built.
    pub fn tasks(&self) -> Vec<KeyTask> {
        self.tasks.clone()
    }

    /// The number of files whose keys are read.
    pub fn files(&self) -> usize {
        self.tasks.iter().map(|task| task.files.len()).sum()
    }

    /// Builds the segments here, one after the other, and publishes them. Returns the state of each
    /// index.
    ///
    /// # Errors
    /// Those of reading the data files and of [`publish`](Self::publish).
    pub fn run(&self) -> Result<Vec<KeyIndex>> {
        let (store, version) = (self.snapshot.store(), self.snapshot.version());
        let mut segments = Vec::with_capacity(self.tasks.len());
        for task in &self.tasks {
            let segment = block_on(built(store, task, deltaplane_data::processors()));
            segments.push(segment.map_err(|e| e.with_table(store.location().as_str()).with_version(version))?);
        }
        self.publish(&segments)
    }

    /// Publishes the segments of all tasks. Returns the state of each index.
    ///
    /// # Errors
    /// `ConcurrentWrite` if other builders publish manifests all the time; those of the store.
    pub fn publish(&self, built: &[BuiltSegment]) -> Result<Vec<KeyIndex>> {
        block_on(self.published(built))
    }

    async fn published(&self, built: &[BuiltSegment]) -> Result<Vec<KeyIndex>> {
        let mut changes = Vec::with_capacity(self.changes.len());
        for (number, change) in self.changes.iter().enumerate() {
            let of_index = built.iter().filter(|segment| segment.number == number);
            let mut new: Vec<&SegmentInfo> = of_index.map(|segment| &segment.info).collect();
            new.extend(&change.merged);
            if change.loses || !new.is_empty() {
                changes.push((change, new));
            }
        }
        if !changes.is_empty() {
            publish_change(&self.snapshot, |of_table| {
                for (change, new) in &changes {
                    // Segments that other builders published meanwhile stay.
                    let stays = |s: &SegmentInfo| !change.known.contains(&s.path) || change.retained.contains(&s.path);
                    of_table.retain(|s| !s.is_of(&change.index.columns) || stays(s));
                    of_table.extend(new.iter().copied().cloned());
                }
            })
            .await?;
        }
        if self.changes.is_empty() {
            return Ok(Vec::new());
        }
        clean_up(&self.snapshot).await;
        let indexes: Vec<TableIndex> = self.changes.iter().map(|change| change.index.clone()).collect();
        states(&self.snapshot, &indexes, &self.live).await
    }
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
                path: paths::decode(rows.path(row)?)?,
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
        .any(|(_, s)| s.covered().number(&file.path, file.size).is_some())
}

/// The rows of a segment's files at most, so that all tasks have work where each has enough.
fn rows_of_a_task(files: &[&LiveFile], tasks: usize) -> u64 {
    let rows: u64 = files.iter().map(|f| f.rows).sum();
    rows.div_ceil(tasks.max(1) as u64).clamp(LEAST_ROWS, MOST_ROWS)
}

/// The files of each new segment.
fn grouped<'a>(files: &[&'a LiveFile], most_rows: u64) -> Vec<Vec<&'a LiveFile>> {
    let mut groups: Vec<(u64, Vec<&LiveFile>)> = Vec::new();
    for file in files {
        match groups.last_mut() {
            Some((rows, group)) if group.len() < MOST_FILES && *rows + file.rows <= most_rows => {
                *rows += file.rows;
                group.push(file);
            }
            _ => groups.push((file.rows, vec![file])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(rows: &[u64], tasks: usize) -> Vec<usize> {
        let file = |rows: &u64| LiveFile {
            path: String::new(),
            size: 1,
            rows: *rows,
        };
        let files: Vec<LiveFile> = rows.iter().map(file).collect();
        let files: Vec<&LiveFile> = files.iter().collect();
        let groups = grouped(&files, rows_of_a_task(&files, tasks));
        groups.iter().map(Vec::len).collect()
    }

    #[test]
    fn tasks_share_the_files_if_each_has_enough_rows() {
        assert_eq!(sizes(&[], 4), Vec::<usize>::new());
        assert_eq!(sizes(&[LEAST_ROWS / 4; 8], 4), [4, 4], "too few rows for four tasks");
        assert_eq!(sizes(&[LEAST_ROWS; 8], 1), [8]);
        assert_eq!(sizes(&[LEAST_ROWS; 8], 4), [2, 2, 2, 2]);
        assert_eq!(sizes(&[MOST_ROWS; 3], 1), [1, 1, 1], "a segment has a limit of rows");
        assert_eq!(sizes(&[0; MOST_FILES + 1], 4), [MOST_FILES, 1], "and of files");
    }
}
