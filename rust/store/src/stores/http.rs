//! The clouds' HTTP client: object_store's own, which asks a machine's metadata address only where that was allowed, whatever
//! combination of settings made object_store want to.
//! Knows addresses and headers, no store; the cloud stores' files give it to their builders.

use std::fmt;

use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

use crate::error::METADATA_REFUSED;

/// Where the clouds tell a machine its own identity. A container's address is not among them: the platform gives it in the
/// environment, which is asking for it.
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
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Guarded {
            client: ReqwestConnector::default().connect(options)?,
            metadata_allowed: self.metadata_allowed,
        }))
    }
}

#[derive(Debug)]
struct Guarded {
    client: HttpClient,
    metadata_allowed: bool,
}

#[async_trait]
impl HttpService for Guarded {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default();
        if !self.metadata_allowed && METADATA_HOSTS.iter().any(|known| known.eq_ignore_ascii_case(host)) {
            return Err(HttpError::new(HttpErrorKind::Unknown, Refused));
        }
        // An anonymous request has no bearer at all, instead of an empty one.
        let empty = |value: &[u8]| value.trim_ascii() == b"Bearer";
        if request
            .headers()
            .get("authorization")
            .is_some_and(|v| empty(v.as_bytes()))
        {
            request.headers_mut().remove("authorization");
        }
        self.client.execute(request).await
    }
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
        let client = Connector { metadata_allowed }.connect(&options).unwrap();
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
        // Others are asked: here is nobody who answers.
        for (host, allowed) in [("127.0.0.1:9", false), ("127.0.0.1:9", true)] {
            let text = asked(&format!("http://{host}/"), allowed);
            assert!(!text.contains("allow_instance_metadata"), "{text}");
        }
    }
}
