//! Rewrites a file with new values in some columns: their chunks are patched page by page, or else
//! decoded and encoded; chunks of all other columns are copied as bytes, with their statistics and
//! page indexes. Rows keep their positions. Knows no log.

mod append;
mod encode;
mod values;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::FieldRef;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::deletion_vectors::{Positions, num_records};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::paths;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::{Store, Upload};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::basic::ColumnOrder;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc};

use self::append::{Chunk, append_group};
use self::encode::Encoder;
use self::values::{GroupValues, NewValues};
use super::compress::Codecs;
use super::file::{FileSpec, leaf_count};
use super::pages::OldChunk;
use super::parts::Parts;
use super::{FileKind, WriteSpec, logged_path, of_files};
use crate::cast::cast_batch;
use crate::processors::processors;
use crate::read::{FileRead, Input, ReadSpec, SelectedRows, SourceFile, filter_range, read_file};
use crate::stats::{ColumnStats, to_json};

type Writer = SerializedFileWriter<Parts>;

/// Gives columns of files new values.
pub struct Patcher {
    store: Store,
    spec: FileSpec,
    parquet: SchemaDescriptor,
    /// Positions of the assigned columns in the files.
    indices: Vec<usize>,
    /// The assigned columns, in that order.
    assigned: StructType,
    read: ReadSpec,
    /// Permits to patch a chunk, one per processor: more chunks in flight would only take memory.
    workers: Arc<Semaphore>,
    /// Permits to write a file, one more than processors: while one waits for the store the others
    /// compute.
    makers: Semaphore,
    codecs: Arc<Codecs>,
}

impl Patcher {
    /// A patcher for these columns; `None` if files have to be rewritten completely: they use other
    /// column names, choose layouts by values, or have one of the columns in their paths.
    ///
    /// # Errors
    /// As [`super::FileWriter::new`].
    pub fn new(store: &Store, spec: &WriteSpec, columns: &[String]) -> Result<Option<Patcher>> {
        let (partition_columns, stored) = of_files(spec)?;
        if spec.mapping != Mapping::None || spec.kind != FileKind::Data || spec.shred_variants {
            return Ok(None);
        }
        let mut indices = Vec::with_capacity(columns.len());
        for name in columns {
            match stored.fields().iter().position(|f| f.name == *name) {
                Some(i) if !partition_columns.contains(name) => indices.push(i),
                _ => return Ok(None),
            }
        }
        indices.sort_unstable();
        let assigned = StructType::new(
            indices
                .iter()
                .filter_map(|i| stored.fields().get(*i))
                .cloned()
                .collect(),
        );
        let read = ReadSpec::new(spec.schema.clone(), partition_columns.clone());
        let files = FileSpec::new(stored, &partition_columns, spec)?;
        Ok(Some(Patcher {
            store: store.clone(),
            parquet: FileSpec::in_parquet(files.schema())?,
            codecs: Arc::new(Codecs::new(files.compression())),
            spec: files,
            indices,
            assigned,
            read,
            workers: Arc::new(Semaphore::new(processors())),
            makers: Semaphore::new(processors() + 1),
        }))
    }

    /// Whether a file can be patched: it has no deleted rows, is the table's own, and its columns
    /// have the current form, with the Bloom filters of new files. Reads its footer.
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
        let stats = num_records(file).ok();
        let fields = raw.footer.file_metadata().schema_descr().root_schema().get_fields();
        let same = fields == self.parquet.root_schema().get_fields();
        Ok(same && stats == Some(rows_of(&raw.footer)) && is_whole(&raw.footer) && self.keeps_filters(&raw))
    }

    /// Whether all unchanged columns that have Bloom filters in new files have them in this one.
    fn keeps_filters(&self, raw: &SourceFile) -> bool {
        let names = self.names();
        let unchanged = |path: &ColumnPath| path.parts().first().is_none_or(|top| !names.contains(&top.as_str()));
        let chunks = raw.footer.row_groups().iter().flat_map(|g| g.columns());
        let mut needed = chunks.filter(|c| self.spec.has_filter(c.column_path()) && unchanged(c.column_path()));
        needed.all(|c| filter_range(&raw.footer, c, raw.size_bytes()).is_some())
    }

    /// Writes the patched file to this path, with these values in some of its rows, or in all if
    /// `rows` is `None`; `values` has the assigned columns among others, in the order of these
    /// rows. The old file stays.
    ///
    /// # Errors
    /// `SchemaMismatch` for values of other types; as [`Patcher::takes`]. The path is then free.
    pub async fn patch(&self, file: &Add, rows: Option<&Positions>, path: &str, values: &RecordBatch) -> Result<Add> {
        let making = self.makers.acquire().await;
        let making = making.map_err(|e| Error::internal(format!("making a data file: {e}")))?;
        let mut upload = self.store.upload(path).await?;
        let made = match self.write(file, rows, values, &mut upload).await {
            Ok(made) => made,
            Err(e) => {
                upload.abort().await?;
                return Err(e);
            }
        };
        drop(making);
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
        selected: Option<&Positions>,
        values: &RecordBatch,
        upload: &mut Upload,
    ) -> Result<String> {
        let values = cast_batch(&self.project(values)?, &self.assigned)?;
        let raw = SourceFile::open(&self.store, &FileRead::of(file)?, true).await?;
        let mut new = NewValues::of(selected, values, rows_of(&raw.footer))?;
        let mut columns = self.columns();
        let mut writer = self.begin(&raw, &new)?;
        let encoders = ArrowRowGroupWriterFactory::new(&writer, self.spec.schema().clone());
        for number in 0..raw.footer.num_row_groups() {
            let old = raw.footer.row_group(number);
            let group = Group {
                file,
                raw: &raw,
                number,
                new: new.of_group(usize::try_from(old.num_rows()).unwrap_or(0))?,
                encoders: &encoders,
            };
            let (sender, chunks) = mpsc::channel(1);
            let made = self.chunks(&group, columns, sender);
            let appended = append_group(writer, raw.footer.clone(), number, chunks, upload);
            let (made, appended) = futures::join!(made, appended);
            (columns, writer) = (made?, appended?);
        }
        for part in writer.into_inner().map_err(failed)?.take() {
            upload.write(part).await?;
        }
        columns.sort_unstable_by_key(|c| c.number);
        let made: Vec<_> = columns.into_iter().map(|c| c.stats).collect();
        Ok(to_json(rows_of(&raw.footer), &made))
    }

    /// Makes the chunks of a row group in order, a few of them concurrently. Returns the columns.
    async fn chunks(&self, group: &Group<'_>, columns: Vec<Column>, to: mpsc::Sender<Chunk>) -> Result<Vec<Column>> {
        let (patched, encoded): (Vec<_>, Vec<_>) = columns.into_iter().partition(|c| self.is_patchable(group, c));
        let (mut done, mut ready) = match encoded.is_empty() {
            true => (encoded, BTreeMap::new()),
            false => self.encoded(group, encoded).await?,
        };
        let mut patched: BTreeMap<usize, Column> = patched.into_iter().map(|c| (c.leaf, c)).collect();
        for leaves in fetched_together(group.raw.footer.row_group(group.number)) {
            let wanted = leaves.clone().filter(|leaf| !ready.contains_key(leaf));
            let ranges = wanted
                .flat_map(|leaf| ranges_of(group.raw, group.number, leaf))
                .collect();
            let input = group.raw.fetch(ranges).await?;
            let work: Vec<_> = leaves
                .map(|leaf| (ready.remove(&leaf), patched.remove(&leaf)))
                .collect();
            let made = stream::iter(work).map(async |(ready, column)| match (ready, column) {
                (Some(chunk), _) => Ok((chunk, None)),
                (None, None) => Ok((Chunk::Unchanged(input.clone()), None)),
                (None, Some(column)) => {
                    let (chunk, column) = self.patched(group, &input, column).await?;
                    Result::Ok((chunk, Some(column)))
                }
            });
            let mut made = made.buffered(processors());
            while let Some((chunk, column)) = made.try_next().await? {
                done.extend(column);
                if to.send(chunk).await.is_err() {
                    // The receiver reports why it ended.
                    return Ok(done);
                }
            }
        }
        Ok(done)
    }

    fn is_patchable(&self, group: &Group<'_>, column: &Column) -> bool {
        group.new.rows.is_some()
            && leaf_count(column.field.data_type()) == 1
            // A Bloom filter needs all values.
            && !self.spec.has_filters_in(column.field.name())
            && group.old(column.leaf).is_patchable(&self.codecs)
    }

    /// The chunk of a column with new values, patched page by page if possible.
    async fn patched(&self, group: &Group<'_>, input: &Input, mut column: Column) -> Result<(Chunk, Column)> {
        let (old, input, rows) = (group.old(column.leaf), input.clone(), group.new.rows.clone());
        let values = group.new.of_column(column.number)?;
        let (workers, codecs) = (self.workers.clone(), self.codecs.clone());
        // A task of its own: it finishes, and returns its permit, while chunks before it wait for
        // the store.
        let made = deltaplane_store::spawn_task(async move {
            let permit = workers.acquire().await;
            let _at_work = permit.map_err(|e| Error::internal(format!("patching a data file: {e}")))?;
            let rows = rows.unwrap_or_default();
            blocking(move || old.patched(&input, &codecs, &rows, &values).map_err(failed)).await
        });
        let made = made
            .await
            .map_err(|e| Error::internal(format!("patching a data file: {e}")))??;
        if let Some(made) = made {
            if let Some(stats) = &mut column.stats {
                let (bounds, nulls) = made.bounds(column.field.data_type())?;
                stats.absorb(bounds.as_ref(), nulls)?;
            }
            return Ok((Chunk::Patched(made), column));
        }
        let leaf = column.leaf;
        let (mut columns, mut chunks) = self.encoded(group, vec![column]).await?;
        let made = chunks.remove(&leaf).zip(columns.pop());
        made.ok_or_else(|| Error::internal("a column of a data file wasn't encoded"))
    }

    /// Encodes these columns; returns them and their chunks by leaf number.
    async fn encoded(&self, group: &Group<'_>, columns: Vec<Column>) -> Result<(Vec<Column>, BTreeMap<usize, Chunk>)> {
        let old = self.old_values(group, &columns).await?;
        let encoder = Encoder::new(group.encoders, columns, group.number)?;
        encoder.encode(old, &group.new).await
    }

    /// The current rows of these columns in a row group; reads nothing if all get new values.
    async fn old_values(
        &self,
        group: &Group<'_>,
        columns: &[Column],
    ) -> Result<Option<BoxStream<'static, Result<RecordBatch>>>> {
        let new = &group.new;
        if new.rows.is_none() {
            return Ok(None);
        }
        let mut read = FileRead::of(group.file)?;
        if group.raw.footer.num_row_groups() > 1 {
            let mut rows = Positions::new();
            (new.first..new.first + new.count as u64).for_each(|row| rows.insert(row));
            read.selected = Some(SelectedRows::Only(Arc::new(rows)));
        }
        let spec = ReadSpec {
            columns: Some(columns.iter().map(|c| c.field.name().clone()).collect()),
            ..self.read.clone()
        };
        read_file(&self.store, &read, &Arc::new(spec)).await.map(Some)
    }

    /// Begins a file with the schema of the old one, to which the chunks belong, and the old
    /// footer's metadata.
    fn begin(&self, raw: &SourceFile, new: &NewValues) -> Result<Writer> {
        let about = raw.footer.file_metadata();
        let properties = match new.positions {
            None => self.spec.properties_of(&self.names(), new.values.columns()),
            // A few new values tell nothing about the old ones around them: a dictionary that
            // didn't pay before doesn't pay now.
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

    /// The decoded path of a file's replacement: a new name in its directory.
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
        let columns_by_name = self.names().into_iter().map(|name| values.schema().index_of(name));
        let columns_by_name = columns_by_name.collect::<Result<Vec<_>, _>>();
        let projected = columns_by_name.and_then(|columns| values.project(&columns));
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
        let assigned = all.filter(|(index, _)| self.indices.contains(index)).enumerate();
        assigned
            .map(|(number, (index, (field, leaf)))| Column {
                number,
                leaf,
                field: field.clone(),
                stats: self.spec.stats_of(index),
            })
            .collect()
    }
}

/// A row group of a file being patched.
struct Group<'a> {
    file: &'a Add,
    raw: &'a SourceFile,
    number: usize,
    new: GroupValues,
    encoders: &'a ArrowRowGroupWriterFactory,
}

impl Group<'_> {
    fn old(&self, leaf: usize) -> OldChunk {
        OldChunk {
            footer: self.raw.footer.clone(),
            group: self.number,
            leaf,
        }
    }
}

/// An assigned column being written.
struct Column {
    /// Among the assigned ones.
    number: usize,
    /// Its first leaf's.
    leaf: usize,
    field: FieldRef,
    stats: Option<ColumnStats>,
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

/// Adjacent chunks with fewer bytes in all are fetched from an object store in one request.
const FETCHED_BYTES: u64 = 16 << 20;

/// The leaves of a row group in order, grouped by request.
fn fetched_together(group: &RowGroupMetaData) -> Vec<Range<usize>> {
    let (mut parts, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (leaf, chunk) in group.columns().iter().enumerate() {
        let more = chunk.byte_range().1;
        if leaf > from && bytes + more > FETCHED_BYTES {
            parts.push(from..leaf);
            (from, bytes) = (leaf, 0);
        }
        bytes += more;
    }
    parts.push(from..group.num_columns());
    parts
}

/// The bytes of a chunk, and of its Bloom filter.
fn ranges_of(raw: &SourceFile, group: usize, leaf: usize) -> impl Iterator<Item = Range<u64>> + use<> {
    let chunk = raw.footer.row_group(group).column(leaf);
    let (start, length) = chunk.byte_range();
    let filter = filter_range(&raw.footer, chunk, raw.size_bytes());
    std::iter::once(start..start.saturating_add(length)).chain(filter)
}

/// Prefix of Spark's footer keys for dates and times in the calendar before 1582.
const LEGACY: &str = "org.apache.spark.legacy";

/// Whether chunks may be copied as bytes: all their metadata is known, and valid in a new file.
fn is_whole(footer: &ParquetMetaData) -> bool {
    let about = footer.file_metadata();
    let orders = about.schema_descr().columns().iter().enumerate().all(|(i, c)| {
        let now = ColumnOrder::column_order_for_type(c.logical_type_ref(), c.converted_type(), c.physical_type());
        about.column_orders().is_some() && about.column_order(i) == now
    });
    // Such a mark applies to all dates and times of a file, and the new ones use today's calendar.
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
    ordered && bounds && chunk.compressed_size() > 0 && chunk.file_path().is_none()
}

/// Whether the log says that the bounds of a file without deleted rows are wider than necessary.
fn has_loose_bounds(add: &Add) -> bool {
    let stats = add
        .stats
        .as_deref()
        .and_then(|text| serde_json::from_str::<Value>(text).ok());
    stats.and_then(|v| v.get("tightBounds").and_then(Value::as_bool)) == Some(false)
}

/// The old statistics with those of the assigned columns replaced.
fn merged(add: &Add, names: &[&str], made: &str) -> Result<String> {
    let parse = |text: &str| {
        serde_json::from_str::<Map<String, Value>>(text)
            .map_err(|e| Error::corrupt_log(format!("the statistics of `{}` aren't readable: {e}", add.path)))
    };
    let mut stats = parse(add.stats.as_deref().unwrap_or("{}"))?;
    let mut made = parse(made)?;
    for part in ["minValues", "maxValues", "nullCount"] {
        let Some(Value::Object(new)) = made.remove(part) else {
            continue;
        };
        let old = stats.entry(part).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(old) = old {
            names.iter().for_each(|name| {
                old.remove(*name);
            });
            old.extend(new);
        }
    }
    Ok(Value::Object(stats).to_string())
}

#[cfg(test)]
mod tests;
