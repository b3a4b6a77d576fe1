//! Principals of bearer tokens, remembered for seconds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::error::{CatalogError, ErrorType, Result};
use crate::secret::Secret;
use crate::store::{Principal, Store};

/// How long a principal is remembered: a revoked token or grant works this long at most.
const REMEMBERED: Duration = Duration::from_secs(5);
/// The most principals that are remembered.
const MAX_REMEMBERED: usize = 10_000;
/// The longest token.
const MAX_TOKEN_BYTES: usize = 4_096;

/// Principals by their token's digest.
#[derive(Default)]
pub(super) struct TokenCache {
    known: Mutex<HashMap<String, (Instant, Arc<Principal>)>>,
}

impl TokenCache {
    /// The principal of a request.
    pub(super) async fn principal(&self, store: &Store, headers: &HeaderMap) -> Result<Arc<Principal>> {
        let refuse = |why: &str| CatalogError::new(ErrorType::NotAuthorized, why);
        let header = headers
            .get(AUTHORIZATION)
            .ok_or_else(|| refuse("the request has no token: send Authorization: Bearer <token>"))?;
        let token = header
            .to_str()
            .ok()
            .and_then(|text| text.split_once(' '))
            .filter(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && token.len() <= MAX_TOKEN_BYTES)
            .map(|(_, token)| Secret::new(token.trim()))
            .ok_or_else(|| refuse("the header Authorization must be Bearer <token>"))?;
        let digest = token.digest();
        if let Some(principal) = self.known(&digest) {
            return Ok(principal);
        }
        let principal = store
            .authenticate(&token)
            .await?
            .map(Arc::new)
            .ok_or_else(|| refuse("the token is unknown or expired"))?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(digest, (Instant::now(), Arc::clone(&principal)));
        Ok(principal)
    }

    fn known(&self, digest: &str) -> Option<Arc<Principal>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, principal) = known.get(digest)?;
        (since.elapsed() < REMEMBERED).then(|| Arc::clone(principal))
    }

    /// Asks the store again from now on.
    pub(super) fn clear(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
