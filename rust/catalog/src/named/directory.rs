//! What callers without async code do with a catalog's names: list, create, drop, rename; and for
//! an embedded catalog tokens, rights and a server over its database.

use std::collections::HashMap;
use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_log::Snapshot;
use deltaplane_store::{Location, block_on};
use serde::{Deserialize, Serialize};

use crate::api::classic::{CatalogInfo, SchemaInfo, TableInfo, VolumeInfo};
use crate::catalog::Catalog;
use crate::local::CredentialRules;
use crate::named::connections::Connected;
use crate::named::registering::register_external;
use crate::named::settings::CatalogSettings;
use crate::named::vended::VendedFields;
use crate::named::{transactions, vended};
use crate::names::{TableName, parse_schema};
use crate::server::{Authentication, Server, ServerOptions};
use crate::store::{Access, Page, Principal, Store};
use crate::transaction::TransactionIsolation;

/// The principal of an embedded catalog.
const OWNER: &str = "owner";

/// A catalog, schema or table in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogEntry {
    /// Its name without that of its parent.
    pub name: String,
    /// `catalog`, `catalog.schema` or `catalog.schema.table`.
    pub full_name: String,
    /// `MANAGED` or `EXTERNAL` for tables and volumes.
    pub table_type: Option<String>,
    /// `DELTA` or another format, for tables.
    pub format: Option<String>,
    /// Where a table's or a volume's files are; for a catalog or schema where those of managed
    /// tables are.
    pub location: Option<String>,
    /// Its comment.
    pub comment: Option<String>,
    /// Who created it.
    pub owner: Option<String>,
    /// Its identity.
    pub id: Option<String>,
    /// When it was created, in ms since 1970 (UTC).
    pub created_ms: Option<i64>,
}

/// A name with one to three parts.
enum Name {
    Catalog(String),
    Schema(String, String),
    Table(TableName),
}

impl Name {
    fn parse(text: &str) -> Result<Self> {
        Ok(match text.split('.').count() {
            1 => {
                crate::names::check_name("catalog", text)?;
                Name::Catalog(text.to_owned())
            }
            2 => {
                let (catalog, schema) = parse_schema(text)?;
                Name::Schema(catalog, schema)
            }
            _ => Name::Table(TableName::parse(text)?),
        })
    }
}

/// The names of one catalog server or database.
pub struct Directory(Connected);

impl Directory {
    /// The catalog that the storage options of a call name. Nothing is asked yet.
    ///
    /// # Errors
    /// `InvalidArgument` as [`CatalogSettings::take`].
    pub fn open(mut options: HashMap<String, String>) -> Result<Self> {
        CatalogSettings::take(&mut options).map(|settings| Directory(Connected::new(settings)))
    }

    /// Begins a transaction over tables of the catalog, for commands with the storage option
    /// `catalog_transaction` and the id that is returned. The tables that are named here, and the
    /// first one that is used, are read at the instant of that use; others join later.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that isn't a table's.
    pub fn begin(&self, tables: Vec<String>, is_serializable: bool) -> Result<String> {
        let names = tables.iter().map(|name| TableName::parse(name).map_err(Error::from));
        let isolation = match is_serializable {
            true => TransactionIsolation::Serializable,
            false => TransactionIsolation::Snapshot,
        };
        let settings = self.0.settings().clone();
        Ok(transactions::register(
            settings,
            names.collect::<Result<_>>()?,
            isolation,
        ))
    }

    /// Commits a transaction. Returns the new version of each table that was written to.
    ///
    /// # Errors
    /// As of [`crate::Transaction::commit`].
    pub fn commit(&self, id: &str) -> Result<Vec<(String, u64)>> {
        let committed = block_on(transactions::commit(id))?;
        Ok(committed
            .into_iter()
            .map(|(name, version)| (name.to_string(), version))
            .collect())
    }

    /// Ends a transaction without a commit. Returns the number of files that were deleted.
    ///
    /// # Errors
    /// `InvalidArgument` for a transaction that has ended.
    pub fn rollback(&self, id: &str) -> Result<usize> {
        block_on(transactions::rollback(id))
    }

    /// The catalog as messages name it.
    pub fn describe(&self) -> String {
        self.0.describe()
    }

    /// The catalogs; with a catalog's name its schemas, and with `catalog.schema` its tables, each
    /// by name.
    ///
    /// # Errors
    /// Those of the catalog.
    pub fn list(&self, name: Option<&str>) -> Result<Vec<CatalogEntry>> {
        let name = name.map(Name::parse).transpose()?;
        block_on(self.all(name))
    }

    async fn all(&self, name: Option<Name>) -> Result<Vec<CatalogEntry>> {
        let (mut entries, mut token) = (Vec::new(), None);
        loop {
            let page = Page { max_results: 0, token };
            token = match &name {
                None => {
                    let page = self.0.list_catalogs(page).await?;
                    entries.extend(page.catalogs.into_iter().map(CatalogEntry::from));
                    page.next_page_token
                }
                Some(Name::Catalog(catalog)) => {
                    let page = self.0.list_schemas(catalog, page).await?;
                    entries.extend(page.schemas.into_iter().map(CatalogEntry::from));
                    page.next_page_token
                }
                Some(Name::Schema(catalog, schema)) => {
                    let page = self.0.list_tables(catalog, schema, page).await?;
                    entries.extend(page.tables.into_iter().map(CatalogEntry::from));
                    page.next_page_token
                }
                Some(Name::Table(name)) => {
                    return Ok(vec![self.0.table_info(name).await?.into()]);
                }
            };
            if token.as_ref().is_none_or(String::is_empty) {
                return Ok(entries);
            }
        }
    }

    /// Creates a catalog or a schema.
    ///
    /// # Errors
    /// `TableAlreadyExists` if the name is taken; `InvalidArgument` for a table's name.
    pub fn create(&self, name: &str, comment: Option<String>, storage_root: Option<String>) -> Result<()> {
        match Name::parse(name)? {
            Name::Catalog(name) => block_on(self.0.create_catalog(CatalogInfo {
                name,
                comment,
                storage_root,
                ..CatalogInfo::default()
            }))
            .map(drop)?,
            Name::Schema(catalog_name, name) => block_on(self.0.create_schema(SchemaInfo {
                name,
                catalog_name,
                comment,
                storage_root,
                ..SchemaInfo::default()
            }))
            .map(drop)?,
            Name::Table(name) => {
                return Err(Error::invalid_argument(format!(
                    "{name} is a table's name: a catalog or a schema is created here"
                )));
            }
        }
        Ok(())
    }

    /// Drops a catalog, a schema or a table. Of a catalog or schema with `force` all that is in it
    /// is dropped before, tables too.
    ///
    /// # Errors
    /// `TableNotFound` if there is none; `InvalidArgument` if it isn't empty.
    pub fn drop(&self, name: &str, force: bool) -> Result<()> {
        if force && name.split('.').count() < 3 {
            for entry in self.list(Some(name))? {
                self.drop(&entry.full_name, true)?;
            }
            if name.contains('.') {
                self.drop_volumes(name)?;
            }
        }
        match Name::parse(name)? {
            Name::Catalog(name) => block_on(self.0.drop_catalog(&name, force))?,
            Name::Schema(catalog, schema) => block_on(self.0.drop_schema(&catalog, &schema))?,
            Name::Table(name) => block_on(self.0.drop_table(&name))?,
        }
        Ok(())
    }

    /// A server without volumes has none.
    fn drop_volumes(&self, schema: &str) -> Result<()> {
        let volumes = match self.volumes(schema) {
            Err(e) if matches!(e.kind(), Kind::TableNotFound | Kind::UnsupportedFeature) => return Ok(()),
            volumes => volumes?,
        };
        volumes
            .iter()
            .try_for_each(|volume| self.drop_volume(&volume.full_name))
    }

    /// Whether there is such a catalog, schema or table.
    ///
    /// # Errors
    /// Those of the catalog.
    pub fn exists(&self, name: &str) -> Result<bool> {
        let parent = match Name::parse(name)? {
            Name::Table(name) => return Ok(block_on(self.0.exists(&name))?),
            Name::Schema(catalog, _) => Some(catalog),
            Name::Catalog(_) => None,
        };
        match self.list(parent.as_deref()) {
            Ok(entries) => Ok(entries.iter().any(|entry| entry.full_name == name)),
            Err(e) if e.kind() == Kind::TableNotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Renames a table within its schema.
    ///
    /// # Errors
    /// `TableNotFound`, and `TableAlreadyExists` if the new name is taken.
    pub fn rename(&self, name: &str, new_name: &str) -> Result<()> {
        Ok(block_on(self.0.rename(&TableName::parse(name)?, new_name))?)
    }

    /// The volumes of `catalog.schema`; with `catalog.schema.volume` that volume.
    ///
    /// # Errors
    /// `TableNotFound` if there is none; those of the catalog.
    pub fn volumes(&self, name: &str) -> Result<Vec<CatalogEntry>> {
        match Name::parse(name)? {
            Name::Table(name) => Ok(vec![block_on(self.0.volume(&name))?.into()]),
            Name::Schema(catalog, schema) => block_on(self.volumes_of(&catalog, &schema)),
            Name::Catalog(name) => Err(Error::invalid_argument(format!(
                "{name} is a catalog's name: volumes are listed by catalog.schema"
            ))),
        }
    }

    async fn volumes_of(&self, catalog: &str, schema: &str) -> Result<Vec<CatalogEntry>> {
        let (mut entries, mut token) = (Vec::new(), None);
        loop {
            let page = self.0.list_volumes(catalog, schema, Page { max_results: 0, token });
            let page = page.await?;
            entries.extend(page.volumes.into_iter().map(CatalogEntry::from));
            token = page.next_page_token;
            if token.as_ref().is_none_or(String::is_empty) {
                return Ok(entries);
            }
        }
    }

    /// Creates a volume: an external one at a location, else a managed one.
    ///
    /// # Errors
    /// `TableAlreadyExists` if the name is taken; `InvalidArgument` for a location that overlaps
    /// with another one.
    pub fn create_volume(&self, name: &str, location: Option<String>, comment: Option<String>) -> Result<()> {
        let name = TableName::parse(name)?;
        let location = location.map(|path| Location::parse(&path).map(|location| location.uri_text()));
        let location = location.transpose()?;
        let volume_type = if location.is_some() { "EXTERNAL" } else { "MANAGED" };
        let request = VolumeInfo {
            name: name.table,
            catalog_name: name.catalog,
            schema_name: name.schema,
            volume_type: Some(volume_type.to_owned()),
            storage_location: location,
            comment,
            ..VolumeInfo::default()
        };
        Ok(block_on(self.0.create_volume(request)).map(drop)?)
    }

    /// Drops a volume's name; its files stay.
    ///
    /// # Errors
    /// `TableNotFound` if there is none.
    pub fn drop_volume(&self, name: &str) -> Result<()> {
        Ok(block_on(self.0.drop_volume(&TableName::parse(name)?))?)
    }

    /// Gives the table of a snapshot a name, as an external table.
    ///
    /// # Errors
    /// As [`register_external`].
    pub fn register(&self, name: &str, snapshot: &Snapshot) -> Result<()> {
        block_on(register_external(&self.0, &TableName::parse(name)?, snapshot))
    }

    /// The credentials that the catalog hands out now for a table whose files are at a place;
    /// `None` if it hands out none.
    ///
    /// # Errors
    /// Those of the catalog.
    pub fn credentials(&self, name: &str, place: &str) -> Result<Option<VendedFields>> {
        let fields = block_on(vended::fields(Arc::new(self.0.clone()), TableName::parse(name)?, place))?;
        Ok(fields.map(|fields| (fields.fields, fields.expires_ms)))
    }

    /// A new token of a principal for servers of an embedded catalog. The catalog stores its digest
    /// only.
    ///
    /// # Errors
    /// `InvalidArgument` for a server.
    pub fn create_token(&self, principal: &str, expires_at_ms: Option<i64>) -> Result<String> {
        let token = block_on(self.database()?.create_token(principal, expires_at_ms, &owner()))?;
        Ok(token.expose().to_owned())
    }

    /// Revokes all tokens of a principal; returns how many there were.
    ///
    /// # Errors
    /// As [`create_token`](Self::create_token).
    pub fn revoke_tokens(&self, principal: &str) -> Result<u64> {
        Ok(block_on(self.database()?.revoke_tokens(principal, &owner()))?)
    }

    /// Sets what a principal may do in a catalog or a schema, or everywhere: `READ`, `WRITE`,
    /// `MANAGE`, or nothing any more.
    ///
    /// # Errors
    /// As [`create_token`](Self::create_token).
    pub fn grant(&self, principal: &str, name: Option<&str>, access: Option<&str>) -> Result<()> {
        let access = access.map(Access::parse).transpose()?;
        let (catalog, schema) = match name.map(Name::parse).transpose()? {
            None => (None, None),
            Some(Name::Catalog(catalog)) => (Some(catalog), None),
            Some(Name::Schema(catalog, schema)) => (Some(catalog), Some(schema)),
            Some(Name::Table(name)) => {
                return Err(Error::invalid_argument(format!(
                    "rights are granted on a catalog or a schema, not on a table such as {name}"
                )));
            }
        };
        let (store, by) = (self.database()?, owner());
        let granted = store.grant(principal, catalog.as_deref(), schema.as_deref(), access, &by);
        Ok(block_on(granted)?)
    }

    /// Identity and location of the dropped managed tables, whose files are still there.
    ///
    /// # Errors
    /// As [`create_token`](Self::create_token).
    pub fn dropped_tables(&self) -> Result<Vec<(String, String)>> {
        Ok(block_on(self.database()?.dropped_tables(&owner()))?)
    }

    /// Serves an embedded catalog at an address such as `127.0.0.1:8080`, port 0 for a free one.
    /// Without `tokens` everybody has all rights, which only a loopback address permits.
    ///
    /// # Errors
    /// `InvalidArgument` for a server, and for an address that isn't allowed; `StoreUnavailable` if
    /// it is taken.
    pub fn serve(&self, address: &str, tokens: bool) -> Result<Server> {
        let options = ServerOptions {
            address: address
                .parse()
                .map_err(|_| Error::invalid_argument(format!("{address:?} is no address such as 127.0.0.1:8080")))?,
            authentication: match tokens {
                true => Authentication::Tokens,
                false => Authentication::Anonymous,
            },
            credentials: CredentialRules::default(),
        };
        let store = self.database()?;
        Ok(block_on(Server::start(store, options))?)
    }

    fn database(&self) -> Result<Store> {
        let database = block_on(self.0.database())?;
        database.ok_or_else(|| {
            Error::invalid_argument(format!(
                "{} is a server: this is done by its database, as sqlite:///path or postgresql://host/database",
                self.describe()
            ))
        })
    }
}

fn owner() -> Principal {
    Principal::owner(OWNER)
}

impl From<CatalogInfo> for CatalogEntry {
    fn from(info: CatalogInfo) -> Self {
        CatalogEntry {
            full_name: info.name.clone(),
            name: info.name,
            location: info.storage_root,
            comment: info.comment,
            owner: info.owner,
            id: info.id,
            created_ms: info.created_at,
            ..CatalogEntry::default()
        }
    }
}

impl From<SchemaInfo> for CatalogEntry {
    fn from(info: SchemaInfo) -> Self {
        CatalogEntry {
            full_name: format!("{}.{}", info.catalog_name, info.name),
            name: info.name,
            location: info.storage_root,
            comment: info.comment,
            owner: info.owner,
            id: info.schema_id,
            created_ms: info.created_at,
            ..CatalogEntry::default()
        }
    }
}

impl From<TableInfo> for CatalogEntry {
    fn from(info: TableInfo) -> Self {
        CatalogEntry {
            full_name: format!("{}.{}.{}", info.catalog_name, info.schema_name, info.name),
            name: info.name,
            table_type: info.table_type,
            format: info.data_source_format,
            location: info.storage_location,
            comment: info.comment,
            owner: info.owner,
            id: info.table_id,
            created_ms: info.created_at,
        }
    }
}

impl From<VolumeInfo> for CatalogEntry {
    fn from(info: VolumeInfo) -> Self {
        CatalogEntry {
            full_name: format!("{}.{}.{}", info.catalog_name, info.schema_name, info.name),
            name: info.name,
            table_type: info.volume_type,
            location: info.storage_location,
            comment: info.comment,
            owner: info.owner,
            id: info.volume_id,
            created_ms: info.created_at,
            ..CatalogEntry::default()
        }
    }
}
