//! Sorts rows that fit into memory by their keys: only positions are sorted, and rows are gathered
//! slice by slice.

use std::cmp::Ordering;

use arrow::array::Array;
use deltaplane_error::{Error, Result};

use crate::runs::{Keyed, SLICE_ROWS, gather};

/// Sorted rows, as slices.
pub struct Sorted {
    held: Vec<Keyed>,
    order: Vec<(u32, u32)>,
    next: usize,
}

/// A row's position, with the first bytes of its key, which usually decide without reading the
/// whole key.
type Place = (u64, u32, u32);

impl Sorted {
    /// Sorts the rows of these arrays; the sort is stable.
    ///
    /// # Errors
    /// `Internal` for more arrays, or more rows in one, than 32 bits count.
    pub fn of(held: Vec<Keyed>) -> Result<Sorted> {
        let rows = held.iter().map(|k| k.keys.len()).sum();
        let mut places: Vec<Place> = Vec::with_capacity(rows);
        for (array, keyed) in held.iter().enumerate() {
            for row in 0..keyed.keys.len() {
                places.push((head(keyed.keys.value(row)), number(array)?, number(row)?));
            }
        }
        let key = |(_, array, row): &Place| held.get(*array as usize).map(|k| k.keys.value(*row as usize));
        let order = |a: &Place, b: &Place| match a.0.cmp(&b.0) {
            Ordering::Equal => key(a).cmp(&key(b)).then((a.1, a.2).cmp(&(b.1, b.2))),
            decided => decided,
        };
        places.sort_unstable_by(order);
        Ok(Sorted {
            order: places.into_iter().map(|(_, array, row)| (array, row)).collect(),
            held,
            next: 0,
        })
    }
}

fn head(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    head.iter_mut().zip(key).for_each(|(slot, byte)| *slot = *byte);
    u64::from_be_bytes(head)
}

fn number(place: usize) -> Result<u32> {
    u32::try_from(place).map_err(|_| Error::internal("too many rows to sort at once"))
}

impl Iterator for Sorted {
    type Item = Result<Keyed>;

    fn next(&mut self) -> Option<Self::Item> {
        let here = self.order.get(self.next..)?;
        let here = here.get(..SLICE_ROWS.min(here.len())).filter(|h| !h.is_empty())?;
        self.next += here.len();
        let places: Vec<(usize, usize)> = here.iter().map(|(a, r)| (*a as usize, *r as usize)).collect();
        Some(gather(&self.held, &places))
    }
}
