//! A file written anew of which some columns get other values: their chunks are encoded, those of all other columns are
//! taken over as bytes, with their statistics and page indexes. Rows stay where they are.
//! Knows no log; called by commands that assign columns.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::{FieldRef, SchemaRef};
use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::deletion_vectors::{Positions, num_records};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::paths;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::{Store, Upload};
use futures::TryStreamExt;
use futures::stream::BoxStream;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::ColumnOrder;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;
use serde_json::{Map, Value};

use super::file::{FileSpec, encoding, leaf_count};
use super::{FileKind, WriteSpec, logged_path, of_files};
use crate::cast::cast_batch;
use crate::read::{FileRead, Input, RawFile, ReadSpec, read_file};
use crate::stats::{self, ColumnStats};

type Writer = SerializedFileWriter<Vec<u8>>;

/// Gives columns of files new values.
pub struct Patcher {
    store: Store,
    spec: FileSpec,
    parquet: SchemaDescriptor,
    /// Positions of the assigned columns among those of the files.
    at: Vec<usize>,
    /// The assigned columns, in that order.
    assigned: StructType,
    read: Arc<ReadSpec>,
}

impl Patcher {
    /// A patcher of these columns of the table that `spec` describes; `None` where files have to be written whole: they
    /// name columns in another way, lay values out by what they are, or have one of the columns in their paths.
    ///
    /// # Errors
    /// As [`super::FileWriter::new`].
    pub fn new(store: &Store, spec: &WriteSpec, columns: &[String]) -> Result<Option<Patcher>> {
        let (partition_columns, stored) = of_files(spec)?;
        if spec.mapping != Mapping::None || spec.kind != FileKind::Data || spec.shred_variants {
            return Ok(None);
        }
        let mut at = Vec::with_capacity(columns.len());
        for name in columns {
            match stored.fields().iter().position(|f| f.name == *name) {
                Some(i) if !partition_columns.contains(name) => at.push(i),
                _ => return Ok(None),
            }
        }
        at.sort_unstable();
        let assigned = StructType::new(at.iter().filter_map(|i| stored.fields().get(*i)).cloned().collect());
        let read = ReadSpec {
            columns: Some(assigned.fields().iter().map(|f| f.name.clone()).collect()),
            ..ReadSpec::new(spec.schema.clone(), partition_columns.clone())
        };
        let files = FileSpec::new(stored, &partition_columns, spec)?;
        Ok(Some(Patcher {
            store: store.clone(),
            parquet: FileSpec::in_parquet(files.schema())?,
            spec: files,
            at,
            assigned,
            read: Arc::new(read),
        }))
    }

    /// Whether a file takes new values: it has no deleted rows, is the table's own, and its columns are as a writer would
    /// write them now. Costs its footer.
    ///
    /// # Errors
    /// `FileMissing`, `CorruptFile` with the file's path, and the store's errors.
    pub async fn takes(&self, file: &Add) -> Result<bool> {
        let read = FileRead::of(file)?;
        let foreign = read.path.starts_with('/') || read.path.contains("://");
        if foreign || file.deletion_vector.is_some() || has_loose_bounds(file) {
            return Ok(false);
        }
        let raw = RawFile::open(&self.store, &read).await?;
        let told = num_records(file).ok();
        let found = raw.footer.file_metadata().schema_descr().root_schema().get_fields();
        let same = found == self.parquet.root_schema().get_fields();
        Ok(same && told == Some(rows_of(&raw.footer)) && is_whole(&raw.footer))
    }

    /// Writes a file anew at this path with these values in some of its rows, all of them if `rows` is `None`; `values` has the
    /// assigned columns among others, in the order of these rows. The old file stays where it is.
    ///
    /// # Errors
    /// `SchemaMismatch` for values of other types; as [`Patcher::takes`]. Nothing is at the path then.
    pub async fn patch(&self, file: &Add, rows: Option<&Positions>, path: &str, values: &RecordBatch) -> Result<Add> {
        let mut upload = self.store.upload(path).await?;
        let made = match self.write(file, rows, values, &mut upload).await {
            Ok(made) => made,
            Err(e) => {
                upload.abort().await?;
                return Err(e);
            }
        };
        let size = upload.finish().await?;
        Ok(Add {
            path: logged_path(path),
            partition_values: file.partition_values.clone(),
            size: i64::try_from(size).unwrap_or(i64::MAX),
            modification_time: self.spec.now_ms(),
            data_change: true,
            stats: Some(merged(file, &self.names(), &made)?),
            ..Add::default()
        })
    }

    /// Writes the file; returns the statistics of the assigned columns.
    async fn write(
        &self,
        file: &Add,
        picked: Option<&Positions>,
        values: &RecordBatch,
        upload: &mut Upload,
    ) -> Result<String> {
        let values = cast_batch(&self.project(values)?, &self.assigned)?;
        let read = FileRead::of(file)?;
        let raw = RawFile::open(&self.store, &read).await?;
        let mut new = NewValues::of(picked, values, rows_of(&raw.footer))?;
        let mut old = OldValues {
            rows: match new.positions {
                Some(_) => Some(read_file(&self.store, &read, &self.read).await?),
                None => None,
            },
            left: None,
        };
        let mut columns = self.columns();
        let mut writer = self.begin(&raw, &new)?;
        for group in 0..raw.footer.num_row_groups() {
            let rows = usize::try_from(raw.footer.row_group(group).num_rows()).unwrap_or(0);
            let mut encoder = Encoder::new(&writer, self.spec.schema(), &self.at, group)?;
            let mut from = 0;
            while from < rows {
                let arrays = match old.next(rows - from).await? {
                    Some(arrays) => new.over(&arrays)?,
                    None => new.next(rows - from)?,
                };
                from += arrays.first().map_or(rows, |a| a.len());
                (encoder, columns) = blocking(move || encoder.encode(columns, &arrays)).await?;
            }
            let (footer, input) = (raw.footer.clone(), raw.fetch(range_of(&raw.footer, group)).await?);
            let bytes;
            (writer, bytes) = blocking(move || {
                append(&mut writer, &footer, group, &input, encoder.close()?)?;
                writer.flush().map_err(|e| failed(e.into()))?;
                let bytes = std::mem::take(writer.inner_mut());
                Ok((writer, Bytes::from(bytes)))
            })
            .await?;
            upload.write(bytes).await?;
        }
        upload.write(Bytes::from(writer.into_inner().map_err(failed)?)).await?;
        let made: Vec<_> = columns.into_iter().map(|c| c.stats).collect();
        Ok(stats::to_json(rows_of(&raw.footer), &made))
    }

    /// Begins a file with the schema of the old one, to which the chunks belong, and what its footer says beside.
    fn begin(&self, raw: &RawFile, new: &NewValues) -> Result<Writer> {
        let about = raw.footer.file_metadata();
        let properties = match new.positions {
            None => self.spec.properties_of(&self.names(), new.values.columns()),
            // Few new values say nothing of the old ones between which they stand: a dictionary that didn't pay there doesn't here.
            Some(_) => {
                let groups = raw.footer.row_groups().iter().take(1);
                let plain = groups
                    .flat_map(|g| g.columns())
                    .filter(|c| c.dictionary_page_offset().is_none());
                self.spec.without_dictionary(plain.map(|c| c.column_path().clone()))
            }
        };
        let properties = properties.as_ref().clone().into_builder();
        let properties = properties
            .set_key_value_metadata(about.key_value_metadata().cloned())
            .build();
        let schema = about.schema_descr().root_schema_ptr();
        SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).map_err(failed)
    }

    /// The decoded path of the file that a file becomes: another one of its directory.
    ///
    /// # Errors
    /// `CorruptLog` for a path that can't be decoded.
    pub fn new_path(&self, file: &Add, number: usize) -> Result<String> {
        let old = paths::decode(&file.path)?;
        let dir = old.rfind('/').and_then(|i| old.get(..=i)).unwrap_or_default();
        Ok(self.spec.new_path(dir, number))
    }

    fn names(&self) -> Vec<&str> {
        self.assigned.fields().iter().map(|f| f.name.as_str()).collect()
    }

    fn project(&self, values: &RecordBatch) -> Result<RecordBatch> {
        let found = self.names().into_iter().map(|name| values.schema().index_of(name));
        let found = found.collect::<Result<Vec<_>, _>>();
        let projected = found.and_then(|at| values.project(&at));
        projected.map_err(|e| Error::internal(format!("an assigned column has no values: {e}")))
    }

    fn columns(&self) -> Vec<Patched> {
        let at = self
            .at
            .iter()
            .filter_map(|i| Some((*i, self.spec.schema().fields().get(*i)?.clone())));
        at.map(|(i, field)| Patched {
            field,
            stats: self.spec.stats_of(i),
        })
        .collect()
    }
}

/// An assigned column on its way into the file.
struct Patched {
    field: FieldRef,
    stats: Option<ColumnStats>,
}

/// The new values, of which those of the next rows are taken one after the other.
struct NewValues {
    values: RecordBatch,
    /// The rows that they are for; `None` for all.
    positions: Option<Vec<u64>>,
    /// How many rows of the file, and how many values, are done.
    row: u64,
    taken: usize,
}

impl NewValues {
    fn of(picked: Option<&Positions>, values: RecordBatch, rows: u64) -> Result<Self> {
        let positions: Option<Vec<u64>> = picked.map(|p| p.iter().collect());
        let wanted = picked.map_or(rows, Positions::len);
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

    /// The next values where all rows get one.
    fn next(&mut self, most: usize) -> Result<Vec<ArrayRef>> {
        let rows = most.min(self.values.num_rows() - self.taken).min(CHUNK_ROWS);
        if rows == 0 {
            return Err(Error::internal("a file has more rows than its footer says"));
        }
        let next = self.values.slice(self.taken, rows);
        self.taken += rows;
        Ok(next.columns().to_vec())
    }

    /// The old values of the next rows with the new ones in their places.
    fn over(&mut self, old: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let rows = old.first().map_or(0, |a| a.len());
        let mut places: Vec<(usize, usize)> = (0..rows).map(|i| (0, i)).collect();
        let first = self.taken;
        for position in self.positions.iter().flatten().skip(first) {
            let slot = usize::try_from(position - self.row)
                .ok()
                .and_then(|i| places.get_mut(i));
            let Some(slot) = slot else { break };
            *slot = (1, self.taken);
            self.taken += 1;
        }
        self.row += u64::try_from(rows).unwrap_or(0);
        if self.taken == first {
            return Ok(old.to_vec());
        }
        let both = old.iter().zip(self.values.columns());
        both.map(|(old, new)| {
            interleave(&[old.as_ref(), new.as_ref()], &places)
                .map_err(|e| Error::internal(format!("putting new values between old ones failed: {e}")))
        })
        .collect()
    }
}

/// Rows encoded at once.
const CHUNK_ROWS: usize = 65_536;

/// The assigned columns as they are in the file; nothing is read where all rows get new values.
struct OldValues {
    rows: Option<BoxStream<'static, Result<RecordBatch>>>,
    left: Option<RecordBatch>,
}

impl OldValues {
    /// The next rows, at most so many.
    async fn next(&mut self, most: usize) -> Result<Option<Vec<ArrayRef>>> {
        let Some(rows) = &mut self.rows else { return Ok(None) };
        let batch = match self.left.take() {
            Some(batch) => batch,
            None => rows
                .try_next()
                .await?
                .ok_or_else(|| Error::corrupt_file("a data file has fewer rows than its footer says: it is damaged"))?,
        };
        if batch.num_rows() > most {
            self.left = Some(batch.slice(most, batch.num_rows() - most));
        }
        Ok(Some(batch.slice(0, most.min(batch.num_rows())).columns().to_vec()))
    }
}

/// The assigned columns of one row group.
struct Encoder {
    /// For each column the number of its first leaf, and the writers of its leaves.
    writers: Vec<(usize, Vec<ArrowColumnWriter>)>,
}

impl Encoder {
    fn new(writer: &Writer, schema: &SchemaRef, at: &[usize], group: usize) -> Result<Self> {
        let factory = ArrowRowGroupWriterFactory::new(writer, schema.clone());
        let mut made = factory.create_column_writers(group).map_err(failed)?.into_iter();
        let (mut writers, mut leaf) = (Vec::with_capacity(at.len()), 0);
        for (i, field) in schema.fields().iter().enumerate() {
            let leaves = leaf_count(field.data_type());
            let of_column = made.by_ref().take(leaves).collect();
            if at.contains(&i) {
                writers.push((leaf, of_column));
            }
            leaf += leaves;
        }
        Ok(Encoder { writers })
    }

    fn encode(mut self, mut columns: Vec<Patched>, arrays: &[ArrayRef]) -> Result<(Self, Vec<Patched>)> {
        let targets = self.writers.iter_mut().zip(&mut columns).zip(arrays);
        for (((_, writers), column), array) in targets {
            if let Some(stats) = &mut column.stats {
                stats.update(array)?;
                stats.update_typed(array)?;
            }
            let leaves = compute_leaves(&column.field, array).map_err(|e| encoding(column.field.name(), &e))?;
            for (writer, leaf) in writers.iter_mut().zip(&leaves) {
                writer.write(leaf).map_err(|e| encoding(column.field.name(), &e))?;
            }
        }
        Ok((self, columns))
    }

    /// The encoded chunks by the number of their leaf.
    fn close(self) -> Result<BTreeMap<usize, ArrowColumnChunk>> {
        let mut chunks = BTreeMap::new();
        for (first, writers) in self.writers {
            for (i, writer) in writers.into_iter().enumerate() {
                chunks.insert(first + i, writer.close().map_err(failed)?);
            }
        }
        Ok(chunks)
    }
}

/// Appends a row group: the encoded chunks, and the old ones of all other leaves.
fn append(
    writer: &mut Writer,
    footer: &ParquetMetaData,
    group: usize,
    input: &Input,
    mut encoded: BTreeMap<usize, ArrowColumnChunk>,
) -> Result<()> {
    let old = footer.row_group(group);
    let index = footer.page_index_for_row_group(group);
    let mut made = writer.next_row_group().map_err(failed)?;
    for (leaf, chunk) in old.columns().iter().enumerate() {
        if let Some(new) = encoded.remove(&leaf) {
            new.append_to_row_group(&mut made).map_err(failed)?;
            continue;
        }
        let close = ColumnCloseResult {
            bytes_written: u64::try_from(chunk.compressed_size()).unwrap_or(0),
            rows_written: u64::try_from(old.num_rows()).unwrap_or(0),
            metadata: chunk.clone(),
            bloom_filter: None,
            column_index: index.column_index(leaf).cloned(),
            offset_index: index.offset_index(leaf).cloned(),
        };
        made.append_column(input, close).map_err(failed)?;
    }
    made.close().map_err(failed)?;
    Ok(())
}

fn failed(e: ParquetError) -> Error {
    Error::internal(format!("writing a data file with new values failed: {e}"))
}

async fn blocking<T: Send + 'static>(f: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(f).await;
    done.map_err(|e| Error::internal(format!("encoding a data file: {e}")))?
}

fn rows_of(footer: &ParquetMetaData) -> u64 {
    u64::try_from(footer.file_metadata().num_rows()).unwrap_or(0)
}

/// The bytes of a row group's chunks.
fn range_of(footer: &ParquetMetaData, group: usize) -> Range<u64> {
    let ranges = footer
        .row_group(group)
        .columns()
        .iter()
        .map(ColumnChunkMetaData::byte_range);
    let (mut from, mut to) = (u64::MAX, 0);
    for (start, length) in ranges {
        from = from.min(start);
        to = to.max(start.saturating_add(length));
    }
    from.min(to)..to
}

/// What Spark says in a footer of dates and times in the calendar of before 1582.
const LEGACY: &str = "org.apache.spark.legacy";

/// Whether chunks may be taken over as bytes: all that belongs to them is known, and means the same in a new file.
fn is_whole(footer: &ParquetMetaData) -> bool {
    let about = footer.file_metadata();
    let orders = about.schema_descr().columns().iter().enumerate().all(|(i, c)| {
        let now = ColumnOrder::column_order_for_type(c.logical_type_ref(), c.converted_type(), c.physical_type());
        about.column_orders().is_some() && about.column_order(i) == now
    });
    // Such a mark is of all dates and times of a file, and the new ones are in today's calendar.
    let marks = about.key_value_metadata().into_iter().flatten();
    let of_today = marks.into_iter().all(|m| !m.key.starts_with(LEGACY));
    let groups = footer.row_groups();
    let rows: i64 = groups.iter().map(|g| g.num_rows().max(0)).fold(0, i64::saturating_add);
    orders && of_today && rows == about.num_rows() && groups.iter().flat_map(|g| g.columns()).all(takes_over)
}

fn takes_over(chunk: &ColumnChunkMetaData) -> bool {
    let ordered = match chunk.dictionary_page_offset() {
        Some(dictionary) => dictionary > 0 && dictionary < chunk.data_page_offset(),
        None => chunk.data_page_offset() > 0,
    };
    let bounds = chunk.statistics().is_none_or(|s| !s.is_min_max_deprecated());
    ordered
        && bounds
        && chunk.compressed_size() > 0
        && chunk.bloom_filter_offset().is_none()
        && chunk.file_path().is_none()
}

/// Whether the log says of a file without deleted rows that its bounds are wider than they need be.
fn has_loose_bounds(add: &Add) -> bool {
    let told = add
        .stats
        .as_deref()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    told.and_then(|v| v.get("tightBounds").and_then(Value::as_bool)) == Some(false)
}

/// The old statistics with those of the assigned columns replaced.
fn merged(add: &Add, names: &[&str], made: &str) -> Result<String> {
    let parse = |text: &str| {
        serde_json::from_str::<Map<String, Value>>(text)
            .map_err(|e| Error::corrupt_log(format!("the statistics of `{}` aren't readable: {e}", add.path)))
    };
    let mut told = parse(add.stats.as_deref().unwrap_or("{}"))?;
    let mut made = parse(made)?;
    for part in ["minValues", "maxValues", "nullCount"] {
        let Some(Value::Object(new)) = made.remove(part) else {
            continue;
        };
        let old = told.entry(part).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(old) = old {
            names.iter().for_each(|name| {
                old.remove(*name);
            });
            old.extend(new);
        }
    }
    Ok(Value::Object(told).to_string())
}
