//! Writes as the caller asks for them: the JSON text that crosses the boundary. What it means for a table is
//! `plan`'s and `rewrite`'s matter.

use std::collections::BTreeMap;

use deltaplane_protocol::actions::SetTransaction;
use serde::Deserialize;
use serde_json::Value;

use crate::transaction::Staged;

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

/// How files are written; absent is what the table's properties say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileRequest {
    /// Aimed size in bytes.
    pub target_file_size: Option<u64>,
    /// Codec.
    pub compression: Option<String>,
    /// Rows of a Parquet row group.
    pub row_group_rows: Option<usize>,
}

/// What a commit carries beside its files.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommitRequest {
    /// Free text.
    pub user_metadata: Option<String>,
    /// Free fields.
    pub commit_info: BTreeMap<String, Value>,
    /// Application's versions: the first one that was committed already skips the write.
    #[serde(deserialize_with = "none_one_or_many")]
    pub txn: Vec<TxnRequest>,
    /// Whether the commit may write a checkpoint that is due; true when absent.
    pub checkpoint: Option<bool>,
    /// Whether the log is cleaned up after the commit; as the table's properties say when absent.
    pub cleanup: Option<bool>,
    /// Retries after a lost race.
    pub max_commit_retries: Option<usize>,
    /// Program that writes, besides deltaplane.
    pub engine_info: Option<String>,
}

impl CommitRequest {
    /// Whether one of the applications' versions was committed already (P076).
    pub(crate) fn was_done(&self, done: &[SetTransaction]) -> bool {
        let is_done = |t: &TxnRequest| done.iter().any(|d| d.app_id == t.app_id && d.version >= t.version);
        self.txn.iter().any(is_done)
    }

    /// A commit that carries this and does nothing yet.
    pub(crate) fn staged(&self, now_ms: i64) -> Staged {
        let transactions = self.txn.iter().map(|t| SetTransaction {
            app_id: t.app_id.clone(),
            version: t.version,
            last_updated: Some(now_ms),
        });
        Staged {
            transactions: transactions.collect(),
            user_metadata: self.user_metadata.clone(),
            extra_info: self.commit_info.clone(),
            engine_info: engine_info(self.engine_info.as_deref()),
            skip_checkpoint: self.checkpoint == Some(false),
            cleanup: self.cleanup,
            max_attempts: self.max_commit_retries.map(|n| n.saturating_add(1)),
            ..Staged::default()
        }
    }
}

/// The programs that write, deltaplane among them.
pub(crate) fn engine_info(caller: Option<&str>) -> String {
    let own = format!("deltaplane/{}", env!("CARGO_PKG_VERSION"));
    match caller {
        Some(g) if g.contains("deltaplane") => g.to_owned(),
        Some(g) => format!("{g} {own}"),
        None => own,
    }
}

/// The columns in which a command brings values of its own: of new rows, or for a schema that grows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncomingRequest {
    /// Them, as Delta schema JSON.
    pub schema_json: String,
    /// Whether columns that the table lacks are added to it; else they are refused.
    #[serde(default)]
    pub merge_schema: bool,
}

/// What a write is a part of.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CommitOperation {
    /// Rows written to a table.
    #[default]
    Write,
    /// A statement that makes or replaces a table, with rows or without.
    Definition {
        /// `CREATE TABLE`, `REPLACE TABLE` or `CREATE OR REPLACE TABLE`.
        statement: String,
        /// Whether it has rows for the table.
        #[serde(default)]
        fills: bool,
        /// Whether it takes the place of all that defined the table before: what it doesn't name goes.
        #[serde(default)]
        replaces: bool,
        /// Whether a catalog chose the table's place and takes its files away with its name.
        #[serde(default)]
        managed: bool,
        /// Whether it is Spark's `saveAsTable` with mode overwrite, which the history tells apart.
        #[serde(default)]
        saves_as_table: bool,
    },
    /// A batch of a stream.
    StreamingUpdate {
        /// The stream's id, for good.
        query_id: String,
        /// The batch's number.
        epoch_id: u64,
        /// What a batch holds, as Spark calls it.
        output_mode: String,
    },
    /// Files that become a table as they are.
    Conversion {
        /// What the command was given.
        parameters: BTreeMap<String, Value>,
    },
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
    /// The condition of an overwrite, in Spark SQL, where the caller found no table: it judges each new row by it, and the
    /// write is refused where a table is there by then.
    #[serde(default)]
    pub first_rows_meet: Option<String>,
    /// Whether the mode overwrite replaces only those partitions that rows are written to.
    #[serde(default)]
    pub dynamic_partitions: bool,
    /// The version of this table that the rows were made of, as a whole: then none of its rows may come or go meanwhile.
    #[serde(default)]
    pub read_version: Option<u64>,
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
    /// How files are written.
    #[serde(default)]
    pub files: FileRequest,
    /// What the commit carries.
    #[serde(default)]
    pub commit: CommitRequest,
    /// Whether the caller evaluates the table's row rules on the rows that it writes; without it a
    /// table that has some is refused.
    #[serde(default)]
    pub applies_row_rules: bool,
    /// What the write is a part of: the history says so.
    #[serde(default)]
    pub operation: CommitOperation,
    /// Whether rows change. The caller may say of rows that were there before that they don't: nobody who follows the table sees
    /// them then.
    #[serde(default = "yes")]
    pub data_change: bool,
}

fn yes() -> bool {
    true
}

impl WriteRequest {
    /// Whether it takes the place of all that defined the table, columns and properties included.
    pub(crate) fn defines_anew(&self) -> bool {
        let replaces = matches!(self.operation, CommitOperation::Definition { replaces: true, .. });
        replaces && self.schema_mode == Some(SchemaMode::Overwrite)
    }

    /// A write in this mode that asks for nothing else.
    pub fn new(mode: WriteMode) -> Self {
        WriteRequest {
            mode,
            partition_by: None,
            cluster_by: None,
            schema_mode: None,
            schema_json: None,
            predicate: None,
            first_rows_meet: None,
            dynamic_partitions: false,
            read_version: None,
            predicate_sql: None,
            name: None,
            description: None,
            configuration: BTreeMap::new(),
            names_seed: None,
            files: FileRequest::default(),
            commit: CommitRequest::default(),
            applies_row_rules: false,
            operation: CommitOperation::Write,
            data_change: true,
        }
    }
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
