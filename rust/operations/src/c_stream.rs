//! Batches of an async stream as Arrow's C stream interface pulls them. C streams carry an error as
//! text alone, so the error itself is kept for the consumer.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use deltaplane_error::{Error, Result};
use deltaplane_store::with_operation;
use futures::StreamExt;
use futures::stream::BoxStream;

use crate::panics::caught;

/// Batches, and the error that may end them.
pub type Batches = BoxStream<'static, Result<RecordBatch>>;

/// What is pulled from a stream: a batch, an error, or its end.
pub type Pulled = Option<Result<RecordBatch>>;

/// Waits for one batch on the consumer's thread.
pub type Wait = fn(&mut (dyn FnMut() -> Pulled + Send)) -> Pulled;

/// Where a stream leaves the error that ended it.
#[derive(Clone, Default)]
pub struct LastError(Arc<Mutex<Option<Error>>>);

impl LastError {
    /// Takes the error that ended the last stream.
    pub fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A C stream of batches with this schema. The consumer's thread waits for each batch by `wait`;
/// the error that ends the stream is left in `error`.
pub fn c_stream(schema: SchemaRef, batches: Batches, error: LastError, wait: Wait) -> FFI_ArrowArrayStream {
    FFI_ArrowArrayStream::new(Box::new(Reader {
        schema,
        batches,
        operation: deltaplane_store::thread_operation(),
        error,
        wait,
    }))
}

struct Reader {
    schema: SchemaRef,
    batches: Batches,
    /// The traced operation that made the stream; its readers may belong to another one.
    operation: u64,
    error: LastError,
    wait: Wait,
}

impl Iterator for Reader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A C stream's caller can't be unwound into: a panic, in a decoder that meets hostile
        // bytes, would end the process, so it becomes an error here.
        let operation = self.operation;
        let mut pull = || deltaplane_store::block_on(with_operation(operation, self.batches.next()));
        match caught(|| (self.wait)(&mut pull)).unwrap_or_else(|panic| Some(Err(panic)))? {
            Ok(batch) => Some(Ok(batch)),
            Err(e) => {
                // A C string ends at its first NUL, and arrow would end the process: hostile paths
                // hold some.
                let text = e.to_string().replace('\0', "\\0");
                *self.error.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                self.batches = futures::stream::empty().boxed();
                Some(Err(ArrowError::ComputeError(text)))
            }
        }
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

#[cfg(test)]
mod tests {
    use arrow::ffi_stream::RecordBatchStreamReader;
    use deltaplane_error::Kind;
    use futures::stream;

    use super::*;
    use crate::testing::rows;

    fn read(batches: Vec<Result<RecordBatch>>) -> (Vec<std::result::Result<usize, String>>, Option<Error>) {
        let error = LastError::default();
        let stream = c_stream(
            rows(&[]).schema(),
            stream::iter(batches).boxed(),
            error.clone(),
            |pull| pull(),
        );
        let reader = RecordBatchStreamReader::try_new(stream).unwrap();
        let read = reader.map(|batch| batch.map(|b| b.num_rows()).map_err(|e| e.to_string()));
        (read.collect(), error.take())
    }

    #[test]
    fn batches_are_pulled_to_the_end() {
        let (read, error) = read(vec![Ok(rows(&[1, 2])), Ok(rows(&[3]))]);
        assert!(read == [Ok(2), Ok(1)] && error.is_none());
    }

    #[test]
    fn an_error_ends_the_stream_and_keeps_its_kind() {
        let failed = Err(Error::invalid_argument("a\0b"));
        let (read, error) = read(vec![Ok(rows(&[1])), failed, Ok(rows(&[2]))]);
        assert_eq!(read.len(), 2);
        assert!(read[1].as_ref().unwrap_err().contains("a\\0b"));
        assert_eq!(error.unwrap().kind(), Kind::InvalidArgument);
    }

    #[test]
    fn a_panic_ends_the_stream_as_an_error() {
        let error = LastError::default();
        let panics = stream::iter([0]).map(|_| panic!("planted"));
        let stream = c_stream(rows(&[]).schema(), panics.boxed(), error.clone(), |pull| pull());
        let read: Vec<_> = RecordBatchStreamReader::try_new(stream).unwrap().collect();
        assert!(read.len() == 1 && read[0].is_err());
        assert_eq!(error.take().unwrap().kind(), Kind::Internal);
    }
}
