//! The files that VACUUM examines: from a listing of the table, from a caller's inventory, or from
//! the log's removes.

use std::collections::HashSet;

use arrow::array::RecordBatch;
use deltaplane_error::{Kind, Result};
use deltaplane_protocol::actions::{Action, Remove};
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths::{self, LAST_VACUUM, LOG_DIR};
use deltaplane_protocol::segment::LogName;
use deltaplane_store::{ObjectInfo, Store};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tracing::warn;

use super::retained::{hash, vector_path};
use crate::Snapshot;
use crate::commit::reader;
use crate::commit::reader::FileLines;
use crate::history::commits;
use crate::listing::list_from;

/// Directories that are listed concurrently, and objects that are asked for concurrently: enough to
/// hide a store's latency.
const AT_ONCE: usize = 16;
/// Objects of the first page: one answer of the store that returns the fewest at once.
const FIRST_PAGE: usize = 1_000;
/// The field of the last vacuum's note with the version up to which the log has no tombstone left
/// to process.
const LOOKED_UNTIL: &str = "latestCommitVersionOutsideOfRetentionWindow";

/// Every file below the table's root that isn't hidden, in any order.
pub(crate) async fn listed(
    store: &Store,
    partition_columns: &[String],
) -> Result<BoxStream<'static, Result<ObjectInfo>>> {
    Listing::begin(store).await?.objects(store, partition_columns).await
}

/// Every object below the table's root, in any order. The first page is read already, so that it
/// can be requested beside the log.
pub(crate) struct Listing {
    first: Vec<ObjectInfo>,
    /// Those after the first page; `None` if there are none.
    rest: Option<BoxStream<'static, Result<ObjectInfo>>>,
}

impl Listing {
    /// Reads the first page.
    pub(crate) async fn begin(store: &Store) -> Result<Self> {
        let mut objects = store.list_all("").await?;
        let first: Vec<_> = objects.by_ref().take(FIRST_PAGE).try_collect().await?;
        let rest = (first.len() == FIRST_PAGE).then_some(objects);
        Ok(Listing { first, rest })
    }

    /// All objects, but not always those in hidden directories.
    pub(crate) async fn objects(
        self,
        store: &Store,
        partition_columns: &[String],
    ) -> Result<BoxStream<'static, Result<ObjectInfo>>> {
        let Some(rest) = self.rest else {
            let visible = self
                .first
                .into_iter()
                .filter(|o| !paths::is_hidden(&o.key, partition_columns));
            let visible: Vec<_> = visible.map(Ok).collect();
            return Ok(stream::iter(visible).boxed());
        };
        let first = stream::iter(self.first).map(Ok);
        // Only partitions make directories by which to divide the work.
        let level = match partition_columns.is_empty() {
            true => None,
            false => store.list_level("").await?,
        };
        let Some(mut level) = level else {
            return Ok(first.chain(rest).boxed());
        };
        level
            .directories
            .retain(|dir| !paths::is_hidden(dir, partition_columns));
        let store = store.clone();
        let below = stream::iter(level.directories)
            .map(move |dir| {
                let store = store.clone();
                stream::once(async move { store.list_all(&dir).await })
                    .try_flatten()
                    .boxed()
            })
            .flatten_unordered(AT_ONCE);
        Ok(stream::iter(level.files).map(Ok).chain(below).boxed())
    }
}

/// Directories below the table's root that have no file, aren't hidden, and were last changed
/// before a time, each after those below it. As delta-spark does, a vacuum removes them.
pub(crate) async fn empty_directories(store: &Store, columns: &[String], before_ms: i64) -> Result<Vec<String>> {
    let mut empty = store.empty_directories("", before_ms).await?;
    empty.retain(|dir| !paths::is_hidden(dir, columns));
    Ok(empty)
}

/// Files that the log removed before a time.
pub(crate) struct Expired {
    /// Those of the files that still exist.
    pub files: Vec<ObjectInfo>,
    /// The version up to which all commits were read and had no unexpired tombstone.
    pub looked_until: Option<u64>,
}

impl Expired {
    /// From the table's tombstones, and from the commits after `last`, the version up to which the
    /// last vacuum processed the log.
    pub(crate) async fn of(snapshot: &Snapshot, cutoff_ms: i64, last: Option<u64>) -> Result<Self> {
        let mut keys = Keys::new(snapshot.store());
        let expired = |batch: RecordBatch| removed_before(&batch, cutoff_ms);
        let tombstones = snapshot.tombstones_as(i64::MIN, &[], &expired);
        let (tombstones, commits) = futures::try_join!(tombstones, CommitsSinceNote::find(snapshot.store(), last))?;
        for paths in tombstones {
            for path in paths {
                keys.take_decoded(&path)?;
            }
        }
        let looked_until = keys.of_commits(snapshot, commits, cutoff_ms).await?;
        let files = present(snapshot.store(), keys.chosen).await?;
        Ok(Expired { files, looked_until })
    }
}

/// Decoded paths of files, and of their vectors, that tombstones removed before a time.
fn removed_before(tombstones: &RecordBatch, cutoff_ms: i64) -> Result<Vec<String>> {
    let rows = FileRows::new(tombstones);
    let mut files = Vec::new();
    for row in (0..tombstones.num_rows()).filter(|r| rows.deletion_timestamp(*r) < cutoff_ms) {
        files.push(paths::decode(rows.path(row)?)?);
        if let Some(path) = rows.deletion_vector(row).and_then(|dv| vector_path(&dv).transpose()) {
            files.push(path?);
        }
    }
    Ok(files)
}

/// The commits that no vacuum has processed.
struct CommitsSinceNote {
    /// The version up to which the log was processed.
    last: Option<u64>,
    names: Vec<LogName>,
}

impl CommitsSinceNote {
    async fn find(store: &Store, last: Option<u64>) -> Result<Self> {
        let names = commits(list_from(store, last.map_or(0, |v| v + 1)).await?);
        Ok(CommitsSinceNote { last, names })
    }
}

/// The table's own keys, without duplicates.
struct Keys<'a> {
    store: &'a Store,
    chosen: Vec<String>,
    seen: HashSet<u64>,
}

impl<'a> Keys<'a> {
    fn new(store: &'a Store) -> Self {
        Keys {
            store,
            chosen: Vec::new(),
            seen: HashSet::new(),
        }
    }

    async fn of_commits(
        &mut self,
        snapshot: &Snapshot,
        commits: CommitsSinceNote,
        cutoff_ms: i64,
    ) -> Result<Option<u64>> {
        let CommitsSinceNote { last, mut names } = commits;
        names.retain(|n| n.version <= snapshot.version() && n.modified_ms < cutoff_ms);
        let (mut until, mut all_expired) = (last, true);
        let mut read = reader::stream(self.store, names, FileLines::Retained);
        while let Some(commit) = read.try_next().await? {
            for action in commit.actions()? {
                match action {
                    Action::Remove(r) if r.deletion_timestamp.unwrap_or(0) < cutoff_ms => self.take_removed(&r)?,
                    Action::Remove(_) => all_expired = false,
                    Action::Cdc(c) => self.take(&c.path)?,
                    _ => {}
                }
            }
            if all_expired {
                until = Some(commit.version());
            }
        }
        Ok(until)
    }

    fn take_removed(&mut self, r: &Remove) -> Result<()> {
        self.take(&r.path)?;
        match r.deletion_vector.as_ref().map(vector_path).transpose()?.flatten() {
            Some(path) => self.take_decoded(&path),
            None => Ok(()),
        }
    }

    fn take(&mut self, path: &str) -> Result<()> {
        self.take_decoded(&paths::decode(path)?)
    }

    fn take_decoded(&mut self, path: &str) -> Result<()> {
        if let Some(key) = self.store.own_key(path)?
            && self.seen.insert(hash(&key))
        {
            self.chosen.push(key);
        }
        Ok(())
    }
}

/// The objects that exist.
async fn present(store: &Store, keys: Vec<String>) -> Result<Vec<ObjectInfo>> {
    let objects = stream::iter(keys).map(|key| async move {
        match store.head(&key).await {
            Ok(info) => Ok(Some(info)),
            Err(e) if e.kind() == Kind::ObjectNotFound => Ok(None),
            Err(e) => Err(e),
        }
    });
    objects
        .buffer_unordered(AT_ONCE)
        .try_filter_map(|info| async { Ok(info) })
        .try_collect()
        .await
}

/// The version up to which the log was processed; delta-spark writes the same note.
pub(crate) async fn read_note(store: &Store) -> Result<Option<u64>> {
    let text = match store.read(&format!("{LOG_DIR}/{LAST_VACUUM}")).await {
        Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(None),
        text => text?,
    };
    let note: Option<Value> = serde_json::from_slice(&text).ok();
    Ok(note.and_then(|n| n.get(LOOKED_UNTIL)?.as_u64()))
}

/// Writes the note. If that fails, the next vacuum only takes longer.
pub(crate) async fn write_note(store: &Store, looked_until: u64) {
    let note = json!({ LOOKED_UNTIL: looked_until }).to_string();
    if let Err(e) = store.put(&format!("{LOG_DIR}/{LAST_VACUUM}"), note.into()).await {
        warn!(table = %store.location(), error = %e, "how far the log was looked through can't be noted");
    }
}
