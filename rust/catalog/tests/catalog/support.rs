//! Stores, servers and tables for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deltaplane_catalog::api::classic::{CatalogInfo, SchemaInfo};
use deltaplane_catalog::api::{
    AssertedTable, Commit, CreateTable, LoadedTable, StorageCredential, TableUpdate, UpdateTable,
};
use deltaplane_catalog::client::{ClientOptions, Token};
use deltaplane_catalog::commit::create_managed;
use deltaplane_catalog::local::CredentialRules;
use deltaplane_catalog::server::{Authentication, Server, ServerOptions};
use deltaplane_catalog::store::{Location, Principal, Store, StoreOptions};
use deltaplane_catalog::{Catalog, HttpCatalog, LocalCatalog, Secret, TableName};
use serde_json::json;

use crate::postgres;

/// The databases that each test runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    Sqlite,
    Postgres,
}

/// The databases that are here. Debian's package `postgresql` may be missing on a contributor's
/// machine, which the test's output then says.
pub fn databases() -> Vec<Database> {
    if postgres::is_installed() {
        return vec![Database::Sqlite, Database::Postgres];
    }
    eprintln!("not tested over PostgreSQL: install Debian's package postgresql");
    vec![Database::Sqlite]
}

/// A store with a server on a free port.
pub struct Lake {
    pub store: Store,
    pub server: Server,
    pub admin: Principal,
    pub token: Secret,
    pub location: Location,
    _folder: tempfile::TempDir,
}

pub fn options() -> StoreOptions {
    StoreOptions {
        storage_root: Some("s3://lake/root".to_owned()),
        ..StoreOptions::default()
    }
}

impl Lake {
    pub async fn start(database: Database) -> Self {
        Self::with(database, options(), CredentialRules::default()).await
    }

    pub async fn with(database: Database, options: StoreOptions, credentials: CredentialRules) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = match database {
            Database::Sqlite => Location::parse(&format!("sqlite:///{}/lake.db", folder.path().display())).unwrap(),
            Database::Postgres => Location::parse(&postgres::new_database()).unwrap(),
        };
        let store = Store::open(location.clone(), options).await.unwrap();
        let admin = Principal::owner("admin");
        let token = store.create_token("admin", None, &admin).await.unwrap();
        let access = deltaplane_catalog::store::Access::Manage;
        store.grant("admin", None, None, Some(access), &admin).await.unwrap();
        let server = serve(&store, credentials).await;
        let lake = Lake {
            store,
            server,
            admin,
            token,
            location,
            _folder: folder,
        };
        let client = lake.client();
        client
            .create_catalog(CatalogInfo {
                name: "main".to_owned(),
                ..CatalogInfo::default()
            })
            .await
            .unwrap();
        for name in ["default", "other"] {
            client
                .create_schema(SchemaInfo {
                    name: name.to_owned(),
                    catalog_name: "main".to_owned(),
                    ..SchemaInfo::default()
                })
                .await
                .unwrap();
        }
        lake
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    pub fn client(&self) -> HttpCatalog {
        client(&self.url(), &self.token)
    }

    pub fn embedded(&self) -> LocalCatalog {
        LocalCatalog::new(self.store.clone(), self.admin.clone(), Arc::default())
    }
}

pub async fn serve(store: &Store, credentials: CredentialRules) -> Server {
    let options = ServerOptions {
        address: "127.0.0.1:0".parse().unwrap(),
        authentication: Authentication::Tokens,
        credentials,
    };
    Server::start(store.clone(), options).await.unwrap()
}

pub fn client(url: &str, token: &Secret) -> HttpCatalog {
    let options = ClientOptions {
        timeout: Duration::from_secs(20),
        pause: Duration::from_millis(20),
        ..ClientOptions::default()
    };
    HttpCatalog::new(url, Token::Fixed(token.clone()), options).unwrap()
}

pub fn credential(prefix: &str, secret: &str) -> StorageCredential {
    StorageCredential {
        prefix: prefix.to_owned(),
        operation: deltaplane_catalog::api::CredentialOperation::Read,
        config: BTreeMap::from([
            ("s3.access-key-id".to_owned(), Some(Secret::new("AK"))),
            ("s3.secret-access-key".to_owned(), Some(Secret::new(secret))),
        ]),
        expiration_time_ms: 4_000_000_000_000,
    }
}

pub fn name(table: &str) -> TableName {
    TableName::new("main", "default", table).unwrap()
}

/// Creates a managed table as clients do: staging table first.
pub async fn create(catalog: &dyn Catalog, name: &TableName) -> LoadedTable {
    let staging = catalog.create_staging(name).await.unwrap();
    create_managed(catalog, name, &staging.table_id.clone(), creation(&staging, name))
        .await
        .unwrap()
}

pub fn creation(staging: &deltaplane_catalog::api::StagingTable, name: &TableName) -> CreateTable {
    let properties = staging.required_properties.clone();
    CreateTable {
        name: name.table.clone(),
        location: staging.location.clone(),
        table_type: staging.table_type,
        comment: None,
        columns: json!({"type": "struct", "fields": [
            {"name": "id", "type": "long", "nullable": true, "metadata": {}},
            {"name": "tags", "type": {"type": "array", "element-type": "string", "contains-null": true},
             "nullable": true, "metadata": {"comment": "labels"}},
        ]}),
        partition_columns: Vec::new(),
        protocol: staging.required_protocol.clone(),
        properties: properties
            .into_iter()
            .map(|(key, value)| (key, value.unwrap_or_default()))
            .collect(),
        domain_metadata: None,
        last_commit_timestamp_ms: 1_000,
        uniform: None,
    }
}

static UUIDS: AtomicU32 = AtomicU32::new(1);

/// A proposal with a file name of its own.
pub fn proposal(version: i64, content: Option<String>) -> Commit {
    let number = UUIDS.fetch_add(1, Ordering::Relaxed);
    Commit {
        version,
        timestamp: 1_000 + version,
        file_name: format!("{version:020}.48ae7812-9cf2-4548-a859-{number:012x}.json"),
        file_size: content.as_ref().map_or(100, |text| text.len() as i64),
        file_modification_timestamp: 1_000,
        content,
    }
}

pub fn asserted(loaded: &LoadedTable) -> AssertedTable {
    AssertedTable {
        uuid: loaded.metadata.table_uuid.clone(),
        etag: None,
    }
}

/// A request that adds a commit.
pub fn adding(loaded: &LoadedTable, commit: Commit) -> UpdateTable {
    UpdateTable::new(
        &asserted(loaded),
        vec![TableUpdate::AddCommit { commit, uniform: None }],
    )
}

/// A request that reports publication.
pub fn published(loaded: &LoadedTable, version: i64) -> UpdateTable {
    UpdateTable::new(
        &asserted(loaded),
        vec![TableUpdate::SetLatestBackfilledVersion {
            latest_published_version: version,
        }],
    )
}
