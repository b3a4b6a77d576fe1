//! The new values of a file's columns, divided by row group, and merged with old ones. Knows no
//! file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MutableArrayData, RecordBatch, make_array};
use arrow::error::ArrowError;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::deletion_vectors::Positions;

/// Rows encoded at once.
const CHUNK_ROWS: usize = 65_536;

/// The new values; those of the next row group are taken one after the other.
pub(super) struct NewValues {
    pub(super) values: RecordBatch,
    /// The rows that get them; `None` for all.
    pub(super) positions: Option<Vec<u64>>,
    /// How many rows of the file, and how many values, have been taken.
    row: u64,
    taken: usize,
}

impl NewValues {
    pub(super) fn of(selected: Option<&Positions>, values: RecordBatch, rows: u64) -> Result<Self> {
        let positions: Option<Vec<u64>> = selected.map(|p| p.iter().collect());
        let wanted = selected.map_or(rows, Positions::len);
        if u64::try_from(values.num_rows()).ok() != Some(wanted) {
            return Err(Error::internal(format!(
                "{} new values were made for {wanted} rows",
                values.num_rows()
            )));
        }
        Ok(NewValues {
            values,
            positions,
            row: 0,
            taken: 0,
        })
    }

    /// The values of the next row group, which has `count` rows.
    pub(super) fn of_group(&mut self, count: usize) -> Result<GroupValues> {
        let first = self.row;
        self.row += count as u64;
        let rows: Option<Vec<usize>> = self.positions.as_ref().map(|positions| {
            let rest = positions.iter().skip(self.taken);
            let own = rest.take_while(|row| **row < self.row);
            own.map(|row| usize::try_from(row - first).unwrap_or(usize::MAX))
                .collect()
        });
        let taken = rows.as_ref().map_or(count, Vec::len);
        if taken > self.values.num_rows() - self.taken {
            return Err(Error::internal("a file has more rows than its footer says"));
        }
        let values = self.values.slice(self.taken, taken);
        self.taken += taken;
        Ok(GroupValues {
            first,
            count,
            rows: rows.map(Arc::new),
            values,
        })
    }
}

/// The new values of a row group.
pub(super) struct GroupValues {
    /// Its first row in the file, and its number of rows.
    pub(super) first: u64,
    pub(super) count: usize,
    /// The group's rows that get them, in order; `None` for all.
    pub(super) rows: Option<Arc<Vec<usize>>>,
    values: RecordBatch,
}

impl GroupValues {
    /// The values of an assigned column.
    pub(super) fn of_column(&self, number: usize) -> Result<ArrayRef> {
        let column = self.values.columns().get(number).cloned();
        column.ok_or_else(|| Error::internal("an assigned column has no values"))
    }

    /// These columns' values from a row on: old rows with new values merged in, or only new values
    /// for `count` rows.
    pub(super) fn of_rows(&self, from: usize, old: Option<&RecordBatch>, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        let new = columns.iter().map(|number| self.of_column(*number));
        let (Some(old), Some(rows)) = (old, &self.rows) else {
            let count = CHUNK_ROWS.min(self.count - from);
            return new.map(|values| Ok(values?.slice(from, count))).collect();
        };
        let start = rows.partition_point(|row| *row < from);
        let end = rows.partition_point(|row| *row < from + old.num_rows());
        let positions: Vec<usize> = rows.iter().take(end).skip(start).map(|row| row - from).collect();
        new.zip(old.columns())
            .map(|(new, old)| {
                put(old, &new?.slice(start, positions.len()), &positions)
                    .map_err(|e| Error::internal(format!("putting new values between old ones failed: {e}")))
            })
            .collect()
    }
}

/// The old values with the new ones at these positions, which are in order. Ranges between them are
/// copied in one piece.
fn put(old: &ArrayRef, new: &ArrayRef, positions: &[usize]) -> Result<ArrayRef, ArrowError> {
    let (old, new) = (old.to_data(), new.to_data());
    let mut out = MutableArrayData::new(vec![&old, &new], false, old.len());
    let mut from = 0;
    for (i, positions) in positions.iter().enumerate() {
        out.try_extend(0, from, *positions)?;
        out.try_extend(1, i, i + 1)?;
        from = positions + 1;
    }
    out.try_extend(0, from, old.len())?;
    Ok(make_array(out.freeze()))
}
