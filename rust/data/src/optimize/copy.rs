//! Copies rows of files, one file after the other, into new files. Where files have columns whose
//! pages can be copied as bytes, several files make a row group together and only their other
//! columns are decoded.

use std::sync::Arc;

use arrow::array::{NullArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field as ArrowField, Schema};
use deltaplane_error::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};
use parquet::basic::CompressionCodec;
use parquet::schema::types::ColumnDescPtr;

use super::OptimizeJob;
use super::outputs::Outputs;
use crate::read::{Chunk, FileChunks, FileRead, ReadSpec, Wanted, chunks};
use crate::write::{CopiedColumn, row_group_limits};

/// Smaller row groups are decoded and joined with their neighbours.
const FEWEST_ROWS: u64 = 1 << 17;
const FEWEST_BYTES: u64 = 16 << 20;
/// A row group is closed from this size on: copied bytes are in memory twice, as read and as
/// written.
const ENOUGH_ROWS: u64 = 1 << 19;
const ENOUGH_BYTES: u64 = 16 << 20;
/// After this many files without a copyable column the rest aren't checked.
const FRUITLESS: usize = 16;
/// Files that are examined ahead of the current one, and those of an object store, which are
/// requested at the same time as far as their bytes fit into memory.
const AHEAD: usize = 4;
const REMOTE_AHEAD: usize = 64;
const HELD_BYTES: u64 = 128 << 20;

/// Moves the rows.
pub(super) async fn copy(job: &OptimizeJob, files: Vec<FileRead>, out: &mut Outputs<'_>) -> Result<()> {
    let mut copying = Copying::new(job, out)?;
    let wanted = Arc::new(copying.wanted());
    if files.len() < 2 || wanted.columns.iter().all(|(_, leaf)| leaf.is_none()) {
        return copying.decoded(files).await;
    }
    let look = |file: FileRead| {
        let (store, wanted) = (job.store.clone(), wanted.clone());
        deltaplane_store::spawn_task(async move { Ok((chunks(&store, &file, &wanted).await?, file)) })
    };
    // Until a column can be copied, no more files are read than are needed to find out.
    let (ahead, first) = (ahead(job, &files), files.len().min(FRUITLESS));
    let (first, others) = files.split_at(first);
    let first = stream::iter(first.to_vec()).map(look).buffered(ahead.min(FRUITLESS));
    let mut looked = first.chain(stream::iter(others.to_vec()).map(look).buffered(ahead));
    let mut seen = 0;
    while let Some(copied) = looked.next().await {
        job.go_on()?;
        let (copied, file): (FileChunks, FileRead) =
            copied.map_err(|e| Error::internal(format!("looking at a data file: {e}")))??;
        seen += 1;
        copying.take(file, copied).await?;
        if seen == FRUITLESS && copying.plain.files.len() == seen {
            break;
        }
    }
    drop(looked);
    copying.end_group().await?;
    let rest = files.into_iter().skip(seen);
    copying.plain.files.extend(rest);
    copying.end_plain().await
}

/// How many of these files are examined ahead.
fn ahead(job: &OptimizeJob, files: &[FileRead]) -> usize {
    let largest = files.iter().map(|file| file.size_bytes).max().unwrap_or(0);
    // The log may not state a size.
    if job.store.is_local() || files.iter().any(|file| file.size_bytes == 0) {
        return AHEAD;
    }
    let most = usize::try_from(HELD_BYTES / largest.max(1)).unwrap_or(REMOTE_AHEAD);
    most.clamp(AHEAD, REMOTE_AHEAD)
}

/// Files that make one row group.
#[derive(Default)]
struct Group {
    files: Vec<FileRead>,
    rows: u64,
    bytes: u64,
    /// The copyable columns: for each wanted column its chunks in order; `None` if one file can't
    /// provide it.
    columns: Vec<Option<Vec<Chunk>>>,
}

impl Group {
    fn is_large(&self) -> bool {
        self.rows >= FEWEST_ROWS || self.bytes >= FEWEST_BYTES
    }

    fn add(&mut self, mut file: FileRead, chunks: FileChunks) {
        file.tail = chunks.whole.filter(|_| self.bytes < HELD_BYTES);
        if self.files.is_empty() {
            self.columns = chunks.columns;
        } else {
            for (column, more) in self.columns.iter_mut().zip(chunks.columns) {
                *column = column.take().zip(more).map(|(mut all, more)| {
                    all.extend(more);
                    all
                });
            }
        }
        self.files.push(file);
        self.rows += chunks.rows;
        self.bytes += chunks.bytes;
    }

    /// Whether a copyable column remains when this file joins.
    fn agrees(&self, columns: &[Option<Vec<Chunk>>]) -> bool {
        let mut both = self.columns.iter().zip(columns);
        self.files.is_empty() || both.any(|(a, b)| a.is_some() && b.is_some())
    }
}

struct Copying<'a, 'b> {
    job: &'a OptimizeJob,
    out: &'a mut Outputs<'b>,
    /// The scan's columns in order, and for each its leaf in new files, if it may be copied.
    columns: Vec<(String, Option<ColumnDescPtr>)>,
    codec: CompressionCodec,
    most_rows: u64,
    most_bytes: u64,
    group: Group,
    /// Files before the group, all of whose columns are decoded.
    plain: Group,
}

impl<'a, 'b> Copying<'a, 'b> {
    fn new(job: &'a OptimizeJob, out: &'a mut Outputs<'b>) -> Result<Self> {
        let (leaves, codec) = out.copyable()?;
        let names: Vec<String> = match &job.read.columns {
            Some(names) => names.clone(),
            None => job.read.schema.fields().iter().map(|f| f.name.clone()).collect(),
        };
        let columns = names.into_iter().enumerate().map(|(place, name)| {
            let mut leaf = leaves
                .iter()
                .find(|(job, _)| *job == place)
                .map(|(_, leaf)| leaf.clone());
            let is_partition = job.read.partition_columns.iter().any(|p| p.eq_ignore_ascii_case(&name));
            if is_partition || job.read.schema.field(&name).is_none() {
                leaf = None;
            }
            (name, leaf)
        });
        let (most_rows, most_bytes) = row_group_limits(&job.write);
        Ok(Copying {
            columns: columns.collect(),
            job,
            out,
            codec,
            most_rows,
            most_bytes,
            group: Group::default(),
            plain: Group::default(),
        })
    }

    fn wanted(&self) -> Wanted {
        let fields = self.columns.iter().filter_map(|(name, leaf)| {
            let field = self.job.read.schema.field(name)?;
            Some((field.clone(), leaf.clone()))
        });
        Wanted {
            columns: fields.collect(),
            mapping: self.job.read.mapping,
            codec: self.codec,
            most_rows: self.most_rows,
            most_bytes: self.most_bytes,
        }
    }

    async fn take(&mut self, file: FileRead, chunks: FileChunks) -> Result<()> {
        let copies = chunks.columns.iter().any(Option::is_some);
        let (rows, bytes) = (self.most_rows.min(ENOUGH_ROWS), self.most_bytes.min(ENOUGH_BYTES));
        let fits = self.group.rows + chunks.rows <= rows && self.group.bytes + chunks.bytes <= bytes;
        if !copies || !fits || !self.group.agrees(&chunks.columns) {
            self.end_group().await?;
        }
        match copies {
            true => self.group.add(file, chunks),
            false => self.plain.add(file, chunks),
        }
        Ok(())
    }

    /// Writes the group if it makes a large enough row group, otherwise adds its rows to the
    /// previous one.
    async fn end_group(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        let alone = self.plain.files.is_empty() || self.plain.is_large();
        if !group.is_large() || !alone {
            if self.plain.bytes >= HELD_BYTES {
                group.files.iter_mut().for_each(|file| file.tail = None);
            }
            self.plain.files.append(&mut group.files);
            self.plain.rows += group.rows;
            self.plain.bytes += group.bytes;
            return Ok(());
        }
        self.end_plain().await?;
        let mut copied = Vec::new();
        for (number, chunks) in group.columns.into_iter().enumerate() {
            let leaf = self.columns.get(number).and_then(|(_, leaf)| leaf.clone());
            if let (Some(chunks), Some(leaf)) = (chunks, leaf) {
                copied.push((number, CopiedColumn::join(&leaf, self.codec, chunks)?));
            }
        }
        let is_copied = |number: usize| copied.iter().any(|(place, _)| *place == number);
        let names = self.columns.iter().enumerate();
        let rest = names
            .filter(|(number, _)| !is_copied(*number))
            .map(|(_, (name, _))| name.clone());
        let spec = ReadSpec {
            columns: Some(rest.collect()),
            ..self.job.read.as_ref().clone()
        };
        let batches: Vec<RecordBatch> = self.job.scan(group.files, Arc::new(spec)).try_collect().await?;
        let batches = batches
            .iter()
            .map(|b| self.with_gaps(b, &is_copied))
            .collect::<Result<_>>()?;
        self.out.write_beside(copied, batches).await
    }

    /// All columns, with nulls in place of the copied ones.
    fn with_gaps(&self, batch: &RecordBatch, is_copied: &impl Fn(usize) -> bool) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let (schema, mut here) = (batch.schema(), 0..batch.num_columns());
        let columns = self.columns.iter().enumerate().map(|(place, (name, _))| {
            if is_copied(place) {
                let gap = Arc::new(NullArray::new(rows)) as _;
                return Some((Arc::new(ArrowField::new(name, DataType::Null, true)), gap));
            }
            let place = here.next()?;
            Some((schema.fields().get(place)?.clone(), batch.columns().get(place)?.clone()))
        });
        let columns = columns.collect::<Option<Vec<_>>>();
        let columns = columns.ok_or_else(|| Error::internal("a column went missing while files were joined"))?;
        let (fields, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .map_err(|e| Error::internal(format!("laying out rows beside copied columns: {e}")))
    }

    async fn end_plain(&mut self) -> Result<()> {
        let files = std::mem::take(&mut self.plain).files;
        self.decoded(files).await
    }

    async fn decoded(&mut self, files: Vec<FileRead>) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let mut rows = self.job.scan(files, self.job.read.clone());
        while let Some(batch) = rows.try_next().await? {
            self.job.go_on()?;
            self.out.write(&batch).await?;
        }
        Ok(())
    }
}
