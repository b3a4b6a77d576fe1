//! The files of a follower's starting version, oldest first, in portions: the whole list is never
//! in memory. One pass over the file list finds the next portion, which serves the following calls.

use std::collections::BinaryHeap;
use std::sync::Mutex;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::files::rows::FileRows;
use futures::TryStreamExt;

use crate::checkpoint::reader::PlanColumns;
use crate::follow::offset::{Place, place};
use crate::snapshot::Snapshot;

/// Files in memory between two calls: a pass over a million files finds the next fifty thousand, in
/// some 30 MB.
const KEPT: usize = 50_000;

/// The files of one snapshot.
pub(crate) struct SnapshotFiles {
    pub snapshot: Snapshot,
    cached: Mutex<CachedFiles>,
}

/// Consecutive files in their order.
#[derive(Default, Clone)]
struct CachedFiles {
    behind: Option<Place>,
    files: Vec<Add>,
    /// Whether no files of the snapshot follow.
    to_the_end: bool,
}

impl CachedFiles {
    /// The files after a position, if they are in memory.
    fn behind(&self, after: Option<&Place>) -> Option<(Vec<Add>, bool)> {
        let here = self.behind.as_ref() <= after;
        let files: Vec<Add> = self
            .files
            .iter()
            .filter(|add| after.is_none_or(|after| place(add) > *after))
            .cloned()
            .collect();
        (here && (self.to_the_end || !files.is_empty())).then_some((files, self.to_the_end))
    }
}

impl SnapshotFiles {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        SnapshotFiles {
            snapshot,
            cached: Mutex::new(CachedFiles::default()),
        }
    }

    /// The next files after a position, in order; and whether none follow.
    pub(crate) async fn behind(&self, after: Option<&Place>) -> Result<(Vec<Add>, bool)> {
        let known = self.cached.lock().map_err(broken)?.behind(after);
        if let Some(known) = known {
            return Ok(known);
        }
        let (files, to_the_end) = self.oldest_behind(after).await?;
        *self.cached.lock().map_err(broken)? = CachedFiles {
            behind: after.cloned(),
            files: files.clone(),
            to_the_end,
        };
        Ok((files, to_the_end))
    }

    async fn oldest_behind(&self, after: Option<&Place>) -> Result<(Vec<Add>, bool)> {
        let mut oldest: BinaryHeap<Placed> = BinaryHeap::new();
        let mut to_the_end = true;
        self.each(|add| {
            let place = place(&add);
            if after.is_none_or(|after| place > *after) {
                oldest.push(Placed { place, add });
                if oldest.len() > KEPT {
                    oldest.pop();
                    to_the_end = false;
                }
            }
        })
        .await?;
        Ok((
            oldest.into_sorted_vec().into_iter().map(|p| p.add).collect(),
            to_the_end,
        ))
    }

    /// The files after one position up to and including another, in any order; all that follow
    /// without an end.
    pub(crate) async fn between(&self, after: Option<&Place>, until: Option<&Place>) -> Result<Vec<Add>> {
        let within = |add: &Add| {
            let place = place(add);
            after.is_none_or(|after| place > *after) && until.is_none_or(|until| place <= *until)
        };
        let known = self.cached.lock().map_err(broken)?.behind(after);
        if let Some((files, to_the_end)) = known
            && (to_the_end || until.is_some_and(|until| files.last().is_some_and(|last| place(last) >= *until)))
        {
            return Ok(files.into_iter().filter(within).collect());
        }
        let mut adds = Vec::new();
        self.each(|add| {
            if within(&add) {
                adds.push(add);
            }
        })
        .await?;
        Ok(adds)
    }

    async fn each(&self, mut take: impl FnMut(Add)) -> Result<()> {
        let mut batches = self.snapshot.plan(None, PlanColumns::Logged);
        while let Some(batch) = batches.try_next().await? {
            let rows = FileRows::new(&batch);
            for row in 0..batch.num_rows() {
                take(slim(rows.add(row)?));
            }
        }
        Ok(())
    }
}

/// Drops the fields that reading the file doesn't need, which are most of an add.
pub(crate) fn slim(add: Add) -> Add {
    Add {
        stats: None,
        tags: None,
        ..add
    }
}

struct Placed {
    place: Place,
    add: Add,
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Placed {}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

fn broken<T>(_: T) -> Error {
    Error::internal("the files of a followed table were left by a failed reader")
}
