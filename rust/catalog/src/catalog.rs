//! What all catalogs have in common, whether in this process or behind HTTP.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use crate::api::classic::{
    CatalogInfo, CatalogPage, SchemaInfo, SchemaPage, TableInfo, TablePage, VolumeInfo, VolumePage,
};
use crate::api::{
    CreateTable, CredentialOperation, Credentials, Extensions, LoadedTable, StagingTable, UpdateOutcome, UpdateTable,
};
use crate::error::Result;
use crate::names::TableName;
use crate::store::Page;

/// By default, how long after a version was published its catalog is notified of it at the latest.
pub(crate) const REPORT_DELAY: Duration = Duration::from_secs(1);

/// A catalog of tables: names, metadata, credentials, and the coordination of commits.
///
/// All methods may be called at the same time. Errors are [`crate::CatalogError`] with the API's
/// types; after one for which [`crate::ErrorType::rules_out_change`] is false a change may have
/// happened.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// The catalog as messages name it, without tokens.
    fn describe(&self) -> String;

    /// How long after a version was published the catalog is notified of it at the latest.
    fn report_delay(&self) -> Duration {
        REPORT_DELAY
    }

    /// The extensions that both sides understand.
    async fn extensions(&self, catalog: &str) -> Result<Extensions>;

    /// Catalogs by name.
    async fn list_catalogs(&self, page: Page) -> Result<CatalogPage>;
    /// Creates a catalog.
    async fn create_catalog(&self, request: CatalogInfo) -> Result<CatalogInfo>;
    /// Drops a catalog without tables; with `force`, its schemas too.
    async fn drop_catalog(&self, name: &str, force: bool) -> Result<()>;
    /// The schemas of a catalog by name.
    async fn list_schemas(&self, catalog: &str, page: Page) -> Result<SchemaPage>;
    /// Creates a schema.
    async fn create_schema(&self, request: SchemaInfo) -> Result<SchemaInfo>;
    /// Drops a schema without tables.
    async fn drop_schema(&self, catalog: &str, schema: &str) -> Result<()>;
    /// The tables of a schema by name.
    async fn list_tables(&self, catalog: &str, schema: &str, page: Page) -> Result<TablePage>;
    /// A table in the classic API's form, of any format.
    async fn table_info(&self, name: &TableName) -> Result<TableInfo>;

    /// The volumes of a schema by name.
    async fn list_volumes(&self, catalog: &str, schema: &str, page: Page) -> Result<VolumePage>;
    /// A volume; its name has three parts, as a table's.
    async fn volume(&self, name: &TableName) -> Result<VolumeInfo>;
    /// Creates a volume.
    async fn create_volume(&self, request: VolumeInfo) -> Result<VolumeInfo>;
    /// Drops a volume; its files stay.
    async fn drop_volume(&self, name: &TableName) -> Result<()>;
    /// Credentials of a volume's location.
    async fn volume_credentials(&self, volume: &VolumeInfo, operation: CredentialOperation) -> Result<Credentials>;

    /// Allocates identity and location of a managed table.
    async fn create_staging(&self, name: &TableName) -> Result<StagingTable>;
    /// Creates a table whose version 0 is written. After a lost answer, the outcome of a managed
    /// table's creation is looked up by its identity.
    async fn create_table(&self, catalog: &str, schema: &str, request: CreateTable) -> Result<LoadedTable>;
    /// Loads a table. Commits up to `after` may be left out.
    async fn load(&self, name: &TableName, after: Option<i64>) -> Result<LoadedTable>;
    /// Loads several tables at one instant, where the catalog has the extension `transactions`.
    async fn load_all(&self, names: &[TableName]) -> Result<Vec<LoadedTable>>;
    /// Updates a table, once: [`crate::commit::commit`] looks up lost answers.
    async fn update(&self, name: &TableName, request: &UpdateTable) -> Result<UpdateOutcome>;
    /// Updates several tables, all or nothing, where the catalog has the extension `transactions`.
    async fn update_all(&self, requests: &[(TableName, UpdateTable)]) -> Result<Vec<UpdateOutcome>>;
    /// Whether a table exists.
    async fn exists(&self, name: &TableName) -> Result<bool>;
    /// Renames a table within its schema.
    async fn rename(&self, name: &TableName, new_name: &str) -> Result<()>;
    /// Drops a table.
    async fn drop_table(&self, name: &TableName) -> Result<()>;

    /// Credentials of a table's location.
    async fn credentials(&self, name: &TableName, operation: CredentialOperation) -> Result<Credentials>;
    /// Credentials of a staging table's location, for writing.
    async fn staging_credentials(&self, table_id: &str) -> Result<Credentials>;
    /// Credentials of a location where an external table will be.
    async fn path_credentials(&self, location: &str, operation: CredentialOperation) -> Result<Credentials>;
    /// Reports what a commit did: `report` is the API's `commit-report`.
    async fn report_metrics(&self, name: &TableName, table_id: &str, report: &Value) -> Result<()>;
}
