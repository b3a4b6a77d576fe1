//! Scans cut into splits for readers on other machines: each is the JSON text of some files.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use deltaplane_data::{FileRead, ReadSpec};
use deltaplane_error::{Error, Result};
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_operations::changes::{Part, parts};
use deltaplane_operations::file_sets::file_reads;
use deltaplane_operations::scan::bind;
use deltaplane_protocol::actions::DeletionVector;
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

#[derive(Serialize, Deserialize)]
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
#[derive(Serialize, Deserialize)]
pub struct Split {
    files: Vec<SplitFile>,
    /// Columns beside the partition columns that are constants of the files.
    constants: Vec<String>,
}

/// Collects files to splits of about `target_bytes` bytes.
struct Gathered {
    target_bytes: u64,
    constants: Vec<String>,
    out: Vec<String>,
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

    fn push(&mut self, file: SplitFile) -> Result<()> {
        if self.weight > 0 && self.weight + file.size + OPEN_COST > self.target_bytes {
            self.close()?;
        }
        self.weight += file.size + OPEN_COST;
        self.open.push(file);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.weight = 0;
        let split = Split {
            files: std::mem::take(&mut self.open),
            constants: self.constants.clone(),
        };
        if !split.files.is_empty() {
            let text = serde_json::to_string(&split).map_err(|e| Error::internal(format!("writing a split: {e}")))?;
            self.out.push(text);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<String>> {
        self.close()?;
        Ok(self.out)
    }
}

/// The files that can match, in splits of about `target_bytes` bytes.
pub async fn splits(snapshot: &Snapshot, predicate: Option<&str>, target_bytes: u64) -> Result<Vec<String>> {
    let pruner = bind(snapshot, predicate)?.map(|(_, pruner)| pruner);
    let mut batches = snapshot.plan(pruner, PlanColumns::Logged);
    let mut gathered = Gathered::new(target_bytes, Vec::new());
    while let Some(batch) = batches.try_next().await? {
        for file in file_reads(&batch)? {
            gathered.push(SplitFile::new(file))?;
        }
    }
    gathered.finish()
}

/// The files of changes that can match, in splits of about `target_bytes` bytes.
pub async fn change_splits(
    snapshot: &Snapshot,
    first: u64,
    predicate: Option<&str>,
    target_bytes: u64,
) -> Result<Vec<String>> {
    of_parts(parts(snapshot, first, predicate).await?, target_bytes)
}

/// The files of these parts, likewise.
pub fn of_parts(parts: Vec<Part>, target_bytes: u64) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for part in parts {
        let constants = part.constants.into_iter().map(str::to_owned).collect();
        let mut gathered = Gathered::new(target_bytes, constants);
        for file in part.files {
            gathered.push(SplitFile::new(file))?;
        }
        out.extend(gathered.finish()?);
    }
    Ok(out)
}

impl Split {
    /// From its text.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| Error::invalid_argument(format!("this is no split of a scan: {e}")))
    }

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

/// What the reader of a split must know beside its files: parts of a scan, each of which travels by
/// itself.
pub struct SplitRead<'a> {
    /// The table's schema, as JSON.
    pub schema_json: &'a str,
    /// Mode of its column mapping.
    pub mapping: &'a str,
    /// Its partition columns.
    pub partition_columns: Vec<String>,
    /// The columns that are shown.
    pub columns: Vec<String>,
    /// Condition of the rows that are shown, as expression JSON.
    pub predicate: Option<&'a str>,
}

/// The rows of one split, on any machine, and their columns.
///
/// # Errors
/// `InvalidArgument` for a text that isn't a split, or for columns that the schema hasn't.
pub fn read_split(
    store: Store,
    read: SplitRead<'_>,
    split: &str,
) -> Result<(SchemaRef, BoxStream<'static, Result<RecordBatch>>)> {
    let (constants, files) = Split::parse(split)?.into_parts();
    let table = Arc::new(StructType::from_json(read.schema_json)?);
    let bind = |text| Predicate::bind(&Expr::from_json(text)?, &table);
    let predicate = read.predicate.map(bind).transpose()?;
    let mut spec = ReadSpec::new(table, read.partition_columns);
    spec.mapping = Mapping::parse(read.mapping)?;
    spec.partition_columns.extend(constants);
    spec.predicate = predicate;
    spec.columns = Some(read.columns);
    let schema = spec.output_schema()?;
    let files = stream::iter(files.into_iter().map(Ok)).boxed();
    // A Spark task has one core, and its siblings the others.
    Ok((schema, deltaplane_data::scan(store, files, Arc::new(spec), 1)))
}
