//! Instructions about the protocol that come among table properties and are never stored (P096):
//! `delta.feature.<name>`, `delta.minReaderVersion`, `delta.minWriterVersion`,
//! `delta.ignoreProtocolDefaults`.

use std::collections::{BTreeMap, BTreeSet};

use crate::features::{TableFeature, all, unknown_feature};
use crate::{Error, Result};

const FEATURE: &str = "delta.feature.";
const READER: &str = "delta.minreaderversion";
const WRITER: &str = "delta.minwriterversion";
const DEFAULTS: &str = "delta.ignoreprotocoldefaults";

/// What a caller asks of the protocol beside what the metadata needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// Features to support.
    pub features: BTreeSet<String>,
    /// Reader version whose features to support.
    pub min_reader_version: Option<i32>,
    /// Writer version whose features to support.
    pub min_writer_version: Option<i32>,
    /// Whether the protocol follows delta-rs: versions are lower bounds that imply no feature, and
    /// a
    /// protocol that lists features lists those in use.
    pub as_delta_rs: bool,
}

impl Directives {
    /// Removes the instructions from properties that a user passed, and returns them; the other
    /// properties remain.
    ///
    /// Errors: `UnsupportedFeature` for an unknown feature, `InvalidArgument` for an invalid value.
    pub fn take(properties: &mut BTreeMap<String, String>) -> Result<Self> {
        let mut taken = Directives::default();
        let mut rest = BTreeMap::new();
        for (key, value) in std::mem::take(properties) {
            if !taken.understand(&key, &value)? {
                rest.insert(key, value);
            }
        }
        *properties = rest;
        Ok(taken)
    }

    /// As [`take`](Self::take) by the rules of delta-rs, and the instructions that its tables
    /// store:
    /// the versions.
    pub fn take_as_delta_rs(properties: &mut BTreeMap<String, String>) -> Result<(Self, BTreeMap<String, String>)> {
        let stored = [(READER, "delta.minReaderVersion"), (WRITER, "delta.minWriterVersion")]
            .into_iter()
            .filter_map(|(lower, name)| {
                let (_, value) = properties.iter().find(|(key, _)| key.to_lowercase() == lower)?;
                Some((name.to_owned(), value.clone()))
            })
            .collect();
        let taken = Directives {
            as_delta_rs: true,
            ..Self::take(properties)?
        };
        Ok((taken, stored))
    }

    /// Whether a key is an instruction, which tables never store.
    pub fn is_one(key: &str) -> bool {
        let lower = key.to_lowercase();
        lower.starts_with(FEATURE) || [READER, WRITER, DEFAULTS].contains(&lower.as_str())
    }

    fn understand(&mut self, key: &str, value: &str) -> Result<bool> {
        let lower = key.to_lowercase();
        let said = value.trim();
        let wrong = |legal: &str| {
            Err(Error::invalid_argument(format!(
                "`{value}` isn't a value of `{key}`, which takes {legal}"
            )))
        };
        if let Some(name) = lower.strip_prefix(FEATURE) {
            if !["supported", "enabled"].contains(&said.to_lowercase().as_str()) {
                return wrong("`supported`");
            }
            self.features.insert(known(name)?.name.to_owned());
            return Ok(true);
        }
        match lower.as_str() {
            READER | WRITER => {
                let Ok(version) = said.parse::<i32>() else {
                    return wrong("a protocol version");
                };
                let slot = if lower == READER {
                    &mut self.min_reader_version
                } else {
                    &mut self.min_writer_version
                };
                *slot = Some(version);
                Ok(true)
            }
            // No session has protocol defaults that a table could ignore.
            DEFAULTS if ["true", "false"].contains(&said.to_lowercase().as_str()) => Ok(true),
            DEFAULTS => wrong("true or false"),
            _ => Ok(false),
        }
    }
}

/// The feature of this name, ignoring case as users may.
///
/// Errors: `UnsupportedFeature`, naming it.
pub fn known(name: &str) -> Result<&'static TableFeature> {
    let lower = name.to_lowercase();
    let is_named = |own: &str| own.to_lowercase() == lower;
    all()
        .find(|f| is_named(f.name) || f.aliases.iter().any(|alias| is_named(alias)))
        .ok_or_else(|| unknown_feature(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn instructions_are_taken_out() {
        // P096
        let mut p = map(&[
            ("DELTA.feature.DeletionVectors", "supported"),
            ("delta.minWriterVersion", "7"),
            ("delta.ignoreProtocolDefaults", "true"),
            ("my.key", "1"),
        ]);
        let d = Directives::take(&mut p).unwrap();
        assert_eq!(p, map(&[("my.key", "1")]));
        assert_eq!((d.features.len(), d.min_writer_version), (1, Some(7)));
        assert!(d.features.contains("deletionVectors"));
    }

    #[test]
    fn features_are_found_by_the_names_that_users_have() {
        assert_eq!(known("TimestampWithoutTimezone").unwrap().name, "timestampNtz");
        assert_eq!(known("deletionvectors").unwrap().name, "deletionVectors");
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (k, v) in [
            ("delta.feature.flying", "supported"),
            ("delta.feature.appendOnly", "yes"),
            ("delta.minReaderVersion", "two"),
            ("delta.ignoreProtocolDefaults", "perhaps"),
        ] {
            let e = Directives::take(&mut map(&[(k, v)])).unwrap_err();
            assert!(e.message().contains("flying") || e.message().contains(k), "{e}");
        }
    }
}
