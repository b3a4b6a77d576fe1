//! Reads data files as a table's rows: the request (`ReadSpec`) and the files (`FileRead`).
//! `source` fetches bytes, `vectors` deleted rows, `plan` fits a file to the table, `row_groups`,
//! `pages` and `bloom` skip, `opening` opens files, `decode` makes batches, `scan` runs all in
//! parallel; `chunks` reads columns as bytes. Knows no log.

mod bloom;
mod chunks;
mod decode;
mod decoders;
mod footer_stats;
mod hidden;
mod joined;
mod lookups;
mod members;
mod opening;
mod outdated;
mod pages;
mod part_stats;
mod plan;
mod row_groups;
mod scan;
mod source;
mod vectors;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::{Add, DeletionVector};
use deltaplane_protocol::deletion_vectors::Positions;
use deltaplane_protocol::expr::Predicate;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::paths;
use deltaplane_protocol::schema::{Field, StructType};
use deltaplane_store::Store;
use parquet::file::metadata::ParquetMetaData;

pub(crate) use bloom::{filter_of, filter_range};
pub(crate) use chunks::{Chunk, FileChunks, Wanted, chunks, may_be_copied};
pub(crate) use footer_stats::column_stats;
pub use members::Members;
pub use outdated::is_outdated;
pub use row_groups::RowGroups;
pub(crate) use scan::read_opened;
pub use scan::{read_file, row_groups, scan};
pub(crate) use source::Input;
pub use vectors::Vectors;

/// An opened file, and its footer.
pub(crate) struct SourceFile {
    source: source::Source,
    pub(crate) footer: Arc<ParquetMetaData>,
}

impl SourceFile {
    /// Opens a file and reads its footer, with the page index if it exists and is wanted.
    pub(crate) async fn open(store: &Store, file: &FileRead, page_index: bool) -> Result<Self> {
        let opened = async {
            let source = source::open(store, file).await?;
            let footer = source.footer(page_index).await?;
            Ok(SourceFile { source, footer })
        };
        opened.await.map_err(|e: Error| e.with_path(file.path.clone()))
    }

    /// The file's size.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    /// Fetches these byte ranges for a decoder.
    pub(crate) async fn fetch(&self, ranges: Vec<Range<u64>>) -> Result<Input> {
        self.source.fetch(ranges).await
    }
}

/// Rows per batch at which scans are fast; wide rows get fewer.
pub const DEFAULT_BATCH_ROWS: usize = 65_536;

/// One data file to read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FileRead {
    /// Decoded `add.path`: relative to the table's root, or absolute.
    pub path: String,
    /// Size according to the log; 0 if unknown.
    pub size_bytes: u64,
    /// The file's partition values by physical name; they win over columns in the file.
    pub partition_values: BTreeMap<String, Option<String>>,
    /// Rows according to the statistics.
    pub num_records: Option<u64>,
    /// Deleted rows, which aren't read.
    pub deletion_vector: Option<DeletionVector>,
    /// Only the rows of this vector are read, except deleted ones; `None` for all.
    pub only: Option<DeletionVector>,
    /// Which of the remaining rows a command selects; `None` for all.
    pub selected: Option<SelectedRows>,
    /// The id of the first row, where rows don't store their own (P143).
    pub base_row_id: Option<i64>,
    /// The version that last wrote the rows, where they don't store it (P143).
    pub default_row_commit_version: Option<i64>,
    /// The file's last bytes, or all of them, if the caller has read them: they aren't requested
    /// again from an object store.
    pub tail: Option<Bytes>,
}

/// Rows of a file by physical position (P124), in addition to its vectors.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectedRows {
    /// Only these.
    Only(Arc<Positions>),
    /// All except these.
    Without(Arc<Positions>),
}

impl FileRead {
    /// All live rows of a file of the table.
    pub fn of(add: &Add) -> Result<Self> {
        Ok(FileRead {
            path: paths::decode(&add.path)?,
            size_bytes: u64::try_from(add.size).unwrap_or(0),
            partition_values: add.partition_values.clone(),
            deletion_vector: add.deletion_vector.clone(),
            base_row_id: add.base_row_id,
            default_row_commit_version: add.default_row_commit_version,
            ..FileRead::default()
        })
    }
}

/// Which rows and columns of a table to read.
#[derive(Debug, Clone)]
pub struct ReadSpec {
    /// The table's whole schema.
    pub schema: Arc<StructType>,
    /// Top-level columns in output order, matched ignoring case; `None` means all. Hidden
    /// columns have the names of `hidden_columns`.
    pub columns: Option<Vec<String>>,
    /// The table's partition columns.
    pub partition_columns: Vec<String>,
    /// How files name the columns.
    pub mapping: Mapping,
    /// Only rows for which this is true.
    pub predicate: Option<Predicate>,
    /// Only rows with one of these values.
    pub members: Option<Arc<Members>>,
    /// Most rows in a batch.
    pub batch_rows: usize,
    /// The physical column that stores row ids which differ from those computed by position (P141).
    pub stored_row_ids: Option<String>,
    /// The physical column that stores row commit versions (P141).
    pub stored_row_commit_versions: Option<String>,
    /// Whether `_file` is a dictionary, for readers of many rows per file.
    pub encoded_files: bool,
}

impl ReadSpec {
    /// All rows and columns of a table.
    pub fn new(schema: Arc<StructType>, partition_columns: Vec<String>) -> Self {
        ReadSpec {
            schema,
            columns: None,
            partition_columns,
            mapping: Mapping::None,
            predicate: None,
            members: None,
            batch_rows: DEFAULT_BATCH_ROWS,
            stored_row_ids: None,
            stored_row_commit_versions: None,
            encoded_files: false,
        }
    }

    /// The schema of the batches: the table's types, every field nullable.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown column or one given twice.
    pub fn output_schema(&self) -> Result<SchemaRef> {
        Ok(hidden::schema(self.output_fields()?, &self.schema, self.encoded_files))
    }

    /// The output columns in order.
    fn output_fields(&self) -> Result<Vec<&Field>> {
        let Some(names) = &self.columns else {
            return Ok(self.schema.fields().iter().collect());
        };
        let mut fields: Vec<&Field> = Vec::with_capacity(names.len());
        let mut seen = std::collections::HashSet::with_capacity(names.len());
        for name in names {
            let field_of_name = self.schema.field_ignore_case(name).or_else(|| hidden::field(name));
            let Some(field) = field_of_name else {
                let known: Vec<_> = self
                    .schema
                    .fields()
                    .iter()
                    .take(20)
                    .map(|f| format!("`{}`", f.name))
                    .collect();
                return Err(Error::invalid_argument(format!(
                    "the table has no column `{name}`: it has {}{}",
                    known.join(", "),
                    if self.schema.fields().len() > 20 {
                        " and more"
                    } else {
                        ""
                    }
                )));
            };
            if !seen.insert(&field.name) {
                return Err(Error::invalid_argument(format!(
                    "the column `{name}` is asked for twice: name it once"
                )));
            }
            fields.push(field);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests;
