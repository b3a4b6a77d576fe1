//! Requests and answers of Unity Catalog's APIs: the Delta API v1 (`api/delta.yaml`), the classic
//! API (`api/all.yaml`) and deltaplane's extensions. Unknown fields are ignored on reading.

pub mod classic;
pub mod columns;
pub mod extensions;
pub mod requests;
pub mod tables;

pub use extensions::{Extensions, Snapshots, TableUpdates, Transaction, UpdateOutcome};
pub use requests::{AssertedTable, CreateTable, TableUpdate, UpdateTable};
pub use tables::{
    CatalogConfig, Commit, CredentialOperation, Credentials, LoadedTable, Protocol, StagingTable, StorageCredential,
    TableMetadata, TableType,
};
