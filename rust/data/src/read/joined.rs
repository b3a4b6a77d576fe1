//! Joins small batches before they are passed on, those of small files and those of files with few
//! matching rows: each batch costs the reader some microseconds a column, and Python half a
//! millisecond where it converts them.

use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use deltaplane_error::Result;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// A batch of fewer rows waits for others.
const FEW_ROWS: usize = 1024;
/// Most batches that are joined, and how long the first one waits: a reader may want few rows.
const MOST_BATCHES: usize = 64;
const MOST_WAITING: Duration = Duration::from_millis(10);
/// A batch of more bytes waits for no other, nor do as many together: rows can be large.
const FEW_BYTES: usize = 4 << 20;

/// The batches in their order, small ones joined to at most `most_rows`.
pub(super) fn with_joined(
    batches: BoxStream<'static, Result<RecordBatch>>,
    most_rows: usize,
) -> BoxStream<'static, Result<RecordBatch>> {
    // Two small batches together have fewer than twice these rows.
    let few_rows = FEW_ROWS.min(most_rows / 2);
    // The bytes of a small batch.
    let small = move |next: &Result<RecordBatch>| {
        let few = next.as_ref().ok().filter(|batch| batch.num_rows() < few_rows)?;
        Some(few.get_array_memory_size()).filter(|bytes| *bytes < FEW_BYTES)
    };
    stream::unfold((batches.fuse(), None), move |(mut batches, next)| async move {
        let mut next = match next {
            Some(next) => next,
            None => batches.next().await?,
        };
        let end = Instant::now() + MOST_WAITING;
        let (mut waiting, mut rows, mut bytes) = (Vec::new(), 0, 0);
        loop {
            match (small(&next), next) {
                (Some(size), Ok(few)) => {
                    rows += few.num_rows();
                    bytes += size;
                    waiting.push(few);
                }
                (_, other) if waiting.is_empty() => return Some((vec![other], (batches, None))),
                (_, other) => return Some((passed_on(waiting), (batches, Some(other)))),
            }
            if rows >= few_rows || bytes >= FEW_BYTES || waiting.len() >= MOST_BATCHES {
                break;
            }
            match timeout_at(end, batches.next()).await {
                Ok(Some(another)) => next = another,
                Ok(None) | Err(_) => break,
            }
        }
        Some((passed_on(waiting), (batches, None)))
    })
    .flat_map(stream::iter)
    .boxed()
}

fn passed_on(batches: Vec<RecordBatch>) -> Vec<Result<RecordBatch>> {
    joined(batches).into_iter().map(Ok).collect()
}

/// One batch; or all of them where text of more than 2 GiB can't be one array.
fn joined(batches: Vec<RecordBatch>) -> Vec<RecordBatch> {
    match batches.as_slice() {
        [first, _, ..] => concat_batches(&first.schema(), &batches).map_or(batches, |joined| vec![joined]),
        _ => batches,
    }
}

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
        for batch in joined(std::mem::take(&mut self.waiting)) {
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

    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use deltaplane_error::Error;
    use futures::{StreamExt, stream};
    use proptest::prelude::*;
    use tokio::sync::mpsc;

    use super::{FEW_BYTES, FEW_ROWS, JoinedBatches, MOST_BATCHES, Result, with_joined};
    use crate::testing::batch;

    const ANY_ROWS: usize = usize::MAX;

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

    /// What comes out of these lengths of batches; `None` is an error.
    fn lengths(sizes: &[Option<usize>], most_rows: usize) -> (Vec<Option<usize>>, Vec<i64>) {
        let mut next = 0_i64;
        let batches = sizes.iter().map(|length| match length {
            None => Err(Error::internal("a test's error")),
            Some(length) => {
                let values = Int64Array::from_iter_values(next..next + *length as i64);
                next += *length as i64;
                Ok(batch(vec![("v", Arc::new(values))]))
            }
        });
        let batches = stream::iter(batches.collect::<Vec<Result<_>>>()).boxed();
        let made = deltaplane_store::block_on(with_joined(batches, most_rows).collect::<Vec<_>>());
        let mut rows = Vec::new();
        let lengths = made.into_iter().map(|batch| {
            let batch = batch.ok()?;
            rows.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
            Some(batch.num_rows())
        });
        (lengths.collect(), rows)
    }

    #[test]
    fn small_batches_are_joined_up_to_a_large_one_or_an_error() {
        let large = FEW_ROWS + 5;
        let sizes = [Some(1), Some(2), Some(large), Some(3), None, Some(large), Some(4)];
        let (made, rows) = lengths(&sizes, ANY_ROWS);
        assert_eq!(made, [Some(3), Some(large), Some(3), None, Some(large), Some(4)]);
        assert!(rows.into_iter().eq(0..2 * large as i64 + 10));
        let (made, rows) = lengths(&[Some(1); 2 * MOST_BATCHES + 1], ANY_ROWS);
        assert_eq!(made, [Some(MOST_BATCHES), Some(MOST_BATCHES), Some(1)]);
        assert_eq!(rows.len(), 2 * MOST_BATCHES + 1);
        let (made, _) = lengths(&[Some(600); 5], ANY_ROWS);
        assert_eq!(made, [Some(1200), Some(1200), Some(600)]);
        assert!(lengths(&[], ANY_ROWS).0.is_empty());
    }

    #[test]
    fn joined_batches_have_no_more_rows_than_the_reader_asked_for() {
        for most_rows in [1, 2, 3, 10, 64, 100] {
            let (made, rows) = lengths(&[Some(1); 200], most_rows);
            assert!(
                made.iter()
                    .all(|length| (*length).is_some_and(|length| length <= most_rows)),
                "{made:?}"
            );
            assert_eq!(rows.len(), 200);
        }
    }

    #[test]
    fn batches_of_large_rows_are_not_joined_beyond_a_few_megabytes() {
        let large = || {
            Ok(batch(vec![(
                "t",
                Arc::new(StringArray::from(vec!["x".repeat(FEW_BYTES / 2)])),
            )]))
        };
        let batches = stream::iter(vec![large(), large(), large(), large()]).boxed();
        let made = deltaplane_store::block_on(with_joined(batches, ANY_ROWS).collect::<Vec<_>>());
        let lengths: Vec<usize> = made.into_iter().map(|batch| batch.unwrap().num_rows()).collect();
        assert_eq!(lengths, [2, 2]);
    }

    #[test]
    fn a_batch_does_not_wait_long_for_others() {
        let few = batch(vec![("v", Arc::new(Int64Array::from(vec![7])))]);
        let never = stream::iter([Ok(few)]).chain(stream::pending());
        let first = deltaplane_store::block_on(with_joined(never.boxed(), ANY_ROWS).next());
        assert_eq!(first.unwrap().unwrap().num_rows(), 1);
    }
}
