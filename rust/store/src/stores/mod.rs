//! The list of stores: one file per scheme, one line each here. A new store is a file with a `SPEC`
//! and its line in `STORES`; the contract suite then runs on it.

mod azure;
#[cfg(test)]
mod dummy;
mod dynamo;
mod dynamo_http;
mod dynamo_items;
mod dynamo_settings;
mod gcs;
mod hdfs;
mod hdfs_errors;
mod http;
mod local;
mod local_dirs;
mod local_draft;
mod local_folder;
mod local_objects;
mod local_read;
mod local_root;
mod memory;
mod objects;
mod passing_failures;
mod plugin;
mod provided;
mod s3;
mod settings;

use std::sync::Arc;

use deltaplane_error::{Error, Result};

use crate::backend::Backend;
use crate::cache;
use crate::credentials::CREDENTIAL_PROVIDER;
use crate::external_files::ALLOW_EXTERNAL_FILES;
use crate::limits::{self, MAX_COMMIT_BYTES};
use crate::location::{Location, Scheme};
use crate::options::Options;
use crate::retry;

pub use plugin::{Opener, register_scheme};

/// The interface between a store and the rest of the crate.
pub(crate) struct Spec {
    pub(crate) scheme: Scheme,
    /// Whether this store has an option of this (lower-case) name.
    pub(crate) knows: fn(&str) -> bool,
    /// Names to suggest for a mistyped option.
    pub(crate) names: &'static [&'static str],
    /// Makes the store without asking the network anything.
    pub(crate) open: fn(&Location, &Options) -> Result<Arc<dyn Backend>>,
}

const STORES: &[Spec] = &[
    local::SPEC,
    memory::SPEC,
    s3::SPEC,
    azure::SPEC,
    gcs::SPEC,
    hdfs::SPEC,
    plugin::SPEC,
    #[cfg(test)]
    dummy::SPEC,
];

/// Opts in to asking the cloud's metadata service for credentials; see `settings`.
pub(crate) const ALLOW_INSTANCE_METADATA: &str = "allow_instance_metadata";

/// Options that belong to no single store.
const OWN: &[&str] = &[
    ALLOW_INSTANCE_METADATA,
    ALLOW_EXTERNAL_FILES,
    CREDENTIAL_PROVIDER,
    MAX_COMMIT_BYTES,
    IGNORE_UNKNOWN_OPTIONS,
];

/// For programs written for deltalake, which pass options of other libraries along.
const IGNORE_UNKNOWN_OPTIONS: &str = "ignore_unknown_options";

/// Options of deltalake without effect here, because commits never rename.
const IGNORED: &[&str] = &[
    "allow_unsafe_rename",
    "mount_allow_unsafe_rename",
    "aws_s3_allow_unsafe_rename",
];

/// Opens the store of a location, behind the cache that the options ask for.
pub(crate) fn open(location: &Location, options: &Options) -> Result<Arc<dyn Backend>> {
    cache::over(open_uncached(location, options)?, location, options)
}

/// Opens the store without a cache.
pub(crate) fn open_uncached(location: &Location, options: &Options) -> Result<Arc<dyn Backend>> {
    let spec = STORES
        .iter()
        .find(|s| s.scheme == location.scheme())
        .ok_or_else(|| Error::internal("a scheme without a store; please report this"))?;
    if spec.scheme != Scheme::Plugin {
        check_names(spec, options)?;
    }
    limits::most(options)?;
    (spec.open)(location, options)
}

/// One set of options often serves several stores, so another store's option is accepted; an option
/// that no store knows is refused, unless the options say otherwise.
fn check_names(spec: &Spec, options: &Options) -> Result<()> {
    if crate::options::flag(
        IGNORE_UNKNOWN_OPTIONS,
        options.get(IGNORE_UNKNOWN_OPTIONS).unwrap_or("false"),
    )? {
        return Ok(());
    }
    let known = |key: &str| {
        OWN.contains(&key)
            || retry::KEYS.contains(&key)
            || cache::KEYS.contains(&key)
            || IGNORED.contains(&key)
            || STORES.iter().any(|s| (s.knows)(key))
    };
    for (key, _) in options.iter() {
        if !known(key) {
            return Err(Error::invalid_argument(format!(
                "unknown storage option {key}{}",
                suggestion(spec, key)
            )));
        }
    }
    Ok(())
}

fn suggestion(spec: &Spec, key: &str) -> String {
    let names = spec.names.iter().chain(retry::KEYS).chain(cache::KEYS).chain(OWN);
    match names.min_by_key(|name| distance(key, name)) {
        Some(name) if distance(key, name) <= key.len() / 2 => format!("; did you mean {name}?"),
        _ => "; remove it, or see the documentation of storage options".to_owned(),
    }
}

/// Edit distance (insert, delete, replace), one row at a time.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for (y, pair) in b.chars().zip(row.windows(2)) {
            if let [diagonal, above] = pair {
                left = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
                next.push(left);
            }
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(location: &str, key: &str) -> Result<()> {
        let options = Options::new([(key.to_owned(), "x".to_owned())]);
        let scheme = Location::parse(location).unwrap().scheme();
        check_names(STORES.iter().find(|s| s.scheme == scheme).unwrap(), &options)
    }

    #[test]
    fn every_scheme_has_one_store() {
        for scheme in crate::location::built_in().chain([Scheme::Plugin]) {
            let count = STORES.iter().filter(|s| s.scheme == scheme).count();
            assert_eq!(count, 1, "{scheme:?}");
        }
        for spec in STORES.iter().filter(|s| s.scheme != Scheme::Plugin) {
            assert!(
                crate::location::built_in().any(|s| s == spec.scheme),
                "no location has the scheme {:?}",
                spec.scheme
            );
        }
    }

    #[test]
    fn suggested_names_are_known() {
        for spec in STORES {
            for name in spec.names {
                assert!((spec.knows)(name), "{name}");
            }
        }
    }

    #[test]
    fn typos_are_named_with_the_nearest_key() {
        let e = check("s3://b", "aws_secret_acess_key").unwrap_err().to_string();
        assert!(
            e.contains("aws_secret_acess_key; did you mean aws_secret_access_key?"),
            "{e}"
        );
        let e = check("gs://b", "credentials_provider").unwrap_err().to_string();
        assert!(e.contains("did you mean credential_provider?"), "{e}");
        let e = check("az://c", "acount_name").unwrap_err().to_string();
        assert!(e.contains("did you mean account_name?"), "{e}");
        let e = check("/t", "max_retrys").unwrap_err().to_string();
        assert!(e.contains("did you mean max_retries?"), "{e}");
        assert!(check("/t", "qqqqqqqqqqqqqqqq").is_err());
    }

    #[test]
    fn unknown_options_are_ignored_on_demand() {
        let spec = STORES.iter().find(|s| s.scheme == Scheme::Local).unwrap();
        let options = |value: &str| {
            let pairs = [("ignore_unknown_options", value), ("provider", "x")];
            Options::new(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())))
        };
        assert!(check_names(spec, &options("true")).is_ok());
        assert!(check_names(spec, &options("false")).is_err());
        assert!(check_names(spec, &options("perhaps")).is_err());
    }

    #[test]
    fn other_stores_options_are_no_typos() {
        for key in [
            "AWS_REGION",
            "account_name",
            "google_bucket",
            "delta_dynamo_table_name",
            "timeout",
            "allow_unsafe_rename",
        ] {
            check("/t", key).unwrap();
            check("s3://b", key).unwrap();
        }
    }

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
