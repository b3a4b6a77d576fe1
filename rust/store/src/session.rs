//! Stores that are opened with options which the process has for all of them, such as a user's
//! session. Knows which stores may need such options, not what they mean.

use std::collections::HashMap;

use deltaplane_error::{Error, Result};

use crate::location::Location;
use crate::options::Options;
use crate::store::Store;

/// Prefixes of options that only a session translates.
const TRANSLATED: [&str; 2] = ["fs.", "google.cloud."];

/// The options that this process has for all stores.
pub trait Session {
    /// All options of a store. Those of the call precede the session's.
    ///
    /// # Errors
    /// `InvalidArgument` for options that contradict each other.
    fn merged(&self, location: &str, options: HashMap<String, String>) -> Result<HashMap<String, String>>;
    /// The names of the session's settings for an error that names storage options, if it does.
    ///
    /// # Errors
    /// Those of the session, which leave the error as it is.
    fn advice(&self, location: &str, message: &str) -> Result<Option<String>>;
}

/// Opens the store of a location, by its URL with the session's options.
///
/// # Errors
/// As [`Store::open`], with the session's advice; those of [`Session::merged`].
pub fn open_in_session(location: &str, options: HashMap<String, String>, session: &impl Session) -> Result<Store> {
    let parsed = Location::parse(location)?;
    let is_translated = |key: &String| TRANSLATED.iter().any(|prefix| key.starts_with(prefix));
    // Paths of the local disk have no options but those of the call.
    if !location.contains("://") && !options.keys().any(is_translated) {
        return Store::open(&parsed, &Options::new(options));
    }
    let merged = session.merged(location, options)?;
    Store::open(&parsed, &Options::new(merged)).map_err(|e| match session.advice(location, e.message()) {
        Ok(Some(advice)) => Error::new(e.kind(), format!("{}; {advice}", e.message())).with_table(location),
        _ => e,
    })
}

#[cfg(test)]
mod tests {
    use deltaplane_error::Kind;

    use super::*;

    /// A session with these options, which advises on every error.
    struct Fixed(&'static [(&'static str, &'static str)]);

    impl Session for Fixed {
        fn merged(&self, _: &str, options: HashMap<String, String>) -> Result<HashMap<String, String>> {
            let own = self.0.iter().map(|(key, value)| (key.to_string(), value.to_string()));
            Ok(own.chain(options).collect())
        }

        fn advice(&self, location: &str, _: &str) -> Result<Option<String>> {
            Ok(Some(format!("in the session: see {location}")))
        }
    }

    /// A session that no store may ask.
    struct Unasked;

    impl Session for Unasked {
        fn merged(&self, _: &str, _: HashMap<String, String>) -> Result<HashMap<String, String>> {
            Err(Error::internal("asked"))
        }

        fn advice(&self, _: &str, _: &str) -> Result<Option<String>> {
            Err(Error::internal("asked"))
        }
    }

    fn options(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn a_path_of_the_disk_has_no_options_of_the_session() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        open_in_session(path, options(&[]), &Unasked).unwrap();
        for key in ["fs.s3a.endpoint", "google.cloud.auth.type"] {
            let refused = open_in_session(path, options(&[(key, "x")]), &Unasked);
            assert_eq!(refused.err().unwrap().message(), "asked", "{key}");
        }
        let refused = open_in_session("memory://session/t", options(&[]), &Unasked);
        assert_eq!(refused.err().unwrap().message(), "asked");
    }

    #[test]
    fn an_error_of_a_store_has_the_advice_of_the_session() {
        let session = Fixed(&[("cache_memory_bytes", "much")]);
        let open = |pairs| open_in_session("memory://session/t", options(pairs), &session);
        let error = open(&[]).err().unwrap();
        assert_eq!(error.kind(), Kind::InvalidArgument);
        assert!(error.message().contains("cache_memory_bytes"), "{error}");
        assert!(
            error.message().ends_with("; in the session: see memory://session/t"),
            "{error}"
        );
        open(&[("cache_memory_bytes", "0")]).unwrap();
    }
}
