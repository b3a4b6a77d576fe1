//! Credential providers written in Python, as the core's source of credentials:
//! `deltaplane.io.credentials` knows them by name, in every process that loads the core.

use std::sync::Arc;

use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{CredentialSource, ProvidedFields, set_credential_source};
use pyo3::prelude::*;

use crate::errors::kind_of;
use crate::log_store::python_is_called;

const MODULE: &str = "deltaplane.io.credentials";

struct Providers;

/// Makes the providers of `deltaplane.io.credentials` those that the option `credential_provider`
/// names.
pub(crate) fn serve() {
    set_credential_source(Arc::new(Providers));
}

/// Calls a function of the module with the provider's name and reads its answer.
fn call<T>(function: &str, provider: &str, read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
    Python::attach(|py| {
        let answer = || read(&py.import(MODULE)?.getattr(function)?.call1((provider,))?);
        // Only errors of ours have a text: any other may show what it failed with, and that may be
        // a credential.
        answer().map_err(|e: PyErr| match kind_of(py, &e) {
            Some(kind) => Error::new(kind, e.value(py).to_string()),
            None => Error::new(
                Kind::StoreDenied,
                format!("the credential_provider {provider} failed; call it by itself to see why"),
            ),
        })
    })
}

impl CredentialSource for Providers {
    fn check(&self, provider: &str) -> Result<()> {
        python_is_called();
        call("check", provider, |_| Ok(()))
    }

    fn fetch(&self, provider: &str) -> Result<ProvidedFields> {
        let (fields, expires_ms) = call("fetch", provider, |answer| answer.extract())?;
        Ok(ProvidedFields { fields, expires_ms })
    }
}
