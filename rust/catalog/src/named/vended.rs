//! Credentials that a catalog hands out for a table's location, as a credential provider of the
//! store: it asks the catalog again before they expire, and after the store refused them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{CredentialSource, Location, ProvidedFields, block_on};

use crate::api::classic::VolumeInfo;
use crate::api::{CredentialOperation, Credentials};
use crate::catalog::Catalog;
use crate::error::{CatalogError, ErrorType};
use crate::names::TableName;
use crate::store::now_ms;

/// What the names of these providers begin with.
const PREFIX: &str = "catalog credentials of ";
/// The API's names of a credential's parts, and those of the storage options.
const FIELDS: [(&str, &str); 5] = [
    ("s3.access-key-id", "access_key_id"),
    ("s3.secret-access-key", "secret_access_key"),
    ("s3.session-token", "session_token"),
    ("azure.sas-token", "sas_token"),
    ("gcs.oauth-token", "token"),
];

/// Credentials by the names of storage options, and their end in ms since 1970 (UTC).
pub type VendedFields = (Vec<(String, String)>, Option<i64>);

/// Whose credentials are asked for.
#[derive(Clone)]
pub(super) enum Owner {
    /// A table.
    Table(TableName),
    /// A table whose version 0 isn't written.
    Staging(String),
    /// A volume.
    Volume(Box<VolumeInfo>),
}

struct Provider {
    catalog: Arc<dyn Catalog>,
    owner: Owner,
    location: String,
    /// The answer that the location was opened with, for the first question.
    first: Mutex<Option<ProvidedFields>>,
}

/// The providers by name. A forked child knows those of its parent.
static PROVIDERS: LazyLock<Mutex<HashMap<String, Arc<Provider>>>> = LazyLock::new(Mutex::default);

/// The name of a provider for this location; `None` if the catalog hands out no credentials for it.
pub(super) async fn provider(catalog: Arc<dyn Catalog>, owner: Owner, location: &str) -> Result<Option<String>> {
    let name = match &owner {
        Owner::Table(name) => format!("{PREFIX}{name} at {location} by {}", catalog.describe()),
        Owner::Staging(id) => format!("{PREFIX}{id} at {location} by {}", catalog.describe()),
        Owner::Volume(volume) => format!(
            "{PREFIX}volume {volume} at {location} by {}",
            catalog.describe(),
            volume = volume.volume_id.as_deref().unwrap_or_default()
        ),
    };
    let provider = Provider {
        catalog,
        owner,
        location: location.to_owned(),
        first: Mutex::default(),
    };
    match provider.ask().await {
        Ok(Some(fields)) => {
            *provider.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(fields);
        }
        Ok(None) => return Ok(None),
        Err(e) if has_no_credentials(&e) => return Ok(None),
        Err(e) => return Err(e.into()),
    }
    let mut providers = PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner);
    providers.insert(name.clone(), Arc::new(provider));
    Ok(Some(name))
}

impl Provider {
    /// Asks for credentials to write, and without that right for credentials to read.
    async fn ask(&self) -> Result<Option<ProvidedFields>, CatalogError> {
        let (write, read) = (CredentialOperation::ReadWrite, CredentialOperation::Read);
        let (credentials, operation) = match self.credentials(write).await {
            Err(e) if e.error_type == ErrorType::PermissionDenied && !matches!(self.owner, Owner::Staging(_)) => {
                (self.credentials(read).await?, read)
            }
            answer => (answer?, write),
        };
        Ok(fields_of(&credentials, &self.location, operation))
    }
}

impl Provider {
    async fn credentials(&self, operation: CredentialOperation) -> Result<Credentials, CatalogError> {
        match &self.owner {
            Owner::Staging(id) => self.catalog.staging_credentials(id).await,
            Owner::Table(name) => self.catalog.credentials(name, operation).await,
            Owner::Volume(volume) => self.catalog.volume_credentials(volume, operation).await,
        }
    }
}

/// The current credentials of a table's location, by the names of storage options, and their end in
/// ms since 1970 (UTC); `None` if the catalog hands out none. A table whose version 0 isn't written
/// is known by its place in the process that creates it.
///
/// # Errors
/// Those of the catalog.
pub(super) async fn fields(catalog: Arc<dyn Catalog>, name: TableName, place: &str) -> Result<Option<ProvidedFields>> {
    let provider = match catalog.load(&name, None).await {
        Ok(loaded) => Arc::new(Provider {
            catalog,
            owner: Owner::Table(name),
            location: loaded.metadata.location,
            first: Mutex::default(),
        }),
        Err(e) if e.error_type == ErrorType::NoSuchTable => staged_at(place)?.ok_or(e)?,
        Err(e) => return Err(e.into()),
    };
    match provider.ask().await {
        Err(e) if has_no_credentials(&e) => Ok(None),
        answer => Ok(answer?),
    }
}

/// The provider of a staging table at a location.
fn staged_at(place: &str) -> Result<Option<Arc<Provider>>> {
    let place = Location::parse(place)?;
    let providers = PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_there = |provider: &&Arc<Provider>| {
        let location = Location::parse(&provider.location);
        matches!(provider.owner, Owner::Staging(_)) && location.is_ok_and(|l| l.as_str() == place.as_str())
    };
    Ok(providers.values().find(is_there).cloned())
}

/// A catalog without this function leaves the credentials to its clients.
fn has_no_credentials(e: &CatalogError) -> bool {
    matches!(e.error_type, ErrorType::NotImplemented | ErrorType::NotFound)
}

/// The fields of the credential with the longest prefix of the location.
fn fields_of(credentials: &Credentials, location: &str, operation: CredentialOperation) -> Option<ProvidedFields> {
    let credential = credentials.longest_prefix(location, operation)?;
    let fields: Vec<_> = FIELDS
        .iter()
        .filter_map(|(name, option)| {
            let secret = credential.config.get(*name)?.as_ref()?;
            Some(((*option).to_owned(), secret.expose().to_owned()))
        })
        .collect();
    if fields.is_empty() {
        return None;
    }
    Some(ProvidedFields {
        fields,
        expires_ms: (credential.expiration_time_ms > 0).then_some(credential.expiration_time_ms),
    })
}

/// The process's source of credentials: catalogs for their tables, `others` for all other names.
pub struct VendedCredentials<S>(S);

impl<S: CredentialSource> VendedCredentials<S> {
    /// Beside the providers of an application.
    pub fn beside(others: S) -> Self {
        VendedCredentials(others)
    }
}

fn known(name: &str) -> Result<Arc<Provider>> {
    let providers = PROVIDERS.lock().unwrap_or_else(PoisonError::into_inner);
    providers.get(name).cloned().ok_or_else(|| {
        Error::invalid_argument("a catalog's credentials are known only in the process that opened its table: open the table by its name here")
    })
}

impl<S: CredentialSource> CredentialSource for VendedCredentials<S> {
    fn check(&self, provider: &str) -> Result<()> {
        match provider.starts_with(PREFIX) {
            true => known(provider).map(drop),
            false => self.0.check(provider),
        }
    }

    fn fetch(&self, provider: &str) -> Result<ProvidedFields> {
        if !provider.starts_with(PREFIX) {
            return self.0.fetch(provider);
        }
        let provider = known(provider)?;
        let first = provider.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(first) = first.filter(|first| first.expires_ms.is_none_or(|end| end > now_ms())) {
            return Ok(first);
        }
        block_on(provider.ask())?.ok_or_else(|| {
            Error::new(
                Kind::StoreDenied,
                format!(
                    "{} hands out no credentials for the table any more",
                    provider.catalog.describe()
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::api::StorageCredential;
    use crate::secret::Secret;

    #[test]
    fn a_credential_has_the_names_of_storage_options() {
        let credential = |prefix: &str, key: &str| StorageCredential {
            prefix: prefix.to_owned(),
            operation: CredentialOperation::ReadWrite,
            config: BTreeMap::from([
                ("s3.access-key-id".to_owned(), Some(Secret::new(key))),
                ("s3.secret-access-key".to_owned(), Some(Secret::new("hush"))),
                ("s3.session-token".to_owned(), None),
            ]),
            expiration_time_ms: 7,
        };
        let all = Credentials {
            storage_credentials: vec![credential("s3://b", "wide"), credential("s3://b/t", "narrow")],
        };
        let fields = fields_of(&all, "s3://b/t", CredentialOperation::ReadWrite).unwrap();
        let expected = [("access_key_id", "narrow"), ("secret_access_key", "hush")];
        assert_eq!(fields.fields, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(fields.expires_ms, Some(7));
        assert!(!format!("{fields:?}").contains("hush"));
        assert_eq!(fields_of(&all, "s3://c/t", CredentialOperation::Read), None);
    }
}
