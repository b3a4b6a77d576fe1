//! Requests to a catalog's server: token, timeouts, bounded answers, and repetition where it is
//! harmless.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::Extensions;
use crate::api::extensions::HEADER;
use crate::client::{ClientOptions, Token};
use crate::error::{CatalogError, ErrorType, Result};
use crate::limits::MAX_ANSWER_BYTES;
use crate::secret::Secret;

/// The APIs' root on every server.
const ROOT: &str = "/api/2.1/unity-catalog/";
/// The most bytes of an error's answer that are read.
const MAX_ERROR_BYTES: usize = 1 << 16;
/// The most characters of a server's message that are repeated.
const MAX_MESSAGE: usize = 2_000;
/// The longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Bytes that a part of a path may have unescaped.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The parameters of a query.
pub(super) type Query = Vec<(&'static str, String)>;

/// Whether a request may be repeated after an unclear failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Only if it certainly did not arrive.
    Once,
    /// Always: repeating it changes nothing.
    Again,
}

/// Escapes a name for a path.
pub(super) fn segment(name: &str) -> String {
    utf8_percent_encode(name, SEGMENT).to_string()
}

pub(super) struct Http {
    client: reqwest::Client,
    root: Url,
    token: Token,
    /// The provided token that is in use.
    current: Mutex<Option<Secret>>,
    attempts: u32,
    pause: Duration,
}

/// A request as it is sent, possibly several times.
struct Request<'a> {
    method: Method,
    path: &'a str,
    query: &'a Query,
    body: Option<Vec<u8>>,
    extensions: Extensions,
    sent: Sent,
}

impl Http {
    pub(super) fn new(url: &str, token: Token, options: &ClientOptions) -> Result<Self> {
        // The URL may have a password: messages don't repeat it.
        let bad = || CatalogError::invalid("a catalog's URL must be like https://host or http://host:port");
        let mut root = Url::parse(url.trim()).map_err(|_| bad())?;
        if !matches!(root.scheme(), "http" | "https") || root.host_str().is_none() {
            return Err(bad());
        }
        if !root.username().is_empty() || root.password().is_some() {
            return Err(CatalogError::invalid(
                "a catalog's URL must not contain a password: give a token",
            ));
        }
        root.set_query(None);
        root.set_fragment(None);
        let path = root.path().trim_end_matches('/').to_owned();
        let path = path
            .strip_suffix(ROOT.trim_end_matches('/'))
            .unwrap_or(&path)
            .to_owned();
        root.set_path(&format!("{path}{ROOT}"));
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // Another thread may have installed it in the meantime.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let client = reqwest::Client::builder()
            .timeout(options.timeout)
            .connect_timeout(options.connect_timeout)
            // A redirected POST would become a GET, and its token would leave the server.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .user_agent(concat!("deltaplane/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| CatalogError::internal(format!("no HTTP client: {e}")))?;
        Ok(Http {
            client,
            root,
            token,
            current: Mutex::default(),
            attempts: options.attempts.max(1),
            pause: options.pause,
        })
    }

    /// The server's origin.
    pub(super) fn describe(&self) -> String {
        format!("the catalog at {}", self.root.origin().ascii_serialization())
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &Query,
        extensions: Extensions,
    ) -> Result<T> {
        let answer = self
            .send(&Request {
                method: Method::GET,
                path,
                query,
                body: None,
                extensions,
                sent: Sent::Again,
            })
            .await?;
        self.parse(&answer)
    }

    /// A GET with a body, as the older endpoint for commits has it.
    pub(super) async fn get_with_body<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T> {
        let answer = self
            .send(&self.with_body(Method::GET, path, body, Extensions::default(), Sent::Again)?)
            .await?;
        self.parse(&answer)
    }

    pub(super) async fn head(&self, path: &str) -> Result<()> {
        self.send(&Request {
            method: Method::HEAD,
            path,
            query: &Vec::new(),
            body: None,
            extensions: Extensions::default(),
            sent: Sent::Again,
        })
        .await
        .map(|_| ())
    }

    pub(super) async fn delete(&self, path: &str, query: &Query) -> Result<()> {
        self.send(&Request {
            method: Method::DELETE,
            path,
            query,
            body: None,
            extensions: Extensions::default(),
            sent: Sent::Once,
        })
        .await
        .map(|_| ())
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        extensions: Extensions,
        sent: Sent,
    ) -> Result<T> {
        let answer = self
            .send(&self.with_body(Method::POST, path, body, extensions, sent)?)
            .await?;
        self.parse(&answer)
    }

    /// A POST whose answer has no content.
    pub(super) async fn post_unanswered(&self, path: &str, body: &impl Serialize) -> Result<()> {
        self.send(&self.with_body(Method::POST, path, body, Extensions::default(), Sent::Once)?)
            .await
            .map(|_| ())
    }

    fn with_body<'a>(
        &self,
        method: Method,
        path: &'a str,
        body: &impl Serialize,
        extensions: Extensions,
        sent: Sent,
    ) -> Result<Request<'a>> {
        const EMPTY: &Query = &Vec::new();
        let body = serde_json::to_vec(body).map_err(|e| CatalogError::internal(format!("no JSON: {e}")))?;
        Ok(Request {
            method,
            path,
            query: EMPTY,
            body: Some(body),
            extensions,
            sent,
        })
    }

    fn parse<T: DeserializeOwned>(&self, answer: &[u8]) -> Result<T> {
        serde_json::from_slice(answer).map_err(|e| {
            CatalogError::new(
                ErrorType::InvalidAnswer,
                format!("an answer of {} can't be read: {e}", self.describe()),
            )
        })
    }

    /// Sends a request, again where that is harmless, and returns the answer's body.
    async fn send(&self, request: &Request<'_>) -> Result<Vec<u8>> {
        let mut pause = self.pause;
        let mut renewed = false;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let token = self.token()?;
            let failure = match self.send_once(request, token.as_ref()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.error.error_type == ErrorType::NotAuthorized && !renewed && self.renew() {
                renewed = true;
                continue;
            }
            let again = failure.not_sent || failure.throttled || (request.sent == Sent::Again && failure.passing);
            if !again || attempt >= self.attempts {
                return Err(failure.error);
            }
            let spread = pause.mul_f64(rand::random_range(0.5..1.5));
            tokio::time::sleep(failure.retry_after.unwrap_or(spread).min(MAX_PAUSE)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn token(&self) -> Result<Option<Secret>> {
        match &self.token {
            Token::Absent => Ok(None),
            Token::Fixed(token) => Ok(Some(token.clone())),
            Token::Provided(provide) => {
                let known = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(token) = known {
                    return Ok(Some(token));
                }
                let token = provide()?;
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
                Ok(Some(token))
            }
        }
    }

    /// Whether another token can be asked for.
    fn renew(&self) -> bool {
        let provided = matches!(self.token, Token::Provided(_));
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = None;
        provided
    }

    async fn send_once(&self, request: &Request<'_>, token: Option<&Secret>) -> Result<Vec<u8>, Failure> {
        // URLs resolve a part of dots as a folder, even if it is escaped.
        if request.path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(Failure::lasting(CatalogError::invalid(format!(
                "a name in {} is empty or consists of dots",
                request.path
            ))));
        }
        let mut url = self
            .root
            .join(request.path)
            .map_err(|e| Failure::lasting(CatalogError::internal(format!("no URL: {e}"))))?;
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(request.query);
        }
        let mut builder = self.client.request(request.method.clone(), url);
        if let Some(token) = token {
            let mut header = HeaderValue::from_str(&format!("Bearer {}", token.expose())).map_err(|_| {
                Failure::lasting(CatalogError::invalid(
                    "the token has characters that no header may have",
                ))
            })?;
            header.set_sensitive(true);
            builder = builder.header(AUTHORIZATION, header);
        }
        if request.extensions != Extensions::default() {
            builder = builder.header(HEADER, request.extensions.names().join(","));
        }
        if let Some(body) = &request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let response = builder.send().await.map_err(|e| self.lost(&e))?;
        if response.status().is_success() {
            return self.body(response, MAX_ANSWER_BYTES).await;
        }
        Err(self.refused(response, token).await)
    }

    /// Reads an answer up to a limit.
    async fn body(&self, mut response: Response, most: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.lost(&e))? {
            if body.len() + chunk.len() > most {
                return Err(Failure::lasting(CatalogError::new(
                    ErrorType::InvalidAnswer,
                    format!("an answer of {} has more than {most} bytes", self.describe()),
                )));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    /// A request without an answer.
    fn lost(&self, error: &reqwest::Error) -> Failure {
        let why = match error {
            e if e.is_connect() => "can't be reached",
            e if e.is_timeout() => "didn't answer in time",
            _ => "broke the connection",
        };
        Failure {
            error: CatalogError::new(ErrorType::Unavailable, format!("{} {why}", self.describe())),
            not_sent: error.is_connect(),
            throttled: false,
            passing: true,
            retry_after: None,
        }
    }

    /// An answer other than success.
    async fn refused(&self, response: Response, token: Option<&Secret>) -> Failure {
        let status = response.status();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let body = self.body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let (kind, message) = explain(status, &body);
        let mut message: String = message.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect();
        if let Some(token) = token {
            message = message.replace(token.expose(), "…");
        }
        if kind == ErrorType::NotAuthorized {
            message = format!("{} refuses the token: {message}", self.describe());
        }
        Failure {
            error: CatalogError::new(kind, message),
            not_sent: false,
            throttled: kind == ErrorType::TooManyRequests,
            passing: status.is_server_error() && kind != ErrorType::NotImplemented,
            retry_after,
        }
    }
}

/// Type and message of an error's answer, in the form of either API.
fn explain(status: StatusCode, body: &[u8]) -> (ErrorType, String) {
    let kind = ErrorType::from_status(status.as_u16());
    let fallback = || format!("the server answered with HTTP status {}", status.as_u16());
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return (kind, fallback());
    };
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(error) = body.get("error").filter(|error| error.is_object()) {
        let named = text(error, "type").and_then(|name| ErrorType::from_name(&name));
        // A type that contradicts the status would make a failure look harmless.
        let named = named.filter(|named| named.status() / 100 == status.as_u16() / 100);
        return (named.unwrap_or(kind), text(error, "message").unwrap_or_else(fallback));
    }
    let code = text(&body, "error_code");
    let named = code.as_deref().and_then(|code| match code {
        "CATALOG_NOT_FOUND" => Some(ErrorType::NoSuchCatalog),
        "SCHEMA_NOT_FOUND" => Some(ErrorType::NoSuchSchema),
        "TABLE_NOT_FOUND" => Some(ErrorType::NoSuchTable),
        "ALREADY_EXISTS" | "CATALOG_ALREADY_EXISTS" | "SCHEMA_ALREADY_EXISTS" | "TABLE_ALREADY_EXISTS" => {
            Some(ErrorType::AlreadyExists)
        }
        "COMMIT_VERSION_CONFLICT" => Some(ErrorType::CommitVersionConflict),
        "UPDATE_REQUIREMENT_CONFLICT" => Some(ErrorType::UpdateRequirementConflict),
        "RESOURCE_EXHAUSTED" => Some(ErrorType::ResourceExhausted),
        "INVALID_ARGUMENT" => Some(ErrorType::InvalidParameterValue),
        _ => None,
    });
    let named = named.filter(|named| named.status() / 100 == status.as_u16() / 100);
    (named.unwrap_or(kind), text(&body, "message").unwrap_or_else(fallback))
}

struct Failure {
    error: CatalogError,
    /// The request certainly did not arrive.
    not_sent: bool,
    /// The server refused the request unread.
    throttled: bool,
    /// Another attempt may succeed.
    passing: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    fn lasting(error: CatalogError) -> Self {
        Failure {
            error,
            not_sent: false,
            throttled: false,
            passing: false,
            retry_after: None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn root(url: &str) -> Result<String> {
        Http::new(url, Token::Absent, &ClientOptions::default()).map(|http| http.root.to_string())
    }

    #[test]
    fn urls_lead_to_the_root_of_the_apis() {
        let expected = "https://h/api/2.1/unity-catalog/";
        for url in [
            "https://h",
            "https://h/",
            "https://h/api/2.1/unity-catalog",
            "https://h/api/2.1/unity-catalog/?x#y",
        ] {
            assert_eq!(root(url).unwrap(), expected, "{url}");
        }
        assert_eq!(root("http://h:8/p").unwrap(), "http://h:8/p/api/2.1/unity-catalog/");
        for url in ["h", "ftp://h", "https://user:pass@h", ""] {
            let e = root(url).unwrap_err();
            assert!(!e.message.contains("pass@"), "{e}");
        }
    }

    #[tokio::test]
    async fn names_stay_within_their_part_of_the_path() {
        let http = Http::new("http://h", Token::Absent, &ClientOptions::default()).unwrap();
        for name in ["a/../../x", "a?b#c", "a%2Fb", "a'; DROP", "ü", "%2E%2E"] {
            let url = http
                .root
                .join(&format!("delta/v1/catalogs/{}/x", segment(name)))
                .unwrap();
            let path = url
                .path()
                .strip_prefix("/api/2.1/unity-catalog/delta/v1/catalogs/")
                .unwrap_or_default();
            assert_eq!(path.split('/').count(), 2, "{name}: {url}");
            assert_eq!((url.query(), url.fragment()), (None, None), "{url}");
        }
        for name in ["..", ".", ""] {
            let e = http
                .delete(&format!("catalogs/{}", segment(name)), &Vec::new())
                .await
                .unwrap_err();
            assert_eq!(e.error_type, ErrorType::InvalidParameterValue, "{name}");
        }
    }

    #[test]
    fn answers_of_both_apis_are_understood_and_contradictions_are_not_believed() {
        let kind = |status: u16, body: &str| explain(StatusCode::from_u16(status).unwrap(), body.as_bytes()).0;
        let v1 = r#"{"error":{"message":"m","type":"CommitVersionConflictException","code":409}}"#;
        assert_eq!(kind(409, v1), ErrorType::CommitVersionConflict);
        // A failure of the server is never a lost race.
        assert_eq!(kind(500, v1), ErrorType::InternalServerError);
        assert_eq!(
            kind(404, r#"{"error_code":"TABLE_NOT_FOUND","message":"m"}"#),
            ErrorType::NoSuchTable
        );
        assert_eq!(kind(429, "{}"), ErrorType::TooManyRequests);
        assert_eq!(kind(503, "<html>"), ErrorType::Unavailable);
        assert_eq!(kind(409, r#"{"error":"text"}"#), ErrorType::UpdateRequirementConflict);
    }
}
