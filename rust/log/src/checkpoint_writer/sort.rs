//! Sorts live files for a checkpoint: holds as many as memory allows, and spills the rest to
//! temporary files until all are merged.

use arrow::array::{Array, StructArray};
use deltaplane_error::Result;
use deltaplane_protocol::files::order::FileOrder;
use deltaplane_sorting::{Keyed, Run, Sorted, SpilledRun, merge};
use futures::StreamExt;
use futures::stream;
use tracing::warn;

/// Bytes of rows in memory: some 40,000 files with statistics of eight columns.
const HELD_BYTES: usize = 32 << 20;
/// Bytes of temporary files at most, enough to sort some twenty million files together.
const SPILLED_BYTES: u64 = 16 << 30;

/// Files that are being sorted.
#[derive(Default)]
pub(crate) struct Sorter {
    held: Vec<StructArray>,
    bytes: usize,
    spilled: Vec<SpilledRun>,
    spilled_bytes: u64,
}

impl Sorter {
    /// Adds these rows; true if memory is full.
    pub(crate) fn hold(&mut self, rows: StructArray) -> bool {
        // Counts only these rows' part of buffers shared with other rows: otherwise a buffer would
        // count many times.
        let size = rows.to_data().get_slice_memory_size();
        self.bytes = self
            .bytes
            .saturating_add(size.unwrap_or_else(|_| rows.get_array_memory_size()));
        self.held.push(rows);
        self.bytes >= HELD_BYTES
    }

    /// The rows in memory.
    pub(crate) fn held(&self) -> &[StructArray] {
        &self.held
    }

    /// Whether all rows are still in memory.
    pub(crate) fn is_all_held(&self) -> bool {
        self.spilled.is_empty()
    }

    /// Spills rows to make room. False if the limit of temporary files is reached: the caller then
    /// takes the sorted rows.
    pub(crate) fn make_room(&mut self, order: &FileOrder) -> Result<bool> {
        // With an empty order there is nothing to sort.
        if order.is_empty() || self.spilled_bytes >= SPILLED_BYTES {
            return Ok(false);
        }
        let sorted = sorted(&self.held, order)?;
        match SpilledRun::write(sorted, self.spilled.len()) {
            Ok(run) => {
                self.spilled_bytes += run.as_ref().map_or(0, SpilledRun::size_bytes);
                self.spilled.extend(run);
                self.held.clear();
                self.bytes = 0;
                Ok(true)
            }
            Err(e) => {
                warn!(error = %e, "the checkpoint is sorted in pieces");
                Ok(false)
            }
        }
    }

    /// All rows, sorted.
    pub(crate) fn take(&mut self, order: &FileOrder) -> Result<Run<'static>> {
        let taken = std::mem::take(self);
        let mut runs = taken
            .spilled
            .into_iter()
            .map(SpilledRun::read)
            .collect::<Result<Vec<_>>>()?;
        runs.push(stream::iter(sorted(&taken.held, order)?).boxed());
        Ok(merge(runs))
    }
}

/// The rows of these arrays in order, in slices.
fn sorted(held: &[StructArray], order: &FileOrder) -> Result<Sorted> {
    let held = held
        .iter()
        .map(|rows| {
            let keys = order.keys(rows)?;
            Ok(Keyed {
                rows: rows.clone(),
                keys,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    Sorted::of(held)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::{Field, Int64Type};
    use deltaplane_store::block_on;
    use futures::TryStreamExt;
    use std::sync::Arc;

    fn nested(name: &str, inner: ArrayRef) -> ArrayRef {
        let field = Arc::new(Field::new(name, inner.data_type().clone(), true));
        Arc::new(StructArray::from(vec![(field, inner)]))
    }

    fn adds(days: &[i64]) -> StructArray {
        let day = nested("day", Arc::new(Int64Array::from(days.to_vec())));
        nested("partitionValues_parsed", day).as_struct().clone()
    }

    #[test]
    fn what_left_memory_comes_back_in_order() {
        let numbers: Vec<i64> = (0..5_000).map(|n| n * 617 % 5_000).collect();
        let order = FileOrder::choose(&[adds(&[1])], &[], 1).unwrap();
        let mut sorter = Sorter::default();
        for some in numbers.chunks(900) {
            assert!(!sorter.hold(adds(some)), "far from what memory holds");
            assert!(sorter.make_room(&order).unwrap() && !sorter.is_all_held());
        }
        assert!(sorter.held().is_empty() && sorter.spilled_bytes > 0);
        sorter.hold(adds(&[-1, 17]));
        let sorted: Vec<Keyed> = block_on(sorter.take(&order).unwrap().try_collect()).unwrap();
        let day = |k: &Keyed| {
            k.rows
                .column(0)
                .as_struct()
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        };
        let mut expected: Vec<i64> = (0..5_000).chain([-1, 17]).collect();
        expected.sort_unstable();
        assert_eq!(sorted.iter().flat_map(day).collect::<Vec<_>>(), expected);
        assert!(sorter.is_all_held() && sorter.held().is_empty());
    }

    #[test]
    fn without_an_order_nothing_waits_to_be_sorted() {
        let order = FileOrder::choose(&[], &[], 0).unwrap();
        let mut sorter = Sorter::default();
        sorter.hold(adds(&[2, 1]));
        assert!(order.is_empty() && !sorter.make_room(&order).unwrap());
    }
}
