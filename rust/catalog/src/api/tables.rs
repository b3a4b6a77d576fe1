//! Answers of the Delta API v1.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{CatalogError, ErrorType, Result};
use crate::limits::MAX_COMMITS;
use crate::secret::Secret;

/// Who owns a table's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum TableType {
    /// The catalog: it allocates the location and ratifies the commits.
    Managed,
    /// The user: the catalog stores the name, location and columns.
    External,
}

impl TableType {
    pub(crate) fn text(self) -> &'static str {
        match self {
            TableType::Managed => "MANAGED",
            TableType::External => "EXTERNAL",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "MANAGED" => Ok(TableType::Managed),
            "EXTERNAL" => Ok(TableType::External),
            _ => Err(CatalogError::new(
                ErrorType::UnsupportedTableFormat,
                format!("a table of type {text:?} is no Delta table"),
            )),
        }
    }
}

/// A table's protocol: versions and features.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Protocol {
    /// Minimum reader version.
    pub min_reader_version: i32,
    /// Minimum writer version.
    pub min_writer_version: i32,
    /// Features that readers must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<Vec<String>>,
    /// Features that writers must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<Vec<String>>,
}

impl Protocol {
    /// All features, each once.
    pub(crate) fn features(&self) -> BTreeSet<&str> {
        let lists = [&self.reader_features, &self.writer_features];
        lists.into_iter().flatten().flatten().map(String::as_str).collect()
    }
}

/// The answer of `config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CatalogConfig {
    /// `METHOD /v1/path` of each endpoint.
    #[serde(default)]
    pub endpoints: Vec<String>,
    /// The negotiated version, such as `1.0`.
    pub protocol_version: String,
    /// deltaplane's extensions that the server has; absent unless the client asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

/// What a credential permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CredentialOperation {
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
}

impl CredentialOperation {
    /// The word in requests.
    pub fn text(self) -> &'static str {
        match self {
            CredentialOperation::Read => "READ",
            CredentialOperation::ReadWrite => "READ_WRITE",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "READ" => Ok(CredentialOperation::Read),
            "READ_WRITE" => Ok(CredentialOperation::ReadWrite),
            _ => Err(CatalogError::new(
                ErrorType::BadRequest,
                format!("the operation must be READ or READ_WRITE, not {text:?}"),
            )),
        }
    }
}

/// A temporary credential of one storage prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StorageCredential {
    /// The location that it is valid for, with everything below.
    pub prefix: String,
    /// What it permits.
    pub operation: CredentialOperation,
    /// `s3.access-key-id`, `s3.secret-access-key`, `s3.session-token`, `azure.sas-token`,
    /// `gcs.oauth-token`: those of the prefix's cloud.
    #[serde(default)]
    pub config: BTreeMap<String, Option<Secret>>,
    /// When it expires, in ms since 1970 (UTC).
    pub expiration_time_ms: i64,
}

/// The answer of the endpoints for credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Credentials {
    /// A credential for each prefix.
    #[serde(default)]
    pub storage_credentials: Vec<StorageCredential>,
}

impl Credentials {
    /// The credential with the longest prefix of a location that permits the operation.
    pub fn longest_prefix(&self, location: &str, operation: CredentialOperation) -> Option<&StorageCredential> {
        let permits = |c: &&StorageCredential| {
            operation == CredentialOperation::Read || c.operation == CredentialOperation::ReadWrite
        };
        self.storage_credentials
            .iter()
            .filter(|credential| is_below(location, &credential.prefix))
            .filter(permits)
            .max_by_key(|credential| credential.prefix.trim_end_matches('/').len())
    }
}

/// Whether a location equals a prefix or is below it: `s3://b/t10` is not below `s3://b/t1`.
pub(crate) fn is_below(location: &str, prefix: &str) -> bool {
    let (location, prefix) = (location.trim_end_matches('/'), prefix.trim_end_matches('/'));
    location
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The answer of the creation of a staging table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StagingTable {
    /// The identity that the table will have.
    pub table_id: String,
    /// Always managed.
    pub table_type: TableType,
    /// Where the client writes version 0.
    pub location: String,
    /// Credentials for writing it.
    #[serde(default)]
    pub storage_credentials: Vec<StorageCredential>,
    /// What version 0 must have at least.
    pub required_protocol: Protocol,
    /// Features to enable where the client supports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_protocol: Option<SuggestedFeatures>,
    /// Properties that version 0 must have; `None` leaves the value to the client.
    #[serde(default)]
    pub required_properties: BTreeMap<String, Option<String>>,
    /// Properties to set where the client supports them.
    #[serde(default)]
    pub suggested_properties: BTreeMap<String, Option<String>>,
}

/// Features of a protocol, without its versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SuggestedFeatures {
    /// Reader features.
    #[serde(default)]
    pub reader_features: Vec<String>,
    /// Writer features.
    #[serde(default)]
    pub writer_features: Vec<String>,
}

/// A ratified commit that may be unpublished.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Commit {
    /// Its version, at least 1.
    pub version: i64,
    /// The in-commit timestamp, in ms since 1970 (UTC).
    pub timestamp: i64,
    /// `<version>.<uuid>.json` below `_delta_log/_staged_commits/`: the UUID identifies the
    /// proposal.
    pub file_name: String,
    /// Bytes of the commit.
    pub file_size: i64,
    /// When the staged file was written, in ms since 1970 (UTC).
    pub file_modification_timestamp: i64,
    /// The commit's text, if it is inline: no staged file exists then. An extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

impl std::fmt::Debug for Commit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inline = if self.content.is_some() { ", inline" } else { "" };
        write!(f, "Commit({}, {} bytes{inline})", self.file_name, self.file_size)
    }
}

/// A table's metadata as the catalog has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TableMetadata {
    /// Changes with each change of the metadata, and only then.
    pub etag: String,
    /// Who owns the files.
    pub table_type: TableType,
    /// The table's identity.
    pub table_uuid: String,
    /// Where the table is.
    pub location: String,
    /// When it was created, in ms since 1970 (UTC).
    pub created_time: i64,
    /// When its metadata changed, in ms since 1970 (UTC).
    pub updated_time: i64,
    /// The schema, in the API's spelling: [`crate::api::columns`] converts it.
    pub columns: Value,
    /// Logical names of the partition columns.
    #[serde(default)]
    pub partition_columns: Vec<String>,
    /// Properties of the log, and keys that the server derives.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// The version of the last commit that changed metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit_version: Option<i64>,
    /// That commit's timestamp, in ms since 1970 (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_commit_timestamp_ms: Option<i64>,
}

/// The answer of `loadTable`: metadata, unpublished commits and latest version of one instant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct LoadedTable {
    /// The metadata.
    pub metadata: TableMetadata,
    /// All commits that may be unpublished, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<Vec<Commit>>,
    /// Conversion to Iceberg, unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uniform: Option<Value>,
    /// The highest ratified version; absent for external tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_table_version: Option<i64>,
}

impl LoadedTable {
    /// Whether commits of the table go through the catalog.
    pub fn is_catalog_managed(&self) -> bool {
        self.metadata
            .properties
            .get("delta.feature.catalogManaged")
            .map(String::as_str)
            == Some("supported")
    }

    /// Refuses an answer that can't be true: versions out of order or with gaps, commits above the
    /// latest version, or names that point elsewhere. With `after`, commits up to it were left out.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| {
            Err(CatalogError::new(
                ErrorType::InvalidAnswer,
                format!("the catalog's answer for table {} {message}", self.metadata.table_uuid),
            ))
        };
        let commits = self.commits.as_deref().unwrap_or_default();
        if commits.len() > MAX_COMMITS {
            return refuse(format!(
                "has {} commits; at most {MAX_COMMITS} are accepted",
                commits.len()
            ));
        }
        let Some(latest) = self.latest_table_version else {
            return match commits {
                [] => Ok(()),
                _ => refuse("has commits but no latest version".to_owned()),
            };
        };
        if latest < 0 {
            return refuse(format!("has the latest version {latest}"));
        }
        let mut expected = latest;
        for commit in commits {
            if commit.version != expected || commit.version < 1 {
                return refuse(format!("lists version {} where {expected} must follow", commit.version));
            }
            check_commit(commit).map_err(|e| CatalogError::new(ErrorType::InvalidAnswer, e.message))?;
            expected -= 1;
        }
        Ok(())
    }
}

/// Refuses a commit whose numbers or file name can't be right.
pub(crate) fn check_commit(commit: &Commit) -> Result<()> {
    if commit.version < 1 || commit.timestamp < 1 || commit.file_size < 1 || commit.file_modification_timestamp < 0 {
        return Err(CatalogError::invalid(format!(
            "version, timestamp and size of a commit must be positive: {commit:?}"
        )));
    }
    let expected = format!("{:020}.", commit.version);
    let uuid = commit
        .file_name
        .strip_prefix(&expected)
        .and_then(|rest| rest.strip_suffix(".json"));
    match uuid.map(uuid::Uuid::try_parse) {
        Some(Ok(_)) => Ok(()),
        _ => Err(CatalogError::invalid(format!(
            "the file name of version {} must be {expected}<uuid>.json, not {:?}",
            commit.version, commit.file_name
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn credential(prefix: &str, operation: CredentialOperation) -> StorageCredential {
        StorageCredential {
            prefix: prefix.to_owned(),
            operation,
            config: BTreeMap::from([("s3.secret-access-key".to_owned(), Some(Secret::new("hush")))]),
            expiration_time_ms: 1,
        }
    }

    #[test]
    fn the_longest_prefix_that_permits_wins() {
        use CredentialOperation::{Read, ReadWrite};
        let all = Credentials {
            storage_credentials: vec![
                credential("s3://b/", ReadWrite),
                credential("s3://b/t1", Read),
                credential("s3://b/t1/x/", Read),
            ],
        };
        let prefix = |location, operation| all.longest_prefix(location, operation).map(|c| c.prefix.as_str());
        assert_eq!(prefix("s3://b/t1/x/f", Read), Some("s3://b/t1/x/"));
        assert_eq!(prefix("s3://b/t1/y", Read), Some("s3://b/t1"));
        assert_eq!(prefix("s3://b/t1/y", ReadWrite), Some("s3://b/"));
        assert_eq!(prefix("s3://b/t10", Read), Some("s3://b/"));
        assert_eq!(prefix("s3://c/t", Read), None);
        assert!(!format!("{all:?}").contains("hush"));
    }

    #[test]
    fn answers_with_gaps_or_foreign_names_are_refused() {
        let answer = |latest: i64, commits: &[(i64, &str)]| -> Result<()> {
            let commits: Vec<_> = commits
                .iter()
                .map(|(version, name)| {
                    serde_json::json!({"version": version, "timestamp": 1, "file-name": name, "file-size": 1,
                        "file-modification-timestamp": 1, "new-field": {"a": [1]}})
                })
                .collect();
            let loaded: LoadedTable = serde_json::from_value(serde_json::json!({
                "metadata": {"etag": "e", "table-type": "MANAGED", "table-uuid": "u", "location": "s3://b/t",
                    "created-time": 1, "updated-time": 1, "columns": {"type": "struct", "fields": []}, "properties": {}},
                "commits": commits, "latest-table-version": latest,
            }))
            .unwrap();
            loaded.check()
        };
        let name = |v: i64| format!("{v:020}.48ae7812-9cf2-4548-a859-fc64b89de294.json");
        let (first, second, third) = (name(1), name(2), name(3));
        assert!(answer(0, &[]).is_ok());
        assert!(answer(7, &[]).is_ok());
        assert!(answer(3, &[(3, &third), (2, &second)]).is_ok());
        assert!(answer(3, &[(2, &second), (1, &first)]).is_err());
        assert!(answer(3, &[(3, &third), (1, &first)]).is_err());
        assert!(answer(3, &[(2, &second), (3, &third)]).is_err());
        assert!(answer(-1, &[]).is_err());
        assert!(answer(2, &[(2, &third)]).is_err());
        assert!(answer(2, &[(2, "../../0002.json")]).is_err());
        assert!(answer(i64::MIN, &[(i64::MIN, &first)]).is_err());
    }
}
