//! The actions of a Delta log (protocol section "Actions") as typed structs with their JSON form.
//! Unknown actions, unknown fields and explicit nulls are ignored when reading (P020).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Error, Result};

/// Partition column (physical name) → serialised value, `None` for null.
pub type PartitionValues = BTreeMap<String, Option<String>>;

/// Adds one data file to the table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// URI reference, percent-encoded once, relative to the table root or absolute (P021).
    pub path: String,
    /// Values of the partition columns of every row of the file.
    #[serde(deserialize_with = "null_as_default")]
    pub partition_values: PartitionValues,
    /// Exact size of the file in bytes (P031).
    pub size: i64,
    /// Creation time, ms since the epoch.
    pub modification_time: i64,
    /// Whether the file changes the table's rows (P028).
    pub data_change: bool,
    /// Statistics as JSON text (protocol section "Per-file Statistics").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// Free tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
    /// Rows of the file that are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
    /// Row id of the first row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_row_id: Option<i64>,
    /// Version in which the file's rows were committed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_row_commit_version: Option<i64>,
    /// Which implementation clustered the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clustering_provider: Option<String>,
}

/// Removes one data file from the table; stays as a tombstone until it expires.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// The raw path of the add it removes.
    pub path: String,
    /// When it was removed, ms since the epoch; absent = 0 (P029).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<i64>,
    /// Whether the removal changes the table's rows.
    pub data_change: bool,
    /// Whether partition values, size and tags are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_file_metadata: Option<bool>,
    /// Partition values of the removed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_values: Option<PartitionValues>,
    /// Size of the removed file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Statistics of the removed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// Tags of the removed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
    /// Deletion vector of the removed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
    /// Row id of the first row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_row_id: Option<i64>,
    /// Version in which the file's rows were committed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_row_commit_version: Option<i64>,
}

impl Add {
    /// The tombstone of this file (P029): copies what later readers need.
    pub fn to_remove(&self, deletion_timestamp_ms: i64, data_change: bool) -> Remove {
        Remove {
            path: self.path.clone(),
            deletion_timestamp: Some(deletion_timestamp_ms),
            data_change,
            extended_file_metadata: Some(true),
            partition_values: Some(self.partition_values.clone()),
            size: Some(self.size),
            stats: None,
            tags: self.tags.clone(),
            deletion_vector: self.deletion_vector.clone(),
            base_row_id: self.base_row_id,
            default_row_commit_version: self.default_row_commit_version,
        }
    }
}

/// Where the deleted rows of a file are listed (protocol section "Deletion Vectors").
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionVector {
    /// `u` relative file, `p` absolute file, `i` inline.
    pub storage_type: String,
    /// Path or inline data, by storage type.
    pub path_or_inline_dv: String,
    /// Offset of the vector in its file, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    /// Size of the serialised vector, bytes.
    pub size_in_bytes: i32,
    /// Number of deleted rows.
    pub cardinality: i64,
}

impl DeletionVector {
    /// The part of a file's key that tells its vectors apart (P042).
    pub fn unique_id(&self) -> String {
        match self.offset {
            Some(o) => format!("{}{}@{o}", self.storage_type, self.path_or_inline_dv),
            None => format!("{}{}", self.storage_type, self.path_or_inline_dv),
        }
    }
}

/// Storage format of the data files: always Parquet (P032).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// `parquet`.
    pub provider: String,
    /// Empty.
    #[serde(default, deserialize_with = "null_as_default")]
    pub options: BTreeMap<String, Option<String>>,
}

impl Default for Format {
    fn default() -> Self {
        Format {
            provider: "parquet".to_owned(),
            options: BTreeMap::new(),
        }
    }
}

/// The table's schema, partitioning and properties.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// GUID of the table; never changes (P024).
    #[serde(default)]
    pub id: String,
    /// User's name for the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// User's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Storage format.
    #[serde(default)]
    pub format: Format,
    /// Schema as JSON text.
    #[serde(default)]
    pub schema_string: Option<String>,
    /// Logical names of the partition columns, in directory order.
    #[serde(default, deserialize_with = "null_as_default")]
    pub partition_columns: Vec<String>,
    /// Creation time, ms since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
    /// Table properties.
    #[serde(default, deserialize_with = "null_as_default")]
    pub configuration: BTreeMap<String, String>,
}

/// Requirements for programs that read or write the table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    /// Lowest reader version.
    pub min_reader_version: i32,
    /// Lowest writer version.
    pub min_writer_version: i32,
    /// Reader features, iff the reader version is 3 (P092).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<Vec<String>>,
    /// Writer features, iff the writer version is 7 (P092).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<Vec<String>>,
}

/// The newest version that an application has written, for idempotent retries (P076).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetTransaction {
    /// The application's own id.
    pub app_id: String,
    /// The application's own version.
    pub version: i64,
    /// When it was set, ms since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<i64>,
}

/// Configuration of a named domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainMetadata {
    /// Name; `delta.` names belong to the protocol.
    pub domain: String,
    /// Free text, mostly JSON.
    pub configuration: String,
    /// Whether this is the domain's tombstone.
    pub removed: bool,
}

/// A file of row changes for the change data feed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddCdcFile {
    /// URI reference of the file.
    pub path: String,
    /// Partition values of its rows.
    #[serde(deserialize_with = "null_as_default")]
    pub partition_values: PartitionValues,
    /// Size in bytes.
    pub size: i64,
    /// Always false.
    pub data_change: bool,
    /// Free tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
}

/// The commit's provenance: free JSON (protocol section "Commit Provenance").
pub type CommitInfo = Map<String, Value>;

/// One line of a commit, as owned structs.
pub type Action = LineAction<Add, Remove, CommitInfo>;

/// One line of a commit; the representation of adds, removes and commit info is generic.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant)]
pub enum LineAction<A, R, I> {
    /// Adds a file.
    Add(A),
    /// Removes a file.
    Remove(R),
    /// Replaces the metadata.
    Metadata(Metadata),
    /// Replaces the protocol.
    Protocol(Protocol),
    /// Records an application's version.
    Txn(SetTransaction),
    /// Sets or drops a domain.
    DomainMetadata(DomainMetadata),
    /// Adds a change file.
    Cdc(AddCdcFile),
    /// Describes the commit.
    CommitInfo(I),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<A, R, I> {
    add: Option<A>,
    remove: Option<R>,
    meta_data: Option<Metadata>,
    protocol: Option<Protocol>,
    txn: Option<SetTransaction>,
    domain_metadata: Option<DomainMetadata>,
    cdc: Option<AddCdcFile>,
    commit_info: Option<I>,
}

/// Parses one line of a commit; `None` for a blank line or an action this version doesn't know
/// (P020).
pub fn parse_line(line: &str) -> Result<Option<Action>> {
    parse(line)
}

/// As `parse_line`, with another representation of file actions.
pub(crate) fn parse<'a, A, R, I>(line: &'a str) -> Result<Option<LineAction<A, R, I>>>
where
    A: Deserialize<'a>,
    R: Deserialize<'a>,
    I: Deserialize<'a>,
{
    if line.trim().is_empty() {
        return Ok(None);
    }
    let l: Line<A, R, I> = serde_json::from_str(line).map_err(|e| {
        Error::corrupt_log(format!(
            "a line of the commit isn't a valid action ({e}): the file was damaged or written by a faulty program"
        ))
    })?;
    let actions = [
        l.add.map(LineAction::Add),
        l.remove.map(LineAction::Remove),
        l.meta_data.map(LineAction::Metadata),
        l.protocol.map(LineAction::Protocol),
        l.txn.map(LineAction::Txn),
        l.domain_metadata.map(LineAction::DomainMetadata),
        l.cdc.map(LineAction::Cdc),
        l.commit_info.map(LineAction::CommitInfo),
    ];
    let mut actions = actions.into_iter().flatten();
    let first = actions.next();
    if actions.next().is_some() {
        return Err(Error::corrupt_log(
            "a line of the commit holds more than one action: each action needs a line of its own",
        ));
    }
    Ok(first)
}

/// The sum of sizes or counts that a log claims, for metrics; saturates instead of overflowing.
pub fn claimed_sum(values: impl IntoIterator<Item = i64>) -> i64 {
    values.into_iter().fold(0, i64::saturating_add)
}

/// Parses a whole commit file.
pub fn parse_commit(text: &str) -> Result<Vec<Action>> {
    text.lines().filter_map(|l| parse_line(l).transpose()).collect()
}

/// The bytes of a commit file with these actions, one a line.
pub fn write_commit<'a>(actions: impl IntoIterator<Item = &'a Action>) -> Result<String> {
    let mut out = String::new();
    for a in actions {
        out.push_str(&a.to_json()?);
        out.push('\n');
    }
    Ok(out)
}

impl Action {
    /// The line of a commit that holds this action, without the line end.
    pub fn to_json(&self) -> Result<String> {
        let (name, body) = match self {
            Action::Add(a) => ("add", serde_json::to_string(a)),
            Action::Remove(a) => ("remove", serde_json::to_string(a)),
            Action::Metadata(a) => ("metaData", serde_json::to_string(a)),
            Action::Protocol(a) => ("protocol", serde_json::to_string(a)),
            Action::Txn(a) => ("txn", serde_json::to_string(a)),
            Action::DomainMetadata(a) => ("domainMetadata", serde_json::to_string(a)),
            Action::Cdc(a) => ("cdc", serde_json::to_string(a)),
            Action::CommitInfo(a) => ("commitInfo", serde_json::to_string(a)),
        };
        let body = body.map_err(|e| Error::internal(format!("can't write a {name} action as JSON: {e}")))?;
        Ok(format!("{{\"{name}\":{body}}}"))
    }
}

pub(crate) fn null_as_default<'de, D, T>(d: D) -> std::result::Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(d)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn unknown_actions_fields_and_nulls_are_ignored() {
        // P020
        assert_eq!(parse_line(r#"{"futureAction":{"x":1}}"#).unwrap(), None);
        assert_eq!(parse_line("  ").unwrap(), None);
        let a = parse_line(r#"{"add":{"path":"a","partitionValues":null,"size":1,"modificationTime":2,"dataChange":true,"stats":null,"new":[1]},"remove":null}"#).unwrap();
        assert!(matches!(a, Some(Action::Add(a)) if a.path == "a" && a.partition_values.is_empty()));
    }

    #[test]
    fn two_actions_on_a_line_are_corrupt() {
        assert!(
            parse_line(r#"{"txn":{"appId":"x","version":1},"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#)
                .is_err()
        );
    }

    #[test]
    fn round_trip() {
        let text = r#"{"add":{"path":"p%20q","partitionValues":{"d":null},"size":1,"modificationTime":2,"dataChange":true,"stats":"{}"}}"#;
        assert_eq!(parse_line(text).unwrap().unwrap().to_json().unwrap(), text);
    }

    #[test]
    fn commit_info_keeps_numbers_as_written() {
        let text = r#"{"commitInfo":{"a":1.50,"n":12345678901234567890123}}"#;
        assert_eq!(parse_line(text).unwrap().unwrap().to_json().unwrap(), text);
    }
}
