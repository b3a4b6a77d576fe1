//! The tables of the catalog's database, and how older databases become current.

use crate::error::{CatalogError, ErrorType, Result};
use crate::store::connection::{Access, Connection};
use crate::store::value::params;

/// Each step once, in order; a step that was released is never changed. `{text}` is the type of
/// texts that are compared by bytes.
const STEPS: &[&str] = &[
    "
CREATE TABLE catalogs (
    name {text} PRIMARY KEY, id {text} NOT NULL, comment {text}, properties {text} NOT NULL,
    storage_root {text}, owner {text} NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL);
CREATE TABLE schemas (
    catalog {text} NOT NULL REFERENCES catalogs (name), name {text} NOT NULL, id {text} NOT NULL,
    comment {text}, properties {text} NOT NULL, storage_root {text}, owner {text} NOT NULL,
    created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, PRIMARY KEY (catalog, name));
CREATE TABLE tables (
    uuid {text} PRIMARY KEY, catalog {text} NOT NULL, schema {text} NOT NULL, name {text} NOT NULL,
    table_type {text} NOT NULL, format {text} NOT NULL, location {text} NOT NULL UNIQUE, comment {text},
    columns {text} NOT NULL, partition_columns {text} NOT NULL, properties {text} NOT NULL,
    protocol {text} NOT NULL, domains {text} NOT NULL, uniform {text},
    last_update_version BIGINT, last_update_ms BIGINT,
    owner {text} NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
    FOREIGN KEY (catalog, schema) REFERENCES schemas (catalog, name), UNIQUE (catalog, schema, name));
-- What each commit changes, apart from the wide rows of `tables`. `latest` is null for external
-- tables.
CREATE TABLE heads (
    uuid {text} PRIMARY KEY REFERENCES tables (uuid) ON DELETE CASCADE, etag BIGINT NOT NULL, latest BIGINT,
    latest_timestamp BIGINT NOT NULL, published BIGINT NOT NULL, inline_bytes BIGINT NOT NULL,
    iceberg BIGINT NOT NULL);
-- Ratified commits: the unpublished ones, and the names of the last published ones.
CREATE TABLE commits (
    uuid {text} NOT NULL REFERENCES heads (uuid) ON DELETE CASCADE, version BIGINT NOT NULL,
    timestamp BIGINT NOT NULL, file_name {text} NOT NULL, file_size BIGINT NOT NULL, file_ms BIGINT NOT NULL,
    content {text}, PRIMARY KEY (uuid, version));
CREATE TABLE staging_tables (
    uuid {text} PRIMARY KEY, catalog {text} NOT NULL, schema {text} NOT NULL, name {text} NOT NULL,
    location {text} NOT NULL UNIQUE, principal {text} NOT NULL, created_at BIGINT NOT NULL,
    finalized BIGINT NOT NULL);
-- Locations of dropped managed tables, whose files are still there.
CREATE TABLE dropped_tables (
    uuid {text} PRIMARY KEY, catalog {text} NOT NULL, schema {text} NOT NULL, name {text} NOT NULL,
    location {text} NOT NULL, dropped_at BIGINT NOT NULL);
CREATE TABLE tokens (
    digest {text} PRIMARY KEY, principal {text} NOT NULL, created_at BIGINT NOT NULL, expires_at BIGINT);
CREATE TABLE grants (
    principal {text} NOT NULL, catalog {text} NOT NULL, schema {text} NOT NULL, access {text} NOT NULL,
    PRIMARY KEY (principal, catalog, schema));
CREATE TABLE audit (
    at BIGINT NOT NULL, principal {text} NOT NULL, action {text} NOT NULL, object {text} NOT NULL);
CREATE INDEX audit_at ON audit (at);
",
    "
CREATE TABLE volumes (
    id {text} PRIMARY KEY, catalog {text} NOT NULL, schema {text} NOT NULL, name {text} NOT NULL,
    volume_type {text} NOT NULL, location {text} NOT NULL UNIQUE, comment {text}, owner {text} NOT NULL,
    created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL,
    FOREIGN KEY (catalog, schema) REFERENCES schemas (catalog, name), UNIQUE (catalog, schema, name));
",
];

/// Brings the database to the current version, in one transaction.
pub(crate) fn migrate(connection: &mut Connection) -> Result<()> {
    if version(connection)? == Some(STEPS.len() as i64) {
        return Ok(());
    }
    connection.begin(Access::Write)?;
    match steps(connection) {
        Ok(()) => connection.commit(),
        Err(e) => {
            connection.rollback();
            Err(e)
        }
    }
}

/// The database's version; `None` for an empty one.
fn version(connection: &mut Connection) -> Result<Option<i64>> {
    let tables = if connection.is_postgres() {
        "SELECT to_regclass('deltaplane_version')::text"
    } else {
        "SELECT max(name) FROM sqlite_master WHERE type = 'table' AND name = 'deltaplane_version'"
    };
    match connection
        .first(tables, params![])?
        .map(|mut row| row.opt_text())
        .transpose()?
        .flatten()
    {
        Some(_) => match connection.first("SELECT version FROM deltaplane_version", params![])? {
            Some(mut row) => Ok(Some(row.int()?)),
            None => Ok(Some(0)),
        },
        None => Ok(None),
    }
}

fn steps(connection: &mut Connection) -> Result<()> {
    let text = if connection.is_postgres() {
        // Two servers that start at once: the second one waits here.
        connection.batch("SELECT pg_advisory_xact_lock(7275331845127)")?;
        "TEXT COLLATE \"C\""
    } else {
        "TEXT"
    };
    let actual = match version(connection)? {
        Some(version) => version,
        None => {
            connection.batch("CREATE TABLE deltaplane_version (version BIGINT NOT NULL)")?;
            connection.execute("INSERT INTO deltaplane_version (version) VALUES ($1)", params![0])?;
            0
        }
    };
    let current = STEPS.len() as i64;
    if actual > current {
        return Err(CatalogError::new(
            ErrorType::NotImplemented,
            format!("the catalog's database has version {actual}, and this build knows {current}: update deltaplane"),
        ));
    }
    for step in STEPS.iter().skip(usize::try_from(actual).unwrap_or_default()) {
        connection.batch(&step.replace("{text}", text))?;
    }
    connection.execute("UPDATE deltaplane_version SET version = $1", params![current])?;
    Ok(())
}
