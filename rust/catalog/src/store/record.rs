//! A table's rows in the database.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::Protocol;
use crate::api::tables::TableType;
use crate::names::TableName;

/// A table as the database has it, apart from its commits.
#[derive(Debug, Clone)]
pub(crate) struct TableRecord {
    pub(crate) uuid: String,
    pub(crate) name: TableName,
    pub(crate) table_type: TableType,
    pub(crate) format: String,
    pub(crate) location: String,
    pub(crate) comment: Option<String>,
    pub(crate) columns: Value,
    pub(crate) partition_columns: Vec<String>,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) protocol: Protocol,
    pub(crate) domains: BTreeMap<String, Value>,
    pub(crate) uniform: Option<Value>,
    pub(crate) last_update_version: Option<i64>,
    pub(crate) last_update_ms: Option<i64>,
    pub(crate) owner: String,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,
}

/// What each commit changes of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) etag: i64,
    /// `None` for external tables.
    pub(crate) latest: Option<i64>,
    pub(crate) latest_timestamp: i64,
    pub(crate) published: i64,
    pub(crate) inline_bytes: i64,
    /// Whether each commit must carry its conversion to Iceberg.
    pub(crate) iceberg: bool,
}

impl Head {
    pub(crate) fn etag_text(&self, uuid: &str) -> String {
        let prefix: String = uuid.chars().take(8).collect();
        format!("{prefix}-{}", self.etag)
    }
}
