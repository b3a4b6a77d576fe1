//! Catalogs: names for tables, and the coordination of their commits.
//!
//! [`store`] is a catalog of deltaplane's own, over SQLite or PostgreSQL; [`server`] gives it to
//! others by Unity Catalog's open APIs; [`client`] uses any server of these APIs. [`Catalog`] is
//! what an embedded store and a client have in common.

pub mod api;
pub mod catalog;
pub mod client;
pub mod commit;
pub mod committer;
pub mod error;
pub mod limits;
pub mod local;
mod managed_features;
pub mod named;
pub mod names;
pub mod secret;
pub mod server;
pub mod store;
pub mod transaction;

pub use catalog::Catalog;
pub use client::HttpCatalog;
pub use commit::{CommitOutcome, commit};
pub use error::{CatalogError, ErrorType, Result};
pub use local::LocalCatalog;
pub use names::TableName;
pub use secret::Secret;
pub use transaction::{TableStores, Transaction, TransactionIsolation};
