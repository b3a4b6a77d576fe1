//! Writing V2 checkpoints (P056, P062): reuses sidecars of the previous checkpoint that no commit
//! since touched, and rewrites the others together with new files, as `compaction` chooses.

use arrow::array::{Array, RecordBatch};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::actions::claimed_sum;
use deltaplane_protocol::files::order::FileOrder;
use deltaplane_protocol::paths::{self, LogFile};
use deltaplane_sorting::{Keyed, Run, merge};
use futures::{StreamExt, TryStreamExt, stream};
use parquet::basic::Compression;

use crate::checkpoint::file::{CheckpointFile, ORDER_KEY, Pages};
use crate::checkpoint::part::{FileActions, Part};
use crate::checkpoint::reader::{Checked, CheckpointReader};
use crate::checkpoint::sidecar_stats::{SidecarFile, Span};
use crate::checkpoint_writer::CheckpointReport;
use crate::checkpoint_writer::live_files::{Target, parts};
use crate::checkpoint_writer::rows::{
    AddRows, manifest_schema, sidecar_array, sidecar_schema, unchanged, version_array,
};
use crate::checkpoint_writer::sidecars::compaction::{Piece, SidecarCompaction, plan_compaction, sidecar_files};
use crate::checkpoint_writer::sidecars::{SidecarWriter, WrittenSidecars};
use crate::checkpoint_writer::sort::Sorter;
use crate::commit::reader::is_damage;
use crate::environment::new_id;
use crate::listing::last_checkpoint::TopFile;
use crate::{Snapshot, now_ms};

/// Longest time to write a checkpoint: clean-up spares sidecars that no checkpoint names for a day.
const LONGEST_WRITE_MS: i64 = 12 * 3_600_000;
/// Sidecars whose keys are read concurrently.
const AT_A_TIME: usize = 4;
/// Sidecars whose filters are read concurrently: each is some kilobytes.
const FILTERS_AT_A_TIME: usize = 32;

/// The previous checkpoint, whose sidecars may be reused.
struct Base<'a> {
    parts: &'a [Part],
    order: FileOrder,
    /// The sidecars of live files.
    live: Vec<LiveSidecar>,
    /// The reusable sidecars of tombstones, as indexes of the checkpoint's parts.
    tombstones: Vec<usize>,
}

struct LiveSidecar {
    /// Its index among the checkpoint's parts.
    part: usize,
    span: Span,
    adds: u64,
    touched: bool,
}

/// The sidecars of a new checkpoint.
struct Sidecars {
    /// Reused sidecars of the previous checkpoint.
    retained: Vec<SidecarFile>,
    kept_actions: u64,
    new: WrittenSidecars,
    order: Option<FileOrder>,
}

impl Snapshot {
    /// Writes a V2 checkpoint, or finds that this version has one.
    pub(crate) async fn write_v2(&self) -> Result<(CheckpointReport, TopFile)> {
        if let Some(there) = self.v2_there().await? {
            return Ok(there);
        }
        let now = now_ms();
        let rows = AddRows::of(self.state());
        let base = match self.base(&rows, now).await {
            Err(e) if is_damage(&e) => None,
            result => result?,
        };
        let sidecars = match &base {
            None => self.all_sidecars(&rows, now).await?,
            Some(base) => match self.sidecars_beside(base, &rows, now).await {
                // As plans do, falls back to other sources if the checkpoint is damaged; sidecars
                // written so far are unreferenced.
                Err(e) if is_damage(&e) => self.all_sidecars(&rows, now).await?,
                written => written?,
            },
        };
        self.write_top(sidecars, &rows, now).await
    }

    /// The V2 checkpoint that this version was opened from, if it is sound: a second one would be
    /// useless.
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
        let sidecars = reader.parts().await?.iter().filter(|p| p.sidecar.is_some()).count() as u64;
        let file = TopFile {
            path: top.name.to_string(),
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

    /// The previous checkpoint, if it is one of deltaplane in an order that suits the table, and
    /// its sidecars can't have been cleaned up meanwhile.
    async fn base(&self, rows: &AddRows, now: i64) -> Result<Option<Base<'_>>> {
        let Some(checkpoint) = self.checkpoint_reader().filter(|_| self.is_fresh()) else {
            return Ok(None);
        };
        let clustering = self.clustering().await?;
        let order = checkpoint.sidecars_order().await?.and_then(FileOrder::from_text);
        let fits = |o: &FileOrder, files| o.fits(rows.schema().fields(), &clustering, files);
        let Some(order) = order else { return Ok(None) };
        let parts = checkpoint.parts().await?;
        let (mut live, mut tombstones, mut files) = (Vec::new(), Vec::new(), self.new_files()?);
        for (part, touched) in self.touched_sidecars(parts, now).await? {
            let Some(range) = parts.get(part).and_then(Part::range) else {
                return Ok(None);
            };
            match (range.adds, range.removes) {
                (adds, 0) => {
                    let Some(span) = range.span(&order)? else {
                        return Ok(None);
                    };
                    files = files.saturating_add(adds);
                    live.push(LiveSidecar {
                        part,
                        span,
                        adds,
                        touched,
                    });
                }
                (0, removes) if !touched => tombstones.push((removes, part)),
                (0, _) => {}
                _ => return Ok(None),
            }
        }
        if !fits(&order, files) {
            return Ok(None);
        }
        // Sidecars with fewer tombstones than are new are rewritten together with them, as small
        // sidecars of live files are.
        let (mut coming, mut reused) = (self.tail()?.replay.touched() as u64, Vec::new());
        tombstones.sort_unstable();
        for (removes, part) in tombstones {
            if removes > coming {
                reused.push(part);
            } else {
                coming = coming.saturating_add(removes);
            }
        }
        reused.sort_unstable();
        Ok(Some(Base {
            parts,
            order,
            live,
            tombstones: reused,
        }))
    }

    /// For each of these files that is a sidecar, by its index, whether later commits touched its
    /// files, or one of its tombstones has expired. Reads the keys of few sidecars: what is known
    /// of their paths rules most of them out.
    async fn touched_sidecars(&self, parts: &[Part], now: i64) -> Result<Vec<(usize, bool)>> {
        let mut paths: Vec<&str> = self.tail()?.replay.paths().collect();
        paths.sort_unstable();
        let sidecars = parts.iter().enumerate().filter(|(_, p)| p.sidecar.is_some());
        let places: Vec<usize> = sidecars.map(|(place, _)| place).collect();
        let paths = &paths;
        let suspected = |place: usize| async move {
            let suspect = match parts.get(place) {
                Some(part) => part.may_have(FileActions::Removes) || part.may_have_path(paths).await,
                None => true,
            };
            (place, suspect)
        };
        let suspects: Vec<(usize, bool)> = stream::iter(places)
            .map(suspected)
            .buffered(FILTERS_AT_A_TIME)
            .boxed()
            .collect()
            .await;
        let decided = |(place, suspect): (usize, bool)| async move {
            let touched = match parts.get(place).filter(|_| suspect) {
                Some(part) => self.is_touched(part, now).await?,
                None => false,
            };
            Ok::<_, Error>((place, touched))
        };
        stream::iter(suspects)
            .map(decided)
            .buffered(AT_A_TIME)
            .boxed()
            .try_collect()
            .await
    }

    /// Whether later commits touched a sidecar's files, or one of its tombstones has expired.
    async fn is_touched(&self, part: &Part, now: i64) -> Result<bool> {
        let (replay, cutoff) = (&self.tail()?.replay, self.tombstone_cutoff(now));
        let mut batches = CheckpointReader::keys(part);
        while let Some(batch) = batches.try_next().await? {
            if replay.checkpoint(&batch)?.true_count() < batch.num_rows() || any_expired(&batch, cutoff) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All live files and tombstones in new sidecars.
    async fn all_sidecars(&self, rows: &AddRows, now: i64) -> Result<Sidecars> {
        let mut files = self.new_files()?;
        if let Some(checkpoint) = self.checkpoint_reader() {
            files = match checkpoint.rows().await {
                Err(e) if is_damage(&e) => files,
                rows => files.saturating_add(rows? as u64),
            };
        }
        let mut writer = self.sidecar_writer(rows);
        writer.begin(sidecar_files(files)).await?;
        let order = self.write_sorted(&mut Target::Sidecars(&mut writer), rows).await?;
        self.write_tombstones(&mut writer, now, &[]).await?;
        Ok(Sidecars {
            retained: Vec::new(),
            kept_actions: 0,
            new: writer.finish().await?,
            order,
        })
    }

    fn sidecar_writer(&self, rows: &AddRows) -> SidecarWriter {
        SidecarWriter::new(self.store(), sidecar_schema(rows.schema()), self.compression())
    }

    async fn write_tombstones(&self, writer: &mut SidecarWriter, now: i64, retained: &[usize]) -> Result<()> {
        let tombstones = self.tombstones(self.tombstone_cutoff(now), retained).await?;
        writer.begin(u64::MAX).await?;
        for batch in tombstones {
            writer.write_removes(unchanged(&batch)?).await?;
        }
        Ok(())
    }

    /// Writes new sidecars for all that the reused ones lack.
    async fn sidecars_beside(&self, base: &Base<'_>, rows: &AddRows, now: i64) -> Result<Sidecars> {
        let new_files = self.new_files()?;
        let live = base.live.iter().fold(new_files, |n, s| n.saturating_add(s.adds));
        let full = sidecar_files(live);
        let SidecarCompaction { runs, small } = Self::chosen(base, new_files, full);
        let mut rewritten: Vec<usize> = runs.iter().chain([&small]).flatten().copied().collect();
        rewritten.sort_unstable();
        let mut sorter = Sorter::default();
        let mut is_all_held = true;
        for batch in &self.tail()?.live {
            for part in parts(batch) {
                if sorter.hold(rows.rows(&part)?) && !sorter.make_room(&base.order)? {
                    // No room to sort them: everything is written in pieces.
                    return self.all_sidecars(rows, now).await;
                }
                is_all_held &= sorter.is_all_held();
            }
        }
        let mut rest: Run<'_> = sorter.take(&base.order)?;
        let mut writer = self.sidecar_writer(rows);
        let mut new = NewFiles { held: Vec::new() };
        if is_all_held {
            new.held = rest.try_collect().await?;
            rest = stream::empty().boxed();
        }
        for run in &runs {
            let among = new.take_between(base.span_of(run));
            self.write_anew(&mut writer, base, rows, run, among, full).await?;
        }
        writer.begin(full).await?;
        let mut all: Vec<Run<'_>> = small.iter().filter_map(|i| self.again(base, *i, rows)).collect();
        all.push(stream::iter(new.held.into_iter().map(Ok)).chain(rest).boxed());
        writer.write_run(&base.order, merge(all)).await?;
        let reused = base
            .live
            .iter()
            .enumerate()
            .filter(|(i, _)| rewritten.binary_search(i).is_err());
        let mut retained: Vec<usize> = reused
            .map(|(_, s)| s.part)
            .chain(base.tombstones.iter().copied())
            .collect();
        retained.sort_unstable();
        // Sidecars of live files never have tombstones.
        self.write_tombstones(&mut writer, now, &retained).await?;
        let retained_parts = || retained.iter().filter_map(|i| base.parts.get(*i));
        let actions = retained_parts()
            .filter_map(Part::range)
            .map(|r| r.adds.saturating_add(r.removes));
        Ok(Sidecars {
            retained: retained_parts().filter_map(|p| p.sidecar.clone()).collect(),
            kept_actions: actions.fold(0, u64::saturating_add),
            new: writer.finish().await?,
            order: Some(base.order.clone()),
        })
    }

    fn chosen<'a>(base: &'a Base<'_>, new_files: u64, full: u64) -> SidecarCompaction {
        let piece = |s: &'a LiveSidecar| Piece {
            first: &s.span.first,
            last: &s.span.last,
            files: s.adds,
            touched: s.touched,
        };
        let pieces: Vec<Piece<'_>> = base.live.iter().map(piece).collect();
        let mut chosen = plan_compaction(&pieces, new_files, full);
        chosen
            .runs
            .sort_by_key(|run| base.span_of(run).map(|(first, _)| first.to_vec()));
        chosen
    }

    /// Rewrites these sidecars and new files as one run, in sidecars of about equal size.
    async fn write_anew(
        &self,
        writer: &mut SidecarWriter,
        base: &Base<'_>,
        rows: &AddRows,
        run: &[usize],
        among: Vec<Keyed>,
        full: u64,
    ) -> Result<()> {
        let new = among.iter().map(|k| k.keys.len() as u64);
        let before = run.iter().filter_map(|i| base.live.get(*i)).map(|s| s.adds);
        let files = before.chain(new).fold(0, u64::saturating_add);
        // A run slightly above the size of one sidecar stays one.
        let sidecars = files.div_ceil(full + full / 2).max(1);
        writer.begin(files.div_ceil(sidecars)).await?;
        let mut all: Vec<Run<'_>> = run.iter().filter_map(|i| self.again(base, *i, rows)).collect();
        all.push(stream::iter(among.into_iter().map(Ok)).boxed());
        writer.write_run(&base.order, merge(all)).await
    }

    /// The files of a sidecar that are still live.
    fn again<'a>(&'a self, base: &'a Base<'_>, sidecar: usize, rows: &'a AddRows) -> Option<Run<'a>> {
        let part = base.parts.get(base.live.get(sidecar)?.part)?;
        Some(self.again_in_order(part, &base.order, rows))
    }

    async fn write_top(&self, sidecars: Sidecars, rows: &AddRows, now: i64) -> Result<(CheckpointReport, TopFile)> {
        let Sidecars {
            retained,
            kept_actions,
            new,
            order,
        } = sidecars;
        let (retained_count, new_bytes) = (retained.len(), claimed_sum(new.files.iter().map(|s| s.size_in_bytes)));
        let named: Vec<SidecarFile> = retained.into_iter().chain(new.files).collect();
        let key = paths::uuid_checkpoint(self.version(), &new_id().to_string());
        let schema = manifest_schema(rows.schema());
        let mut top =
            CheckpointFile::create(self.store(), key.clone(), schema, Compression::SNAPPY, Pages::Indexed).await?;
        top.write("checkpointMetadata", version_array(self.version())?).await?;
        self.write_state(&mut top, now).await?;
        top.write("sidecar", sidecar_array(&named)?).await?;
        if let Some(order) = order {
            top.note(ORDER_KEY, order.to_text()?);
        }
        if now_ms().saturating_sub(now) > LONGEST_WRITE_MS || !(retained_count == 0 || self.is_fresh()) {
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
            actions: kept_actions + new.adds + new.removes + top.actions,
            adds: new.adds,
            size_bytes: top.size_bytes.saturating_add(u64::try_from(new_bytes).unwrap_or(0)),
            sidecars: named.len() as u64,
            kept_sidecars: retained_count as u64,
        };
        Ok((report, file))
    }
}

impl Base<'_> {
    /// The first and last key of these sidecars.
    fn span_of(&self, run: &[usize]) -> Option<(&[u8], &[u8])> {
        let spans = || run.iter().filter_map(|i| self.live.get(*i)).map(|s| &s.span);
        let first = spans().map(|s| s.first.as_slice()).min()?;
        Some((first, spans().map(|s| s.last.as_slice()).max()?))
    }
}

/// New files in their order; each run takes those between its keys.
struct NewFiles {
    held: Vec<Keyed>,
}

impl NewFiles {
    /// The files between these keys.
    fn take_between(&mut self, span: Option<(&[u8], &[u8])>) -> Vec<Keyed> {
        let Some((first, last)) = span else { return Vec::new() };
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for slice in self.held.drain(..) {
            let all = slice.keys.len();
            let from = slice.place(|key| key < first);
            let until = slice.place(|key| key <= last).max(from);
            let some = [(0, from, &mut left), (from, until, &mut taken)];
            for (from, until, to) in some {
                to.extend((from < until).then(|| slice.slice(from, until - from)));
            }
            left.extend((until < all).then(|| slice.slice(until, all - until)));
        }
        self.held = left;
        taken
    }
}

/// Whether one of these rows is an expired tombstone.
fn any_expired(batch: &RecordBatch, cutoff_ms: i64) -> bool {
    let rows = deltaplane_protocol::files::rows::FileRows::new(batch);
    batch.column_by_name("deletionTimestamp").is_some()
        && (0..batch.num_rows()).any(|row| rows.deletion_timestamp(row) <= cutoff_ms)
}
