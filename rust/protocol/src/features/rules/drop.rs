//! Dropping a feature (P098): nobody may depend on it, its properties go, its traces must be gone,
//! and for a feature that old versions need to be read these must stay readable as they are. Pure:
//! what to look for in files and history is told, the log looks. What isn't safe is refused with
//! the remedy.

use crate::actions::{Action, DomainMetadata, Metadata, Protocol};
use crate::features::hooks::removal::{Removal, Removed};
use crate::features::rules::minimum_protocol;
use crate::features::{FeatureUsage, TableFeature, View, checkpoint_protection, find, known, supported};
use crate::{Error, Result};

/// What is left of a table when a feature is dropped, and what has to be done before.
#[derive(Debug)]
pub struct Dropped {
    /// The protocol without the feature.
    pub protocol: Protocol,
    /// The metadata without what belongs to it.
    pub metadata: Metadata,
    /// The metadata that keeps writers from leaving more traces while old ones are looked for,
    /// where it isn't so yet.
    pub prepared: Option<Metadata>,
    /// Tombstones of the domains that belong to it.
    pub domains: Vec<DomainMetadata>,
    /// The feature's name as the protocol spells it.
    pub feature: &'static str,
    /// The reason why live files, if there are any, would have to be rewritten under other names.
    pub rewrite: Option<String>,
    /// What must be gone from live files.
    pub usage: FeatureUsage,
    /// Whether an action of an old version needs the feature, where versions do.
    pub uses: Option<fn(&Action) -> bool>,
    /// Whether the feature is what protects checkpoints, which is over once history is.
    pub protects_history: bool,
}

impl Dropped {
    /// The protocol and metadata if old versions stay, which only programs that know the feature
    /// may clean up (P157): `version` is the one that drops it.
    pub fn protected(&self, version: u64) -> (Protocol, Metadata) {
        let protocol = minimum_protocol::with(&self.protocol, checkpoint_protection::FEATURE.name);
        (protocol, checkpoint_protection::protect(&self.metadata, version))
    }
}

/// Plans the drop of a feature.
///
/// Errors: `InvalidArgument` where the table doesn't support it, others depend on it or it is in
/// use; `UnsupportedFeature` for features that can't be dropped here.
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
    let Some(removable) = feature.removable else {
        return Err(Error::unsupported_feature(format!(
            "the feature {} can't be dropped: what the table holds of it would have to be written anew without it; write the rows to a new table",
            feature.name
        )));
    };
    let Removed {
        metadata,
        rewrite,
        usage,
    } = removed(removable.removal, feature, view)?;
    let usage = usage.unwrap_or(removable.usage);
    let is_in_use = usage != FeatureUsage::None || removable.uses.is_some();
    let prepared = (removable.suspended)(&metadata);
    if let Some(first) = (removable.domains_in_use)(domains) {
        return Err(in_use(feature, &first));
    }
    Ok(Dropped {
        domains: tombstones(feature, domains)?,
        protocol: minimum_protocol::without(base, feature.name),
        prepared: (is_in_use && prepared != *view.metadata).then_some(prepared),
        metadata,
        rewrite,
        feature: feature.name,
        usage,
        uses: removable.uses,
        protects_history: feature.name == checkpoint_protection::FEATURE.name,
    })
}

fn in_use(feature: &TableFeature, remedy: &str) -> Error {
    Error::invalid_argument(format!("the feature {} is in use: {remedy}", feature.name))
}

/// The metadata without what belongs to a feature.
fn removed(removal: Removal, feature: &TableFeature, view: View<'_>) -> Result<Removed> {
    let mut metadata = view.metadata.clone();
    match removal {
        Removal::Unused(remedy) if (feature.wanted)(view) => return Err(in_use(feature, remedy)),
        Removal::Unused(_) => {}
        Removal::Properties(keys) => metadata.configuration.retain(|k, _| !keys.contains(&k.as_str())),
        Removal::By(removed) => return Ok(removed(view)),
    }
    Ok(Removed {
        metadata,
        rewrite: None,
        usage: None,
    })
}

/// The tombstone of a feature's domain, once nothing is in it.
fn tombstones(feature: &TableFeature, domains: &[DomainMetadata]) -> Result<Vec<DomainMetadata>> {
    let Some(own) = feature.domain else {
        return Ok(Vec::new());
    };
    let own_domains = domains.iter().filter(|d| d.domain == own.name);
    own_domains
        .map(|d| {
            (own.check_drop)(d)?;
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
            Some(&["deletionVectors", "timestampNtz"]),
            Some(&[
                "checkConstraints",
                "deletionVectors",
                "domainMetadata",
                "invariants",
                "rowTracking",
                "timestampNtz",
            ]),
        );
        let conf = [("delta.constraints.c", "a > 0")];
        for (name, says) in [
            ("appendOnly", "nothing to drop"),
            ("domainMetadata", "rowTracking"),
            ("checkConstraints", "drop_constraint"),
            ("invariants", "drop_column_not_null"),
            ("timestampNtz", "new table"),
            ("flying", "flying"),
        ] {
            let e = drop_from(&p, &conf, name).unwrap_err();
            assert!(e.message().contains(says), "{name}: {e}");
        }
    }

    fn supporting(name: &str) -> Protocol {
        let readers: &[&str] = if name == "rowTracking" { &[] } else { &[name] };
        protocol(
            3,
            7,
            Some(readers),
            Some(&["appendOnly", "domainMetadata", "invariants", name]),
        )
    }

    #[test]
    fn what_goes_first_what_is_looked_for_and_what_stays() {
        // P098: feature, its property, what live files may have, whether old versions need it
        let cases = [
            (
                "deletionVectors",
                ("delta.enableDeletionVectors", "true"),
                FeatureUsage::Vectors,
                true,
            ),
            (
                "v2Checkpoint",
                ("delta.checkpointPolicy", "v2"),
                FeatureUsage::None,
                true,
            ),
            (
                "typeWidening",
                ("delta.enableTypeWidening", "true"),
                FeatureUsage::None,
                true,
            ),
            (
                "rowTracking",
                ("delta.enableRowTracking", "true"),
                FeatureUsage::RowIds,
                false,
            ),
        ];
        for (name, property, usage, versions) in cases {
            let p = supporting(name);
            let d = drop_from(&p, &[property, ("k", "v")], name).unwrap();
            assert_eq!((d.usage, d.uses.is_some()), (usage, versions), "{name}");
            assert_eq!(d.metadata.configuration.len(), 1, "{name}");
            let first = d.prepared.as_ref().unwrap();
            assert!(!first.configuration.contains_key(property.0), "{name}");
            assert_eq!(
                first.configuration.contains_key("delta.rowTrackingSuspended"),
                name == "rowTracking"
            );
            assert!(!supported(&d.protocol).contains(name));
            // Once it is so, nothing has to be told again.
            let again: Vec<(&str, &str)> = first
                .configuration
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect();
            assert!(drop_from(&p, &again, name).unwrap().prepared.is_none(), "{name}");
            let (protected, metadata) = d.protected(9);
            assert!(supported(&protected).contains("checkpointProtection"));
            assert_eq!(checkpoint_protection::protected_before(&metadata), 9);
        }
    }

    #[test]
    fn marks_in_the_schema_keep_a_feature() {
        let mut widened = Field::new("a", Primitive::Long, true);
        widened
            .metadata
            .insert("delta.typeChanges".to_owned(), serde_json::json!([]));
        let d = with(vec![widened], &[("delta.enableTypeWidening", "true")], |v| {
            without_feature(&supporting("typeWidening"), v, &[], "typeWidening").unwrap()
        });
        assert_eq!((d.usage, d.rewrite), (FeatureUsage::OldTypes, None));
        // Where there are no files the marks may go.
        assert!(!d.metadata.schema_string.unwrap().contains("typeChanges"));
        let mapped = |name: &str, physical: &str, id: i32| {
            let mut f = Field::new(name, Primitive::Long, true);
            f.metadata.insert("delta.columnMapping.id".to_owned(), id.into());
            f.metadata
                .insert("delta.columnMapping.physicalName".to_owned(), physical.into());
            f
        };
        let conf = |max| {
            [
                ("delta.columnMapping.mode", "name"),
                ("delta.columnMapping.maxColumnId", max),
            ]
        };
        let drop_of = |f: Field, max| {
            with(vec![f], &conf(max), |v| {
                without_feature(&supporting("columnMapping"), v, &[], "columnMapping")
            })
        };
        let plain = drop_of(mapped("a", "a", 1), "1").unwrap();
        assert!(plain.metadata.configuration.is_empty() && plain.rewrite.is_none());
        assert!(!plain.metadata.schema_string.unwrap().contains("columnMapping"));
        assert!(
            drop_of(mapped("b", "a", 1), "1")
                .unwrap()
                .rewrite
                .unwrap()
                .contains("`b`")
        );
        // A column that was dropped would come back with its old rows when one of its name is
        // added.
        assert!(
            drop_of(mapped("a", "a", 1), "2")
                .unwrap()
                .rewrite
                .unwrap()
                .contains("dropped")
        );
    }
}
