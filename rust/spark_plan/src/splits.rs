//! Scans cut into splits for readers on other machines, each of some files. Splits and what all of
//! them have in common serialize, without the snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use deltaplane_data::{FileRead, ReadSpec};
use deltaplane_error::Result;
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_operations::changes::{Part, parts};
use deltaplane_operations::file_sets::file_reads;
use deltaplane_operations::scan::pruner_of;
use deltaplane_protocol::actions::DeletionVector;
use deltaplane_protocol::changes::feed_schema;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::StructType;
use deltaplane_store::Store;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

/// What opening a file costs a reader, in bytes it could have read instead: keeps splits of tiny
/// files short.
const OPEN_COST: u64 = 4 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SplitFile {
    path: String,
    size: u64,
    values: BTreeMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vector: Option<DeletionVector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    only: Option<DeletionVector>,
}

impl SplitFile {
    fn new(f: FileRead) -> Self {
        SplitFile {
            path: f.path,
            size: f.size_bytes,
            values: f.partition_values,
            vector: f.deletion_vector,
            only: f.only,
        }
    }
}

/// What one task reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Split {
    files: Vec<SplitFile>,
    /// Columns beside the partition columns that are constants of the files.
    constants: Vec<String>,
}

/// Collects files to splits of about `target_bytes` bytes.
struct Gathered {
    target_bytes: u64,
    constants: Vec<String>,
    out: Vec<Split>,
    open: Vec<SplitFile>,
    weight: u64,
}

impl Gathered {
    fn new(target_bytes: u64, constants: Vec<String>) -> Self {
        Gathered {
            target_bytes,
            constants,
            out: Vec::new(),
            open: Vec::new(),
            weight: 0,
        }
    }

    fn push(&mut self, file: SplitFile) {
        if self.weight > 0 && self.weight + file.size + OPEN_COST > self.target_bytes {
            self.close();
        }
        self.weight += file.size + OPEN_COST;
        self.open.push(file);
    }

    fn close(&mut self) {
        self.weight = 0;
        let files = std::mem::take(&mut self.open);
        if !files.is_empty() {
            let constants = self.constants.clone();
            self.out.push(Split { files, constants });
        }
    }

    fn finish(mut self) -> Vec<Split> {
        self.close();
        self.out
    }
}

/// The files that can match, in splits of about `target_bytes` bytes.
pub async fn splits(snapshot: &Snapshot, predicate: Option<&Expr>, target_bytes: u64) -> Result<Vec<Split>> {
    let pruner = pruner_of(snapshot, predicate).await?;
    let mut batches = snapshot.plan(pruner, PlanColumns::Logged);
    let mut gathered = Gathered::new(target_bytes, Vec::new());
    while let Some(batch) = batches.try_next().await? {
        for file in file_reads(&batch)? {
            gathered.push(SplitFile::new(file));
        }
    }
    Ok(gathered.finish())
}

/// The files of changes that can match, in splits of about `target_bytes` bytes.
pub async fn change_splits(
    snapshot: &Snapshot,
    first: u64,
    predicate: Option<&Expr>,
    target_bytes: u64,
) -> Result<Vec<Split>> {
    Ok(of_parts(parts(snapshot, first, predicate).await?, target_bytes))
}

/// The files of these parts, likewise.
pub fn of_parts(parts: Vec<Part>, target_bytes: u64) -> Vec<Split> {
    let mut out = Vec::new();
    for part in parts {
        let constants = part.constants.into_iter().map(str::to_owned).collect();
        let mut gathered = Gathered::new(target_bytes, constants);
        for file in part.files {
            gathered.push(SplitFile::new(file));
        }
        out.extend(gathered.finish());
    }
    out
}

impl Split {
    /// Columns that are constants of the files, and the files.
    pub fn into_parts(self) -> (Vec<String>, Vec<FileRead>) {
        let read = |f: SplitFile| FileRead {
            path: f.path,
            size_bytes: f.size,
            partition_values: f.values,
            deletion_vector: f.vector,
            only: f.only,
            ..FileRead::default()
        };
        (self.constants, self.files.into_iter().map(read).collect())
    }
}

/// What the reader of a split must know beside its files, the same for all splits of a scan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitScan {
    /// The `schemaString` of the rows.
    schema: String,
    mapping: String,
    partition_columns: Vec<String>,
    predicate: Option<Expr>,
}

impl SplitScan {
    /// Of a version's rows, those that meet a condition.
    pub fn of_rows(snapshot: &Snapshot, predicate: Option<Expr>) -> Self {
        Self::of(snapshot, snapshot.schema(), predicate)
    }

    /// Of changed rows, with the columns of a version and of its changes.
    ///
    /// # Errors
    /// As `feed_schema`.
    pub fn of_changes(snapshot: &Snapshot, predicate: Option<Expr>) -> Result<Self> {
        Ok(Self::of(snapshot, &feed_schema(snapshot.schema())?, predicate))
    }

    fn of(snapshot: &Snapshot, schema: &StructType, predicate: Option<Expr>) -> Self {
        let state = snapshot.state();
        SplitScan {
            schema: schema.to_json(),
            mapping: state.mapping().as_str().to_owned(),
            partition_columns: state.partition_columns().to_vec(),
            predicate,
        }
    }

    /// The rows of one split, on any machine, with these columns, and their schema.
    ///
    /// # Errors
    /// `InvalidArgument` for columns that the schema hasn't.
    pub fn read(
        &self,
        store: Store,
        columns: Vec<String>,
        split: Split,
    ) -> Result<(SchemaRef, BoxStream<'static, Result<RecordBatch>>)> {
        let (constants, files) = split.into_parts();
        let table = Arc::new(StructType::from_json(&self.schema)?);
        let predicate = self.predicate.as_ref().map(|expr| Predicate::bind(expr, &table));
        let predicate = predicate.transpose()?;
        let mut spec = ReadSpec::new(table, self.partition_columns.clone());
        spec.mapping = Mapping::parse(&self.mapping)?;
        spec.partition_columns.extend(constants);
        spec.predicate = predicate;
        spec.columns = Some(columns);
        let schema = spec.output_schema()?;
        let files = stream::iter(files.into_iter().map(Ok)).boxed();
        // A Spark task has one core, and its siblings the others.
        Ok((schema, deltaplane_data::scan(store, files, Arc::new(spec), 1)))
    }
}
