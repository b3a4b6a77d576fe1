//! Registers a table that exists in a catalog, as an external one: its files and its log stay the
//! user's.

use deltaplane_error::{Error, Result};
use deltaplane_log::Snapshot;
use serde_json::Value;

use crate::api::columns::from_log;
use crate::api::{CreateTable, Protocol, TableType};
use crate::catalog::Catalog;
use crate::names::TableName;

/// Gives the table of a snapshot a name in a catalog.
///
/// # Errors
/// `TableAlreadyExists` if the name is taken; `InvalidArgument` if another table of the catalog is
/// at the location, above or below it.
pub async fn register_external(catalog: &dyn Catalog, name: &TableName, snapshot: &Snapshot) -> Result<()> {
    let (metadata, protocol) = (snapshot.state().metadata(), snapshot.state().protocol());
    let columns: Value = serde_json::from_str(metadata.schema_string.as_deref().unwrap_or_default())
        .map_err(|e| Error::corrupt_log(format!("the table's schema is not JSON: {e}")))?;
    let request = CreateTable {
        name: name.table.clone(),
        location: snapshot.store().location().uri_text(),
        table_type: TableType::External,
        comment: metadata.description.clone(),
        columns: from_log(&columns),
        partition_columns: metadata.partition_columns.clone(),
        protocol: Protocol {
            min_reader_version: protocol.min_reader_version,
            min_writer_version: protocol.min_writer_version,
            reader_features: protocol.reader_features.clone(),
            writer_features: protocol.writer_features.clone(),
        },
        properties: metadata.configuration.clone(),
        domain_metadata: None,
        last_commit_timestamp_ms: snapshot.timestamp_ms().await?.unwrap_or(1).max(1),
        uniform: None,
    };
    catalog.create_table(&name.catalog, &name.schema, request).await?;
    Ok(())
}
