//! The names of a catalog, and the server of an embedded one.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use deltaplane_boundary::boundary;
use deltaplane_catalog::named::{CatalogEntry, Directory, VendedFields};
use deltaplane_catalog::server::Server;
use deltaplane_error::Result;
use deltaplane_store::block_on;
use pyo3::prelude::*;

use crate::record::Record;
use crate::snapshot::Snapshot;

/// The names of a catalog: those of catalogs, schemas and tables have one to three parts.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct CatalogNames(Directory);

#[boundary]
impl CatalogNames {
    #[staticmethod]
    fn open(options: HashMap<String, String>) -> Result<Self> {
        Directory::open(options).map(CatalogNames)
    }

    fn describe(&self) -> String;
    #[pyo3(signature = (name = None))]
    fn list(&self, name: Option<&str>) -> Result<Record<Vec<CatalogEntry>>>;
    #[pyo3(signature = (name, comment = None, storage_root = None))]
    fn create(&self, name: &str, comment: Option<String>, storage_root: Option<String>) -> Result<()>;
    fn drop(&self, name: &str, force: bool) -> Result<()>;
    fn exists(&self, name: &str) -> Result<bool>;
    fn credentials(&self, name: &str, place: &str) -> Result<Option<VendedFields>>;
    fn rename(&self, name: &str, new_name: &str) -> Result<()>;
    fn begin(&self, tables: Vec<String>, is_serializable: bool) -> Result<String>;
    fn commit(&self, id: &str) -> Result<Vec<(String, u64)>>;
    fn rollback(&self, id: &str) -> Result<usize>;
    fn volumes(&self, name: &str) -> Result<Record<Vec<CatalogEntry>>>;
    fn create_volume(&self, name: &str, location: Option<String>, comment: Option<String>) -> Result<()>;
    fn drop_volume(&self, name: &str) -> Result<()>;
    fn register(&self, name: &str, snapshot: &Snapshot) -> Result<()> {
        self.0.register(name, &snapshot.0)
    }

    #[pyo3(signature = (principal, expires_at_ms = None))]
    fn create_token(&self, principal: &str, expires_at_ms: Option<i64>) -> Result<String>;
    fn revoke_tokens(&self, principal: &str) -> Result<u64>;

    #[pyo3(signature = (principal, name, access))]
    fn grant(&self, principal: &str, name: Option<&str>, access: Option<&str>) -> Result<()>;

    fn serve(&self, address: &str, tokens: bool) -> Result<CatalogServer> {
        let server = self.0.serve(address, tokens)?;
        Ok(CatalogServer(server.address().to_string(), Mutex::new(Some(server))))
    }
}

/// A running server.
#[pyclass(frozen, module = "deltaplane._native")]
pub(crate) struct CatalogServer(String, Mutex<Option<Server>>);

#[boundary]
impl CatalogServer {
    #[getter]
    fn address(&self) -> String {
        self.0.clone()
    }

    /// Waits for running requests.
    fn stop(&self) -> Result<()> {
        let server = self.1.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(server) = server {
            block_on(server.stop());
        }
        Ok(())
    }
}
