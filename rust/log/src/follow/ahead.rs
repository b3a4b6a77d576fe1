//! The commits that a follower has read but not yet passed. One listing and one stream serve many
//! batches: a follower that is thousands of commits behind doesn't list and read them for each.

use std::collections::VecDeque;
use std::sync::Arc;

use deltaplane_error::Result;
use deltaplane_protocol::actions::Metadata;
use deltaplane_protocol::segment::LogName;
use deltaplane_store::Store;
use futures::TryStreamExt;
use futures::stream::BoxStream;

use crate::commit::reader::{self, Commit, FileLines};

/// Bytes of commits that are kept after they were read: finding the end of a batch reads them, and
/// listing its files reads them again.
const KEPT_BYTES: u64 = 32 << 20;

/// Consecutive commits: those in memory, then those that were listed.
#[derive(Default)]
pub(crate) struct Ahead {
    read: VecDeque<Arc<Commit>>,
    read_bytes: u64,
    rest: Option<BoxStream<'static, Result<Arc<Commit>>>>,
    /// The first version that `rest` returns, and the end of its versions.
    next: u64,
    end: u64,
}

impl Ahead {
    /// The end of the versions that are known from here on without a listing.
    pub(crate) fn end_from(&self, version: u64) -> u64 {
        let first = self.read.front().map_or(self.next, |commit| commit.version());
        match (first..self.end).contains(&version) {
            true => self.end,
            false => version,
        }
    }

    /// The commit of a version, if it is in memory.
    pub(crate) fn in_memory(&self, version: u64) -> Option<Arc<Commit>> {
        let first = self.read.front()?.version();
        let index = usize::try_from(version.checked_sub(first)?).ok()?;
        self.read.get(index).cloned()
    }

    /// Whether the stream returns this version next.
    pub(crate) fn continues_at(&self, version: u64) -> bool {
        self.rest.is_some() && self.next == version && version < self.end
    }

    /// Continues with other commits, which follow each other.
    pub(crate) fn list(&mut self, store: &Store, names: Vec<LogName>) {
        let (Some(first), Some(last)) = (names.first(), names.last()) else {
            *self = Ahead::default();
            return;
        };
        if self.next != first.version {
            *self = Ahead::default();
        }
        self.next = first.version;
        self.end = last.version + 1;
        self.rest = Some(reader::stream(store, names, FileLines::Retained));
    }

    /// Reads the next commit of the stream. After an error nothing is known any more.
    pub(crate) async fn read_next(&mut self) -> Result<Option<Arc<Commit>>> {
        let Some(rest) = &mut self.rest else { return Ok(None) };
        let read = rest.try_next().await;
        let commit = match read {
            Ok(Some(commit)) => commit,
            Ok(None) => {
                self.rest = None;
                return Ok(None);
            }
            Err(e) => {
                *self = Ahead::default();
                return Err(e);
            }
        };
        self.next = commit.version() + 1;
        self.read_bytes += commit.name.size_bytes;
        self.read.push_back(commit.clone());
        while self.read_bytes > KEPT_BYTES && self.read.len() > 1 {
            let oldest = self.read.pop_front();
            self.read_bytes -= oldest.map_or(0, |oldest| oldest.name.size_bytes);
        }
        Ok(Some(commit))
    }
}

/// What the log up to a batch of changes tells about them.
#[derive(Default)]
pub(crate) struct Passed {
    /// The times of the log's commits, ms since the epoch, by ascending version.
    pub times: Vec<(u64, i64)>,
    /// The metadata that commits of these versions have unless they change it.
    pub metadata: Vec<(u64, Metadata)>,
}

impl Passed {
    /// The metadata of a commit that doesn't change it, if it is known.
    pub(crate) fn metadata_before(&self, version: u64) -> Option<&Metadata> {
        let known = self.metadata.iter().find(|(known, _)| *known == version);
        known.map(|(_, metadata)| metadata)
    }
}
