//! A snapshot: one immutable version of a table. Opening reads protocol and metadata, never the
//! file list; plans stream it, pruned. A newer snapshot shares all that it can with the older one.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, DomainMetadata, Metadata, Protocol, SetTransaction};
use deltaplane_protocol::checksum::VersionChecksum;
use deltaplane_protocol::features;
use deltaplane_protocol::paths;
use deltaplane_protocol::replay::{Replay, Tombstones};
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::segment::{CheckpointFiles, LogName, LogSegment, complete_checkpoints};
use deltaplane_protocol::state::TableState;
use deltaplane_store::Store;
use futures::TryStreamExt;
use tokio::sync::OnceCell;
use tracing::{debug, warn};

use crate::checkpoint_part::FileActions;
use crate::checkpoint_reader::{CheckpointReader, PlanColumns};
use crate::checksum::{self, KnownChecksum};
use crate::commit_reader::{self, Commit, FileLines, is_damage, newest_state};
use crate::commit_runs;
use crate::copied::CheckpointCopy;
use crate::last_checkpoint;
use crate::listing::{list_from, name_of};
use crate::now_ms;

/// Commits after which an update starts anew from a newer checkpoint instead of growing the tail.
const LONG_TAIL: usize = 64;
/// Commits from which on even who knows of no newer checkpoint looks for one.
const TOO_LONG_TAIL: usize = 256;
/// How often the log is listed while clean-ups take what was listed before.
const LISTINGS: usize = 4;

/// One version of a table. Cheap to clone.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
    /// Since when it isn't known to be the newest version, in ms since the epoch: commits after it may be there, or may
    /// have been cleaned up already.
    newest_until_ms: i64,
    /// What this process committed last, if it has made this version of that.
    last_own: Option<Own>,
}

/// A commit of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    pub version: u64,
    /// When it was put, in ms since the epoch.
    pub put_ms: i64,
    /// When one last followed many commits of others.
    pub crowded_ms: Option<i64>,
}

struct Inner {
    store: Store,
    segment: LogSegment,
    checkpoint: Option<Arc<CheckpointReader>>,
    copy: CheckpointCopy,
    /// The segment's pieces, ascending.
    commits: Vec<Arc<Commit>>,
    state: Arc<TableState>,
    side: OnceCell<SideState>,
    tail: OnceLock<Tail>,
    /// The checksum, once this process has written it.
    checksum: OnceLock<Arc<VersionChecksum>>,
    /// That of the version that this one was made of, if this process has written it.
    checksum_before: Option<KnownChecksum>,
}

/// What the checkpoint's and commits' other actions make, read when asked for.
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

/// What opening a version reads of its log, but for sidecars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSize {
    /// The checkpoint's version.
    pub checkpoint: Option<u64>,
    /// Bytes of its files.
    pub checkpoint_bytes: u64,
    /// Files with the commits after it: a compaction stands for several.
    pub commits: usize,
    /// Their bytes.
    pub commit_bytes: u64,
    /// After how many commits the next checkpoint is due.
    pub checkpoint_interval: u64,
}

impl Snapshot {
    /// Opens a version, or the newest one.
    ///
    /// Costs one listing, one read for each commit after the checkpoint, and one of the version's checksum; where there is
    /// none, or none that agrees, the checkpoint's footer with its few state rows.
    pub async fn open(store: &Store, version: Option<u64>) -> Result<Self> {
        let opened = Self::load(store, version, FileLines::Kept).await;
        opened.map_err(|e| e.with_table(store.location().as_str()))
    }

    pub(crate) async fn load(store: &Store, version: Option<u64>, lines: FileLines) -> Result<Self> {
        let mut listings = 1;
        loop {
            let listed_ms = now_ms();
            match Self::load_listed(store, version, lines).await {
                // A clean-up went on between the listing and the reading: a newer checkpoint stands in for what it took.
                Err(e) if e.kind() == Kind::VersionNotFound && version.is_none() && listings < LISTINGS => {
                    debug!(error = %e, "the log changed while it was read, listing it again");
                    listings += 1;
                }
                Err(e) => return Err(e),
                Ok(loaded) if version.is_none() => return Ok(loaded.newest_until(listed_ms)),
                Ok(loaded) => return Ok(loaded),
            }
        }
    }

    async fn load_listed(store: &Store, version: Option<u64>, lines: FileLines) -> Result<Self> {
        let hint = last_checkpoint::read(store)
            .await?
            .filter(|h| version.is_none_or(|v| *h <= v));
        if let Some(h) = hint {
            let names = list_from(store, h).await?;
            let candidates = complete_checkpoints(&names, version);
            if let Some(best) = Self::from_best(store, &names, candidates, version, lines).await? {
                return Ok(best);
            }
            debug!(hint = h, "the checkpoint hint leads nowhere, listing the whole log");
        }
        let names = list_from(store, 0).await?;
        let candidates = complete_checkpoints(&names, version);
        match Self::from_best(store, &names, candidates, version, lines).await? {
            Some(best) => Ok(best),
            None => Self::from_commits(store, &names, version, lines).await,
        }
    }

    /// From the first of these checkpoints that can be used.
    async fn from_best(
        store: &Store,
        names: &[LogName],
        candidates: Vec<CheckpointFiles>,
        version: Option<u64>,
        lines: FileLines,
    ) -> Result<Option<Self>> {
        for files in candidates {
            let found = files.version;
            match Self::from_checkpoint(store, names, files, version, lines).await? {
                Ok(from) => return Ok(Some(from)),
                Err(e) => warn!(version = found, error = %e, "a checkpoint can't be used, trying an older one"),
            }
        }
        Ok(None)
    }

    /// From this checkpoint; what keeps it from being used.
    async fn from_checkpoint(
        store: &Store,
        names: &[LogName],
        files: CheckpointFiles,
        version: Option<u64>,
        lines: FileLines,
    ) -> Result<Result<Self, Error>> {
        let segment = LogSegment::build(names, Some(files.clone()), version)?;
        let commits = commit_reader::read_segment(store, &segment, lines).await?;
        let told = told_state(store, &segment, &commits).await;
        let told = told.map_err(|e| e.with_version(segment.version))?;
        let is_told = told.as_ref().filter(|s| !may_have_sidecars(s, &commits)).is_some();
        let reader = match CheckpointReader::of_one_file(store, &files).filter(|_| is_told) {
            Some(reader) => reader,
            None => match CheckpointReader::open(store, &files).await {
                Err(e) if is_damage(&e) => return Ok(Err(e)),
                reader => reader?,
            },
        };
        let state = match told {
            Some(state) => Ok(state),
            None => read_state(&reader, &commits).await,
        };
        match state.map_err(|e| e.with_version(segment.version)) {
            Err(e) if e.kind() == Kind::CorruptFile => Ok(Err(e)),
            state => Ok(Ok(Self::assemble(
                store,
                segment,
                Some(Arc::new(reader)),
                commits,
                Arc::new(state?),
            ))),
        }
    }

    /// From its commits alone.
    async fn from_commits(store: &Store, names: &[LogName], version: Option<u64>, lines: FileLines) -> Result<Self> {
        let segment = LogSegment::build(names, None, version)?;
        let commits = commit_reader::read_segment(store, &segment, lines).await?;
        let state = state_of(newest_state(&commits), Vec::new()).map_err(|e| e.with_version(segment.version))?;
        Ok(Self::assemble(store, segment, None, commits, Arc::new(state)))
    }

    fn assemble(
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
        }
    }

    /// The same files under other columns, for a reader that keeps to them.
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

    /// The version of its checkpoint, whose segment this is, as this one's columns show it.
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

    /// The same as what this process committed on `base`, at this time.
    pub(crate) fn own(self, base: Option<&Self>, put_ms: i64) -> Self {
        let last_own = Some(Own {
            version: self.version(),
            put_ms,
            crowded_ms: base.and_then(|b| b.crowded_ms(put_ms)),
        });
        Snapshot {
            last_own,
            ..self.newest_until(put_ms)
        }
    }

    pub(crate) fn last_own(&self) -> Option<Own> {
        self.last_own
    }

    /// Since when it isn't known to be the newest version, in ms since the epoch.
    pub(crate) fn newest_until_ms(&self) -> i64 {
        self.newest_until_ms
    }

    /// The newest version; costs the listing after this version and its new commits.
    pub async fn update(&self) -> Result<Self> {
        let updated = self.load_update().await;
        updated.map_err(|e| e.with_table(self.inner.store.location().as_str()))
    }

    async fn load_update(&self) -> Result<Self> {
        let (next, listed_ms) = (self.version() + 1, now_ms());
        let names = list_from(&self.inner.store, next).await?;
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
        // A checkpoint ahead of the commits, or a long tail that it would shorten: start from it.
        let contiguous = (next..).zip(&news).all(|(v, n)| n.version == v);
        if news.is_empty() || !contiguous || (newer_checkpoint && tail_length > LONG_TAIL) {
            return Self::load(&self.inner.store, None, FileLines::Kept).await;
        }
        let read = match commit_reader::read(&self.inner.store, &news).await {
            Err(e) if e.kind() == Kind::VersionNotFound => {
                return Self::load(&self.inner.store, None, FileLines::Kept).await;
            }
            read => read?,
        };
        let sums = names.into_iter().filter(|n| n.kind == paths::LogFile::Checksum);
        let updated = self.extended(read, sums.max_by_key(|n| n.version))?;
        Ok(updated.newest_until(listed_ms))
    }

    /// With these commits, which follow without a gap, and the newest checksum if there is a newer one.
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

    /// The version that a commit of this process made of this one: as the newest it is known without a listing.
    pub(crate) async fn after_own(&self, text: Bytes) -> Result<Self> {
        if self.has_too_long_tail() {
            // Perhaps a checkpoint shortens it.
            return self.update().await;
        }
        let there = self.inner.store.head(&paths::commit(self.version() + 1)).await?;
        let name = name_of(there).ok_or_else(|| Error::internal("a commit's name isn't one"))?;
        self.extended(vec![Arc::new(Commit::parse(name, text)?)], None)
    }

    /// The same version from a newer classic checkpoint, whose state must be known to be this table's; `None` where there is
    /// none of this version that can be used, or where commits after it aren't in hand one by one.
    pub(crate) async fn after_classic(&self, version: u64) -> Result<Option<Self>> {
        let inner = &self.inner;
        let found = match inner.store.head(&paths::classic_checkpoint(version)).await {
            Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(None),
            found => found?,
        };
        let Some(name) = name_of(found) else {
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
        Ok(Arc::new(TableState::new(protocol, metadata)?))
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

    pub(crate) fn commit_in_hand(&self, version: u64) -> Option<&Arc<Commit>> {
        let mut commits = self.inner.commits.iter().rev();
        commits.find(|c| c.is_single() && c.version() == version)
    }

    /// The commits after version `base` up to this one, oldest first, each by itself: those that a
    /// checkpoint or a compaction stands for here are read. It ends before the first one that is gone.
    pub(crate) async fn commits_after(&self, base: Option<u64>) -> Result<Vec<Arc<Commit>>> {
        let wanted: Vec<u64> = (base.map_or(0, |b| b + 1)..=self.version()).collect();
        let in_hand: Vec<Arc<Commit>> = wanted.iter().filter_map(|v| self.commit_in_hand(*v).cloned()).collect();
        if in_hand.len() == wanted.len() {
            return Ok(in_hand);
        }
        let first = wanted.first().copied().unwrap_or_default();
        let mut names = list_from(&self.inner.store, first).await?;
        names.retain(|n| n.kind == paths::LogFile::Commit && n.version <= self.version());
        let contiguous = names.iter().zip(&wanted).take_while(|(n, v)| n.version == **v);
        let names: Vec<LogName> = contiguous.map(|(n, _)| n.clone()).collect();
        commit_reader::read(&self.inner.store, &names).await
    }

    /// How many commits stand after the checkpoint.
    pub fn tail_length(&self) -> usize {
        self.inner.segment.commits.len()
    }

    /// Whether a newer checkpoint, if there is one, is the better beginning of newer versions.
    pub(crate) fn has_long_tail(&self) -> bool {
        self.inner.commits.len() >= LONG_TAIL
    }

    /// Whether a listing has to look for one, since nothing else tells of it.
    pub(crate) fn has_too_long_tail(&self) -> bool {
        self.inner.commits.len() >= TOO_LONG_TAIL
    }

    /// What opening it reads.
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

    /// Bytes of the checkpoint's files, but for sidecars.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        let files = self.inner.segment.checkpoint.iter().flat_map(|c| &c.files);
        files.map(|n| n.size_bytes).fold(0, u64::saturating_add)
    }

    /// The same with them.
    pub(crate) fn whole_checkpoint_bytes(&self) -> u64 {
        let sidecars = self.replay_bytes().saturating_sub(self.log_bytes());
        sidecars.saturating_add(self.checkpoint_bytes())
    }

    /// Bytes of the log's files that it was made from, but for sidecars.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.inner.segment.size_bytes()
    }

    /// The commits after the checkpoint that it was opened from, or after this newer one.
    pub(crate) fn commits_since(&self, checkpoint: Option<u64>) -> impl Iterator<Item = &LogName> + Clone {
        let after = move |n: &&LogName| checkpoint.is_none_or(|c| n.version > c);
        self.inner.segment.commits.iter().filter(after)
    }

    /// The same version without the checkpoint that turned out damaged: from the best other one that can be used, or from
    /// the commits alone. Errors: the damage when there is no other way to make it; what keeps from trying.
    pub(crate) async fn beside_checkpoint(&self, damage: Error) -> Result<Snapshot> {
        let Some(bad) = &self.inner.segment.checkpoint else {
            return Err(damage);
        };
        match self.load_beside(bad).await {
            Ok(other) => {
                warn!(version = bad.version, error = %damage, "a checkpoint turned out damaged, going on without it");
                Ok(other)
            }
            Err(e) if e.kind() == Kind::StoreUnavailable => Err(e),
            Err(e) => {
                warn!(version = bad.version, error = %e, "nothing else stands in for the damaged checkpoint");
                Err(damage)
            }
        }
    }

    async fn load_beside(&self, bad: &CheckpointFiles) -> Result<Snapshot> {
        let names = list_from(&self.inner.store, 0).await?;
        let mut candidates = complete_checkpoints(&names, Some(self.version()));
        // Best first: those before the damaged one were no better, or didn't exist when this was opened. One that is
        // gone was cleaned up, behind newer ones that stand in for it.
        if let Some(at) = candidates.iter().position(|c| c.files == bad.files) {
            candidates.drain(..=at).for_each(drop);
        }
        let (store, version, lines) = (&self.inner.store, Some(self.version()), FileLines::Kept);
        match Self::from_best(store, &names, candidates, version, lines).await? {
            Some(best) => Ok(best),
            None => Self::from_commits(store, &names, version, lines).await,
        }
    }

    async fn side(&self) -> Result<&SideState> {
        self.inner.side.get_or_try_init(|| self.read_side()).await
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
        commit_runs::newest_first(&self.inner.commits, |files, turns| {
            let mask = replay.commits(&files.adds, &files.removes, turns)?;
            let kept = filter(&files.adds, &mask)?;
            if kept.num_rows() > 0 {
                live.push(kept);
            }
            Ok(())
        })?;
        Ok(self.inner.tail.get_or_init(|| Tail { live, replay }))
    }

    /// The tombstones that a checkpoint of this version must carry: removed after `cutoff_ms` (P044, P050). Those in
    /// `kept` parts of the checkpoint are left out.
    pub(crate) async fn tombstones(&self, cutoff_ms: i64, kept: &[usize]) -> Result<Vec<RecordBatch>> {
        let mut out = self.tombstones_as(cutoff_ms, kept, &Ok).await?;
        out.retain(|b| b.num_rows() > 0);
        Ok(out)
    }

    /// The same, each batch as what is made of it.
    pub(crate) async fn tombstones_as<T: Send>(
        &self,
        cutoff_ms: i64,
        kept: &[usize],
        of: &(impl Fn(RecordBatch) -> Result<T> + Sync),
    ) -> Result<Vec<T>> {
        let (mut out, mut walk) = (Vec::new(), Tombstones::default());
        commit_runs::newest_first(&self.inner.commits, |files, turns| {
            let mask = walk.commits(&files.adds, &files.removes, turns)?;
            out.push(of(unexpired(&filter(&files.removes, &mask)?, cutoff_ms)?)?);
            Ok(())
        })?;
        if let Some(checkpoint) = &self.inner.checkpoint {
            let replay = &self.tail()?.replay;
            let mut batches = checkpoint.files_beside(kept, FileActions::Removes, PlanColumns::Logged);
            loop {
                match batches.try_next().await {
                    Ok(Some(batch)) => {
                        out.push(of(unexpired(
                            &filter(&batch, &replay.checkpoint(&batch)?)?,
                            cutoff_ms,
                        )?)?);
                    }
                    Ok(None) => break,
                    Err(e) if is_damage(&e) && kept.is_empty() => {
                        let other = self.beside_checkpoint(e).await?;
                        return Box::pin(other.tombstones_as(cutoff_ms, &[], of)).await;
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(out)
    }

    /// The checkpoint of this very version, if it was opened from one.
    pub(crate) fn own_checkpoint(&self) -> Option<(&CheckpointFiles, &CheckpointReader)> {
        self.base_checkpoint()
            .filter(|(files, _)| files.version == self.version())
    }

    /// The checkpoint that it was opened from, and its files.
    pub(crate) fn base_checkpoint(&self) -> Option<(&CheckpointFiles, &CheckpointReader)> {
        self.inner.segment.checkpoint.as_ref().zip(self.checkpoint_reader())
    }

    /// The files with the commits after the checkpoint, ascending: compactions only where they could be read.
    pub(crate) fn commit_files(&self) -> impl Iterator<Item = &LogName> {
        self.inner.commits.iter().map(|c| &c.name)
    }

    /// The same version with its checkpoint opened, or from another one where it turns out damaged: for who asks what its
    /// files say of themselves.
    pub(crate) async fn with_open_checkpoint(&self) -> Result<Self> {
        match self.checkpoint_reader() {
            Some(checkpoint) => match checkpoint.open_all().await {
                Err(e) if is_damage(&e) => self.beside_checkpoint(e).await,
                opened => opened.map(|()| self.clone()),
            },
            None => Ok(self.clone()),
        }
    }

    /// The checkpoint that this version starts from.
    pub(crate) fn checkpoint_reader(&self) -> Option<&CheckpointReader> {
        self.inner.checkpoint.as_deref()
    }

    /// What became of its copy.
    pub(crate) fn copy(&self) -> &CheckpointCopy {
        &self.inner.copy
    }

    /// Keeps what was summed up of this very version, for the commit that follows it.
    pub(crate) fn keep_checksum(&self, sum: VersionChecksum) {
        let _ = self.inner.checksum.set(Arc::new(sum));
    }

    /// What was kept of it.
    pub(crate) fn known_checksum(&self) -> Option<&Arc<VersionChecksum>> {
        self.inner.checksum.get()
    }

    /// The checksum of this very version, if there is a sound one.
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

/// Protocol and metadata of a version, where its checkpoint needn't be asked: the newest in the commits, else the checksum's.
async fn told_state(store: &Store, segment: &LogSegment, commits: &[Arc<Commit>]) -> Result<Option<TableState>> {
    let (protocol, metadata) = newest_state(commits);
    if protocol.is_some() && metadata.is_some() {
        return state_of((protocol, metadata), Vec::new()).map(Some);
    }
    let Some(sum) = checksum::read_sound(store, segment, commits).await? else {
        return Ok(None);
    };
    let (p, m) = (
        protocol.cloned().unwrap_or(sum.protocol),
        metadata.cloned().unwrap_or(sum.metadata),
    );
    match TableState::new(p, m) {
        Ok(state) => Ok(Some(state)),
        Err(e) => {
            warn!(error = %e, "a version checksum gives no state, asking the checkpoint");
            Ok(None)
        }
    }
}

/// The same with the checkpoint's.
async fn read_state(checkpoint: &CheckpointReader, commits: &[Arc<Commit>]) -> Result<TableState> {
    state_of(newest_state(commits), checkpoint.state_actions().await?)
}

/// Whether the checkpoint before these commits may have sidecars, by the protocol that it was written under (P056).
fn may_have_sidecars(state: &TableState, commits: &[Arc<Commit>]) -> bool {
    let (since, _) = newest_state(commits);
    since.is_some() || features::allows_v2_checkpoints(state.protocol())
}

/// Protocol and metadata: the newest in the commits, else those of the checkpoint.
fn state_of(newest: (Option<&Protocol>, Option<&Metadata>), checkpoint: Vec<Action>) -> Result<TableState> {
    let (mut protocol, mut metadata) = (newest.0.cloned(), newest.1.cloned());
    for a in checkpoint {
        match a {
            Action::Protocol(p) => protocol = protocol.or(Some(p)),
            Action::Metadata(m) => metadata = metadata.or(Some(m)),
            _ => {}
        }
    }
    let missing = |what: &str| {
        Error::corrupt_log(format!(
            "no {what} action in the whole log: the table can't be read; restore the log's first commit"
        ))
    };
    // The protocol comes first: it says whether the rest can be understood (P047, P048).
    let protocol = protocol.ok_or_else(|| missing("protocol"))?;
    TableState::new(protocol, metadata.ok_or_else(|| missing("metaData"))?)
}

pub(crate) fn filter(batch: &RecordBatch, mask: &BooleanArray) -> Result<RecordBatch> {
    if mask.true_count() == batch.num_rows() {
        return Ok(batch.clone());
    }
    filter_record_batch(batch, mask).map_err(|e| Error::internal(format!("can't filter file actions: {e}")))
}

fn unexpired(removes: &RecordBatch, cutoff_ms: i64) -> Result<RecordBatch> {
    let rows = deltaplane_protocol::file_rows::FileRows::new(removes);
    let mask: BooleanArray = (0..removes.num_rows())
        .map(|r| Some(rows.deletion_timestamp(r) > cutoff_ms))
        .collect();
    filter(removes, &mask)
}
