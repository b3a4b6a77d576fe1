//! Splits a file into units of work, without the row groups and pages that can't have a matching
//! row. Pure after the footer was read.

use std::collections::HashSet;

use arrow::array::{BooleanArray, Int64Array};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::deletion_vectors::MOST_ROWS;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::FileRead;
use super::decode::Unit;
use super::pages;
use super::part_stats::{Leaf, judge};
use super::plan::FilePlan;
use super::vectors::{LiveRows, both};

/// Batches per unit at least, so that handing over a unit pays.
const UNIT_BATCHES: usize = 4;
/// Most decoded bytes of a unit, about: every unit in flight may be in memory completely.
const UNIT_BYTES: usize = 96 << 20;

/// How many row groups files have, and how many of them may have a matching row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowGroups {
    /// All of them.
    pub all: usize,
    /// Those that the statistics of the footers don't exclude.
    pub selected: usize,
}

impl RowGroups {
    /// The row groups of a file.
    pub(super) fn of(plan: &FilePlan, file: &FileRead) -> Result<RowGroups> {
        let all = plan.metadata.metadata().row_groups().len();
        let selected = match keep(plan, file, &leaves(plan))? {
            Some(keep) => (0..all).filter(|g| keep.len() <= *g || keep.value(*g)).count(),
            None => all,
        };
        Ok(RowGroups { all, selected })
    }

    /// Adds the counts of other files to those of this one.
    pub(super) fn with(self, others: RowGroups) -> RowGroups {
        RowGroups {
            all: self.all + others.all,
            selected: self.selected + others.selected,
        }
    }
}

/// The columns whose statistics may exclude row groups.
fn leaves(plan: &FilePlan) -> Vec<Leaf> {
    let pruner = plan.prepared.pruner.as_ref();
    let needed = pruner.map(|pruner| pruner.stats_leaves_needed()).into_iter();
    needed.flatten().filter_map(|path| Leaf::find(plan, path)).collect()
}

/// The file's units for `workers` workers. A row group is one unit if possible, because each unit
/// decodes the dictionaries, and the page that it shares with the previous one, again. The last one
/// is divided, so that all workers are busy until the end. A row group of a remote file always is
/// one unit, because its bytes are fetched at once. Row groups in `absent` have no matching row.
pub(super) fn units(
    plan: &FilePlan,
    file: &FileRead,
    live: &LiveRows,
    remote: bool,
    workers: usize,
    absent: &HashSet<usize>,
) -> Result<Vec<Unit>> {
    let groups = plan.metadata.metadata().row_groups();
    let leaves = leaves(plan);
    let keep = keep(plan, file, &leaves)?;
    let is_kept = |row_group: usize| {
        !absent.contains(&row_group) && keep.as_ref().is_none_or(|k| k.len() <= row_group || k.value(row_group))
    };
    let count = (0..groups.len()).filter(|g| is_kept(*g)).count().max(1);
    let last = (0..groups.len()).rev().find(|g| is_kept(*g));
    let mut units = Vec::new();
    // Physical rows before the group, whether read or skipped (P124).
    let mut start = 0_u64;
    for (row_group, group) in groups.iter().enumerate() {
        let sane = usize::try_from(group.num_rows())
            .ok()
            .filter(|n| *n as u64 <= MOST_ROWS);
        let rows = sane.ok_or_else(|| {
            Error::corrupt_file(format!(
                "a data file's row group claims {} rows, which none has: the file is damaged",
                group.num_rows()
            ))
        })?;
        let first = start;
        start = first
            .checked_add(rows as u64)
            .ok_or_else(|| Error::corrupt_file("a data file claims more rows than can be counted: it is damaged"))?;
        if rows == 0 || !is_kept(row_group) {
            continue;
        }
        let most = if remote || plan.decodes_nothing() {
            rows
        } else {
            let sharers = if last == Some(row_group) {
                workers
            } else {
                workers.div_ceil(count)
            };
            let share = rows.div_ceil(sharers.max(1));
            share
                .max(plan.batch_rows.saturating_mul(UNIT_BATCHES))
                .min((UNIT_BYTES / plan.row_bytes).max(plan.batch_rows))
        };
        let paged = pages::selection(plan, file, &leaves, row_group, rows)?;
        let group = Unit {
            row_group,
            first,
            rows,
            selection: both(paged, live.selection(first, rows)),
        };
        cut(group, most, &mut units);
    }
    Ok(units)
}

/// Splits the selected rows of a row group into units of at most about `most` rows.
fn cut(group: Unit, most: usize, units: &mut Vec<Unit>) {
    let Unit {
        row_group,
        first,
        rows,
        selection,
    } = group;
    let selected = selection.as_ref().map_or(rows, RowSelection::row_count);
    if selected == 0 {
        return;
    }
    if selected <= most.saturating_add(most / 2) {
        units.push(Unit {
            row_group,
            first,
            rows: selected,
            selection,
        });
        return;
    }
    let mut rest = selection.unwrap_or_else(|| RowSelection::from(vec![RowSelector::select(rows)]));
    for start in (0..rows).step_by(most) {
        let part = rest.split_off(most.min(rows - start));
        let selected = part.row_count();
        if selected > 0 {
            let from_start = std::iter::once(RowSelector::skip(start)).chain(part.iter().copied());
            units.push(Unit {
                row_group,
                first,
                rows: selected,
                selection: Some(from_start.collect()),
            });
        }
    }
}

/// Which row groups may have a matching row; `None` if nothing is known.
fn keep(plan: &FilePlan, file: &FileRead, leaves: &[Leaf]) -> Result<Option<BooleanArray>> {
    let groups = plan.metadata.metadata().row_groups();
    let stats: Vec<_> = leaves.iter().filter_map(|leaf| leaf.of_groups(plan)).collect();
    let Some(pruner) = plan
        .prepared
        .pruner
        .as_ref()
        .filter(|_| !stats.is_empty() && !groups.is_empty())
    else {
        return Ok(None);
    };
    let rows: Int64Array = groups.iter().map(|g| Some(g.num_rows())).collect();
    judge(pruner, file, rows, &stats).map(Some)
}
