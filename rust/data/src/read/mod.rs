//! Reads data files as a table's rows: what is asked (`ReadSpec`), of which files (`FileRead`).
//! `source` fetches bytes, `plan` fits a file to the table, `row_groups` and `pages` skip, `decode` makes
//! batches, `scan` runs all of it in parallel. Knows no log; called by scans of the API and by `footer`.

mod decode;
mod pages;
mod part_stats;
mod plan;
mod row_groups;
mod scan;
mod source;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::DeletionVector;
use deltaplane_protocol::expr::Predicate;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::{Field, StructType};

use crate::types::row_schema;
pub use scan::{read_file, scan};

/// Rows per batch that scans are quick with; wide rows get fewer.
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
    /// Rows that are deleted.
    pub deletion_vector: Option<DeletionVector>,
}

/// Which rows and columns of a table to read.
#[derive(Debug, Clone)]
pub struct ReadSpec {
    /// The table's whole schema.
    pub schema: Arc<StructType>,
    /// Top-level columns in output order, matched ignoring case; `None` means all.
    pub columns: Option<Vec<String>>,
    /// The table's partition columns.
    pub partition_columns: Vec<String>,
    /// How files name the columns.
    pub mapping: Mapping,
    /// Only rows for which this is true.
    pub predicate: Option<Predicate>,
    /// Most rows in a batch.
    pub batch_rows: usize,
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
            batch_rows: DEFAULT_BATCH_ROWS,
        }
    }

    /// The schema of the batches: the table's types, every field nullable.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown column or one given twice.
    pub fn output_schema(&self) -> Result<SchemaRef> {
        Ok(row_schema(self.output_fields()?))
    }

    /// The output columns in order.
    fn output_fields(&self) -> Result<Vec<&Field>> {
        let Some(names) = &self.columns else {
            return Ok(self.schema.fields().iter().collect());
        };
        let mut fields: Vec<&Field> = Vec::with_capacity(names.len());
        let mut seen = std::collections::HashSet::with_capacity(names.len());
        for name in names {
            let Some(field) = self.schema.field_ignore_case(name) else {
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
