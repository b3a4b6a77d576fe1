//! The identity of a store: its location with the settings that lead to another store under the
//! same name. Contains no secret. Computed once for each store that is opened with a cache.

use std::ffi::OsString;

use xxhash_rust::xxh3::Xxh3;

use super::settings::KEYS;
use crate::location::Location;
use crate::options::{Options, is_secret};
use crate::retry;

/// Options that change how a store is accessed, not which one. Any other option may change the
/// store, also for stores in Python.
const INDIFFERENT: &[&str] = &[
    "timeout",
    "connect_timeout",
    "allow_external_files",
    "allow_instance_metadata",
];
/// Environment variables with these words in their names select a store.
const PLACES: &[&str] = &[
    "ENDPOINT",
    "ACCOUNT_NAME",
    "EMULATOR",
    "BASE_URL",
    "HADOOP_CONF_DIR",
    "HADOOP_HOME",
];

/// The texts that begin every entry name of this store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) location: String,
    pub(super) settings: String,
}

/// The identity of a location with these options, in this environment.
pub(super) fn of(
    location: &Location,
    options: &Options,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Place {
    let matters = |key: &str| !(KEYS.contains(&key) || retry::KEYS.contains(&key) || INDIFFERENT.contains(&key));
    let mut settings: Vec<(String, String)> = options
        .iter()
        .filter(|(key, value)| matters(key) && !is_secret(key, value))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let variables = environment.filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    settings.extend(variables.filter(|(key, value)| {
        let upper = key.to_ascii_uppercase();
        PLACES.iter().any(|word| upper.contains(word)) && !is_secret(&key.to_ascii_lowercase(), value)
    }));
    settings.sort();
    let mut hash = Xxh3::new();
    for text in settings.iter().flat_map(|(key, value)| [key, value]) {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    Place {
        location: location.as_str().to_owned(),
        settings: format!("{:032x}", hash.digest128()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn place(location: &str, options: &[(&str, &str)], environment: &[(&str, &str)]) -> Place {
        let options = options.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        let environment = environment.iter().map(|(k, v)| (k.into(), v.into()));
        of(&Location::parse(location).unwrap(), &Options::new(options), environment)
    }

    #[test]
    fn another_endpoint_is_another_place() {
        let here = place("s3://b/t", &[("endpoint", "https://one")], &[]);
        assert_ne!(here, place("s3://b/t", &[("endpoint", "https://two")], &[]));
        assert_ne!(here, place("s3://b/u", &[("endpoint", "https://one")], &[]));
        let place_of = |value| place("s3://b/t", &[], &[("AWS_ENDPOINT_URL", value)]);
        assert_ne!(place_of("https://one"), place_of("https://two"));
        assert_ne!(
            place("s3://b/t", &[("tenant", "a")], &[]),
            place("s3://b/t", &[("tenant", "b")], &[])
        );
    }

    #[test]
    fn credentials_and_patience_are_no_place() {
        let here = place("s3://b/t", &[], &[]);
        for (key, value) in [
            ("aws_secret_access_key", "hunter2"),
            ("session_token", "hunter2"),
            ("max_retries", "3"),
            ("timeout", "3s"),
            ("cache_bytes", "5000000"),
        ] {
            assert_eq!(here, place("s3://b/t", &[(key, value)], &[]), "{key}");
        }
        assert_eq!(
            here,
            place("s3://b/t", &[], &[("AWS_SECRET_ACCESS_KEY", "x"), ("HOME", "/root")])
        );
    }
}
