//! Staging tables: an identity and a location, before version 0 is written.

use crate::api::tables::{StagingTable, SuggestedFeatures, TableType};
use crate::error::{CatalogError, ErrorType, Result};
use crate::managed_features::{SUGGESTED_BOTH, SUGGESTED_WRITER};
use crate::names::TableName;
use crate::store::access::{Access, Principal};
use crate::store::connection::Connection;
use crate::store::metadata::{required_properties, required_protocol};
use crate::store::namespaces::{find_schema, no_schema, storage_root};
use crate::store::tables::{exists, no_table, uuid_of};
use crate::store::value::{Row, params};
use crate::store::{Store, now_ms};

/// A staging table as the database has it.
pub(crate) struct Staging {
    pub(crate) uuid: String,
    pub(crate) name: TableName,
    pub(crate) location: String,
    pub(crate) principal: String,
    pub(crate) finalized: bool,
}

impl Store {
    /// Allocates an identity and a location for a managed table. Without credentials, which the
    /// caller adds.
    pub async fn create_staging(&self, name: &TableName, by: &Principal) -> Result<StagingTable> {
        by.check(Access::Write, Some(&name.catalog), Some(&name.schema))?;
        let (name, by, options) = (name.clone(), by.name.clone(), self.options.clone());
        let uuid = uuid::Uuid::new_v4().to_string();
        self.write("", move |connection| {
            let schema = find_schema(connection, &name.catalog, &name.schema)?
                .ok_or_else(|| no_schema(&name.catalog, &name.schema))?;
            if uuid_of(connection, &name)?.is_some() {
                return Err(exists(&name));
            }
            let root = storage_root(connection, &schema, options.storage_root.as_ref())?;
            let location = format!("{root}/__tables/{uuid}");
            connection.execute(
                "INSERT INTO staging_tables (uuid, catalog, schema, name, location, principal, created_at, finalized)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, 0)",
                params![
                    &uuid,
                    &name.catalog,
                    &name.schema,
                    &name.table,
                    &location,
                    &by,
                    now_ms()
                ],
            )?;
            Ok(staging_table(&uuid, location))
        })
        .await
    }

    /// The location of a staging table, for its creator only.
    pub async fn staging_location(&self, uuid: &str, by: &Principal) -> Result<String> {
        let (uuid, by) = (uuid.to_owned(), by.name.clone());
        self.read(move |connection| {
            let row = connection.first(
                "SELECT uuid, catalog, schema, name, location, principal, finalized FROM staging_tables WHERE uuid = $1",
                params![&uuid],
            )?;
            let staging = row.map(staging_of).transpose()?.ok_or_else(|| no_table(&uuid))?;
            if staging.principal != by {
                return Err(CatalogError::new(
                    ErrorType::PermissionDenied,
                    "only the creator of a staging table gets its credentials",
                ));
            }
            Ok(staging.location)
        })
        .await
    }
}

fn staging_table(uuid: &str, location: String) -> StagingTable {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let some = |text: &str| Some(text.to_owned());
    let suggested = [
        ("delta.columnMapping.mode", some("name")),
        ("delta.columnMapping.maxColumnId", None),
        ("delta.enableRowTracking", some("true")),
        ("delta.rowTracking.materializedRowIdColumnName", None),
        ("delta.rowTracking.materializedRowCommitVersionColumnName", None),
        ("delta.parquet.compression.codec", some("zstd")),
    ];
    StagingTable {
        table_id: uuid.to_owned(),
        table_type: TableType::Managed,
        location,
        storage_credentials: Vec::new(),
        required_protocol: required_protocol(),
        suggested_protocol: Some(SuggestedFeatures {
            reader_features: owned(SUGGESTED_BOTH),
            writer_features: [owned(SUGGESTED_BOTH), owned(SUGGESTED_WRITER)].concat(),
        }),
        required_properties: required_properties(uuid),
        suggested_properties: suggested
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    }
}

/// The staging table at a location.
pub(crate) fn find_by_location(connection: &mut Connection, location: &str) -> Result<Option<Staging>> {
    let row = connection.first(
        "SELECT uuid, catalog, schema, name, location, principal, finalized FROM staging_tables WHERE location = $1",
        params![location],
    )?;
    row.map(staging_of).transpose()
}

/// Marks a staging table as finalized, once.
pub(crate) fn finalize(connection: &mut Connection, uuid: &str) -> Result<()> {
    let changed = connection.execute(
        "UPDATE staging_tables SET finalized = 1 WHERE uuid = $1 AND finalized = 0",
        params![uuid],
    )?;
    match changed {
        1 => Ok(()),
        _ => Err(CatalogError::invalid(format!(
            "the staging table {uuid} was finalized already"
        ))),
    }
}

fn staging_of(mut row: Row) -> Result<Staging> {
    Ok(Staging {
        uuid: row.text()?,
        name: TableName {
            catalog: row.text()?,
            schema: row.text()?,
            table: row.text()?,
        },
        location: row.text()?,
        principal: row.text()?,
        finalized: row.int()? != 0,
    })
}
