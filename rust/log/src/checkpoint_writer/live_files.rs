//! The live files of a snapshot as the rows of a new checkpoint, in one order: merged with the rows
//! of the previous checkpoint if those are in a suitable order, otherwise sorted.

use std::borrow::Cow;

use arrow::array::{BinaryArray, RecordBatch, StructArray};
use arrow::compute::concat_batches;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::clustering;
use deltaplane_protocol::files::order::FileOrder;
use deltaplane_protocol::replay::Replay;
use deltaplane_sorting::{Keyed, Run, merge};
use futures::{StreamExt, TryStreamExt, stream};

use crate::Snapshot;
use crate::checkpoint::file::CheckpointFile;
use crate::checkpoint::part::{FileActions, Part};
use crate::checkpoint::reader::{CheckpointReader, PlanColumns};
use crate::checkpoint_writer::rows::AddRows;
use crate::checkpoint_writer::sidecars::SidecarWriter;
use crate::checkpoint_writer::sort::Sorter;
use crate::commit::reader::is_damage;
use crate::snapshot::filter;

/// Rows that are converted at once: statistics take several times their size meanwhile.
const LAID_OUT_ROWS: usize = 8 * 1024;

/// The destination of live files.
pub(crate) enum Target<'a> {
    /// The single file of a classic checkpoint.
    File(&'a mut CheckpointFile),
    /// The sidecars of a V2 checkpoint.
    Sidecars(&'a mut SidecarWriter),
}

impl Target<'_> {
    async fn write_run(&mut self, order: &FileOrder, run: Run<'_>) -> Result<()> {
        match self {
            Target::File(file) => file.write_run(run).await,
            Target::Sidecars(sidecars) => sidecars.write_run(order, run).await,
        }
    }
}

/// All live files in an order that a checkpoint records.
pub(crate) struct InOrder<'a> {
    pub order: FileOrder,
    pub run: Run<'a>,
}

impl Snapshot {
    /// The table's clustering columns; empty if its domain can't be read, because a checkpoint is
    /// needed all the same.
    pub(crate) async fn clustering(&self) -> Result<Vec<Vec<String>>> {
        let domains = self.domains().await?;
        let domain = domains.iter().find(|d| d.domain == clustering::DOMAIN);
        Ok(domain.and_then(|d| clustering::columns(d).ok()).unwrap_or_default())
    }

    /// Number of files that commits since the checkpoint added.
    pub(crate) fn new_files(&self) -> Result<u64> {
        Ok(self.tail()?.live.iter().map(|b| b.num_rows() as u64).sum())
    }

    /// The order that the single file of a checkpoint records, if it still suits the table.
    pub(crate) async fn noted_order(&self, checkpoint: &CheckpointReader, rows: &AddRows) -> Result<Option<FileOrder>> {
        let Some(order) = checkpoint.order_note().await?.and_then(FileOrder::from_text) else {
            return Ok(None);
        };
        let clustering = self.clustering().await?;
        let files = (checkpoint.rows().await? as u64).saturating_add(self.new_files()?);
        Ok(Some(order).filter(|o| o.fits(rows.schema().fields(), &clustering, files)))
    }

    /// The checkpoint's live files merged with those of later commits. `None` if the checkpoint has
    /// no order, or one that no longer suits the table.
    pub(crate) async fn live_in_order<'a>(&'a self, rows: &'a AddRows) -> Result<Option<InOrder<'a>>> {
        let Some(checkpoint) = self.checkpoint_reader() else {
            return Ok(None);
        };
        let Some(order) = self.noted_order(checkpoint, rows).await? else {
            return Ok(None);
        };
        let Some(new) = self.new_in_order(&order, rows)? else {
            return Ok(None);
        };
        let mut runs = Vec::new();
        for part in checkpoint.parts_in_order().await? {
            runs.push(self.again_in_order(part, &order, rows));
        }
        runs.push(new);
        Ok(Some(InOrder {
            order,
            run: merge(runs),
        }))
    }

    /// The files of the commits since the checkpoint, sorted. `None` if there is no room to sort
    /// them.
    pub(crate) fn new_in_order(&self, order: &FileOrder, rows: &AddRows) -> Result<Option<Run<'static>>> {
        let mut sorter = Sorter::default();
        let (tail, new) = (self.tail()?, usize::try_from(self.new_files()?).unwrap_or(usize::MAX));
        for batch in together(&tail.live, new)?.iter() {
            for some in parts(batch) {
                if sorter.hold(rows.rows(&some)?) && !sorter.make_room(order)? {
                    return Ok(None);
                }
            }
        }
        sorter.take(order).map(Some)
    }

    /// The files of one part of the checkpoint that are still live. Errors: `CorruptFile` if they
    /// aren't in this order.
    pub(crate) fn again_in_order<'a>(&'a self, part: &'a Part, order: &FileOrder, rows: &'a AddRows) -> Run<'a> {
        let begun = async move {
            let (replay, is_sound) = (&self.tail()?.replay, part.is_sound().await?);
            let batches = CheckpointReader::part_files(part, FileActions::Adds, PlanColumns::Parsed, None);
            Ok::<_, Error>((batches, replay, is_sound))
        };
        let (order, mut last) = (order.clone(), Vec::new());
        let mut keyed = move |(batch, replay, is_sound): (RecordBatch, &Replay, bool)| {
            let batch = filter(&batch, &replay.checkpoint(&batch)?)?;
            let rows = match is_sound {
                true => rows.rows_again(&batch)?,
                false => rows.rows(&batch)?,
            };
            let keys = order.keys(&rows)?;
            follows(&mut last, &keys)?;
            Ok(Keyed { rows, keys })
        };
        stream::once(begun)
            .map_ok(|(batches, replay, is_sound)| batches.map_ok(move |batch| (batch, replay, is_sound)))
            .try_flatten()
            .map(move |item| item.and_then(&mut keyed))
            .boxed()
    }

    /// Sorts the live files into one file or sidecars. Returns their order, unless they were
    /// written in unsorted pieces.
    pub(crate) async fn write_sorted(&self, out: &mut Target<'_>, rows: &AddRows) -> Result<Option<FileOrder>> {
        let clustering = self.clustering().await?;
        let (mut adds, mut pieces, mut sorter, mut order) = (0, 0, Sorter::default(), None);
        let mut batches = self.plan(None, rows.plan_columns());
        while let Some(batch) = batches.try_next().await? {
            for part in parts(&batch) {
                adds += part.num_rows() as u64;
                let laid_out = rows.rows(&part)?;
                if sorter.hold(laid_out) {
                    let order = match &mut order {
                        Some(order) => order,
                        none => none.insert(self.sampled_order(rows, &clustering, sorter.held()).await?),
                    };
                    if !sorter.make_room(order)? {
                        out.write_run(order, sorter.take(order)?).await?;
                        pieces += 1;
                    }
                }
            }
        }
        let order = match order {
            Some(order) => order,
            None => FileOrder::choose(sorter.held(), &clustering, adds)?,
        };
        out.write_run(&order, sorter.take(&order)?).await?;
        // With an empty order, pieces one after the other are in order too.
        Ok(Some(order).filter(|o| pieces == 0 || o.is_empty()))
    }

    /// Chooses the order for a table of which only a part is in memory.
    async fn sampled_order(
        &self,
        rows: &AddRows,
        clustering: &[Vec<String>],
        held: &[StructArray],
    ) -> Result<FileOrder> {
        let (mut sample, mut files) = (held.to_vec(), 0);
        let tail = self.tail()?;
        for batch in &tail.live {
            files += batch.num_rows();
        }
        if let Some(checkpoint) = self.checkpoint_reader() {
            match self.checkpoint_sample(checkpoint, rows).await {
                // The plan replaces a damaged checkpoint.
                Err(e) if is_damage(&e) => {}
                order => {
                    (sample, files) = order.map(|(sample, rows)| (sample, files + rows))?;
                }
            }
        }
        FileOrder::choose(&sample, clustering, files as u64)
    }

    /// A sample of the checkpoint's files, and the number of all.
    async fn checkpoint_sample(
        &self,
        checkpoint: &CheckpointReader,
        rows: &AddRows,
    ) -> Result<(Vec<StructArray>, usize)> {
        let batches: Vec<_> = checkpoint.sample().try_collect().await?;
        let sample = batches.iter().map(|batch| rows.rows(batch)).collect::<Result<_>>()?;
        Ok((sample, checkpoint.rows().await?))
    }
}

/// Combines batches of few rows: each batch has a fixed cost.
fn together(batches: &[RecordBatch], rows: usize) -> Result<Cow<'_, [RecordBatch]>> {
    match batches {
        [first, _, ..] if rows <= LAID_OUT_ROWS => {
            let joined = concat_batches(first.schema_ref(), batches)
                .map_err(|e| Error::internal(format!("file actions can't be put together: {e}")).with_source(e))?;
            Ok(Cow::Owned(vec![joined]))
        }
        _ => Ok(Cow::Borrowed(batches)),
    }
}

/// A batch in pieces that are converted one after the other.
pub(crate) fn parts(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    (0..rows)
        .step_by(LAID_OUT_ROWS)
        .map(move |start| batch.slice(start, LAID_OUT_ROWS.min(rows - start)))
}

/// Fails if these keys aren't in order, or don't follow the last one before them: the recorded
/// order is wrong.
fn follows(last: &mut Vec<u8>, keys: &BinaryArray) -> Result<()> {
    let mut before = last.as_slice();
    for key in keys.iter().flatten() {
        if key < before {
            return Err(Error::corrupt_file(
                "the checkpoint isn't in the order that its footer notes: it is sorted again",
            ));
        }
        before = key;
    }
    *last = before.to_vec();
    Ok(())
}
