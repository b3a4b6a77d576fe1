//! Answers: JSON, and errors in the form of the API that was called.

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::error::{CatalogError, ErrorType, Result};

/// What a handler returns.
pub(super) type Answer<T = Response> = std::result::Result<T, Failure>;

/// An error on its way out. [`rendered`] gives it its form.
pub(super) struct Failure(pub(super) CatalogError);

impl From<CatalogError> for Failure {
    fn from(error: CatalogError) -> Self {
        Failure(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status(&self.0);
        response.extensions_mut().insert(self.0);
        response
    }
}

fn status(error: &CatalogError) -> StatusCode {
    StatusCode::from_u16(error.error_type.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A JSON answer.
pub(super) fn json_answer(value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value).map_err(|e| CatalogError::internal(format!("no JSON: {e}")))?;
    let mut response = Response::new(Body::from(body));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// An answer without content.
pub(super) fn no_content() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

/// Reads a request's JSON.
pub(super) fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|e| CatalogError::new(ErrorType::BadRequest, format!("the request's body can't be read: {e}")))
}

/// Gives an error its body: that of the Delta API below its path, else that of the classic API.
pub(super) fn rendered(mut response: Response, path: &str) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let error = response.extensions_mut().remove::<CatalogError>().unwrap_or_else(|| {
        // The framework's own refusals: a body that is too large, a path that is no text.
        CatalogError::new(
            ErrorType::from_status(status.as_u16()),
            format!("the request was refused with HTTP status {}", status.as_u16()),
        )
    });
    let body = if path.contains("/delta/v1/") {
        json!({"error": {"message": error.message, "type": error.error_type.name(), "code": status.as_u16()}})
    } else {
        json!({"error_code": error.error_type.classic_code(), "message": error.message, "details": []})
    };
    let mut rendered = Response::new(Body::from(body.to_string()));
    *rendered.status_mut() = status;
    let headers = rendered.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if matches!(error.error_type, ErrorType::TooManyRequests | ErrorType::Unavailable) {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if error.error_type == ErrorType::NotAuthorized {
        headers.insert("www-authenticate", HeaderValue::from_static("Bearer"));
    }
    if status.is_server_error() {
        tracing::warn!("a request failed: {error:?}");
    }
    rendered
}
