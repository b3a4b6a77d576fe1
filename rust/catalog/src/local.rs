//! A catalog in this process: a store and the principal that uses it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::api::classic::{
    CatalogInfo, CatalogPage, SchemaInfo, SchemaPage, TableInfo, TablePage, VolumeInfo, VolumePage,
};
use crate::api::tables::is_below;
use crate::api::{
    CreateTable, CredentialOperation, Credentials, Extensions, LoadedTable, StagingTable, StorageCredential,
    UpdateOutcome, UpdateTable,
};
use crate::catalog::Catalog;
use crate::error::{CatalogError, ErrorType, Result};
use crate::names::TableName;
use crate::store::{Access, Location, Page, Principal, Store, StoreOptions};

/// Storage credentials that a catalog hands out: the owner's, by prefix and operation.
#[derive(Debug, Clone, Default)]
pub struct CredentialRules {
    rules: Vec<StorageCredential>,
}

impl CredentialRules {
    /// Rules of these credentials. They are handed out for locations below their prefix; the
    /// longest prefix wins.
    pub fn new(rules: Vec<StorageCredential>) -> Self {
        CredentialRules { rules }
    }

    /// The credentials of a location. A location without a rule, such as a local folder, has none.
    pub(crate) fn select(&self, location: &str, operation: CredentialOperation) -> Credentials {
        let exact = self.rules.iter().filter(|rule| rule.operation == operation);
        let best = exact
            .filter(|rule| is_below(location, &rule.prefix))
            .max_by_key(|rule| rule.prefix.trim_end_matches('/').len());
        // What the holder sees is the table's location, not the owner's prefix.
        let narrowed = best.map(|rule| StorageCredential {
            prefix: location.to_owned(),
            ..rule.clone()
        });
        Credentials {
            storage_credentials: narrowed.into_iter().collect(),
        }
    }
}

/// A store as one principal uses it.
#[derive(Clone)]
pub struct LocalCatalog {
    store: Store,
    principal: Principal,
    credentials: Arc<CredentialRules>,
    extensions: Extensions,
}

impl LocalCatalog {
    /// Opens the database of an embedded catalog, such as `sqlite:///lake.db`. The caller owns it,
    /// and may do everything.
    pub async fn open(url: &str, options: StoreOptions) -> Result<Self> {
        let store = Store::open(Location::parse(url)?, options).await?;
        Ok(Self::new(store, Principal::owner("owner"), Arc::default()))
    }

    /// A store as a principal uses it.
    pub fn new(store: Store, principal: Principal, credentials: Arc<CredentialRules>) -> Self {
        LocalCatalog {
            store,
            principal,
            credentials,
            extensions: Extensions::ALL,
        }
    }

    /// Shows tables as clients with these extensions see them.
    pub(crate) fn with_extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// The store, for tokens and rights.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Updates a table, and loads it in the same transaction.
    pub(crate) async fn update_and_load(&self, name: &TableName, request: UpdateTable) -> Result<LoadedTable> {
        self.store
            .update_and_load(name, request, self.extensions, &self.principal)
            .await
    }
}

#[async_trait]
impl Catalog for LocalCatalog {
    fn describe(&self) -> String {
        "the embedded catalog".to_owned()
    }

    async fn extensions(&self, catalog: &str) -> Result<Extensions> {
        self.store.catalog(catalog, &self.principal).await?;
        Ok(self.extensions)
    }

    async fn list_catalogs(&self, page: Page) -> Result<CatalogPage> {
        self.store.list_catalogs(page, &self.principal).await
    }

    async fn create_catalog(&self, request: CatalogInfo) -> Result<CatalogInfo> {
        self.store.create_catalog(request, &self.principal).await
    }

    async fn drop_catalog(&self, name: &str, force: bool) -> Result<()> {
        self.store.drop_catalog(name, force, &self.principal).await
    }

    async fn list_schemas(&self, catalog: &str, page: Page) -> Result<SchemaPage> {
        self.store.list_schemas(catalog, page, &self.principal).await
    }

    async fn create_schema(&self, request: SchemaInfo) -> Result<SchemaInfo> {
        self.store.create_schema(request, &self.principal).await
    }

    async fn drop_schema(&self, catalog: &str, schema: &str) -> Result<()> {
        self.store.drop_schema(catalog, schema, &self.principal).await
    }

    async fn list_tables(&self, catalog: &str, schema: &str, page: Page) -> Result<TablePage> {
        self.store.list_tables(catalog, schema, page, &self.principal).await
    }

    async fn table_info(&self, name: &TableName) -> Result<TableInfo> {
        self.store.table_info(name, &self.principal).await
    }

    async fn list_volumes(&self, catalog: &str, schema: &str, page: Page) -> Result<VolumePage> {
        self.store.list_volumes(catalog, schema, page, &self.principal).await
    }

    async fn volume(&self, name: &TableName) -> Result<VolumeInfo> {
        self.store.volume(name, &self.principal).await
    }

    async fn create_volume(&self, request: VolumeInfo) -> Result<VolumeInfo> {
        self.store.create_volume(request, &self.principal).await
    }

    async fn drop_volume(&self, name: &TableName) -> Result<()> {
        self.store.drop_volume(name, &self.principal).await
    }

    async fn volume_credentials(&self, volume: &VolumeInfo, operation: CredentialOperation) -> Result<Credentials> {
        let id = volume.volume_id.as_deref().unwrap_or_default();
        let volume = self.store.volume_of_id(id, &self.principal).await?;
        if operation == CredentialOperation::ReadWrite {
            self.principal
                .check(Access::Write, Some(&volume.catalog_name), Some(&volume.schema_name))?;
        }
        let location = volume.storage_location.unwrap_or_default();
        Ok(self.credentials.select(&location, operation))
    }

    async fn create_staging(&self, name: &TableName) -> Result<StagingTable> {
        let mut staging = self.store.create_staging(name, &self.principal).await?;
        let credentials = self
            .credentials
            .select(&staging.location, CredentialOperation::ReadWrite);
        staging.storage_credentials = credentials.storage_credentials;
        Ok(staging)
    }

    async fn create_table(&self, catalog: &str, schema: &str, request: CreateTable) -> Result<LoadedTable> {
        self.store.create_table(catalog, schema, request, &self.principal).await
    }

    async fn load(&self, name: &TableName, after: Option<i64>) -> Result<LoadedTable> {
        self.store.load(name, self.extensions, after, &self.principal).await
    }

    async fn load_all(&self, names: &[TableName]) -> Result<Vec<LoadedTable>> {
        self.store.load_all(names, self.extensions, &self.principal).await
    }

    async fn update(&self, name: &TableName, request: &UpdateTable) -> Result<UpdateOutcome> {
        self.store.update(name, request.clone(), &self.principal).await
    }

    async fn update_all(&self, requests: &[(TableName, UpdateTable)]) -> Result<Vec<UpdateOutcome>> {
        self.store.update_all(requests.to_vec(), &self.principal).await
    }

    async fn exists(&self, name: &TableName) -> Result<bool> {
        self.store.exists(name, &self.principal).await
    }

    async fn rename(&self, name: &TableName, new_name: &str) -> Result<()> {
        self.store.rename(name, new_name, &self.principal).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<()> {
        self.store.drop_table(name, &self.principal).await
    }

    async fn credentials(&self, name: &TableName, operation: CredentialOperation) -> Result<Credentials> {
        if operation == CredentialOperation::ReadWrite {
            self.principal
                .check(Access::Write, Some(&name.catalog), Some(&name.schema))?;
        }
        let info = self.store.table_info(name, &self.principal).await?;
        let location = info.storage_location.unwrap_or_default();
        Ok(self.credentials.select(&location, operation))
    }

    async fn staging_credentials(&self, table_id: &str) -> Result<Credentials> {
        let location = self.store.staging_location(table_id, &self.principal).await?;
        Ok(self.credentials.select(&location, CredentialOperation::ReadWrite))
    }

    async fn path_credentials(&self, location: &str, operation: CredentialOperation) -> Result<Credentials> {
        // A location belongs to no schema yet, and could be that of any table.
        self.principal.check(Access::Manage, None, None)?;
        Ok(self.credentials.select(location.trim_end_matches('/'), operation))
    }

    async fn report_metrics(&self, name: &TableName, table_id: &str, _report: &Value) -> Result<()> {
        if self.store.has_identity(name, table_id, &self.principal).await? {
            return Ok(());
        }
        Err(CatalogError::new(
            ErrorType::InvalidParameterValue,
            format!("{name} doesn't have the table-id {table_id}"),
        ))
    }
}
