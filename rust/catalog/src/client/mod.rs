//! A client of Unity Catalog's open APIs: the Delta API v1, the classic API, and for older servers
//! `delta/preview/commits`.

mod http;
mod preview;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::classic::{
    CatalogInfo, CatalogPage, SchemaInfo, SchemaPage, TableInfo, TablePage, VolumeInfo, VolumePage,
};
use crate::api::{
    CatalogConfig, CreateTable, CredentialOperation, Credentials, Extensions, LoadedTable, Snapshots, StagingTable,
    TableUpdates, Transaction, UpdateOutcome, UpdateTable,
};
use crate::catalog::Catalog;
use crate::client::http::{Http, Query, Sent};
use crate::error::{CatalogError, ErrorType, Result};
use crate::names::TableName;
use crate::secret::Secret;
use crate::store::Page;

/// The versions of the Delta API that this build has, as requests list them.
const PROTOCOL_VERSIONS: &str = "1.0";

/// Where a client's token comes from.
#[derive(Clone)]
pub enum Token {
    /// The server wants none.
    Absent,
    /// One token for all requests.
    Fixed(Secret),
    /// A function that is asked when the last token is refused, and at first.
    Provided(Arc<dyn Fn() -> Result<Secret> + Send + Sync>),
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Token::Absent => "Absent",
            Token::Fixed(_) => "Fixed(…)",
            Token::Provided(_) => "Provided(…)",
        })
    }
}

/// Limits of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientOptions {
    /// How long one request may take, its answer included.
    pub timeout: Duration,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How often a request is sent that may be repeated.
    pub attempts: u32,
    /// The pause before the second attempt; it doubles, and is spread by half.
    pub pause: Duration,
    /// The extensions to ask for.
    pub extensions: Extensions,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            attempts: 4,
            pause: Duration::from_millis(100),
            extensions: Extensions::ALL,
        }
    }
}

/// What a server has for a catalog.
#[derive(Debug, Clone, Copy)]
struct Server {
    /// Whether it has the Delta API v1.
    v1: bool,
    extensions: Extensions,
}

/// A catalog behind HTTP.
pub struct HttpCatalog {
    http: Http,
    options: ClientOptions,
    servers: Mutex<HashMap<String, Server>>,
}

impl HttpCatalog {
    /// A client of the server at this URL, such as `https://host` or
    /// `https://host/api/2.1/unity-catalog`. Sends nothing yet.
    pub fn new(url: &str, token: Token, options: ClientOptions) -> Result<Self> {
        Ok(HttpCatalog {
            http: Http::new(url, token, &options)?,
            options,
            servers: Mutex::default(),
        })
    }

    /// What the server has for a catalog: asked once.
    async fn server(&self, catalog: &str) -> Result<Server> {
        let known = self
            .servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(catalog)
            .copied();
        if let Some(server) = known {
            return Ok(server);
        }
        let query: Query = vec![
            ("catalog", catalog.to_owned()),
            ("protocol-versions", PROTOCOL_VERSIONS.to_owned()),
        ];
        let server = match self
            .http
            .get::<CatalogConfig>("delta/v1/config", &query, self.options.extensions)
            .await
        {
            Ok(config) if config.protocol_version.split('.').next() == Some("1") => Server {
                v1: true,
                extensions: Extensions::parse(config.extensions.iter().map(String::as_str)),
            },
            Ok(config) => {
                return Err(CatalogError::new(
                    ErrorType::InvalidAnswer,
                    format!(
                        "the server chose version {} although {PROTOCOL_VERSIONS} was offered",
                        config.protocol_version
                    ),
                ));
            }
            // The catalog is missing, not the endpoint.
            Err(e) if e.error_type == ErrorType::NoSuchCatalog => return Err(e),
            Err(e) if matches!(e.error_type, ErrorType::NotFound | ErrorType::NotImplemented) => Server {
                v1: false,
                extensions: Extensions::default(),
            },
            Err(e) => return Err(e),
        };
        self.servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(catalog.to_owned(), server);
        Ok(server)
    }

    async fn v1(&self, catalog: &str) -> Result<Server> {
        let server = self.server(catalog).await?;
        match server.v1 {
            true => Ok(server),
            false => Err(CatalogError::new(
                ErrorType::NotImplemented,
                format!("{} has no Delta API v1, which this call needs", self.http.describe()),
            )),
        }
    }

    async fn transactions(&self, names: impl Iterator<Item = &TableName>) -> Result<Extensions> {
        let mut extensions = self.options.extensions;
        for name in names {
            extensions = self.v1(&name.catalog).await?.extensions;
            if !extensions.transactions {
                return Err(CatalogError::new(
                    ErrorType::NotImplemented,
                    format!("{} has no transactions over several tables", self.http.describe()),
                ));
            }
        }
        Ok(extensions)
    }

    async fn page<T: DeserializeOwned>(&self, path: &str, page: Page, mut query: Query) -> Result<T> {
        if page.max_results > 0 {
            query.push(("max_results", page.max_results.to_string()));
        }
        if let Some(token) = page.token {
            query.push(("page_token", token));
        }
        self.http.get(path, &query, Extensions::default()).await
    }
}

/// The path of a schema's part in the Delta API.
fn schema_path(catalog: &str, schema: &str, rest: &str) -> String {
    format!(
        "delta/v1/catalogs/{}/schemas/{}/{rest}",
        http::segment(catalog),
        http::segment(schema)
    )
}

/// The path of a table in the Delta API.
fn table_path(name: &TableName, rest: &str) -> String {
    schema_path(
        &name.catalog,
        &name.schema,
        &format!("tables/{}{rest}", http::segment(&name.table)),
    )
}

#[async_trait]
impl Catalog for HttpCatalog {
    fn describe(&self) -> String {
        self.http.describe()
    }

    async fn extensions(&self, catalog: &str) -> Result<Extensions> {
        Ok(self.server(catalog).await?.extensions)
    }

    async fn list_catalogs(&self, page: Page) -> Result<CatalogPage> {
        self.page("catalogs", page, Vec::new()).await
    }

    async fn create_catalog(&self, request: CatalogInfo) -> Result<CatalogInfo> {
        self.http
            .post("catalogs", &request, Extensions::default(), Sent::Once)
            .await
    }

    async fn drop_catalog(&self, name: &str, force: bool) -> Result<()> {
        let query = vec![("force", force.to_string())];
        self.http
            .delete(&format!("catalogs/{}", http::segment(name)), &query)
            .await
    }

    async fn list_schemas(&self, catalog: &str, page: Page) -> Result<SchemaPage> {
        self.page("schemas", page, vec![("catalog_name", catalog.to_owned())])
            .await
    }

    async fn create_schema(&self, request: SchemaInfo) -> Result<SchemaInfo> {
        self.http
            .post("schemas", &request, Extensions::default(), Sent::Once)
            .await
    }

    async fn drop_schema(&self, catalog: &str, schema: &str) -> Result<()> {
        let name = format!("{catalog}.{schema}");
        self.http
            .delete(&format!("schemas/{}", http::segment(&name)), &Vec::new())
            .await
    }

    async fn list_tables(&self, catalog: &str, schema: &str, page: Page) -> Result<TablePage> {
        let query = vec![("catalog_name", catalog.to_owned()), ("schema_name", schema.to_owned())];
        self.page("tables", page, query).await
    }

    async fn table_info(&self, name: &TableName) -> Result<TableInfo> {
        let path = format!("tables/{}", http::segment(&name.to_string()));
        self.http.get(&path, &Vec::new(), Extensions::default()).await
    }

    async fn list_volumes(&self, catalog: &str, schema: &str, page: Page) -> Result<VolumePage> {
        let query = vec![("catalog_name", catalog.to_owned()), ("schema_name", schema.to_owned())];
        self.page("volumes", page, query).await
    }

    async fn volume(&self, name: &TableName) -> Result<VolumeInfo> {
        let path = format!("volumes/{}", http::segment(&name.to_string()));
        self.http.get(&path, &Vec::new(), Extensions::default()).await
    }

    async fn create_volume(&self, request: VolumeInfo) -> Result<VolumeInfo> {
        self.http
            .post("volumes", &request, Extensions::default(), Sent::Once)
            .await
    }

    async fn drop_volume(&self, name: &TableName) -> Result<()> {
        let path = format!("volumes/{}", http::segment(&name.to_string()));
        self.http.delete(&path, &Vec::new()).await
    }

    async fn volume_credentials(&self, volume: &VolumeInfo, operation: CredentialOperation) -> Result<Credentials> {
        preview::volume_credentials(&self.http, volume, operation).await
    }

    async fn create_staging(&self, name: &TableName) -> Result<StagingTable> {
        self.v1(&name.catalog).await?;
        let path = schema_path(&name.catalog, &name.schema, "staging-tables");
        // Repeating it allocates another staging table, and the first is abandoned, as the
        // specification has it.
        self.http
            .post(
                &path,
                &json!({"name": name.table}),
                self.options.extensions,
                Sent::Again,
            )
            .await
    }

    async fn create_table(&self, catalog: &str, schema: &str, request: CreateTable) -> Result<LoadedTable> {
        let server = self.v1(catalog).await?;
        let path = schema_path(catalog, schema, "tables");
        checked(self.http.post(&path, &request, server.extensions, Sent::Once).await?)
    }

    async fn load(&self, name: &TableName, after: Option<i64>) -> Result<LoadedTable> {
        let server = self.server(&name.catalog).await?;
        if !server.v1 {
            return preview::load(&self.http, name, after).await;
        }
        let mut query = Vec::new();
        if let (true, Some(after)) = (server.extensions.short_answers, after) {
            query.push(("commits-after", after.to_string()));
        }
        checked(self.http.get(&table_path(name, ""), &query, server.extensions).await?)
    }

    async fn load_all(&self, names: &[TableName]) -> Result<Vec<LoadedTable>> {
        let extensions = self.transactions(names.iter()).await?;
        let request = Snapshots {
            names: names.iter().map(ToString::to_string).collect(),
            tables: Vec::new(),
        };
        let answer: Snapshots = self
            .http
            .post("delta/v1/snapshots", &request, extensions, Sent::Again)
            .await?;
        if answer.tables.len() != names.len() {
            return Err(invalid("has another number of tables than the request"));
        }
        answer.tables.into_iter().map(checked).collect()
    }

    async fn update(&self, name: &TableName, request: &UpdateTable) -> Result<UpdateOutcome> {
        let server = self.server(&name.catalog).await?;
        if !server.v1 {
            return preview::update(&self.http, name, request).await;
        }
        if request.commit().is_some_and(|commit| commit.content.is_some()) && !server.extensions.inline_commits {
            return Err(CatalogError::new(
                ErrorType::NotImplemented,
                format!(
                    "{} takes no inline commits: stage the commit as a file",
                    self.http.describe()
                ),
            ));
        }
        let answer: Value = self
            .http
            .post(&table_path(name, ""), request, server.extensions, Sent::Once)
            .await?;
        match answer.get("metadata").is_some() {
            true => Ok(UpdateOutcome::from(&checked(parse(answer)?)?)),
            false => parse(answer),
        }
    }

    async fn update_all(&self, requests: &[(TableName, UpdateTable)]) -> Result<Vec<UpdateOutcome>> {
        let extensions = self.transactions(requests.iter().map(|(name, _)| name)).await?;
        let request = Transaction {
            tables: requests
                .iter()
                .map(|(name, request)| TableUpdates {
                    table: name.to_string(),
                    request: request.clone(),
                })
                .collect(),
            outcomes: Vec::new(),
        };
        let answer: Transaction = self
            .http
            .post("delta/v1/transactions", &request, extensions, Sent::Once)
            .await?;
        match answer.outcomes.len() == requests.len() {
            true => Ok(answer.outcomes),
            false => Err(invalid("has another number of outcomes than the request")),
        }
    }

    async fn exists(&self, name: &TableName) -> Result<bool> {
        let answer = match self.server(&name.catalog).await?.v1 {
            true => self.http.head(&table_path(name, "")).await,
            false => self.table_info(name).await.map(|_| ()),
        };
        match answer {
            Ok(()) => Ok(true),
            Err(e) if e.error_type.status() == 404 => Ok(false),
            Err(e) => Err(e),
        }
    }

    async fn rename(&self, name: &TableName, new_name: &str) -> Result<()> {
        self.v1(&name.catalog).await?;
        let body = json!({"new-name": new_name});
        self.http.post_unanswered(&table_path(name, "/rename"), &body).await
    }

    async fn drop_table(&self, name: &TableName) -> Result<()> {
        match self.server(&name.catalog).await?.v1 {
            true => self.http.delete(&table_path(name, ""), &Vec::new()).await,
            false => {
                let path = format!("tables/{}", http::segment(&name.to_string()));
                self.http.delete(&path, &Vec::new()).await
            }
        }
    }

    async fn credentials(&self, name: &TableName, operation: CredentialOperation) -> Result<Credentials> {
        if !self.server(&name.catalog).await?.v1 {
            return preview::credentials(&self.http, name, operation).await;
        }
        let query = vec![("operation", operation.text().to_owned())];
        self.http
            .get(&table_path(name, "/credentials"), &query, Extensions::default())
            .await
    }

    async fn staging_credentials(&self, table_id: &str) -> Result<Credentials> {
        let path = format!("delta/v1/staging-tables/{}/credentials", http::segment(table_id));
        self.http.get(&path, &Vec::new(), Extensions::default()).await
    }

    async fn path_credentials(&self, location: &str, operation: CredentialOperation) -> Result<Credentials> {
        let query = vec![
            ("location", location.to_owned()),
            ("operation", operation.text().to_owned()),
        ];
        self.http
            .get("delta/v1/temporary-path-credentials", &query, Extensions::default())
            .await
    }

    async fn report_metrics(&self, name: &TableName, table_id: &str, report: &Value) -> Result<()> {
        self.v1(&name.catalog).await?;
        let body = json!({"table-id": table_id, "report": {"commit-report": report}});
        self.http.post_unanswered(&table_path(name, "/metrics"), &body).await
    }
}

/// Refuses tables that can't be true.
fn checked(loaded: LoadedTable) -> Result<LoadedTable> {
    loaded.check()?;
    Ok(loaded)
}

fn parse<T: DeserializeOwned>(answer: Value) -> Result<T> {
    serde_json::from_value(answer).map_err(|e| invalid(&format!("can't be read: {e}")))
}

fn invalid(what: &str) -> CatalogError {
    CatalogError::new(ErrorType::InvalidAnswer, format!("the catalog's answer {what}"))
}
