//! Arrow data of other programs: read from a C stream or a C array, checked for validity, cut to
//! what the types of a table can hold.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::{Array, RecordBatch, RecordBatchOptions, make_array};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use deltaplane_data::{MAX_BATCH_BYTES, check_arrow, split_batch};
use deltaplane_error::{Error, Result};

/// Batches of Arrow data of another program, as an iterator that ends with its first error.
pub struct Incoming {
    schema: SchemaRef,
    source: Source,
    ready: VecDeque<RecordBatch>,
    rows: u64,
}

enum Source {
    Stream(FFI_ArrowArrayStream),
    Array(Box<FFI_ArrowArray>),
    Ended,
}

impl Incoming {
    fn new(schema: Schema, source: Source) -> Self {
        Incoming {
            schema: SchemaRef::new(schema),
            source,
            ready: VecDeque::new(),
            rows: 0,
        }
    }

    /// The batches of a C stream.
    ///
    /// # Errors
    /// The stream was read already, or doesn't give a readable schema.
    pub fn of_stream(mut stream: FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        let gone = || ArrowError::CDataInterface("the stream was read already".to_owned());
        let get_schema = stream.get_schema().ok_or_else(gone)?;
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream isn't released, and the callback is its own.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(failed(&mut stream, code));
        }
        Ok(Incoming::new(Schema::try_from(&schema)?, Source::Stream(stream)))
    }

    /// The rows of one C array of structs with these fields.
    pub fn of_array(schema: Schema, array: FFI_ArrowArray) -> Self {
        Incoming::new(schema, Source::Array(Box::new(array)))
    }

    /// The same where its first row has this number in the data that it comes from; errors name
    /// rows by it.
    #[must_use]
    pub fn from_row(mut self, first_row: u64) -> Self {
        self.rows = first_row;
        self
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The next array of the source, as it comes.
    fn array(&mut self) -> Result<Option<FFI_ArrowArray>, ArrowError> {
        match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Ended => Ok(None),
            Source::Array(array) if array.is_released() => {
                Err(ArrowError::CDataInterface("the array was read already".to_owned()))
            }
            Source::Array(array) => Ok(Some(*array)),
            Source::Stream(mut stream) => {
                let Some(get_next) = stream.get_next() else {
                    return Ok(None);
                };
                let mut array = FFI_ArrowArray::empty();
                // SAFETY: the stream isn't released, and the callback is its own.
                let code = unsafe { get_next(&raw mut stream, &raw mut array) };
                if code != 0 {
                    return Err(failed(&mut stream, code));
                }
                if array.is_released() {
                    return Ok(None);
                }
                self.source = Source::Stream(stream);
                Ok(Some(array))
            }
        }
    }

    fn pull(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            let next = self.array();
            let next =
                next.map_err(|e| Error::invalid_argument(format!("the data's stream failed: {e}")).with_source(e))?;
            let Some(array) = next else { return Ok(None) };
            let batch = self.batch(array)?;
            let first = self.rows;
            self.rows = first.saturating_add(u64::try_from(batch.num_rows()).unwrap_or(0));
            self.ready = split_batch(batch, MAX_BATCH_BYTES, first)?.into();
        }
    }

    fn batch(&self, array: FFI_ArrowArray) -> Result<RecordBatch> {
        let wrong = |what: &str| Error::invalid_argument(format!("the data isn't valid Arrow data: {what}"));
        let fields = self.schema.fields();
        // SAFETY: the producer says that the array is of the schema. What of it can be checked is, below.
        let import = || unsafe { from_ffi_and_data_type(array, DataType::Struct(fields.clone())) };
        // Arrow asserts that numbers of buffers and children are what the type has.
        let data = catch_unwind(AssertUnwindSafe(import));
        let data = data.map_err(|_| wrong("its buffers aren't those of its type"))?;
        let data = data.map_err(|e| wrong(&e.to_string()))?;
        if data.nulls().is_some_and(|n| n.inner().count_set_bits() < n.len()) {
            return Err(Error::invalid_argument("an Arrow array with null rows isn't a table"));
        }
        let (offset, rows) = (data.offset(), data.len());
        let columns = fields.iter().zip(data.child_data()).map(|(field, child)| {
            if child.len() < offset.saturating_add(rows) {
                return Err(wrong(&format!(
                    "its column `{}` has fewer values than rows",
                    field.name()
                )));
            }
            let column = check_arrow(field.name(), child.slice(offset, rows), self.rows)?;
            let made = catch_unwind(|| make_array(column));
            made.map_err(|_| wrong(&format!("its column `{}` isn't of its type", field.name())))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let nullable: Vec<_> = fields
            .iter()
            .zip(&columns)
            // Nulls in a field that says it has none are for the table's own NOT NULL to judge.
            .map(|(f, c)| f.as_ref().clone().with_nullable(f.is_nullable() || c.is_nullable()))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(SchemaRef::new(Schema::new(nullable)), columns, &options)
            .map_err(|e| wrong(&e.to_string()))
    }
}

impl Iterator for Incoming {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let pulled = self.pull();
        if pulled.is_err() {
            self.source = Source::Ended;
        }
        pulled.transpose()
    }
}

/// What a stream says of a call that failed.
fn failed(stream: &mut FFI_ArrowArrayStream, code: i32) -> ArrowError {
    let said = stream.get_last_error().and_then(|last_error| {
        // SAFETY: the stream isn't released; its text is copied before the next call.
        let text = unsafe { last_error(std::ptr::from_mut(stream)) };
        // SAFETY: what isn't null is a C string.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    ArrowError::CDataInterface(said.unwrap_or_else(|| format!("error code {code}")))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatchIterator, StringArray, StructArray};
    use arrow::ffi::to_ffi;

    use super::*;

    fn batch(ids: &[i64]) -> RecordBatch {
        let ids = Arc::new(Int64Array::from(ids.to_vec())) as ArrayRef;
        RecordBatch::try_from_iter([("id", ids)]).unwrap()
    }

    fn stream(batches: Vec<std::result::Result<RecordBatch, ArrowError>>) -> Incoming {
        let reader = RecordBatchIterator::new(batches, batch(&[]).schema());
        Incoming::of_stream(FFI_ArrowArrayStream::new(Box::new(reader))).unwrap()
    }

    #[test]
    fn batches_of_a_stream_come_as_they_are() {
        let incoming = stream(vec![Ok(batch(&[1, 2])), Ok(batch(&[3]))]);
        assert_eq!(incoming.schema(), batch(&[]).schema());
        let read: Result<Vec<RecordBatch>> = incoming.collect();
        assert_eq!(read.unwrap(), [batch(&[1, 2]), batch(&[3])]);
    }

    #[test]
    fn a_stream_ends_with_its_first_error() {
        let failed = ArrowError::ComputeError("the source broke".to_owned());
        let mut incoming = stream(vec![Ok(batch(&[1])), Err(failed), Ok(batch(&[2]))]);
        assert_eq!(incoming.next().unwrap().unwrap(), batch(&[1]));
        let error = incoming.next().unwrap().unwrap_err();
        assert!(error.to_string().contains("the source broke"), "{error}");
        assert!(incoming.next().is_none());
    }

    #[test]
    fn an_array_is_one_batch_unless_rows_of_it_are_null() {
        let rows = batch(&[1, 2]);
        let batches_of = |array: &StructArray| {
            let (array, _) = to_ffi(&array.to_data()).unwrap();
            Incoming::of_array(rows.schema().as_ref().clone(), array).collect::<Result<Vec<_>>>()
        };
        let whole = StructArray::from(rows.clone());
        assert_eq!(batches_of(&whole).unwrap(), std::slice::from_ref(&rows));
        let nulls = Some(vec![true, false].into());
        let with_null = StructArray::new(whole.fields().clone(), whole.columns().to_vec(), nulls);
        assert!(batches_of(&with_null).unwrap_err().to_string().contains("null rows"));
    }

    #[test]
    fn text_that_is_no_utf_8_is_refused_with_the_number_of_its_row() {
        let bytes = [b"ok".as_slice(), b"\xff\xfe"].concat();
        // SAFETY: none: the text is wrong on purpose, and is read only by the code that refuses it.
        let text = unsafe {
            StringArray::new_unchecked(arrow::buffer::OffsetBuffer::from_lengths([2, 2]), bytes.into(), None)
        };
        let fields = Schema::new(vec![arrow::datatypes::Field::new("name", DataType::Utf8, true)]);
        let array = StructArray::new(fields.fields().clone(), vec![Arc::new(text)], None);
        let (array, _) = to_ffi(&array.to_data()).unwrap();
        let mut incoming = Incoming::of_array(fields, array).from_row(40);
        let error = incoming.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("name") && error.contains("41"), "{error}");
        assert!(incoming.next().is_none());
    }
}
