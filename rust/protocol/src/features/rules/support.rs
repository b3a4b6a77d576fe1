//! What this build can do with each feature, asked of the rooms' own refusals: the one source of
//! what deltaplane says about itself. The question is put about a table that uses everything at
//! once, and for features that can't be with others about one that uses it alone.

use std::collections::BTreeMap;

use serde_json::json;

use crate::actions::Metadata;
use crate::features::hooks::example::Example;
use crate::features::{TableFeature, View, all};
use crate::mapping;
use crate::schema::{Field, Primitive, StructType};

/// Whether this build reads tables that use the feature.
pub fn reads(f: &TableFeature) -> bool {
    with(everything(), switches(), |v| (f.refuse_read)(v).is_none())
}

/// Whether this build writes tables that use the feature.
pub fn writes(f: &TableFeature) -> bool {
    let fine = |v: View<'_>| (f.refuse_read)(v).is_none() && (f.refuse_write)(v).is_none();
    with(everything(), switches(), fine) || alone(f, |v| (f.wanted)(v) && fine(v))
}

fn with<T>(schema: StructType, configuration: BTreeMap<String, String>, ask: impl FnOnce(View<'_>) -> T) -> T {
    let metadata = Metadata {
        schema_string: Some(schema.to_json()),
        configuration,
        ..Metadata::default()
    };
    ask(View {
        metadata: &metadata,
        schema: &schema,
    })
}

/// Asks about a table of one plain column with the switches of the feature and of those that it
/// needs.
fn alone<T>(f: &TableFeature, ask: impl FnOnce(View<'_>) -> T) -> T {
    let plain = || StructType::new(everything().fields().iter().take(1).cloned().collect());
    let needed = f
        .requires
        .iter()
        .filter_map(|name| crate::features::find(name))
        .chain([f]);
    let asks_for: Vec<&TableFeature> = needed.collect();
    let mut own = BTreeMap::new();
    for (key, value) in switches() {
        let properties = BTreeMap::from([(key.clone(), value.clone())]);
        if with(plain(), properties, |v| asks_for.iter().any(|r| (r.wanted)(v))) {
            own.insert(key, value);
        }
    }
    with(plain(), own, ask)
}

/// Every property that switches something on.
fn switches() -> BTreeMap<String, String> {
    let on = crate::properties::KNOWN
        .iter()
        .filter(|k| k.name == "appendOnly" || k.name.starts_with("enable"))
        .map(|k| (k.key(), "true".to_owned()));
    on.chain(example().properties).collect()
}

/// A column for every feature that columns ask for, mapped.
fn everything() -> StructType {
    let mut fields = example().fields;
    for (id, f) in fields.iter_mut().enumerate() {
        f.metadata.insert(mapping::ID.to_owned(), json!(id + 1));
        f.metadata
            .insert(mapping::PHYSICAL_NAME.to_owned(), json!(format!("col-{id}")));
    }
    StructType::new(fields)
}

/// The columns and properties of a table that uses every feature; its first column is a plain one.
fn example() -> Example {
    let mut example = Example {
        fields: vec![Field::new("id", Primitive::Long, true)],
        properties: BTreeMap::new(),
    };
    for f in all() {
        (f.example)(&mut example);
    }
    example
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_about_every_feature_that_metadata_can_ask_for() {
        // The others are asked for by name, by a domain or by a catalog.
        let unasked = [
            "catalogManaged",
            "catalogOwned-preview",
            "checkpointProtection",
            "clustering",
            "coordinatedCommits-preview",
            "domainMetadata",
            "vacuumProtocolCheck",
        ];
        for f in all().filter(|f| !f.name.ends_with("-preview") && !unasked.contains(&f.name)) {
            assert!(with(everything(), switches(), |v| (f.wanted)(v)), "{}", f.name);
        }
    }

    #[test]
    fn features_that_exclude_each_other_are_asked_one_by_one() {
        // P155
        for name in ["icebergCompatV1", "icebergCompatV2", "icebergCompatV3"] {
            assert!(crate::features::find(name).is_some_and(writes), "{name}");
        }
        // By name, in its catalog.
        assert!(crate::features::find("catalogManaged").is_some_and(|f| reads(f) && writes(f)));
        // A feature that is refused wherever it is stays so.
        assert!(!crate::features::find("catalogOwned-preview").is_some_and(writes));
    }
}
