//! Tables on Google Cloud Storage.
//! Owns its options and credentials; how bytes move is `objects`.

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use deltaplane_error::{Error, Result};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey as Key};
use object_store::{ClientConfigKey as Client, StaticCredentialProvider};

use super::Spec;
use super::objects::Objects;
use super::settings::{self, Settings};
use crate::backend::Backend;
use crate::error;
use crate::location::{Location, Scheme};
use crate::options::Options;
use crate::retry;

pub(super) const SPEC: Spec = Spec {
    scheme: Scheme::Gcs,
    knows: |key| Key::from_str(key).is_ok(),
    names: &[
        "google_service_account",
        "google_service_account_key",
        "google_application_credentials",
        "google_bearer_token",
        "google_skip_signature",
        "google_base_url",
        "service_account",
        "service_account_key",
        "application_credentials",
        "bearer_token",
        "skip_signature",
        "base_url",
        "timeout",
        "connect_timeout",
        "proxy_url",
    ],
    open: |location, options| open(location, options, &settings::environment()),
};

/// Every setting that selects the credential.
const CREDENTIALS: &[Key] = &[
    Key::ServiceAccount,
    Key::ServiceAccountKey,
    Key::ApplicationCredentials,
    Key::BearerToken,
    Key::SkipSignature,
];

fn open(location: &Location, options: &Options, environment: &[(String, String)]) -> Result<Arc<dyn Backend>> {
    let settings = settings(options, environment)?;
    settings::install_crypto();
    let mut builder = GoogleCloudStorageBuilder::new();
    for (key, value) in settings.pairs() {
        builder = builder.with_config(key, value);
    }
    if settings.is_on(Key::SkipSignature, "google_skip_signature")? {
        // The builder's own option for anonymous access covers reads alone: writes would look for
        // credentials, in the end on the network.
        let nobody = GcpCredential { bearer: String::new() };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(nobody)));
    }
    let provided = settings.provided::<GcpCredential>("");
    if let Some(provided) = &provided {
        builder = builder.with_credentials(Arc::clone(provided) as _);
    }
    let built = builder
        .with_bucket_name(location.authority())
        .with_retry(retry::config(options)?)
        .with_http_connector(settings.connector(provided))
        .build();
    let store = built.map_err(|e| {
        // The JSON parser's error quotes parts of its input, and this input is a private key.
        if settings.has(Key::ServiceAccountKey) {
            return Error::invalid_argument(
                "the option google_service_account_key or another setting of this store can't be read; give the key file's JSON unchanged",
            );
        }
        let e = error::from_build(&e, &settings.redactor);
        if e.message().contains("unknown variant `external_account`") {
            return Error::invalid_argument(
                "google_application_credentials names an external_account, which isn't read here: give a credential_provider that asks Google's own library for its token",
            );
        }
        e
    })?;
    let objects = Objects::new(Arc::new(store), location, settings.redactor)?;
    Ok(Arc::new(objects))
}

fn settings(options: &Options, environment: &[(String, String)]) -> Result<Settings<Key>> {
    let mut settings: Settings<Key> = Settings::new(options, environment, "GOOGLE_")?;
    settings.check_values()?;
    settings.as_a_group(CREDENTIALS);
    settings.ask_the_provider(CREDENTIALS)?;
    settings.default(Key::Client(Client::ConnectTimeout), settings::CONNECT_TIMEOUT);
    settings.default(Key::Client(Client::Timeout), settings::REQUEST_TIMEOUT);
    // The login of the cloud's command line tool, which the builder finds by itself.
    let home = environment
        .iter()
        .find(|(key, _)| key == if cfg!(windows) { "APPDATA" } else { "HOME" });
    let login = home.is_some_and(|(_, home)| {
        let dir = if cfg!(windows) { "gcloud" } else { ".config/gcloud" };
        let file = "application_default_credentials.json";
        Path::new(home).join(dir).join(file).exists()
    });
    let credentials = login
        || settings.is_on(Key::SkipSignature, "google_skip_signature")?
        || settings.has(Key::ServiceAccount)
        || settings.has(Key::ServiceAccountKey)
        || settings.has(Key::ApplicationCredentials)
        || settings.has(Key::BearerToken);
    settings.require_credentials(
        credentials,
        "google_service_account (a file's path), or google_service_account_key (its JSON), or google_application_credentials, or for a public bucket google_skip_signature=true",
    )?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use deltaplane_error::Kind;

    fn opened(options: &[(&str, &str)]) -> Option<Error> {
        let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        open(&Location::parse("gs://b/t").unwrap(), &Options::new(options), &[]).err()
    }

    #[test]
    fn credentials_are_required_and_named() {
        let e = opened(&[]).unwrap();
        assert_eq!(e.kind(), Kind::StoreDenied);
        assert!(e.to_string().contains("google_service_account"), "{e}");
        assert!(opened(&[("skip_signature", "true")]).is_none());
        assert!(opened(&[("bearer_token", "abcdef")]).is_none());
    }

    #[test]
    fn broken_keys_are_not_shown() {
        for key in ["\"hunter2hunter2\"", "{\"private_key\": [\"hunter2\"]}", "hunter2"] {
            let e = opened(&[("service_account_key", key)]).unwrap();
            assert_eq!(e.kind(), Kind::InvalidArgument);
            assert!(!format!("{e} {e:?}").contains("hunter2"), "{e}");
        }
        let e = opened(&[("service_account", "/no/such/file.json")]).unwrap();
        assert!(e.to_string().contains("/no/such/file.json"), "{e}");
    }
}
