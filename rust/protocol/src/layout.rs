//! Chooses which files of a table to rewrite: small ones together, those with many deleted rows,
//! and those that aren't in the wanted order yet. Facts about files in, groups of files out. Pure.

use std::collections::BTreeMap;

use crate::actions::{Add, PartitionValues};
use crate::zorder::Curve;

#[cfg(test)]
mod tests;

/// Tags of delta-spark for files that one run has clustered together, and their columns.
const CUBE: &str = "ZCUBE_ID";
const ORDERED_BY: &str = "ZCUBE_ZORDER_BY";
const CURVE: &str = "ZCUBE_ZORDER_CURVE";
/// delta-spark's name for clustering in its files.
pub const PROVIDER: &str = "liquid";

/// Smaller tables get the smallest files, tables above the next bound the largest; in between the
/// size grows with the table.
const SMALL_TABLE: i64 = 2_560 << 30;
const LARGE_TABLE: i64 = 10 << 40;
const SMALLEST_TARGET: i64 = 256 << 20;
const LARGEST_TARGET: i64 = 1 << 30;
/// A file of this share of the target size is large enough: rewriting it would gain little.
const LARGE_ENOUGH: f64 = 0.75;
/// Ordered files are ordered again together with new ones unless they have more than this times as
/// many bytes. A byte is thus rewritten as often as the logarithm of the table's size.
const MOST_LARGER: i64 = 2;

/// The target size of files, in bytes, for a table of this size that doesn't set its own.
pub fn automatic_target(table_bytes: i64) -> i64 {
    let beyond = table_bytes.clamp(SMALL_TABLE, LARGE_TABLE) - SMALL_TABLE;
    let share =
        i128::from(LARGEST_TARGET - SMALLEST_TARGET) * i128::from(beyond) / i128::from(LARGE_TABLE - SMALL_TABLE);
    SMALLEST_TARGET + i64::try_from(share).unwrap_or_default()
}

/// The size in bytes from which a file is large enough, for the target size `target`.
pub fn large_enough(target: i64) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let target = target as f64;
    LARGE_ENOUGH * target
}

/// The sort order of a file's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordering {
    /// Logical names.
    pub columns: Vec<String>,
    /// The curve.
    pub curve: Curve,
}

impl Ordering {
    /// The tags of the files of one run.
    pub fn tags(&self, id: &str) -> BTreeMap<String, Option<String>> {
        let columns = serde_json::to_string(&self.columns).unwrap_or_default();
        [
            (CUBE, id.to_owned()),
            (ORDERED_BY, columns),
            (CURVE, self.curve.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), Some(value)))
        .into()
    }
}

/// The facts of a live file that layout needs. The add lacks its statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The file.
    pub add: Add,
    /// Its number of rows including deleted ones, if its statistics state it.
    pub records: Option<i64>,
}

impl Candidate {
    /// The share of its rows that are deleted; 1 if its number of rows is unknown.
    pub fn deleted(&self) -> f64 {
        let Some(vector) = &self.add.deletion_vector else {
            return 0.0;
        };
        #[allow(clippy::cast_precision_loss)]
        self.records
            .filter(|rows| *rows > 0)
            .map_or(1.0, |rows| vector.cardinality as f64 / rows as f64)
    }

    fn tag(&self, key: &str) -> Option<&str> {
        self.add.tags.as_ref()?.get(key)?.as_deref()
    }

    /// The run that ordered it, and the columns.
    fn cube(&self) -> Option<(&str, Vec<String>)> {
        Some((self.tag(CUBE)?, serde_json::from_str(self.tag(ORDERED_BY)?).ok()?))
    }

    /// Whether it is in this order. Files of delta-spark don't always state the curve.
    fn is_in(&self, order: &Ordering) -> bool {
        let curve = self.tag(CURVE).is_none_or(|c| c == order.curve.to_string());
        curve && self.cube().is_some_and(|(_, columns)| columns == order.columns)
    }
}

/// The rules by which files are chosen.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Target size of files in bytes.
    pub target: i64,
    /// Files with a larger share of deleted rows are rewritten.
    pub most_deleted: f64,
    /// Whether all files are rewritten.
    pub full: bool,
}

impl Rules {
    /// Whether a file is considered when small files are joined.
    pub fn is_compacted(&self, file: &Candidate) -> bool {
        #[allow(clippy::cast_precision_loss)]
        let small = (file.add.size as f64) < large_enough(self.target);
        small || self.is_outdated(file)
    }

    /// Whether a file is rewritten even alone: because of its deleted rows, or because it lacks
    /// statistics, which new files have.
    fn is_outdated(&self, file: &Candidate) -> bool {
        file.records.is_none() || file.deleted() > self.most_deleted
    }
}

/// Files of one partition that are rewritten together.
#[derive(Debug, Clone, PartialEq)]
pub struct Bin {
    /// Values of the partition columns.
    pub partition_values: PartitionValues,
    /// The files, oldest first.
    pub files: Vec<Candidate>,
}

impl Bin {
    /// Bytes of its files.
    pub fn bytes(&self) -> i64 {
        bytes(&self.files)
    }
}

fn bytes(files: &[Candidate]) -> i64 {
    files.iter().fold(0, |sum, f| sum.saturating_add(f.add.size))
}

fn by_partition(files: Vec<Candidate>) -> BTreeMap<PartitionValues, Vec<Candidate>> {
    let mut partitions: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for file in files {
        partitions
            .entry(file.add.partition_values.clone())
            .or_default()
            .push(file);
    }
    // Files that were written consecutively have related rows.
    for files in partitions.values_mut() {
        files.sort_by(|a, b| (a.add.modification_time, &a.add.path).cmp(&(b.add.modification_time, &b.add.path)));
    }
    partitions
}

/// Groups of files that become one file each. A single file is rewritten only if it is outdated.
/// Idempotent: on its own result it finds nothing, since any two groups of a partition exceed the
/// target size.
pub fn compacted(files: Vec<Candidate>, rules: &Rules) -> Vec<Bin> {
    let files = files.into_iter().filter(|f| rules.is_compacted(f)).collect();
    let mut bins = Vec::new();
    for (partition_values, files) in by_partition(files) {
        let mut groups = packed(files.into_iter().map(|f| vec![f]), rules.target);
        // Adjacent files first; the remaining ones are then joined, the smallest first.
        groups.sort_by_key(|g| bytes(g));
        for files in packed(groups.into_iter(), rules.target) {
            if files.len() > 1 || files.iter().any(|f| rules.is_outdated(f)) {
                let partition_values = partition_values.clone();
                bins.push(Bin {
                    partition_values,
                    files,
                });
            }
        }
    }
    bins
}

/// Joins adjacent groups as long as they don't exceed this size.
fn packed(groups: impl Iterator<Item = Vec<Candidate>>, most: i64) -> Vec<Vec<Candidate>> {
    let mut packed: Vec<Vec<Candidate>> = Vec::new();
    for group in groups {
        match packed.last_mut() {
            Some(last) if bytes(last).saturating_add(bytes(&group)) <= most => last.extend(group),
            _ => packed.push(group),
        }
    }
    packed
}

/// For each partition the files to order together: those that aren't in the order yet, and of the
/// ordered ones the runs that aren't much larger. With `keeps_others` files in another order stay.
pub fn ordered(files: Vec<Candidate>, order: &Ordering, rules: &Rules, keeps_others: bool) -> Vec<Bin> {
    let mut bins = Vec::new();
    for (partition_values, files) in by_partition(files) {
        let files = if rules.full {
            files
        } else {
            unordered(files, order, rules, keeps_others)
        };
        if !files.is_empty() {
            bins.push(Bin {
                partition_values,
                files,
            });
        }
    }
    bins
}

fn unordered(files: Vec<Candidate>, order: &Ordering, rules: &Rules, keeps_others: bool) -> Vec<Candidate> {
    let (mut new, mut runs): (Vec<Candidate>, BTreeMap<String, Vec<Candidate>>) = Default::default();
    for file in files {
        let cube = file.cube().map(|(id, _)| id.to_owned());
        match cube {
            Some(id) if file.is_in(order) && !rules.is_outdated(&file) => {
                runs.entry(id).or_default().push(file);
            }
            Some(_) if keeps_others && !file.is_in(order) => {}
            _ if keeps_others && file.add.clustering_provider.as_deref().is_some_and(|p| p != PROVIDER) => {}
            _ => new.push(file),
        }
    }
    if new.is_empty() {
        return new;
    }
    let mut runs: Vec<_> = runs.into_values().collect();
    runs.sort_by_key(|run| bytes(run));
    for run in runs {
        if bytes(&run) > bytes(&new).saturating_mul(MOST_LARGER) {
            break;
        }
        new.extend(run);
    }
    new
}
