//! Writing checkpoints by the table's policy (P050–P062): classic, or V2 with sidecars; streamed,
//! verified, then named by the hint. A failure never fails the commit that caused it: the log alone
//! is enough.

pub(crate) mod live_files;
pub(crate) mod local_copy;
pub(crate) mod reused_row_groups;
pub(crate) mod rows;
pub(crate) mod schedule;
pub(crate) mod sidecars;
pub(crate) mod sort;
pub(crate) mod v2;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::paths;
use deltaplane_protocol::segment::CheckpointFiles;
use parquet::basic::{Compression, ZstdLevel};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use crate::checkpoint::file::{CheckpointFile, ORDER_KEY, Pages, WrittenFile};
use crate::checkpoint::live_row_groups::{GROUPS_KEY, LiveGroups};
use crate::checkpoint::reader::{Checked, CheckpointReader};
use crate::checkpoint_writer::live_files::{InOrder, Target};
use crate::checkpoint_writer::reused_row_groups::Base;
use crate::checkpoint_writer::rows::{
    AddRows, classic_schema, domain_array, metadata_array, protocol_array, txn_array, unchanged,
};
use crate::checkpoint_writer::schedule::Tail;
use crate::commit::reader::is_damage;
use crate::listing::last_checkpoint;
use crate::listing::last_checkpoint::LastCheckpoint;
use crate::listing::name_of;
use crate::{Snapshot, now_ms};

/// Logs from this size on are compressed more. Below it, initialising Zstandard for each page of
/// each column costs more than all the rest of a checkpoint.
const LARGE_LOG_BYTES: u64 = 1 << 20;

/// What a checkpoint contains, and the bytes written for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "CheckpointResult")]
pub struct CheckpointReport {
    /// The version it holds.
    pub version: u64,
    /// `classic`, or `v2` with its file actions in sidecars.
    pub kind: &'static str,
    /// Actions in all.
    pub actions: u64,
    /// Live files among the rows that were written, not copied.
    pub adds: u64,
    /// Size of the new files in bytes.
    pub size_bytes: u64,
    /// Sidecars that it names.
    pub sidecars: u64,
    /// Those among them that are reused from the previous checkpoint.
    pub kept_sidecars: u64,
}

/// Whether a checkpoint of this version is due; `among_many` if many other writers are committing
/// now, `one_earlier` if the version before a multiple of the interval is due instead of it.
pub(crate) async fn is_due(snapshot: &Snapshot, among_many: bool, one_earlier: bool) -> bool {
    let since = |checkpoint: Option<u64>| Tail {
        among_many,
        ..snapshot.log_tail(checkpoint)
    };
    let (version, tail) = (snapshot.version() + u64::from(one_earlier), since(None));
    if !tail.is_due(version) || !tail.is_longer() {
        return tail.is_due(version);
    }
    // Another writer may have written one since this table was opened: reading the hint is cheaper
    // than a needless checkpoint.
    match last_checkpoint::read(snapshot.store()).await {
        Ok(hint) => since(hint).is_due(version),
        Err(_) => true,
    }
}

/// Writes the files of a checkpoint of a version that this process has just committed; a failure is
/// only logged. Returns the hint that names it, which is still to be written.
pub(crate) async fn after_commit(snapshot: &Snapshot) -> Option<LastCheckpoint> {
    let written = async {
        snapshot
            .with_open_checkpoint()
            .await?
            .write_checkpoint(Probe::Skipped)
            .await
    };
    match written.await {
        Ok((_, hint)) => Some(hint),
        Err(e) => {
            warn!(version = snapshot.version(), error = %e, "the commit is safe, but its checkpoint couldn't be written");
            None
        }
    }
}

/// Points the hint at a checkpoint that was written after a commit; a failure is only logged.
pub(crate) async fn name_by_hint(snapshot: &Snapshot, hint: &LastCheckpoint) {
    if let Err(e) = last_checkpoint::write(snapshot.store(), hint).await {
        warn!(version = snapshot.version(), error = %e, "the commit is safe, but the hint of its checkpoint couldn't be written");
    }
}

/// Whether another writer's checkpoint of the same version is looked for first. In an object store
/// that costs a round, and nobody but its writer has had a reason to write one of a new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    Always,
    Skipped,
}

/// The source of a classic checkpoint's live files.
enum LiveFiles<'a> {
    /// Most row groups of the previous checkpoint are copied.
    Beside(Base<'a>),
    /// Live files in order.
    InOrder(InOrder<'a>),
    /// Live files to be sorted.
    Unsorted,
}

/// `None` if the previous checkpoint is damaged.
fn unless_damaged<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(e) if is_damage(&e) => Ok(None),
        result => result.map(Some),
    }
}

impl Snapshot {
    /// Writes a checkpoint of this version, of the kind that `delta.checkpointPolicy` says, and
    /// points the hint at it.
    ///
    /// Memory: a few batches of adds, and the unexpired tombstones.
    pub async fn checkpoint(&self) -> Result<CheckpointReport> {
        let written = async {
            let opened = self.with_open_checkpoint().await?;
            let (report, hint) = opened.write_checkpoint(Probe::Always).await?;
            last_checkpoint::write(self.store(), &hint).await?;
            Ok(report)
        };
        written.await.map_err(|e: Error| {
            e.with_table(self.store().location().as_str())
                .with_version(self.version())
        })
    }

    /// Writes the files, and returns the hint that is to name them.
    async fn write_checkpoint(&self, probe: Probe) -> Result<(CheckpointReport, LastCheckpoint)> {
        self.state().check_write()?;
        let (report, top) = if self.writes_v2() {
            let (report, top) = self.write_v2().await?;
            (report, Some(top))
        } else {
            (self.write_classic(probe).await?, None)
        };
        let hint = LastCheckpoint {
            version: self.version(),
            size: i64::try_from(report.actions).unwrap_or(-1),
            parts: None,
            size_in_bytes: i64::try_from(report.size_bytes).ok(),
            num_of_add_files: i64::try_from(report.adds).ok().filter(|_| report.kept_sidecars == 0),
            v2_checkpoint: top,
        };
        info!(table = %self.store().location(), version = self.version(), kind = report.kind, actions = report.actions, bytes = report.size_bytes, sidecars = report.sidecars, retained = report.kept_sidecars, "wrote a checkpoint");
        Ok((report, hint))
    }

    async fn write_classic(&self, probe: Probe) -> Result<CheckpointReport> {
        let (now, key) = (now_ms(), paths::classic_checkpoint(self.version()));
        let probes = probe == Probe::Always || self.store().local_path(&key).is_some();
        if probes && let Some(report) = self.classic_there(&key).await? {
            return Ok(report);
        }
        let rows = AddRows::of(self.state());
        // As plans do, falls back to other sources if the checkpoint is damaged: nothing is put in
        // place before all is written.
        let mut read_back = None;
        if let Some(base) = unless_damaged(self.base_of_groups(&rows).await)?.flatten() {
            let live = LiveFiles::Beside(base);
            read_back = unless_damaged(self.write_classic_file(&key, &rows, now, live).await)?;
        }
        if read_back.is_none()
            && let Some(run) = unless_damaged(self.live_in_order(&rows).await)?.flatten()
        {
            let live = LiveFiles::InOrder(run);
            read_back = unless_damaged(self.write_classic_file(&key, &rows, now, live).await)?;
        }
        let (adds, written) = match read_back {
            Some(read_back) => read_back,
            None => self.write_classic_file(&key, &rows, now, LiveFiles::Unsorted).await?,
        };
        Ok(CheckpointReport {
            version: self.version(),
            kind: "classic",
            actions: written.actions,
            adds,
            size_bytes: written.size_bytes,
            sidecars: 0,
            kept_sidecars: 0,
        })
    }

    /// Writes the whole file; also returns the number of its live files.
    async fn write_classic_file(
        &self,
        key: &str,
        rows: &AddRows,
        now: i64,
        live: LiveFiles<'_>,
    ) -> Result<(u64, WrittenFile)> {
        let (schema, compression) = (classic_schema(rows.schema()), self.compression());
        let mut out = CheckpointFile::create(self.store(), key.to_owned(), schema, compression, Pages::Indexed).await?;
        self.write_state(&mut out, now).await?;
        let (state, apart) = (out.actions(), self.keeps_groups_apart().await?);
        let first = if apart { out.end_group().await? } else { 0 };
        let (order, mut groups) = match live {
            LiveFiles::Beside(base) => {
                let groups = self.write_beside(&base, &mut out, rows).await?;
                (Some(base.order), Some(groups))
            }
            LiveFiles::InOrder(InOrder { order, run }) => {
                out.write_run(run).await?;
                (Some(order), None)
            }
            LiveFiles::Unsorted => (self.write_sorted(&mut Target::File(&mut out), rows).await?, None),
        };
        let adds = out.actions() - state;
        if apart && groups.is_none() {
            let end = out.end_group().await?;
            groups = Some(LiveGroups::between(first, end, end));
        }
        if let Some(order) = order {
            out.note(ORDER_KEY, order.to_text()?);
            if let Some(groups) = groups {
                out.note(GROUPS_KEY, groups.to_text());
            }
        }
        for batch in self.tombstones(self.tombstone_cutoff(now), &[]).await? {
            out.write("remove", unchanged(&batch)?).await?;
        }
        Ok((adds, out.finish().await?))
    }

    /// Returns an undamaged checkpoint that another writer already wrote for this version. It holds
    /// the same state, so it isn't replaced: a reader in the middle of it would read parts of both
    /// files.
    async fn classic_there(&self, key: &str) -> Result<Option<CheckpointReport>> {
        let file = match self.store().head(key).await {
            Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(None),
            file => file?,
        };
        let size_bytes = file.size_bytes;
        let files = CheckpointFiles {
            version: self.version(),
            files: name_of(file).into_iter().collect(),
        };
        let checked = async {
            let reader = CheckpointReader::open(&self.store().without_cache()?, &files).await?;
            let Checked { actions, adds } = reader.check().await?;
            Ok(CheckpointReport {
                version: self.version(),
                kind: "classic",
                actions,
                adds,
                size_bytes,
                sidecars: 0,
                kept_sidecars: 0,
            })
        };
        match checked.await {
            Err(e) if is_damage(&e) => {
                warn!(path = key, error = %e, "the checkpoint of this version is damaged, rewriting it");
                Ok(None)
            }
            there => there.map(Some),
        }
    }

    /// The facts that decide when the next checkpoint is due; `since` may be a newer checkpoint
    /// than the one that this was opened from.
    pub(crate) fn log_tail(&self, since: Option<u64>) -> Tail {
        let properties = self.state().properties();
        let commits = self.commits_since(since);
        Tail {
            asked: properties.checkpoint_interval,
            incremental: self.writes_v2(),
            checkpoint_bytes: self.known_checkpoint_bytes(),
            among_many: false,
            commits: commits.clone().count() as u64,
            commit_bytes: commits.map(|n| n.size_bytes).fold(0, u64::saturating_add),
        }
    }

    /// Whether new checkpoints of the table are V2.
    pub(crate) fn writes_v2(&self) -> bool {
        self.state().writes_v2_checkpoints()
    }

    pub(crate) fn compression(&self) -> Compression {
        match self.known_replay_bytes() {
            ..LARGE_LOG_BYTES => Compression::SNAPPY,
            _ => Compression::ZSTD(ZstdLevel::default()),
        }
    }

    pub(crate) fn tombstone_cutoff(&self, now: i64) -> i64 {
        now.saturating_sub(self.state().properties().deleted_file_retention_ms)
    }

    /// Everything but file actions.
    pub(crate) async fn write_state(&self, out: &mut CheckpointFile, now: i64) -> Result<()> {
        out.write("protocol", protocol_array(self.state().protocol())?).await?;
        out.write("metaData", metadata_array(self.state().metadata())?).await?;
        out.write("txn", txn_array(&self.transactions(now).await?)?).await?;
        out.write("domainMetadata", domain_array(&self.domains().await?)?).await
    }
}
