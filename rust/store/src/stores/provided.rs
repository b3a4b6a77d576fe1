//! Turns a credential provider's answer into each cloud's credential, and signs requests again
//! after a refusal. Knows the fields' names and the position of a signature in a request;
//! `credentials` decides when a provider is asked.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use deltaplane_error::{Error, Result};
use object_store::CredentialProvider;
use object_store::aws::{AmazonS3ConfigKey, AwsAuthorizer, AwsCredential};
use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureConfigKey, AzureCredential};
use object_store::client::HttpRequest;
use object_store::gcp::{GcpCredential, GoogleConfigKey};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::http::Renew;
use crate::credentials::{CREDENTIAL_PROVIDER, CredentialCache, ProvidedFields};
use crate::options::Redactor;

/// A cloud's credential, built from a provider's answer.
pub(super) trait Credential: Sized + Send + Sync + fmt::Debug + 'static {
    /// Reads the fields. No error shows a value.
    fn read(provided: &ProvidedFields) -> Result<Self>;

    /// Signs a request again that was signed with `refused`. False if that is impossible.
    fn sign(&self, refused: &Self, request: &mut HttpRequest, account: &str) -> bool;
}

/// One store's view of a provider.
pub(super) struct Provided<C> {
    cache: Arc<CredentialCache>,
    redactor: Redactor,
    /// Azure's account, which its signatures include; empty elsewhere.
    account: String,
    last: Mutex<Option<(Arc<ProvidedFields>, Arc<C>)>>,
}

impl<C: Credential> Provided<C> {
    pub(super) fn new(cache: Arc<CredentialCache>, redactor: &Redactor, account: &str) -> Arc<Self> {
        Arc::new(Provided {
            cache,
            redactor: redactor.clone(),
            account: account.to_owned(),
            last: Mutex::new(None),
        })
    }

    fn read(&self, provided: &Arc<ProvidedFields>) -> Result<Arc<C>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((previous, credential)) = &*last
            && Arc::ptr_eq(previous, provided)
        {
            return Ok(Arc::clone(credential));
        }
        self.redactor
            .learn(provided.fields.iter().map(|(_, value)| value.as_str()));
        let credential = Arc::new(C::read(provided)?);
        *last = Some((Arc::clone(provided), Arc::clone(&credential)));
        Ok(credential)
    }
}

impl<C> fmt::Debug for Provided<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provided").field(&self.cache).finish()
    }
}

#[async_trait]
impl<C: Credential> CredentialProvider for Provided<C> {
    type Credential = C;

    async fn get_credential(&self) -> object_store::Result<Arc<C>> {
        let own = |e: Error| object_store::Error::Generic {
            store: CREDENTIAL_PROVIDER,
            source: Box::new(e),
        };
        let provided = self.cache.current().await.map_err(own)?;
        self.read(&provided).map_err(own)
    }
}

#[async_trait]
impl<C: Credential> Renew for Provided<C> {
    async fn held(&self) -> Option<Arc<ProvidedFields>> {
        self.cache.held().await
    }

    async fn sign(&self, request: &mut HttpRequest, refused: &Arc<ProvidedFields>) -> bool {
        let Some(provided) = self.cache.instead_of(refused).await else {
            return false;
        };
        match (C::read(refused), self.read(&provided)) {
            (Ok(refused), Ok(credential)) => credential.sign(&refused, request, &self.account),
            _ => false,
        }
    }
}

/// The value of the first field whose name `is` accepts.
fn field(provided: &ProvidedFields, is: impl Fn(&str) -> bool) -> Result<Option<String>> {
    let Some((name, value)) = provided.fields.iter().find(|(name, _)| is(name)) else {
        return Ok(None);
    };
    let value = value.trim();
    // It becomes the value of a header.
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Error::invalid_argument(format!(
            "the {CREDENTIAL_PROVIDER} gave a {name} that is empty or holds blanks or other than ASCII; give the text that the service gave"
        )));
    }
    Ok(Some(value.to_owned()))
}

fn lacking(wanted: &str, provided: &ProvidedFields) -> Error {
    let names: Vec<&str> = provided.fields.iter().map(|(name, _)| name.as_str()).collect();
    Error::invalid_argument(format!(
        "the {CREDENTIAL_PROVIDER} has to give {wanted} here; it gave {}",
        if names.is_empty() {
            "nothing".to_owned()
        } else {
            names.join(", ")
        }
    ))
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) -> bool {
    let value = HeaderValue::from_str(value).map(|mut value| {
        value.set_sensitive(true);
        value
    });
    value.is_ok_and(|value| {
        headers.insert(name, value);
        true
    })
}

impl Credential for AwsCredential {
    fn read(provided: &ProvidedFields) -> Result<Self> {
        let field_of = |key: AmazonS3ConfigKey| field(provided, |name| name.parse().ok() == Some(key));
        let (id, secret) = (
            field_of(AmazonS3ConfigKey::AccessKeyId)?,
            field_of(AmazonS3ConfigKey::SecretAccessKey)?,
        );
        let (Some(key_id), Some(secret_key)) = (id, secret) else {
            return Err(lacking(
                "access_key_id and secret_access_key (and session_token)",
                provided,
            ));
        };
        Ok(AwsCredential {
            key_id,
            secret_key,
            token: field_of(AmazonS3ConfigKey::Token)?,
        })
    }

    /// Region, service and the body's digest are taken from the old signature.
    fn sign(&self, _: &Self, request: &mut HttpRequest, _: &str) -> bool {
        const DIGEST: &str = "x-amz-content-sha256";
        let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let Some((region, service)) = text(AUTHORIZATION.as_str()).and_then(scope) else {
            return false;
        };
        let digest = text(DIGEST).map(str::to_owned);
        for name in [AUTHORIZATION.as_str(), "x-amz-security-token", "x-amz-date"] {
            request.headers_mut().remove(name);
        }
        let unsigned = digest.as_deref() == Some("UNSIGNED-PAYLOAD");
        let known = digest.as_deref().and_then(bytes_of_hex);
        AwsAuthorizer::new(self, &service, &region)
            .with_sign_payload(!unsigned)
            .try_authorize(request, known.as_deref())
            .is_ok()
    }
}

/// The region and service in `AWS4-HMAC-SHA256 Credential=ID/DATE/REGION/SERVICE/aws4_request, …`.
fn scope(authorization: &str) -> Option<(String, String)> {
    let (_, credential) = authorization.split_once("Credential=")?;
    let mut parts = credential.split(',').next()?.rsplit('/').skip(1);
    let (service, region) = (parts.next()?, parts.next()?);
    Some((region.to_owned(), service.to_owned()))
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|index| u8::from_str_radix(text.get(index..index + 2)?, 16).ok())
        .collect()
}

impl Credential for AzureCredential {
    fn read(provided: &ProvidedFields) -> Result<Self> {
        let field_of = |key: AzureConfigKey| field(provided, |name| name.parse().ok() == Some(key));
        let token = match field_of(AzureConfigKey::Token)? {
            None => field(provided, is_token)?,
            token => token,
        };
        if let Some(token) = token {
            return Ok(AzureCredential::BearerToken(token));
        }
        if let Some(sas) = field_of(AzureConfigKey::SasKey)? {
            let pairs = url::form_urlencoded::parse(sas.trim_start_matches('?').as_bytes());
            let pairs: Vec<_> = pairs.into_owned().collect();
            return match pairs.iter().any(|(name, _)| name == "sig") {
                true => Ok(AzureCredential::SASToken(pairs)),
                false => Err(lacking("a sas_token with a signature (sig=…)", provided)),
            };
        }
        if let Some(key) = field_of(AzureConfigKey::AccessKey)? {
            return AzureAccessKey::try_new(&key)
                .map(AzureCredential::AccessKey)
                .map_err(|_| lacking("an account_key in base 64", provided));
        }
        Err(lacking("a token, a sas_token or an account_key", provided))
    }

    fn sign(&self, refused: &Self, request: &mut HttpRequest, account: &str) -> bool {
        request.headers_mut().remove(AUTHORIZATION);
        if let AzureCredential::SASToken(old) = refused
            && !without(request, old)
        {
            return false;
        }
        AzureAuthorizer::new(self, account).try_authorize(request).is_ok()
    }
}

/// Removes a shared-access token from a request's query.
fn without(request: &mut HttpRequest, sas: &[(String, String)]) -> bool {
    let Ok(mut url) = url::Url::parse(&request.uri().to_string()) else {
        return false;
    };
    let others: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| !sas.iter().any(|(known, _)| known == name))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.set_query(None);
    if !others.is_empty() {
        url.query_pairs_mut().extend_pairs(others);
    }
    match url.as_str().parse() {
        Ok(uri) => {
            *request.uri_mut() = uri;
            true
        }
        Err(_) => false,
    }
}

/// The names of a bearer token.
fn is_token(name: &str) -> bool {
    matches!(name, "token" | "access_token" | "bearer_token")
}

impl Credential for GcpCredential {
    fn read(provided: &ProvidedFields) -> Result<Self> {
        let wanted = |name: &str| is_token(name) || name.parse().ok() == Some(GoogleConfigKey::BearerToken);
        let bearer = field(provided, wanted)?;
        let bearer = bearer.ok_or_else(|| lacking("a token", provided))?;
        Ok(GcpCredential { bearer })
    }

    fn sign(&self, _: &Self, request: &mut HttpRequest, _: &str) -> bool {
        insert(request.headers_mut(), AUTHORIZATION, &format!("Bearer {}", self.bearer))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use deltaplane_error::Kind;
    use object_store::client::HttpRequestBody;

    fn provided(fields: &[(&str, &str)]) -> ProvidedFields {
        ProvidedFields {
            fields: fields.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
            expires_ms: None,
        }
    }

    fn request(url: &str) -> HttpRequest {
        let mut request = HttpRequest::new(HttpRequestBody::from("body".to_owned()));
        *request.uri_mut() = url.parse().unwrap();
        request
    }

    fn header<'a>(request: &'a HttpRequest, name: &str) -> &'a str {
        request.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[test]
    fn fields_have_the_names_of_the_options() {
        for names in [
            ["access_key_id", "secret_access_key", "session_token"],
            ["aws_access_key_id", "aws_secret_access_key", "token"],
        ] {
            let [id, secret, token] = names;
            let read = AwsCredential::read(&provided(&[(id, "a"), (secret, "b"), (token, "c")])).unwrap();
            assert_eq!(
                (read.key_id, read.secret_key, read.token),
                ("a".into(), "b".into(), Some("c".into()))
            );
        }
        for name in ["token", "access_token", "bearer_token", "azure_storage_token"] {
            let read = AzureCredential::read(&provided(&[(name, "x")])).unwrap();
            assert_eq!(read, AzureCredential::BearerToken("x".into()));
        }
        let read = AzureCredential::read(&provided(&[("sas_token", "?sv=1&sig=a%2Bb")])).unwrap();
        assert_eq!(
            read,
            AzureCredential::SASToken(vec![("sv".into(), "1".into()), ("sig".into(), "a+b".into())])
        );
        assert!(AzureCredential::read(&provided(&[("account_key", "aHVudGVyMg==")])).is_ok());
        for name in ["token", "google_bearer_token"] {
            assert_eq!(GcpCredential::read(&provided(&[(name, "x")])).unwrap().bearer, "x");
        }
    }

    #[test]
    fn what_is_no_credential_is_refused_without_its_value() {
        let bad = provided(&[
            ("secret_access_key", "hunter2"),
            ("account_key", "hunter2!"),
            ("sas_token", "hunter2"),
        ]);
        let split = provided(&[
            ("token", "hunter2\r\nx: y"),
            ("access_key_id", "é"),
            ("secret_access_key", "hunter2"),
        ]);
        for provided in [bad, split, provided(&[])] {
            let errors = [
                AwsCredential::read(&provided).map(|_| ()),
                AzureCredential::read(&provided).map(|_| ()),
                GcpCredential::read(&provided).map(|_| ()),
            ];
            for e in errors.map(Result::unwrap_err) {
                assert_eq!(e.kind(), Kind::InvalidArgument);
                assert!(!e.to_string().contains("hunter2"), "{e}");
            }
        }
    }

    #[test]
    fn a_request_of_s3_is_signed_for_the_same_region_service_and_body() {
        let credential = |id: &str, token: Option<&str>| AwsCredential {
            key_id: id.into(),
            secret_key: "s".into(),
            token: token.map(str::to_owned),
        };
        let (old, new) = (credential("OLD", Some("old-token")), credential("NEW", None));
        for signed in [true, false] {
            let mut again = request("http://127.0.0.1:1/bucket/key?list-type=2");
            let signer = AwsAuthorizer::new(&old, "s3", "eu-west-3").with_sign_payload(signed);
            signer.try_authorize(&mut again, None).unwrap();
            let digest = header(&again, "x-amz-content-sha256").to_owned();
            assert!(new.sign(&old, &mut again, ""));
            let signature = header(&again, "authorization");
            assert!(
                signature.contains("Credential=NEW/") && signature.contains("/eu-west-3/s3/"),
                "{signature}"
            );
            assert!(!signature.contains("security-token"), "{signature}");
            assert_eq!(header(&again, "x-amz-content-sha256"), digest);
            assert_eq!(header(&again, "x-amz-security-token"), "");
        }
        // An unsigned request stays unsigned.
        assert!(!new.sign(&old, &mut request("http://127.0.0.1:1/b"), ""));
    }

    #[test]
    fn a_shared_access_token_gives_its_place_to_the_next_credential() {
        let sas = |text: &str| AzureCredential::read(&provided(&[("sas_token", text)])).unwrap();
        let (old, new) = (sas("sv=1&sig=old&se=2020"), sas("sv=2&sig=new"));
        let mut again = request("http://127.0.0.1:1/a/c?restype=container&comp=list&prefix=a%2Fb");
        AzureAuthorizer::new(&old, "a").try_authorize(&mut again).unwrap();
        assert!(again.uri().to_string().contains("sig=old"));
        assert!(new.sign(&old, &mut again, "a"));
        let uri = again.uri().to_string();
        assert!(
            uri.contains("sig=new") && !uri.contains("old") && !uri.contains("se=2020"),
            "{uri}"
        );
        assert!(uri.contains("restype=container&comp=list&prefix=a%2Fb"), "{uri}");
        let bearer = AzureCredential::BearerToken("t".into());
        assert!(bearer.sign(&new, &mut again, "a"));
        assert_eq!(header(&again, "authorization"), "Bearer t");
        assert!(!again.uri().to_string().contains("sig="), "{}", again.uri());
    }
}
