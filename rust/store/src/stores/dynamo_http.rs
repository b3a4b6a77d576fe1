//! Requests to DynamoDB: signed, sent and repeated within bounds, with the credentials of the S3
//! store or its own. Knows the service's protocol and errors; `dynamo_items` knows the items.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpClient, HttpErrorKind, HttpRequest, HttpRequestBody};
use object_store::{CredentialProvider, HeaderValue, RetryConfig};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;

use crate::error;
use crate::options::Redactor;
use crate::retry;

const TARGET: &str = "x-amz-target";
const VERSION: &str = "DynamoDB_20120810";
/// The back-off doubles at most this often; more attempts wait as long.
const LONGEST: u32 = 6;

/// A client of one region's DynamoDB.
pub(super) struct Http {
    pub(super) client: HttpClient,
    pub(super) endpoint: String,
    pub(super) region: String,
    pub(super) credentials: Arc<dyn CredentialProvider<Credential = AwsCredential>>,
    pub(super) retry: RetryConfig,
    pub(super) redactor: Redactor,
}

/// DynamoDB's answer.
pub(super) enum Answer {
    Done(Value),
    /// The request was understood and refused.
    Refused(Refusal),
}

/// An error of DynamoDB, by its name.
pub(super) struct Refusal {
    pub(super) name: String,
    message: String,
}

/// An attempt without an answer.
#[derive(Default)]
struct Failure {
    what: String,
    /// Whether the request may have been carried out.
    arrived: bool,
    /// Why there is no credential to sign with: the next attempt would fail alike.
    unsigned: Option<Error>,
}

impl From<String> for Failure {
    /// A failure before anything was sent.
    fn from(what: String) -> Self {
        Failure {
            what,
            ..Failure::default()
        }
    }
}

impl Http {
    /// Sends a request until it is answered. After `StoreUnavailable` it may have been carried out;
    /// after any other error it wasn't.
    pub(super) async fn send(&self, action: &str, request: &Value) -> Result<Answer> {
        let body = Bytes::from(request.to_string());
        let began = Instant::now();
        let mut unclear = false;
        let mut attempt = 0;
        loop {
            let failure = match self.attempt(action, body.clone()).await {
                Ok(Answer::Refused(refusal)) if refusal.passes() => Failure {
                    what: format!("{}: {}", refusal.name, refusal.message),
                    arrived: refusal.name == "InternalServerError",
                    unsigned: None,
                },
                Ok(Answer::Refused(refusal)) if unclear && refusal.denies() => {
                    return Err(self.unavailable(action, &refusal.message));
                }
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            unclear |= failure.arrived;
            if let Some(e) = failure.unsigned.filter(|_| !unclear) {
                return Err(e);
            }
            let tried = usize::try_from(attempt).unwrap_or(usize::MAX);
            if tried >= self.retry.max_retries || began.elapsed() >= self.retry.retry_timeout {
                return Err(self.unavailable(action, &failure.what));
            }
            tokio::time::sleep(self.pause(attempt)).await;
            attempt = attempt.saturating_add(1);
        }
    }

    fn pause(&self, attempt: u32) -> Duration {
        retry::pause(attempt.min(LONGEST)).min(self.retry.backoff.max_backoff)
    }

    async fn attempt(&self, action: &str, body: Bytes) -> Result<Answer, Failure> {
        let request = self.signed(action, body).await?;
        let lost = |e: object_store::client::HttpError| Failure {
            arrived: e.kind() != HttpErrorKind::Connect,
            what: words(&e),
            unsigned: None,
        };
        let response = self.client.execute(request).await.map_err(lost)?;
        let status = response.status().as_u16();
        let bytes = response.into_body().bytes().await.map_err(lost)?;
        let value: Option<Value> = serde_json::from_slice(&bytes).ok();
        match (status, value) {
            (200, Some(value)) => Ok(Answer::Done(value)),
            (400..=499, Some(value)) => Ok(Answer::Refused(Refusal::from(&value))),
            _ => Err(Failure {
                what: format!("HTTP status {status}"),
                arrived: true,
                unsigned: None,
            }),
        }
    }

    async fn signed(&self, action: &str, body: Bytes) -> Result<HttpRequest, Failure> {
        let credential = self.credentials.get_credential().await.map_err(|e| Failure {
            what: e.to_string(),
            arrived: false,
            unsigned: error::own(&e, &self.redactor),
        })?;
        let mut request = HttpRequest::new(HttpRequestBody::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self
            .endpoint
            .parse()
            .map_err(|_| Failure::from("the endpoint of DynamoDB is no URL".to_owned()))?;
        let target = HeaderValue::from_str(&format!("{VERSION}.{action}")).map_err(|e| Failure::from(e.to_string()))?;
        request.headers_mut().insert(TARGET, target);
        let json = HeaderValue::from_static("application/x-amz-json-1.0");
        request.headers_mut().insert(CONTENT_TYPE, json);
        AwsAuthorizer::new(&credential, "dynamodb", &self.region)
            .try_authorize(&mut request, None)
            .map_err(|e| Failure::from(e.to_string()))?;
        Ok(request)
    }

    fn unavailable(&self, action: &str, what: &str) -> Error {
        Error::new(
            Kind::StoreUnavailable,
            format!(
                "DynamoDB didn't answer {action} at {}; check the endpoint and the network, then try again: {}",
                self.endpoint,
                error::short(&self.redactor.scrub(what))
            ),
        )
    }

    /// Converts a refusal to an error.
    pub(super) fn refusal(&self, action: &str, table: &str, refusal: &Refusal) -> Error {
        let detail = error::short(&self.redactor.scrub(&format!("{}: {}", refusal.name, refusal.message)));
        let (kind, what) = match refusal.name.as_str() {
            "ResourceNotFoundException" => (
                Kind::InvalidArgument,
                format!(
                    "there is no lock table {table} in {}; create it with the string keys tablePath (HASH) and fileName (RANGE), or name another with the option delta_dynamo_table_name",
                    self.region
                ),
            ),
            _ if refusal.denies() => (
                Kind::StoreDenied,
                format!("DynamoDB refused {action} on the lock table {table}; check credentials and rights"),
            ),
            _ => (
                Kind::InvalidArgument,
                format!(
                    "DynamoDB rejected {action} on the lock table {table}; is it one of delta commits, with the string keys tablePath and fileName?"
                ),
            ),
        };
        Error::new(kind, format!("{what}: {detail}"))
    }
}

impl Refusal {
    fn from(value: &Value) -> Self {
        let text = |names: [&str; 2]| {
            names
                .iter()
                .find_map(|name| value.get(*name)?.as_str())
                .unwrap_or_default()
        };
        let name = text(["__type", "code"]);
        Refusal {
            name: name.rsplit('#').next().unwrap_or(name).to_owned(),
            message: text(["message", "Message"]).to_owned(),
        }
    }

    /// Whether the same request may succeed later.
    fn passes(&self) -> bool {
        const PASSING: &[&str] = &[
            "ProvisionedThroughputExceededException",
            "ThrottlingException",
            "Throttling",
            "RequestLimitExceeded",
            "TransactionInProgressException",
            "InternalServerError",
            "ServiceUnavailable",
        ];
        PASSING.contains(&self.name.as_str())
    }

    fn denies(&self) -> bool {
        const DENYING: &[&str] = &[
            "AccessDeniedException",
            "UnrecognizedClientException",
            "InvalidSignatureException",
            "IncompleteSignature",
            "IncompleteSignatureException",
            "MissingAuthenticationTokenException",
            "MissingAuthenticationToken",
            "InvalidClientTokenId",
            "SignatureDoesNotMatch",
            "ExpiredTokenException",
            "ExpiredToken",
            "OptInRequired",
        ];
        DENYING.contains(&self.name.as_str())
    }
}

/// The messages of an error and its causes.
fn words(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_are_known_by_the_last_part_of_their_type() {
        let error_of = |name: &str| {
            Refusal::from(&json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{name}"), "message": "m"}))
        };
        assert!(error_of("ThrottlingException").passes() && !error_of("ThrottlingException").denies());
        assert!(error_of("ExpiredTokenException").denies() && !error_of("ExpiredTokenException").passes());
        assert_eq!(
            error_of("ConditionalCheckFailedException").name,
            "ConditionalCheckFailedException"
        );
        assert_eq!(Refusal::from(&json!([])).name, "");
    }
}
