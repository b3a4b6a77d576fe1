//! Reuses row groups of the previous classic checkpoint: groups whose files are all still live are
//! copied as bytes, because decoding and encoding a large checkpoint for each hundred small commits
//! would cost more than those commits. New files form groups of their own after them until there
//! are many.

use std::ops::Range;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::files::order::FileOrder;
use deltaplane_sorting::{Run, merge};
use futures::TryStreamExt;
use parquet::arrow::ArrowSchemaConverter;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use crate::Snapshot;
use crate::checkpoint::file::{CheckpointFile, ROW_GROUP_ROWS};
use crate::checkpoint::live_row_groups::LiveGroups;
use crate::checkpoint::part::{Part, is_all_null, is_of};
use crate::checkpoint::reader::CheckpointReader;
use crate::checkpoint_writer::rows::{AddRows, classic_schema};

/// From this many files on, live files have row groups of their own; a smaller checkpoint is
/// quickly written as a whole.
const APART_FILES: u64 = 20_000;
/// Each checkpoint writes the recently added files again, until they are more than one in this many
/// of the sorted files; then all files are sorted together.
const SORTED_TO_RECENT: u64 = 32;

/// The previous checkpoint, if most of its groups can be reused.
pub(crate) struct Base<'a> {
    part: &'a Part,
    pub order: FileOrder,
    groups: LiveGroups,
    /// The sorted groups that have lost files since.
    touched: Vec<usize>,
}

impl Snapshot {
    /// Whether a checkpoint of this version keeps live files in row groups of their own.
    pub(crate) async fn keeps_groups_apart(&self) -> Result<bool> {
        let older = match self.checkpoint_reader() {
            Some(checkpoint) => checkpoint.rows().await? as u64,
            None => 0,
        };
        Ok(older.saturating_add(self.new_files()?) >= APART_FILES)
    }

    /// The previous checkpoint, if it is a classic one of deltaplane with the table's current
    /// columns, and most of its groups can be reused.
    pub(crate) async fn base_of_groups(&self, rows: &AddRows) -> Result<Option<Base<'_>>> {
        let Some(checkpoint) = self.checkpoint_reader() else {
            return Ok(None);
        };
        let (order, Some(part)) = (
            self.noted_order(checkpoint, rows).await?,
            checkpoint.parts().await?.first(),
        ) else {
            return Ok(None);
        };
        let (Some(order), Some(groups)) = (order, LiveGroups::of(part)) else {
            return Ok(None);
        };
        let footer = part.footer().await?;
        if !are_live_files(footer, &groups) || !has_columns_of(footer, rows)? {
            return Ok(None);
        }
        let (sorted, recent) = (rows_of(footer, &groups.sorted), rows_of(footer, &groups.recent));
        if recent.saturating_add(self.new_files()?) > sorted / SORTED_TO_RECENT
            || groups.sorted.len() as u64 > 2 * (sorted / ROW_GROUP_ROWS as u64 + 1)
        {
            return Ok(None);
        }
        let mut touched = Vec::new();
        for group in groups.sorted.clone() {
            if self.is_group_touched(part, group).await? {
                touched.push(group);
            }
        }
        // If most groups must be rewritten, sorting everything costs little more.
        let stands = touched.len() * 2 <= groups.sorted.len();
        Ok(stands.then_some(Base {
            part,
            order,
            groups,
            touched,
        }))
    }

    async fn is_group_touched(&self, part: &Part, group: usize) -> Result<bool> {
        let (replay, alone) = (&self.tail()?.replay, part.only(group..group + 1).await?);
        let mut batches = CheckpointReader::keys(&alone);
        while let Some(batch) = batches.try_next().await? {
            if replay.checkpoint(&batch)?.true_count() < batch.num_rows() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes all live files: reused groups of the previous checkpoint, then newer files. Returns
    /// which groups they are.
    pub(crate) async fn write_beside(
        &self,
        base: &Base<'_>,
        out: &mut CheckpointFile,
        rows: &AddRows,
    ) -> Result<LiveGroups> {
        let Base {
            part,
            order,
            groups,
            touched,
        } = base;
        let no_room = || Error::internal("the files of a few commits can't be sorted for a checkpoint");
        let new = self.new_in_order(order, rows)?.ok_or_else(no_room)?;
        let first = out.end_group().await?;
        let whole = part.with_page_index(groups.sorted.clone()).await?;
        for group in groups.sorted.clone() {
            if touched.contains(&group) {
                let alone = part.only(group..group + 1).await?;
                out.write_run(self.again_in_order(&alone, order, rows)).await?;
                out.end_group().await?;
            } else {
                out.copy_group(&part.reused_row_group(&whole, group).await?).await?;
            }
        }
        let sorted = out.end_group().await?;
        let recent = part.only(groups.recent.clone()).await?;
        let again: Run<'_> = self.again_in_order(&recent, order, rows);
        out.write_run(merge(vec![again, new])).await?;
        Ok(LiveGroups::between(first, sorted, out.end_group().await?))
    }
}

/// Whether these groups exist and have only adds.
fn are_live_files(footer: &ParquetMetaData, groups: &LiveGroups) -> bool {
    let is_alone = |group: &RowGroupMetaData| {
        let mut others = group.columns().iter().filter(|c| !is_of(c, "add"));
        others.all(is_all_null)
    };
    let groups_at = footer.row_groups().get(groups.sorted.start..groups.recent.end);
    groups_at.is_some_and(|groups| groups.iter().all(is_alone))
}

/// Whether a file has exactly the columns of these rows: with statistics as text only where the
/// table wants them.
fn has_columns_of(footer: &ParquetMetaData, rows: &AddRows) -> Result<bool> {
    let wanted = ArrowSchemaConverter::new().convert(&classic_schema(rows.schema()));
    let wanted =
        wanted.map_err(|e| Error::internal(format!("the checkpoint can't be laid out: {e}")).with_source(e))?;
    let columns = footer.row_groups().iter().flat_map(|g| g.columns());
    let mut texts = columns.filter(|c| c.column_path().string() == "add.stats");
    let is_same = footer.file_metadata().schema_descr().root_schema() == wanted.root_schema();
    Ok(is_same && (rows.keeps_json() || texts.all(is_all_null)))
}

fn rows_of(footer: &ParquetMetaData, groups: &Range<usize>) -> u64 {
    let groups_of_range = footer.row_groups().get(groups.clone()).unwrap_or_default();
    groups_of_range
        .iter()
        .map(|g| u64::try_from(g.num_rows()).unwrap_or(0))
        .sum()
}
