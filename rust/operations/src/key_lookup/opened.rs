//! The indexes that this process has open: their newest known manifests, and the tails of segments.
//! An old manifest is as right as a new one, so that it needn't be asked for each time.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_index::{Manifest, Segment, SegmentInfo, recent};
use deltaplane_log::{Snapshot, now_ms};
use deltaplane_protocol::prune::CoveredFiles;
use deltaplane_store::{Store, with_retry_limit};
use tracing::warn;

/// Tables whose indexes stay open; the one that was used the longest ago goes first.
const TABLES: usize = 8;
/// Covered files of a table's segments that stay in memory: about 100 MB.
const MOST_FILES: usize = 1_000_000;
/// How long the manifest of a remote table is used without asking for a newer one. On a local store
/// asking costs less than a look-up.
const MANIFEST_MS: i64 = 10_000;

/// How long failing requests for an index are repeated: without it files are read.
pub(crate) const RETRY: Duration = Duration::from_secs(5);

static OPEN: Mutex<Vec<Arc<OpenIndex>>> = Mutex::new(Vec::new());

/// The index of one table.
pub(crate) struct OpenIndex {
    store: Store,
    /// The table's id.
    table: String,
    manifest: Mutex<Option<(i64, Arc<Manifest>)>>,
    /// Opened segments by key; `None` for those that can't be used.
    segments: Mutex<HashMap<String, Option<Arc<Segment>>>>,
}

impl OpenIndex {
    /// The index of a snapshot's table.
    pub(crate) fn of(snapshot: &Snapshot) -> Arc<OpenIndex> {
        let (store, table) = (snapshot.store(), &snapshot.state().metadata().id);
        let made = || {
            Arc::new(OpenIndex {
                store: store.clone(),
                table: table.clone(),
                manifest: Mutex::default(),
                segments: Mutex::default(),
            })
        };
        // It isn't waited for: in a forked process nobody may ever let it go.
        let Ok(mut open) = OPEN.try_lock() else { return made() };
        let is_same = |index: &Arc<OpenIndex>| {
            index.table == *table
                && index.store.location().as_str() == store.location().as_str()
                && index.store.options() == store.options()
        };
        let index = match open.iter().position(is_same) {
            Some(place) => open.remove(place),
            None => made(),
        };
        if open.len() >= TABLES {
            open.remove(0);
        }
        open.push(index.clone());
        index
    }

    /// The newest manifest, as far as is known.
    pub(crate) async fn manifest(&self) -> Result<Arc<Manifest>> {
        let now = now_ms();
        let known = self.manifest.try_lock().ok().and_then(|m| m.clone());
        match known {
            Some((asked, manifest)) if !self.store.is_local() && (0..MANIFEST_MS).contains(&(now - asked)) => {
                Ok(manifest)
            }
            _ => {
                let manifest = Arc::new(recent(&self.store, &self.table).await?);
                self.keep(&manifest);
                Ok(manifest)
            }
        }
    }

    /// Remembers a manifest, and forgets the segments that it hasn't.
    pub(crate) fn keep(&self, manifest: &Arc<Manifest>) {
        if let Ok(mut known) = self.manifest.try_lock() {
            *known = Some((now_ms(), manifest.clone()));
        }
        if let Ok(mut segments) = self.segments.try_lock() {
            segments.retain(|path, _| manifest.segments.iter().any(|s| s.path == *path));
        }
    }

    /// A segment; `None` if it can't be used, which a log event says.
    pub(crate) async fn segment(&self, info: &SegmentInfo) -> Option<Arc<Segment>> {
        if let Some(known) = self.known(info) {
            return known;
        }
        match with_retry_limit(RETRY, Segment::open(&self.store, info, &self.table)).await {
            Ok(segment) => Some(self.remember(info, segment)),
            Err(e) => {
                self.give_up(info, &e);
                None
            }
        }
    }

    /// The covered files of a segment, and the numbers of those that can have a key with one of
    /// these hashes; `None` if it can't be used, which a log event says.
    pub(crate) async fn find(&self, info: &SegmentInfo, hashes: &[u64]) -> Option<(Arc<CoveredFiles>, HashSet<u32>)> {
        let (segment, matches) = match self.known(info) {
            Some(known) => {
                let segment = known?;
                let matches = with_retry_limit(RETRY, segment.find(hashes)).await;
                (segment, matches)
            }
            None => {
                let opened = Segment::open_and_find(&self.store, info, &self.table, hashes);
                match with_retry_limit(RETRY, opened).await {
                    Ok((segment, matches)) => (self.remember(info, segment), matches),
                    Err(e) => {
                        self.give_up(info, &e);
                        return None;
                    }
                }
            }
        };
        match matches {
            Ok(matches) => Some((segment.covered().clone(), matches)),
            Err(e) => {
                self.give_up(info, &e);
                None
            }
        }
    }

    /// What is known of a segment: it is open, or can't be used.
    fn known(&self, info: &SegmentInfo) -> Option<Option<Arc<Segment>>> {
        self.segments.try_lock().ok().and_then(|s| s.get(&info.path).cloned())
    }

    fn remember(&self, info: &SegmentInfo, segment: Segment) -> Arc<Segment> {
        let segment = Arc::new(segment);
        if let Ok(mut segments) = self.segments.try_lock() {
            let held: usize = segments.values().flatten().map(|s| s.covered().len()).sum();
            if held > MOST_FILES {
                segments.clear();
            }
            segments.insert(info.path.clone(), Some(segment.clone()));
        }
        segment
    }

    /// Reports an error of a segment. One that is damaged or missing isn't read again.
    fn give_up(&self, info: &SegmentInfo, e: &Error) {
        warn!(table = %self.store.location(), segment = %info.path, error = %e, "a key index can't be used, reading files without it");
        let is_lost = matches!(e.kind(), Kind::CorruptFile | Kind::ObjectNotFound);
        if let (true, Ok(mut segments)) = (is_lost, self.segments.try_lock()) {
            segments.insert(info.path.clone(), None);
        }
    }
}
