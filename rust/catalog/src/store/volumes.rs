//! Volumes: names of folders with files that are no tables.

use crate::api::classic::{VolumeInfo, VolumePage};
use crate::api::requests::check_text;
use crate::api::tables::is_below;
use crate::error::{CatalogError, ErrorType, Result};
use crate::names::TableName;
use crate::store::access::{Access, Principal, audit};
use crate::store::connection::Connection;
use crate::store::locations::{check_free, overlapping_volumes};
use crate::store::namespaces::{Page, check_location, cut, find_schema, no_schema, storage_root};
use crate::store::value::{Row, params};
use crate::store::{Store, now_ms};

/// The types of volumes.
const MANAGED: &str = "MANAGED";
const EXTERNAL: &str = "EXTERNAL";

/// A query of volumes with all their columns.
macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT catalog, schema, name, id, volume_type, location, comment, owner, created_at, updated_at FROM volumes ",
            $rest
        )
    };
}

impl Store {
    /// The volumes of a schema, by name.
    pub async fn list_volumes(&self, catalog: &str, schema: &str, page: Page, by: &Principal) -> Result<VolumePage> {
        by.check(Access::Read, Some(catalog), Some(schema))?;
        let (catalog, schema) = (catalog.to_owned(), schema.to_owned());
        self.read(move |connection| {
            find_schema(connection, &catalog, &schema)?.ok_or_else(|| no_schema(&catalog, &schema))?;
            let rows = connection.query(
                select!("WHERE catalog = $1 AND schema = $2 AND name > $3 ORDER BY name LIMIT $4"),
                params![&catalog, &schema, page.after(), page.limit() as i64 + 1],
            )?;
            let all = rows.into_iter().map(volume_of).collect::<Result<Vec<_>>>()?;
            let (volumes, next_page_token) = cut(all, page.limit(), |volume| &volume.name);
            Ok(VolumePage {
                volumes,
                next_page_token,
            })
        })
        .await
    }

    /// A volume by its name.
    pub async fn volume(&self, name: &TableName, by: &Principal) -> Result<VolumeInfo> {
        by.check(Access::Read, Some(&name.catalog), Some(&name.schema))?;
        let name = name.clone();
        self.read(move |connection| find(connection, &name)?.ok_or_else(|| no_volume(&name)))
            .await
    }

    /// A volume by its identity.
    pub async fn volume_of_id(&self, id: &str, by: &Principal) -> Result<VolumeInfo> {
        let (id, by) = (id.to_owned(), by.clone());
        self.read(move |connection| {
            let row = connection.first(select!("WHERE id = $1"), params![&id])?;
            let volume = row.map(volume_of).transpose()?;
            let volume = volume.filter(|volume| by.sees_schema(&volume.catalog_name, &volume.schema_name));
            volume.ok_or_else(|| missing(&id))
        })
        .await
    }

    /// Creates a volume: an external one at its location, a managed one below the storage root of
    /// its schema.
    pub async fn create_volume(&self, request: VolumeInfo, by: &Principal) -> Result<VolumeInfo> {
        let name = TableName::new(&request.catalog_name, &request.schema_name, &request.name)?;
        by.check(Access::Write, Some(&name.catalog), Some(&name.schema))?;
        check_text("comment", request.comment.as_deref().unwrap_or_default())?;
        let location = external_location(&request)?;
        let (by, default, target) = (by.name.clone(), self.options.storage_root.clone(), name.clone());
        self.write("", move |connection| {
            let schema = find_schema(connection, &name.catalog, &name.schema)?
                .ok_or_else(|| no_schema(&name.catalog, &name.schema))?;
            if find(connection, &name)?.is_some() {
                return Err(CatalogError::new(
                    ErrorType::AlreadyExists,
                    format!("the volume {name} exists already"),
                ));
            }
            let id = uuid::Uuid::new_v4().to_string();
            let (volume_type, location) = match &location {
                Some(location) => {
                    check_roots(connection, location, default.as_deref())?;
                    check_free(connection, location)?;
                    (EXTERNAL, location.clone())
                }
                None => {
                    let root = storage_root(connection, &schema, default.as_ref())?;
                    (MANAGED, format!("{root}/__volumes/{id}"))
                }
            };
            if let Some((other, _)) = overlapping_volumes(connection, &location)?.first() {
                return Err(CatalogError::invalid(format!(
                    "the location {location} overlaps with that of the volume {other}"
                )));
            }
            connection.execute(
                "INSERT INTO volumes
                 (id, catalog, schema, name, volume_type, location, comment, owner, created_at, updated_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)",
                params![
                    &id,
                    &name.catalog,
                    &name.schema,
                    &name.table,
                    volume_type,
                    &location,
                    request.comment.as_deref(),
                    &by,
                    now_ms()
                ],
            )?;
            audit(connection, &by, "CREATE VOLUME", &name.to_string())?;
            find(connection, &target)?.ok_or_else(|| no_volume(&target))
        })
        .await
    }

    /// Drops a volume's name; its files stay.
    pub async fn drop_volume(&self, name: &TableName, by: &Principal) -> Result<()> {
        by.check(Access::Write, Some(&name.catalog), Some(&name.schema))?;
        let (name, by) = (name.clone(), by.clone());
        self.write("", move |connection| {
            let volume = find(connection, &name)?.ok_or_else(|| no_volume(&name))?;
            if volume.owner.as_deref() != Some(&by.name) {
                by.check(Access::Manage, Some(&name.catalog), Some(&name.schema))?;
            }
            connection.execute("DELETE FROM volumes WHERE id = $1", params![volume.volume_id])?;
            audit(connection, &by.name, "DROP VOLUME", &name.to_string())
        })
        .await
    }
}

/// The location of an external volume; `None` for a managed one.
fn external_location(request: &VolumeInfo) -> Result<Option<String>> {
    let location = request
        .storage_location
        .as_deref()
        .filter(|location| !location.is_empty());
    match (request.volume_type.as_deref(), location) {
        (Some(EXTERNAL), Some(location)) => {
            check_location(location)?;
            Ok(Some(location.trim_end_matches('/').to_owned()))
        }
        (Some(MANAGED), None) => Ok(None),
        (Some(EXTERNAL), None) => Err(CatalogError::invalid("an external volume needs a storage_location")),
        (Some(MANAGED), Some(_)) => Err(CatalogError::invalid(
            "the catalog chooses the storage_location of a managed volume: leave it out",
        )),
        (other, _) => Err(CatalogError::invalid(format!(
            "volume_type is MANAGED or EXTERNAL, not {}",
            other.unwrap_or("nothing")
        ))),
    }
}

/// Refuses a location with managed tables of today or of later: they would be readable by the
/// volume's readers.
fn check_roots(connection: &mut Connection, location: &str, default: Option<&str>) -> Result<()> {
    let rows = connection.query(
        "SELECT storage_root FROM catalogs WHERE storage_root IS NOT NULL
         UNION SELECT storage_root FROM schemas WHERE storage_root IS NOT NULL",
        params![],
    )?;
    let mut roots = rows.into_iter().map(|mut row| row.text()).collect::<Result<Vec<_>>>()?;
    roots.extend(default.map(|root| root.trim_end_matches('/').to_owned()));
    for root in roots {
        let is_within = ["__tables", "__volumes"]
            .iter()
            .any(|folder| is_below(location, &format!("{root}/{folder}")));
        if is_below(&root, location) || is_within {
            return Err(CatalogError::invalid(format!(
                "the location {location} has or is within the managed tables of {root}"
            )));
        }
    }
    Ok(())
}

fn find(connection: &mut Connection, name: &TableName) -> Result<Option<VolumeInfo>> {
    let row = connection.first(
        select!("WHERE catalog = $1 AND schema = $2 AND name = $3"),
        params![&name.catalog, &name.schema, &name.table],
    )?;
    row.map(volume_of).transpose()
}

fn volume_of(mut row: Row) -> Result<VolumeInfo> {
    let (catalog_name, schema_name, name) = (row.text()?, row.text()?, row.text()?);
    Ok(VolumeInfo {
        full_name: Some(format!("{catalog_name}.{schema_name}.{name}")),
        catalog_name,
        schema_name,
        name,
        volume_id: Some(row.text()?),
        volume_type: Some(row.text()?),
        storage_location: Some(row.text()?),
        comment: row.opt_text()?,
        owner: Some(row.text()?),
        created_at: Some(row.int()?),
        updated_at: Some(row.int()?),
    })
}

fn no_volume(name: &TableName) -> CatalogError {
    missing(&name.to_string())
}

fn missing(name: &str) -> CatalogError {
    CatalogError::new(ErrorType::NoSuchTable, format!("there is no volume {name}"))
}
