//! The clouds' HTTP client around object_store's own. It contacts a machine's metadata address only
//! where that was allowed, whatever object_store's settings would do, repeats a refused request
//! once with a newer credential where a provider has one, and shows object_store each passing
//! failure as one that it repeats. Knows addresses and headers, no store.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    ReqwestConnector,
};
use reqwest::StatusCode;

use crate::credentials::ProvidedFields;
use crate::error::{METADATA_REFUSED, says_credentials_ended};
use crate::per_process::PerProcess;
use crate::retry_limit::{self, RetryLimit};
use crate::stores::passing_failures;
use crate::traced_work::{self, RunningWork};

/// The addresses where clouds tell a machine its own identity. A container's address is not among
/// them: the platform sets it in the environment, which counts as permission.
const METADATA_HOSTS: &[&str] = &[
    "169.254.169.254",
    "[fd00:ec2::254]",
    "metadata.google.internal",
    "metadata",
];

/// Makes the clients of one store.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) metadata_allowed: bool,
    /// Signs refused requests again, where a provider gives the credentials.
    pub(super) renew: Option<Arc<dyn Renew>>,
}

/// Signs refused requests again.
#[async_trait]
pub(super) trait Renew: fmt::Debug + Send + Sync + 'static {
    /// The credential that requests are signed with now.
    async fn held(&self) -> Option<Arc<ProvidedFields>>;

    /// Signs a request again that was signed with `refused`. False if there is no other credential.
    async fn sign(&self, request: &mut HttpRequest, refused: &Arc<ProvidedFields>) -> bool;
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Guarded {
            client: shared_client(options)?,
            metadata_allowed: self.metadata_allowed,
            renew: self.renew.clone(),
            reach: Mutex::new(Reach::Untried),
        }))
    }
}

/// How long an endpoint that has never answered is asked again: long enough for a short
/// interruption, and bearable for a wrong address.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// Repetitions of a HEAD that was refused with the status of a malformed request.
const HEAD_REPEATS: u32 = 2;

/// Whether the endpoint has answered this client.
#[derive(Debug, Clone, Copy)]
enum Reach {
    Untried,
    /// No connection so far; the time of the first attempt.
    Unreached(Instant),
    Answered,
}

/// Most clients of a process; the one that was made the longest ago goes first.
const CLIENTS: usize = 16;

type Clients = Mutex<Vec<(String, HttpClient)>>;

/// The clients of this process by the text of their options: its connections can't be used by a
/// forked child.
static SHARED: PerProcess<Clients> = PerProcess::new(Clients::default, drop);

/// A client with these options. It has a pool of connections to each host, which is shared by all
/// stores with the same options: another table behind the same address needs no new connection.
fn shared_client(options: &ClientOptions) -> object_store::Result<HttpClient> {
    // The text has every option. It may have secrets, as the address of a proxy does, so it is
    // never shown.
    let key = format!("{options:?}");
    let mut clients = SHARED.get().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, client)) = clients.iter().find(|(known, _)| *known == key) {
        return Ok(client.clone());
    }
    let client = ReqwestConnector::default().connect(options)?;
    if clients.len() >= CLIENTS {
        clients.remove(0);
    }
    clients.push((key, client.clone()));
    Ok(client)
}

#[derive(Debug)]
struct Guarded {
    client: HttpClient,
    metadata_allowed: bool,
    renew: Option<Arc<dyn Renew>>,
    reach: Mutex<Reach>,
}

impl Guarded {
    /// Sends a request. A failed connection to an endpoint that has never answered becomes, after
    /// some seconds, an error that isn't repeated.
    async fn execute(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let traced = traced(&request);
        let answer = self.client.execute(request).await;
        if let Some(traced) = traced {
            note_answer(traced, &answer);
        }
        let mut reach = self.reach.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(response) => {
                *reach = Reach::Answered;
                Ok(response)
            }
            Err(e) if e.kind() == HttpErrorKind::Connect => match *reach {
                Reach::Answered => Err(e),
                Reach::Untried => {
                    *reach = Reach::Unreached(Instant::now());
                    Err(e)
                }
                Reach::Unreached(since) if since.elapsed() < FIRST_ANSWER => Err(e),
                Reach::Unreached(_) => {
                    *reach = Reach::Untried;
                    Err(HttpError::new(HttpErrorKind::Unknown, e))
                }
            },
            Err(e) => Err(e),
        }
    }

    /// Sends a request with the credentials and the answers described above.
    async fn answer(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default();
        if !self.metadata_allowed && METADATA_HOSTS.iter().any(|known| known.eq_ignore_ascii_case(host)) {
            return Err(HttpError::new(HttpErrorKind::Unknown, Refused));
        }
        // An anonymous request has no authorization header, rather than an empty one.
        let empty = |value: &[u8]| value.trim_ascii() == b"Bearer";
        if request
            .headers()
            .get("authorization")
            .is_some_and(|v| empty(v.as_bytes()))
        {
            request.headers_mut().remove("authorization");
        }
        let is_small = passing_failures::has_small_answer(request.method().as_str(), request.uri().query());
        let Some(renew) = &self.renew else {
            return passing_failures::shown(self.execute(request).await?, is_small).await;
        };
        let (mut again, signed_with) = (request.clone(), renew.held().await);
        let head = request.method().as_str() == "HEAD";
        let (response, refused) = judged(self.execute(request).await?, head).await?;
        if let Some(signed_with) = signed_with.filter(|_| refused)
            && renew.sign(&mut again, &signed_with).await
        {
            return passing_failures::shown(self.execute(again).await?, is_small).await;
        }
        passing_failures::shown(response, is_small).await
    }

    /// Sends a request, a refused HEAD several times: its answer has no body that would tell a
    /// refusal that passes from a malformed request.
    async fn repeated(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if request.method().as_str() == "HEAD" {
            for _ in 0..HEAD_REPEATS {
                let response = self.answer(request.clone()).await?;
                if response.status() != StatusCode::BAD_REQUEST {
                    return Ok(response);
                }
            }
        }
        self.answer(request).await
    }

    /// Sends a request of work that has a limit, or of work that has none. Beyond the limit,
    /// failures become errors that object_store doesn't repeat.
    async fn answer_within(&self, limit: Option<&RetryLimit>, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let began = Instant::now();
        let answer = match limit {
            None => self.repeated(request).await,
            Some(limit) => {
                let body_bytes = request.body().content_length() as u64;
                let time = limit.answer_time(body_bytes, retry_limit::failing_since(&host));
                let answer = tokio::time::timeout(time, self.repeated(request)).await;
                answer.unwrap_or_else(|late| Err(HttpError::new(HttpErrorKind::Timeout, late)))
            }
        };
        let status = answer.as_ref().ok().map(HttpResponse::status);
        let failed = status.is_none_or(|s| {
            s.is_server_error() || s == StatusCode::TOO_MANY_REQUESTS || s == StatusCode::REQUEST_TIMEOUT
        });
        let failing = retry_limit::note(&host, began, failed);
        match limit {
            Some(limit) if !limit.may_repeat(failing) => Err(HttpError::new(
                HttpErrorKind::Unknown,
                NotRepeated(status.map(|s| s.as_u16()), answer.err()),
            )),
            _ => answer,
        }
    }
}

#[async_trait]
impl HttpService for Guarded {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.answer_within(retry_limit::current().as_deref(), request).await
    }
}

/// A failure beyond the limit of its work: the status or the error of the last request.
#[derive(Debug)]
struct NotRepeated(Option<u16>, Option<HttpError>);

impl fmt::Display for NotRepeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotRepeated(_, Some(e)) => write!(f, "the store failed for too long: {e}"),
            NotRepeated(status, None) => {
                write!(
                    f,
                    "the store failed for too long, with the status {}",
                    status.unwrap_or_default()
                )
            }
        }
    }
}

impl std::error::Error for NotRepeated {}

/// Begins to note a request, if its caller traces it: no query, which may hold a signature, and no
/// header. A repeated request has the same `identity`, which a new signature changes.
fn traced(request: &HttpRequest) -> Option<RunningWork> {
    traced_work::begin_traced("request", || {
        let (uri, mut identity) = (request.uri(), DefaultHasher::new());
        (request.method(), uri).hash(&mut identity);
        for (name, value) in request.headers() {
            (name, value).hash(&mut identity);
        }
        vec![
            ("method", request.method().to_string()),
            ("scheme", uri.scheme_str().unwrap_or_default().to_owned()),
            ("host", uri.host().unwrap_or_default().to_owned()),
            ("port", uri.port_u16().map_or_else(String::new, |port| port.to_string())),
            ("path", uri.path().to_owned()),
            ("sent_bytes", request.body().content_length().to_string()),
            ("identity", identity.finish().to_string()),
        ]
    })
}

/// Notes the status of an answer, or the kind of its error.
fn note_answer(mut traced: RunningWork, answer: &Result<HttpResponse, HttpError>) {
    match answer {
        Ok(response) => {
            traced.add("status", response.status().as_u16());
            let length = response.headers().get("content-length");
            if let Some(length) = length.and_then(|length| length.to_str().ok()) {
                traced.add("received_bytes", length);
            }
        }
        Err(e) => traced.add("error", format!("{:?}", e.kind()).to_ascii_lowercase()),
    }
}

/// Whether a response says that the credential is invalid or expired. AWS reports an expired one
/// with the status of a malformed request; for a HEAD request without a body.
async fn judged(response: HttpResponse, head: bool) -> Result<(HttpResponse, bool), HttpError> {
    match response.status().as_u16() {
        401 | 403 => return Ok((response, true)),
        400 if head => return Ok((response, true)),
        400 if passing_failures::has_short_body(&response) => {}
        _ => return Ok((response, false)),
    }
    let (parts, body) = response.into_parts();
    let bytes = body.bytes().await?;
    let text = String::from_utf8_lossy(&bytes);
    let refused = says_credentials_ended(&text);
    Ok((HttpResponse::from_parts(parts, HttpResponseBody::from(bytes)), refused))
}

#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(METADATA_REFUSED)
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use object_store::client::HttpRequestBody;
    use std::time::{Duration, Instant};

    fn asked(url: &str, metadata_allowed: bool) -> String {
        crate::stores::settings::install_crypto();
        let options = ClientOptions::new()
            .with_allow_http(true)
            .with_connect_timeout(Duration::from_millis(50));
        let connector = Connector {
            metadata_allowed,
            renew: None,
        };
        let client = connector.connect(&options).unwrap();
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url.parse().unwrap();
        crate::block_on(client.execute(request)).unwrap_err().to_string()
    }

    #[test]
    fn metadata_addresses_are_not_asked() {
        let begun = Instant::now();
        for host in [
            "169.254.169.254",
            "169.254.169.254:80",
            "[fd00:ec2::254]",
            "metadata.google.internal",
            "Metadata.Google.Internal",
        ] {
            let text = asked(&format!("http://{host}/latest/api/token"), false);
            assert!(text.contains("allow_instance_metadata"), "{host}: {text}");
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        // Other addresses are contacted: on this one no server answers.
        for (host, allowed) in [("127.0.0.1:9", false), ("127.0.0.1:9", true)] {
            let text = asked(&format!("http://{host}/"), allowed);
            assert!(!text.contains("allow_instance_metadata"), "{text}");
        }
    }
}
