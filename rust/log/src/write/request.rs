//! Write requests, as they cross the boundary. `plan` and `rewrite` interpret it.

use std::collections::BTreeMap;

use deltaplane_error::Result;
use deltaplane_protocol::actions::SetTransaction;
use deltaplane_protocol::bloom_filters::BloomFilterChoice;
use deltaplane_protocol::expr::Expr;
use deltaplane_protocol::features::Directives;
use deltaplane_protocol::properties::{Properties, canonical_key};
use serde::Deserialize;
use serde_json::Value;

use crate::table_schema::TableSchema;
use crate::transaction::Staged;

/// What to do if the table exists.
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

/// What to do if the data's schema differs from the table's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchemaMode {
    /// Adds new columns.
    Merge,
    /// Takes the data's schema.
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

/// How files are written; absent means as the table's properties say.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileRequest {
    /// Target size in bytes.
    pub target_file_size: Option<u64>,
    /// Codec.
    pub compression: Option<String>,
    /// Rows of a Parquet row group.
    pub row_group_rows: Option<usize>,
    /// Columns with and without Bloom filters, besides those of the table's properties.
    pub bloom_filters: Vec<BloomFilterChoice>,
    /// Encodings by the dotted names of columns, which then have no dictionary.
    pub encodings: BTreeMap<String, String>,
}

/// The settings of a commit.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommitRequest {
    /// Free text.
    pub user_metadata: Option<String>,
    /// Free fields.
    pub commit_info: BTreeMap<String, Value>,
    /// Applications' versions: if one of them was committed already, the write is skipped.
    #[serde(deserialize_with = "none_one_or_many")]
    pub txn: Vec<TxnRequest>,
    /// Whether the commit may write a checkpoint that is due; true when absent.
    pub checkpoint: Option<bool>,
    /// Whether the log is cleaned up after the commit; by default as the table's properties say.
    pub cleanup: Option<bool>,
    /// Retries after a lost race.
    pub max_commit_retries: Option<usize>,
    /// The program that writes, besides deltaplane.
    pub engine_info: Option<String>,
    /// Follows delta-rs where its rules differ from delta-spark's.
    pub delta_rs: Option<DeltaRsRules>,
}

/// The rules of delta-rs: protocol versions in properties are stored and imply no feature, an
/// application's version may be committed again, and features are added by commits of their own
/// name.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeltaRsRules {
    /// Whether properties that Delta doesn't know are stored instead of being refused.
    pub keeps_unknown_properties: bool,
}

impl CommitRequest {
    /// Whether one of the applications' versions was committed already (P076).
    pub(crate) fn was_done(&self, done: &[SetTransaction]) -> bool {
        if self.delta_rs.is_some() {
            return false;
        }
        let is_done = |t: &TxnRequest| done.iter().any(|d| d.app_id == t.app_id && d.version >= t.version);
        self.txn.iter().any(is_done)
    }

    /// Takes the instructions about the protocol out of properties that a user passed, and returns
    /// them, and the properties that are stored without being checked.
    pub(crate) fn directives(
        &self,
        properties: &mut BTreeMap<String, String>,
    ) -> Result<(Directives, BTreeMap<String, String>)> {
        let Some(rules) = self.delta_rs else {
            return Ok((Directives::take(properties)?, BTreeMap::new()));
        };
        let (asked, mut stored) = Directives::take_as_delta_rs(properties)?;
        if rules.keeps_unknown_properties {
            let (known, unknown) = std::mem::take(properties)
                .into_iter()
                .partition(|(key, _): &(String, String)| canonical_key(key).is_ok());
            *properties = known;
            let unknown: BTreeMap<String, String> = unknown;
            stored.extend(unknown);
        }
        Ok((asked, stored))
    }

    /// Refuses illegal values of properties; delta-rs has no rules for several of them together.
    pub(crate) fn validate(&self, configuration: &BTreeMap<String, String>) -> Result<()> {
        match self.delta_rs {
            Some(_) => Properties::validate_each(configuration),
            None => Properties::validate(configuration),
        }
    }

    /// The instructions of a request without properties.
    pub(crate) fn no_directives(&self) -> Directives {
        Directives {
            as_delta_rs: self.delta_rs.is_some(),
            ..Directives::default()
        }
    }

    /// A staged commit with these settings and without actions.
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
            as_delta_rs: self.delta_rs.is_some(),
            ..Staged::default()
        }
    }
}

/// The programs that write, including deltaplane.
pub(crate) fn engine_info(caller: Option<&str>) -> String {
    let own = format!("deltaplane/{}", env!("CARGO_PKG_VERSION"));
    match caller {
        Some(g) if g.contains("deltaplane") => g.to_owned(),
        Some(g) => format!("{g} {own}"),
        None => own,
    }
}

/// The columns of a command's new values: of new rows, or for a schema that grows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncomingRequest {
    /// The columns.
    pub schema: TableSchema,
    /// Whether columns that the table lacks are added to it; otherwise they are refused.
    #[serde(default)]
    pub merge_schema: bool,
}

/// The operation that a write belongs to.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CommitOperation {
    /// Rows written to a table.
    Write {
        /// Further parameters for the history: options that this write doesn't follow.
        #[serde(default)]
        parameters: BTreeMap<String, Value>,
    },
    /// A statement that creates or replaces a table, with rows or without.
    Definition {
        /// `CREATE TABLE`, `REPLACE TABLE` or `CREATE OR REPLACE TABLE`.
        statement: String,
        /// Whether it also writes rows.
        #[serde(default)]
        fills: bool,
        /// Whether it replaces the table's whole definition: whatever it doesn't name is removed.
        #[serde(default)]
        replaces: bool,
        /// Whether a catalog chose the table's location and deletes its files when the table is
        /// dropped.
        #[serde(default)]
        managed: bool,
        /// Whether it is Spark's `saveAsTable` with mode overwrite, which has its own name in the
        /// history.
        #[serde(default)]
        saves_as_table: bool,
    },
    /// A batch of a stream.
    StreamingUpdate {
        /// The stream's id, which never changes.
        query_id: String,
        /// The batch's number.
        epoch_id: u64,
        /// The output mode of a batch, with Spark's name.
        output_mode: String,
    },
    /// Existing files that become a table.
    Conversion {
        /// The command's arguments.
        parameters: BTreeMap<String, Value>,
    },
}

impl Default for CommitOperation {
    fn default() -> Self {
        Self::Write {
            parameters: BTreeMap::new(),
        }
    }
}

/// Arguments of a write.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRequest {
    /// What to do if the table exists.
    pub mode: WriteMode,
    /// Partition columns of a new table; must equal those of an existing one.
    #[serde(default)]
    pub partition_by: Option<Vec<String>>,
    /// Clustering columns of a new table; must equal those of an existing one.
    #[serde(default)]
    pub cluster_by: Option<Vec<String>>,
    /// What to do with a differing schema.
    #[serde(default)]
    pub schema_mode: Option<SchemaMode>,
    /// The data's columns, instead of its Arrow schema.
    #[serde(default)]
    pub schema: Option<TableSchema>,
    /// Which rows to replace; on partition columns only.
    #[serde(default)]
    pub predicate: Option<Expr>,
    /// The predicate as text, for the table's history.
    #[serde(default)]
    pub predicate_sql: Option<String>,
    /// The condition of an overwrite, in Spark SQL, if the caller found no table: the caller checks
    /// each new row by it, and the write is refused if a table exists by then.
    #[serde(default)]
    pub first_rows_meet: Option<String>,
    /// Whether mode overwrite replaces only the partitions that the new rows belong to.
    #[serde(default)]
    pub dynamic_partitions: bool,
    /// The version of this table from which all rows were computed: none of its rows may be added
    /// or removed meanwhile.
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
    /// Names of those properties that the caller's session adds to each new table. Each is checked
    /// on its own only, as in delta-spark.
    #[serde(default)]
    pub session_defaults: Vec<String>,
    /// A UUID that new physical names are made from, for writes that are planned on several
    /// machines.
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
    /// Whether rows change. The caller may say of rows that were there before that they don't:
    /// nobody who follows the table sees them then.
    #[serde(default = "yes")]
    pub data_change: bool,
}

fn yes() -> bool {
    true
}

impl WriteRequest {
    /// The same request where a new table must have these properties.
    #[must_use]
    pub fn requiring(&self, properties: BTreeMap<String, String>) -> Self {
        let mut request = self.clone();
        request.configuration.extend(properties);
        request
    }

    /// Whether it takes the place of all that defined the table, columns and properties included.
    pub(crate) fn defines_anew(&self) -> bool {
        let replaces = matches!(self.operation, CommitOperation::Definition { replaces: true, .. });
        replaces && self.schema_mode == Some(SchemaMode::Overwrite)
    }

    /// Refuses illegal values of properties, and values that are illegal together unless a
    /// session's default is one of them.
    pub(crate) fn validate(&self, configuration: &BTreeMap<String, String>) -> Result<()> {
        if self.session_defaults.is_empty() {
            return self.commit.validate(configuration);
        }
        Properties::validate_each(configuration)?;
        let is_default = |key: &str| self.session_defaults.iter().any(|d| d.eq_ignore_ascii_case(key));
        let own = configuration.iter().filter(|(key, _)| !is_default(key));
        self.commit
            .validate(&own.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Whether rows may be written, and not only a table's definition.
    pub(crate) fn has_rows(&self) -> bool {
        !matches!(self.operation, CommitOperation::Definition { fills: false, .. })
    }

    /// A write in this mode that asks for nothing else.
    pub fn new(mode: WriteMode) -> Self {
        WriteRequest {
            mode,
            partition_by: None,
            cluster_by: None,
            schema_mode: None,
            schema: None,
            predicate: None,
            first_rows_meet: None,
            dynamic_partitions: false,
            read_version: None,
            predicate_sql: None,
            name: None,
            description: None,
            configuration: BTreeMap::new(),
            session_defaults: Vec::new(),
            names_seed: None,
            files: FileRequest::default(),
            commit: CommitRequest::default(),
            applies_row_rules: false,
            operation: CommitOperation::default(),
            data_change: true,
        }
    }
}

/// `null`, one application's version, or a list of them.
fn none_one_or_many<'de, D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Vec<TxnRequest>, D::Error> {
    let list = match Value::deserialize(d)? {
        Value::Null => Vec::new(),
        Value::Array(items) => items,
        column => vec![column],
    };
    list.into_iter()
        .map(|v| serde_json::from_value(v).map_err(serde::de::Error::custom))
        .collect()
}
