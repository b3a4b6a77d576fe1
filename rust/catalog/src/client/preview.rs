//! Servers without the Delta API v1: the classic API, and `delta/preview/commits`.

use std::collections::BTreeMap;

use crate::api::classic::{
    PreviewColumns, PreviewCommit, PreviewCommitRequest, PreviewCommits, PreviewCommitsRequest, PreviewMetadata,
    PreviewProperties, TableCredentialRequest, TableInfo, TemporaryCredentials, VolumeCredentialRequest, VolumeInfo,
};
use crate::api::columns::{column_infos, columns_of_infos};
use crate::api::tables::{TableMetadata, TableType};
use crate::api::{
    Commit, CredentialOperation, Credentials, Extensions, LoadedTable, StorageCredential, TableUpdate, UpdateOutcome,
    UpdateTable,
};
use crate::client::http::{Http, Sent, segment};
use crate::client::{checked, invalid};
use crate::error::{CatalogError, ErrorType, Result};
use crate::names::TableName;

/// The older endpoint for commits.
const COMMITS: &str = "delta/preview/commits";

async fn info(http: &Http, name: &TableName) -> Result<TableInfo> {
    let path = format!("tables/{}", segment(&name.to_string()));
    http.get(&path, &Vec::new(), Extensions::default()).await
}

fn identity(info: &TableInfo) -> Result<(String, String)> {
    match (&info.table_id, &info.storage_location) {
        (Some(id), Some(location)) => Ok((id.clone(), location.clone())),
        _ => Err(invalid("lacks the table's identity or location")),
    }
}

/// Loads a table by two calls: the second, for the commits, decides the latest version.
pub(super) async fn load(http: &Http, name: &TableName, after: Option<i64>) -> Result<LoadedTable> {
    let info = info(http, name).await?;
    let (table_id, location) = identity(&info)?;
    if !info
        .data_source_format
        .as_deref()
        .unwrap_or("DELTA")
        .eq_ignore_ascii_case("DELTA")
    {
        return Err(CatalogError::new(
            ErrorType::UnsupportedTableFormat,
            format!("{name} is no Delta table"),
        ));
    }
    let table_type = TableType::parse(info.table_type.as_deref().unwrap_or_default())?;
    let columns = info.columns.unwrap_or_default();
    let mut partitions: Vec<_> = columns
        .iter()
        .filter(|column| column.partition_index.is_some())
        .collect();
    partitions.sort_by_key(|column| column.partition_index);
    let partition_columns = partitions.iter().map(|column| column.name.clone()).collect();
    let mut loaded = LoadedTable {
        metadata: TableMetadata {
            // The classic API has no etag: its time of change is the closest thing.
            etag: info.updated_at.unwrap_or_default().to_string(),
            table_type,
            table_uuid: table_id.clone(),
            location: location.clone(),
            created_time: info.created_at.unwrap_or_default(),
            updated_time: info.updated_at.unwrap_or_default(),
            columns: columns_of_infos(&columns)?,
            partition_columns,
            properties: info.properties.unwrap_or_default(),
            last_commit_version: None,
            last_commit_timestamp_ms: None,
        },
        commits: None,
        uniform: None,
        latest_table_version: None,
    };
    if table_type == TableType::Managed {
        let request = PreviewCommitsRequest {
            table_id,
            table_uri: location,
            start_version: after.map_or(0, |after| after + 1).max(0),
            end_version: None,
        };
        let mut answer: PreviewCommits = http.get_with_body(COMMITS, &request).await?;
        answer.commits.sort_by_key(|commit| -commit.version);
        // A long list comes in parts, the oldest first: a gap would hide ratified commits.
        let newest = answer.commits.first().map(|commit| commit.version);
        if newest.is_some_and(|newest| newest < answer.latest_table_version) {
            return Err(invalid("has a part of the unpublished commits only"));
        }
        loaded.latest_table_version = Some(answer.latest_table_version);
        loaded.commits = Some(answer.commits.into_iter().map(commit_of).collect());
    }
    checked(loaded)
}

/// Adds a commit, and reports publication.
pub(super) async fn update(http: &Http, name: &TableName, request: &UpdateTable) -> Result<UpdateOutcome> {
    let asserted = request.asserted()?;
    let info = info(http, name).await?;
    let (table_id, location) = identity(&info)?;
    if !asserted.uuid.eq_ignore_ascii_case(&table_id) {
        return Err(CatalogError::new(
            ErrorType::UpdateRequirementConflict,
            format!(
                "{name} has the identity {table_id}, not {}: it was replaced",
                asserted.uuid
            ),
        ));
    }
    let mut sent = PreviewCommitRequest {
        table_id,
        table_uri: location,
        commit_info: None,
        latest_backfilled_version: None,
        metadata: None,
    };
    let mut metadata = PreviewMetadata::default();
    let mut properties: Option<BTreeMap<String, String>> = None;
    let current = || info.properties.clone().unwrap_or_default();
    for update in &request.updates {
        match update {
            TableUpdate::AddCommit { commit, uniform: None } if commit.content.is_none() => {
                sent.commit_info = Some(PreviewCommit {
                    version: commit.version,
                    timestamp: commit.timestamp,
                    file_name: commit.file_name.clone(),
                    file_size: commit.file_size,
                    file_modification_timestamp: commit.file_modification_timestamp,
                });
            }
            TableUpdate::SetLatestBackfilledVersion {
                latest_published_version,
            } => {
                sent.latest_backfilled_version = Some(*latest_published_version);
            }
            TableUpdate::SetTableComment { comment } => metadata.description = Some(comment.clone()),
            TableUpdate::SetColumns { columns } => {
                let columns = column_infos(columns, &[]);
                metadata.schema = Some(PreviewColumns { columns });
            }
            TableUpdate::SetProperties { updates } => {
                properties.get_or_insert_with(current).extend(updates.clone());
            }
            TableUpdate::RemoveProperties { removals } => {
                properties
                    .get_or_insert_with(current)
                    .retain(|key, _| !removals.contains(key));
            }
            other => {
                return Err(CatalogError::new(
                    ErrorType::NotImplemented,
                    format!(
                        "{} has no Delta API v1, which {} needs",
                        http.describe(),
                        other.action()
                    ),
                ));
            }
        }
    }
    metadata.properties = properties.map(|properties| PreviewProperties { properties });
    if metadata != PreviewMetadata::default() {
        sent.metadata = Some(metadata);
    }
    let _: serde_json::Value = http.post(COMMITS, &sent, Extensions::default(), Sent::Once).await?;
    Ok(UpdateOutcome {
        latest_table_version: sent.commit_info.map(|commit| commit.version),
        etag: String::new(),
    })
}

/// Credentials of a table in the form of the Delta API.
pub(super) async fn credentials(http: &Http, name: &TableName, operation: CredentialOperation) -> Result<Credentials> {
    let info = info(http, name).await?;
    let (table_id, location) = identity(&info)?;
    let request = TableCredentialRequest {
        table_id,
        operation: operation.text().to_owned(),
    };
    let path = "temporary-table-credentials";
    let answer = http.post(path, &request, Extensions::default(), Sent::Again).await?;
    Ok(of_temporary(answer, location, operation))
}

/// Credentials of a volume's location.
pub(super) async fn volume_credentials(
    http: &Http,
    volume: &VolumeInfo,
    operation: CredentialOperation,
) -> Result<Credentials> {
    let request = VolumeCredentialRequest {
        volume_id: volume.volume_id.clone().unwrap_or_default(),
        operation: match operation {
            CredentialOperation::Read => "READ_VOLUME".to_owned(),
            CredentialOperation::ReadWrite => "WRITE_VOLUME".to_owned(),
        },
    };
    let path = "temporary-volume-credentials";
    let answer = http.post(path, &request, Extensions::default(), Sent::Again).await?;
    let location = volume.storage_location.clone().unwrap_or_default();
    Ok(of_temporary(answer, location, operation))
}

/// Credentials of the classic API's form for a location.
fn of_temporary(answer: TemporaryCredentials, location: String, operation: CredentialOperation) -> Credentials {
    let mut config = BTreeMap::new();
    if let Some(aws) = answer.aws_temp_credentials {
        config.insert("s3.access-key-id".to_owned(), Some(aws.access_key_id));
        config.insert("s3.secret-access-key".to_owned(), Some(aws.secret_access_key));
        config.insert("s3.session-token".to_owned(), aws.session_token);
    }
    if let Some(azure) = answer.azure_user_delegation_sas {
        config.insert("azure.sas-token".to_owned(), Some(azure.sas_token));
    }
    if let Some(gcp) = answer.gcp_oauth_token {
        config.insert("gcs.oauth-token".to_owned(), Some(gcp.oauth_token));
    }
    if config.is_empty() {
        return Credentials::default();
    }
    Credentials {
        storage_credentials: vec![StorageCredential {
            prefix: location,
            operation,
            config,
            expiration_time_ms: answer.expiration_time.unwrap_or(i64::MAX),
        }],
    }
}

fn commit_of(commit: PreviewCommit) -> Commit {
    Commit {
        version: commit.version,
        timestamp: commit.timestamp,
        file_name: commit.file_name,
        file_size: commit.file_size,
        file_modification_timestamp: commit.file_modification_timestamp,
        content: None,
    }
}
