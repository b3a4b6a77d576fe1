//! The rank of a value in a sample: how many of the sample's quantiles are below it, plus half of
//! those that equal it. Values are compared in the order of Arrow's row format, numbers as one
//! integer of its bytes.

use std::borrow::Borrow;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::DataType as ArrowType;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};

use crate::{Error, Result};

/// A column's quantiles.
pub(super) struct Ranked {
    converter: RowConverter,
    cuts: Cuts,
}

/// Ascending, one fewer than there are ranks. Frequent values are repeated, so that ranks use the
/// column's full width even with few distinct values.
enum Cuts {
    Narrow(Vec<u128>),
    Wide(Vec<Box<[u8]>>),
}

impl Ranked {
    /// Ranks with `bits` bits, from a sample of the column.
    pub(super) fn of(sample: &ArrayRef, bits: u32) -> Result<Self> {
        let converter = RowConverter::new(vec![SortField::new(sample.data_type().clone())]).map_err(failed)?;
        let rows = converter
            .convert_columns(std::slice::from_ref(sample))
            .map_err(failed)?;
        let cuts = if is_narrow(sample.data_type()) {
            let mut all: Vec<u128> = rows.iter().map(|r| number(r.as_ref())).collect();
            all.sort_unstable();
            Cuts::Narrow(quantiles(&all, bits))
        } else {
            let mut all: Vec<&[u8]> = rows.iter().map(|r| r.data()).collect();
            all.sort_unstable();
            Cuts::Wide(quantiles(&all, bits).into_iter().map(Box::from).collect())
        };
        Ok(Ranked { converter, cuts })
    }

    /// The rank of each value.
    pub(super) fn places(&self, column: &ArrayRef) -> Result<Vec<u32>> {
        let rows = self
            .converter
            .convert_columns(std::slice::from_ref(column))
            .map_err(failed)?;
        Ok(match &self.cuts {
            Cuts::Narrow(cuts) => rows.iter().map(|row| place(cuts, &number(row.as_ref()))).collect(),
            Cuts::Wide(cuts) => rows.iter().map(|row| place(cuts, row.as_ref())).collect(),
        })
    }
}

fn place<T: Borrow<V>, V: Ord + ?Sized>(cuts: &[T], value: &V) -> u32 {
    let above = cuts.partition_point(|cut| cut.borrow() <= value);
    let (below, _) = cuts.split_at_checked(above).unwrap_or((cuts, &[]));
    let rank = match below.last() {
        // The middle of its range: at an edge, chance would decide to which half of the column it
        // belongs.
        Some(cut) if cut.borrow() == value => (below.partition_point(|cut| cut.borrow() < value) + above) / 2,
        _ => above,
    };
    u32::try_from(rank).unwrap_or(u32::MAX)
}

/// The boundaries of 2^`bits` buckets, each with the same number of these values.
fn quantiles<T: Copy>(sorted: &[T], bits: u32) -> Vec<T> {
    let places = 1_usize << bits;
    let quantile = |place: usize| sorted.get(place * sorted.len() / places).copied();
    (1..places).filter_map(quantile).collect()
}

/// Whether a value's row format fits into a number.
fn is_narrow(t: &ArrowType) -> bool {
    t.primitive_width().is_some_and(|bytes| bytes < size_of::<u128>()) || *t == ArrowType::Boolean
}

fn number(row: &[u8]) -> u128 {
    let mut bytes = [0; size_of::<u128>()];
    bytes.iter_mut().zip(row).for_each(|(slot, byte)| *slot = *byte);
    u128::from_be_bytes(bytes)
}

/// Converts ranks by column to ranks by row.
pub(super) fn transposed(columns: &[Vec<u32>]) -> Vec<u32> {
    let rows = columns.first().map_or(0, Vec::len);
    let mut cells = Vec::with_capacity(rows * columns.len());
    let mut walks: Vec<_> = columns.iter().map(|c| c.iter()).collect();
    for _ in 0..rows {
        cells.extend(walks.iter_mut().filter_map(|walk| walk.next()));
    }
    cells
}

/// A random part of some columns' rows, which depends on the rows' numbers alone.
#[derive(Default)]
pub struct Sample {
    parts: Vec<Vec<ArrayRef>>,
    numbers: Vec<u64>,
    seen: u64,
    level: u32,
}

/// The sample has at most this many rows, and at least half of them if the input has as many.
const SAMPLED_ROWS: usize = 1 << 18;

impl Sample {
    /// Adds these rows to the input.
    ///
    /// # Errors
    /// `Internal` for columns of other types than before.
    pub fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let rows = columns.first().map_or(0, |c| c.len() as u64);
        let (level, from) = (self.level, self.seen);
        let taken: Vec<u64> = (0..rows).filter(|row| is_taken(from + row, level)).collect();
        self.seen += rows;
        self.numbers.extend(taken.iter().map(|row| from + row));
        let part = pick(columns, taken)?;
        self.parts.push(part);
        while self.numbers.len() > SAMPLED_ROWS {
            self.thin()?;
        }
        Ok(())
    }

    /// The sampled rows, column by column; empty without input.
    ///
    /// # Errors
    /// As [`Sample::add`].
    pub fn columns(&self) -> Result<Vec<ArrayRef>> {
        let width = self.parts.first().map_or(0, Vec::len);
        let column = |column_number: usize| {
            let arrays: Vec<&dyn Array> = self
                .parts
                .iter()
                .filter_map(|p| p.get(column_number).map(AsRef::as_ref))
                .collect();
            concat(&arrays).map_err(failed)
        };
        (0..width).map(column).collect()
    }

    fn thin(&mut self) -> Result<()> {
        self.level += 1;
        let whole = self.columns()?;
        let is_retained = |(row, number): (usize, &u64)| is_taken(*number, self.level).then_some(row as u64);
        let rows: Vec<u64> = self.numbers.iter().enumerate().filter_map(is_retained).collect();
        let level = self.level;
        self.numbers.retain(|number| is_taken(*number, level));
        self.parts = vec![pick(&whole, rows)?];
        Ok(())
    }
}

fn pick(columns: &[ArrayRef], rows: Vec<u64>) -> Result<Vec<ArrayRef>> {
    let rows = arrow::array::UInt64Array::from(rows);
    let take = |c: &ArrayRef| arrow::compute::take(c, &rows, None).map_err(failed);
    columns.iter().map(take).collect()
}

/// Whether a row belongs to one in 2^level rows. Numbers are hashed first, since rows often repeat
/// with a period of a power of two.
fn is_taken(number: u64, level: u32) -> bool {
    // The finaliser of splitmix64.
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    mixed.trailing_zeros() >= level
}

pub(super) fn failed(e: ArrowError) -> Error {
    Error::internal(format!("rows can't be ordered: {e}")).with_source(e)
}
