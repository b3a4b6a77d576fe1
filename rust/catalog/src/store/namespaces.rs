//! Catalogs and schemas.

use std::collections::BTreeMap;

use crate::api::classic::{CatalogInfo, CatalogPage, SchemaInfo, SchemaPage};
use crate::api::requests::{check_entries, check_text};
use crate::error::{CatalogError, ErrorType, Result};
use crate::limits::MAX_PAGE;
use crate::names::check_name;
use crate::store::access::{Access, Principal, audit};
use crate::store::connection::Connection;
use crate::store::value::{Row, params};
use crate::store::{Store, from_json, now_ms, to_json};

/// A part of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The most items; 0 for the server's limit.
    pub max_results: usize,
    /// The last answer's `next_page_token`: the name after which this page begins.
    pub token: Option<String>,
}

impl Page {
    pub(crate) fn limit(&self) -> usize {
        match self.max_results {
            0 => MAX_PAGE,
            most => most.min(MAX_PAGE),
        }
    }

    pub(crate) fn after(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }
}

/// Cuts a list of one item more than the limit, and names where the next page begins.
pub(crate) fn cut<T>(mut items: Vec<T>, limit: usize, name: fn(&T) -> &str) -> (Vec<T>, Option<String>) {
    if items.len() <= limit {
        return (items, None);
    }
    items.truncate(limit);
    let next = items.last().map(|item| name(item).to_owned());
    (items, next)
}

impl Store {
    /// Creates a catalog.
    pub async fn create_catalog(&self, request: CatalogInfo, by: &Principal) -> Result<CatalogInfo> {
        by.check(Access::Manage, Some(&request.name), None)?;
        check_name("catalog", &request.name)?;
        check_common(
            request.comment.as_deref(),
            request.properties.as_ref(),
            request.storage_root.as_deref(),
        )?;
        let (by, now) = (by.name.clone(), now_ms());
        let info = CatalogInfo {
            owner: Some(by.clone()),
            created_at: Some(now),
            updated_at: Some(now),
            id: Some(uuid::Uuid::new_v4().to_string()),
            properties: Some(request.properties.unwrap_or_default()),
            storage_root: request.storage_root.map(trim_root),
            ..request
        };
        self.write("", move |connection| {
            if find_catalog(connection, &info.name)?.is_some() {
                return Err(exists("catalog", &info.name));
            }
            connection.execute(
                "INSERT INTO catalogs (name, id, comment, properties, storage_root, owner, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                params![
                    &info.name,
                    info.id.clone(),
                    info.comment.clone(),
                    to_json(&info.properties)?,
                    info.storage_root.clone(),
                    &by,
                    now,
                    now
                ],
            )?;
            audit(connection, &by, "CREATE CATALOG", &info.name)?;
            Ok(info.clone())
        })
        .await
    }

    /// A catalog by its name.
    pub async fn catalog(&self, name: &str, by: &Principal) -> Result<CatalogInfo> {
        let name = name.to_owned();
        if !by.sees_catalog(&name) {
            return Err(no_catalog(&name));
        }
        self.read(move |connection| find_catalog(connection, &name)?.ok_or_else(|| no_catalog(&name)))
            .await
    }

    /// The catalogs that the principal sees, by name.
    pub async fn list_catalogs(&self, page: Page, by: &Principal) -> Result<CatalogPage> {
        let by = by.clone();
        self.read(move |connection| {
            // Few enough to be read whole: what a principal doesn't see must not shorten a page.
            let rows = connection.query(
                "SELECT name, id, comment, properties, storage_root, owner, created_at, updated_at
                 FROM catalogs WHERE name > $1 ORDER BY name",
                params![page.after()],
            )?;
            let mut all = rows.into_iter().map(catalog_of).collect::<Result<Vec<_>>>()?;
            all.retain(|catalog| by.sees_catalog(&catalog.name));
            let (catalogs, next_page_token) = cut(all, page.limit(), |catalog| &catalog.name);
            Ok(CatalogPage {
                catalogs,
                next_page_token,
            })
        })
        .await
    }

    /// Drops a catalog; with `force`, its empty schemas too. A catalog with tables stays.
    pub async fn drop_catalog(&self, name: &str, force: bool, by: &Principal) -> Result<()> {
        by.check(Access::Manage, Some(name), None)?;
        let (name, by) = (name.to_owned(), by.name.clone());
        self.write("", move |connection| {
            find_catalog(connection, &name)?.ok_or_else(|| no_catalog(&name))?;
            if has_tables(connection, &name, None)? || has_volumes(connection, &name, None)? {
                return Err(not_empty("catalog", &name));
            }
            let schemas = connection.query("SELECT name FROM schemas WHERE catalog = $1", params![&name])?;
            if !schemas.is_empty() && !force {
                return Err(not_empty("catalog", &name));
            }
            connection.execute("DELETE FROM schemas WHERE catalog = $1", params![&name])?;
            connection.execute("DELETE FROM catalogs WHERE name = $1", params![&name])?;
            audit(connection, &by, "DROP CATALOG", &name)
        })
        .await
    }

    /// Creates a schema.
    pub async fn create_schema(&self, request: SchemaInfo, by: &Principal) -> Result<SchemaInfo> {
        check_name("catalog", &request.catalog_name)?;
        check_name("schema", &request.name)?;
        by.check(Access::Manage, Some(&request.catalog_name), Some(&request.name))?;
        check_common(
            request.comment.as_deref(),
            request.properties.as_ref(),
            request.storage_root.as_deref(),
        )?;
        let (by, now) = (by.name.clone(), now_ms());
        let info = SchemaInfo {
            full_name: Some(format!("{}.{}", request.catalog_name, request.name)),
            owner: Some(by.clone()),
            created_at: Some(now),
            updated_at: Some(now),
            schema_id: Some(uuid::Uuid::new_v4().to_string()),
            properties: Some(request.properties.unwrap_or_default()),
            storage_root: request.storage_root.map(trim_root),
            ..request
        };
        self.write("", move |connection| {
            find_catalog(connection, &info.catalog_name)?.ok_or_else(|| no_catalog(&info.catalog_name))?;
            if find_schema(connection, &info.catalog_name, &info.name)?.is_some() {
                return Err(exists("schema", info.full_name.as_deref().unwrap_or_default()));
            }
            connection.execute(
                "INSERT INTO schemas (catalog, name, id, comment, properties, storage_root, owner, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                params![
                    &info.catalog_name,
                    &info.name,
                    info.schema_id.clone(),
                    info.comment.clone(),
                    to_json(&info.properties)?,
                    info.storage_root.clone(),
                    &by,
                    now,
                    now
                ],
            )?;
            audit(connection, &by, "CREATE SCHEMA", info.full_name.as_deref().unwrap_or_default())?;
            Ok(info.clone())
        })
        .await
    }

    /// A schema by its name.
    pub async fn schema(&self, catalog: &str, name: &str, by: &Principal) -> Result<SchemaInfo> {
        let (catalog, name) = (catalog.to_owned(), name.to_owned());
        if !by.sees_schema(&catalog, &name) {
            return Err(no_schema(&catalog, &name));
        }
        self.read(move |connection| find_schema(connection, &catalog, &name)?.ok_or_else(|| no_schema(&catalog, &name)))
            .await
    }

    /// The schemas of a catalog that the principal sees, by name.
    pub async fn list_schemas(&self, catalog: &str, page: Page, by: &Principal) -> Result<SchemaPage> {
        let (catalog, by) = (catalog.to_owned(), by.clone());
        if !by.sees_catalog(&catalog) {
            return Err(no_catalog(&catalog));
        }
        self.read(move |connection| {
            find_catalog(connection, &catalog)?.ok_or_else(|| no_catalog(&catalog))?;
            let rows = connection.query(
                "SELECT catalog, name, id, comment, properties, storage_root, owner, created_at, updated_at
                 FROM schemas WHERE catalog = $1 AND name > $2 ORDER BY name",
                params![&catalog, page.after()],
            )?;
            let mut all = rows.into_iter().map(schema_of).collect::<Result<Vec<_>>>()?;
            all.retain(|schema| by.sees_schema(&schema.catalog_name, &schema.name));
            let (schemas, next_page_token) = cut(all, page.limit(), |schema| &schema.name);
            Ok(SchemaPage {
                schemas,
                next_page_token,
            })
        })
        .await
    }

    /// Drops a schema without tables and volumes.
    pub async fn drop_schema(&self, catalog: &str, name: &str, by: &Principal) -> Result<()> {
        by.check(Access::Manage, Some(catalog), Some(name))?;
        let (catalog, name, by) = (catalog.to_owned(), name.to_owned(), by.name.clone());
        self.write("", move |connection| {
            find_schema(connection, &catalog, &name)?.ok_or_else(|| no_schema(&catalog, &name))?;
            if has_tables(connection, &catalog, Some(&name))? || has_volumes(connection, &catalog, Some(&name))? {
                return Err(not_empty("schema", &name));
            }
            connection.execute(
                "DELETE FROM schemas WHERE catalog = $1 AND name = $2",
                params![&catalog, &name],
            )?;
            audit(connection, &by, "DROP SCHEMA", &format!("{catalog}.{name}"))
        })
        .await
    }
}

fn check_common(
    comment: Option<&str>,
    properties: Option<&BTreeMap<String, String>>,
    storage_root: Option<&str>,
) -> Result<()> {
    check_text("comment", comment.unwrap_or_default())?;
    check_entries(
        "properties",
        properties
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str())),
    )?;
    match storage_root {
        Some(root) => check_location(root),
        None => Ok(()),
    }
}

/// Refuses what is no location of a table: without a scheme, with parent folders or credentials.
pub(crate) fn check_location(location: &str) -> Result<()> {
    check_text("location", location)?;
    let refuse = |why: &str| {
        Err(CatalogError::invalid(format!(
            "the location {why}: it must be like s3://bucket/path"
        )))
    };
    let Some((scheme, rest)) = location.split_once("://") else {
        return refuse("has no scheme");
    };
    let known = ["file", "s3", "s3a", "abfs", "abfss", "gs", "wasbs", "hdfs", "memory"];
    if !known.contains(&scheme) {
        return refuse("has an unknown scheme");
    }
    if rest.split('/').any(|part| matches!(part, "." | "..")) {
        return refuse("has the parts . or ..");
    }
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains(':') && authority.contains('@') {
        return refuse("contains a password");
    }
    if location.contains(['?', '#']) || location.chars().any(char::is_control) {
        return refuse("has a query, a fragment or a control character");
    }
    Ok(())
}

fn trim_root(root: String) -> String {
    root.trim_end_matches('/').to_owned()
}

fn find_catalog(connection: &mut Connection, name: &str) -> Result<Option<CatalogInfo>> {
    let row = connection.first(
        "SELECT name, id, comment, properties, storage_root, owner, created_at, updated_at
         FROM catalogs WHERE name = $1",
        params![name],
    )?;
    row.map(catalog_of).transpose()
}

fn catalog_of(mut row: Row) -> Result<CatalogInfo> {
    Ok(CatalogInfo {
        name: row.text()?,
        id: Some(row.text()?),
        comment: row.opt_text()?,
        properties: from_json(&row.text()?)?,
        storage_root: row.opt_text()?,
        owner: Some(row.text()?),
        created_at: Some(row.int()?),
        updated_at: Some(row.int()?),
    })
}

pub(crate) fn find_schema(connection: &mut Connection, catalog: &str, name: &str) -> Result<Option<SchemaInfo>> {
    let row = connection.first(
        "SELECT catalog, name, id, comment, properties, storage_root, owner, created_at, updated_at
         FROM schemas WHERE catalog = $1 AND name = $2",
        params![catalog, name],
    )?;
    row.map(schema_of).transpose()
}

fn schema_of(mut row: Row) -> Result<SchemaInfo> {
    let (catalog_name, name) = (row.text()?, row.text()?);
    Ok(SchemaInfo {
        full_name: Some(format!("{catalog_name}.{name}")),
        name,
        catalog_name,
        schema_id: Some(row.text()?),
        comment: row.opt_text()?,
        properties: from_json(&row.text()?)?,
        storage_root: row.opt_text()?,
        owner: Some(row.text()?),
        created_at: Some(row.int()?),
        updated_at: Some(row.int()?),
    })
}

/// Where the managed tables of a schema are.
pub(crate) fn storage_root(
    connection: &mut Connection,
    schema: &SchemaInfo,
    default: Option<&String>,
) -> Result<String> {
    if let Some(root) = &schema.storage_root {
        return Ok(root.clone());
    }
    let catalog = find_catalog(connection, &schema.catalog_name)?;
    let root = catalog.and_then(|catalog| catalog.storage_root);
    root.or_else(|| default.map(|root| root.trim_end_matches('/').to_owned()))
        .ok_or_else(|| {
            CatalogError::invalid(format!(
                "neither the schema {} nor its catalog nor the server has a storage_root for managed tables: create one with storage_root",
                schema.full_name.as_deref().unwrap_or(&schema.name)
            ))
        })
}

fn has_tables(connection: &mut Connection, catalog: &str, schema: Option<&str>) -> Result<bool> {
    let row = match schema {
        Some(schema) => connection.first(
            "SELECT uuid FROM tables WHERE catalog = $1 AND schema = $2 LIMIT 1",
            params![catalog, schema],
        ),
        None => connection.first("SELECT uuid FROM tables WHERE catalog = $1 LIMIT 1", params![catalog]),
    };
    Ok(row?.is_some())
}

fn has_volumes(connection: &mut Connection, catalog: &str, schema: Option<&str>) -> Result<bool> {
    let row = match schema {
        Some(schema) => connection.first(
            "SELECT id FROM volumes WHERE catalog = $1 AND schema = $2 LIMIT 1",
            params![catalog, schema],
        ),
        None => connection.first("SELECT id FROM volumes WHERE catalog = $1 LIMIT 1", params![catalog]),
    };
    Ok(row?.is_some())
}

fn exists(what: &str, name: &str) -> CatalogError {
    CatalogError::new(ErrorType::AlreadyExists, format!("the {what} {name} exists already"))
}

fn not_empty(what: &str, name: &str) -> CatalogError {
    CatalogError::invalid(format!("the {what} {name} is not empty: drop its content first"))
}

fn no_catalog(name: &str) -> CatalogError {
    CatalogError::new(ErrorType::NoSuchCatalog, format!("there is no catalog {name}"))
}

pub(crate) fn no_schema(catalog: &str, name: &str) -> CatalogError {
    CatalogError::new(ErrorType::NoSuchSchema, format!("there is no schema {catalog}.{name}"))
}
