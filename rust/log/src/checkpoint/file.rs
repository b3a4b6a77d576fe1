//! Writes one Parquet file of a checkpoint: rows of one action each, streamed, and verified by
//! reading the footer back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StructArray, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::files::conform_array;
use deltaplane_sorting::{Keyed, Run};
use deltaplane_store::{Store, Upload};
use futures::TryStreamExt;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::checkpoint::parquet_file::{FOOTER_BYTES, ParquetFile, options};
use crate::checkpoint::path_range::FALSE_ANSWERS;
use crate::checkpoint::row_group_writer::{ReusedRowGroup, RowGroups};
use crate::checkpoint::skipping::{BOUNDS_KEY, BOUNDS_VALUE};

/// The footer's key for the sort order of the file's adds.
pub(crate) const ORDER_KEY: &str = "deltaplane.order";

/// Rows of a row group: small enough that a reader can skip most of a large checkpoint.
pub(crate) const ROW_GROUP_ROWS: usize = 100_000;

/// Rows of a page, the least that a reader decodes. Each page costs some hundred bytes of index in
/// all columns.
const PAGE_ROWS: usize = 4_096;

/// A file that isn't finished.
pub(crate) struct CheckpointFile {
    groups: RowGroups,
    upload: Upload,
    schema: SchemaRef,
    store: Store,
    key: String,
    actions: u64,
}

/// A file that is durable and verified.
pub(crate) struct WrittenFile {
    pub actions: u64,
    pub size_bytes: u64,
    /// The footer that was read back; absent if another writer's file has the name.
    pub footer: Option<ArrowReaderMetadata>,
}

/// Whether a file has a page index. A file of a few pages is read as a whole, and its index would
/// be a large part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    Indexed,
    /// With a filter of the live files' paths that has room for this many, if that isn't 0.
    WithoutIndex {
        paths: u64,
    },
}

impl CheckpointFile {
    /// Creates a file with these columns.
    pub(crate) async fn create(
        store: &Store,
        key: String,
        schema: SchemaRef,
        compression: Compression,
        pages: Pages,
    ) -> Result<Self> {
        let mut properties = WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_key_value_metadata(Some(vec![KeyValue::new(
                BOUNDS_KEY.to_owned(),
                BOUNDS_VALUE.to_owned(),
            )]))
            .set_created_by(format!("deltaplane {}", env!("CARGO_PKG_VERSION")));
        if let Pages::WithoutIndex { paths } = pages {
            properties = properties
                .set_statistics_enabled(EnabledStatistics::Chunk)
                .set_offset_index_disabled(true);
            if paths > 0 {
                let column = ColumnPath::from(["add", "path"].map(str::to_owned).to_vec());
                properties = properties
                    .set_column_bloom_filter_fpp(column.clone(), FALSE_ANSWERS)
                    .set_column_bloom_filter_max_ndv(column, paths);
            }
        }
        for column in repeated_columns(&schema) {
            properties = properties.set_column_dictionary_enabled(column, true);
        }
        Ok(CheckpointFile {
            groups: RowGroups::new(&schema, properties.build()).map_err(write_error)?,
            upload: store.upload(&key).await?,
            schema,
            store: store.clone(),
            key,
            actions: 0,
        })
    }

    /// Number of actions written.
    pub(crate) fn actions(&self) -> u64 {
        self.actions
    }

    /// Adds a key and value to the footer.
    pub(crate) fn note(&mut self, key: &str, value: String) {
        self.groups.note(KeyValue::new(key.to_owned(), value));
    }

    /// Writes rows that hold just this action.
    pub(crate) async fn write(&mut self, name: &str, action: StructArray) -> Result<()> {
        if action.is_empty() {
            return Ok(());
        }
        let n = action.len();
        let action: ArrayRef = Arc::new(action);
        let columns = self
            .schema
            .fields()
            .iter()
            .map(|f| {
                if f.name() == name {
                    conform_array(&action, f.data_type())
                } else {
                    Ok(new_null_array(f.data_type(), n))
                }
            })
            .collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new(self.schema.clone(), columns)
            .map_err(|e| Error::internal(format!("the checkpoint can't be laid out: {e}")).with_source(e))?;
        self.actions += n as u64;
        let complete = self.groups.complete();
        self.groups.write(&batch).map_err(write_error)?;
        match self.groups.complete() == complete {
            true => Ok(()),
            false => self.send().await,
        }
    }

    /// Closes the row group; later rows go into another one. Returns the number of row groups.
    pub(crate) async fn end_group(&mut self) -> Result<usize> {
        self.groups.end().map_err(write_error)?;
        self.send().await?;
        Ok(self.groups.complete())
    }

    /// Copies the bytes of another file's row group, which must have the same columns.
    pub(crate) async fn copy_group(&mut self, reused_row_group: &ReusedRowGroup<'_>) -> Result<()> {
        self.groups.copy(reused_row_group).map_err(write_error)?;
        self.actions += reused_row_group.rows();
        self.send().await
    }

    async fn send(&mut self) -> Result<()> {
        let bytes = self.groups.take();
        match bytes.is_empty() {
            true => Ok(()),
            false => self.upload.write(bytes).await,
        }
    }

    /// Writes live files in the order of the run.
    pub(crate) async fn write_run(&mut self, mut run: Run<'_>) -> Result<()> {
        while let Some(Keyed { rows, .. }) = run.try_next().await? {
            self.write("add", rows).await?;
        }
        Ok(())
    }

    /// Closes the file and reads its footer back; deletes it if its number of rows differs from the
    /// number written (P061).
    pub(crate) async fn finish(mut self) -> Result<WrittenFile> {
        self.groups.finish().map_err(write_error)?;
        self.send().await?;
        let size_bytes = self.upload.finish().await?;
        let mut written = WrittenFile {
            actions: self.actions,
            size_bytes,
            footer: None,
        };
        if let Some(footer) = footer_of_own(&self.store, &self.key, size_bytes, self.actions).await {
            written.footer = Some(footer);
            return Ok(written);
        }
        let file = ParquetFile::open(&self.store, self.key.clone()).await?;
        let footer = match file.footer().await {
            // Another writer's file of the same version has the name; that writer verifies it.
            Err(e) if e.kind() == Kind::VersionNotFound => return Ok(written),
            footer => footer?,
        };
        let rows_written = footer.metadata().file_metadata().num_rows();
        if file.size_bytes() == size_bytes && u64::try_from(rows_written) != Ok(self.actions) {
            self.store.delete(&self.key).await?;
            return Err(Error::internal(format!(
                "the checkpoint holds {rows_written} actions instead of {}: it was deleted",
                self.actions
            ))
            .with_path(&self.key));
        }
        written.footer = Some(footer);
        Ok(written)
    }
}

/// The footer of a file of this size and number of rows that was just written to an object store,
/// by one request: read where it must be in that file. `None` if these bytes are another footer.
async fn footer_of_own(store: &Store, key: &str, size_bytes: u64, actions: u64) -> Option<ArrowReaderMetadata> {
    if store.local_path(key).is_some() {
        return None;
    }
    let start = size_bytes.saturating_sub(FOOTER_BYTES as u64);
    let end = store.read_range(key, start..size_bytes).await.ok()?;
    let mut reader = ParquetMetaDataReader::new();
    reader.try_parse_sized(&end, size_bytes).ok()?;
    let footer = ArrowReaderMetadata::try_new(Arc::new(reader.finish().ok()?), options()).ok()?;
    let rows = footer.metadata().file_metadata().num_rows();
    (u64::try_from(rows) == Ok(actions)).then_some(footer)
}

/// Columns with repeated values: names and values of partitions. In any other column a dictionary
/// would be as long as the column, and would have to be read before any page.
fn repeated_columns(schema: &SchemaRef) -> Vec<ColumnPath> {
    let mut names = Vec::new();
    for action in ["add", "remove"] {
        let below = |path: &[&str]| {
            let parts = std::iter::once(action).chain(path.iter().copied());
            ColumnPath::from(parts.map(str::to_owned).collect::<Vec<_>>())
        };
        for map in ["partitionValues", "tags"] {
            names.extend(["key", "value"].map(|part| below(&[map, "key_value", part])));
        }
        let parsed = schema.field_with_name(action).ok().and_then(|f| match f.data_type() {
            DataType::Struct(children) => children
                .find("partitionValues_parsed")
                .map(|(_, f)| f.data_type().clone()),
            _ => None,
        });
        if let Some(DataType::Struct(columns)) = parsed {
            names.extend(columns.iter().map(|c| below(&["partitionValues_parsed", c.name()])));
        }
    }
    names
}

/// Encoding only fills a buffer; writing it to the store reports its own errors.
fn write_error(e: ParquetError) -> Error {
    Error::internal(format!("the checkpoint can't be written: {e}")).with_source(e)
}
