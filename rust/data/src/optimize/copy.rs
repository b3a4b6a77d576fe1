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
/// Files that are examined ahead of the current one.
const AHEAD: usize = 4;

/// Moves the rows.
pub(super) async fn copy(of: &OptimizeJob, files: Vec<FileRead>, out: &mut Outputs<'_>) -> Result<()> {
    let mut copying = Copying::new(of, out)?;
    let wanted = Arc::new(copying.wanted());
    if files.len() < 2 || wanted.columns.iter().all(|(_, leaf)| leaf.is_none()) {
        return copying.decoded(files).await;
    }
    let mut looked = stream::iter(files.clone())
        .map(|file| {
            let (store, wanted) = (of.store.clone(), wanted.clone());
            tokio::spawn(async move { Ok((chunks(&store, &file, &wanted).await?, file)) })
        })
        .buffered(AHEAD);
    let mut seen = 0;
    while let Some(found) = looked.next().await {
        of.go_on()?;
        let (found, file): (FileChunks, FileRead) =
            found.map_err(|e| Error::internal(format!("looking at a data file: {e}")))??;
        seen += 1;
        copying.take(file, found).await?;
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

    fn add(&mut self, file: FileRead, found: FileChunks) {
        if self.files.is_empty() {
            self.columns = found.columns;
        } else {
            for (column, more) in self.columns.iter_mut().zip(found.columns) {
                *column = column.take().zip(more).map(|(mut all, more)| {
                    all.extend(more);
                    all
                });
            }
        }
        self.files.push(file);
        self.rows += found.rows;
        self.bytes += found.bytes;
    }

    /// Whether a copyable column remains when this file joins.
    fn agrees(&self, columns: &[Option<Vec<Chunk>>]) -> bool {
        let mut both = self.columns.iter().zip(columns);
        self.files.is_empty() || both.any(|(a, b)| a.is_some() && b.is_some())
    }
}

struct Copying<'a, 'b> {
    of: &'a OptimizeJob,
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
    fn new(of: &'a OptimizeJob, out: &'a mut Outputs<'b>) -> Result<Self> {
        let (leaves, codec) = out.copyable()?;
        let names: Vec<String> = match &of.read.columns {
            Some(names) => names.clone(),
            None => of.read.schema.fields().iter().map(|f| f.name.clone()).collect(),
        };
        let columns = names.into_iter().enumerate().map(|(at, name)| {
            let mut leaf = leaves.iter().find(|(of, _)| *of == at).map(|(_, leaf)| leaf.clone());
            let is_partition = of.read.partition_columns.iter().any(|p| p.eq_ignore_ascii_case(&name));
            if is_partition || of.read.schema.field(&name).is_none() {
                leaf = None;
            }
            (name, leaf)
        });
        let (most_rows, most_bytes) = row_group_limits(&of.write);
        Ok(Copying {
            columns: columns.collect(),
            of,
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
            let field = self.of.read.schema.field(name)?;
            Some((field.clone(), leaf.clone()))
        });
        Wanted {
            columns: fields.collect(),
            mapping: self.of.read.mapping,
            codec: self.codec,
            most_rows: self.most_rows,
            most_bytes: self.most_bytes,
        }
    }

    async fn take(&mut self, file: FileRead, found: FileChunks) -> Result<()> {
        let copies = found.columns.iter().any(Option::is_some);
        let (rows, bytes) = (self.most_rows.min(ENOUGH_ROWS), self.most_bytes.min(ENOUGH_BYTES));
        let fits = self.group.rows + found.rows <= rows && self.group.bytes + found.bytes <= bytes;
        if !copies || !fits || !self.group.agrees(&found.columns) {
            self.end_group().await?;
        }
        match copies {
            true => self.group.add(file, found),
            false => self.plain.add(file, found),
        }
        Ok(())
    }

    /// Writes the group if it makes a large enough row group, otherwise adds its rows to the
    /// previous one.
    async fn end_group(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        let alone = self.plain.files.is_empty() || self.plain.is_large();
        if !group.is_large() || !alone {
            self.plain.files.append(&mut group.files);
            self.plain.rows += group.rows;
            self.plain.bytes += group.bytes;
            return Ok(());
        }
        self.end_plain().await?;
        let mut copied = Vec::new();
        for (at, chunks) in group.columns.into_iter().enumerate() {
            let leaf = self.columns.get(at).and_then(|(_, leaf)| leaf.clone());
            if let (Some(chunks), Some(leaf)) = (chunks, leaf) {
                copied.push((at, CopiedColumn::join(&leaf, self.codec, chunks)?));
            }
        }
        let is_copied = |at: usize| copied.iter().any(|(of, _)| *of == at);
        let names = self.columns.iter().enumerate();
        let rest = names
            .filter(|(at, _)| !is_copied(*at))
            .map(|(_, (name, _))| name.clone());
        let spec = ReadSpec {
            columns: Some(rest.collect()),
            ..self.of.read.as_ref().clone()
        };
        let batches: Vec<RecordBatch> = self.of.scan(group.files, Arc::new(spec)).try_collect().await?;
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
        let columns = self.columns.iter().enumerate().map(|(at, (name, _))| {
            if is_copied(at) {
                let gap = Arc::new(NullArray::new(rows)) as _;
                return Some((Arc::new(ArrowField::new(name, DataType::Null, true)), gap));
            }
            let at = here.next()?;
            Some((schema.fields().get(at)?.clone(), batch.columns().get(at)?.clone()))
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
        let mut rows = self.of.scan(files, self.of.read.clone());
        while let Some(batch) = rows.try_next().await? {
            self.of.go_on()?;
            self.out.write(&batch).await?;
        }
        Ok(())
    }
}
