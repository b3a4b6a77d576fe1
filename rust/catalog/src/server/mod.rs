//! The catalog's server: Unity Catalog's open APIs over a store, bearer tokens, `/health` and
//! `/metrics`.

mod answers;
mod classic;
mod delta;
mod metrics;
mod preview;
mod tokens;
mod volumes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{CatalogError, ErrorType, Result};
use crate::limits::MAX_REQUEST_BYTES;
use crate::local::CredentialRules;
use crate::server::answers::{Failure, rendered};
use crate::server::metrics::Metrics;
use crate::server::tokens::TokenCache;
use crate::store::{Principal, Store};

/// The APIs' root.
const ROOT: &str = "/api/2.1/unity-catalog";
/// What the server has, for generated clients and tests.
const OPENAPI: &str = include_str!("openapi.json");
/// How long a request may take, its body included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a stopping server waits for requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Who may make requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication {
    /// Holders of tokens of the store.
    Tokens,
    /// Everybody, with all rights: for a loopback address only.
    Anonymous,
}

/// How a server runs.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address to listen at; port 0 for a free one.
    pub address: SocketAddr,
    /// Who may make requests.
    pub authentication: Authentication,
    /// Storage credentials to hand out.
    pub credentials: CredentialRules,
}

/// What handlers share.
#[derive(Clone)]
struct App {
    store: Store,
    options: Arc<ServerOptions>,
    credentials: Arc<CredentialRules>,
    tokens: Arc<TokenCache>,
    metrics: Arc<Metrics>,
}

/// A running server. Dropping it stops it without waiting.
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server over a store.
    pub async fn start(store: Store, options: ServerOptions) -> Result<Self> {
        if options.authentication == Authentication::Anonymous && !options.address.ip().is_loopback() {
            return Err(CatalogError::invalid(format!(
                "a server without tokens may listen at a loopback address only, not {}",
                options.address
            )));
        }
        let unavailable = |e: std::io::Error| {
            CatalogError::new(
                ErrorType::Unavailable,
                format!("the server can't listen at {}: {e}", options.address),
            )
        };
        let listener = TcpListener::bind(options.address).await.map_err(unavailable)?;
        let address = listener.local_addr().map_err(unavailable)?;
        let app = App {
            store,
            credentials: Arc::new(options.credentials.clone()),
            options: Arc::new(options),
            tokens: Arc::default(),
            metrics: Arc::default(),
        };
        let (stop, mut stopped) = watch::channel(false);
        let stopping = async move {
            // An error means that the server was dropped.
            let _ = stopped.wait_for(|stop| *stop).await;
        };
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        let serving = axum::serve(listener, router(app)).with_graceful_shutdown(stopping);
        let task = tokio::spawn(async move {
            if let Err(e) = serving.await {
                tracing::error!("the catalog's server ended: {e}");
            }
        });
        Ok(Server { address, stop, task })
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, and waits for running requests.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        if tokio::time::timeout(STOP_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }

    /// Runs until the server ends by itself or `signal` completes, then stops it.
    pub async fn run_until(self, signal: impl Future<Output = ()>) {
        signal.await;
        self.stop().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn router(app: App) -> Router {
    let table = "/delta/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}";
    let api = Router::new()
        .route("/delta/v1/config", get(delta::config))
        .route(
            "/delta/v1/catalogs/{catalog}/schemas/{schema}/staging-tables",
            post(delta::create_staging),
        )
        .route(
            "/delta/v1/catalogs/{catalog}/schemas/{schema}/tables",
            post(delta::create_table),
        )
        .route(
            table,
            get(delta::load)
                .head(delta::exists)
                .post(delta::update)
                .delete(delta::drop_table),
        )
        .route(&format!("{table}/rename"), post(delta::rename))
        .route(&format!("{table}/credentials"), get(delta::credentials))
        .route(&format!("{table}/metrics"), post(delta::report_metrics))
        .route(
            "/delta/v1/staging-tables/{table_id}/credentials",
            get(delta::staging_credentials),
        )
        .route("/delta/v1/temporary-path-credentials", get(delta::path_credentials))
        .route("/delta/v1/transactions", post(delta::transaction))
        .route("/delta/v1/snapshots", post(delta::snapshots))
        .route("/delta/preview/commits", get(preview::commits).post(preview::commit))
        .route("/catalogs", get(classic::list_catalogs).post(classic::create_catalog))
        .route("/catalogs/{name}", get(classic::catalog).delete(classic::drop_catalog))
        .route("/schemas", get(classic::list_schemas).post(classic::create_schema))
        .route("/schemas/{name}", get(classic::schema).delete(classic::drop_schema))
        .route("/tables", get(classic::list_tables).post(classic::create_table))
        .route("/tables/{name}", get(classic::table).delete(classic::drop_table))
        .route("/volumes", get(volumes::list).post(volumes::create))
        .route("/volumes/{name}", get(volumes::volume).delete(volumes::drop_volume))
        .route("/temporary-volume-credentials", post(volumes::credentials))
        .route("/staging-tables", post(classic::create_staging))
        .route("/temporary-table-credentials", post(classic::table_credentials))
        .route("/temporary-path-credentials", post(classic::path_credentials))
        .route("/metastore_summary", get(classic::metastore))
        .route("/tokens/{principal}", delete(classic::revoke_tokens))
        .fallback(missing)
        .method_not_allowed_fallback(missing)
        .layer(from_fn_with_state(app.clone(), authenticated));
    Router::new()
        .nest(ROOT, api)
        .route("/health", get(health))
        .route("/metrics", get(metrics_text))
        .route("/openapi.json", get(openapi))
        .fallback(missing)
        .layer(DefaultBodyLimit::max(MAX_REQUEST_BYTES))
        .layer(from_fn_with_state(app.clone(), measured))
        .with_state(app)
}

async fn missing(request: Request) -> Failure {
    Failure(CatalogError::new(
        ErrorType::NotFound,
        format!(
            "this server has no endpoint {} {}",
            request.method(),
            request.uri().path()
        ),
    ))
}

async fn health(State(app): State<App>) -> Response {
    match app.store.health().await {
        Ok(()) => "ok\n".into_response(),
        Err(e) => Failure(e).into_response(),
    }
}

async fn metrics_text(State(app): State<App>) -> String {
    app.metrics.text()
}

async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// Finds the principal of a request, which handlers read from its extensions.
async fn authenticated(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let principal = match app.options.authentication {
        Authentication::Anonymous => Ok(Arc::new(Principal::owner("anonymous"))),
        Authentication::Tokens => app.tokens.principal(&app.store, request.headers()).await,
    };
    match principal {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(e) => Failure(e).into_response(),
    }
}

/// Bounds a request's time, counts it, and gives errors the form of their API.
async fn measured(State(app): State<App>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let matched = request
        .extensions()
        .get::<MatchedPath>()
        .map(|path| path.as_str().to_owned());
    let response = match tokio::time::timeout(REQUEST_TIMEOUT, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Failure(CatalogError::new(
            ErrorType::CommitStateUnknown,
            "the request took too long: load the table to see the outcome",
        ))
        .into_response(),
    };
    let response = rendered(response, &path);
    let operation = matched.as_deref().unwrap_or("unknown");
    app.metrics
        .count(method.as_str(), operation, response.status().as_u16(), begun.elapsed());
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// The arguments of `.route(` in this file.
    fn routes() -> BTreeSet<String> {
        let source = include_str!("mod.rs").split("#[cfg(test)]").next().unwrap();
        let (_, router) = source.split_once("fn router").unwrap();
        let table = router.split('"').nth(1).unwrap().to_owned();
        let calls = router.split(".route(").skip(1).map(|call| {
            let argument = call.trim_start();
            match argument.strip_prefix("&format!(") {
                Some(format) => format.split('"').nth(1).unwrap().replace("{table}", &table),
                None if argument.starts_with("table,") => table.clone(),
                None => argument.split('"').nth(1).unwrap().to_owned(),
            }
        });
        calls.collect()
    }

    #[test]
    fn the_description_has_every_route() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let described: BTreeSet<String> = document["paths"]
            .as_object()
            .unwrap()
            .keys()
            .map(|path| path.strip_prefix(ROOT).unwrap_or(path).to_owned())
            .collect();
        let mut routes = routes();
        assert!(routes.remove("/openapi.json") && routes.len() > 20, "{routes:?}");
        assert_eq!(described, routes);
    }
}
