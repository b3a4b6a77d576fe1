//! Fills identity columns while rows are written (P108). Knows no table: the plan decides the first
//! value, and the commit records the last one.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::identity_columns::{Fill, overflow};

/// Rows that one task may write before it would meet the next task's values.
const TASK_ROWS: i128 = 1 << 32;

/// The values of one task of a write. Each task has a range of its own, so tasks need no
/// coordination.
pub struct IdentityValues {
    fills: Vec<Fill>,
    /// The index in the series of the first and of the next value.
    first: i128,
    next: i128,
}

impl IdentityValues {
    /// The values of task number `task`; 0 if there is only one.
    pub fn new(fills: Vec<Fill>, task: u32) -> Self {
        let first = i128::from(task) * TASK_ROWS;
        IdentityValues {
            fills,
            first,
            next: first,
        }
    }

    /// The batch with the next values in the identity columns that it lacks.
    ///
    /// # Errors
    /// `ConstraintViolation` when a column has no value left.
    pub fn fill(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.fills.is_empty() {
            return Ok(batch);
        }
        let rows = i128::try_from(batch.num_rows()).unwrap_or(i128::MAX);
        if self.next + rows - self.first > TASK_ROWS {
            return Err(Error::invalid_argument(
                "a task of this write has more than 2^32 rows to give identity values to: repartition the data",
            ));
        }
        let columns_of = batch.schema();
        let mut fields = columns_of.fields().to_vec();
        let mut columns = batch.columns().to_vec();
        for fill in &self.fills {
            if columns_of.field_with_name(&fill.column).is_ok() {
                continue;
            }
            let values: Int64Array = (self.next..self.next + rows)
                .map(|n| value(fill, n))
                .collect::<Result<Vec<_>>>()?
                .into();
            fields.push(Arc::new(Field::new(&fill.column, DataType::Int64, true)));
            columns.push(Arc::new(values) as ArrayRef);
        }
        self.next += rows;
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
            .map_err(|e| Error::internal(format!("adding identity values to a batch: {e}")))
    }

    /// The last value of each column, if there was a row.
    pub fn last(&self) -> Result<Vec<(String, i64)>> {
        if self.next == self.first {
            return Ok(Vec::new());
        }
        let last = |f: &Fill| Ok((f.column.clone(), value(f, self.next - 1)?));
        self.fills.iter().map(last).collect()
    }
}

fn value(fill: &Fill, n: i128) -> Result<i64> {
    i64::try_from(i128::from(fill.next) + n * i128::from(fill.step)).map_err(|_| overflow(&fill.column))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn batch(rows: i64) -> RecordBatch {
        RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef)]).unwrap()
    }

    fn values(v: &mut IdentityValues, rows: i64) -> Vec<i64> {
        let filled = v.fill(batch(rows)).unwrap();
        filled
            .column_by_name("id")
            .unwrap()
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    }

    fn fill(next: i64, step: i64) -> Vec<Fill> {
        vec![Fill {
            column: "id".to_owned(),
            next,
            step,
        }]
    }

    #[test]
    fn batches_follow_each_other_and_tasks_never_meet() {
        // P108
        let mut values_of_one = IdentityValues::new(fill(10, -5), 0);
        assert!(values_of_one.last().unwrap().is_empty());
        assert_eq!(
            (values(&mut values_of_one, 2), values(&mut values_of_one, 1)),
            (vec![10, 5], vec![0])
        );
        assert_eq!(values_of_one.last().unwrap(), [("id".to_owned(), 0)]);
        let mut third = IdentityValues::new(fill(10, -5), 2);
        assert_eq!(values(&mut third, 1), [10 - 5 * (2 << 32)]);
        assert_eq!(IdentityValues::new(vec![], 0).fill(batch(1)).unwrap(), batch(1));
    }

    #[test]
    fn the_end_of_the_range_is_an_error() {
        // P108
        let mut values = IdentityValues::new(fill(i64::MAX, 1), 0);
        assert!(values.fill(batch(1)).is_ok());
        assert!(values.fill(batch(1)).unwrap_err().message().contains("`id`"));
    }
}
