//! Sort keys that bring rows close to each other if several of their columns are close: each
//! column's values become ranks by the quantiles of a sample, so that skew doesn't matter, and the
//! ranks a position on a curve or a leaf of a tree. Supports every type with an order; nulls come
//! first. Pure.

mod ranks;
mod tree;

use std::fmt;
use std::str::FromStr;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, RecordBatch};
use arrow::compute::{is_null, nullif};

use crate::curves::{MOST_BITS, hilbert, z_order};
use crate::schema::{DataType, Primitive, StructType};
use crate::stats_columns::split_name;
use crate::{Error, Result};
pub use ranks::Sample;
use ranks::{Ranked, transposed};
use tree::Tree;

/// With more columns each would have too few bits.
pub const MOST_COLUMNS: usize = 12;
/// Bits of all columns' ranks together, within the bounds for one column.
const BITS: u32 = 40;
const LEAST_BITS: u32 = 8;
const MOST_COLUMN_BITS: u32 = 16;
/// Bits of a leaf's number.
const LEAF_BITS: u32 = 32;

/// The curve that orders rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Curve {
    /// The Z-order curve.
    ZOrder,
    /// The Hilbert curve: rows close on it are close in every column.
    Hilbert,
    /// The leaves of a k-d tree, which divides the rows by one column after the other; one leaf per
    /// file.
    KdTree,
}

impl FromStr for Curve {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Curve::ZOrder, Curve::Hilbert, Curve::KdTree]
            .into_iter()
            .find(|c| c.to_string() == name)
            .ok_or_else(|| {
                Error::invalid_argument(format!(
                    "`{name}` isn't an order of rows: use zorder, hilbert or kdtree"
                ))
            })
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Curve::ZOrder => "zorder",
            Curve::Hilbert => "hilbert",
            Curve::KdTree => "kdtree",
        })
    }
}

/// The paths of columns, by their names in the schema. Fields of structs are named with dots.
///
/// # Errors
/// `InvalidArgument` for no columns, too many, a repeated one, a partition column, or one that is
/// unknown or has no order.
pub fn paths(schema: &StructType, partition_columns: &[String], columns: &[String]) -> Result<Vec<Vec<String>>> {
    if columns.is_empty() || columns.len() > MOST_COLUMNS {
        return Err(Error::invalid_argument(format!(
            "rows are ordered by one to {MOST_COLUMNS} columns, not by {}",
            columns.len()
        )));
    }
    let mut distinct: Vec<Vec<String>> = Vec::with_capacity(columns.len());
    for column in columns {
        let path = path_of(schema, column)?;
        if partition_columns.contains(path.first().unwrap_or(column)) {
            return Err(Error::invalid_argument(format!(
                "`{column}` is a partition column, which has one value in each file: leave it out"
            )));
        }
        if distinct.contains(&path) {
            return Err(Error::invalid_argument(format!("the column `{column}` is given twice")));
        }
        distinct.push(path);
    }
    Ok(distinct)
}

fn path_of(schema: &StructType, column: &str) -> Result<Vec<String>> {
    let missing = || Error::invalid_argument(format!("`{column}` isn't a column of the table"));
    let (mut here, mut path, mut leaf) = (Some(schema), Vec::new(), None);
    for part in split_name(column) {
        let field = here.and_then(|s| s.field_ignore_case(&part)).ok_or_else(missing)?;
        path.push(field.name.clone());
        here = match &field.data_type {
            DataType::Struct(s) => Some(s),
            _ => None,
        };
        leaf = Some(&field.data_type);
    }
    match leaf {
        Some(DataType::Primitive(p)) if !matches!(p, Primitive::Void | Primitive::Variant) => Ok(path),
        Some(other) => Err(Error::invalid_argument(format!(
            "rows can't be ordered by `{column}`: the type {other} has no order"
        ))),
        None => Err(missing()),
    }
}

/// The columns at these paths of a batch; a field of a null struct is null.
///
/// # Errors
/// `Internal` for a batch without such a column.
pub fn columns_of(batch: &RecordBatch, paths: &[Vec<String>]) -> Result<Vec<ArrayRef>> {
    paths.iter().map(|path| column_of(batch, path)).collect()
}

fn column_of(batch: &RecordBatch, path: &[String]) -> Result<ArrayRef> {
    let lacks = || Error::internal(format!("rows to be ordered have no column `{}`", path.join(".")));
    let (first, rest) = path.split_first().ok_or_else(lacks)?;
    let mut column = batch.column_by_name(first).ok_or_else(lacks)?.clone();
    for part in rest {
        let parent = column.as_struct_opt().ok_or_else(lacks)?;
        let child = parent.column_by_name(part).ok_or_else(lacks)?;
        column = nullif(child, &is_null(parent).map_err(ranks::failed)?).map_err(ranks::failed)?;
    }
    Ok(column)
}

/// An order of rows, chosen from a sample of them.
pub struct RowOrder {
    columns: Vec<Ranked>,
    bits: u32,
    curve: Curve,
    tree: Option<Tree>,
}

impl RowOrder {
    /// Chooses the order for rows of which these columns are a random sample, and for this number
    /// of files.
    ///
    /// # Errors
    /// `Internal` for a type without an order.
    pub fn choose(sample: &[ArrayRef], curve: Curve, files: u64) -> Result<RowOrder> {
        let columns = u32::try_from(sample.len()).unwrap_or(u32::MAX).max(1);
        let bits = BITS.div_ceil(columns).clamp(LEAST_BITS, MOST_COLUMN_BITS);
        if bits * columns + LEAF_BITS > MOST_BITS {
            return Err(Error::internal(format!("{columns} columns are too many for one curve")));
        }
        let ranked = sample.iter().map(|c| Ranked::of(c, bits)).collect::<Result<Vec<_>>>()?;
        let tree = match curve {
            Curve::KdTree => {
                let places = ranked.iter().zip(sample).map(|(r, c)| r.places(c));
                let places = places.collect::<Result<Vec<_>>>()?;
                Some(Tree::balanced(&transposed(&places), bits, sample.len(), files))
            }
            Curve::ZOrder | Curve::Hilbert => None,
        };
        Ok(RowOrder {
            columns: ranked,
            bits,
            curve,
            tree,
        })
    }

    /// A key for each row of these columns; rows are sorted by the bytes of their keys.
    ///
    /// # Errors
    /// `Internal` for columns of other types than the sample's.
    pub fn keys(&self, columns: &[ArrayRef]) -> Result<BinaryArray> {
        let places = self.columns.iter().zip(columns).map(|(r, c)| r.places(c));
        let places = transposed(&places.collect::<Result<Vec<_>>>()?);
        let rows = columns.first().map_or(0, Array::len);
        let (width, unused) = self.key_bytes();
        let mut keys = BinaryBuilder::with_capacity(rows, rows * width);
        let mut cell = vec![0; self.columns.len()];
        for row in places.chunks_exact(self.columns.len().max(1)) {
            cell.copy_from_slice(row);
            keys.append_value(self.key(&mut cell).to_be_bytes().get(unused..).unwrap_or_default());
        }
        Ok(keys.finish())
    }

    /// The length of the key prefix that rows of one file share; 0 if files are split by size
    /// alone.
    pub fn file_bytes(&self) -> usize {
        // Only a leaf's number precedes the position on the curve.
        if self.tree.is_some() {
            self.key_bytes().0 - self.curve_bytes()
        } else {
            0
        }
    }

    fn key(&self, cell: &mut [u32]) -> u128 {
        let leaf = self.tree.as_ref().map_or(0, |t| t.leaf(cell));
        let place = match self.curve {
            Curve::ZOrder => z_order(cell.iter().copied(), self.bits),
            Curve::Hilbert | Curve::KdTree => hilbert(cell, self.bits),
        };
        (u128::from(leaf) << (8 * self.curve_bytes())) | place
    }

    fn curve_bytes(&self) -> usize {
        let bits = self.bits as usize * self.columns.len();
        bits.div_ceil(8)
    }

    /// The length of a key, and the number of leading zero bytes to skip.
    fn key_bytes(&self) -> (usize, usize) {
        let leaf = self.tree.as_ref().map_or(0, |_| LEAF_BITS as usize / 8);
        let width = (leaf + self.curve_bytes()).min(size_of::<u128>());
        (width, size_of::<u128>() - width)
    }
}

#[cfg(test)]
mod tests;
