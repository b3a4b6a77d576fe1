//! Handlers of the older endpoint for commits, `delta/preview/commits`.

use axum::body::Bytes;
use axum::extract::{Extension, State};
use serde_json::json;

use crate::api::classic::{PreviewCommit, PreviewCommitRequest, PreviewCommits, PreviewCommitsRequest};
use crate::api::columns::columns_of_infos;
use crate::api::{AssertedTable, Commit, Extensions, TableUpdate, UpdateTable};
use crate::error::{CatalogError, Result};
use crate::names::TableName;
use crate::server::App;
use crate::server::answers::{Answer, json_answer, parse};
use crate::server::delta::Caller;
use crate::store::{Principal, is_derived};

pub(super) async fn commits(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: PreviewCommitsRequest = parse(&body)?;
    let name = checked_name(&app, &caller, &request.table_id, &request.table_uri).await?;
    if request.start_version < 0 || request.end_version.is_some_and(|end| end < request.start_version) {
        return Err(
            CatalogError::invalid("end_version must not be below start_version, nor start_version below 0").into(),
        );
    }
    let loaded = app.store.load(&name, Extensions::default(), None, &caller).await?;
    let Some(latest_table_version) = loaded.latest_table_version else {
        return Err(CatalogError::invalid(format!("{name} is an external table")).into());
    };
    let end = request.end_version.unwrap_or(i64::MAX);
    let commits = loaded.commits.unwrap_or_default();
    json_answer(&PreviewCommits {
        commits: commits
            .into_iter()
            .filter(|commit| (request.start_version..=end).contains(&commit.version))
            .map(|commit| PreviewCommit {
                version: commit.version,
                timestamp: commit.timestamp,
                file_name: commit.file_name,
                file_size: commit.file_size,
                file_modification_timestamp: commit.file_modification_timestamp,
            })
            .collect(),
        latest_table_version,
    })
}

pub(super) async fn commit(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: PreviewCommitRequest = parse(&body)?;
    let name = checked_name(&app, &caller, &request.table_id, &request.table_uri).await?;
    let mut updates = Vec::new();
    if let Some(commit) = request.commit_info {
        updates.push(TableUpdate::AddCommit {
            commit: Commit {
                version: commit.version,
                timestamp: commit.timestamp,
                file_name: commit.file_name,
                file_size: commit.file_size,
                file_modification_timestamp: commit.file_modification_timestamp,
                content: None,
            },
            uniform: None,
        });
    }
    if let Some(version) = request.latest_backfilled_version {
        updates.push(TableUpdate::SetLatestBackfilledVersion {
            latest_published_version: version,
        });
    }
    let metadata = request.metadata.unwrap_or_default();
    if let Some(comment) = metadata.description {
        updates.push(TableUpdate::SetTableComment { comment });
    }
    if let Some(schema) = metadata.schema {
        updates.push(TableUpdate::SetColumns {
            columns: columns_of_infos(&schema.columns)?,
        });
    }
    if let Some(properties) = metadata.properties {
        // Here they replace all properties.
        let mut properties = properties.properties;
        properties.retain(|key, _| !is_derived(key));
        let loaded = app.store.load(&name, Extensions::default(), None, &caller).await?;
        let removals: Vec<_> = loaded
            .metadata
            .properties
            .into_keys()
            .filter(|key| !is_derived(key) && !properties.contains_key(key))
            .collect();
        updates.push(TableUpdate::SetProperties { updates: properties });
        updates.push(TableUpdate::RemoveProperties { removals });
    }
    let asserted = AssertedTable {
        uuid: request.table_id,
        etag: None,
    };
    app.store
        .update(&name, UpdateTable::new(&asserted, updates), &caller)
        .await?;
    json_answer(&json!({}))
}

/// The name of the table with an identity, which must be at its location.
async fn checked_name(app: &App, caller: &Principal, table_id: &str, table_uri: &str) -> Result<TableName> {
    let (name, location) = app.store.name_of(table_id, caller).await?;
    let own = table_uri.trim_end_matches('/');
    // Hadoop writes file:/x where URLs have file:///x.
    let short = location.replacen(":///", ":/", 1);
    if own != location && own != short {
        return Err(CatalogError::invalid(format!(
            "{name} is at {location}, not at the request's table_uri"
        )));
    }
    Ok(name)
}
