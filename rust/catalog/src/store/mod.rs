//! The catalog's database: SQLite in a file, or PostgreSQL. All rules of names, commits and rights
//! are here, each in one database transaction, so that the server and embedded use share them.

mod access;
mod commits;
mod connection;
mod creation;
mod locations;
mod metadata;
mod migrations;
mod namespaces;
mod postgres;
mod record;
mod sqlite;
mod staging;
mod tables;
mod updates;
mod value;
mod volumes;
mod workers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub use access::{Access, Grant, Principal};
pub(crate) use metadata::is_derived;
pub use namespaces::Page;
pub use sqlite::Durability;

use crate::error::{CatalogError, ErrorType, Result};
use crate::store::connection::Connection;
use crate::store::workers::{Open, Workers};

/// Where the catalog's database is.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file of SQLite.
    Sqlite(PathBuf, Durability),
    /// A URL of PostgreSQL, `postgresql://user:password@host/database`.
    Postgres(String),
}

impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Location::Sqlite(path, durability) => write!(f, "Sqlite({}, {durability:?})", path.display()),
            Location::Postgres(_) => f.write_str("Postgres(…)"),
        }
    }
}

impl Location {
    /// Reads `sqlite:///relative/path`, `sqlite:////absolute/path` or `postgresql://…`.
    pub fn parse(url: &str) -> Result<Self> {
        if let Some(path) = url.strip_prefix("sqlite:///").filter(|path| !path.is_empty()) {
            return Ok(Location::Sqlite(PathBuf::from(path), Durability::Full));
        }
        if url.starts_with("postgresql://") || url.starts_with("postgres://") {
            return Ok(Location::Postgres(url.to_owned()));
        }
        // The URL may have a password: the message doesn't repeat it.
        Err(CatalogError::invalid(
            "a catalog's database is sqlite:///path or postgresql://user:password@host/database",
        ))
    }
}

/// Limits of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// The most unpublished commits of a table. Unity Catalog has 10.
    pub max_unpublished: i64,
    /// The most bytes of a table's unpublished inline commits.
    pub max_inline_bytes: i64,
    /// Where managed tables are, unless their schema or catalog says it.
    pub storage_root: Option<String>,
    /// Connections that read.
    pub readers: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            max_unpublished: 1_000,
            max_inline_bytes: 64 << 20,
            storage_root: None,
            readers: 2,
        }
    }
}

/// A catalog's database with its threads. Cloning shares them.
#[derive(Clone)]
pub struct Store {
    workers: Arc<Workers>,
    pub(crate) options: Arc<StoreOptions>,
}

impl Store {
    /// Opens the database, and creates or migrates its tables.
    ///
    /// Needs a tokio runtime for PostgreSQL.
    pub async fn open(location: Location, options: StoreOptions) -> Result<Self> {
        let open: Open = match location {
            Location::Sqlite(path, durability) => {
                Arc::new(move || sqlite::Sqlite::open(&path, durability).map(Connection::sqlite))
            }
            Location::Postgres(url) => {
                let runtime = tokio::runtime::Handle::current();
                Arc::new(move || postgres::Postgres::connect(&url, &runtime).map(Connection::postgres))
            }
        };
        let first = Arc::clone(&open);
        let migrating = tokio::task::spawn_blocking(move || migrations::migrate(&mut first()?));
        migrating
            .await
            .map_err(|e| CatalogError::internal(format!("the migration was cut short: {e}")))??;
        let workers = Workers::start(&open, options.readers.max(1))?;
        Ok(Store {
            workers: Arc::new(workers),
            options: Arc::new(options),
        })
    }

    async fn read<T: Send + 'static>(&self, work: impl Fn(&mut Connection) -> Result<T> + Send + 'static) -> Result<T> {
        self.workers.read(work).await
    }

    /// `key` orders the work of a group: a table's identity, or nothing.
    async fn write<T: Send + 'static>(
        &self,
        key: &str,
        work: impl Fn(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.workers.write(key, work).await
    }

    /// Whether the database answers.
    pub async fn health(&self) -> Result<()> {
        self.read(|connection| {
            connection
                .query("SELECT version FROM deltaplane_version", &[])
                .map(|_| ())
        })
        .await
    }
}

/// Now, in ms since 1970 (UTC).
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A column that this module wrote as JSON.
pub(crate) fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| {
        CatalogError::new(
            ErrorType::InternalServerError,
            format!("the catalog's database has JSON that can't be read: {e}"),
        )
    })
}

pub(crate) fn to_json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|e| CatalogError::internal(format!("no JSON: {e}")))
}
