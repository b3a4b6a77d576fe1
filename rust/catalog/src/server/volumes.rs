//! Handlers of the classic API's volumes.

use axum::body::Bytes;
use axum::extract::{Extension, Path, Query, State};

use crate::api::CredentialOperation;
use crate::api::classic::{VolumeCredentialRequest, VolumeInfo};
use crate::catalog::Catalog;
use crate::error::CatalogError;
use crate::names::TableName;
use crate::server::App;
use crate::server::answers::{Answer, json_answer, parse};
use crate::server::classic::{done, page, temporary};
use crate::server::delta::{Caller, Parameters, catalog, parameter, secret};

pub(super) async fn list(State(app): State<App>, Extension(caller): Caller, Query(query): Parameters) -> Answer {
    let (catalog, schema) = (parameter(&query, "catalog_name")?, parameter(&query, "schema_name")?);
    json_answer(&app.store.list_volumes(catalog, schema, page(&query)?, &caller).await?)
}

pub(super) async fn create(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: VolumeInfo = parse(&body)?;
    json_answer(&app.store.create_volume(request, &caller).await?)
}

pub(super) async fn volume(State(app): State<App>, Extension(caller): Caller, Path(name): Path<String>) -> Answer {
    json_answer(&app.store.volume(&TableName::parse(&name)?, &caller).await?)
}

pub(super) async fn drop_volume(State(app): State<App>, Extension(caller): Caller, Path(name): Path<String>) -> Answer {
    app.store.drop_volume(&TableName::parse(&name)?, &caller).await?;
    done()
}

pub(super) async fn credentials(State(app): State<App>, Extension(caller): Caller, body: Bytes) -> Answer {
    let request: VolumeCredentialRequest = parse(&body)?;
    let operation = match request.operation.as_str() {
        "READ_VOLUME" => CredentialOperation::Read,
        "WRITE_VOLUME" => CredentialOperation::ReadWrite,
        other => return Err(CatalogError::invalid(format!("the operation {other:?} is unknown")).into()),
    };
    let volume = app.store.volume_of_id(&request.volume_id, &caller).await?;
    let own = catalog(&app, &caller);
    secret(&temporary(own.volume_credentials(&volume, operation).await?))
}
