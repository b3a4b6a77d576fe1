//! Writes one Parquet file: columns are encoded on all cores, statistics collected meanwhile,
//! finished row groups sent to the store. Knows neither partitions nor target sizes.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType as ArrowType, FieldRef, Fields, Schema, SchemaRef};
use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Add, PartitionValues};
use deltaplane_protocol::schema::StructType;
use deltaplane_store::{Store, Upload};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression as Codec, CompressionCodec, GzipLevel, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnDescPtr, ColumnPath, SchemaDescriptor};
use uuid::Uuid;

use super::bloom::Filters;
use super::bounds;
use super::copied::CopiedColumn;
use super::encodings;
use super::kinds::{check_required, declared_schema};
use super::parts::Parts;
use super::repeats::hardly_repeats;
use super::{Compression, FileKind, WriteSpec, logged_path};
use crate::processors::processors;
use crate::read::may_be_copied;
use crate::shred::Layout;
use crate::stats::{self, ColumnStats};
use crate::types::file_schema;

/// A row group is closed at this many encoded bytes, however few its rows.
pub(super) const ROW_GROUP_BYTES: usize = 128 << 20;

/// A row group of at most this many values is encoded by one thread: a second would cost more than
/// it brings.
const ALONE_VALUES: usize = 65_536;

/// Settings that all files of one writer share.
pub(super) struct FileSpec {
    schema: SchemaRef,
    /// The types of columns, if variants get typed columns.
    shredded: Option<StructType>,
    stats: Vec<Option<ColumnStats>>,
    properties: WriterPropertiesPtr,
    filters: Filters,
    kind: FileKind,
    compression: Compression,
    row_group_rows: usize,
    now_ms: i64,
}

/// The columns that have no statistics whatever the table's properties say.
fn without_stats(partition_columns: &[String], spec: &WriteSpec) -> Vec<String> {
    partition_columns.iter().chain(&spec.unmeasured).cloned().collect()
}

impl FileSpec {
    /// `stored` is the schema of the file: no void; partition columns have no statistics.
    pub(super) fn new(stored: StructType, partition_columns: &[String], spec: &WriteSpec) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_created_by(concat!("deltaplane version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(codec(spec.compression)?);
        let properties = encodings::applied(&stored, spec, properties)?;
        let filters = Filters::new(&stored, spec)?;
        let properties = filters.applied(properties, spec.row_group_rows)?.build();
        let schema = file_schema(&stored, spec.mapping);
        Ok(FileSpec {
            schema: match spec.kind {
                FileKind::Changes if spec.stats.as_delta_rs => declared_schema(&schema, &stored),
                _ => schema,
            },
            shredded: spec.shred_variants.then(|| stored.clone()),
            stats: stats::new_columns(
                &stored,
                &without_stats(partition_columns, spec),
                spec.mapping,
                &spec.stats,
            ),
            kind: spec.kind,
            properties: Arc::new(properties),
            filters,
            compression: spec.compression,
            row_group_rows: spec.row_group_rows.max(1),
            now_ms: spec.now_ms,
        })
    }

    /// Whether leaves of a column have Bloom filters.
    pub(super) fn has_filters_in(&self, column: &str) -> bool {
        self.filters.concern(column)
    }

    /// Whether a leaf has a Bloom filter.
    pub(super) fn has_filter(&self, leaf: &ColumnPath) -> bool {
        self.filters.has(leaf)
    }

    /// Each column's leaf in the files, if its pages may be copied from other files: not where a
    /// Bloom filter needs the values.
    pub(super) fn copyable(&self) -> Result<Vec<Option<ColumnDescPtr>>> {
        let schema = FileSpec::in_parquet(&self.schema)?;
        let mut leaves = schema.columns().iter();
        let fields = self.schema.fields().iter().map(|f| {
            let mut own = leaves.by_ref().take(leaf_count(f.data_type()));
            let first = own
                .next()
                .filter(|leaf| leaf.path().parts().len() == 1 && may_be_copied(leaf))
                .filter(|_| !self.filters.concern(f.name()));
            own.for_each(drop);
            first.cloned()
        });
        Ok(fields.collect())
    }

    /// The compression of pages.
    pub(super) fn codec(&self) -> Result<CompressionCodec> {
        codec(self.compression).map(CompressionCodec::from)
    }

    /// The compression as users set it.
    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// The decoded path of a new file in this directory of a partition.
    pub(super) fn new_path(&self, dir: &str, number: usize) -> String {
        let (kind, id, extension) = (self.kind, Uuid::new_v4(), self.extension());
        format!("{}{dir}{}-{number:05}-{id}.c000{extension}", kind.dir(), kind.name())
    }

    /// The layout of columns in a file that begins with these rows.
    fn layouts(&self, rows: &RecordBatch) -> Vec<Layout> {
        match &self.shredded {
            None => vec![Layout::Plain; self.schema.fields().len()],
            Some(stored) => {
                let columns = stored.fields().iter().zip(rows.columns());
                columns.map(|(f, c)| Layout::choose(&f.data_type, c)).collect()
            }
        }
    }

    /// The encoding of columns in a file that begins with these rows, and has at most `most` rows
    /// where that is known.
    fn properties(&self, rows: &RecordBatch, most: Option<usize>) -> Result<WriterPropertiesPtr> {
        let names: Vec<_> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        let properties = self.properties_of(&names, rows.columns());
        match most {
            Some(most) if !self.filters.is_empty() && most < self.row_group_rows => {
                let properties = properties.as_ref().clone().into_builder();
                Ok(Arc::new(self.filters.applied(properties, most)?.build()))
            }
            _ => Ok(properties),
        }
    }

    /// The encoding of columns that begin with these values.
    pub(super) fn properties_of(&self, names: &[&str], columns: &[ArrayRef]) -> WriterPropertiesPtr {
        let unique = names
            .iter()
            .zip(columns)
            // A column without rows is copied as pages, which have no dictionary.
            .filter(|(_, c)| *c.data_type() == ArrowType::Null || hardly_repeats(c));
        self.without_dictionary(unique.map(|(name, _)| ColumnPath::new(vec![(*name).to_owned()])))
    }

    /// The encoding of columns, without a dictionary for these.
    pub(super) fn without_dictionary(&self, columns: impl Iterator<Item = ColumnPath>) -> WriterPropertiesPtr {
        let mut columns = columns.peekable();
        if columns.peek().is_none() {
            return self.properties.clone();
        }
        let properties = self.properties.as_ref().clone().into_builder();
        let without = |made: WriterPropertiesBuilder, column| made.set_column_dictionary_enabled(column, false);
        Arc::new(columns.fold(properties, without).build())
    }

    /// The columns of a file.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns in Parquet's schema.
    ///
    /// # Errors
    /// `SchemaMismatch` for types that Parquet doesn't have.
    pub(super) fn in_parquet(schema: &Schema) -> Result<SchemaDescriptor> {
        let converter = ArrowSchemaConverter::new().schema_root("spark_schema");
        converter
            .convert(schema)
            .map_err(|e| Error::schema_mismatch(format!("Parquet can't hold the table's schema: {e}")))
    }

    /// The statistics to collect of the column at this position.
    pub(super) fn stats_of(&self, column: usize) -> Option<ColumnStats> {
        self.stats.get(column).cloned().flatten()
    }

    /// `modificationTime` of the adds.
    pub(super) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The ending of file names.
    fn extension(&self) -> &'static str {
        match self.compression {
            Compression::Uncompressed => ".parquet",
            Compression::Snappy => ".snappy.parquet",
            Compression::Zstd(_) => ".zstd.parquet",
            Compression::Gzip => ".gz.parquet",
            Compression::Lz4Raw => ".lz4raw.parquet",
        }
    }
}

fn codec(c: Compression) -> Result<Codec> {
    Ok(match c {
        Compression::Uncompressed => Codec::UNCOMPRESSED,
        Compression::Snappy => Codec::SNAPPY,
        Compression::Gzip => Codec::GZIP(GzipLevel::default()),
        Compression::Lz4Raw => Codec::LZ4_RAW,
        Compression::Zstd(level) => {
            Codec::ZSTD(ZstdLevel::try_new(level).map_err(|_| {
                Error::invalid_argument(format!("zstd has no compression level {level}: choose 1 to 22"))
            })?)
        }
    })
}

/// One top-level column of the row group being encoded.
struct Column {
    field: FieldRef,
    /// One writer per leaf; empty between row groups.
    writers: Vec<ArrowColumnWriter>,
    stats: Option<ColumnStats>,
    layout: Layout,
    /// Whether the field or a part of it may be required.
    has_required: bool,
    /// The copied pages of this row group, instead of its rows.
    copied: Option<CopiedColumn>,
}

/// A column of a row group.
enum Chunk {
    Encoded(ArrowColumnChunk),
    Copied(CopiedColumn),
}

impl Column {
    fn copy(&mut self, copied: CopiedColumn) -> Result<()> {
        if let Some(stats) = &mut self.stats {
            let (bounds, nulls) = copied.bounds(self.field.data_type())?;
            stats.absorb(bounds.as_ref(), nulls)?;
        }
        self.copied = Some(copied);
        Ok(())
    }

    fn encode(&mut self, array: &ArrayRef) -> Result<()> {
        if self.copied.is_some() {
            return Ok(());
        }
        if let Some(stats) = &mut self.stats {
            stats.update(array)?;
        }
        let array = self.layout.lay_out(array)?;
        if let Some(stats) = &mut self.stats {
            stats.update_typed(&array)?;
        }
        if self.has_required {
            check_required(&self.field, &array, None)?;
        }
        let leaves = compute_leaves(&self.field, &array).map_err(|e| encoding(self.field.name(), &e))?;
        for (writer, leaf) in self.writers.iter_mut().zip(&leaves) {
            writer.write(leaf).map_err(|e| encoding(self.field.name(), &e))?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<Vec<Chunk>> {
        let writers = std::mem::take(&mut self.writers);
        if let Some(copied) = self.copied.take() {
            return Ok(vec![Chunk::Copied(copied)]);
        }
        let chunks = writers
            .into_iter()
            .map(|w| bounds::closed(w).map(Chunk::Encoded))
            .collect::<Result<Vec<_>, _>>();
        chunks.map_err(|e| encoding(self.field.name(), &e))
    }
}

pub(super) fn encoding(column: &str, e: &ParquetError) -> Error {
    Error::internal(format!("encoding the column `{column}` as Parquet failed: {e}"))
}

/// A data file whose end isn't written yet.
pub(super) struct OpenFile {
    spec: Arc<FileSpec>,
    number: usize,
    path: String,
    partition_values: PartitionValues,
    upload: Upload,
    writer: SerializedFileWriter<Parts>,
    factory: ArrowRowGroupWriterFactory,
    /// Empty while columns are being encoded, and after that failed.
    columns: Vec<Column>,
    groups: usize,
    group_rows: usize,
    rows: u64,
}

impl OpenFile {
    /// Creates a file at this decoded path below the table's root, which will begin with these
    /// rows, and have at most `most` rows where that is known.
    pub(super) async fn create(
        store: &Store,
        spec: Arc<FileSpec>,
        number: usize,
        path: String,
        partition_values: PartitionValues,
        rows: &RecordBatch,
        most: Option<usize>,
    ) -> Result<Self> {
        let wrap = |e: ParquetError| {
            Error::schema_mismatch(format!("Parquet can't hold the table's schema: {e}")).with_path(path.clone())
        };
        let layouts = spec.layouts(rows);
        let fields = spec.schema.fields().iter().zip(&layouts).map(|(f, l)| l.field(f));
        let arrow = Arc::new(Schema::new(fields.collect::<Fields>()));
        let schema = FileSpec::in_parquet(&arrow).map_err(|e| e.with_path(path.clone()))?;
        let properties = spec.properties(rows, most)?;
        let writer = SerializedFileWriter::new(Parts::default(), schema.root_schema_ptr(), properties).map_err(wrap)?;
        let factory = ArrowRowGroupWriterFactory::new(&writer, arrow.clone());
        let columns = arrow.fields().iter().zip(&spec.stats).zip(layouts);
        let columns = columns
            .map(|((f, s), layout)| Column {
                field: f.clone(),
                writers: Vec::new(),
                stats: s.clone(),
                layout,
                has_required: spec.kind == FileKind::Changes,
                copied: None,
            })
            .collect();
        let upload = store.upload(&path).await?;
        Ok(OpenFile {
            spec,
            number,
            path,
            partition_values,
            upload,
            writer,
            factory,
            columns,
            groups: 0,
            group_rows: 0,
            rows: 0,
        })
    }

    /// Position in the order in which files were begun.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// About how large the file would be if it were closed now.
    pub(super) fn bytes(&self) -> u64 {
        let group: usize = self.writers().map(ArrowColumnWriter::get_estimated_total_bytes).sum();
        u64::try_from(self.writer.bytes_written() + group).unwrap_or(u64::MAX)
    }

    /// The memory of the unfinished row group.
    pub(super) fn memory_bytes(&self) -> usize {
        self.writers().map(ArrowColumnWriter::memory_size).sum()
    }

    fn writers(&self) -> impl Iterator<Item = &ArrowColumnWriter> {
        self.columns.iter().flat_map(|c| &c.writers)
    }

    /// Begins a row group in which these columns, by number, are copied; all have equally many
    /// rows, at most those of a row group. Later rows' values of these columns are ignored.
    pub(super) async fn copy(&mut self, columns: Vec<(usize, CopiedColumn)>) -> Result<()> {
        self.end_row_group().await?;
        for (place, copied) in columns {
            let column = self.columns.get_mut(place);
            let column = column.ok_or_else(|| Error::internal("a column was copied that the file doesn't have"))?;
            column.copy(copied)?;
        }
        Ok(())
    }

    /// Encodes rows, ending row groups as they fill.
    pub(super) async fn encode(&mut self, rows: RecordBatch) -> Result<()> {
        let mut from = 0;
        while from < rows.num_rows() {
            let n = (rows.num_rows() - from).min(self.spec.row_group_rows - self.group_rows);
            let full = self.group_rows + n == self.spec.row_group_rows;
            self.run(Some(rows.slice(from, n)), full).await?;
            from += n;
        }
        // Copied columns cover a whole row group.
        let copies = self.columns.iter().any(|c| c.copied.is_some());
        if !copies && self.memory_bytes() >= ROW_GROUP_BYTES {
            self.end_row_group().await?;
        }
        Ok(())
    }

    /// Closes the row group and sends its bytes to the store.
    pub(super) async fn end_row_group(&mut self) -> Result<()> {
        if self.group_rows == 0 {
            Ok(())
        } else {
            self.run(None, true).await
        }
    }

    /// Encodes a batch column by column, then closes the row group if asked to.
    async fn run(&mut self, rows: Option<RecordBatch>, end: bool) -> Result<()> {
        let columns = self.take_columns()?;
        let n = rows.as_ref().map_or(0, RecordBatch::num_rows);
        let values = columns.len() * (self.group_rows + n);
        let columns = columns.into_iter().enumerate();
        let encoded = match values {
            // Faster than starting another thread.
            ..=ALONE_VALUES => encode_columns(columns, rows.as_ref(), end),
            _ => encode_on_all_cores(columns, rows, end).await,
        };
        let mut chunks = Vec::new();
        for (_, column, closed) in encoded.map_err(|e| e.with_path(self.path.clone()))? {
            self.columns.push(column);
            chunks.extend(closed);
        }
        self.group_rows += n;
        self.rows += u64::try_from(n).unwrap_or(0);
        if end { self.append(chunks).await } else { Ok(()) }
    }

    /// The columns, ready to take rows.
    fn take_columns(&mut self) -> Result<Vec<Column>> {
        let mut columns = std::mem::take(&mut self.columns);
        if columns.is_empty() {
            return Err(
                Error::internal("a data file was written to after an error: abort the write")
                    .with_path(self.path.clone()),
            );
        }
        if self.group_rows == 0 {
            let writers = self
                .factory
                .create_column_writers(self.groups)
                .map_err(|e| encoding("", &e))?;
            let mut writers = writers.into_iter();
            for c in &mut columns {
                c.writers = writers.by_ref().take(leaf_count(c.field.data_type())).collect();
            }
        }
        Ok(columns)
    }

    async fn append(&mut self, chunks: Vec<Chunk>) -> Result<()> {
        let wrap = |e: ParquetError| Error::internal(format!("ending a row group failed: {e}"));
        let mut group = self.writer.next_row_group().map_err(wrap)?;
        for chunk in chunks {
            match chunk {
                Chunk::Encoded(chunk) => chunk.append_to_row_group(&mut group).map_err(wrap)?,
                Chunk::Copied(column) if column.rows == self.group_rows as u64 => {
                    column.append_to(&mut group).map_err(wrap)?;
                }
                Chunk::Copied(column) => {
                    return Err(Error::internal(format!(
                        "a column of {} rows was copied into a row group of {}",
                        column.rows, self.group_rows
                    )));
                }
            }
        }
        group.close().map_err(wrap)?;
        self.groups += 1;
        self.group_rows = 0;
        self.writer.flush().map_err(|e| wrap(e.into()))?;
        for bytes in self.writer.inner_mut().take() {
            self.upload.write(bytes).await?;
        }
        Ok(())
    }

    /// Closes the last row group and writes the footer; [`Closing::finish`] then makes the file
    /// durable.
    pub(super) async fn close(mut self) -> Result<Closing> {
        self.end_row_group().await?;
        let stats: Vec<_> = std::mem::take(&mut self.columns).into_iter().map(|c| c.stats).collect();
        let stats = stats::to_json(self.rows, &stats);
        let wrap = |e: ParquetError| Error::internal(format!("writing a Parquet footer failed: {e}"));
        let mut tail = self.writer.into_inner().map_err(wrap)?;
        let add = Add {
            path: logged_path(&self.path),
            partition_values: self.partition_values,
            modification_time: self.spec.now_ms,
            data_change: true,
            stats: Some(stats),
            ..Add::default()
        };
        Ok(Closing {
            upload: self.upload,
            tail: tail.take(),
            add,
        })
    }

    /// Discards the file.
    pub(super) async fn abort(self) {
        if let Err(e) = self.upload.abort().await {
            tracing::warn!(file = %self.path, error = %e, "an aborted upload couldn't be taken back");
        }
    }
}

/// A file that lacks only the last bytes and the store's confirmation.
pub(super) struct Closing {
    upload: Upload,
    tail: Vec<Bytes>,
    add: Add,
}

impl Closing {
    /// Sends the rest; the add's size is the one that the store confirmed.
    pub(super) async fn finish(mut self) -> Result<Add> {
        for bytes in self.tail {
            self.upload.write(bytes).await?;
        }
        let size = self.upload.finish().await?;
        Ok(Add {
            size: i64::try_from(size).unwrap_or(i64::MAX),
            ..self.add
        })
    }
}

type Encoded = (usize, Column, Vec<Chunk>);

/// Encodes columns in parallel, one per processor; returns them in order.
async fn encode_on_all_cores(
    columns: impl ExactSizeIterator<Item = (usize, Column)> + Send + 'static,
    rows: Option<RecordBatch>,
    end: bool,
) -> Result<Vec<Encoded>> {
    let n = columns.len();
    let queue = Arc::new(Mutex::new(columns));
    let tasks: Vec<_> = (0..processors().min(n))
        .map(|_| {
            let (queue, rows) = (queue.clone(), rows.clone());
            tokio::task::spawn_blocking(move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                encode_columns(std::iter::from_fn(next), rows.as_ref(), end)
            })
        })
        .collect();
    let mut done = Vec::with_capacity(n);
    for task in tasks {
        let part = task.await;
        done.extend(part.map_err(|e| Error::internal(format!("encoding a data file: {e}")))??);
    }
    done.sort_by_key(|(i, _, _)| *i);
    Ok(done)
}

fn encode_columns(
    columns: impl Iterator<Item = (usize, Column)>,
    rows: Option<&RecordBatch>,
    end: bool,
) -> Result<Vec<Encoded>> {
    let encode = |(i, mut column): (usize, Column)| {
        if let Some(array) = rows.and_then(|r| r.columns().get(i)) {
            column.encode(array)?;
        }
        let chunks = if end { column.close()? } else { Vec::new() };
        Ok((i, column, chunks))
    };
    columns.map(encode).collect()
}

pub(super) fn leaf_count(t: &ArrowType) -> usize {
    match t {
        ArrowType::Struct(fields) => fields.iter().map(|f| leaf_count(f.data_type())).sum(),
        ArrowType::List(f) | ArrowType::Map(f, _) => leaf_count(f.data_type()),
        _ => 1,
    }
}
