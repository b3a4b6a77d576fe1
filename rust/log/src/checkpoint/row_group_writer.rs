//! Writes a Parquet file of the log, a row group at a time: new ones from rows, others by copying
//! the bytes of another file's row group.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::{Buf, Bytes};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::page_index::PageIndexProvider;
use parquet::file::metadata::{KeyValue, ParquetMetaData, RowGroupMetaData};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::writer::SerializedFileWriter;

/// The file's row groups while it is written.
pub(crate) struct RowGroups {
    file: SerializedFileWriter<Vec<u8>>,
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    /// Most rows of a group.
    most: usize,
    open: Option<Open>,
}

/// The open row group.
struct Open {
    columns: Vec<ArrowColumnWriter>,
    rows: usize,
}

/// A row group of another file.
pub(crate) struct ReusedRowGroup<'a> {
    /// The other file's footer, with the whole page index of this group.
    pub footer: &'a ParquetMetaData,
    pub group: usize,
    /// The bytes of all its columns, and their offset in the other file.
    pub bytes: Bytes,
    pub start: u64,
}

impl RowGroups {
    /// An empty file with these columns.
    pub(crate) fn new(schema: &SchemaRef, properties: WriterProperties) -> Result<Self> {
        let most = properties.max_row_group_row_count().unwrap_or(usize::MAX);
        let writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
        let (file, factory) = writer.into_serialized_writer()?;
        Ok(RowGroups {
            file,
            factory,
            schema: schema.clone(),
            most,
            open: None,
        })
    }

    /// Number of complete groups.
    pub(crate) fn complete(&self) -> usize {
        self.file.flushed_row_groups().len()
    }

    /// Adds a key and value to the footer.
    pub(crate) fn note(&mut self, note: KeyValue) {
        self.file.append_key_value_metadata(note);
    }

    /// Writes rows to the open group, and to further ones when it is full.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut row = 0;
        while row < batch.num_rows() {
            let open = match &mut self.open {
                Some(open) => open,
                none => none.insert(Open {
                    columns: self
                        .factory
                        .create_column_writers(self.file.flushed_row_groups().len())?,
                    rows: 0,
                }),
            };
            let take = (batch.num_rows() - row).min(self.most.saturating_sub(open.rows).max(1));
            open.write(&self.schema, &batch.slice(row, take))?;
            row += take;
            if open.rows >= self.most {
                self.end()?;
            }
        }
        Ok(())
    }

    /// Closes the open group; later rows go into another one.
    pub(crate) fn end(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let mut group = self.file.next_row_group()?;
        for column in open.columns {
            column.close()?.append_to_row_group(&mut group)?;
        }
        group.close().map(|_| ())
    }

    /// Copies the bytes of a row group of another file with the same columns. Closes the open row
    /// group first.
    pub(crate) fn copy(&mut self, reused_row_group: &ReusedRowGroup<'_>) -> Result<()> {
        self.end()?;
        let metadata = reused_row_group.metadata()?;
        let index = reused_row_group.footer.page_index().map(AsRef::as_ref);
        let mut group = self.file.next_row_group()?;
        for column in 0..metadata.num_columns() {
            let close = reused_row_group.closed(metadata, index, column);
            group.append_column(reused_row_group, close)?;
        }
        group.close().map(|_| ())
    }

    /// The bytes that haven't been taken yet.
    pub(crate) fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(self.file.inner_mut()))
    }

    /// Closes the file; its remaining bytes can then be taken.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.end()?;
        self.file.finish().map(|_| ())
    }
}

impl Open {
    fn write(&mut self, schema: &SchemaRef, batch: &RecordBatch) -> Result<()> {
        let mut columns = self.columns.iter_mut();
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array)? {
                let column = columns
                    .next()
                    .ok_or_else(|| ParquetError::General("rows have more columns than the file".to_owned()))?;
                column.write(&leaf)?;
            }
        }
        self.rows += batch.num_rows();
        Ok(())
    }
}

impl ReusedRowGroup<'_> {
    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        let group = self.footer.row_groups().get(self.group);
        group.and_then(|g| u64::try_from(g.num_rows()).ok()).unwrap_or(0)
    }

    /// The bytes from this offset of the file on.
    fn rest_from(&self, start: u64) -> Result<Bytes> {
        let rest = usize::try_from(start.wrapping_sub(self.start)).ok();
        let rest = rest.filter(|offset| *offset <= self.bytes.len());
        let rest = rest.ok_or_else(|| ParquetError::EOF(format!("the row group has no byte at {start}")))?;
        Ok(self.bytes.slice(rest..))
    }

    fn metadata(&self) -> Result<&RowGroupMetaData> {
        let group = self.footer.row_groups().get(self.group);
        group.ok_or_else(|| ParquetError::General(format!("there is no row group {}", self.group)))
    }

    /// The metadata that a writer would have produced for this column.
    fn closed(
        &self,
        group: &RowGroupMetaData,
        index: Option<&dyn PageIndexProvider>,
        column: usize,
    ) -> ColumnCloseResult {
        let metadata = group.column(column).clone();
        ColumnCloseResult {
            bytes_written: u64::try_from(metadata.compressed_size()).unwrap_or(0),
            rows_written: u64::try_from(group.num_rows()).unwrap_or(0),
            metadata,
            bloom_filter: None,
            column_index: index.and_then(|i| i.column_index(self.group, column)).cloned(),
            offset_index: index.and_then(|i| i.offset_index(self.group, column)).cloned(),
        }
    }
}

impl Length for ReusedRowGroup<'_> {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for ReusedRowGroup<'_> {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.rest_from(start).map(Buf::reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let rest = self.rest_from(start)?;
        let bytes = (length <= rest.len()).then(|| rest.slice(..length));
        bytes.ok_or_else(|| ParquetError::EOF(format!("the row group ends before byte {}", start + length as u64)))
    }
}
