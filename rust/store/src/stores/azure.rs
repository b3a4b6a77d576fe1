//! Tables on Azure Blob Storage and Data Lake Storage.
//! Owns Azure's options, credentials and the account in a location; how bytes move is `objects`.

use std::str::FromStr;
use std::sync::Arc;

use deltaplane_error::{Error, Result};
use object_store::ClientConfigKey as Client;
use object_store::azure::{AzureConfigKey as Key, AzureCredential, MicrosoftAzureBuilder};

use super::Spec;
use super::objects::Objects;
use super::settings::{self, Settings, check_endpoint};
use crate::backend::Backend;
use crate::error;
use crate::location::{Location, Scheme};
use crate::options::Options;
use crate::retry;

pub(super) const SPEC: Spec = Spec {
    scheme: Scheme::Azure,
    knows: |key| Key::from_str(key).is_ok(),
    names: &[
        "azure_storage_account_name",
        "azure_storage_account_key",
        "azure_storage_sas_token",
        "azure_storage_token",
        "azure_storage_use_emulator",
        "azure_client_id",
        "azure_client_secret",
        "azure_tenant_id",
        "azure_federated_token_file",
        "azure_use_azure_cli",
        "azure_endpoint",
        "account_name",
        "account_key",
        "sas_token",
        "bearer_token",
        "client_id",
        "client_secret",
        "tenant_id",
        "use_emulator",
        "use_azure_cli",
        "allow_http",
        "skip_signature",
        "timeout",
        "connect_timeout",
        "proxy_url",
    ],
    open: |location, options| open(location, options, &settings::environment()),
};

/// Every setting that selects the credential. Client and tenant ids alone are no credential, and
/// often come from the environment while the secret is an option.
const CREDENTIALS: &[Key] = &[
    Key::AccessKey,
    Key::SasKey,
    Key::Token,
    Key::ClientSecret,
    Key::FederatedTokenFile,
    Key::FabricSessionToken,
    Key::UseAzureCli,
    Key::UseEmulator,
    Key::SkipSignature,
    Key::CredentialType,
];

fn open(location: &Location, options: &Options, environment: &[(String, String)]) -> Result<Arc<dyn Backend>> {
    let settings = settings(location, options, environment)?;
    settings::install_crypto();
    let mut builder = MicrosoftAzureBuilder::new();
    for (key, value) in settings.pairs() {
        builder = builder.with_config(key, value);
    }
    let provided = settings.provided::<AzureCredential>(account(location, &settings));
    if let Some(provided) = &provided {
        builder = builder.with_credentials(Arc::clone(provided) as _);
    }
    // The base names the container and, in the long spelling, the account.
    let store = builder
        .with_url(location.base())
        .with_retry(retry::config(options)?)
        .with_http_connector(settings.connector(provided))
        .build()
        .map_err(|e| error::from_build(&e, &settings.redactor))?;
    let objects = Objects::new(Arc::new(store), location, settings.redactor)?;
    Ok(Arc::new(objects.without_backslashes()))
}

/// The storage account, from the long spelling `container@account.dfs…` or an option.
fn account<'a>(location: &'a Location, settings: &'a Settings<Key>) -> &'a str {
    match location.authority().split_once('@') {
        Some((_, host)) => host.split('.').next().unwrap_or_default(),
        None => settings.get(Key::AccountName).unwrap_or_default(),
    }
}

fn settings(location: &Location, options: &Options, environment: &[(String, String)]) -> Result<Settings<Key>> {
    let mut settings: Settings<Key> = Settings::new(options, environment, "AZURE_")?;
    settings.check_values()?;
    settings.as_a_group(CREDENTIALS);
    settings.ask_the_provider(CREDENTIALS)?;
    settings.default(Key::Client(Client::ConnectTimeout), settings::CONNECT_TIMEOUT);
    settings.default(Key::Client(Client::Timeout), settings::REQUEST_TIMEOUT);
    // Azure's web hosts announce their identity service by this variable without the usual prefix.
    let identity = environment.iter().find(|(key, _)| key == "IDENTITY_ENDPOINT");
    if let Some((_, url)) = identity {
        settings.default(Key::MsiEndpoint, url);
    }
    let emulator = settings.is_on(Key::UseEmulator, "azure_storage_use_emulator")?;
    let credentials = emulator
        || settings.is_on(Key::SkipSignature, "azure_skip_signature")?
        || settings.is_on(Key::UseAzureCli, "azure_use_azure_cli")?
        || settings.has(Key::AccessKey)
        || settings.has(Key::SasKey)
        || settings.has(Key::Token)
        || settings.has(Key::MsiEndpoint)
        || settings.get(Key::CredentialType).is_some_and(names_a_source)
        || settings.all(&[Key::ClientId, Key::ClientSecret, Key::AuthorityId])
        || settings.all(&[Key::ClientId, Key::FederatedTokenFile, Key::AuthorityId])
        || settings.all(&[
            Key::FabricTokenServiceUrl,
            Key::FabricWorkloadHost,
            Key::FabricSessionToken,
            Key::FabricClusterIdentifier,
        ]);
    settings.require_credentials(
        credentials,
        "azure_storage_account_key, or azure_storage_sas_token, or azure_client_id with azure_client_secret and azure_tenant_id, or azure_use_azure_cli=true, or for a public container azure_skip_signature=true",
    )?;
    let account = location.authority().contains('@') || settings.has(Key::AccountName);
    if !account && !emulator {
        return Err(Error::invalid_argument(
            "the location names no storage account; set the option azure_storage_account_name, or write abfss://container@account.dfs.core.windows.net/path",
        ));
    }
    let allow_http = settings.is_on(Key::Client(Client::AllowHttp), "allow_http")?;
    check_endpoint(settings.get(Key::Endpoint), allow_http || emulator)?;
    Ok(settings)
}

/// Whether a credential type names a source other than the machine's metadata address.
fn names_a_source(credential_type: &str) -> bool {
    !matches!(credential_type, "" | "auto" | "managed_identity")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use deltaplane_error::Kind;

    fn opened(location: &str, options: &[(&str, &str)]) -> Option<Error> {
        let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        open(&Location::parse(location).unwrap(), &Options::new(options), &[]).err()
    }

    const LONG: &str = "abfss://c@account.dfs.core.windows.net/t";

    #[test]
    fn spellings_open() {
        let key = ("account_key", "aHVudGVyMmh1bnRlcjI=");
        assert!(opened(LONG, &[key]).is_none());
        assert!(opened("az://c/t", &[key, ("account_name", "a")]).is_none());
        assert!(opened("abfs://c/t", &[("use_emulator", "true")]).is_none());
        assert!(opened(LONG, &[("sas_token", "sv=1&sig=hunter2hunter2")]).is_none());
    }

    #[test]
    fn missing_things_are_named() {
        let e = opened(LONG, &[]).unwrap();
        assert_eq!(e.kind(), Kind::StoreDenied);
        assert!(e.to_string().contains("azure_storage_account_key"), "{e}");
        // The last source that "auto" tries is the machine's metadata address.
        for credential_type in ["auto", "managed_identity"] {
            let e = opened(LONG, &[("azure_credential_type", credential_type)]).unwrap();
            assert_eq!(e.kind(), Kind::StoreDenied, "{credential_type}");
        }
        let identity = [
            ("azure_credential_type", "managed_identity"),
            ("allow_instance_metadata", "true"),
        ];
        assert!(opened(LONG, &identity).is_none());
        let e = opened("az://c/t", &[("skip_signature", "true")]).unwrap();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert!(e.to_string().contains("azure_storage_account_name"), "{e}");
        let e = opened("abfss://c@elsewhere.example/t", &[("skip_signature", "1")]).unwrap();
        assert_eq!(e.kind(), Kind::InvalidArgument);
    }

    #[test]
    fn broken_secrets_are_not_shown() {
        for option in [("account_key", "%hunter2hunter2"), ("sas_token", "hunter2hunter2")] {
            let e = opened(LONG, &[option]).unwrap();
            assert_eq!(e.kind(), Kind::InvalidArgument);
            assert!(!format!("{e} {e:?}").contains("hunter2"), "{e}");
        }
    }
}
