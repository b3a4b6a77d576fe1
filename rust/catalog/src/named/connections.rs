//! The connections of this process to catalogs. A forked child makes its own: connections and
//! threads of its parent are of no use to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use deltaplane_store::PerProcess;
use serde_json::Value;

use crate::api::classic::{
    CatalogInfo, CatalogPage, SchemaInfo, SchemaPage, TableInfo, TablePage, VolumeInfo, VolumePage,
};
use crate::api::{
    CreateTable, CredentialOperation, Credentials, Extensions, LoadedTable, StagingTable, UpdateOutcome, UpdateTable,
};
use crate::catalog::Catalog;
use crate::client::{ClientOptions, HttpCatalog};
use crate::error::{CatalogError, Result};
use crate::local::LocalCatalog;
use crate::named::settings::{CatalogSettings, Kind};
use crate::names::TableName;
use crate::store::{Page, Store, StoreOptions};

/// The most catalogs to which the process stays connected. An embedded one has three threads and up
/// to ten open files.
const MOST: usize = 32;

/// The connection that was used last is at the end.
type Connections = Vec<(CatalogSettings, Connection)>;

static CONNECTIONS: PerProcess<Mutex<Connections>> = PerProcess::new(Mutex::default, drop);

#[derive(Clone)]
struct Connection {
    catalog: Arc<dyn Catalog>,
    /// The database, if the catalog is embedded.
    store: Option<Store>,
}

/// A catalog by its settings, in whichever process it is used.
#[derive(Clone, Debug)]
pub struct Connected {
    settings: CatalogSettings,
}

impl Connected {
    /// Connects at the first use.
    pub fn new(settings: CatalogSettings) -> Self {
        Connected { settings }
    }

    /// Where the catalog is.
    pub(super) fn settings(&self) -> &CatalogSettings {
        &self.settings
    }

    /// The database of an embedded catalog; `None` for a server.
    pub async fn database(&self) -> Result<Option<Store>> {
        Ok(self.connection().await?.store)
    }

    async fn connection(&self) -> Result<Connection> {
        if let Some(connection) = used(&mut known(), &self.settings) {
            return Ok(connection);
        }
        let made = self.connect().await?;
        let (connection, left) = added(&mut known(), &self.settings, made);
        // Its threads are waited for, which nobody else needs to wait for.
        drop(left);
        Ok(connection)
    }

    async fn connect(&self) -> Result<Connection> {
        let invalid = |e: deltaplane_error::Error| CatalogError::invalid(e.message());
        Ok(match self.settings.kind().map_err(invalid)? {
            Kind::Server => Connection {
                catalog: Arc::new(HttpCatalog::new(
                    self.settings.url(),
                    self.settings.token(),
                    ClientOptions::default(),
                )?),
                store: None,
            },
            Kind::Database => {
                let options = StoreOptions {
                    storage_root: self.settings.storage_root().map_err(invalid)?,
                    ..StoreOptions::default()
                };
                let catalog = LocalCatalog::open(self.settings.url(), options).await?;
                Connection {
                    store: Some(catalog.store().clone()),
                    catalog: Arc::new(catalog),
                }
            }
        })
    }
}

fn used(connections: &mut Connections, settings: &CatalogSettings) -> Option<Connection> {
    let index = connections.iter().position(|(own, _)| own == settings)?;
    let last = connections.remove(index);
    let connection = last.1.clone();
    connections.push(last);
    Some(connection)
}

/// The connection to the catalog, which another thread may have made first, and the one that has to
/// go for it. Work that runs on that one keeps it until its end.
fn added(
    connections: &mut Connections,
    settings: &CatalogSettings,
    made: Connection,
) -> (Connection, Option<Connection>) {
    if let Some(first) = used(connections, settings) {
        return (first, Some(made));
    }
    let left = (connections.len() >= MOST).then(|| connections.remove(0).1);
    connections.push((settings.clone(), made.clone()));
    (made, left)
}

fn known() -> MutexGuard<'static, Connections> {
    CONNECTIONS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Implements the methods of [`Catalog`] by those of the process's connection.
macro_rules! by_connection {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        #[async_trait]
        impl Catalog for Connected {
            fn describe(&self) -> String {
                self.settings.shown()
            }

            fn report_delay(&self) -> Duration {
                self.settings.report_delay()
            }

            $(async fn $name(&self, $($argument: $type),*) -> Result<$result> {
                self.connection().await?.catalog.$name($($argument),*).await
            })*
        }
    };
}

by_connection! {
    extensions(catalog: &str) -> Extensions;
    list_catalogs(page: Page) -> CatalogPage;
    create_catalog(request: CatalogInfo) -> CatalogInfo;
    drop_catalog(name: &str, force: bool) -> ();
    list_schemas(catalog: &str, page: Page) -> SchemaPage;
    create_schema(request: SchemaInfo) -> SchemaInfo;
    drop_schema(catalog: &str, schema: &str) -> ();
    list_tables(catalog: &str, schema: &str, page: Page) -> TablePage;
    table_info(name: &TableName) -> TableInfo;
    list_volumes(catalog: &str, schema: &str, page: Page) -> VolumePage;
    volume(name: &TableName) -> VolumeInfo;
    create_volume(request: VolumeInfo) -> VolumeInfo;
    drop_volume(name: &TableName) -> ();
    volume_credentials(volume: &VolumeInfo, operation: CredentialOperation) -> Credentials;
    create_staging(name: &TableName) -> StagingTable;
    create_table(catalog: &str, schema: &str, request: CreateTable) -> LoadedTable;
    load(name: &TableName, after: Option<i64>) -> LoadedTable;
    load_all(names: &[TableName]) -> Vec<LoadedTable>;
    update(name: &TableName, request: &UpdateTable) -> UpdateOutcome;
    update_all(requests: &[(TableName, UpdateTable)]) -> Vec<UpdateOutcome>;
    exists(name: &TableName) -> bool;
    rename(name: &TableName, new_name: &str) -> ();
    drop_table(name: &TableName) -> ();
    credentials(name: &TableName, operation: CredentialOperation) -> Credentials;
    staging_credentials(table_id: &str) -> Credentials;
    path_credentials(location: &str, operation: CredentialOperation) -> Credentials;
    report_metrics(name: &TableName, table_id: &str, report: &Value) -> ();
}
