//! Tables: loading, listing, renaming and dropping.

use crate::api::classic::{TableInfo, TablePage};
use crate::api::columns::column_infos;
use crate::api::tables::{LoadedTable, TableMetadata, TableType};
use crate::api::{Commit, Extensions};
use crate::error::{CatalogError, ErrorType, Result};
use crate::limits::MAX_TRANSACTION_TABLES;
use crate::names::{TableName, check_name};
use crate::store::access::{Access, Principal, audit};
use crate::store::commits::{self, unpublished};
use crate::store::connection::Connection;
use crate::store::metadata::derived_properties;
use crate::store::namespaces::{Page, cut, find_schema, no_schema};
use crate::store::record::{Head, TableRecord};
use crate::store::value::{Row, params};
use crate::store::{Store, from_json, now_ms, to_json};

/// Selects tables with their heads.
macro_rules! concat_select {
    ($rest:literal) => {
        concat!(
            "SELECT t.uuid, t.catalog, t.schema, t.name, t.table_type, t.format, t.location, t.comment, t.columns,
                    t.partition_columns, t.properties, t.protocol, t.domains, t.uniform, t.last_update_version,
                    t.last_update_ms, t.owner, t.created_at, t.updated_at,
                    h.etag, h.latest, h.latest_timestamp, h.published, h.inline_bytes, h.iceberg
             FROM tables t JOIN heads h ON h.uuid = t.uuid ",
            $rest
        )
    };
}

/// How a table is identified.
#[derive(Debug, Clone)]
pub(crate) enum Key {
    Name(TableName),
    Uuid(String),
}

impl Store {
    /// Loads a table: metadata, unpublished commits and latest version of one instant. Commits up
    /// to `after` are left out.
    pub async fn load(
        &self,
        name: &TableName,
        extensions: Extensions,
        after: Option<i64>,
        by: &Principal,
    ) -> Result<LoadedTable> {
        by.check(Access::Read, Some(&name.catalog), Some(&name.schema))?;
        let name = name.clone();
        self.read(move |connection| load(connection, &name, extensions, after))
            .await
    }

    /// Loads several tables at one instant, in the order of their names.
    pub async fn load_all(
        &self,
        names: &[TableName],
        extensions: Extensions,
        by: &Principal,
    ) -> Result<Vec<LoadedTable>> {
        if names.len() > MAX_TRANSACTION_TABLES {
            return Err(CatalogError::invalid(format!(
                "at most {MAX_TRANSACTION_TABLES} tables are loaded at once"
            )));
        }
        for name in names {
            by.check(Access::Read, Some(&name.catalog), Some(&name.schema))?;
        }
        let names = names.to_vec();
        self.read(move |connection| {
            names
                .iter()
                .map(|name| load(connection, name, extensions, None))
                .collect()
        })
        .await
    }

    /// A table in the classic API's form.
    pub async fn table_info(&self, name: &TableName, by: &Principal) -> Result<TableInfo> {
        by.check(Access::Read, Some(&name.catalog), Some(&name.schema))?;
        let name = name.clone();
        self.read(move |connection| {
            let (record, _) = required(connection, &Key::Name(name.clone()))?;
            Ok(info_of(record))
        })
        .await
    }

    /// The name of the table with this identity, if the principal may read it.
    pub async fn name_of(&self, uuid: &str, by: &Principal) -> Result<(TableName, String)> {
        let (uuid, by) = (uuid.to_owned(), by.clone());
        self.read(move |connection| {
            let (record, _) = required(connection, &Key::Uuid(uuid.clone()))?;
            by.check(Access::Read, Some(&record.name.catalog), Some(&record.name.schema))
                .map_err(|_| no_table(&uuid))?;
            Ok((record.name, record.location))
        })
        .await
    }

    /// Whether the table exists.
    pub async fn exists(&self, name: &TableName, by: &Principal) -> Result<bool> {
        by.check(Access::Read, Some(&name.catalog), Some(&name.schema))?;
        let name = name.clone();
        self.read(move |connection| Ok(uuid_of(connection, &name)?.is_some()))
            .await
    }

    /// The tables of a schema, by name.
    pub async fn list_tables(&self, catalog: &str, schema: &str, page: Page, by: &Principal) -> Result<TablePage> {
        by.check(Access::Read, Some(catalog), Some(schema))?;
        let (catalog, schema) = (catalog.to_owned(), schema.to_owned());
        self.read(move |connection| {
            find_schema(connection, &catalog, &schema)?.ok_or_else(|| no_schema(&catalog, &schema))?;
            let rows = connection.query(
                concat_select!("WHERE catalog = $1 AND schema = $2 AND name > $3 ORDER BY name LIMIT $4"),
                params![&catalog, &schema, page.after(), page.limit() as i64 + 1],
            )?;
            let all = rows
                .into_iter()
                .map(|row| record_of(row).map(|(record, _)| info_of(record)))
                .collect::<Result<Vec<_>>>()?;
            let (tables, next_page_token) = cut(all, page.limit(), |table| &table.name);
            Ok(TablePage {
                tables,
                next_page_token,
            })
        })
        .await
    }

    /// Renames a table within its schema.
    pub async fn rename(&self, name: &TableName, new_name: &str, by: &Principal) -> Result<()> {
        by.check(Access::Write, Some(&name.catalog), Some(&name.schema))?;
        check_name("table", new_name)?;
        let (name, new_name, by) = (name.clone(), new_name.to_owned(), by.clone());
        self.write("", move |connection| {
            let (record, _) = required(connection, &Key::Name(name.clone()))?;
            check_owner(&record, &by)?;
            let target = TableName::new(&name.catalog, &name.schema, &new_name)?;
            if uuid_of(connection, &target)?.is_some() {
                return Err(exists(&target));
            }
            connection.execute(
                "UPDATE tables SET name = $1, updated_at = $2 WHERE uuid = $3",
                params![&new_name, now_ms(), &record.uuid],
            )?;
            audit(connection, &by.name, "RENAME TABLE", &format!("{name} TO {new_name}"))
        })
        .await
    }

    /// Drops a table. The files of a managed one stay until its location, which is recorded, is
    /// cleaned up.
    pub async fn drop_table(&self, name: &TableName, by: &Principal) -> Result<()> {
        by.check(Access::Write, Some(&name.catalog), Some(&name.schema))?;
        let (name, by) = (name.clone(), by.clone());
        self.write("", move |connection| {
            let (record, _) = required(connection, &Key::Name(name.clone()))?;
            check_owner(&record, &by)?;
            connection.lock_table(&record.uuid)?;
            if record.table_type == TableType::Managed {
                connection.execute(
                    "INSERT INTO dropped_tables (uuid, catalog, schema, name, location, dropped_at)
                     VALUES ($1, $2, $3, $4, $5, $6)",
                    params![
                        &record.uuid,
                        &name.catalog,
                        &name.schema,
                        &name.table,
                        &record.location,
                        now_ms()
                    ],
                )?;
            }
            connection.execute("DELETE FROM tables WHERE uuid = $1", params![&record.uuid])?;
            audit(connection, &by.name, "DROP TABLE", &name.to_string())
        })
        .await
    }

    /// Identity and location of each dropped managed table whose files are still there.
    pub async fn dropped_tables(&self, by: &Principal) -> Result<Vec<(String, String)>> {
        by.check(Access::Manage, None, None)?;
        self.read(|connection| {
            let rows = connection.query(
                "SELECT uuid, location FROM dropped_tables ORDER BY dropped_at",
                params![],
            )?;
            rows.into_iter().map(|mut row| Ok((row.text()?, row.text()?))).collect()
        })
        .await
    }
}

/// Owners may drop and rename their tables; others need a grant to manage the schema.
fn check_owner(record: &TableRecord, by: &Principal) -> Result<()> {
    if record.owner == by.name {
        return Ok(());
    }
    by.check(Access::Manage, Some(&record.name.catalog), Some(&record.name.schema))
}

/// Loads a table within a transaction.
pub(crate) fn load(
    connection: &mut Connection,
    name: &TableName,
    extensions: Extensions,
    after: Option<i64>,
) -> Result<LoadedTable> {
    let (record, head) = required(connection, &Key::Name(name.clone()))?;
    if !record.format.eq_ignore_ascii_case("DELTA") {
        return Err(CatalogError::new(
            ErrorType::UnsupportedTableFormat,
            format!("{name} is a table of format {}, not Delta", record.format),
        ));
    }
    let mut commits = None;
    let mut latest = head.latest;
    if let Some(last) = head.latest {
        let ratified = unpublished(connection, &record.uuid, head.published)?;
        let (visible, shown) = commits::visible(ratified, last, extensions);
        let mut shown: Vec<Commit> = shown;
        if extensions.short_answers
            && let Some(after) = after
        {
            shown.retain(|commit| commit.version > after);
        }
        latest = Some(visible);
        commits = Some(shown);
    }
    let properties = derived_properties(&record);
    Ok(LoadedTable {
        metadata: TableMetadata {
            etag: head.etag_text(&record.uuid),
            table_type: record.table_type,
            table_uuid: record.uuid,
            location: record.location,
            created_time: record.created_at,
            updated_time: record.updated_at,
            columns: record.columns,
            partition_columns: record.partition_columns,
            properties,
            last_commit_version: record.last_update_version,
            last_commit_timestamp_ms: record.last_update_ms,
        },
        commits,
        uniform: record.uniform,
        latest_table_version: latest,
    })
}

/// A table that must exist.
pub(crate) fn required(connection: &mut Connection, key: &Key) -> Result<(TableRecord, Head)> {
    let row = match key {
        Key::Name(name) => connection.first(
            concat_select!("WHERE t.catalog = $1 AND t.schema = $2 AND t.name = $3"),
            params![&name.catalog, &name.schema, &name.table],
        )?,
        Key::Uuid(uuid) => connection.first(concat_select!("WHERE t.uuid = $1"), params![uuid])?,
    };
    match (row, key) {
        (Some(row), _) => record_of(row),
        (None, Key::Name(name)) => {
            find_schema(connection, &name.catalog, &name.schema)?
                .ok_or_else(|| no_schema(&name.catalog, &name.schema))?;
            Err(no_table(&name.to_string()))
        }
        (None, Key::Uuid(uuid)) => Err(no_table(uuid)),
    }
}

fn record_of(mut row: Row) -> Result<(TableRecord, Head)> {
    let uuid = row.text()?;
    let name = TableName {
        catalog: row.text()?,
        schema: row.text()?,
        table: row.text()?,
    };
    let record = TableRecord {
        uuid,
        name,
        table_type: TableType::parse(&row.text()?)?,
        format: row.text()?,
        location: row.text()?,
        comment: row.opt_text()?,
        columns: from_json(&row.text()?)?,
        partition_columns: from_json(&row.text()?)?,
        properties: from_json(&row.text()?)?,
        protocol: from_json(&row.text()?)?,
        domains: from_json(&row.text()?)?,
        uniform: row.opt_text()?.map(|text| from_json(&text)).transpose()?,
        last_update_version: row.opt_int()?,
        last_update_ms: row.opt_int()?,
        owner: row.text()?,
        created_at: row.int()?,
        updated_at: row.int()?,
    };
    let head = Head {
        etag: row.int()?,
        latest: row.opt_int()?,
        latest_timestamp: row.int()?,
        published: row.int()?,
        inline_bytes: row.int()?,
        iceberg: row.int()? != 0,
    };
    Ok((record, head))
}

/// Inserts a table with its head.
pub(crate) fn insert(connection: &mut Connection, record: &TableRecord, head: &Head) -> Result<()> {
    connection.execute(
        "INSERT INTO tables (uuid, catalog, schema, name, table_type, format, location, comment, columns,
             partition_columns, properties, protocol, domains, uniform, last_update_version, last_update_ms,
             owner, created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
        params![
            &record.uuid,
            &record.name.catalog,
            &record.name.schema,
            &record.name.table,
            record.table_type.text(),
            &record.format,
            &record.location,
            record.comment.clone(),
            to_json(&record.columns)?,
            to_json(&record.partition_columns)?,
            to_json(&record.properties)?,
            to_json(&record.protocol)?,
            to_json(&record.domains)?,
            record.uniform.as_ref().map(to_json).transpose()?,
            record.last_update_version,
            record.last_update_ms,
            &record.owner,
            record.created_at,
            record.updated_at
        ],
    )?;
    connection.execute(
        "INSERT INTO heads (uuid, etag, latest, latest_timestamp, published, inline_bytes, iceberg)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        params![
            &record.uuid,
            head.etag,
            head.latest,
            head.latest_timestamp,
            head.published,
            head.inline_bytes,
            i64::from(head.iceberg)
        ],
    )?;
    Ok(())
}

/// Writes a table's changed metadata.
pub(crate) fn save_metadata(connection: &mut Connection, record: &TableRecord) -> Result<()> {
    connection.execute(
        "UPDATE tables SET comment = $1, columns = $2, partition_columns = $3, properties = $4, protocol = $5,
             domains = $6, uniform = $7, last_update_version = $8, last_update_ms = $9, updated_at = $10
         WHERE uuid = $11",
        params![
            record.comment.clone(),
            to_json(&record.columns)?,
            to_json(&record.partition_columns)?,
            to_json(&record.properties)?,
            to_json(&record.protocol)?,
            to_json(&record.domains)?,
            record.uniform.as_ref().map(to_json).transpose()?,
            record.last_update_version,
            record.last_update_ms,
            record.updated_at,
            &record.uuid
        ],
    )?;
    Ok(())
}

/// The identity of the table with this name.
pub(crate) fn uuid_of(connection: &mut Connection, name: &TableName) -> Result<Option<String>> {
    let row = connection.first(
        "SELECT uuid FROM tables WHERE catalog = $1 AND schema = $2 AND name = $3",
        params![&name.catalog, &name.schema, &name.table],
    )?;
    row.map(|mut row| row.text()).transpose()
}

fn info_of(record: TableRecord) -> TableInfo {
    TableInfo {
        columns: Some(column_infos(&record.columns, &record.partition_columns)),
        properties: Some(derived_properties(&record)),
        name: record.name.table,
        catalog_name: record.name.catalog,
        schema_name: record.name.schema,
        table_type: Some(record.table_type.text().to_owned()),
        data_source_format: Some(record.format),
        storage_location: Some(record.location),
        comment: record.comment,
        owner: Some(record.owner),
        created_at: Some(record.created_at),
        updated_at: Some(record.updated_at),
        table_id: Some(record.uuid),
    }
}

pub(crate) fn exists(name: &TableName) -> CatalogError {
    CatalogError::new(ErrorType::AlreadyExists, format!("the table {name} exists already"))
}

pub(crate) fn no_table(name: &str) -> CatalogError {
    CatalogError::new(ErrorType::NoSuchTable, format!("there is no table {name}"))
}
