//! Handlers of the classic API.

use std::collections::HashMap;

use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};
use serde_json::json;

use crate::api::classic::{
    AwsCredentials, AzureSas, CatalogInfo, CreateStagingTable, GcpToken, PathCredentialRequest, SchemaInfo,
    StagingTableInfo, TableCredentialRequest, TableInfo, TemporaryCredentials,
};
use crate::api::columns::columns_of_infos;
use crate::api::tables::TableType;
use crate::api::{CreateTable, CredentialOperation, Credentials, Protocol};
use crate::catalog::Catalog;
use crate::error::{CatalogError, ErrorType, Result};
use crate::managed_features::is_writer_only;
use crate::names::{TableName, parse_schema};
use crate::secret::Secret;
use crate::server::App;
use crate::server::answers::{Answer, json_answer, parse};
use crate::server::delta::{Caller, Parameters, parameter, secret};
use crate::store::Page;

pub(super) fn page(query: &HashMap<String, String>) -> Result<Page> {
    let max_results = match query.get("max_results").filter(|text| !text.is_empty()) {
        None => 0,
        Some(text) => text
            .parse()
            .map_err(|_| CatalogError::invalid("max_results must be a number"))?,
    };
    let token = query.get("page_token").filter(|token| !token.is_empty()).cloned();
    Ok(Page { max_results, token })
}

pub(super) fn done() -> Answer {
    json_answer(&json!({}))
}

pub(super) async fn list_catalogs(
    State(app): State<App>,
    Extension(caller): Caller,
    Query(query): Parameters,
) -> Answer {
    json_answer(&app.store.list_catalogs(page(&query)?, &caller).await?)
}

pub(super) async fn create_catalog(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: CatalogInfo = parse(&body)?;
    json_answer(&app.store.create_catalog(request, &caller).await?)
}

pub(super) async fn catalog(State(app): State<App>, Extension(caller): Caller, Path(name): Path<String>) -> Answer {
    json_answer(&app.store.catalog(&name, &caller).await?)
}

pub(super) async fn drop_catalog(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(name): Path<String>,
    Query(query): Parameters,
) -> Answer {
    let force = query.get("force").is_some_and(|force| force == "true");
    app.store.drop_catalog(&name, force, &caller).await?;
    done()
}

pub(super) async fn list_schemas(
    State(app): State<App>,
    Extension(caller): Caller,
    Query(query): Parameters,
) -> Answer {
    let name = parameter(&query, "catalog_name")?;
    json_answer(&app.store.list_schemas(name, page(&query)?, &caller).await?)
}

pub(super) async fn create_schema(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: SchemaInfo = parse(&body)?;
    json_answer(&app.store.create_schema(request, &caller).await?)
}

pub(super) async fn schema(State(app): State<App>, Extension(caller): Caller, Path(name): Path<String>) -> Answer {
    let (catalog, schema) = parse_schema(&name)?;
    json_answer(&app.store.schema(&catalog, &schema, &caller).await?)
}

pub(super) async fn drop_schema(State(app): State<App>, Extension(caller): Caller, Path(name): Path<String>) -> Answer {
    let (catalog, schema) = parse_schema(&name)?;
    app.store.drop_schema(&catalog, &schema, &caller).await?;
    done()
}

pub(super) async fn list_tables(State(app): State<App>, Extension(caller): Caller, Query(query): Parameters) -> Answer {
    let (catalog, schema) = (parameter(&query, "catalog_name")?, parameter(&query, "schema_name")?);
    json_answer(&app.store.list_tables(catalog, schema, page(&query)?, &caller).await?)
}

pub(super) async fn table(State(app): State<App>, Extension(caller): Caller, Path(name): Path<String>) -> Answer {
    json_answer(&app.store.table_info(&TableName::parse(&name)?, &caller).await?)
}

pub(super) async fn drop_table(State(app): State<App>, Extension(caller): Caller, Path(name): Path<String>) -> Answer {
    app.store.drop_table(&TableName::parse(&name)?, &caller).await?;
    done()
}

/// Creates an external table, or a managed one from its staging table, as clients did before the
/// Delta API.
pub(super) async fn create_table(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: TableInfo = parse(&body)?;
    if request.table_type.as_deref() != Some("MANAGED") {
        return json_answer(&app.store.register_table(request, &caller).await?);
    }
    let name = TableName::new(&request.catalog_name, &request.schema_name, &request.name)?;
    let managed = managed(request)?;
    app.store
        .create_table(&name.catalog, &name.schema, managed, &caller)
        .await?;
    json_answer(&app.store.table_info(&name, &caller).await?)
}

/// The Delta API's request: the protocol is among the properties there.
fn managed(info: TableInfo) -> Result<CreateTable> {
    let columns = info.columns.unwrap_or_default();
    let mut partitions: Vec<_> = columns
        .iter()
        .filter(|column| column.partition_index.is_some())
        .collect();
    partitions.sort_by_key(|column| column.partition_index);
    let properties = info.properties.unwrap_or_default();
    let number = |key: &str| properties.get(key).and_then(|text| text.parse::<i64>().ok());
    let features: Vec<String> = properties
        .keys()
        .filter_map(|key| key.strip_prefix("delta.feature."))
        .map(str::to_owned)
        .collect();
    let reader = features.iter().filter(|name| !is_writer_only(name)).cloned();
    Ok(CreateTable {
        name: info.name,
        location: info.storage_location.unwrap_or_default(),
        table_type: TableType::Managed,
        comment: info.comment,
        partition_columns: partitions.iter().map(|column| column.name.clone()).collect(),
        columns: columns_of_infos(&columns)?,
        protocol: Protocol {
            min_reader_version: number("delta.minReaderVersion").unwrap_or(3) as i32,
            min_writer_version: number("delta.minWriterVersion").unwrap_or(7) as i32,
            reader_features: Some(reader.collect()),
            writer_features: Some(features.clone()),
        },
        last_commit_timestamp_ms: number("delta.lastCommitTimestamp").unwrap_or(1).max(1),
        properties,
        domain_metadata: None,
        uniform: None,
    })
}

pub(super) async fn create_staging(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: CreateStagingTable = parse(&body)?;
    let name = TableName::new(&request.catalog_name, &request.schema_name, &request.name)?;
    let staging = app.store.create_staging(&name, &caller).await?;
    json_answer(&StagingTableInfo {
        name: request.name,
        catalog_name: request.catalog_name,
        schema_name: request.schema_name,
        id: staging.table_id,
        staging_location: staging.location,
    })
}

pub(super) async fn table_credentials(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: TableCredentialRequest = parse(&body)?;
    let operation = CredentialOperation::parse(&request.operation)?;
    let own = super::delta::catalog(&app, &caller);
    let credentials = match app.store.name_of(&request.table_id, &caller).await {
        Ok((name, _)) => own.credentials(&name, operation).await?,
        // A staging table isn't a table yet.
        Err(e) if e.error_type == ErrorType::NoSuchTable => own.staging_credentials(&request.table_id).await?,
        Err(e) => return Err(e.into()),
    };
    secret(&temporary(credentials))
}

pub(super) async fn path_credentials(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: PathCredentialRequest = parse(&body)?;
    let operation = match request.operation.as_str() {
        "PATH_READ" => CredentialOperation::Read,
        "PATH_READ_WRITE" | "PATH_CREATE_TABLE" => CredentialOperation::ReadWrite,
        other => return Err(CatalogError::invalid(format!("the operation {other:?} is unknown")).into()),
    };
    let own = super::delta::catalog(&app, &caller);
    secret(&temporary(own.path_credentials(&request.url, operation).await?))
}

/// Credentials in the classic API's form.
pub(super) fn temporary(credentials: Credentials) -> TemporaryCredentials {
    let Some(credential) = credentials.storage_credentials.into_iter().next() else {
        // A local folder needs none.
        return TemporaryCredentials {
            expiration_time: Some(i64::MAX),
            ..TemporaryCredentials::default()
        };
    };
    let mut config = credential.config;
    let mut take = |key: &str| -> Option<Secret> { config.remove(key).flatten() };
    let aws = match (take("s3.access-key-id"), take("s3.secret-access-key")) {
        (Some(access_key_id), Some(secret_access_key)) => Some(AwsCredentials {
            access_key_id,
            secret_access_key,
            session_token: take("s3.session-token"),
        }),
        _ => None,
    };
    TemporaryCredentials {
        aws_temp_credentials: aws,
        azure_user_delegation_sas: take("azure.sas-token").map(|sas_token| AzureSas { sas_token }),
        gcp_oauth_token: take("gcs.oauth-token").map(|oauth_token| GcpToken { oauth_token }),
        expiration_time: Some(credential.expiration_time_ms),
    }
}

pub(super) async fn metastore(State(_): State<App>, Extension(_): Caller) -> Answer {
    json_answer(&json!({"metastore_id": "deltaplane"}))
}

pub(super) async fn revoke_tokens(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(principal): Path<String>,
) -> Answer {
    let count = app.store.revoke_tokens(&principal, &caller).await?;
    app.tokens.clear();
    json_answer(&json!({"revoked": count}))
}
