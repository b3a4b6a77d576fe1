//! Handlers of the Delta API v1 and of deltaplane's extensions.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;

use crate::api::extensions::HEADER;
use crate::api::{CatalogConfig, CreateTable, CredentialOperation, Extensions, Snapshots, Transaction, UpdateTable};
use crate::catalog::Catalog;
use crate::error::{CatalogError, ErrorType, Result};
use crate::local::LocalCatalog;
use crate::names::{TableName, check_name};
use crate::server::App;
use crate::server::answers::{Answer, json_answer, no_content, parse};
use crate::store::Principal;

/// The one version that this server has.
const VERSION: &str = "1.0";
/// `METHOD /v1/path` of each endpoint.
const ENDPOINTS: &[&str] = &[
    "POST /v1/catalogs/{catalog}/schemas/{schema}/staging-tables",
    "POST /v1/catalogs/{catalog}/schemas/{schema}/tables",
    "GET /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    "POST /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    "DELETE /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    "HEAD /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    "POST /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}/rename",
    "GET /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}/credentials",
    "POST /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}/metrics",
    "GET /v1/staging-tables/{table_id}/credentials",
    "GET /v1/temporary-path-credentials",
];

pub(super) type Caller = Extension<Arc<Principal>>;
pub(super) type Parameters = Query<HashMap<String, String>>;

/// The parts of a table's path.
#[derive(Deserialize)]
pub(super) struct TablePath {
    catalog: String,
    schema: String,
    table: String,
}

impl TablePath {
    fn name(&self) -> Result<TableName> {
        TableName::new(&self.catalog, &self.schema, &self.table)
    }
}

/// The parts of a schema's path.
#[derive(Deserialize)]
pub(super) struct SchemaPath {
    catalog: String,
    schema: String,
}

/// The extensions that a request's client understands.
fn understood(headers: &HeaderMap) -> Extensions {
    let lists = headers
        .get_all(HEADER)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    Extensions::parse(lists.flat_map(|list| list.split(',')))
}

/// The store as a request's principal uses it.
pub(super) fn catalog(app: &App, caller: &Principal) -> LocalCatalog {
    LocalCatalog::new(app.store.clone(), caller.clone(), Arc::clone(&app.credentials))
        .with_extensions(Extensions::default())
}

fn catalog_for(app: &App, caller: &Principal, headers: &HeaderMap) -> LocalCatalog {
    catalog(app, caller).with_extensions(understood(headers))
}

/// A parameter of the query that must be there.
pub(super) fn parameter<'a>(query: &'a HashMap<String, String>, name: &str) -> Result<&'a str> {
    query
        .get(name)
        .map(String::as_str)
        .filter(|value| !value.is_empty())
        .ok_or_else(|| CatalogError::invalid(format!("the parameter {name} is missing")))
}

/// The highest version that both sides have. `1.1,2.3` means 1.0 to 1.1 and 2.0 to 2.3.
fn negotiate(offered: &str) -> Result<&'static str> {
    for version in offered.split(',') {
        let numbers: Vec<Option<u32>> = version.trim().split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_slice() {
            [Some(1), Some(_)] => return Ok(VERSION),
            [Some(_), Some(_)] => {}
            _ => {
                return Err(CatalogError::invalid(format!(
                    "protocol-versions must be like 1.0,2.3, not {offered:?}"
                )));
            }
        }
    }
    Err(CatalogError::invalid(format!(
        "no offered version of {offered} is supported: this server has {VERSION}"
    )))
}

pub(super) async fn config(
    State(app): State<App>,
    Extension(caller): Caller,
    Query(query): Parameters,
    headers: HeaderMap,
) -> Answer {
    let name = parameter(&query, "catalog")?;
    let version = negotiate(parameter(&query, "protocol-versions")?)?;
    check_name("catalog", name)?;
    app.store.catalog(name, &caller).await?;
    let mut asked = understood(&headers);
    asked.inline_commits &= Extensions::ALL.inline_commits;
    json_answer(&CatalogConfig {
        endpoints: ENDPOINTS.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
        protocol_version: version.to_owned(),
        extensions: asked.names(),
    })
}

pub(super) async fn create_staging(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(path): Path<SchemaPath>,
    body: Bytes,
) -> Answer {
    #[derive(Deserialize)]
    struct Request {
        name: String,
    }
    let request: Request = parse(&body)?;
    let name = TableName::new(path.catalog, path.schema, request.name)?;
    json_answer(&catalog(&app, &caller).create_staging(&name).await?)
}

pub(super) async fn create_table(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(path): Path<SchemaPath>,
    body: Bytes,
) -> Answer {
    let request: CreateTable = parse(&body)?;
    let catalog = catalog(&app, &caller);
    json_answer(&catalog.create_table(&path.catalog, &path.schema, request).await?)
}

pub(super) async fn load(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(path): Path<TablePath>,
    Query(query): Parameters,
    headers: HeaderMap,
) -> Answer {
    let after = match query.get("commits-after").map(|text| text.parse()) {
        None => None,
        Some(Ok(after)) => Some(after),
        Some(Err(_)) => return Err(CatalogError::invalid("commits-after must be a version").into()),
    };
    json_answer(&catalog_for(&app, &caller, &headers).load(&path.name()?, after).await?)
}

pub(super) async fn exists(State(app): State<App>, Extension(caller): Caller, Path(path): Path<TablePath>) -> Answer {
    let name = path.name()?;
    match catalog(&app, &caller).exists(&name).await? {
        true => Ok(no_content()),
        false => Err(CatalogError::new(ErrorType::NoSuchTable, format!("there is no table {name}")).into()),
    }
}

pub(super) async fn update(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(path): Path<TablePath>,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let request: UpdateTable = parse(&body)?;
    let catalog = catalog_for(&app, &caller, &headers);
    let name = path.name()?;
    if understood(&headers).short_answers {
        return json_answer(&catalog.update(&name, &request).await?);
    }
    json_answer(&catalog.update_and_load(&name, request).await?)
}

pub(super) async fn drop_table(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(path): Path<TablePath>,
) -> Answer {
    catalog(&app, &caller).drop_table(&path.name()?).await?;
    Ok(no_content())
}

pub(super) async fn rename(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(path): Path<TablePath>,
    body: Bytes,
) -> Answer {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Request {
        new_name: String,
    }
    let request: Request = parse(&body)?;
    catalog(&app, &caller).rename(&path.name()?, &request.new_name).await?;
    Ok(no_content())
}

pub(super) async fn credentials(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(path): Path<TablePath>,
    Query(query): Parameters,
) -> Answer {
    let operation = CredentialOperation::parse(query.get("operation").map_or("", String::as_str))?;
    secret(&catalog(&app, &caller).credentials(&path.name()?, operation).await?)
}

pub(super) async fn staging_credentials(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(table_id): Path<String>,
) -> Answer {
    secret(&catalog(&app, &caller).staging_credentials(&table_id).await?)
}

pub(super) async fn path_credentials(
    State(app): State<App>,
    Extension(caller): Caller,
    Query(query): Parameters,
) -> Answer {
    let operation = CredentialOperation::parse(parameter(&query, "operation")?)?;
    let location = parameter(&query, "location")?;
    secret(&catalog(&app, &caller).path_credentials(location, operation).await?)
}

/// An answer that no proxy may keep.
pub(super) fn secret(value: &impl serde::Serialize) -> Answer {
    let mut response: Response = json_answer(value)?;
    let no_store = axum::http::HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(axum::http::header::CACHE_CONTROL, no_store);
    Ok(response)
}

pub(super) async fn report_metrics(
    State(app): State<App>,
    Extension(caller): Caller,
    Path(path): Path<TablePath>,
    body: Bytes,
) -> Answer {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    struct Request {
        table_id: String,
        #[serde(default)]
        report: Value,
    }
    let request: Request = parse(&body)?;
    let report = request.report.get("commit-report").cloned().unwrap_or_default();
    catalog(&app, &caller)
        .report_metrics(&path.name()?, &request.table_id, &report)
        .await?;
    Ok(no_content())
}

pub(super) async fn transaction(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: Transaction = parse(&body)?;
    let mut updates = Vec::with_capacity(request.tables.len());
    for table in request.tables {
        updates.push((TableName::parse(&table.table)?, table.request));
    }
    let outcomes = catalog(&app, &caller).update_all(&updates).await?;
    json_answer(&Transaction {
        tables: Vec::new(),
        outcomes,
    })
}

pub(super) async fn snapshots(
    State(app): State<App>,
    Extension(caller): Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let request: Snapshots = parse(&body)?;
    let names = request
        .names
        .iter()
        .map(|name| TableName::parse(name))
        .collect::<Result<Vec<_>>>()?;
    let tables = catalog_for(&app, &caller, &headers).load_all(&names).await?;
    json_answer(&Snapshots {
        names: request.names,
        tables,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_chosen() {
        for offered in ["1.0", "1.7", "2.3,1.0", "0.9, 1.0"] {
            assert_eq!(negotiate(offered), Ok(VERSION), "{offered}");
        }
        for offered in ["2.3", "0.9", "1", "one", "", "1.0.0", "-1.0"] {
            assert!(negotiate(offered).is_err(), "{offered}");
        }
    }
}
