//! A file written anew of which some columns get other values: their chunks are patched page by page, or else decoded and
//! encoded; those of all other columns are taken over as bytes, with their statistics and page indexes. Rows stay where they
//! are. Knows no log; called by commands that assign columns.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MutableArrayData, RecordBatch, make_array};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::deletion_vectors::{Positions, num_records};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::paths;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::{Store, Upload};
use futures::TryStreamExt;
use futures::future::try_join_all;
use futures::stream::BoxStream;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::ColumnOrder;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc};

use super::copied::CopiedColumn;
use super::file::{FileSpec, encoding, leaf_count};
use super::pages::OldChunk;
use super::parts::Parts;
use super::{FileKind, WriteSpec, logged_path, of_files};
use crate::cast::cast_batch;
use crate::processors::processors;
use crate::read::{FileRead, Input, Picked, ReadSpec, SourceFile, read_file};
use crate::stats::{self, ColumnStats};

type Writer = SerializedFileWriter<Parts>;

/// Gives columns of files new values.
pub struct Patcher {
    store: Store,
    spec: FileSpec,
    parquet: SchemaDescriptor,
    /// Positions of the assigned columns among those of the files.
    at: Vec<usize>,
    /// The assigned columns, in that order.
    assigned: StructType,
    read: ReadSpec,
    /// Permits to patch a chunk, one for each processor: those under way beyond them would only take memory.
    workers: Semaphore,
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
        let read = ReadSpec::new(spec.schema.clone(), partition_columns.clone());
        let files = FileSpec::new(stored, &partition_columns, spec)?;
        Ok(Some(Patcher {
            store: store.clone(),
            parquet: FileSpec::in_parquet(files.schema())?,
            spec: files,
            at,
            assigned,
            read,
            workers: Semaphore::new(processors()),
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
        let raw = SourceFile::open(&self.store, &read, true).await?;
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
        let raw = SourceFile::open(&self.store, &FileRead::of(file)?, true).await?;
        let mut new = NewValues::of(picked, values, rows_of(&raw.footer))?;
        let mut columns = self.columns();
        let mut writer = self.begin(&raw, &new)?;
        for group in 0..raw.footer.num_row_groups() {
            let input = raw.fetch(range_of(&raw.footer, group)).await?;
            let new = new.of_group(usize::try_from(raw.footer.row_group(group).num_rows()).unwrap_or(0))?;
            let mut chunks = self.patched(&raw, group, &input, &new, &mut columns).await?;
            let (done, left) = columns.into_iter().partition(|c: &Column| chunks.contains_key(&c.leaf));
            columns = done;
            if !left.is_empty() {
                let old = self.old_values(file, &raw, &left, &new).await?;
                let encoder = Encoder::new(&writer, self.spec.schema(), left, group)?;
                let (left, encoded) = encoder.encode(old, &new).await?;
                columns.extend(left);
                chunks.extend(encoded);
            }
            writer = append_group(writer, &raw, group, input, chunks, upload).await?;
        }
        for part in writer.into_inner().map_err(failed)?.take() {
            upload.write(part).await?;
        }
        columns.sort_unstable_by_key(|c| c.number);
        let made: Vec<_> = columns.into_iter().map(|c| c.stats).collect();
        Ok(stats::to_json(rows_of(&raw.footer), &made))
    }

    /// The chunks of a row group that can be patched page by page, by the numbers of their leaves.
    async fn patched(
        &self,
        raw: &SourceFile,
        group: usize,
        input: &Input,
        new: &GroupValues,
        columns: &mut [Column],
    ) -> Result<BTreeMap<usize, Chunk>> {
        let Some(rows) = &new.rows else {
            return Ok(BTreeMap::new());
        };
        let flat = columns.iter_mut().filter(|c| leaf_count(c.field.data_type()) == 1);
        let under_way = flat.map(|column| async {
            let old = OldChunk {
                footer: raw.footer.clone(),
                group,
                leaf: column.leaf,
                input: input.clone(),
            };
            let (rows, values) = (rows.clone(), new.of_column(column.number)?);
            let compression = self.spec.compression();
            let permit = self.workers.acquire().await;
            let _at_work = permit.map_err(|e| Error::internal(format!("patching a data file: {e}")))?;
            let made = blocking(move || old.patched(compression, &rows, &values).map_err(failed)).await?;
            let Some(made) = made else { return Ok(None) };
            if let Some(stats) = &mut column.stats {
                let (bounds, nulls) = made.bounds(column.field.data_type())?;
                stats.absorb(bounds.as_ref(), nulls)?;
            }
            Result::Ok(Some((column.leaf, Chunk::Patched(made))))
        });
        let done = try_join_all(under_way).await?;
        Ok(done.into_iter().flatten().collect())
    }

    /// The rows of these columns in a row group as they are in the file; nothing is read where all get new values.
    async fn old_values(
        &self,
        file: &Add,
        raw: &SourceFile,
        columns: &[Column],
        group: &GroupValues,
    ) -> Result<Option<BoxStream<'static, Result<RecordBatch>>>> {
        if group.rows.is_none() {
            return Ok(None);
        }
        let mut read = FileRead::of(file)?;
        if raw.footer.num_row_groups() > 1 {
            let mut rows = Positions::new();
            (group.first..group.first + group.count as u64).for_each(|row| rows.insert(row));
            read.picked = Some(Picked::Only(Arc::new(rows)));
        }
        let spec = ReadSpec {
            columns: Some(columns.iter().map(|c| c.field.name().clone()).collect()),
            ..self.read.clone()
        };
        read_file(&self.store, &read, &Arc::new(spec)).await.map(Some)
    }

    /// Begins a file with the schema of the old one, to which the chunks belong, and what its footer says beside.
    fn begin(&self, raw: &SourceFile, new: &NewValues) -> Result<Writer> {
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
        SerializedFileWriter::new(Parts::default(), schema, Arc::new(properties)).map_err(failed)
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

    fn columns(&self) -> Vec<Column> {
        let fields = self.spec.schema().fields();
        let mut leaf = 0;
        let leaves = fields.iter().map(|field| {
            let first = leaf;
            leaf += leaf_count(field.data_type());
            first
        });
        let all = fields.iter().zip(leaves).enumerate();
        let assigned = all.filter(|(at, _)| self.at.contains(at)).enumerate();
        assigned
            .map(|(number, (at, (field, leaf)))| Column {
                number,
                leaf,
                field: field.clone(),
                stats: self.spec.stats_of(at),
            })
            .collect()
    }
}

/// An assigned column on its way into the file.
struct Column {
    /// Among the assigned ones.
    number: usize,
    /// Its first leaf's.
    leaf: usize,
    field: FieldRef,
    stats: Option<ColumnStats>,
}

/// The new values, of which those of the next row group are taken one after the other.
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

    /// Those of the next row group, which has so many rows.
    fn of_group(&mut self, count: usize) -> Result<GroupValues> {
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
struct GroupValues {
    /// Its first row in the file, and how many it has.
    first: u64,
    count: usize,
    /// The group's rows that they are for, in order; `None` for all.
    rows: Option<Arc<Vec<usize>>>,
    values: RecordBatch,
}

impl GroupValues {
    /// Those of an assigned column.
    fn of_column(&self, number: usize) -> Result<ArrayRef> {
        let found = self.values.columns().get(number).cloned();
        found.ok_or_else(|| Error::internal("an assigned column has no values"))
    }

    /// The values that these columns have from a row on: those of the old rows that get no new ones, or else of so many rows.
    fn of_rows(&self, from: usize, old: Option<&RecordBatch>, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        let new = columns.iter().map(|number| self.of_column(*number));
        let (Some(old), Some(rows)) = (old, &self.rows) else {
            let count = CHUNK_ROWS.min(self.count - from);
            return new.map(|values| Ok(values?.slice(from, count))).collect();
        };
        let start = rows.partition_point(|row| *row < from);
        let end = rows.partition_point(|row| *row < from + old.num_rows());
        let at: Vec<usize> = rows.iter().take(end).skip(start).map(|row| row - from).collect();
        new.zip(old.columns())
            .map(|(new, old)| {
                put(old, &new?.slice(start, at.len()), &at)
                    .map_err(|e| Error::internal(format!("putting new values between old ones failed: {e}")))
            })
            .collect()
    }
}

/// The old values with the new ones in these places, which are in order. What lies between is copied in one piece.
fn put(old: &ArrayRef, new: &ArrayRef, at: &[usize]) -> Result<ArrayRef, ArrowError> {
    let (old, new) = (old.to_data(), new.to_data());
    let mut out = MutableArrayData::new(vec![&old, &new], false, old.len());
    let mut from = 0;
    for (i, at) in at.iter().enumerate() {
        out.try_extend(0, from, *at)?;
        out.try_extend(1, i, i + 1)?;
        from = at + 1;
    }
    out.try_extend(0, from, old.len())?;
    Ok(make_array(out.freeze()))
}

/// Rows encoded at once.
const CHUNK_ROWS: usize = 65_536;

/// Assigned columns of one row group that are encoded, each with the writers of its leaves.
struct Encoder(Vec<(Column, Vec<ArrowColumnWriter>)>);

impl Encoder {
    fn new(writer: &Writer, schema: &SchemaRef, columns: Vec<Column>, group: usize) -> Result<Self> {
        let factory = ArrowRowGroupWriterFactory::new(writer, schema.clone());
        let made = factory.create_column_writers(group).map_err(failed)?;
        let mut made: BTreeMap<usize, ArrowColumnWriter> = made.into_iter().enumerate().collect();
        let own = columns.into_iter().map(|column| {
            let leaves = column.leaf..column.leaf + leaf_count(column.field.data_type());
            let writers = leaves.filter_map(|leaf| made.remove(&leaf)).collect();
            (column, writers)
        });
        Ok(Encoder(own.collect()))
    }

    /// Encodes the rows of a group; the columns, and their chunks by the numbers of their leaves.
    async fn encode(
        mut self,
        mut old: Option<BoxStream<'static, Result<RecordBatch>>>,
        new: &GroupValues,
    ) -> Result<(Vec<Column>, BTreeMap<usize, Chunk>)> {
        let numbers: Vec<usize> = self.0.iter().map(|(column, _)| column.number).collect();
        let mut from = 0;
        while from < new.count {
            let batch = match &mut old {
                Some(old) => Some(old.try_next().await?.ok_or_else(|| {
                    Error::corrupt_file("a data file has fewer rows than its footer says: it is damaged")
                })?),
                None => None,
            };
            let arrays = new.of_rows(from, batch.as_ref(), &numbers)?;
            from += arrays.first().map_or(new.count, |a| a.len());
            self = blocking(move || self.take(&arrays)).await?;
        }
        blocking(move || self.close()).await
    }

    fn take(mut self, arrays: &[ArrayRef]) -> Result<Self> {
        for ((column, writers), array) in self.0.iter_mut().zip(arrays) {
            if let Some(stats) = &mut column.stats {
                stats.update(array)?;
                stats.update_typed(array)?;
            }
            let leaves = compute_leaves(&column.field, array).map_err(|e| encoding(column.field.name(), &e))?;
            for (writer, leaf) in writers.iter_mut().zip(&leaves) {
                writer.write(leaf).map_err(|e| encoding(column.field.name(), &e))?;
            }
        }
        Ok(self)
    }

    fn close(self) -> Result<(Vec<Column>, BTreeMap<usize, Chunk>)> {
        let (mut columns, mut chunks) = (Vec::with_capacity(self.0.len()), BTreeMap::new());
        for (column, writers) in self.0 {
            for (i, writer) in writers.into_iter().enumerate() {
                chunks.insert(column.leaf + i, Chunk::Encoded(writer.close().map_err(failed)?));
            }
            columns.push(column);
        }
        Ok((columns, chunks))
    }
}

/// A leaf's chunk with new values.
enum Chunk {
    Encoded(ArrowColumnChunk),
    Patched(CopiedColumn),
}

/// Appends a row group: the chunks with new values, and the old ones of all other leaves.
fn append(
    writer: &mut Writer,
    footer: &ParquetMetaData,
    group: usize,
    input: &Input,
    mut new: BTreeMap<usize, Chunk>,
    mut hand_on: impl FnMut() -> Result<()>,
) -> Result<()> {
    let old = footer.row_group(group);
    let index = footer.page_index_for_row_group(group);
    let mut made = writer.next_row_group().map_err(failed)?;
    for (leaf, chunk) in old.columns().iter().enumerate() {
        match new.remove(&leaf) {
            Some(Chunk::Encoded(new)) => new.append_to_row_group(&mut made).map_err(failed)?,
            Some(Chunk::Patched(new)) => new.append_to(&mut made).map_err(failed)?,
            None => {
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
        }
        hand_on()?;
    }
    made.close().map_err(failed)?;
    writer.flush().map_err(|e| failed(e.into()))
}

/// Appends a row group; its bytes go to the store as they are made, so that a file isn't held twice.
async fn append_group(
    mut writer: Writer,
    raw: &SourceFile,
    group: usize,
    input: Input,
    chunks: BTreeMap<usize, Chunk>,
    upload: &mut Upload,
) -> Result<Writer> {
    let footer = raw.footer.clone();
    let (sender, parts) = mpsc::channel(1);
    let appended = blocking(move || {
        let full = writer.inner().full();
        let send = |part| {
            sender
                .blocking_send(part)
                .map_err(|_| Error::internal("a data file's store went away"))
        };
        append(&mut writer, &footer, group, &input, chunks, || {
            full.take().into_iter().try_for_each(send)
        })?;
        writer.inner_mut().take().into_iter().try_for_each(send)?;
        Ok(writer)
    });
    let uploaded = async move {
        // Dropped at an error, so that whoever makes bytes doesn't wait for it.
        let mut parts = parts;
        while let Some(part) = parts.recv().await {
            upload.write(part).await?;
        }
        Ok(())
    };
    let (appended, uploaded) = futures::join!(appended, uploaded);
    uploaded.and(appended)
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

#[cfg(test)]
mod tests;
