//! Options and environment of one cloud store, merged: explicit options win, as whole groups. Knows
//! how settings combine, not their meaning.

use std::collections::HashMap;
use std::hash::Hash;
use std::str::FromStr;
use std::sync::{Arc, Once};

use deltaplane_error::{Error, Kind, Result};

use super::ALLOW_INSTANCE_METADATA;
use super::http::{Connector, Renew};
use super::provided::{Credential, Provided};
use crate::credentials::{self, CREDENTIAL_PROVIDER, CredentialCache};
use crate::options::{Options, Redactor, flag};

/// Longer than any reachable store takes to accept a connection, and short enough to wait for.
pub(super) const CONNECT_TIMEOUT: &str = "5s";
/// Enough for one part of an upload on a slow line.
pub(super) const REQUEST_TIMEOUT: &str = "30s";

pub(super) struct Settings<K> {
    explicit: HashMap<K, String>,
    environment: HashMap<K, String>,
    metadata_allowed: bool,
    provider: Option<String>,
    cache: Option<Arc<CredentialCache>>,
    pub(super) redactor: Redactor,
}

impl<K: FromStr + Eq + Hash + Copy> Settings<K> {
    /// The options that this store knows, and the environment variables with the store's prefix.
    pub(super) fn new(options: &Options, environment: &[(String, String)], prefix: &str) -> Result<Self> {
        let known = |(key, value): (&str, &str)| Some((key.parse().ok()?, value.to_owned()));
        let own = |(key, value): &(String, String)| {
            key.starts_with(prefix)
                .then(|| (key.to_ascii_lowercase(), value.clone()))
        };
        let environment: Vec<_> = environment.iter().filter_map(own).collect();
        let variables = environment.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        Ok(Settings {
            explicit: options.iter().filter_map(known).collect(),
            redactor: Redactor::new(options.iter().chain(variables.clone())),
            environment: variables.filter_map(known).collect(),
            provider: options
                .get(CREDENTIAL_PROVIDER)
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
            cache: None,
            metadata_allowed: flag(
                ALLOW_INSTANCE_METADATA,
                options.get(ALLOW_INSTANCE_METADATA).unwrap_or("false"),
            )?,
        })
    }

    /// If an option gives one of these, the environment's values of all of them are dropped: a
    /// session token of the environment must not be sent along with the options' keys.
    pub(super) fn as_a_group(&mut self, keys: &[K]) {
        if keys.iter().any(|key| self.explicit.contains_key(key)) {
            self.environment.retain(|key, _| !keys.contains(key));
        }
    }

    /// If the options name a credential provider, it replaces all of these.
    pub(super) fn ask_the_provider(&mut self, keys: &[K]) -> Result<()> {
        let Some(provider) = &self.provider else {
            return Ok(());
        };
        if keys.iter().any(|key| self.explicit.contains_key(key)) {
            return Err(Error::invalid_argument(format!(
                "the storage options hold credentials and a {CREDENTIAL_PROVIDER}; give one of the two"
            )));
        }
        self.environment.retain(|key, _| !keys.contains(key));
        self.cache = Some(credentials::of(provider)?);
        Ok(())
    }

    /// The named provider's credentials. `account` is Azure's.
    pub(super) fn provided<C: Credential>(&self, account: &str) -> Option<Arc<Provided<C>>> {
        let cache = self.cache.as_ref()?;
        Some(Provided::new(Arc::clone(cache), &self.redactor, account))
    }

    /// Refuses values from which no request can be built.
    ///
    /// # Errors
    /// `InvalidArgument`, which names the option and shows no secret.
    pub(super) fn check_values(&self) -> Result<()>
    where
        K: AsRef<str>,
    {
        let mut values: Vec<_> = self
            .pairs()
            .map(|(key, value)| (key.as_ref().to_ascii_lowercase(), value))
            .collect();
        values.sort();
        values.iter().try_for_each(|(name, value)| check_value(name, value))
    }

    /// Sets a value unless options or environment have one.
    pub(super) fn default(&mut self, key: K, value: &str) {
        if !self.has(key) {
            self.environment.insert(key, value.to_owned());
        }
    }

    pub(super) fn get(&self, key: K) -> Option<&str> {
        let value = self.explicit.get(&key).or(self.environment.get(&key));
        value.map(String::as_str)
    }

    /// Whether there is a value that isn't empty.
    pub(super) fn has(&self, key: K) -> bool {
        self.get(key).is_some_and(|value| !value.is_empty())
    }

    pub(super) fn all(&self, keys: &[K]) -> bool {
        keys.iter().all(|key| self.has(*key))
    }

    pub(super) fn is_on(&self, key: K, name: &str) -> Result<bool> {
        self.get(key).map_or(Ok(false), |value| flag(name, value))
    }

    /// The settings for the store's builder.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (K, &str)> {
        let inherited = self.environment.iter();
        let inherited = inherited.filter(|(key, _)| !self.explicit.contains_key(key));
        inherited
            .chain(&self.explicit)
            .map(|(key, value)| (*key, value.as_str()))
    }

    /// The HTTP connector for the store's requests.
    pub(super) fn connector<R: Renew>(&self, renew: Option<Arc<R>>) -> Connector {
        Connector {
            metadata_allowed: self.metadata_allowed,
            renew: renew.map(|renew| renew as Arc<dyn Renew>),
        }
    }

    /// Without credentials the store's library asks the cloud's metadata address, which on any
    /// other machine waits for an answer that never comes: refuse unless that was asked for.
    pub(super) fn require_credentials(&self, has_credentials: bool, advice: &str) -> Result<()> {
        if has_credentials || self.cache.is_some() || self.metadata_allowed {
            return Ok(());
        }
        Err(Error::new(
            Kind::StoreDenied,
            format!(
                "no credentials for this store in the storage options or the environment: set {advice}, or a {CREDENTIAL_PROVIDER}; on a cloud machine whose own identity has access set {ALLOW_INSTANCE_METADATA}=true"
            ),
        ))
    }
}

/// Refuses values from which the store's library can't build a request: it would accept them, and
/// panic when it signs the first one. `name` is the option's.
pub(super) fn check_value(name: &str, value: &str) -> Result<()> {
    let refused = |why: &str| Err(Error::invalid_argument(format!("the option {name} {why}")));
    let is_json = value.trim_start().starts_with('{');
    if value.chars().any(char::is_control) && !is_json {
        return refused("holds a control character, such as a line break: take it out");
    }
    let ends = |words: &[&str]| words.iter().any(|word| name.ends_with(word));
    if ends(&["endpoint", "url", "url_s3", "url_dynamodb", "authority_host", "_uri"]) && !name.contains("fabric") {
        let url = url::Url::parse(value).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https" | "socks5") && url.has_host());
        let path_only = name.ends_with("relative_uri") && value.starts_with('/');
        let plain = |c: char| c.is_ascii_graphic() && !"<>\"{}|\\^`".contains(c);
        if (url.is_none() && !path_only) || !value.chars().all(plain) {
            // The text before an @ may be a password.
            let shown = value.rsplit('@').next().unwrap_or_default();
            return refused(&format!(
                "is `{shown}`, which isn't a URL: write it with its scheme, as https://host:port, or http://host:port together with the option allow_http=true"
            ));
        }
    }
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if ends(&["region", "account_name", "endpoint_suffix"]) && !value.chars().all(word) {
        return refused("becomes a part of the store's address: it takes letters, digits, - and . only");
    }
    Ok(())
}

/// The HTTP client's own refusal of plain http names no option.
pub(super) fn check_endpoint(endpoint: Option<&str>, allow_http: bool) -> Result<()> {
    match endpoint {
        Some(url) if !allow_http && url.to_ascii_lowercase().starts_with("http://") => Err(Error::invalid_argument(
            "the endpoint is plain http, which sends data and signatures in the clear; set the option allow_http=true to permit that",
        )),
        _ => Ok(()),
    }
}

/// The process's environment variables that are valid text.
pub(super) fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The HTTP client is built without default cryptography; a provider that an embedding application
/// has already installed is kept.
pub(super) fn install_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("the process has a TLS provider already; it is used");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::check_value;

    #[test]
    fn addresses_that_no_request_can_be_made_of_are_refused() {
        for bad in [
            "",
            "host:9000",
            "http://",
            "https://a b",
            "//x",
            "{",
            "http://[::1",
            "https://h:99999",
            "ftp://h",
        ] {
            for name in ["aws_endpoint_url", "google_base_url", "azure_endpoint", "proxy_url"] {
                let e = check_value(name, bad).map_err(|e| e.to_string()).unwrap_err();
                assert!(e.contains(name) && e.contains("https://host:port"), "{bad}: {e}");
            }
        }
        for good in ["http://localhost:9000", "https://user:pw@h/path", "https://[::1]:9000"] {
            assert!(check_value("aws_endpoint_url", good).is_ok(), "{good}");
        }
        assert!(check_value("aws_region", "eu west").is_err() && check_value("aws_region", "eu-west-1").is_ok());
        assert!(check_value("aws_session_token", "a\nb").is_err());
        assert!(check_value("google_service_account_key", "{\n}").is_ok());
        assert!(check_value("aws_container_credentials_relative_uri", "/v2/x").is_ok());
    }
}
