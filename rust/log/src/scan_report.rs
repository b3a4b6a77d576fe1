//! Counts what a scan's plan read and why it skipped files, while the plan runs: the figures of
//! `explain`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow::array::{BooleanArray, RecordBatch};
use deltaplane_error::Result;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::prune::Pruner;
use serde::{Deserialize, Serialize};

/// The figures of a plan. Each file of a checkpoint is counted once, by the stage that left it out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanReport {
    /// Live files that commits after the checkpoint added.
    pub in_commits: u64,
    /// Row groups of adds in the checkpoint.
    pub row_groups: u64,
    /// Row groups of the checkpoint that weren't read, since their statistics exclude matching
    /// files.
    pub row_groups_skipped: u64,
    /// Files of the checkpoint; if a row group's footer doesn't tell, all its rows count as adds.
    pub in_checkpoint: u64,
    /// Files of the checkpoint in row groups that weren't read.
    pub skipped_by_row_groups: u64,
    /// Files of the checkpoint in pages that weren't decoded, since the pages' statistics exclude
    /// matching files.
    pub skipped_by_pages: u64,
    /// Files whose partition values don't match.
    pub skipped_by_partition: u64,
    /// Files whose own statistics rule them out.
    pub skipped_by_statistics: u64,
    /// Files that an index of keys excludes.
    pub skipped_by_index: u64,
    /// Files of the checkpoint that later commits removed or added again, and duplicates in the
    /// checkpoint.
    pub replaced: u64,
    /// Files in the plan.
    pub selected: u64,
    /// Their bytes.
    pub selected_bytes: u64,
    /// Files in the plan only because they lack statistics of a column that the predicate needs, by
    /// the column's path.
    pub selected_without_statistics: BTreeMap<String, u64>,
}

/// Counters that the plan increments.
#[derive(Debug, Default)]
pub(crate) struct ScanCounters {
    in_commits: AtomicU64,
    row_groups: AtomicU64,
    row_groups_skipped: AtomicU64,
    in_checkpoint: AtomicU64,
    skipped_by_row_groups: AtomicU64,
    skipped_by_pages: AtomicU64,
    skipped_by_partition: AtomicU64,
    skipped_by_statistics: AtomicU64,
    skipped_by_index: AtomicU64,
    replaced: AtomicU64,
    selected: AtomicU64,
    selected_bytes: AtomicU64,
    unknown: Mutex<BTreeMap<String, u64>>,
}

fn grow(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl ScanCounters {
    pub(crate) fn in_commits(&self, files: usize) {
        grow(&self.in_commits, files);
    }

    /// Counts row groups and their adds, and how many of them remain after skipping.
    pub(crate) fn row_groups(&self, all: (usize, usize), selected: (usize, usize)) {
        grow(&self.row_groups, all.0);
        grow(&self.in_checkpoint, all.1);
        grow(&self.row_groups_skipped, all.0.saturating_sub(selected.0));
        grow(&self.skipped_by_row_groups, all.1.saturating_sub(selected.1));
    }

    pub(crate) fn skipped_by_pages(&self, rows: usize) {
        grow(&self.skipped_by_pages, rows);
    }

    pub(crate) fn replaced(&self, files: usize) {
        grow(&self.replaced, files);
    }

    /// The pruner's result for these files, counted by the statistics that it used.
    pub(crate) fn judge(&self, pruner: &Pruner, files: &RecordBatch) -> Result<BooleanArray> {
        let keep = pruner.keep(files)?;
        if keep.true_count() < files.num_rows() {
            let matching = pruner.keep_by_partitions(files)?.true_count();
            let left = pruner.keep_by_statistics(files)?.true_count();
            grow(&self.skipped_by_partition, files.num_rows().saturating_sub(matching));
            grow(&self.skipped_by_statistics, matching.saturating_sub(left));
            grow(&self.skipped_by_index, left.saturating_sub(keep.true_count()));
        }
        Ok(keep)
    }

    /// Counts files in the plan.
    pub(crate) fn kept(&self, pruner: &Pruner, files: &RecordBatch) -> Result<()> {
        let rows = FileRows::new(files);
        let bytes = (0..files.num_rows()).map(|r| u64::try_from(rows.size(r)).unwrap_or(0));
        grow(&self.selected, files.num_rows());
        self.selected_bytes
            .fetch_add(bytes.fold(0, u64::saturating_add), Ordering::Relaxed);
        for (path, count) in pruner.without_statistics(files)? {
            let mut unknown = self.unknown.lock().unwrap_or_else(PoisonError::into_inner);
            *unknown.entry(path.join(".")).or_default() += count as u64;
        }
        Ok(())
    }

    pub(crate) fn report(&self) -> ScanReport {
        let value_of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ScanReport {
            in_commits: value_of(&self.in_commits),
            row_groups: value_of(&self.row_groups),
            row_groups_skipped: value_of(&self.row_groups_skipped),
            in_checkpoint: value_of(&self.in_checkpoint),
            skipped_by_row_groups: value_of(&self.skipped_by_row_groups),
            skipped_by_pages: value_of(&self.skipped_by_pages),
            skipped_by_partition: value_of(&self.skipped_by_partition),
            skipped_by_statistics: value_of(&self.skipped_by_statistics),
            skipped_by_index: value_of(&self.skipped_by_index),
            replaced: value_of(&self.replaced),
            selected: value_of(&self.selected),
            selected_bytes: value_of(&self.selected_bytes),
            selected_without_statistics: self.unknown.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
