//! Plans a Spark scan: translates Catalyst's filters, streams the surviving files, groups them by
//! partition tuple.

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, MapArray, RecordBatch};
use deltaplane_data::Vectors;
use deltaplane_error::{Error, Result};
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_operations::key_lookup::narrowed_for_spark;
use deltaplane_protocol::actions::{Add, DeletionVector};
use deltaplane_protocol::expr::{Expr, Predicate, catalyst};
use deltaplane_protocol::files::adds_to_batch;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::partition_values::partition_array;
use deltaplane_protocol::paths;
use deltaplane_protocol::prune::Pruner;
use deltaplane_protocol::schema::{DataType, Primitive, StructType};
use deltaplane_protocol::state::TableState;
use deltaplane_store::{Location, Scheme};
use futures::{Stream, StreamExt, TryStreamExt, stream};

use crate::blob::{self, Directory, SparkFile};
use crate::columns::{relation_partition_columns, relation_schema};
use crate::row::unsafe_row;

/// Deletion vectors under way at once.
const PARALLEL_VECTORS: usize = 16;

/// Which of the files a relation scans: rows that a vector deletes have to be filtered out, for
/// which files with vectors stand in a relation of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// All: the table has no vectors.
    All,
    /// Those without a vector.
    Whole,
    /// Those with a vector; a last partition value has its bits.
    Marked,
}

impl Files {
    /// From its name in the Python code.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "all" => Ok(Files::All),
            "whole" => Ok(Files::Whole),
            "marked" => Ok(Files::Marked),
            other => Err(Error::internal(format!("no kind of files is called {other:?}"))),
        }
    }

    /// Whether a file with this vector is among them.
    pub fn has(self, vector: Option<&DeletionVector>) -> Result<bool> {
        match (self, vector) {
            (Files::All, Some(_)) => Err(Error::unsupported_feature(
                "data files have deletion vectors now, which they hadn't when this frame or view was made: make it again",
            )),
            (Files::All, None) => Ok(true),
            (Files::Whole, vector) => Ok(vector.is_none()),
            (Files::Marked, vector) => Ok(vector.is_some()),
        }
    }
}

/// The files of a scan.
#[derive(Default)]
pub struct Planned {
    /// By partition tuple, none empty.
    pub directories: Vec<Directory>,
    /// Filters that took part in pruning, wholly or in part.
    pub understood: usize,
    /// Bytes of all files.
    pub size_bytes: u64,
    /// Files that were looked at.
    pub considered: u64,
    /// Rows that live in these files, where that was asked for and every file says.
    pub rows: Option<u64>,
}

/// The files of a scan as the JVM reads them, and what is known of them.
pub struct EncodedPlan {
    /// The files.
    pub blob: Vec<u8>,
    /// How many files.
    pub files: usize,
    /// How many partition tuples.
    pub directories: usize,
    /// Filters that took part in pruning, wholly or in part.
    pub understood: usize,
    /// Bytes of these files.
    pub size_bytes: u64,
    /// Files that were looked at.
    pub considered: u64,
    /// Their rows, where that was asked for and every file says.
    pub rows: Option<u64>,
}

impl Planned {
    /// As the JVM reads them.
    ///
    /// # Errors
    /// `UnsupportedFeature` for more than 2^31 files or directories.
    pub fn encode(&self) -> Result<EncodedPlan> {
        Ok(EncodedPlan {
            blob: blob::encode(&self.directories)?,
            files: self.directories.iter().map(|d| d.files.len()).sum(),
            directories: self.directories.len(),
            understood: self.understood,
            size_bytes: self.size_bytes,
            considered: self.considered,
            rows: self.rows,
        })
    }
}

/// What is known of Catalyst's filters (each `Expression.toJSON`, in this session time zone): a
/// pruner, and how many were understood.
///
/// A filter that isn't understood is left to Spark.
pub fn pruner(state: &TableState, filters: &[String], zone: &str) -> Result<(Option<Arc<Pruner>>, usize)> {
    let (condition, understood) = condition(state, filters, zone)?;
    Ok((condition.map(|c| c.pruner), understood))
}

/// The understood filters as one condition.
struct Condition {
    predicate: Predicate,
    /// The columns that it was bound to.
    relation: StructType,
    pruner: Arc<Pruner>,
}

/// The condition of Catalyst's filters, and how many were understood.
fn condition(state: &TableState, filters: &[String], zone: &str) -> Result<(Option<Condition>, usize)> {
    let relation = relation_schema(state);
    let schema = &relation;
    let binds = |e: &Expr| Predicate::bind(e, schema).is_ok();
    let mut understood: Vec<Expr> = filters
        .iter()
        .filter_map(|f| catalyst::translate(f, zone).ok().flatten())
        .filter(binds)
        .collect();
    let count = understood.len();
    let expr = match understood.pop() {
        None => return Ok((None, 0)),
        Some(condition) if understood.is_empty() => condition,
        Some(last) => {
            understood.push(last);
            Expr::And { args: understood }
        }
    };
    let predicate = Predicate::bind(&expr, schema)?;
    let partition_columns = relation_partition_columns(state, schema);
    let pruner = Pruner::new(&predicate, schema, &partition_columns, state.mapping())?;
    let condition = Condition {
        predicate,
        pruner: Arc::new(pruner),
        relation,
    };
    Ok((Some(condition), count))
}

/// The files that can hold a row for which all filters are true.
pub async fn plan(
    snapshot: &Snapshot,
    filters: &[String],
    zone: &str,
    files: Files,
    counts_rows: bool,
) -> Result<Planned> {
    let (condition, understood) = condition(snapshot.state(), filters, zone)?;
    snapshot.note_read(condition.as_ref().map(|c| &c.pruner));
    let pruner = match condition {
        None => None,
        Some(Condition {
            predicate,
            relation,
            pruner,
        }) => narrowed_for_spark(snapshot, &relation, &predicate, pruner).await,
    };
    let (batches, considered) = snapshot.counted_plan(pruner, PlanColumns::Logged);
    let mut planned = grouped(snapshot, batches, understood, files, counts_rows).await?;
    planned.considered = considered.files().unwrap_or(planned.considered);
    Ok(planned)
}

/// The same of files that others have planned by these filters.
pub async fn of_adds(
    snapshot: &Snapshot,
    adds: &[Add],
    filters: &[String],
    zone: &str,
    files: Files,
) -> Result<Planned> {
    let (pruner, understood) = pruner(snapshot.state(), filters, zone)?;
    snapshot.note_read(pruner.as_ref());
    let adds = adds_to_batch(adds)?;
    grouped(snapshot, stream::iter([Ok(adds)]), understood, files, false).await
}

/// Bytes of those of these files.
pub fn size_of_adds(adds: &[Add], files: Files) -> Result<u64> {
    adds.iter().try_fold(0, |sum, add| {
        let has = files == Files::All || files.has(add.deletion_vector.as_ref())?;
        Ok(if has { sum + add.size.unsigned_abs() } else { sum })
    })
}

async fn grouped(
    snapshot: &Snapshot,
    batches: impl Stream<Item = Result<RecordBatch>>,
    understood: usize,
    files: Files,
    counts_rows: bool,
) -> Result<Planned> {
    let mut groups = Groups::new(snapshot, files)?;
    groups.rows = counts_rows.then_some(0);
    let mut batches = pin!(batches);
    while let Some(batch) = batches.try_next().await? {
        groups.add(&batch)?;
    }
    let bits = bits(snapshot, &groups.vectors).await?;
    groups.finish(understood, bits)
}

/// The bits of each vector, in their order; never empty, so that Spark can look at the first.
async fn bits(snapshot: &Snapshot, wanted: &[DeletionVector]) -> Result<Vec<Vec<u8>>> {
    let vectors = Vectors::new(snapshot.store().clone());
    let load = |dv: DeletionVector| {
        let vectors = &vectors;
        async move {
            let mut bits = vectors.load(&dv).await?.bits()?;
            bits.resize(bits.len().max(8), 0);
            Ok(bits)
        }
    };
    let loading = stream::iter(wanted.to_vec()).map(load).buffered(PARALLEL_VECTORS);
    loading.try_collect().await
}

/// Bytes of the live files: by the version's checksum, else by the file list. `None` if only the
/// list tells, and `is_listed` is false.
pub async fn size_bytes(snapshot: &Snapshot, files: Files, is_listed: bool) -> Result<Option<u64>> {
    if files == Files::All
        && let Some((bytes, 0)) = snapshot.known_size().await?
    {
        return Ok(Some(bytes));
    }
    if !is_listed {
        return Ok(None);
    }
    let mut total = 0;
    let mut batches = snapshot.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            if files.has(rows.deletion_vector(row).as_ref())? {
                total += rows.size(row).unsigned_abs();
            }
        }
    }
    Ok(Some(total))
}

/// The URIs of the live files.
pub async fn uris(snapshot: &Snapshot, files: Files) -> Result<Vec<String>> {
    let uris = Uris::new(snapshot)?;
    let mut out = Vec::new();
    let mut batches = snapshot.plan(None, PlanColumns::Logged);
    while let Some(batch) = batches.try_next().await? {
        let rows = FileRows::new(&batch);
        for row in 0..batch.num_rows() {
            if files.has(rows.deletion_vector(row).as_ref())? {
                out.push(uris.of(snapshot, rows.path(row)?)?);
            }
        }
    }
    Ok(out)
}

/// Live files of a batch by the URIs under which Spark shows them.
pub fn by_uri(snapshot: &Snapshot, batch: &RecordBatch) -> Result<Vec<(String, Add)>> {
    let (uris, rows) = (Uris::new(snapshot)?, FileRows::new(batch));
    (0..batch.num_rows())
        .map(|row| Ok((uris.of(snapshot, rows.path(row)?)?, rows.add(row)?)))
        .collect()
}

/// The URI under which Spark's file systems know a location.
pub fn spark_uri(location: &Location) -> Result<String> {
    let uri = location.to_uri();
    match location.scheme() {
        Scheme::Memory => Err(Error::unsupported_feature(
            "a table in this process's memory can't be scanned by Spark: write it to a directory or an object store",
        )),
        Scheme::Plugin => Err(Error::unsupported_feature(format!(
            "Spark has no file system for {location}, whose store is registered in this Python process only: read the table without Spark"
        ))),
        // The file system that Hadoop has for S3 goes by this name.
        Scheme::S3 => Ok(uri.replacen("s3://", "s3a://", 1)),
        _ => Ok(uri),
    }
}

/// Makes URIs of raw paths of the log.
struct Uris {
    root: String,
}

impl Uris {
    fn new(snapshot: &Snapshot) -> Result<Self> {
        Ok(Uris {
            root: spark_uri(snapshot.store().location())?,
        })
    }

    fn of(&self, snapshot: &Snapshot, raw: &str) -> Result<String> {
        let decoded = paths::decode(raw)?;
        if !decoded.starts_with('/') && !decoded.contains(':') && !decoded.split('/').any(|part| part == "..") {
            return Ok(format!("{}/{}", self.root, paths::encode(&plain(&decoded))));
        }
        let (store, key) = snapshot.store().resolve(&decoded)?;
        Ok(format!("{}/{}", spark_uri(store.location())?, paths::encode(&key)))
    }
}

/// The path as Hadoop has it, which takes empty steps and those to the same place out.
fn plain(path: &str) -> Cow<'_, str> {
    let counts = |step: &&str| !step.is_empty() && *step != ".";
    if path.split('/').all(|step| counts(&step)) {
        return Cow::Borrowed(path);
    }
    Cow::Owned(path.split('/').filter(counts).collect::<Vec<_>>().join("/"))
}

type Tuple = Vec<Option<String>>;

/// Files by the texts of their partition values; one with a vector is a group of its own.
struct Groups<'a> {
    snapshot: &'a Snapshot,
    kind: Files,
    vectors: Vec<DeletionVector>,
    uris: Uris,
    /// Keys of partition values, and their types.
    columns: Vec<(String, Primitive)>,
    index: HashMap<Tuple, usize>,
    groups: Vec<(Tuple, Vec<SparkFile>)>,
    size_bytes: u64,
    considered: u64,
    rows: Option<u64>,
}

impl<'a> Groups<'a> {
    fn new(snapshot: &'a Snapshot, kind: Files) -> Result<Self> {
        let state = snapshot.state();
        let columns = state.partition_columns().iter().map(|name| {
            match snapshot.schema().field_ignore_case(name).map(|f| &f.data_type) {
                Some(DataType::Primitive(p)) => {
                    Ok((state.mapping().partition_key(state.schema(), name).to_owned(), *p))
                }
                _ => Err(Error::corrupt_log(format!(
                    "the partition column `{name}` has a type without partition values"
                ))),
            }
        });
        Ok(Groups {
            snapshot,
            kind,
            vectors: Vec::new(),
            uris: Uris::new(snapshot)?,
            columns: columns.collect::<Result<_>>()?,
            index: HashMap::new(),
            groups: Vec::new(),
            size_bytes: 0,
            considered: 0,
            rows: None,
        })
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = FileRows::new(batch);
        let times = batch.column_by_name("modificationTime").cloned();
        let values = batch
            .column_by_name("partitionValues")
            .and_then(|c| c.as_map_opt())
            .cloned();
        for row in 0..batch.num_rows() {
            let vector = rows.deletion_vector(row);
            self.considered += 1;
            if !self.kind.has(vector.as_ref())? {
                continue;
            }
            if let Some(count) = self.rows {
                let more = rows.live_records(row).and_then(|n| u64::try_from(n).ok());
                self.rows = more.and_then(|n| count.checked_add(n));
            }
            let size = rows.size(row);
            let file = SparkFile {
                uri: self.uris.of(self.snapshot, rows.path(row)?)?,
                size,
                modified_ms: times.as_ref().map_or(0, |t| long_at(t, row)),
                base_row_id: rows.base_row_id(row),
                default_row_commit_version: rows.default_row_commit_version(row),
            };
            self.size_bytes += size.unsigned_abs();
            let tuple = self.tuple(values.as_ref(), row);
            let next = self.groups.len();
            if let Some(vector) = vector {
                self.vectors.push(vector);
                self.groups.push((tuple, vec![file]));
                continue;
            }
            let index = *self.index.entry(tuple.clone()).or_insert(next);
            if index == next {
                self.groups.push((tuple, Vec::new()));
            }
            if let Some((_, files)) = self.groups.get_mut(index) {
                files.push(file);
            }
        }
        Ok(())
    }

    /// The values' texts in the order of the partition columns; the empty text is null (P170).
    fn tuple(&self, values: Option<&MapArray>, row: usize) -> Tuple {
        let mut out = vec![None; self.columns.len()];
        let Some(entries) = values
            .filter(|m| !out.is_empty() && m.is_valid(row))
            .map(|m| m.value(row))
        else {
            return out;
        };
        let (keys, texts) = (
            entries.column(0).as_string_opt::<i32>(),
            entries.column(1).as_string_opt::<i32>(),
        );
        let (Some(keys), Some(texts)) = (keys, texts) else {
            return out;
        };
        for (key, text) in keys.iter().zip(texts.iter()) {
            let index = key.and_then(|k| self.columns.iter().position(|(name, _)| name == k));
            if let Some(slot) = index.and_then(|index| out.get_mut(index)) {
                *slot = text.filter(|t| !t.is_empty()).map(str::to_owned);
            }
        }
        out
    }

    fn finish(self, understood: usize, bits: Vec<Vec<u8>>) -> Result<Planned> {
        let typed = self.columns.iter().enumerate().map(|(c, (name, primitive))| {
            let texts = self
                .groups
                .iter()
                .map(|(tuple, _)| tuple.get(c).and_then(|t| t.as_deref()));
            partition_array(texts, name, *primitive)
        });
        let mut typed: Vec<ArrayRef> = typed.collect::<Result<_>>()?;
        if self.kind == Files::Marked {
            typed.push(Arc::new(BinaryArray::from_iter_values(bits)));
        }
        let fields = typed.len();
        let directories = self.groups.into_iter().enumerate().map(|(g, (_, files))| {
            Ok(Directory {
                row: unsafe_row(&typed, g)?,
                fields,
                files,
            })
        });
        Ok(Planned {
            directories: directories.collect::<Result<_>>()?,
            understood,
            size_bytes: self.size_bytes,
            considered: self.considered,
            rows: self.rows,
        })
    }
}

fn long_at(array: &ArrayRef, row: usize) -> i64 {
    let longs = array.as_primitive_opt::<arrow::datatypes::Int64Type>();
    longs.filter(|a| a.is_valid(row)).map_or(0, |a| a.value(row))
}
