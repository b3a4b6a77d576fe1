//! Skips pages of a row group that can't have a matching row, by the file's page index. Columns
//! have different pages, so the row ranges between any two page starts are judged.

use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, UInt32Array};
use arrow::compute::take;
use deltaplane_error::{Error, Result};
use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::page_index::PageIndexProvider;

use super::FileRead;
use super::part_stats::{Leaf, LeafStats, judge};
use super::plan::FilePlan;

/// The rows of a row group that may match; `None` if all may, or nothing is known.
pub(super) fn selection(
    plan: &FilePlan,
    file: &FileRead,
    leaves: &[Leaf],
    row_group: usize,
    rows: usize,
) -> Result<Option<RowSelection>> {
    let (Some(pruner), Some(index)) = (&plan.prepared.pruner, plan.metadata.metadata().page_index()) else {
        return Ok(None);
    };
    let index = index.as_ref();
    let paged: Vec<Paged> = leaves
        .iter()
        .filter_map(|leaf| Paged::new(plan, index, row_group, rows, leaf))
        .collect();
    let mut starts: Vec<usize> = paged.iter().flat_map(|p| p.starts.iter().copied()).collect();
    starts.sort_unstable();
    starts.dedup();
    // With one page each, the row group's statistics were equivalent.
    if starts.len() < 2 {
        return Ok(None);
    }
    let ends = starts.iter().copied().skip(1).chain([rows]);
    let ranges: Vec<Range<usize>> = starts.iter().copied().zip(ends).map(|(a, b)| a..b).collect();
    let stats = paged.iter().map(|p| p.at(&starts)).collect::<Result<Vec<_>>>()?;
    let counts: Int64Array = ranges.iter().map(|r| i64::try_from(r.len()).ok()).collect();
    let keep: BooleanArray = judge(pruner, file, counts, &stats)?;
    if keep.true_count() == ranges.len() {
        return Ok(None);
    }
    let selected = ranges
        .into_iter()
        .zip(keep.values())
        .filter_map(|(r, k)| k.then_some(r));
    Ok(Some(RowSelection::from_consecutive_ranges(selected, rows)))
}

/// A leaf's statistics by page, and the first row of each page.
struct Paged {
    stats: LeafStats,
    starts: Vec<usize>,
}

impl Paged {
    fn new(
        plan: &FilePlan,
        index: &dyn PageIndexProvider,
        row_group: usize,
        rows: usize,
        leaf: &Leaf,
    ) -> Option<Paged> {
        let pages = index.page_locations(row_group, leaf.index)?;
        let starts: Vec<usize> = pages
            .iter()
            .map(|p| usize::try_from(p.first_row_index).ok())
            .collect::<Option<_>>()?;
        // Otherwise it isn't an index of this row group.
        let ascending = starts.windows(2).all(|w| matches!(w, [a, b] if a < b));
        if !ascending || starts.first() != Some(&0) || starts.last().is_none_or(|last| *last >= rows) {
            return None;
        }
        let stats = leaf.of_pages(plan, index, row_group)?;
        let complete = [&stats.min, &stats.max, &stats.nulls]
            .iter()
            .all(|a| a.len() == starts.len());
        complete.then_some(Paged { stats, starts })
    }

    /// The statistics of the pages with these rows.
    fn at(&self, rows: &[usize]) -> Result<LeafStats> {
        let page = |row: &usize| u32::try_from(self.starts.partition_point(|s| s <= row).saturating_sub(1)).ok();
        let pages: UInt32Array = rows.iter().map(page).collect();
        let pick = |array: &ArrayRef| {
            take(array, &pages, None).map_err(|e| Error::internal(format!("statistics of pages: {e}")))
        };
        Ok(LeafStats {
            path: self.stats.path.clone(),
            min: pick(&self.stats.min)?,
            max: pick(&self.stats.max)?,
            nulls: pick(&self.stats.nulls)?,
        })
    }
}
