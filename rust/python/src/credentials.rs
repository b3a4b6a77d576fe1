//! Credential providers written in Python, as the core's source of credentials:
//! `deltaplane.io.credentials` knows them by name, in every process that loads the core.

use std::sync::Arc;

use deltaplane_catalog::named::{VendedCredentials, set_token_provider};
use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{CredentialSource, ProvidedFields, set_credential_source};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::prelude::*;

use crate::errors::call_module;
use crate::log_store::python_is_called;

struct Providers;

/// Makes the providers of `deltaplane.io.credentials` those that the option `credential_provider`
/// names.
pub(crate) fn serve() {
    set_credential_source(Arc::new(VendedCredentials::beside(Providers)));
    set_token_provider(Box::new(|provider| {
        python_is_called();
        call("token", provider)
    }));
}

/// What a function of the module answers about a provider.
fn call<T: for<'py> FromPyObjectOwned<'py>>(function: &str, provider: &str) -> Result<T> {
    call_module("deltaplane.io.credentials", function, (provider,), |_| {
        let text = format!("the credential_provider {provider} failed; call it by itself to see why");
        Error::new(Kind::StoreDenied, text)
    })
}

impl CredentialSource for Providers {
    fn check(&self, provider: &str) -> Result<()> {
        python_is_called();
        call::<Py<PyAny>>("check", provider).map(drop)
    }

    fn fetch(&self, provider: &str) -> Result<ProvidedFields> {
        let (fields, expires_ms) = call("fetch", provider)?;
        Ok(ProvidedFields { fields, expires_ms })
    }
}
