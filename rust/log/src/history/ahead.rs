//! Reads commits of an object store by their names while the log is listed, which saves a round.
//! Only the listing says which commits there are.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::paths;
use deltaplane_protocol::segment::LogName;
use futures::{StreamExt, stream};

use crate::Snapshot;
use crate::commit::reader::{self, Commit, FileLines};
use crate::listing::listed;

/// Most commits that are read before they are listed, and most bytes of each: what is longer, or
/// more, is read after the listing.
const MOST_COMMITS: usize = 64;
const MOST_BYTES: u64 = 256 << 10;

impl Snapshot {
    /// The texts of the newest `limit` commits up to this version that this snapshot has not read,
    /// or the beginnings of longer ones: none if there are many of them, and on a local store.
    /// Without those that a cache may have.
    pub(crate) async fn commits_ahead(&self, limit: Option<usize>) -> BTreeMap<u64, Bytes> {
        let end = self.version().saturating_add(1);
        let first = limit.map_or(0, |l| end.saturating_sub(u64::try_from(l).unwrap_or(u64::MAX)));
        if self.store().is_local() {
            return BTreeMap::new();
        }
        let known: HashSet<u64> = self.tagged_commits(first).map(|c| c.version()).collect();
        let most = u64::try_from(MOST_COMMITS + known.len()).unwrap_or(u64::MAX);
        if end - first > most {
            return BTreeMap::new();
        }
        let is_cached = |version: u64| self.store().may_be_cached(&paths::commit(version));
        let unknown = (first..end).filter(|version| !known.contains(version) && !is_cached(*version));
        let read = unknown.map(|version| async move {
            let text = self.store().read_range(&paths::commit(version), 0..MOST_BYTES).await;
            // One that is gone or fails is judged by the listing, or read again after it.
            Some((version, text.ok()?))
        });
        let read = stream::iter(read).buffer_unordered(MOST_COMMITS);
        read.filter_map(|read| async { read }).collect().await
    }

    /// The commits of these names, which were listed, without their file actions: those that this
    /// snapshot has, those of `ahead` whose lengths are the listed ones, and the others from the
    /// store.
    pub(crate) async fn states_of(
        &self,
        names: &[LogName],
        mut ahead: BTreeMap<u64, Bytes>,
    ) -> Result<Vec<Arc<Commit>>> {
        let mut known: BTreeMap<u64, Arc<Commit>> = BTreeMap::new();
        let oldest = names.iter().map(|name| name.version).min().unwrap_or(u64::MAX);
        for commit in self.tagged_commits(oldest) {
            known.insert(commit.version(), Arc::clone(commit));
        }
        let mut read = BTreeMap::new();
        for name in names {
            let is_same = |c: &&Arc<Commit>| {
                c.name.size_bytes == name.size_bytes && listed(&c.name).strong_tag() == listed(name).strong_tag()
            };
            let is_whole = |text: &Bytes| text.len() as u64 == name.size_bytes;
            if let Some(commit) = known.get(&name.version).filter(is_same) {
                read.insert(name.version, Arc::clone(commit));
            } else if let Some(text) = ahead.remove(&name.version).filter(is_whole) {
                self.store().remember(&listed(name), &text);
                let commit = Commit::parse(name.clone(), text)?.with(FileLines::Dropped);
                read.insert(name.version, Arc::new(commit));
            }
        }
        let others = names.iter().filter(|n| !read.contains_key(&n.version)).cloned();
        for commit in reader::read_states(self.store(), others.collect()).await? {
            read.insert(commit.version(), commit);
        }
        let commits = names.iter().map(|name| read.get(&name.version).cloned());
        let missing = || Error::internal("a commit that was listed was not read");
        commits.map(|commit| commit.ok_or_else(missing)).collect()
    }

    /// The single commits from a version on that it has with a tag, by which a listing shows
    /// whether they are still the same.
    fn tagged_commits(&self, first: u64) -> impl Iterator<Item = &Arc<Commit>> {
        let commits = self.commits_in_hand().filter(move |c| c.version() >= first);
        commits.filter(|c| c.is_single() && listed(&c.name).strong_tag().is_some())
    }
}
