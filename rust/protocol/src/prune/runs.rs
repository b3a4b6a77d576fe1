//! Skips whole runs of files: a row group or some pages of a checkpoint, of which only Parquet's
//! own statistics were read. Owns the trust in these statistics; the reader locates them in a file.

use std::collections::BTreeSet;

use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array};
use arrow::datatypes::DataType as ArrowType;

use super::bounds::{Bounds, Leaf, LeafBounds, convert, is_ordered};
use super::tree::{Known, Tree, TreeBuilder};
use crate::Result;
use crate::expr::Predicate;
use crate::mapping::Mapping;
use crate::schema::{Primitive, StructType};

/// A predicate prepared for skipping runs of files. Judges a run by the least minimum and the
/// greatest maximum of its files, so it keeps every run with a file that
/// [`Pruner::keep`](super::Pruner::keep) keeps.
#[derive(Debug, Clone)]
pub struct RunPruner {
    tree: Tree,
    leaves: Vec<Leaf>,
    sources: Vec<RunBounds>,
}

/// The location of a leaf's bounds in a row of the column `add`, as paths below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunBounds {
    /// The leaf whose least value is a lower bound of all files of a run that have one.
    pub min: Vec<String>,
    /// The leaf whose greatest value is an upper bound.
    pub max: Vec<String>,
    /// Whether a null there is an unknown value, so that a run with nulls has no bounds. For a
    /// partition value null is a value.
    pub null_is_unknown: bool,
}

/// Least minimum and greatest maximum of each run; a null is unknown.
pub type RunRange = (ArrayRef, ArrayRef);

impl RunPruner {
    pub(super) fn new(
        predicate: &Predicate,
        schema: &StructType,
        partition_columns: &[String],
        mapping: Mapping,
    ) -> Result<RunPruner> {
        // For a run a partition value is a statistic like any other.
        let mut builder = TreeBuilder::new(schema, &[], mapping);
        let tree = builder.build(&predicate.node().normal_form())?;
        let (leaves, _) = builder.finish();
        let partitions: BTreeSet<&str> = partition_columns
            .iter()
            .map(|p| mapping.partition_key(schema, p))
            .collect();
        let sources = leaves.iter().map(|l| source(l, &partitions)).collect();
        Ok(RunPruner { tree, leaves, sources })
    }

    /// The bounds that [`RunPruner::keep`] needs, in its order.
    pub fn bounds(&self) -> &[RunBounds] {
        &self.sources
    }

    /// For each run whether one of its files may have a matching row; never null. A range of `None`
    /// is an unknown leaf.
    pub fn keep(&self, runs: usize, ranges: &[Option<RunRange>]) -> Result<BooleanArray> {
        let counts = Int64Array::new_null(runs);
        let bounds = self
            .leaves
            .iter()
            .zip(&self.sources)
            .enumerate()
            .map(|(i, (leaf, bounds_of_leaf))| {
                let range = ranges.get(i).and_then(Option::as_ref);
                let bound = |array: &ArrayRef, up| match leaf.ty {
                    Some(ty) if is_ordered(ty) && trusted(ty, array.data_type(), bounds_of_leaf) => {
                        convert(array, ty, up)
                    }
                    _ => Ok(None),
                };
                let (min, max) = match range {
                    Some((min, max)) => (bound(min, false)?, bound(max, true)?),
                    None => (None, None),
                };
                LeafBounds::new(leaf, min, max, &counts, &counts)
            });
        let bounds = Bounds {
            leaves: bounds.collect::<Result<_>>()?,
        };
        self.tree.may_match(&Known {
            rows: runs,
            exact: &[],
            bounds: &bounds,
        })
    }
}

fn source(leaf: &Leaf, partitions: &BTreeSet<&str>) -> RunBounds {
    let below = |parts: &[&str]| {
        let head = parts.iter().map(|p| (*p).to_owned());
        head.chain(leaf.path.iter().cloned()).collect()
    };
    match leaf.path.as_slice() {
        [name] if partitions.contains(name.as_str()) => RunBounds {
            min: below(&["partitionValues_parsed"]),
            max: below(&["partitionValues_parsed"]),
            null_is_unknown: false,
        },
        _ => RunBounds {
            min: below(&["stats_parsed", "minValues"]),
            max: below(&["stats_parsed", "maxValues"]),
            null_is_unknown: true,
        },
    }
}

/// As for single files, a partition value is used only if its text is unambiguous and its type is
/// the table's.
fn trusted(ty: Primitive, data_type: &ArrowType, run: &RunBounds) -> bool {
    let exact = *data_type == crate::arrow_types::primitive_to_arrow(ty);
    run.null_is_unknown || (exact && !matches!(ty, Primitive::Timestamp | Primitive::TimestampNtz))
}
