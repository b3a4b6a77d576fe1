//! Passes on the batches of decoders, those of small files joined: each batch costs the reader some
//! microseconds a column.

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use deltaplane_error::Result;
use tokio::sync::mpsc;

/// The batches that wait for others, and the place where they go when this is dropped, at the
/// latest: also where the decoder of a damaged file panics.
pub(super) struct JoinedBatches {
    out: mpsc::Sender<Result<RecordBatch>>,
    waiting: Vec<RecordBatch>,
    rows: usize,
    is_closed: bool,
}

impl JoinedBatches {
    pub(super) fn new(out: mpsc::Sender<Result<RecordBatch>>) -> JoinedBatches {
        JoinedBatches {
            out,
            waiting: Vec::new(),
            rows: 0,
            is_closed: false,
        }
    }

    /// Takes the next batch, and passes on what makes `most_rows`; false if nobody takes more.
    pub(super) fn send(&mut self, batch: RecordBatch, most_rows: usize) -> bool {
        if self.rows.saturating_add(batch.num_rows()) > most_rows {
            self.end();
        }
        self.rows = self.rows.saturating_add(batch.num_rows());
        self.waiting.push(batch);
        if self.rows >= most_rows {
            self.end();
        }
        !self.is_closed
    }

    /// Whether nobody takes more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Passes on what waits.
    fn end(&mut self) {
        self.rows = 0;
        let mut batches = std::mem::take(&mut self.waiting);
        if let [first, _, ..] = batches.as_slice() {
            // Text of more than 2 GiB can't be one array.
            if let Ok(joined) = concat_batches(&first.schema(), &batches) {
                batches = vec![joined];
            }
        }
        for batch in batches {
            self.is_closed = self.is_closed || self.out.blocking_send(Ok(batch)).is_err();
        }
    }
}

impl Drop for JoinedBatches {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;
    use tokio::sync::mpsc;

    use super::JoinedBatches;
    use crate::testing::batch;

    proptest! {
        #[test]
        fn rows_keep_their_order_and_batches_their_limit(sizes in proptest::collection::vec(0..40_usize, 0..30), most in 1..50_usize) {
            let (tx, mut rx) = mpsc::channel(100);
            let mut batches = JoinedBatches::new(tx);
            let mut next = 0_i64;
            for size in &sizes {
                let values = Int64Array::from_iter_values(next..next + *size as i64);
                next += *size as i64;
                prop_assert!(batches.send(batch(vec![("v", Arc::new(values))]), most));
            }
            drop(batches);
            let (mut rows, mut lengths) = (Vec::new(), Vec::new());
            while let Some(batch) = rx.blocking_recv() {
                let batch = batch.unwrap();
                lengths.push(batch.num_rows());
                rows.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
            }
            prop_assert!(rows.into_iter().eq(0..next));
            for length in &lengths {
                prop_assert!(*length <= most || sizes.contains(length), "{lengths:?}");
            }
            for pair in lengths.windows(2) {
                prop_assert!(pair.iter().sum::<usize>() > most || pair.contains(&most), "{lengths:?} of {most}");
            }
        }
    }

    #[test]
    fn nothing_is_decoded_for_a_reader_that_left() {
        let (tx, rx) = mpsc::channel(1);
        let mut batches = JoinedBatches::new(tx);
        drop(rx);
        let row = || batch(vec![("v", Arc::new(Int64Array::from(vec![1])))]);
        assert!(batches.send(row(), 2));
        assert!(!batches.send(row(), 2));
        assert!(batches.is_closed());
    }
}
