//! A snapshot: one immutable version of a table. Opening reads protocol and metadata, never the
//! file list; plans stream it, pruned. A newer snapshot shares all that it can with the older one.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::{Action, DomainMetadata, Metadata, Protocol, SetTransaction};
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::replay::{Replay, Tombstones};
use deltaplane_protocol::schema::StructType;
use deltaplane_protocol::segment::{CheckpointFiles, LogName, LogSegment, complete_checkpoints};
use deltaplane_protocol::state::TableState;
use deltaplane_store::Store;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;
use tracing::{debug, warn};

use crate::checkpoint_reader::{CheckpointReader, FileActions};
use crate::commit_reader::{self, Commit};
use crate::last_checkpoint;
use crate::listing::list_from;

/// Commits after which an update starts anew from a newer checkpoint instead of growing the tail.
const LONG_TAIL: usize = 64;

/// Which columns a plan's batches need beside the files' identity, values and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanColumns {
    /// As written: statistics as JSON where they are.
    Logged,
    /// Also the parsed structs where a checkpoint has them.
    Parsed,
}

/// One version of a table. Cheap to clone.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    segment: LogSegment,
    checkpoint: Option<Arc<CheckpointReader>>,
    /// Ascending, as in the segment.
    commits: Vec<Arc<Commit>>,
    state: Arc<TableState>,
    side: OnceCell<SideState>,
    tail: OnceLock<Tail>,
}

/// What the checkpoint's and commits' other actions make, read when asked for.
#[derive(Default)]
struct SideState {
    transactions: BTreeMap<String, SetTransaction>,
    domains: BTreeMap<String, DomainMetadata>,
}

/// The commits after the checkpoint, reconciled.
struct Tail {
    live: Vec<RecordBatch>,
    replay: Replay,
}

impl Snapshot {
    /// Opens a version, or the newest one.
    ///
    /// Costs one listing, one read for each commit after the checkpoint, and the checkpoint's
    /// footer with its few state rows.
    pub async fn open(store: &Store, version: Option<u64>) -> Result<Self> {
        let opened = Self::load(store, version).await;
        opened.map_err(|e| {
            // Only a listing can fail so: the bucket or container isn't there.
            let e = match e.kind() {
                Kind::ObjectNotFound if e.path().is_none_or(|p| p == paths::LOG_DIR) => {
                    e.with_kind(Kind::TableNotFound)
                }
                _ => e,
            };
            e.with_table(store.location().as_str())
        })
    }

    async fn load(store: &Store, version: Option<u64>) -> Result<Self> {
        let hint = last_checkpoint::read(store)
            .await?
            .filter(|h| version.is_none_or(|v| *h <= v));
        if let Some(h) = hint {
            let names = list_from(store, h).await?;
            let candidates = complete_checkpoints(&names, version);
            if let Some((files, reader)) = first_usable(store, candidates).await? {
                return Self::from_parts(store, &names, Some((files, reader)), version).await;
            }
            debug!(hint = h, "the checkpoint hint leads nowhere, listing the whole log");
        }
        let names = list_from(store, 0).await?;
        let candidates = complete_checkpoints(&names, version);
        let usable = first_usable(store, candidates).await?;
        Self::from_parts(store, &names, usable, version).await
    }

    async fn from_parts(
        store: &Store,
        names: &[LogName],
        checkpoint: Option<(CheckpointFiles, Arc<CheckpointReader>)>,
        version: Option<u64>,
    ) -> Result<Self> {
        let (files, reader) = checkpoint.unzip();
        let segment = LogSegment::build(names, files, version)?;
        let commits = commit_reader::read(store, &segment.commits).await?;
        let state = read_state(reader.as_deref(), &commits)
            .await
            .map_err(|e| e.with_version(segment.version))?;
        Ok(Self::assemble(store, segment, reader, commits, state))
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
            commits,
            state,
            side: OnceCell::new(),
            tail: OnceLock::new(),
        };
        Snapshot { inner: Arc::new(inner) }
    }

    /// The newest version; costs the listing after this version and its new commits.
    pub async fn update(&self) -> Result<Self> {
        let updated = self.load_update().await;
        updated.map_err(|e| e.with_table(self.inner.store.location().as_str()))
    }

    async fn load_update(&self) -> Result<Self> {
        let next = self.version() + 1;
        let names = list_from(&self.inner.store, next).await?;
        let news: Vec<LogName> = names
            .iter()
            .filter(|n| n.kind == paths::LogFile::Commit)
            .cloned()
            .collect();
        let newer_checkpoint = !complete_checkpoints(&names, None).is_empty();
        let tail_length = self.inner.commits.len() + news.len();
        if news.is_empty() && !newer_checkpoint {
            return Ok(self.clone());
        }
        // A checkpoint ahead of the commits, or a long tail that it would shorten: start from it.
        let contiguous = (next..).zip(&news).all(|(v, n)| n.version == v);
        if news.is_empty() || !contiguous || (newer_checkpoint && tail_length > LONG_TAIL) {
            return Self::load(&self.inner.store, None).await;
        }
        let read = commit_reader::read(&self.inner.store, &news).await?;
        let state = self.state_after(&read)?;
        let mut segment = self.inner.segment.clone();
        segment.version = news.last().map_or(segment.version, |n| n.version);
        segment.commits.extend(news);
        let commits = self.inner.commits.iter().cloned().chain(read).collect();
        Ok(Self::assemble(
            &self.inner.store,
            segment,
            self.inner.checkpoint.clone(),
            commits,
            state,
        ))
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

    /// The actions of this version's commit other than file actions, if its file is still there.
    pub fn commit_actions(&self) -> Option<&[Action]> {
        self.inner.commits.last().map(|c| c.state.as_slice())
    }

    /// The commits after `base`, which must share this snapshot's log, oldest first.
    pub(crate) fn commits_after(&self, base: Option<u64>) -> impl Iterator<Item = &Arc<Commit>> {
        self.inner
            .commits
            .iter()
            .filter(move |c| base.is_none_or(|b| c.version() > b))
    }

    /// How many commits stand after the checkpoint.
    pub fn tail_length(&self) -> usize {
        self.inner.commits.len()
    }

    async fn side(&self) -> Result<&SideState> {
        self.inner.side.get_or_try_init(|| self.read_side()).await
    }

    async fn read_side(&self) -> Result<SideState> {
        let mut out = SideState::default();
        let base = match &self.inner.checkpoint {
            Some(c) => c.state_actions().await?,
            None => Vec::new(),
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

    fn tail(&self) -> Result<&Tail> {
        if let Some(t) = self.inner.tail.get() {
            return Ok(t);
        }
        let (mut live, mut replay) = (Vec::new(), Replay::new());
        for c in self.inner.commits.iter().rev() {
            let files = c.files()?;
            let mask = replay
                .commit(&files.adds, &files.removes)
                .map_err(|e| e.with_version(c.version()))?;
            let kept = filter(&files.adds, &mask)?;
            if kept.num_rows() > 0 {
                live.push(kept);
            }
        }
        Ok(self.inner.tail.get_or_init(|| Tail { live, replay }))
    }

    /// The live files as batches of adds, newest commits first, then the checkpoint's: streamed,
    /// and without the files that `pruner` shows can't match.
    pub fn plan(&self, pruner: Option<Arc<Pruner>>, columns: PlanColumns) -> BoxStream<'static, Result<RecordBatch>> {
        let this = self.clone();
        let (send, receive) = futures::channel::mpsc::channel(2);
        let task = async move {
            let mut send = send;
            if let Err(e) = this.stream_plan(pruner.as_deref(), columns, &mut send).await {
                let e = e
                    .with_table(this.inner.store.location().as_str())
                    .with_version(this.version());
                // A dropped receiver means that nobody wants the error either.
                let _ = futures::SinkExt::send(&mut send, Err(e)).await;
            }
        };
        // Driven by whoever polls the stream: no task outlives its reader.
        stream::select(receive, stream::once(task).filter_map(|()| async { None })).boxed()
    }

    async fn stream_plan(
        &self,
        pruner: Option<&Pruner>,
        columns: PlanColumns,
        send: &mut futures::channel::mpsc::Sender<Result<RecordBatch>>,
    ) -> Result<()> {
        let tail = self.tail()?;
        for batch in &tail.live {
            if !emit(send, prune(batch.clone(), pruner)?).await {
                return Ok(());
            }
        }
        let Some(checkpoint) = &self.inner.checkpoint else {
            return Ok(());
        };
        let parsed = columns == PlanColumns::Parsed || pruner.is_some();
        let mut batches = checkpoint.files(FileActions::Adds, parsed);
        while let Some(batch) = batches.try_next().await? {
            let untouched = filter(&batch, &tail.replay.checkpoint(&batch)?)?;
            if !emit(send, prune(untouched, pruner)?).await {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The tombstones that a checkpoint of this version must carry: removed after `cutoff_ms` (P044, P050).
    pub(crate) async fn tombstones(&self, cutoff_ms: i64) -> Result<Vec<RecordBatch>> {
        let (mut out, mut walk) = (Vec::new(), Tombstones::default());
        for c in self.inner.commits.iter().rev() {
            let files = c.files()?;
            let mask = walk.commit(&files.adds, &files.removes)?;
            out.push(unexpired(&filter(&files.removes, &mask)?, cutoff_ms)?);
        }
        if let Some(checkpoint) = &self.inner.checkpoint {
            let replay = &self.tail()?.replay;
            let mut batches = checkpoint.files(FileActions::Removes, false);
            while let Some(batch) = batches.try_next().await? {
                out.push(unexpired(&filter(&batch, &replay.checkpoint(&batch)?)?, cutoff_ms)?);
            }
        }
        out.retain(|b| b.num_rows() > 0);
        Ok(out)
    }
}

async fn first_usable(
    store: &Store,
    candidates: Vec<CheckpointFiles>,
) -> Result<Option<(CheckpointFiles, Arc<CheckpointReader>)>> {
    for files in candidates {
        match CheckpointReader::open(store, &files).await {
            Ok(reader) => return Ok(Some((files, Arc::new(reader)))),
            Err(e) if matches!(e.kind(), Kind::CorruptFile | Kind::CorruptLog | Kind::ObjectNotFound) => {
                warn!(version = files.version, error = %e, "a checkpoint can't be used, trying an older one");
            }
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// The newest protocol and metadata among these commits (ascending).
fn newest_state(commits: &[Arc<Commit>]) -> (Option<&Protocol>, Option<&Metadata>) {
    let (mut protocol, mut metadata) = (None, None);
    for a in commits.iter().rev().flat_map(|c| &c.state) {
        match a {
            Action::Protocol(p) => protocol = protocol.or(Some(p)),
            Action::Metadata(m) => metadata = metadata.or(Some(m)),
            _ => {}
        }
    }
    (protocol, metadata)
}

async fn read_state(checkpoint: Option<&CheckpointReader>, commits: &[Arc<Commit>]) -> Result<Arc<TableState>> {
    let (protocol, metadata) = newest_state(commits);
    let (mut protocol, mut metadata) = (protocol.cloned(), metadata.cloned());
    if let (Some(c), true) = (checkpoint, protocol.is_none() || metadata.is_none()) {
        for a in c.state_actions().await? {
            match a {
                Action::Protocol(p) => protocol = protocol.or(Some(p)),
                Action::Metadata(m) => metadata = metadata.or(Some(m)),
                _ => {}
            }
        }
    }
    let missing = |what: &str| {
        Error::corrupt_log(format!(
            "no {what} action in the whole log: the table can't be read; restore the log's first commit"
        ))
    };
    // The protocol comes first: it says whether the rest can be understood (P047, P048).
    let protocol = protocol.ok_or_else(|| missing("protocol"))?;
    Ok(Arc::new(TableState::new(
        protocol,
        metadata.ok_or_else(|| missing("metaData"))?,
    )?))
}

fn filter(batch: &RecordBatch, mask: &BooleanArray) -> Result<RecordBatch> {
    if mask.true_count() == batch.num_rows() {
        return Ok(batch.clone());
    }
    filter_record_batch(batch, mask).map_err(|e| Error::internal(format!("can't filter file actions: {e}")))
}

fn prune(batch: RecordBatch, pruner: Option<&Pruner>) -> Result<RecordBatch> {
    match pruner {
        Some(p) if batch.num_rows() > 0 => filter(&batch, &p.keep(&batch)?),
        _ => Ok(batch),
    }
}

async fn emit(send: &mut futures::channel::mpsc::Sender<Result<RecordBatch>>, batch: RecordBatch) -> bool {
    batch.num_rows() == 0 || futures::SinkExt::send(send, Ok(batch)).await.is_ok()
}

fn unexpired(removes: &RecordBatch, cutoff_ms: i64) -> Result<RecordBatch> {
    let rows = deltaplane_protocol::files::FileRows::new(removes);
    let mask: BooleanArray = (0..removes.num_rows())
        .map(|r| Some(rows.deletion_timestamp(r) > cutoff_ms))
        .collect();
    filter(removes, &mask)
}
