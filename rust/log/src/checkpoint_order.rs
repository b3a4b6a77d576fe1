//! Live files on their way into a checkpoint: as many as memory allows are held and sorted, so that what a predicate wants
//! stands in few pages. Called by the checkpoint writer; the order itself is the protocol crate's matter.

use arrow::array::{Array, AsArray, StructArray, UInt32Array};
use arrow::compute::interleave;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::file_order::file_order;

/// Bytes of rows that are sorted at once: some 150,000 files with statistics of eight columns. A larger table's checkpoint
/// is sorted in so many pieces, of which a reader looks into each.
const HELD_BYTES: usize = 128 << 20;
/// Rows that leave at once.
const SLICE_ROWS: usize = 16 * 1024;

/// Rows that are held.
pub(crate) struct Ordered {
    /// Physical paths of the columns that the table is clustered by.
    clustering: Vec<Vec<String>>,
    held: Vec<StructArray>,
    bytes: usize,
}

impl Ordered {
    /// Begins with none.
    pub(crate) fn new(clustering: Vec<Vec<String>>) -> Self {
        Ordered {
            clustering,
            held: Vec::new(),
            bytes: 0,
        }
    }

    /// Holds these rows too; true when it is time to take them.
    pub(crate) fn push(&mut self, rows: StructArray) -> bool {
        self.bytes = self.bytes.saturating_add(rows.get_array_memory_size());
        self.held.push(rows);
        self.bytes >= HELD_BYTES
    }

    /// All held rows in their order.
    pub(crate) fn take(&mut self) -> Result<Sorted> {
        let held = std::mem::take(&mut self.held);
        self.bytes = 0;
        Ok(Sorted {
            order: file_order(&held, &self.clustering)?,
            starts: held
                .iter()
                .scan(0, |next, rows| {
                    let start = *next;
                    *next += rows.len();
                    Some(start)
                })
                .collect(),
            held,
            next: 0,
        })
    }
}

/// Slices of sorted rows.
pub(crate) struct Sorted {
    held: Vec<StructArray>,
    /// Where each of the arrays begins among all rows.
    starts: Vec<usize>,
    order: UInt32Array,
    next: usize,
}

impl Iterator for Sorted {
    type Item = Result<StructArray>;

    fn next(&mut self) -> Option<Self::Item> {
        let here = self.order.values().get(self.next..)?;
        let here = here.get(..SLICE_ROWS.min(here.len())).filter(|h| !h.is_empty())?;
        self.next += here.len();
        let place = |row: &u32| {
            let row = *row as usize;
            let array = self.starts.partition_point(|s| *s <= row).saturating_sub(1);
            (array, row - self.starts.get(array).copied().unwrap_or(0))
        };
        let places: Vec<(usize, usize)> = here.iter().map(place).collect();
        let arrays: Vec<&dyn Array> = self.held.iter().map(|a| a as &dyn Array).collect();
        let rows = interleave(&arrays, &places)
            .map_err(|e| Error::internal(format!("the checkpoint's rows can't be sorted: {e}")).with_source(e));
        Some(rows.map(|r| r.as_struct().clone()))
    }
}
