//! Dropping a feature (P098): nobody may depend on it, its properties go, its traces must be gone, and for a
//! reader-writer feature old versions must stay readable as they are. What isn't safe is refused with the remedy.

use super::{
    TableFeature, View, append_only, change_data_feed, check_constraints, clustering, domain_metadata, find,
    generated_columns, identity_columns, in_commit_timestamp, invariants, known, supported, vacuum_protocol_check,
    weakest,
};
use crate::actions::{DomainMetadata, Metadata, Protocol};
use crate::{Error, Result};

/// What a drop does to the metadata.
#[derive(Clone, Copy)]
enum Removal {
    /// Takes these properties away.
    Properties(&'static [&'static str]),
    /// Nothing, but nothing in the metadata may use the feature any more; says how to get there.
    Unused(&'static str),
}

static REMOVALS: &[(&TableFeature, Removal)] = &[
    (&append_only::FEATURE, Removal::Properties(&["delta.appendOnly"])),
    (
        &change_data_feed::FEATURE,
        Removal::Properties(&["delta.enableChangeDataFeed"]),
    ),
    (
        &check_constraints::FEATURE,
        Removal::Unused("drop every constraint with drop_constraint"),
    ),
    (
        &generated_columns::FEATURE,
        Removal::Unused("generated columns can't become plain ones: write the table anew without them"),
    ),
    (
        &identity_columns::FEATURE,
        Removal::Unused("identity columns can't become plain ones: write the table anew without them"),
    ),
    (
        &invariants::FEATURE,
        Removal::Unused("let every column be null with drop_column_not_null"),
    ),
    (&clustering::FEATURE, Removal::Unused("")),
    (&domain_metadata::FEATURE, Removal::Unused("")),
    (
        &in_commit_timestamp::FEATURE,
        Removal::Properties(&[
            "delta.enableInCommitTimestamps",
            "delta.inCommitTimestampEnablementVersion",
            "delta.inCommitTimestampEnablementTimestamp",
        ]),
    ),
    // A duty of those who delete files: old versions are as readable without it.
    (&vacuum_protocol_check::FEATURE, Removal::Unused("")),
];

/// Features whose traces are a domain each: it must be empty first, then its tombstone is written.
static DOMAINS: &[(&TableFeature, &str)] = &[(&clustering::FEATURE, clustering::DOMAIN)];

/// What is left of a table when a feature is dropped.
#[derive(Debug)]
pub struct Dropped {
    /// The protocol without the feature.
    pub protocol: Protocol,
    /// The metadata without what belongs to it.
    pub metadata: Metadata,
    /// Tombstones of the domains that belong to it.
    pub domains: Vec<DomainMetadata>,
    /// The feature's name as the protocol spells it.
    pub feature: &'static str,
}

/// Plans the drop of a feature.
///
/// Errors: `InvalidArgument` where the table doesn't support it, others depend on it or it is in use;
/// `UnsupportedFeature` for features that can't be dropped here.
pub fn without_feature(base: &Protocol, view: View<'_>, domains: &[DomainMetadata], name: &str) -> Result<Dropped> {
    let feature = known(name)?;
    let had = supported(base);
    if !had.contains(feature.name) {
        return Err(Error::invalid_argument(format!(
            "the table doesn't support the feature {}: there is nothing to drop",
            feature.name
        )));
    }
    let needs_it = |n: &&String| find(n).is_some_and(|f| f.requires.contains(&feature.name));
    let dependants: Vec<&str> = had.iter().filter(needs_it).map(String::as_str).collect();
    if !dependants.is_empty() {
        return Err(Error::invalid_argument(format!(
            "the feature {} can't be dropped while the table supports {}, which need it: drop those first",
            feature.name,
            dependants.join(", ")
        )));
    }
    let Some((_, removal)) = REMOVALS.iter().find(|(f, _)| f.name == feature.name) else {
        return Err(Error::unsupported_feature(format!(
            "the feature {} can't be dropped by this version of deltaplane, which would have to rewrite files or history: drop it with delta-spark (ALTER TABLE … DROP FEATURE {})",
            feature.name, feature.name
        )));
    };
    let mut metadata = view.metadata.clone();
    if let Removal::Properties(keys) = removal {
        metadata.configuration.retain(|k, _| !keys.contains(&k.as_str()));
    }
    let after = View {
        metadata: &metadata,
        schema: view.schema,
    };
    if let (true, Removal::Unused(remedy)) = ((feature.wanted)(after), removal) {
        return Err(Error::invalid_argument(format!(
            "the feature {} is in use: {remedy}",
            feature.name
        )));
    }
    Ok(Dropped {
        domains: tombstones(feature, domains)?,
        protocol: weakest::without(base, feature.name),
        metadata,
        feature: feature.name,
    })
}

/// The tombstones of a feature's domains, once nothing is in them.
fn tombstones(feature: &TableFeature, domains: &[DomainMetadata]) -> Result<Vec<DomainMetadata>> {
    if feature.name == domain_metadata::FEATURE.name
        && let Some(d) = domains.first()
    {
        return Err(Error::invalid_argument(format!(
            "the feature {} is in use: remove the domain `{}` first",
            feature.name, d.domain
        )));
    }
    let own = DOMAINS.iter().filter(|(f, _)| f.name == feature.name);
    let found = own.filter_map(|(_, domain)| domains.iter().find(|d| d.domain == *domain));
    found
        .map(|d| {
            if !clustering::columns(d)?.is_empty() {
                return Err(Error::invalid_argument(format!(
                    "the feature {} is in use: take the clustering columns away with cluster_by([]) first",
                    feature.name
                )));
            }
            Ok(DomainMetadata {
                removed: true,
                ..d.clone()
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::features::tests::{protocol, with};
    use crate::schema::{Field, Primitive};

    fn drop_from(p: &Protocol, conf: &[(&str, &str)], name: &str) -> Result<Dropped> {
        with(vec![Field::new("a", Primitive::Long, false)], conf, |v| {
            without_feature(p, v, &[], name)
        })
    }

    #[test]
    fn a_feature_goes_with_its_properties() {
        let p = protocol(
            3,
            7,
            Some(&["vacuumProtocolCheck"]),
            Some(&["appendOnly", "changeDataFeed", "invariants", "vacuumProtocolCheck"]),
        );
        let conf = [("delta.enableChangeDataFeed", "true"), ("k", "v")];
        let d = drop_from(&p, &conf, "changedatafeed").unwrap();
        assert_eq!(d.metadata.configuration.len(), 1);
        let back = drop_from(&d.protocol, &[], "vacuumProtocolCheck").unwrap();
        assert_eq!(back.protocol, protocol(1, 2, None, None));
    }

    #[test]
    fn what_is_missing_needed_in_use_or_unsafe_is_refused() {
        // P098
        let p = protocol(
            3,
            7,
            Some(&["deletionVectors"]),
            Some(&[
                "checkConstraints",
                "deletionVectors",
                "domainMetadata",
                "invariants",
                "rowTracking",
            ]),
        );
        let conf = [("delta.constraints.c", "a > 0")];
        for (name, says) in [
            ("appendOnly", "nothing to drop"),
            ("domainMetadata", "rowTracking"),
            ("checkConstraints", "drop_constraint"),
            ("invariants", "drop_column_not_null"),
            ("deletionVectors", "DROP FEATURE"),
            ("flying", "flying"),
        ] {
            let e = drop_from(&p, &conf, name).unwrap_err();
            assert!(e.message().contains(says), "{name}: {e}");
        }
    }
}
