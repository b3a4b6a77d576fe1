//! Writing checkpoints by the table's policy (P050–P062): classic, or V2 with sidecars; streamed, read back, then hinted
//! at. A failure never fails the commit that caused it: the log alone is enough.

use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::claimed_sum;
use deltaplane_protocol::paths::LogFile;
use deltaplane_protocol::segment::{CheckpointFiles, LogName};
use deltaplane_protocol::{features, paths};
use futures::TryStreamExt;
use parquet::basic::{Compression, ZstdLevel};
use tracing::{info, warn};

use crate::checkpoint_file::{CheckpointFile, ORDER_KEY, WrittenFile};
use crate::checkpoint_reader::{Checked, CheckpointReader, SidecarFile};
use crate::checkpoint_rows::{
    AddRows, classic_schema, domain_array, manifest_schema, metadata_array, protocol_array, sidecar_array,
    sidecar_schema, txn_array, unchanged, version_array,
};
use crate::commit_reader::is_damage;
use crate::last_checkpoint::{self, LastCheckpoint, TopFile};
use crate::live_files::InOrder;
use crate::sidecars::{KEPT_ACTIONS, SidecarWriter};
use crate::surroundings::new_id;
use crate::{Snapshot, now_ms};

/// Logs from this size on are packed tighter. Below it, setting a Zstandard context up for each page of each column costs
/// more than all the rest of a checkpoint.
const LARGE_LOG_BYTES: u64 = 1 << 20;

/// Sidecars that no checkpoint names are safe from clean-up for a day.
const LONGEST_WRITE_MS: i64 = 12 * 3_600_000;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointReport {
    /// The version it holds.
    pub version: u64,
    /// `classic`, or `v2` with its file actions in sidecars.
    pub kind: &'static str,
    /// Actions in all.
    pub actions: u64,
    /// Live files among them, as far as they were written anew.
    pub adds: u64,
    /// Size of the new files in bytes.
    pub size_bytes: u64,
    /// Sidecars that it names.
    pub sidecars: u64,
    /// Those among them that the checkpoint before had already.
    pub kept_sidecars: u64,
}

/// Whether the table's interval asks for a checkpoint of this version.
pub(crate) fn is_due(snapshot: &Snapshot) -> bool {
    let interval = snapshot.state().properties().checkpoint_interval;
    snapshot.version() > 0 && snapshot.version().is_multiple_of(interval)
}

/// Writes a checkpoint; a failure is only logged. True when one was written.
pub(crate) async fn after_commit(snapshot: &Snapshot) -> bool {
    let written = snapshot.checkpoint().await;
    if let Err(e) = &written {
        warn!(version = snapshot.version(), error = %e, "the commit is safe, but its checkpoint couldn't be written");
    }
    written.is_ok()
}

impl Snapshot {
    /// Writes a checkpoint of this version, of the kind that `delta.checkpointPolicy` says, and points the hint at it.
    ///
    /// Memory: a few batches of adds, and the unexpired tombstones.
    pub async fn checkpoint(&self) -> Result<CheckpointReport> {
        let written = self.write_checkpoint().await;
        written.map_err(|e| {
            e.with_table(self.store().location().as_str())
                .with_version(self.version())
        })
    }

    async fn write_checkpoint(&self) -> Result<CheckpointReport> {
        self.state().check_write()?;
        // A property without its feature is inert (P058, P093).
        let v2 = self.state().properties().v2_checkpoints && features::allows_v2_checkpoints(self.state().protocol());
        let (report, top) = if v2 {
            let (report, top) = self.write_v2().await?;
            (report, Some(top))
        } else {
            (self.write_classic().await?, None)
        };
        let hint = LastCheckpoint {
            version: self.version(),
            size: i64::try_from(report.actions).unwrap_or(-1),
            parts: None,
            size_in_bytes: i64::try_from(report.size_bytes).ok(),
            num_of_add_files: i64::try_from(report.adds).ok().filter(|_| report.kept_sidecars == 0),
            v2_checkpoint: top,
        };
        last_checkpoint::write(self.store(), &hint).await?;
        info!(table = %self.store().location(), version = self.version(), kind = report.kind, actions = report.actions, bytes = report.size_bytes, sidecars = report.sidecars, kept = report.kept_sidecars, "wrote a checkpoint");
        Ok(report)
    }

    async fn write_classic(&self) -> Result<CheckpointReport> {
        let (now, key) = (now_ms(), paths::classic_checkpoint(self.version()));
        if let Some(report) = self.classic_there(&key).await? {
            return Ok(report);
        }
        let rows = AddRows::of(self.state());
        let in_order = match self.live_in_order(&rows).await {
            Err(e) if is_damage(&e) => None,
            found => found?,
        };
        let (adds, written) = match in_order {
            None => self.write_classic_file(&key, &rows, now, None).await?,
            Some(run) => match self.write_classic_file(&key, &rows, now, Some(run)).await {
                // Nothing was put there: a plan goes on beside a damaged checkpoint.
                Err(e) if is_damage(&e) => self.write_classic_file(&key, &rows, now, None).await?,
                written => written?,
            },
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

    /// The whole file from live files that are in order, or that are to be sorted; also tells how many those are.
    async fn write_classic_file(
        &self,
        key: &str,
        rows: &AddRows,
        now: i64,
        in_order: Option<InOrder<'_>>,
    ) -> Result<(u64, WrittenFile)> {
        let (schema, compression) = (classic_schema(rows.schema()), self.compression());
        let mut out = CheckpointFile::create(self.store(), key.to_owned(), schema, compression).await?;
        self.write_state(&mut out, now).await?;
        let state = out.actions();
        let order = match in_order {
            Some(InOrder { order, run }) => {
                out.write_run(run).await?;
                Some(order)
            }
            None => self.write_sorted(&mut out, rows).await?,
        };
        let adds = out.actions() - state;
        if let Some(order) = order {
            out.note(ORDER_KEY, order.to_text()?);
        }
        for batch in self.tombstones(self.tombstone_cutoff(now), &[]).await? {
            out.write("remove", unchanged(&batch)?).await?;
        }
        Ok((adds, out.finish().await?))
    }

    /// A sound checkpoint that another writer put there: it holds the same, and whoever is reading it would get a mixture
    /// if it were written again.
    async fn classic_there(&self, key: &str) -> Result<Option<CheckpointReport>> {
        let found = match self.store().head(key).await {
            Err(e) if e.kind() == Kind::ObjectNotFound => return Ok(None),
            found => found?,
        };
        let name = key.rsplit('/').next().unwrap_or_default();
        let files = CheckpointFiles {
            version: self.version(),
            files: Vec::from_iter(LogName::parse(name, found.size_bytes, found.modified_ms)),
        };
        let checked = async {
            let reader = CheckpointReader::open(self.store(), &files).await?;
            let Checked { actions, adds } = reader.check().await?;
            Ok(CheckpointReport {
                version: self.version(),
                kind: "classic",
                actions,
                adds,
                size_bytes: found.size_bytes,
                sidecars: 0,
                kept_sidecars: 0,
            })
        };
        match checked.await {
            Err(e) if is_damage(&e) => {
                warn!(path = key, error = %e, "the checkpoint of this version is damaged, writing it anew");
                Ok(None)
            }
            there => there.map(Some),
        }
    }

    /// The V2 checkpoint that this version was opened from, if it is sound: another one would only lie beside it.
    async fn v2_there(&self) -> Result<Option<(CheckpointReport, TopFile)>> {
        let Some((files, reader)) = self.own_checkpoint() else {
            return Ok(None);
        };
        let [top] = files.files.as_slice() else {
            return Ok(None);
        };
        if !matches!(top.kind, LogFile::UuidCheckpoint { .. }) {
            return Ok(None);
        }
        let Checked { actions, adds } = match reader.check().await {
            Err(e) if is_damage(&e) => return Ok(None),
            checked => checked?,
        };
        let sidecars = reader.parts().iter().filter(|p| p.sidecar.is_some()).count() as u64;
        let file = TopFile {
            path: top.name.clone(),
            size_in_bytes: i64::try_from(top.size_bytes).unwrap_or(i64::MAX),
            modification_time: top.modified_ms,
        };
        let report = CheckpointReport {
            version: self.version(),
            kind: "v2",
            actions,
            adds,
            size_bytes: top.size_bytes,
            sidecars,
            kept_sidecars: sidecars,
        };
        Ok(Some((report, file)))
    }

    async fn write_v2(&self) -> Result<(CheckpointReport, TopFile)> {
        if let Some(there) = self.v2_there().await? {
            return Ok(there);
        }
        let now = now_ms();
        let kept = self.kept_sidecars(now).await?;
        let rows = AddRows::of(self.state());
        let mut writer = SidecarWriter::new(self.store(), sidecar_schema(rows.schema()), self.compression());
        let adds = self.write_files(&mut writer, &rows, now, &kept).await?;
        let (new, new_actions) = writer.finish().await?;
        let parts = self.checkpoint_reader().map(|c| c.parts()).unwrap_or_default();
        let (mut sidecars, mut actions): (Vec<SidecarFile>, u64) = (Vec::new(), new_actions);
        for part in kept.iter().filter_map(|i| parts.get(*i)) {
            sidecars.extend(part.sidecar.clone());
            actions += part.rows().await? as u64;
        }
        let new_bytes = claimed_sum(new.iter().map(|s| s.size_in_bytes));
        sidecars.extend(new);
        let key = paths::uuid_checkpoint(self.version(), &new_id().to_string());
        let mut top = CheckpointFile::create(
            self.store(),
            key.clone(),
            manifest_schema(rows.schema()),
            Compression::SNAPPY,
        )
        .await?;
        top.write("checkpointMetadata", version_array(self.version())?).await?;
        self.write_state(&mut top, now).await?;
        top.write("sidecar", sidecar_array(&sidecars)?).await?;
        if now_ms().saturating_sub(now) > LONGEST_WRITE_MS || !(kept.is_empty() || self.is_fresh()) {
            return Err(Error::new(
                Kind::ConcurrentWrite,
                "writing the checkpoint took so long that log cleanup may have removed sidecars of it: it isn't put in place; write it again",
            ));
        }
        let top = top.finish().await?;
        let info = self.store().head(&key).await?;
        let file = TopFile {
            path: key.rsplit('/').next().unwrap_or_default().to_owned(),
            size_in_bytes: i64::try_from(top.size_bytes).unwrap_or(i64::MAX),
            modification_time: info.modified_ms,
        };
        let report = CheckpointReport {
            version: self.version(),
            kind: "v2",
            actions: actions + top.actions,
            adds,
            size_bytes: top.size_bytes.saturating_add(u64::try_from(new_bytes).unwrap_or(0)),
            sidecars: sidecars.len() as u64,
            kept_sidecars: kept.len() as u64,
        };
        Ok((report, file))
    }

    fn compression(&self) -> Compression {
        let parts = self.checkpoint_reader().map(|c| c.parts()).unwrap_or_default();
        let sidecars = parts.iter().filter_map(|p| p.sidecar.as_ref());
        let bytes = sidecars
            .map(|s| u64::try_from(s.size_in_bytes).unwrap_or(0))
            .fold(self.log_bytes(), u64::saturating_add);
        match bytes {
            ..LARGE_LOG_BYTES => Compression::SNAPPY,
            _ => Compression::ZSTD(ZstdLevel::default()),
        }
    }

    /// Which sidecars to name again; none where one of them turns out damaged, or where all may have been cleaned up, so
    /// that everything is written anew.
    async fn kept_sidecars(&self, now: i64) -> Result<Vec<usize>> {
        if !self.is_fresh() {
            return Ok(Vec::new());
        }
        match self.untouched_sidecars(KEPT_ACTIONS, self.tombstone_cutoff(now)).await {
            Err(e) if is_damage(&e) => Ok(Vec::new()),
            found => found,
        }
    }

    fn tombstone_cutoff(&self, now: i64) -> i64 {
        now.saturating_sub(self.state().properties().deleted_file_retention_ms)
    }

    /// Everything but file actions.
    async fn write_state(&self, out: &mut CheckpointFile, now: i64) -> Result<()> {
        out.write("protocol", protocol_array(self.state().protocol())?).await?;
        out.write("metaData", metadata_array(self.state().metadata())?).await?;
        out.write("txn", txn_array(&self.transactions(now).await?)?).await?;
        out.write("domainMetadata", domain_array(&self.domains().await?)?).await
    }

    /// The live files and tombstones outside of the kept sidecars; returns the number of live files.
    async fn write_files(&self, out: &mut SidecarWriter, rows: &AddRows, now: i64, kept: &[usize]) -> Result<u64> {
        let mut adds = 0;
        let mut batches = self.live_beside(kept, rows.plan_columns())?;
        while let Some(batch) = batches.try_next().await? {
            adds += batch.num_rows() as u64;
            out.write("add", rows.rows(&batch)?).await?;
        }
        for batch in self.tombstones(self.tombstone_cutoff(now), kept).await? {
            out.write("remove", unchanged(&batch)?).await?;
        }
        Ok(adds)
    }
}
