//! The files of the version that a follower starts with, oldest first, some at a time: no list of
//! all of them is held. A pass over the file list finds the next of them, which are kept for the
//! calls that follow.

use std::collections::BinaryHeap;
use std::sync::Mutex;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::files::rows::FileRows;
use futures::TryStreamExt;

use crate::checkpoint::reader::PlanColumns;
use crate::follow::offset::{Place, place};
use crate::snapshot::Snapshot;

/// Files that are kept between two calls: a pass over a million files finds the next fifty
/// thousand, in some 30 MB.
const KEPT: usize = 50_000;

/// The files of one snapshot.
pub(crate) struct SnapshotFiles {
    pub snapshot: Snapshot,
    cached: Mutex<CachedFiles>,
}

/// Files that follow each other in their order.
#[derive(Default, Clone)]
struct CachedFiles {
    behind: Option<Place>,
    files: Vec<Add>,
    /// Whether the snapshot has none behind them.
    to_the_end: bool,
}

impl CachedFiles {
    /// The files behind a place, if they are here.
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

    /// The next files behind a place, in their order; and whether they are all that there are.
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

    /// The files behind a place up to another one, that one too, in no order; all that follow where
    /// there is no other.
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
        let mut found = Vec::new();
        self.each(|add| {
            if within(&add) {
                found.push(add);
            }
        })
        .await?;
        Ok(found)
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

/// Without what is not needed to read the file, which is most of an add.
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
