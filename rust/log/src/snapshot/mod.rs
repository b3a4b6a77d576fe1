//! A snapshot: one immutable version of a table, opened without its file list; plans stream that,
//! pruned. A newer snapshot shares as much as possible with the older one.

pub(crate) mod checksum;
pub(crate) mod file_scan;
pub(crate) mod freshness;
pub(crate) mod noted_read;
pub(crate) mod open;
pub(crate) mod probe;
pub(crate) mod settling;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, DomainMetadata, SetTransaction};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use deltaplane_protocol::replay::{Replay, Tombstones};
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::segment::{CheckpointFiles, LogName, LogSegment, complete_checkpoints};
use deltaplane_protocol::state::TableState;
use deltaplane_store::Store;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;
use tracing::debug;

use crate::checkpoint::copy_state::CheckpointCopy;
use crate::checkpoint::part::FileActions;
use crate::checkpoint::reader::{CheckpointReader, PlanColumns};

use crate::commit::batches;
use crate::commit::reader;
use crate::commit::reader::{Commit, FileLines, is_damage, newest_state};
use crate::committer;
use crate::listing::{list_from, name_of};
use crate::now_ms;
use crate::snapshot::checksum::KnownChecksum;
use crate::snapshot::settling::Settling;

/// Commits after which an update starts again from a newer checkpoint instead of extending the
/// tail.
const LONG_TAIL: usize = 64;
/// Commits after which an update lists for a newer checkpoint even without a hint of one.
const TOO_LONG_TAIL: usize = 256;
/// Most bytes that are read of the next commit at the same time as the listing.
const MOST_NEXT_BYTES: u64 = 1 << 20;
/// One version of a table. Cheap to clone.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
    /// The last time when it was known to be the newest version, in ms since the epoch: later
    /// commits may exist, or may have been cleaned up already.
    newest_until_ms: i64,
    /// This process's last commit, if this version follows from it.
    last_own: Option<Own>,
    /// This version as the store shows it, if it is an own commit that the store wasn't asked for.
    settling: Option<Settling>,
}

/// A commit of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    pub version: u64,
    /// When it was put, in ms since the epoch.
    pub put_ms: i64,
    /// The time of its last commit behind many commits of other writers.
    pub crowded_ms: Option<i64>,
    /// Whether another process committed a version that this commit had tried before.
    pub raced: bool,
}

struct Inner {
    store: Store,
    segment: LogSegment,
    checkpoint: Option<Arc<CheckpointReader>>,
    copy: CheckpointCopy,
    /// The segment's pieces, ascending.
    commits: Vec<Arc<Commit>>,
    state: Arc<TableState>,
    side: OnceCell<Arc<SideState>>,
    tail: OnceLock<Tail>,
    /// The checksum, once this process has written it.
    checksum: OnceLock<Arc<VersionChecksum>>,
    /// The checksum of the previous version, if this process has written it.
    checksum_before: Option<KnownChecksum>,
}

/// The remaining state of checkpoint and commits, read at the first use.
#[derive(Default)]
struct SideState {
    transactions: BTreeMap<String, SetTransaction>,
    domains: BTreeMap<String, DomainMetadata>,
}

/// The commits after the checkpoint, reconciled.
pub(crate) struct Tail {
    pub live: Vec<RecordBatch>,
    pub replay: Replay,
}

/// The files that opening a version reads from its log, without sidecars.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSize {
    /// The checkpoint's version.
    pub checkpoint: Option<u64>,
    /// Bytes of its files.
    pub checkpoint_bytes: u64,
    /// Files that hold the commits after it: one compaction counts for several commits.
    pub commits: usize,
    /// Their bytes.
    pub commit_bytes: u64,
    /// After how many commits the next checkpoint is due.
    pub checkpoint_interval: u64,
}

impl Snapshot {
    /// From the parts that were read.
    pub(crate) fn assemble(
        store: &Store,
        segment: LogSegment,
        checkpoint: Option<Arc<CheckpointReader>>,
        commits: Vec<Arc<Commit>>,
        state: Arc<TableState>,
    ) -> Self {
        debug!(table = %store.location(), version = segment.version, tail = commits.len(), "opened");
        let store = store.clone();
        let inner = Inner {
            store,
            segment,
            checkpoint,
            copy: CheckpointCopy::default(),
            commits,
            state,
            side: OnceCell::new(),
            tail: OnceLock::new(),
            checksum: OnceLock::new(),
            checksum_before: None,
        };
        Snapshot {
            inner: Arc::new(inner),
            newest_until_ms: 0,
            last_own: None,
            settling: None,
        }
    }

    /// The same files with other columns, for a reader that fixes its columns.
    pub(crate) fn showing(&self, state: TableState) -> Self {
        let inner = &self.inner;
        let (checkpoint, commits) = (inner.checkpoint.clone(), inner.commits.clone());
        let shown = Self::assemble(
            &inner.store,
            inner.segment.clone(),
            checkpoint,
            commits,
            Arc::new(state),
        );
        shown.newest_until(self.newest_until_ms)
    }

    /// The same version by another handle of the same table.
    pub(crate) fn by(&self, store: &Store) -> Self {
        let inner = &self.inner;
        let (checkpoint, commits) = (inner.checkpoint.clone(), inner.commits.clone());
        let (segment, state) = (inner.segment.clone(), Arc::clone(&inner.state));
        let mut same = Self::assemble(store, segment, checkpoint, commits, state);
        if let Some(made) = Arc::get_mut(&mut same.inner) {
            made.copy = inner.copy.clone();
            made.checksum = inner.checksum.clone();
            made.checksum_before = inner.checksum_before.clone();
            made.side = inner.side.clone();
        }
        same.following(self)
    }

    /// The version of its checkpoint, with this segment and this one's columns.
    pub(crate) fn without_commits(&self, segment: LogSegment) -> Self {
        let inner = &self.inner;
        let (checkpoint, state) = (inner.checkpoint.clone(), inner.state.clone());
        Self::assemble(&inner.store, segment, checkpoint, Vec::new(), state)
    }

    /// The same, known to have been the newest version at this time.
    pub(crate) fn newest_until(mut self, ms: i64) -> Self {
        self.newest_until_ms = ms;
        self
    }

    /// The same, marked as this process's commit on `base` at this time.
    pub(crate) fn own(self, base: Option<&Self>, put_ms: i64) -> Self {
        let last_own = Some(Own {
            version: self.version(),
            put_ms,
            crowded_ms: base.and_then(|b| b.crowded_ms(put_ms)),
            raced: false,
        });
        Snapshot {
            last_own,
            ..self.newest_until(put_ms)
        }
    }

    /// The same, as new and as much this process's as another snapshot of the table.
    pub(crate) fn following(self, other: &Self) -> Self {
        Snapshot {
            last_own: other.last_own,
            ..self.newest_until(other.newest_until_ms)
        }
    }

    /// The same own commit. One that `waited` for others of this process counts as one of many
    /// writers; `raced`: another process had a version first.
    pub(crate) fn contended(self, waited: bool, raced: bool) -> Self {
        let last_own = self.last_own.map(|own| Own {
            crowded_ms: if waited { Some(own.put_ms) } else { own.crowded_ms },
            raced,
            ..own
        });
        Snapshot { last_own, ..self }
    }

    /// The same, which the store is being asked for.
    pub(crate) fn settling(self, settling: Settling) -> Self {
        Snapshot {
            settling: Some(settling),
            ..self
        }
    }

    /// The same version as the store shows it, if that wasn't known before and is now.
    pub(crate) async fn settled(&self) -> Option<Self> {
        self.settling.as_ref()?.settled().await
    }

    pub(crate) fn last_own(&self) -> Option<Own> {
        self.last_own
    }

    /// The last time when it was known to be the newest version, in ms since the epoch.
    pub(crate) fn newest_until_ms(&self) -> i64 {
        self.newest_until_ms
    }

    /// The newest version; costs the listing after this version and its new commits.
    pub async fn update(&self) -> Result<Self> {
        let updated = self.load_update().await;
        updated.map_err(|e| e.with_table(self.inner.store.location().as_str()))
    }

    async fn load_update(&self) -> Result<Self> {
        let (listed_ms, next) = (now_ms(), self.version() + 1);
        let listing = list_from(&self.inner.store, next);
        if self.inner.store.is_local() {
            return self.updated_by(listing.await?, None, listed_ms).await;
        }
        // A catalog that tells the newest version needn't be asked for the next one beside it.
        let managed = committer::of(&self.inner.store).is_some();
        let next_text = async { if managed { None } else { self.next_text().await } };
        let (names, text, settled) = futures::join!(listing, next_text, self.settled());
        settled
            .as_ref()
            .unwrap_or(self)
            .updated_by(names?, text, listed_ms)
            .await
    }

    /// The newest version, for a caller that asks again and again: one read of the next commit's
    /// name where nothing is new. It is the newest one while that name is free and later commits
    /// can't have been cleaned up; otherwise as [`update`](Self::update).
    pub(crate) async fn update_by_next(&self) -> Result<Self> {
        let store = &self.inner.store;
        if store.is_local() || !self.is_fresh() {
            return self.update().await;
        }
        let (asked_ms, next) = (now_ms(), self.version() + 1);
        let text = match store.read_range(&paths::commit(next), 0..MOST_NEXT_BYTES).await {
            Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(self.clone().newest_until(asked_ms)),
            Err(_) => return self.update().await,
            Ok(text) => text,
        };
        let listed_ms = now_ms();
        let names = list_from(store, next).await?;
        self.updated_by(names, Some(text), listed_ms).await
    }

    /// The text of the next commit of an object store, if there is one and it isn't large: one
    /// request beside the listing saves a round after it. Only the listing tells what is new.
    async fn next_text(&self) -> Option<Bytes> {
        let key = paths::commit(self.version() + 1);
        self.inner.store.read_range(&key, 0..MOST_NEXT_BYTES).await.ok()
    }

    /// The newest version by a listing of the log files after this one, made at this time. `text`
    /// was read of the next commit, and may be its beginning.
    pub(crate) async fn updated_by(&self, names: Vec<LogName>, text: Option<Bytes>, listed_ms: i64) -> Result<Self> {
        let next = self.version() + 1;
        let news: Vec<LogName> = names
            .iter()
            .filter(|n| n.kind == paths::LogFile::Commit)
            .cloned()
            .collect();
        let newer_checkpoint = !complete_checkpoints(&names, None).is_empty();
        let tail_length = self.inner.commits.len() + news.len();
        if news.is_empty() && !newer_checkpoint {
            return Ok(self.clone().newest_until(listed_ms));
        }
        // A checkpoint is ahead of the commits, or shortens a long tail: start from it.
        let contiguous = (next..).zip(&news).all(|(v, n)| n.version == v);
        if news.is_empty() || !contiguous || (newer_checkpoint && tail_length > LONG_TAIL) {
            return Self::load(&self.inner.store, None, FileLines::Retained).await;
        }
        let read = match self.read_news(&news, text).await {
            Err(e) if e.kind() == Kind::VersionNotFound => {
                return Self::load(&self.inner.store, None, FileLines::Retained).await;
            }
            read => read?,
        };
        let sums = names.into_iter().filter(|n| n.kind == paths::LogFile::Checksum);
        let updated = self.extended(read, sums.max_by_key(|n| n.version))?;
        Ok(updated.newest_until(listed_ms))
    }

    /// Reads new commits, the first of which may have been read already.
    async fn read_news(&self, news: &[LogName], text: Option<Bytes>) -> Result<Vec<Arc<Commit>>> {
        let (store, whole) = (&self.inner.store, |first: &LogName| {
            text.filter(|text| text.len() as u64 == first.size_bytes)
        });
        match news.split_first() {
            Some((first, others)) => match whole(first) {
                Some(text) => {
                    let read = [
                        vec![Arc::new(Commit::parse(first.clone(), text)?)],
                        reader::read(store, others).await?,
                    ];
                    Ok(read.concat())
                }
                None => reader::read(store, news).await,
            },
            None => Ok(Vec::new()),
        }
    }

    /// Extended by these commits, which follow without a gap, and by the newest checksum if there
    /// is a newer one.
    pub(crate) fn extended(&self, news: Vec<Arc<Commit>>, checksum: Option<LogName>) -> Result<Self> {
        let (inner, state) = (&self.inner, self.state_after(&news)?);
        let mut segment = inner.segment.clone();
        segment.checksum = checksum.or(segment.checksum);
        segment.extend(news.iter().map(|c| c.name.clone()).collect());
        let (commits, checkpoint) = (inner.commits.iter().cloned().chain(news), inner.checkpoint.clone());
        let mut extended = Self::assemble(&inner.store, segment, checkpoint, commits.collect(), state);
        if let Some(made) = Arc::get_mut(&mut extended.inner) {
            if Arc::ptr_eq(&made.state, &inner.state) {
                made.copy = inner.copy.clone();
            }
            let own = inner.checksum.get().map(|sum| (self.version(), Arc::clone(sum)));
            made.checksum_before = own.or_else(|| inner.checksum_before.clone());
        }
        extended.last_own = self.last_own;
        Ok(extended)
    }

    /// The version after a commit of this process on this one, without a listing.
    pub(crate) async fn after_own(&self, text: Bytes) -> Result<Self> {
        if self.has_too_long_tail() {
            // A checkpoint may shorten it.
            return self.update().await;
        }
        let there = self.inner.store.head(&paths::commit(self.version() + 1)).await?;
        let name = name_of(there).ok_or_else(|| Error::internal("a commit's name isn't one"))?;
        self.extended(vec![Arc::new(Commit::parse(name, text)?)], None)
    }

    /// The version that this process has just committed on `base`, without asking the store.
    pub(crate) fn after_unread(store: &Store, base: Option<&Self>, commit: Arc<Commit>) -> Result<Self> {
        match base {
            Some(base) => base.extended(vec![commit], None),
            None => Self::of_first(store, commit.name.clone(), commit),
        }
    }

    /// The same version from a newer classic checkpoint, whose state must be known to be this
    /// table's; `None` if there is no usable one of this version, or if later commits aren't in
    /// memory one by one.
    pub(crate) async fn after_classic(&self, version: u64) -> Result<Option<Self>> {
        let inner = &self.inner;
        let object = match inner.store.head(&paths::classic_checkpoint(version)).await {
            Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(None),
            object => object?,
        };
        let Some(name) = name_of(object) else {
            return Ok(None);
        };
        let files = CheckpointFiles {
            version,
            files: vec![name],
        };
        let reader = match CheckpointReader::open(&inner.store, &files).await {
            Err(e) if is_damage(&e) => return Ok(None),
            reader => reader?,
        };
        let mut segment = inner.segment.clone();
        if !segment.start_from(files) {
            return Ok(None);
        }
        let (mut commits, reader) = (inner.commits.clone(), Arc::new(reader));
        commits.retain(|c| c.version() > version);
        let mut shorter = Self::assemble(&inner.store, segment, Some(reader), commits, inner.state.clone());
        if let Some(made) = Arc::get_mut(&mut shorter.inner) {
            made.checksum.clone_from(&inner.checksum);
            made.checksum_before.clone_from(&inner.checksum_before);
        }
        Ok(Some(Snapshot {
            last_own: self.last_own,
            ..shorter.newest_until(self.newest_until_ms)
        }))
    }

    fn state_after(&self, news: &[Arc<Commit>]) -> Result<Arc<TableState>> {
        let (protocol, metadata) = newest_state(news);
        if protocol.is_none() && metadata.is_none() {
            return Ok(self.inner.state.clone());
        }
        let old = &self.inner.state;
        let protocol = protocol.unwrap_or_else(|| old.protocol()).clone();
        let metadata = metadata.unwrap_or_else(|| old.metadata()).clone();
        let authority = committer::authority(&self.inner.store);
        Ok(Arc::new(TableState::new(protocol, metadata, authority)?))
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.inner.segment.version
    }

    /// Where the table lives.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Protocol, metadata, properties.
    pub fn state(&self) -> &TableState {
        &self.inner.state
    }

    /// The logical schema.
    pub fn schema(&self) -> &Arc<StructType> {
        self.inner.state.schema()
    }

    /// Modification time of this version's commit in ms, if its file is still there.
    pub fn modified_ms(&self) -> Option<i64> {
        self.inner.segment.commits.last().map(|c| c.modified_ms)
    }

    /// The commits after the checkpoint, ascending: compactions where they were read instead.
    pub(crate) fn commits_in_hand(&self) -> impl Iterator<Item = &Arc<Commit>> {
        self.inner.commits.iter()
    }

    pub(crate) fn commit_in_hand(&self, version: u64) -> Option<&Arc<Commit>> {
        let mut commits = self.inner.commits.iter().rev();
        commits.find(|c| c.is_single() && c.version() == version)
    }

    /// Each commit after version `base` up to this one, oldest first; `None` unless all are in
    /// memory.
    pub(crate) fn commits_in_hand_after(&self, base: Option<u64>) -> Option<Vec<Arc<Commit>>> {
        let wanted = base.map_or(0, |b| b + 1)..=self.version();
        wanted.map(|version| self.commit_in_hand(version).cloned()).collect()
    }

    /// Each commit after version `base` up to this one, oldest first. Reads the single commits even
    /// where this snapshot used a checkpoint or a compaction instead. Ends before the first one
    /// that is missing.
    pub(crate) async fn commits_after(&self, base: Option<u64>) -> Result<Vec<Arc<Commit>>> {
        if let Some(in_hand) = self.commits_in_hand_after(base) {
            return Ok(in_hand);
        }
        let first = base.map_or(0, |b| b + 1);
        let mut names = list_from(&self.inner.store, first).await?;
        names.retain(|n| n.kind == paths::LogFile::Commit && n.version <= self.version());
        let contiguous = names.iter().zip(first..).take_while(|(n, v)| n.version == *v);
        let names: Vec<LogName> = contiguous.map(|(n, _)| n.clone()).collect();
        reader::read(&self.inner.store, &names).await
    }

    /// Number of commits after the checkpoint.
    pub fn tail_length(&self) -> usize {
        self.inner.segment.commits.len()
    }

    /// Whether newer versions had better start from a newer checkpoint, if there is one.
    pub(crate) fn has_long_tail(&self) -> bool {
        self.inner.commits.len() >= LONG_TAIL
    }

    /// Whether a listing has to look for a newer checkpoint.
    pub(crate) fn has_too_long_tail(&self) -> bool {
        self.inner.commits.len() >= TOO_LONG_TAIL
    }

    /// The files that opening it reads.
    pub fn log_size(&self) -> LogSize {
        let (segment, checkpoint_bytes) = (&self.inner.segment, self.checkpoint_bytes());
        LogSize {
            checkpoint: segment.checkpoint.as_ref().map(|c| c.version),
            checkpoint_bytes,
            commits: segment.pieces.len(),
            commit_bytes: segment.size_bytes().saturating_sub(checkpoint_bytes),
            checkpoint_interval: self.log_tail(None).interval(),
        }
    }

    /// Bytes of the checkpoint's files, without sidecars.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        let files = self.inner.segment.checkpoint.iter().flat_map(|c| &c.files);
        files.map(|n| n.size_bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of all live files and the number of their deletion vectors, if a sound checksum of
    /// this version says so. Reads no file list.
    pub async fn known_size(&self) -> Result<Option<(u64, u64)>> {
        let Some(sum) = self.version_checksum().await? else {
            return Ok(None);
        };
        let vectors = sum.num_deletion_vectors_opt.unwrap_or(0);
        Ok(u64::try_from(sum.table_size_bytes)
            .ok()
            .zip(u64::try_from(vectors).ok()))
    }

    /// Bytes of the checkpoint's files, with the sidecars of an open one.
    pub(crate) fn known_checkpoint_bytes(&self) -> u64 {
        self.known_sidecar_bytes().saturating_add(self.checkpoint_bytes())
    }

    /// Bytes of the log's files that a plan may have to read, with the sidecars of an open
    /// checkpoint.
    pub(crate) fn known_replay_bytes(&self) -> u64 {
        self.known_sidecar_bytes().saturating_add(self.log_bytes())
    }

    fn known_sidecar_bytes(&self) -> u64 {
        self.checkpoint_reader()
            .map_or(0, CheckpointReader::known_sidecar_bytes)
    }

    /// Bytes of the log's files that it was read from, without sidecars.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.inner.segment.size_bytes()
    }

    /// The commits after the checkpoint that it was opened from, or after this newer one.
    pub(crate) fn commits_since(&self, checkpoint: Option<u64>) -> impl Iterator<Item = &LogName> + Clone {
        let after = move |n: &&LogName| checkpoint.is_none_or(|c| n.version > c);
        self.inner.segment.commits.iter().filter(after)
    }

    async fn side(&self) -> Result<&SideState> {
        let side = self
            .inner
            .side
            .get_or_try_init(|| async { self.read_side().await.map(Arc::new) });
        side.await.map(Arc::as_ref)
    }

    async fn read_side(&self) -> Result<SideState> {
        let mut out = SideState::default();
        let base = match &self.inner.checkpoint {
            None => Vec::new(),
            Some(c) => match c.state_actions().await {
                Err(e) if is_damage(&e) => {
                    let other = self.beside_checkpoint(e).await?;
                    return Box::pin(other.read_side()).await;
                }
                actions => actions?,
            },
        };
        for a in base.iter().chain(self.inner.commits.iter().flat_map(|c| &c.state)) {
            match a {
                Action::Txn(t) => {
                    out.transactions.insert(t.app_id.clone(), t.clone());
                }
                Action::DomainMetadata(d) if d.removed => {
                    out.domains.remove(&d.domain);
                }
                Action::DomainMetadata(d) => {
                    out.domains.insert(d.domain.clone(), d.clone());
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// The newest version of every application, by its id; expired ones are left out (P045).
    pub async fn transactions(&self, now_ms: i64) -> Result<Vec<SetTransaction>> {
        let cutoff = self
            .state()
            .properties()
            .transaction_retention_ms
            .map(|d| now_ms.saturating_sub(d));
        let live = |t: &&SetTransaction| cutoff.is_none_or(|c| t.last_updated.is_some_and(|u| u > c));
        Ok(self.side().await?.transactions.values().filter(live).cloned().collect())
    }

    /// The domains' configurations (P040).
    pub async fn domains(&self) -> Result<Vec<DomainMetadata>> {
        Ok(self.side().await?.domains.values().cloned().collect())
    }

    /// The commits after the checkpoint, reconciled once.
    pub(crate) fn tail(&self) -> Result<&Tail> {
        if let Some(t) = self.inner.tail.get() {
            return Ok(t);
        }
        let (mut live, mut replay) = (Vec::new(), Replay::new());
        batches::newest_first(&self.inner.commits, |files, turns| {
            let mask = replay.commits(&files.adds, &files.removes, turns)?;
            let selected = filter(&files.adds, &mask)?;
            if selected.num_rows() > 0 {
                live.push(selected);
            }
            Ok(())
        })?;
        Ok(self.inner.tail.get_or_init(|| Tail { live, replay }))
    }

    /// The tombstones that a checkpoint of this version must have: removed after `cutoff_ms` (P044,
    /// P050). Leaves out those in `kept` parts of the checkpoint.
    pub(crate) async fn tombstones(&self, cutoff_ms: i64, retained: &[usize]) -> Result<Vec<RecordBatch>> {
        let mut out = self.tombstones_as(cutoff_ms, retained, &Ok).await?;
        out.retain(|b| b.num_rows() > 0);
        Ok(out)
    }

    /// As `tombstones`, with each batch converted by a function.
    pub(crate) async fn tombstones_as<T: Send>(
        &self,
        cutoff_ms: i64,
        retained: &[usize],
        convert: &(impl Fn(RecordBatch) -> Result<T> + Sync),
    ) -> Result<Vec<T>> {
        let (mut out, mut walk) = (Vec::new(), Tombstones::default());
        batches::newest_first(&self.inner.commits, |files, turns| {
            let mask = walk.commits(&files.adds, &files.removes, turns)?;
            out.push(convert(unexpired(&filter(&files.removes, &mask)?, cutoff_ms)?)?);
            Ok(())
        })?;
        if let Some(checkpoint) = &self.inner.checkpoint {
            let replay = &self.tail()?.replay;
            let mut batches = checkpoint.files_beside(retained, FileActions::Removes, PlanColumns::Logged);
            loop {
                match batches.try_next().await {
                    Ok(Some(batch)) => {
                        out.push(convert(unexpired(
                            &filter(&batch, &replay.checkpoint(&batch)?)?,
                            cutoff_ms,
                        )?)?);
                    }
                    Ok(None) => break,
                    Err(e) if is_damage(&e) && retained.is_empty() => {
                        let other = self.beside_checkpoint(e).await?;
                        return Box::pin(other.tombstones_as(cutoff_ms, &[], convert)).await;
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(out)
    }

    /// The checkpoint of exactly this version, if it was opened from one.
    pub(crate) fn own_checkpoint(&self) -> Option<(&CheckpointFiles, &CheckpointReader)> {
        self.base_checkpoint()
            .filter(|(files, _)| files.version == self.version())
    }

    /// The checkpoint that it was opened from, and its files.
    pub(crate) fn base_checkpoint(&self) -> Option<(&CheckpointFiles, &CheckpointReader)> {
        self.inner.segment.checkpoint.as_ref().zip(self.checkpoint_reader())
    }

    /// The files with the commits after the checkpoint, ascending: compactions only where they
    /// could be read.
    pub(crate) fn commit_files(&self) -> impl Iterator<Item = &LogName> {
        self.inner.commits.iter().map(|c| &c.name)
    }

    /// The checkpoint that this version starts from.
    pub(crate) fn checkpoint_reader(&self) -> Option<&CheckpointReader> {
        self.inner.checkpoint.as_deref()
    }

    /// The state of the checkpoint's copy.
    pub(crate) fn copy(&self) -> &CheckpointCopy {
        &self.inner.copy
    }

    /// Remembers the sums of exactly this version, for the commit that follows it.
    pub(crate) fn keep_checksum(&self, sum: VersionChecksum) {
        let _ = self.inner.checksum.set(Arc::new(sum));
    }

    /// The remembered sums.
    pub(crate) fn known_checksum(&self) -> Option<&Arc<VersionChecksum>> {
        self.inner.checksum.get()
    }

    /// The checksum of exactly this version, if there is a sound one.
    pub(crate) async fn version_checksum(&self) -> Result<Option<VersionChecksum>> {
        let inner = &self.inner;
        if let Some(sum) = self.known_checksum() {
            return Ok(Some(sum.as_ref().clone()));
        }
        match &inner.segment.checksum {
            Some(name) if name.version == self.version() => {
                checksum::read_sound(&inner.store, &inner.segment, &inner.commits).await
            }
            _ => {
                let known = inner.checksum_before.as_ref();
                Ok(known.and_then(|k| checksum::derived(k, &inner.commits, self.version())))
            }
        }
    }
}

pub(crate) fn filter(batch: &RecordBatch, mask: &BooleanArray) -> Result<RecordBatch> {
    if mask.true_count() == batch.num_rows() {
        return Ok(batch.clone());
    }
    filter_record_batch(batch, mask).map_err(|e| Error::internal(format!("can't filter file actions: {e}")))
}

fn unexpired(removes: &RecordBatch, cutoff_ms: i64) -> Result<RecordBatch> {
    let rows = FileRows::new(removes);
    let mask: BooleanArray = (0..removes.num_rows())
        .map(|r| Some(rows.deletion_timestamp(r) > cutoff_ms))
        .collect();
    filter(removes, &mask)
}
