//! File skipping: which files of an add batch may have a row for which a predicate is TRUE. A file
//! is dropped only if partition values or statistics make that certain (P164-P168, P170). Columnar
//! and pure; `log` calls it on every batch of a plan, conflict checks on the winners' adds.

mod bounds;
#[cfg(test)]
mod catalyst_properties;
mod contradiction;
mod json_scalar;
mod json_shape;
mod json_stats;
mod json_values;
mod keys;
mod logged;
#[cfg(test)]
mod model;
mod partitions;
#[cfg(test)]
mod properties;
mod runs;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{and, take};
use arrow::datatypes::{Fields, Int64Type};
use arrow::error::ArrowError;

use self::bounds::{Bounds, Leaf};
pub use self::contradiction::stats_contradiction;
pub use self::keys::{AbsentFiles, CoveredFiles, KeyTest, Keys};
pub use self::logged::LoggedStats;
use self::partitions::PartitionColumn;
pub use self::runs::{RunBounds, RunPruner, RunRange};
use self::tree::{Known, Tree, TreeBuilder};
use crate::expr::{Predicate, child};
use crate::mapping::Mapping;
use crate::schema::StructType;
use crate::{Error, Result};

/// A predicate prepared for skipping files of one table schema.
#[derive(Debug, Clone)]
pub struct Pruner {
    tree: Tree,
    leaves: Vec<Leaf>,
    leaf_paths: Vec<Vec<String>>,
    partitions: Vec<PartitionColumn>,
    partition_names: Vec<String>,
    runs: RunPruner,
    absent: Option<Arc<AbsentFiles>>,
}

impl Pruner {
    /// Prepares a predicate that was bound to this schema, whose columns the log names by
    /// `mapping`.
    pub fn new(
        predicate: &Predicate,
        schema: &StructType,
        partition_columns: &[String],
        mapping: Mapping,
    ) -> Result<Pruner> {
        let mut builder = TreeBuilder::new(schema, partition_columns, mapping);
        let tree = builder.build(&predicate.node().normal_form())?;
        let (leaves, partitions) = builder.finish();
        Ok(Pruner {
            tree,
            leaf_paths: leaves.iter().map(|l| l.path.clone()).collect(),
            leaves,
            partition_names: partitions.iter().map(|p| p.physical.clone()).collect(),
            partitions,
            runs: RunPruner::new(predicate, schema, partition_columns, mapping)?,
            absent: None,
        })
    }

    /// The same without these files, which an index excludes.
    #[must_use]
    pub fn excluding(&self, absent: AbsentFiles) -> Pruner {
        Pruner {
            absent: Some(Arc::new(absent)),
            ..self.clone()
        }
    }

    /// The same predicate for runs of files.
    pub fn runs(&self) -> &RunPruner {
        &self.runs
    }

    /// Physical names of the partition columns that the predicate needs.
    pub fn partition_columns_needed(&self) -> &[String] {
        &self.partition_names
    }

    /// Whether a struct of these fields suffices for the partition columns that the predicate
    /// needs, so that their texts needn't be read.
    pub fn believes_partition_structs(&self, fields: &Fields) -> bool {
        self.partitions.iter().all(|c| partitions::is_believed(c, fields))
    }

    /// Physical paths of the leaves whose statistics the predicate needs.
    pub fn stats_leaves_needed(&self) -> &[Vec<String>] {
        &self.leaf_paths
    }

    /// For each file whether it may have a matching row; never null.
    ///
    /// Columns are found by name and may be absent: `partitionValues` (map of strings),
    /// `partitionValues_parsed`, `stats` (JSON), `stats_parsed`. JSON is parsed only for files that
    /// all other columns left. What an index excludes is found by `path` and `size`.
    pub fn keep(&self, files: &RecordBatch) -> Result<BooleanArray> {
        let mask = self.keep_by_statistics(files)?;
        match &self.absent {
            Some(absent) => absent.without(files, mask),
            None => Ok(mask),
        }
    }

    /// As `keep`, without what an index excludes.
    pub fn keep_by_statistics(&self, files: &RecordBatch) -> Result<BooleanArray> {
        let rows = files.num_rows();
        let partitions = partitions::batch(&self.partitions, files)?;
        let exact = self.tree.evaluate_exact(&partitions, rows)?;
        let parsed = files.column_by_name("stats_parsed");
        let from_structs = match parsed {
            Some(stats) => bounds::from_structs(&self.leaves, stats)?,
            None => Bounds::unknown(&self.leaves, rows)?,
        };
        let mask = self.tree.may_match(&Known {
            rows,
            exact: &exact,
            bounds: &from_structs,
        })?;
        match self.json_rows(files, parsed, &mask) {
            Some((texts, indices)) => self.keep_by_json(&exact, &mask, texts, &indices),
            None => Ok(mask),
        }
    }

    /// For each file whether its partition values may match, whatever its statistics; never null.
    pub fn keep_by_partitions(&self, files: &RecordBatch) -> Result<BooleanArray> {
        let rows = files.num_rows();
        let partitions = partitions::batch(&self.partitions, files)?;
        self.tree.may_match(&Known {
            rows,
            exact: &self.tree.evaluate_exact(&partitions, rows)?,
            bounds: &Bounds::unknown(&self.leaves, rows)?,
        })
    }

    /// For each needed leaf the number of these files without one of its bounds, by physical path;
    /// only leaves with such files.
    pub fn without_statistics(&self, files: &RecordBatch) -> Result<Vec<(Vec<String>, usize)>> {
        let rows = files.num_rows();
        let parsed = match files.column_by_name("stats_parsed") {
            Some(stats) => bounds::from_structs(&self.leaves, stats)?,
            None => Bounds::unknown(&self.leaves, rows)?,
        };
        let logged = match files.column_by_name("stats") {
            Some(texts) => json_stats::bounds(&self.leaves, texts)?,
            None => Bounds::unknown(&self.leaves, rows)?,
        };
        let leaves = parsed.leaves.iter().zip(&logged.leaves).zip(&self.leaf_paths);
        Ok(leaves
            .map(|((parsed, logged), path)| {
                let is_known = |row: usize| [parsed, logged].iter().any(|b| b.is_known(row));
                (path.clone(), (0..rows).filter(|row| !is_known(*row)).count())
            })
            .filter(|(_, count)| *count > 0)
            .collect())
    }

    /// The files whose JSON must be parsed: remaining so far, and without parsed statistics.
    fn json_rows<'a>(
        &self,
        files: &'a RecordBatch,
        parsed: Option<&ArrayRef>,
        mask: &BooleanArray,
    ) -> Option<(&'a ArrayRef, UInt32Array)> {
        let texts = files.column_by_name("stats").filter(|_| !self.leaves.is_empty())?;
        let counts = parsed
            .filter(|stats| self.leaves.iter().all(|l| bounds::has_leaf(l, stats)))
            .and_then(|stats| child(stats, "numRecords").ok().flatten());
        let indices: UInt32Array = (0..mask.len())
            .filter(|i| mask.value(*i) && texts.is_valid(*i) && counts.as_ref().is_none_or(|c| c.is_null(*i)))
            .filter_map(|i| u32::try_from(i).ok())
            .map(Some)
            .collect();
        (!indices.is_empty()).then_some((texts, indices))
    }

    fn keep_by_json(
        &self,
        exact: &[BooleanArray],
        candidates: &BooleanArray,
        texts: &ArrayRef,
        indices: &UInt32Array,
    ) -> Result<BooleanArray> {
        if indices.len() == candidates.len() {
            // All of them, so no copy is needed.
            let bounds = json_stats::bounds(&self.leaves, texts)?;
            return self.tree.may_match(&Known {
                rows: candidates.len(),
                exact,
                bounds: &bounds,
            });
        }
        let texts = take(texts, indices, None).map_err(failed)?;
        let bounds = json_stats::bounds(&self.leaves, &texts)?;
        let exact: Vec<BooleanArray> = exact
            .iter()
            .map(|e| take(e, indices, None).map(|a| a.as_boolean().clone()))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        let may = self.tree.may_match(&Known {
            rows: indices.len(),
            exact: &exact,
            bounds: &bounds,
        })?;
        let mut mask = arrow::array::BooleanBufferBuilder::new(candidates.len());
        mask.append_n(candidates.len(), true);
        for (row, keep) in indices.values().iter().zip(may.values().iter()) {
            mask.set_bit(*row as usize, keep);
        }
        and(candidates, &BooleanArray::new(mask.finish(), None)).map_err(failed)
    }
}

fn failed(e: ArrowError) -> Error {
    Error::internal(format!("files can't be pruned: {e}")).with_source(e)
}

/// TRUE values as a mask; NULL counts as false.
fn certain(a: &BooleanArray) -> BooleanArray {
    match a.nulls() {
        Some(nulls) => BooleanArray::new(a.values() & nulls.inner(), None),
        None => a.clone(),
    }
}

fn int64(array: &ArrayRef) -> Result<arrow::array::Int64Array> {
    let wide = arrow::compute::cast(array, &arrow::datatypes::DataType::Int64).map_err(failed)?;
    Ok(wide.as_primitive::<Int64Type>().clone())
}
