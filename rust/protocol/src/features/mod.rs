//! Table features as data: a file each with all facts of it, which the rules about all features
//! read in loops. The only place with feature names.

mod append_only;
pub mod catalog_managed;
pub mod change_data_feed;
mod check_constraints;
pub mod checkpoint_protection;
pub mod clustering;
mod column_defaults;
pub mod column_mapping;
pub mod deletion_vectors;
pub mod domain_metadata;
#[cfg(test)]
mod dummy;
mod generated_columns;
mod hooks;
pub mod iceberg_compat;
pub mod identity_columns;
pub mod in_commit_timestamp;
mod invariants;
pub mod materialize_partition_columns;
pub mod row_tracking;
mod rules;
mod timestamp_ntz;
pub mod type_widening;
mod unsupported;
mod v2_checkpoint;
mod vacuum_protocol_check;
mod variant;

use std::collections::BTreeSet;

use crate::actions::{Action, Metadata, Protocol};
use crate::schema::{DataType, Field, Primitive, StructType};
use crate::{Error, Result};
use hooks::attempt::{Attempt, Base};
pub(in crate::features) use hooks::table_feature::never;

pub use hooks::attempt;
pub use hooks::directives::{Directives, known};
pub use hooks::removal::FeatureUsage;
pub(in crate::features) use hooks::row_rule;
pub use hooks::row_rule::{ColumnRule, RowCheck, RowRules, mentions};
pub use hooks::table_feature::{Kind, Refusal, TableFeature};
pub use rules::concurrent::{metadata_clash, protocol_clash};
pub use rules::drop::{Dropped, without_feature};
pub use rules::minimum_protocol::{check_versions, protocol_for, protocol_with};
pub use rules::row_rules::row_rules;
pub use rules::stored_ids::{StoredIds, stored_ids};
pub use rules::support::{reads, writes};
pub use rules::transitions::{check_change, check_replacement, outlives_definition, outlives_replacement};
pub use rules::{arrow_metadata, cloned, restored};

/// What a table looks like to a feature's hooks.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The table's metadata.
    pub metadata: &'a Metadata,
    /// Its parsed schema.
    pub schema: &'a StructType,
}

impl View<'_> {
    /// Whether a boolean table property is on.
    pub fn is_on(&self, property: &str) -> bool {
        self.metadata
            .configuration
            .get(property)
            .is_some_and(|v| v.eq_ignore_ascii_case("true"))
    }

    /// Whether a column, or a part of one, is of this type.
    pub fn holds(&self, p: Primitive) -> bool {
        self.schema.fields().iter().any(|f| holds(&f.data_type, p))
    }

    /// The first field, at any depth, for which `test` holds.
    pub fn find_field(&self, test: &dyn Fn(&Field) -> bool) -> Option<String> {
        self.find_in_fields(&|f| test(f).then_some(())).map(|(name, ())| name)
    }

    /// The first field, at any depth, in which `look` finds something, and what it found.
    pub fn find_in_fields<T>(&self, look: &dyn Fn(&Field) -> Option<T>) -> Option<(String, T)> {
        find_in_struct(self.schema, look)
    }
}

/// The properties of a table's new data files, apart from their columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileForm {
    /// Whether data files contain the partition columns (P156).
    pub partition_columns: bool,
    /// Whether variants get typed columns (P154).
    pub typed_variants: bool,
}

/// The form of new files.
pub fn file_form(protocol: &Protocol, metadata: &Metadata, schema: &StructType) -> FileForm {
    let mut form = FileForm::default();
    for f in all() {
        (f.file_form)(protocol, View { metadata, schema }, &mut form);
    }
    form
}

fn holds(t: &DataType, p: Primitive) -> bool {
    match t {
        DataType::Primitive(own) => *own == p,
        DataType::Array(a) => holds(&a.element, p),
        DataType::Map(m) => holds(&m.key, p) || holds(&m.value, p),
        DataType::Struct(s) => s.fields().iter().any(|f| holds(&f.data_type, p)),
    }
}

fn find_in_struct<T>(s: &StructType, look: &dyn Fn(&Field) -> Option<T>) -> Option<(String, T)> {
    s.fields().iter().find_map(|f| match look(f) {
        Some(reason) => Some((f.name.clone(), reason)),
        None => find_in_type(&f.data_type, look),
    })
}

fn find_in_type<T>(t: &DataType, look: &dyn Fn(&Field) -> Option<T>) -> Option<(String, T)> {
    match t {
        DataType::Primitive(_) => None,
        DataType::Array(a) => find_in_type(&a.element, look),
        DataType::Map(m) => find_in_type(&m.key, look).or_else(|| find_in_type(&m.value, look)),
        DataType::Struct(s) => find_in_struct(s, look),
    }
}

/// All features this build knows by name.
pub fn all() -> impl Iterator<Item = &'static TableFeature> {
    NATIVE.iter().copied().chain(unsupported::FEATURES)
}

static NATIVE: &[&TableFeature] = &[
    &append_only::FEATURE,
    &invariants::FEATURE,
    &check_constraints::FEATURE,
    &change_data_feed::FEATURE,
    &generated_columns::FEATURE,
    &column_defaults::FEATURE,
    &column_mapping::FEATURE,
    &identity_columns::FEATURE,
    &iceberg_compat::FEATURE_V1,
    &iceberg_compat::FEATURE_V2,
    &iceberg_compat::FEATURE_V3,
    &materialize_partition_columns::FEATURE,
    &in_commit_timestamp::FEATURE,
    &catalog_managed::FEATURE,
    &row_tracking::FEATURE,
    &clustering::FEATURE,
    &checkpoint_protection::FEATURE,
    &deletion_vectors::FEATURE,
    &domain_metadata::FEATURE,
    &timestamp_ntz::FEATURE,
    &type_widening::FEATURE,
    &type_widening::PREVIEW,
    &variant::TYPE,
    &variant::TYPE_PREVIEW,
    &variant::SHREDDING,
    &variant::SHREDDING_PREVIEW,
    &v2_checkpoint::FEATURE,
    &vacuum_protocol_check::FEATURE,
    #[cfg(test)]
    &dummy::FEATURE,
];

/// The feature of this name.
pub fn find(name: &str) -> Option<&'static TableFeature> {
    all().find(|f| f.name == name)
}

/// The versions that name features one by one, and the highest ones known.
const FEATURES_READER: i32 = 3;
const FEATURES_WRITER: i32 = 7;

/// The features that a protocol supports, listed or implied by its legacy versions (P092, P094).
pub fn supported(p: &Protocol) -> BTreeSet<String> {
    let listed = p.reader_features.iter().chain(&p.writer_features).flatten().cloned();
    let implied = all().filter(|f| {
        f.legacy.is_some_and(|(r, w)| {
            let by_writer = p.min_writer_version < FEATURES_WRITER && p.min_writer_version >= w;
            by_writer && (f.kind == Kind::Writer || p.min_reader_version >= r)
        })
    });
    listed.chain(implied.map(|f| f.name.to_owned())).collect()
}

/// Refuses a protocol that is malformed or newer than this build can read (P048, P090, P092).
pub fn check_readable_protocol(p: &Protocol) -> Result<()> {
    if p.min_reader_version < 1 || p.min_writer_version < 1 {
        return Err(Error::corrupt_log(format!(
            "the table's protocol ({}, {}) isn't valid: versions start at 1",
            p.min_reader_version, p.min_writer_version
        )));
    }
    if p.min_reader_version > FEATURES_READER {
        return Err(Error::unsupported_feature(format!(
            "the table needs reader version {}, this build of deltaplane knows up to {FEATURES_READER}: use a newer version",
            p.min_reader_version
        )));
    }
    check_lists(p)?;
    if p.min_reader_version == FEATURES_READER {
        let listed = p.reader_features.as_ref().ok_or_else(|| {
            Error::corrupt_log("the table's protocol has reader version 3 without a list of reader features")
        })?;
        let unknown = listed.iter().filter(|n| find(n).is_none());
        let unknown: Vec<_> = unknown.map(|name| unsupported::shown(name)).collect();
        if !unknown.is_empty() {
            return Err(unsupported(
                "read",
                &unknown.join(", "),
                "which this version doesn't know",
            ));
        }
    }
    Ok(())
}

/// Lists of features exist exactly at the versions that have them, and reader version 3 needs
/// writer version 7 (P092).
fn check_lists(p: &Protocol) -> Result<()> {
    let wrong = if p.reader_features.is_some() && p.min_reader_version != FEATURES_READER {
        "lists reader features without reader version 3"
    } else if p.writer_features.is_some() && p.min_writer_version < FEATURES_WRITER {
        "lists writer features without writer version 7"
    } else if p.writer_features.is_none() && p.min_writer_version == FEATURES_WRITER {
        "has writer version 7 without a list of writer features"
    } else if p.min_reader_version == FEATURES_READER && p.min_writer_version < FEATURES_WRITER {
        "has reader version 3 with a writer version below 7"
    } else {
        return Ok(());
    };
    Err(Error::corrupt_log(format!(
        "the table's protocol ({}, {}) {wrong}: a faulty program wrote it",
        p.min_reader_version, p.min_writer_version
    )))
}

/// Each known feature must be in the lists that its kind requires (P092).
fn check_kinds(p: &Protocol) -> Result<()> {
    let (readers, writers) = (
        p.reader_features.as_deref().unwrap_or_default(),
        p.writer_features.as_deref().unwrap_or_default(),
    );
    let wrong = |name: &str, what: &str| {
        Err(Error::corrupt_log(format!(
            "the table's protocol lists the feature {name} {what}: a faulty program wrote it"
        )))
    };
    for name in readers {
        if find(name).is_some_and(|f| f.kind == Kind::Writer) {
            return wrong(name, "for readers, who needn't know it");
        }
        if !writers.contains(name) {
            return wrong(name, "for readers and not for writers");
        }
    }
    for f in writers
        .iter()
        .filter_map(|n| find(n))
        .filter(|f| f.kind == Kind::ReaderWriter)
    {
        // The versions below 3 imply some of them.
        let implied = f.legacy.is_some_and(|(r, _)| p.min_reader_version >= r) && p.reader_features.is_none();
        if !implied && !readers.iter().any(|n| n == f.name) {
            return wrong(f.name, "for writers and not for readers");
        }
    }
    Ok(())
}

/// A feature must be listed together with those that it requires, under their own names or those of
/// their previews (section 6).
fn check_requirements(p: &Protocol) -> Result<()> {
    let had = supported(p);
    let has = |name: &str| had.contains(name) || had.contains(&format!("{name}-preview"));
    for f in had.iter().filter_map(|n| find(n)) {
        if let Some(missing) = f.requires.iter().find(|r| !has(r)) {
            return Err(Error::corrupt_log(format!(
                "the table's protocol lists the feature {} without {missing}, which it requires: a faulty program wrote it; add the feature {missing} with that program",
                f.name
            )));
        }
    }
    Ok(())
}

/// Refuses a table whose supported features this build can't read with this metadata.
pub fn check_read(p: &Protocol, view: View<'_>) -> Result<()> {
    check_readable_protocol(p)?;
    for f in supported(p).iter().filter_map(|n| find(n)) {
        if let Some(why) = (f.refuse_read)(view) {
            return Err(unsupported("read", f.name, &why));
        }
    }
    Ok(())
}

/// Refuses a table that this build can't write: unknown features (P091), or ones it can't keep up.
pub fn check_write(p: &Protocol, view: View<'_>) -> Result<()> {
    check_read(p, view)?;
    check_kinds(p)?;
    check_requirements(p)?;
    if p.min_writer_version > FEATURES_WRITER {
        return Err(Error::unsupported_feature(format!(
            "the table needs writer version {}, this build of deltaplane knows up to {FEATURES_WRITER}: use a newer version",
            p.min_writer_version
        )));
    }
    for name in supported(p) {
        let Some(f) = find(&name) else {
            let name = unsupported::shown(&name);
            return Err(unsupported("write", &name, "which this version doesn't know"));
        };
        if let Some(why) = (f.refuse_write)(view) {
            return Err(unsupported("write", f.name, &why));
        }
    }
    let names = supported(p);
    match all().find_map(|f| Some((f.name, (f.refuse_beside)(view, &names)?))) {
        Some((name, why)) => Err(unsupported("write", name, &why)),
        None => Ok(()),
    }
}

fn unknown_feature(name: &str) -> Error {
    if unsupported::shown(name) != name {
        return Error::unsupported_feature(format!(
            "can't add the table feature {}: leave it out, or use another Delta program for this table",
            unsupported::shown(name)
        ));
    }
    Error::unsupported_feature(format!(
        "`{name}` isn't a table feature that this version of deltaplane knows: check the spelling, or use a newer version"
    ))
}

fn unsupported(verb: &str, name: &str, why: &str) -> Error {
    Error::unsupported_feature(format!(
        "can't {verb} this table: it uses the table feature {name}, {why}; use a newer deltaplane, or another Delta program for this table"
    ))
}

/// Whether a remove that changes rows is forbidden (P100).
pub fn is_append_only(view: View<'_>) -> bool {
    (append_only::FEATURE.wanted)(view)
}

/// The actions of a commit on this base at this time, or why there can't be one.
pub fn finish(base: Option<Base<'_>>, now_ms: i64, actions: Vec<Action>) -> Result<Vec<Action>> {
    let version = base.map_or(0, |b| b.version + 1);
    if i64::try_from(version).is_err() {
        return Err(Error::invalid_argument(
            "the table is at the last version that there can be: write what it holds into a new table",
        ));
    }
    let mut attempt = Attempt {
        base,
        version,
        now_ms,
        actions,
    };
    all().try_for_each(|f| (f.finish)(&mut attempt))?;
    all().try_for_each(|f| (f.check_actions)(&mut attempt))?;
    Ok(attempt.actions)
}

/// Whether a commit that leaves this metadata needs its base's time.
pub fn needs_time(metadata: &Metadata) -> bool {
    in_commit_timestamp::enabled_from(metadata).is_some()
}

/// Whether checkpoints of a table of this protocol may be of version 2 (P058).
pub fn allows_v2_checkpoints(protocol: &Protocol) -> bool {
    supported(protocol).contains(v2_checkpoint::FEATURE.name)
}

/// Whether a table of this protocol may have domains.
pub fn needs_domains(protocol: &Protocol) -> bool {
    supported(protocol).contains(domain_metadata::FEATURE.name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(super) fn protocol(r: i32, w: i32, rf: Option<&[&str]>, wf: Option<&[&str]>) -> Protocol {
        let own = |l: Option<&[&str]>| l.map(|l| l.iter().map(|s| (*s).to_owned()).collect());
        Protocol {
            min_reader_version: r,
            min_writer_version: w,
            reader_features: own(rf),
            writer_features: own(wf),
        }
    }
    pub(super) fn with<T>(fields: Vec<Field>, conf: &[(&str, &str)], f: impl FnOnce(View<'_>) -> T) -> T {
        let metadata = Metadata {
            configuration: conf.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..Metadata::default()
        };
        f(View {
            metadata: &metadata,
            schema: &StructType::new(fields),
        })
    }

    #[test]
    fn new_tables_get_the_weakest_protocol() {
        // P095
        let plain = with(vec![Field::new("a", Primitive::Long, true)], &[], |v| {
            protocol_for(None, v)
        })
        .unwrap();
        assert_eq!(plain, protocol(1, 2, None, None));
        let ntz = with(vec![Field::new("a", Primitive::TimestampNtz, true)], &[], |v| {
            protocol_for(None, v)
        })
        .unwrap();
        assert_eq!(
            ntz,
            protocol(
                3,
                7,
                Some(&["timestampNtz"]),
                Some(&["appendOnly", "invariants", "timestampNtz"])
            )
        );
        let cdf = with(vec![], &[("delta.enableChangeDataFeed", "true")], |v| {
            protocol_for(None, v)
        })
        .unwrap();
        assert_eq!(
            cdf,
            protocol(1, 7, None, Some(&["appendOnly", "changeDataFeed", "invariants"]))
        );
        // P092: as delta-spark makes it, readable for all who know reader version 2.
        let mapped = with(vec![], &[("delta.columnMapping.mode", "name")], |v| {
            protocol_for(None, v)
        })
        .unwrap();
        assert_eq!(
            mapped,
            protocol(2, 7, None, Some(&["appendOnly", "columnMapping", "invariants"]))
        );
    }

    #[test]
    fn an_upgrade_lists_what_was_implied() {
        // P094
        let ntz = vec![Field::new("a", Primitive::TimestampNtz, true)];
        let p = with(ntz, &[], |v| protocol_for(Some(&protocol(1, 4, None, None)), v)).unwrap();
        assert_eq!(p.min_reader_version, 3);
        assert_eq!(
            p.writer_features.unwrap(),
            [
                "appendOnly",
                "changeDataFeed",
                "checkConstraints",
                "generatedColumns",
                "invariants",
                "timestampNtz"
            ]
        );
    }

    #[test]
    fn unknown_features_are_refused_by_name() {
        // P090, P091: unknown writer-only features don't block reading
        let p = protocol(3, 7, Some(&["futureReader"]), Some(&["futureReader"]));
        assert!(
            with(vec![], &[], |v| check_read(&p, v))
                .unwrap_err()
                .message()
                .contains("futureReader")
        );
        let p = protocol(1, 7, None, Some(&["futureWriter"]));
        with(vec![], &[], |v| check_read(&p, v)).unwrap();
        assert!(
            with(vec![], &[], |v| check_write(&p, v))
                .unwrap_err()
                .message()
                .contains("futureWriter")
        );
        assert!(check_readable_protocol(&protocol(4, 7, None, None)).is_err());
    }

    #[test]
    fn features_of_proposals_are_refused_as_such() {
        let p = protocol(
            3,
            7,
            Some(&["collations-preview", "x"]),
            Some(&["collations-preview", "x"]),
        );
        let e = with(vec![], &[], |v| check_read(&p, v)).unwrap_err();
        assert!(e.message().contains("collations-preview (of a proposal"), "{e}");
        assert!(
            e.message().contains("support), x, which this version doesn't know"),
            "{e}"
        );
        let p = protocol(1, 7, None, Some(&["icebergWriterCompatV1"]));
        let e = with(vec![], &[], |v| check_write(&p, v)).unwrap_err();
        assert!(e.message().contains("icebergWriterCompatV1 (of a proposal"), "{e}");
        assert!(unknown_feature("timestampNanos").message().contains("an RFC"));
        assert!(unknown_feature("futureWriter").message().contains("check the spelling"));
    }

    #[test]
    fn lists_must_be_where_the_versions_have_them() {
        // P092
        for p in [
            protocol(3, 7, None, Some(&[])),
            protocol(1, 7, None, None),
            protocol(1, 2, None, Some(&[])),
            protocol(2, 7, Some(&[]), Some(&[])),
            protocol(3, 6, Some(&[]), None),
        ] {
            let e = check_readable_protocol(&p).unwrap_err();
            assert_eq!(e.kind(), crate::Kind::CorruptLog, "{p:?}");
        }
    }

    #[test]
    fn features_must_stand_in_the_right_lists() {
        // P092
        let wrong = [
            protocol(3, 7, Some(&["v2Checkpoint"]), Some(&[])),
            protocol(3, 7, Some(&[]), Some(&["v2Checkpoint"])),
            protocol(3, 7, Some(&["appendOnly"]), Some(&["appendOnly"])),
            protocol(1, 7, None, Some(&["columnMapping"])),
        ];
        for p in wrong {
            let e = with(vec![], &[], |v| check_write(&p, v)).unwrap_err();
            assert_eq!(e.kind(), crate::Kind::CorruptLog, "{p:?}");
        }
        for lonely in ["clustering", "rowTracking", "icebergCompatV1"] {
            let e = with(vec![], &[], |v| check_write(&protocol(1, 7, None, Some(&[lonely])), v)).unwrap_err();
            assert!(e.message().contains(lonely) && e.message().contains("requires"), "{e}");
        }
        let legacy = protocol(2, 7, None, Some(&["columnMapping"]));
        with(vec![], &[], |v| check_write(&legacy, v)).unwrap();
    }
}
