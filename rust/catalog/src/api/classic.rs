//! Requests and answers of Unity Catalog's classic API: catalogs, schemas, tables, temporary
//! credentials and the older endpoint for commits (`delta/preview/commits`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// A catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogInfo {
    /// Its name.
    pub name: String,
    /// Its comment.
    #[serde(default)]
    pub comment: Option<String>,
    /// Its properties.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, String>>,
    /// Who created it.
    #[serde(default)]
    pub owner: Option<String>,
    /// When it was created, in ms since 1970 (UTC).
    #[serde(default)]
    pub created_at: Option<i64>,
    /// When it was changed, in ms since 1970 (UTC).
    #[serde(default)]
    pub updated_at: Option<i64>,
    /// Its identity.
    #[serde(default)]
    pub id: Option<String>,
    /// Where its managed tables are.
    #[serde(default)]
    pub storage_root: Option<String>,
}

/// A schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaInfo {
    /// Its name in the catalog.
    pub name: String,
    /// Its catalog.
    pub catalog_name: String,
    /// Its comment.
    #[serde(default)]
    pub comment: Option<String>,
    /// Its properties.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, String>>,
    /// `catalog.schema`.
    #[serde(default)]
    pub full_name: Option<String>,
    /// Who created it.
    #[serde(default)]
    pub owner: Option<String>,
    /// When it was created, in ms since 1970 (UTC).
    #[serde(default)]
    pub created_at: Option<i64>,
    /// When it was changed, in ms since 1970 (UTC).
    #[serde(default)]
    pub updated_at: Option<i64>,
    /// Its identity.
    #[serde(default)]
    pub schema_id: Option<String>,
    /// Where its managed tables are, unless the catalog says it.
    #[serde(default)]
    pub storage_root: Option<String>,
}

/// A column of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnInfo {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Spark's catalog text of its type.
    #[serde(default)]
    pub type_text: String,
    /// Its field of the schema as JSON.
    #[serde(default)]
    pub type_json: String,
    /// Its type's name, such as `LONG`.
    #[serde(default)]
    pub type_name: String,
    /// Digits of a decimal.
    #[serde(default)]
    pub type_precision: Option<i32>,
    /// Digits behind the point.
    #[serde(default)]
    pub type_scale: Option<i32>,
    /// Its index.
    #[serde(default)]
    pub position: i32,
    /// Its comment.
    #[serde(default)]
    pub comment: Option<String>,
    /// Whether it may be null.
    #[serde(default = "yes")]
    pub nullable: bool,
    /// Its index among the partition columns.
    #[serde(default)]
    pub partition_index: Option<i32>,
}

fn yes() -> bool {
    true
}

/// A table; also the request to create an external one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableInfo {
    /// Its name in the schema.
    pub name: String,
    /// Its catalog.
    pub catalog_name: String,
    /// Its schema.
    pub schema_name: String,
    /// `MANAGED`, `EXTERNAL` or another type.
    #[serde(default)]
    pub table_type: Option<String>,
    /// `DELTA` or another format.
    #[serde(default)]
    pub data_source_format: Option<String>,
    /// Its columns.
    #[serde(default)]
    pub columns: Option<Vec<ColumnInfo>>,
    /// Its location.
    #[serde(default)]
    pub storage_location: Option<String>,
    /// Its comment.
    #[serde(default)]
    pub comment: Option<String>,
    /// Its properties.
    #[serde(default)]
    pub properties: Option<BTreeMap<String, String>>,
    /// Who created it.
    #[serde(default)]
    pub owner: Option<String>,
    /// When it was created, in ms since 1970 (UTC).
    #[serde(default)]
    pub created_at: Option<i64>,
    /// When it was changed, in ms since 1970 (UTC).
    #[serde(default)]
    pub updated_at: Option<i64>,
    /// Its identity.
    #[serde(default)]
    pub table_id: Option<String>,
}

/// A page of catalogs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogPage {
    /// The catalogs.
    #[serde(default)]
    pub catalogs: Vec<CatalogInfo>,
    /// Where the next page begins.
    #[serde(default)]
    pub next_page_token: Option<String>,
}

/// A page of schemas.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaPage {
    /// The schemas.
    #[serde(default)]
    pub schemas: Vec<SchemaInfo>,
    /// Where the next page begins.
    #[serde(default)]
    pub next_page_token: Option<String>,
}

/// A page of tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TablePage {
    /// The tables.
    #[serde(default)]
    pub tables: Vec<TableInfo>,
    /// Where the next page begins.
    #[serde(default)]
    pub next_page_token: Option<String>,
}

/// A volume; also the request to create one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeInfo {
    /// Its name in the schema.
    pub name: String,
    /// Its catalog.
    pub catalog_name: String,
    /// Its schema.
    pub schema_name: String,
    /// `catalog.schema.volume`.
    #[serde(default)]
    pub full_name: Option<String>,
    /// `MANAGED` or `EXTERNAL`.
    #[serde(default)]
    pub volume_type: Option<String>,
    /// Its location.
    #[serde(default)]
    pub storage_location: Option<String>,
    /// Its comment.
    #[serde(default)]
    pub comment: Option<String>,
    /// Who created it.
    #[serde(default)]
    pub owner: Option<String>,
    /// When it was created, in ms since 1970 (UTC).
    #[serde(default)]
    pub created_at: Option<i64>,
    /// When it was changed, in ms since 1970 (UTC).
    #[serde(default)]
    pub updated_at: Option<i64>,
    /// Its identity.
    #[serde(default)]
    pub volume_id: Option<String>,
}

/// A page of volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumePage {
    /// The volumes.
    #[serde(default)]
    pub volumes: Vec<VolumeInfo>,
    /// Where the next page begins.
    #[serde(default)]
    pub next_page_token: Option<String>,
}

/// A request for credentials of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeCredentialRequest {
    /// The volume's identity.
    pub volume_id: String,
    /// `READ_VOLUME` or `WRITE_VOLUME`.
    pub operation: String,
}

/// A request for credentials of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableCredentialRequest {
    /// The table's identity.
    pub table_id: String,
    /// `READ` or `READ_WRITE`.
    pub operation: String,
}

/// A request for credentials of a location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathCredentialRequest {
    /// The location.
    pub url: String,
    /// `PATH_READ`, `PATH_READ_WRITE` or `PATH_CREATE_TABLE`.
    pub operation: String,
}

/// Temporary credentials in the classic API's form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemporaryCredentials {
    /// Those of S3.
    #[serde(default)]
    pub aws_temp_credentials: Option<AwsCredentials>,
    /// Those of Azure.
    #[serde(default)]
    pub azure_user_delegation_sas: Option<AzureSas>,
    /// Those of Google.
    #[serde(default)]
    pub gcp_oauth_token: Option<GcpToken>,
    /// When they expire, in ms since 1970 (UTC).
    #[serde(default)]
    pub expiration_time: Option<i64>,
}

/// Credentials of S3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwsCredentials {
    /// The key's name.
    pub access_key_id: Secret,
    /// The key.
    pub secret_access_key: Secret,
    /// The session's token.
    #[serde(default)]
    pub session_token: Option<Secret>,
}

/// A shared access signature of Azure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AzureSas {
    /// The signature.
    pub sas_token: Secret,
}

/// A token of Google.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcpToken {
    /// The token.
    pub oauth_token: Secret,
}

/// A request for a staging table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateStagingTable {
    /// The table's name.
    pub name: String,
    /// Its catalog.
    pub catalog_name: String,
    /// Its schema.
    pub schema_name: String,
}

/// A staging table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagingTableInfo {
    /// The table's name.
    pub name: String,
    /// Its catalog.
    pub catalog_name: String,
    /// Its schema.
    pub schema_name: String,
    /// Its identity.
    pub id: String,
    /// Its location.
    pub staging_location: String,
}

/// A commit of the older endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewCommit {
    /// The version.
    pub version: i64,
    /// The in-commit timestamp, in ms since 1970 (UTC).
    pub timestamp: i64,
    /// The staged file's name.
    pub file_name: String,
    /// Its bytes.
    pub file_size: i64,
    /// When it was written, in ms since 1970 (UTC).
    pub file_modification_timestamp: i64,
}

/// A request to commit or to report publication at the older endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreviewCommitRequest {
    /// The table's identity.
    pub table_id: String,
    /// Its location.
    pub table_uri: String,
    /// The commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_info: Option<PreviewCommit>,
    /// The highest published version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_backfilled_version: Option<i64>,
    /// Changed metadata, in the classic API's form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<PreviewMetadata>,
}

/// Changed metadata at the older endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PreviewMetadata {
    /// The table's comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<PreviewColumns>,
    /// The properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<PreviewProperties>,
}

/// Columns at the older endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PreviewColumns {
    /// The columns.
    #[serde(default)]
    pub columns: Vec<ColumnInfo>,
}

/// Properties at the older endpoint.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PreviewProperties {
    /// Values by key.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// A request for commits at the older endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewCommitsRequest {
    /// The table's identity.
    pub table_id: String,
    /// Its location.
    pub table_uri: String,
    /// The first version.
    pub start_version: i64,
    /// The last version, if not the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_version: Option<i64>,
}

/// Commits at the older endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviewCommits {
    /// Unpublished commits.
    #[serde(default)]
    pub commits: Vec<PreviewCommit>,
    /// The highest ratified version.
    #[serde(default)]
    pub latest_table_version: i64,
}
