//! The writer of data files: rows in, `Add`s ready for a commit out (files are written, no log is
//! touched). Owns partitions, file size and memory; `split` groups rows, `file` encodes one Parquet
//! file.

mod bloom;
mod bounds;
mod compress;
mod copied;
mod encodings;
mod file;
mod indexes;
mod kinds;
mod marks;
mod pages;
mod parts;
mod patch;
mod plain;
mod repeats;
mod sink;
mod split;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Add;
use deltaplane_protocol::bloom_filters::BloomFilter;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::paths;
use deltaplane_protocol::schema::{DataType, Primitive, StructType};
use deltaplane_store::Store;
use parquet::basic::CompressionCodec;
use parquet::schema::types::ColumnDescPtr;
use tokio::task::JoinHandle;

use crate::stats::StatsConfig;
use crate::types::{is_storable, row_schema, without_void};
pub(crate) use copied::CopiedColumn;
use file::{FileSpec, OpenFile, ROW_GROUP_BYTES};
pub use kinds::FileKind;
use kinds::{as_change, change_file, name_ids};
pub use marks::{Marked, mark_rows};
pub use patch::Patcher;
pub use sink::{RowSink, Written};
use split::{Part, Sorted, Splitter, bytes_of};

/// Most rows of a row group: readers work on row groups in parallel and hold one or two of each
/// thread in memory; small ones cost little more (docs/adr/0074-row-groups.md).
const ROW_GROUP_ROWS: usize = 1 << 18;
/// Fewest rows to pass to the encoder at once: below it passing them costs more than the encoding.
const CHUNK_ROWS: usize = 8_192;
/// Rows encoded between two checks of the file's size.
const MAX_CHUNK_ROWS: usize = 131_072;
/// Bytes of rows held for partitions without an open file; beyond it the largest partition is
/// written.
const PENDING_BYTES: usize = 256 << 20;
/// Bytes of unfinished row groups of all open files; beyond it the largest is closed.
const ENCODED_BYTES: usize = 512 << 20;
/// Files that are being closed concurrently, so that their waits for the disk overlap.
const MAX_CLOSING: usize = 16;
/// The same for small files, which mostly wait, and the bytes that all of them may have.
const MAX_SMALL_CLOSING: usize = 64;
const SMALL_CLOSING_BYTES: u64 = 16 << 20;

/// How the pages of data files are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    Uncompressed,
    /// Snappy, which most readers support.
    Snappy,
    /// Zstandard at this level, 1 to 22.
    Zstd(i32),
    /// gzip at its default level.
    Gzip,
    /// LZ4 without framing.
    Lz4Raw,
}

impl Default for Compression {
    /// Half of snappy's size for a few per cent more CPU.
    fn default() -> Self {
        Compression::Zstd(1)
    }
}

/// The content and form of a write's files.
#[derive(Debug, Clone)]
pub struct WriteSpec {
    /// The table's schema, partition columns included.
    pub schema: Arc<StructType>,
    /// Partition columns in directory order.
    pub partition_columns: Vec<String>,
    /// The mapping of column names in files and their adds.
    pub mapping: Mapping,
    /// Whether files also have the partition columns, after the others (P156).
    pub partition_columns_in_files: bool,
    /// A file is closed at about this many bytes.
    pub target_file_size_bytes: u64,
    /// Which columns get statistics.
    pub stats: StatsConfig,
    /// Columns that never get statistics, by name.
    pub unmeasured: Vec<String>,
    /// The purpose of the files.
    pub kind: FileKind,
    /// Page compression.
    pub compression: Compression,
    /// The columns with Bloom filters.
    pub bloom_filters: Vec<BloomFilter>,
    /// Encodings by the dotted names of columns, which then have no dictionary.
    pub encodings: BTreeMap<String, String>,
    /// Whether variants get typed columns, by the first rows of each file (P154).
    pub shred_variants: bool,
    /// Most rows in a row group.
    pub row_group_rows: usize,
    /// Most files being encoded at once; rows of further partitions wait in bounded memory.
    pub max_open_partitions: usize,
    /// `modificationTime` of the adds, ms since the epoch.
    pub now_ms: i64,
    /// The number in the name of the first file, from which later files count on.
    pub first_file: usize,
}

impl WriteSpec {
    /// The defaults for a table of this schema: zstd, 128 MiB files, row groups of 262,144 rows.
    pub fn new(schema: Arc<StructType>, partition_columns: Vec<String>, now_ms: i64) -> Self {
        WriteSpec {
            schema,
            partition_columns,
            mapping: Mapping::None,
            partition_columns_in_files: false,
            target_file_size_bytes: 128 << 20,
            stats: StatsConfig::default(),
            unmeasured: Vec::new(),
            kind: FileKind::Data,
            compression: Compression::default(),
            bloom_filters: Vec::new(),
            encodings: BTreeMap::new(),
            shred_variants: false,
            row_group_rows: ROW_GROUP_ROWS,
            max_open_partitions: 64,
            now_ms,
            first_file: 0,
        }
    }
}

/// The partition columns, and the stored columns: without void (P181).
fn of_files(spec: &WriteSpec) -> Result<(Vec<String>, StructType)> {
    let partition_columns = check_partition_columns(spec)?;
    let stored = spec.schema.fields().iter();
    let stored = stored.filter(|f| !partition_columns.contains(&f.name));
    let stored = StructType::new(stored.cloned().collect());
    check_storable(&stored)?;
    let mut stored = without_void(&stored);
    if spec.partition_columns_in_files {
        let values = partition_columns.iter().filter_map(|c| spec.schema.field(c));
        stored = StructType::new(stored.fields().iter().chain(values).cloned().collect());
    }
    Ok((partition_columns, stored))
}

/// The most rows and bytes of a row group in files of this spec.
pub(crate) fn row_group_limits(spec: &WriteSpec) -> (u64, u64) {
    (spec.row_group_rows.max(1) as u64, ROW_GROUP_BYTES as u64)
}

/// One partition's rows that are being written.
#[derive(Default)]
struct Partition {
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: usize,
    file: Option<OpenFile>,
}

/// Writes rows to new data files of a table.
///
/// Constants bound the memory, whatever the number of partitions. After an error only
/// [`FileWriter::abort`] is useful.
pub struct FileWriter {
    store: Store,
    spec: Arc<FileSpec>,
    table_schema: SchemaRef,
    splitter: Splitter,
    target_file_size_bytes: u64,
    max_open: usize,
    /// Key: the partition's values as text, in the order of the partition columns.
    partitions: HashMap<Vec<Option<String>>, Partition>,
    open_files: usize,
    closing: Vec<OnItsWay>,
    adds: Vec<Add>,
    begun: Begun,
    /// The last batch, if the table is partitioned.
    held: Option<Arc<Sorted>>,
}

/// A file that is being closed in the background.
struct OnItsWay {
    bytes: u64,
    add: JoinHandle<Result<Add>>,
}

/// The files that a writer has begun.
struct Begun {
    /// The number of the next one.
    next: usize,
    /// Their keys, for `abort`.
    keys: Vec<String>,
}

impl Begun {
    /// The number and the decoded path of a new file in this directory of a partition.
    fn new_file(&mut self, spec: &FileSpec, dir: &str) -> (usize, String) {
        let number = self.next;
        let path = spec.new_path(dir, number);
        self.next += 1;
        self.keys.push(path.clone());
        (number, path)
    }
}

impl FileWriter {
    /// A writer without rows. Makes no request.
    ///
    /// # Errors
    /// `InvalidArgument` for partition columns that are unknown, all columns, or of a nested or
    /// void type (P173); `SchemaMismatch` for a schema that can't be stored (P181).
    pub fn new(store: Store, spec: WriteSpec) -> Result<Self> {
        let (partition_columns, stored) = of_files(&spec)?;
        let splitter = Splitter::new(&spec, &partition_columns, &stored)?;
        let file_spec = FileSpec::new(stored, &partition_columns, &spec)?;
        Ok(FileWriter {
            store,
            table_schema: row_schema(spec.schema.fields()),
            spec: Arc::new(file_spec),
            splitter,
            target_file_size_bytes: spec.target_file_size_bytes.max(1),
            max_open: spec.max_open_partitions.max(1),
            partitions: HashMap::new(),
            open_files: 0,
            closing: Vec::new(),
            adds: Vec::new(),
            begun: Begun {
                next: spec.first_file,
                keys: Vec::new(),
            },
            held: None,
        })
    }

    /// A file is closed at about this many bytes.
    pub(crate) fn target_file_size_bytes(&self) -> u64 {
        self.target_file_size_bytes
    }

    /// Writes rows: a batch in the table's schema, partition columns included, as `cast_batch`
    /// makes it.
    ///
    /// # Errors
    /// `SchemaMismatch` if the batch isn't in the table's schema; errors of the store.
    pub async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if batch.num_columns() != self.table_schema.fields().len() {
            return Err(Error::schema_mismatch(format!(
                "a batch of {} columns was given to the writer of a table of {}: cast it to the table's schema first",
                batch.num_columns(),
                self.table_schema.fields().len()
            )));
        }
        if self.splitter.splits() {
            self.take_held().await?;
            self.held = Some(Arc::new(self.splitter.sorted(&batch)?));
            return Ok(());
        }
        let parts = self.splitter.split(&batch, CHUNK_ROWS)?;
        self.add(parts).await
    }

    /// Splits the held batch by partition.
    async fn take_held(&mut self) -> Result<()> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let all: Vec<usize> = (0..held.partitions().count()).collect();
        self.add(held.parts(&all, CHUNK_ROWS)?).await
    }

    /// Writes the held batch's rows of partitions that have no other rows, each as a file that is
    /// encoded at once: rows are gathered where they are encoded, so that the batch is never in
    /// memory twice. Splits the others by partition.
    async fn end_held(&mut self) -> Result<()> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let (mut alone, mut others) = (Vec::new(), Vec::new());
        // Different values may be one partition: an empty string is null in a path.
        let mut values: HashMap<_, usize> = HashMap::new();
        for (key, _) in held.partitions() {
            *values.entry(key).or_default() += 1;
        }
        for (number, (key, rows)) in held.partitions().enumerate() {
            let is_new = values.get(key) == Some(&1) && self.partitions.get(key).is_none_or(Partition::is_empty);
            match is_new && self.is_small(rows, held.bytes_of(rows) as u64) {
                true => alone.push((number, key.clone(), rows)),
                false => others.push(number),
            }
        }
        self.add(held.parts(&others, CHUNK_ROWS)?).await?;
        for (number, key, rows) in alone {
            let (held, bytes) = (held.clone(), held.bytes_of(rows) as u64);
            self.write_whole(&key, bytes, move || Ok(vec![held.rows_of(number)?]))
                .await?;
        }
        Ok(())
    }

    /// Holds rows within the memory bounds.
    async fn add(&mut self, parts: Vec<Part>) -> Result<()> {
        for part in parts {
            let p = self.partition(&part.key);
            p.add(part.rows);
            if p.pending_rows >= CHUNK_ROWS && (p.file.is_some() || self.open_files < self.max_open) {
                self.encode(&part.key).await?;
            }
        }
        self.bound_memory().await
    }

    /// The columns whose pages may be copied from other files: their positions in the table's
    /// schema, and each one's leaf in new files. Also the required compression.
    ///
    /// # Errors
    /// `SchemaMismatch` for a schema that Parquet can't hold.
    pub(crate) fn copyable(&self) -> Result<(Vec<(usize, ColumnDescPtr)>, CompressionCodec)> {
        let leaves = self.splitter.stored().zip(self.spec.copyable()?);
        let pairs = leaves.filter_map(|(place, leaf)| Some((place, leaf?))).collect();
        Ok((pairs, self.spec.codec()?))
    }

    /// Writes a row group with some copied columns, given by their positions in the table's schema.
    /// In the batches these columns have Arrow's null type; all rows are of one partition.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Internal` if the numbers of rows and copied rows differ.
    pub(crate) async fn write_beside(
        &mut self,
        columns: Vec<(usize, CopiedColumn)>,
        batches: Vec<RecordBatch>,
    ) -> Result<()> {
        let places: Vec<usize> = self.splitter.stored().collect();
        let place = |index: usize| places.iter().position(|p| *p == index);
        let columns = columns
            .into_iter()
            .map(|(index, c)| Some((place(index)?, c)))
            .collect::<Option<Vec<_>>>();
        let mut columns = Some(columns.ok_or_else(|| Error::internal("a column was copied that isn't stored"))?);
        self.take_held().await?;
        let mut key = Vec::new();
        for batch in batches {
            for part in self.splitter.split(&batch, 0)? {
                if let Some(columns) = columns.take() {
                    key.clone_from(&part.key);
                    self.partition(&key);
                    self.encode(&key).await?;
                    self.open(&key, &part.rows).await?.copy(columns).await?;
                }
                if part.key != key {
                    return Err(Error::internal("a row group was to be of several partitions"));
                }
                self.open(&key, &part.rows).await?.encode(part.rows).await?;
            }
        }
        match self.partitions.get_mut(&key).and_then(|p| p.file.as_mut()) {
            Some(file) => file.end_row_group().await,
            None => Ok(()),
        }
    }

    /// Closes all files and returns their adds in the order in which the files were begun.
    pub async fn finish(mut self) -> Result<Vec<Add>> {
        self.end_held().await?;
        let mut keys: Vec<_> = self.partitions.keys().cloned().collect();
        keys.sort_by_key(|k| {
            self.partitions
                .get(k)
                .and_then(|p| p.file.as_ref())
                .map_or(usize::MAX, OpenFile::number)
        });
        for key in keys {
            if self.is_one_small_file(&key) {
                let partition = self.partitions.get_mut(&key);
                let bytes = partition.as_ref().map_or(0, |p| p.pending_bytes as u64);
                let pending = partition.map_or(Ok(Vec::new()), Partition::take_pending)?;
                self.write_whole(&key, bytes, || Ok(pending)).await?;
            } else {
                self.encode(&key).await?;
                self.close(&key).await?;
            }
        }
        while !self.closing.is_empty() {
            self.collect_one().await?;
        }
        let mut adds = std::mem::take(&mut self.adds);
        adds.sort_by(|a, b| file_name(&a.path).cmp(file_name(&b.path)));
        Ok(adds)
    }

    /// Deletes every file that this writer has begun, as far as the store permits.
    pub async fn abort(mut self) {
        for p in self.partitions.values_mut() {
            if let Some(file) = p.file.take() {
                file.abort().await;
            }
        }
        for file in std::mem::take(&mut self.closing) {
            let _ = file.add.await;
        }
        for key in &self.begun.keys {
            if let Err(e) = self.store.delete(key).await {
                tracing::warn!(file = %key, error = %e, "a data file of an aborted write is left behind: vacuum removes it");
            }
        }
    }

    /// Encodes the pending rows of a partition, beginning and closing files by size.
    async fn encode(&mut self, key: &[Option<String>]) -> Result<()> {
        let Some(p) = self.partitions.get_mut(key) else {
            return Ok(());
        };
        for batch in p.take_pending()? {
            let mut from = 0;
            while from < batch.num_rows() {
                let n = (batch.num_rows() - from).min(MAX_CHUNK_ROWS);
                self.encode_chunk(key, batch.slice(from, n)).await?;
                from += n;
            }
        }
        Ok(())
    }

    fn partition(&mut self, key: &[Option<String>]) -> &mut Partition {
        self.partitions.entry(key.to_vec()).or_default()
    }

    /// The open file of a partition; if there is none, begins one that starts with these rows.
    async fn open(&mut self, key: &[Option<String>], rows: &RecordBatch) -> Result<&mut OpenFile> {
        let Some(p) = self.partitions.get_mut(key) else {
            return Err(Error::internal("rows of a partition that wasn't begun"));
        };
        match &mut p.file {
            Some(file) => Ok(file),
            slot => {
                let (dir, values) = (self.splitter.dir(key), self.splitter.values(key));
                let (number, path) = self.begun.new_file(&self.spec, &dir);
                self.open_files += 1;
                let file = OpenFile::create(&self.store, self.spec.clone(), number, path, values, rows, None).await?;
                Ok(slot.insert(file))
            }
        }
    }

    async fn encode_chunk(&mut self, key: &[Option<String>], rows: RecordBatch) -> Result<()> {
        let file = self.open(key, &rows).await?;
        file.encode(rows).await?;
        if file.bytes() >= self.target_file_size_bytes {
            self.close(key).await?;
        }
        Ok(())
    }

    /// Closes the open file of a partition; its last bytes are sent in the background.
    async fn close(&mut self, key: &[Option<String>]) -> Result<()> {
        let Some(file) = self.partitions.get_mut(key).and_then(|p| p.file.take()) else {
            return Ok(());
        };
        self.open_files -= 1;
        let bytes = file.bytes();
        self.room_for(bytes).await?;
        let add = deltaplane_store::spawn_task(file.close().await?.finish());
        self.closing.push(OnItsWay { bytes, add });
        Ok(())
    }

    /// Whether all pending rows of a partition make one file that is encoded at once.
    fn is_one_small_file(&self, key: &[Option<String>]) -> bool {
        let partition = self.partitions.get(key);
        partition.is_some_and(|p| p.file.is_none() && self.is_small(p.pending_rows, p.pending_bytes as u64))
    }

    /// Whether these rows make one file that is encoded at once.
    fn is_small(&self, rows: usize, bytes: u64) -> bool {
        (1..=CHUNK_ROWS).contains(&rows) && bytes < self.target_file_size_bytes
    }

    /// Writes rows of a partition as a complete file in the background: many small files are
    /// encoded concurrently, where the columns of one alone would not keep the cores busy.
    async fn write_whole(
        &mut self,
        key: &[Option<String>],
        bytes: u64,
        rows: impl FnOnce() -> Result<Vec<RecordBatch>> + Send + 'static,
    ) -> Result<()> {
        self.room_for(bytes).await?;
        let (dir, values) = (self.splitter.dir(key), self.splitter.values(key));
        let (number, path) = self.begun.new_file(&self.spec, &dir);
        let (store, spec) = (self.store.clone(), self.spec.clone());
        let add = deltaplane_store::spawn_task(async move {
            let rows = rows()?;
            let count = rows.iter().map(RecordBatch::num_rows).sum();
            let Some(first) = rows.first() else {
                return Err(Error::internal("a data file was begun without rows"));
            };
            let mut file = OpenFile::create(&store, spec, number, path, values, first, Some(count)).await?;
            for batch in rows {
                if let Err(e) = file.encode(batch).await {
                    file.abort().await;
                    return Err(e);
                }
            }
            file.close().await?.finish().await
        });
        self.closing.push(OnItsWay { bytes, add });
        Ok(())
    }

    /// Waits until a file of this size may be closed in the background.
    async fn room_for(&mut self, bytes: u64) -> Result<()> {
        while !has_room(&self.closing, bytes) {
            self.collect_one().await?;
        }
        Ok(())
    }

    async fn collect_one(&mut self) -> Result<()> {
        if self.closing.is_empty() {
            return Ok(());
        }
        let add = self
            .closing
            .remove(0)
            .add
            .await
            .map_err(|e| Error::internal(format!("ending a data file: {e}")))??;
        self.adds.push(add);
        Ok(())
    }

    /// Writes out the largest partitions until memory is below the bounds.
    async fn bound_memory(&mut self) -> Result<()> {
        while self.partitions.values().map(|p| p.pending_bytes).sum::<usize>() > PENDING_BYTES {
            let Some(key) = self.largest(|p| p.pending_bytes) else {
                break;
            };
            let had_file = self.partitions.get(&key).is_some_and(|p| p.file.is_some());
            self.encode(&key).await?;
            if !had_file && self.open_files > self.max_open {
                self.close(&key).await?;
            }
        }
        let encoded = |p: &Partition| p.file.as_ref().map_or(0, OpenFile::memory_bytes);
        while self.partitions.values().map(encoded).sum::<usize>() > ENCODED_BYTES {
            let Some(key) = self.largest(encoded) else { break };
            match self.partitions.get_mut(&key).and_then(|p| p.file.as_mut()) {
                Some(file) => file.end_row_group().await?,
                None => break,
            }
        }
        Ok(())
    }

    fn largest(&self, size: impl Fn(&Partition) -> usize) -> Option<Vec<Option<String>>> {
        self.partitions
            .iter()
            .max_by_key(|(_, p)| size(p))
            .map(|(k, _)| k.clone())
    }
}

impl Partition {
    /// Whether it has no pending rows and no open file.
    fn is_empty(&self) -> bool {
        self.file.is_none() && self.pending_rows == 0
    }

    fn add(&mut self, rows: RecordBatch) {
        self.pending_rows += rows.num_rows();
        self.pending_bytes += rows.columns().iter().map(bytes_of).sum::<usize>();
        self.pending.push(rows);
    }

    /// The pending rows, many small batches joined into one.
    fn take_pending(&mut self) -> Result<Vec<RecordBatch>> {
        let pending = std::mem::take(&mut self.pending);
        let rows = std::mem::take(&mut self.pending_rows);
        self.pending_bytes = 0;
        match pending.first() {
            Some(first) if pending.len() > 1 && rows / pending.len() < CHUNK_ROWS => {
                let joined = concat_batches(&first.schema(), &pending).map_err(|e| {
                    Error::invalid_argument(format!(
                        "rows of one partition don't fit into one batch ({e}): write smaller batches"
                    ))
                })?;
                Ok(vec![joined])
            }
            _ => Ok(pending),
        }
    }
}

/// Whether one more file of this size may be closed concurrently with these.
fn has_room(closing: &[OnItsWay], bytes: u64) -> bool {
    let all = closing.iter().map(|file| file.bytes).fold(bytes, u64::saturating_add);
    let most = if all <= SMALL_CLOSING_BYTES {
        MAX_SMALL_CLOSING
    } else {
        MAX_CLOSING
    };
    closing.len() < most
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The partition columns by their exact names (P173).
fn check_partition_columns(spec: &WriteSpec) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(spec.partition_columns.len());
    for name in &spec.partition_columns {
        let Some(field) = spec.schema.field_ignore_case(name) else {
            let known: Vec<_> = spec
                .schema
                .fields()
                .iter()
                .map(|f| format!("`{}`", f.name))
                .take(20)
                .collect();
            return Err(Error::invalid_argument(format!(
                "the partition column `{name}` isn't a column of the table: it has {}",
                known.join(", ")
            )));
        };
        if !matches!(field.data_type, DataType::Primitive(p) if p != Primitive::Void && p != Primitive::Variant) {
            return Err(Error::invalid_argument(format!(
                "the column `{name}` of type {} can't be a partition column: choose a column of a primitive type",
                field.data_type
            )));
        }
        if names.contains(&field.name) {
            return Err(Error::invalid_argument(format!(
                "the partition column `{name}` is given twice"
            )));
        }
        names.push(field.name.clone());
    }
    if !names.is_empty() && names.len() == spec.schema.fields().len() {
        return Err(Error::invalid_argument(
            "all columns of the table are partition columns, so its files would have no column: leave at least one out",
        ));
    }
    Ok(names)
}

/// A file needs a column with a type (P181).
fn check_storable(s: &StructType) -> Result<()> {
    match s.fields().iter().any(|f| is_storable(&f.data_type)) {
        true => Ok(()),
        false => Err(Error::schema_mismatch(
            "the table has no column that a data file could hold (none at all, or every column is of the type void): add a column with a type",
        )),
    }
}

/// The log's form of a decoded path.
fn logged_path(path: &str) -> String {
    paths::encode(path)
}

#[cfg(test)]
mod tests;
