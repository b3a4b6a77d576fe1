//! What another writer may change of a table's protocol and metadata while a transaction runs,
//! without spoiling it (section 5.1 rules 1 and 2): files that were planned before must be right
//! after it too.

use crate::actions::{Metadata, Protocol};
use crate::features::hooks::safe_property::SafeProperty;
use crate::features::{all, column_mapping, identity_columns, supported};
use crate::mapping::MODE;
use crate::schema::StructType;
use crate::{Error, Result};

/// How a change of the protocol spoils a transaction that runs; `None` when it doesn't (rule 1).
pub fn protocol_clash(before: &Protocol, after: &Protocol) -> Option<String> {
    let (had, has) = (supported(before), supported(after));
    if let Some(gone) = had.difference(&has).next() {
        return Some(format!("made the table give up the feature {gone}"));
    }
    has.difference(&had)
        .find(|name| !all().any(|f| f.may_appear && f.name == name.as_str()))
        .map(|new| format!("made the table support the feature {new}"))
}

/// How a change of the metadata spoils a transaction that runs; `None` when it doesn't (rule 2).
/// `protocol` is the table's after the change.
///
/// # Errors
/// A schema that can't be parsed.
pub fn metadata_clash(before: &Metadata, after: &Metadata, protocol: &Protocol) -> Result<Option<String>> {
    let clash = configuration_clash(before, after, protocol);
    if clash.is_some() {
        return Ok(clash);
    }
    if bare(before) != bare(after) {
        return Ok(Some("changed the table's partitioning, name or description".to_owned()));
    }
    let mapped_now = before.configuration.get(MODE) != after.configuration.get(MODE);
    let same = comparable(before, mapped_now)? == comparable(after, mapped_now)?;
    Ok((!same).then(|| "changed the table's schema".to_owned()))
}

fn configuration_clash(before: &Metadata, after: &Metadata, protocol: &Protocol) -> Option<String> {
    let (old, new) = (&before.configuration, &after.configuration);
    if let Some(gone) = old.keys().find(|k| !new.contains_key(*k)) {
        return Some(format!("took the property `{gone}` away"));
    }
    let has = supported(protocol);
    let mut changed = new.iter().filter(|(k, v)| old.get(*k) != Some(*v));
    let spoils = |(key, value): &(&String, &String)| {
        let allows = |p: &SafeProperty| p.key == key.as_str() && (p.allows)(old.get(*key).map(String::as_str), value);
        !all().any(|f| has.contains(f.name) && f.safe_properties.iter().any(allows))
    };
    changed
        .find(spoils)
        .map(|(k, v)| format!("set the property `{k}` to `{v}`"))
}

/// The metadata without schema and properties.
fn bare(m: &Metadata) -> Metadata {
    Metadata {
        schema_string: None,
        configuration: Default::default(),
        ..m.clone()
    }
}

/// The schema without what may change: how far identity columns went and, where columns became
/// mapped by the names that they have, their ids.
fn comparable(m: &Metadata, mapped_now: bool) -> Result<StructType> {
    let text = m.schema_string.as_deref();
    let text = text.ok_or_else(|| Error::corrupt_log("the table's metaData action has no schemaString"))?;
    let schema = identity_columns::without_marks(&StructType::from_json(text)?);
    Ok(match mapped_now {
        true => column_mapping::strip(&schema),
        false => schema,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::features::tests::protocol;
    use crate::schema::{Field, Primitive};

    const FEATURES: &[&str] = &[
        "appendOnly",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "v2Checkpoint",
    ];

    fn listed(names: &[&str]) -> Protocol {
        protocol(3, 7, Some(&[]), Some(names))
    }

    fn table(conf: &[(&str, &str)], field: Field) -> Metadata {
        Metadata {
            schema_string: Some(StructType::new(vec![field]).to_json()),
            configuration: conf.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..Metadata::default()
        }
    }

    fn long(name: &str, extra: &[(&str, serde_json::Value)]) -> Field {
        let mut f = Field::new(name, Primitive::Long, true);
        f.metadata
            .extend(extra.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
        f
    }

    #[test]
    fn features_that_may_appear() {
        // Section 5.1 rule 1
        let before = listed(&["appendOnly", "invariants"]);
        for f in all().filter(|f| f.may_appear) {
            let after = listed(&["appendOnly", "invariants", f.name]);
            assert_eq!(protocol_clash(&before, &after), None, "{}", f.name);
        }
        for name in [
            "checkConstraints",
            "generatedColumns",
            "identityColumns",
            "clustering",
            "variantType",
            "new",
        ] {
            let clash = protocol_clash(&before, &listed(&["appendOnly", "invariants", name])).unwrap();
            assert!(clash.contains(name), "{clash}");
        }
        let clash = protocol_clash(&before, &listed(&["invariants"])).unwrap();
        assert!(clash.contains("give up the feature appendOnly"), "{clash}");
        // P075: sets count, not version numbers.
        assert_eq!(protocol_clash(&before, &protocol(1, 2, None, None)), None);
    }

    #[test]
    fn properties_that_may_be_set() {
        // Section 5.1 rule 2
        let refusal_of = |old: &[(&str, &str)], new: &[(&str, &str)], features: &[&str]| {
            let (old, new) = (table(old, long("a", &[])), table(new, long("a", &[])));
            metadata_clash(&old, &new, &listed(features)).unwrap()
        };
        let fine: &[(&str, &[(&str, &str)])] = &[
            (
                "rowTracking",
                &[
                    ("delta.enableRowTracking", "true"),
                    ("delta.rowTracking.materializedRowIdColumnName", "x"),
                ],
            ),
            ("deletionVectors", &[("delta.enableDeletionVectors", "true")]),
            ("v2Checkpoint", &[("delta.checkpointPolicy", "v2")]),
            (
                "columnMapping",
                &[
                    ("delta.columnMapping.mode", "name"),
                    ("delta.columnMapping.maxColumnId", "1"),
                ],
            ),
            (
                "inCommitTimestamp",
                &[
                    ("delta.enableInCommitTimestamps", "true"),
                    ("delta.inCommitTimestampEnablementVersion", "3"),
                ],
            ),
        ];
        for (feature, set) in fine {
            assert_eq!(refusal_of(&[], set, FEATURES), None, "{set:?}");
            // Inert properties are nobody's promise: without the feature they might come to mean
            // anything.
            let without: Vec<&str> = FEATURES.iter().copied().filter(|f| f != feature).collect();
            assert!(refusal_of(&[], set, &without).is_some(), "{set:?}");
        }
        type Set<'a> = &'a [(&'a str, &'a str)];
        let wrong: &[(Set<'_>, Set<'_>)] = &[
            (&[], &[("delta.enableRowTracking", "false")]),
            (&[], &[("delta.columnMapping.mode", "id")]),
            (
                &[("delta.columnMapping.mode", "id")],
                &[("delta.columnMapping.mode", "name")],
            ),
            (&[], &[("delta.appendOnly", "true")]),
            (&[], &[("delta.enableChangeDataFeed", "true")]),
            (&[], &[("mine", "1")]),
            (&[("delta.enableDeletionVectors", "true")], &[]),
            (
                &[("delta.rowTracking.materializedRowIdColumnName", "x")],
                &[("delta.rowTracking.materializedRowIdColumnName", "y")],
            ),
        ];
        for (old, new) in wrong {
            assert!(
                refusal_of(old, new, FEATURES).unwrap().contains("property"),
                "{old:?} {new:?}"
            );
        }
    }

    #[test]
    fn schemas_that_may_replace_each_other() {
        // Section 5.1 rule 2, P108, P111
        let mark = |v: i64| {
            long(
                "a",
                &[
                    ("delta.identity.start", 1.into()),
                    ("delta.identity.highWaterMark", v.into()),
                ],
            )
        };
        let all = listed(FEATURES);
        let clash = |old: &Metadata, new: &Metadata| metadata_clash(old, new, &all).unwrap();
        assert_eq!(clash(&table(&[], mark(3)), &table(&[], mark(9))), None);
        let mapped = long(
            "a",
            &[
                ("delta.columnMapping.id", 1.into()),
                ("delta.columnMapping.physicalName", "a".into()),
            ],
        );
        let mode = [("delta.columnMapping.mode", "name")];
        assert_eq!(clash(&table(&[], long("a", &[])), &table(&mode, mapped.clone())), None);
        for other in [
            long("b", &[]),
            Field::new("a", Primitive::Long, false),
            long("a", &[("comment", "c".into())]),
        ] {
            assert!(
                clash(&table(&[], long("a", &[])), &table(&[], other))
                    .unwrap()
                    .contains("schema")
            );
        }
        // A table that was mapped before keeps its ids.
        assert!(clash(&table(&mode, long("a", &[])), &table(&mode, mapped)).is_some());
        let named = Metadata {
            name: Some("n".to_owned()),
            ..table(&[], long("a", &[]))
        };
        assert!(clash(&table(&[], long("a", &[])), &named).unwrap().contains("name"));
    }
}
