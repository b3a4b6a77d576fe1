//! A write as the caller asks for it: the JSON text that crosses the boundary. What it means for a table is
//! `write_plan`'s matter.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// What to do when a table is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteMode {
    /// Fail.
    Error,
    /// Add rows.
    Append,
    /// Replace all rows, or those of some partitions.
    Overwrite,
    /// Do nothing.
    Ignore,
}

/// What to do when the data's schema differs from the table's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchemaMode {
    /// Add new columns.
    Merge,
    /// Take the data's schema.
    Overwrite,
}

/// An application's version, for retries that write once.
#[derive(Debug, Clone, Deserialize)]
pub struct TxnRequest {
    /// The application's own id.
    pub app_id: String,
    /// The application's own version.
    pub version: i64,
}

/// A write as the caller asks for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRequest {
    /// What to do when a table is there.
    pub mode: WriteMode,
    /// Partition columns of a new table; must equal an old one's.
    #[serde(default)]
    pub partition_by: Option<Vec<String>>,
    /// Columns to cluster a new table by; must equal an old one's.
    #[serde(default)]
    pub cluster_by: Option<Vec<String>>,
    /// What to do with other columns.
    #[serde(default)]
    pub schema_mode: Option<SchemaMode>,
    /// The data's schema as Delta schema JSON, instead of its Arrow schema.
    #[serde(default)]
    pub schema_json: Option<String>,
    /// Which rows to replace, as expression JSON; on partition columns only.
    #[serde(default)]
    pub predicate: Option<String>,
    /// The same as text, for the table's history.
    #[serde(default)]
    pub predicate_sql: Option<String>,
    /// Name of a new table.
    #[serde(default)]
    pub name: Option<String>,
    /// Description of a new table.
    #[serde(default)]
    pub description: Option<String>,
    /// Properties of a new table.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    /// A UUID that new physical names are made from, for writes that are planned on several machines.
    #[serde(default)]
    pub names_seed: Option<String>,
    /// Aimed size of files in bytes.
    #[serde(default)]
    pub target_file_size: Option<u64>,
    /// Codec of files.
    #[serde(default)]
    pub compression: Option<String>,
    /// Rows of a Parquet row group.
    #[serde(default)]
    pub row_group_rows: Option<usize>,
    /// Free text for the commit.
    #[serde(default)]
    pub user_metadata: Option<String>,
    /// Free fields for the commit.
    #[serde(default)]
    pub commit_info: BTreeMap<String, Value>,
    /// Application's versions: the first one that was committed already skips the write.
    #[serde(default, deserialize_with = "none_one_or_many")]
    pub txn: Vec<TxnRequest>,
    /// Whether the commit may write a checkpoint that is due; true when absent.
    #[serde(default)]
    pub checkpoint: Option<bool>,
    /// Whether the log is cleaned up after the commit; as the table's properties say when absent.
    #[serde(default)]
    pub cleanup: Option<bool>,
    /// Whether the caller evaluates the table's row rules on the rows that it writes; without it a
    /// table that has some is refused.
    #[serde(default)]
    pub applies_row_rules: bool,
    /// Retries after a lost race.
    #[serde(default)]
    pub max_commit_retries: Option<usize>,
    /// Program that writes, besides deltaplane.
    #[serde(default)]
    pub engine_info: Option<String>,
    /// Name of the operation in the history, `WRITE` when absent.
    #[serde(default)]
    pub operation: Option<String>,
    /// Parameters of the operation in the history, beside the write's own.
    #[serde(default)]
    pub operation_parameters: BTreeMap<String, Value>,
}

/// `null`, one application's version, or a list of them.
fn none_one_or_many<'de, D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Vec<TxnRequest>, D::Error> {
    let list = match Value::deserialize(d)? {
        Value::Null => Vec::new(),
        Value::Array(items) => items,
        one => vec![one],
    };
    list.into_iter()
        .map(|v| serde_json::from_value(v).map_err(serde::de::Error::custom))
        .collect()
}
