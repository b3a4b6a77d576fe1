//! Creating tables: managed ones from a staging table, external ones from a location.

use crate::api::CreateTable;
use crate::api::Protocol;
use crate::api::classic::TableInfo;
use crate::api::columns::columns_of_infos;
use crate::api::requests::{check_entries, check_text};
use crate::api::tables::{LoadedTable, TableType};
use crate::error::{CatalogError, ErrorType, Result};
use crate::managed_features::CATALOG_MANAGED;
use crate::names::TableName;
use crate::store::access::{Access, Principal, audit};
use crate::store::connection::Connection;
use crate::store::locations::{check_free, check_volumes};
use crate::store::metadata::{check_contract, check_uniform, is_derived, is_iceberg};
use crate::store::namespaces::{check_location, find_schema, no_schema};
use crate::store::record::{Head, TableRecord};
use crate::store::staging::{finalize, find_by_location};
use crate::store::tables::{exists, insert, load, uuid_of};
use crate::store::{Store, now_ms};

impl Store {
    /// Creates a table whose version 0 is written, and loads it.
    pub async fn create_table(
        &self,
        catalog: &str,
        schema: &str,
        request: CreateTable,
        by: &Principal,
    ) -> Result<LoadedTable> {
        let name = TableName::new(catalog, schema, &request.name)?;
        by.check(Access::Write, Some(catalog), Some(schema))?;
        request.check()?;
        let by = by.clone();
        self.write("", move |connection| {
            create(connection, &name, &request, &by)?;
            load(connection, &name, crate::api::Extensions::default(), None)
        })
        .await
    }

    /// Registers an external table by the classic API; formats other than Delta are listed only.
    pub async fn register_table(&self, info: TableInfo, by: &Principal) -> Result<TableInfo> {
        let name = TableName::new(&info.catalog_name, &info.schema_name, &info.name)?;
        by.check(Access::Write, Some(&name.catalog), Some(&name.schema))?;
        let record = external_record(&name, info, &by.name)?;
        let (principal, target) = (by.clone(), name.clone());
        self.write("", move |connection| {
            check_new(connection, &target)?;
            check_free(connection, &record.location)?;
            check_volumes(connection, &record.location, &principal)?;
            insert(connection, &record, &external_head(&record))?;
            audit(connection, &principal.name, "CREATE TABLE", &target.to_string())
        })
        .await?;
        self.table_info(&name, by).await
    }
}

fn create(connection: &mut Connection, name: &TableName, request: &CreateTable, by: &Principal) -> Result<()> {
    check_new(connection, name)?;
    let location = request.location.trim_end_matches('/').to_owned();
    let now = now_ms();
    let mut record = TableRecord {
        uuid: String::new(),
        name: name.clone(),
        table_type: request.table_type,
        format: "DELTA".to_owned(),
        location,
        comment: request.comment.clone(),
        columns: request.columns.clone(),
        partition_columns: request.partition_columns.clone(),
        properties: request.properties.clone(),
        protocol: request.protocol.clone(),
        domains: request.domain_metadata.clone().unwrap_or_default(),
        uniform: request.uniform.clone(),
        last_update_version: Some(0),
        last_update_ms: Some(request.last_commit_timestamp_ms),
        owner: by.name.clone(),
        created_at: now,
        updated_at: now,
    };
    record.properties.retain(|key, _| !is_derived(key));
    record.domains.retain(|_, value| !value.is_null());
    let head = match request.table_type {
        TableType::Managed => {
            let staging = find_by_location(connection, &record.location)?.ok_or_else(|| {
                CatalogError::new(
                    ErrorType::NoSuchTable,
                    format!("there is no staging table at {}: create one first", record.location),
                )
            })?;
            if staging.principal != by.name {
                return Err(CatalogError::new(
                    ErrorType::PermissionDenied,
                    "only the creator of a staging table may finalize it",
                ));
            }
            if staging.finalized {
                return Err(CatalogError::invalid(format!(
                    "the staging table {} was finalized already: load the table and compare its table-uuid",
                    staging.uuid
                )));
            }
            if staging.name != *name {
                return Err(CatalogError::invalid(format!(
                    "the staging table was created for {}, not {name}",
                    staging.name
                )));
            }
            record.uuid = staging.uuid;
            check_contract(&record)?;
            if record.uniform.is_some() != is_iceberg(&record) {
                return Err(CatalogError::invalid(
                    "uniform is given if and only if delta.universalFormat.enabledFormats has iceberg",
                ));
            }
            check_uniform(record.uniform.as_ref(), &record.location)?;
            finalize(connection, &record.uuid)?;
            Head {
                etag: 1,
                latest: Some(0),
                latest_timestamp: request.last_commit_timestamp_ms,
                published: 0,
                inline_bytes: 0,
                iceberg: is_iceberg(&record),
            }
        }
        TableType::External => {
            check_location(&record.location)?;
            if record.protocol.features().contains(CATALOG_MANAGED) {
                return Err(CatalogError::invalid(
                    "a table with the feature catalogManaged is managed: create it from a staging table",
                ));
            }
            check_free(connection, &record.location)?;
            check_volumes(connection, &record.location, by)?;
            record.uuid = uuid::Uuid::new_v4().to_string();
            external_head(&record)
        }
    };
    insert(connection, &record, &head)?;
    audit(connection, &by.name, "CREATE TABLE", &name.to_string())
}

fn external_head(record: &TableRecord) -> Head {
    Head {
        etag: 1,
        latest: None,
        latest_timestamp: 0,
        published: 0,
        inline_bytes: 0,
        iceberg: is_iceberg(record),
    }
}

fn external_record(name: &TableName, info: TableInfo, by: &str) -> Result<TableRecord> {
    match info.table_type.as_deref() {
        None | Some("EXTERNAL") => {}
        Some(other) => {
            return Err(CatalogError::invalid(format!(
                "this endpoint creates external tables, not {other:?}: managed ones begin as staging tables of the Delta API"
            )));
        }
    }
    let location = info
        .storage_location
        .unwrap_or_default()
        .trim_end_matches('/')
        .to_owned();
    check_location(&location)?;
    let format = info
        .data_source_format
        .unwrap_or_else(|| "DELTA".to_owned())
        .to_ascii_uppercase();
    let known = ["DELTA", "PARQUET", "CSV", "JSON", "ORC", "AVRO", "TEXT"];
    if !known.contains(&format.as_str()) {
        return Err(CatalogError::invalid(format!("the format {format:?} is unknown")));
    }
    check_text("comment", info.comment.as_deref().unwrap_or_default())?;
    let mut properties = info.properties.unwrap_or_default();
    properties.retain(|key, _| !is_derived(key));
    check_entries(
        "properties",
        properties.iter().map(|(key, value)| (key.as_str(), value.as_str())),
    )?;
    let infos = info.columns.unwrap_or_default();
    let mut partitions: Vec<_> = infos.iter().filter(|column| column.partition_index.is_some()).collect();
    partitions.sort_by_key(|column| column.partition_index);
    let partition_columns = partitions.iter().map(|column| column.name.clone()).collect();
    let now = now_ms();
    Ok(TableRecord {
        uuid: uuid::Uuid::new_v4().to_string(),
        name: name.clone(),
        table_type: TableType::External,
        format,
        location,
        comment: info.comment,
        columns: columns_of_infos(&infos)?,
        partition_columns,
        properties,
        protocol: Protocol::default(),
        domains: Default::default(),
        uniform: None,
        last_update_version: None,
        last_update_ms: None,
        owner: by.to_owned(),
        created_at: now,
        updated_at: now,
    })
}

fn check_new(connection: &mut Connection, name: &TableName) -> Result<()> {
    find_schema(connection, &name.catalog, &name.schema)?.ok_or_else(|| no_schema(&name.catalog, &name.schema))?;
    match uuid_of(connection, name)? {
        Some(_) => Err(exists(name)),
        None => Ok(()),
    }
}
