//! Row tracking (P140–P143): every file has the id of its first row and the version that added it,
//! both assigned at each attempt from the base's high-water mark. Computes what an existing table
//! needs before row tracking can be enabled. Rewritten rows have their ids in stored columns; a
//! commit that loses ids without declaring it is refused.

use serde_json::{Value, json};

use super::attempt::{Attempt, Base};
use super::hooks::own_domain::OwnDomain;
use super::hooks::removal::{FeatureUsage, Removable, Removal};
use super::hooks::safe_property::{first_set, safe, switched_on};
use super::{Directives, Kind, TableFeature, domain_metadata, supported};
use crate::actions::{Action, CommitInfo, DomainMetadata, Metadata};
use crate::files::rows::num_records;
use crate::{Error, Result};

/// The domain with the highest row id assigned so far.
pub const DOMAIN: &str = "delta.rowTracking";
pub(super) const ENABLED: &str = "delta.enableRowTracking";
const SUSPENDED: &str = "delta.rowTrackingSuspended";
pub(super) const ROW_ID_COLUMN: &str = "delta.rowTracking.materializedRowIdColumnName";
pub(super) const ROW_VERSION_COLUMN: &str = "delta.rowTracking.materializedRowCommitVersionColumnName";

/// All that a table says of it.
const PROPERTIES: &[&str] = &[ENABLED, SUSPENDED, ROW_ID_COLUMN, ROW_VERSION_COLUMN];

/// The operation of a commit that only removes row ids.
pub const UNBACKFILL: &str = "ROW TRACKING UNBACKFILL";
/// The operation of a commit that only assigns row ids to files that have none.
pub const BACKFILL: &str = "ROW TRACKING BACKFILL";

/// The tag of a commit that says whether rewritten rows keep their ids.
const PRESERVED: &str = "delta.rowTracking.preserved";
/// Operations whose new files contain old rows: a writer that preserves their ids sets the tag
/// above beforehand.
const REWRITES: &[&str] = &["UPDATE", "MERGE", "DELETE", "OPTIMIZE", "REORG"];

/// Whether every row has an id, which a writer must preserve when it rewrites rows.
pub fn is_on(m: &Metadata) -> bool {
    m.configuration
        .get(ENABLED)
        .is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

/// The physical names of the hidden columns of row ids and of row commit versions (P141).
pub fn materialised(m: &Metadata) -> (Option<String>, Option<String>) {
    let name = |key: &str| m.configuration.get(key).cloned();
    (name(ROW_ID_COLUMN), name(ROW_VERSION_COLUMN))
}

/// The field ids that Iceberg's format reserves for a row's id and for the version that last wrote
/// it.
pub const ICEBERG_IDS: [i32; 2] = [2_147_483_540, 2_147_483_539];

/// Declares that a commit didn't carry the row ids over into the files that it rewrote (P142).
pub fn lost_ids(info: &mut CommitInfo) {
    let tags = info.entry("tags").or_insert_with(|| json!({}));
    if let Value::Object(tags) = tags {
        tags.insert(PRESERVED.to_owned(), json!("false"));
    }
}

/// Whether a change of the metadata enables row tracking.
pub fn begins(before: &Metadata, after: &Metadata) -> bool {
    is_on(after) && !is_on(before)
}

/// Asks for the feature.
pub fn ask(asked: &mut Directives) {
    asked.features.insert(FEATURE.name.to_owned());
}

/// Names the hidden columns of a table that enables row tracking (P141), or, as delta-spark does,
/// is asked to support it, unless they have names; `unique` makes the names unique.
pub fn complete(metadata: &mut Metadata, asked: &Directives, unique: &str) -> Result<()> {
    let is_asked = asked.features.contains(FEATURE.name) && !asked.as_delta_rs;
    if !is_on(metadata) && !is_asked {
        return Ok(());
    }
    if is_on(metadata) && is_suspended(metadata) {
        return Err(Error::invalid_argument(format!(
            "{ENABLED} and {SUSPENDED} can't both be true (P141): leave one out"
        )));
    }
    let names = [
        (ROW_ID_COLUMN, "_row-id-col-"),
        (ROW_VERSION_COLUMN, "_row-commit-version-col-"),
    ];
    for (key, prefix) in names {
        let name = metadata.configuration.entry(key.to_owned());
        name.or_insert_with(|| format!("{prefix}{unique}"));
    }
    Ok(())
}

/// Declares that rows in a commit's new files keep their ids (P142).
pub fn say_preserved(info: &mut std::collections::BTreeMap<String, Value>) {
    let tags = info.entry("tags".to_owned()).or_insert_with(|| json!({}));
    if let Value::Object(tags) = tags {
        tags.insert(PRESERVED.to_owned(), json!("true"));
    }
}

/// The metadata of a table whose writers assign no ids to new files, and whose files may lack ids.
fn suspended(m: &Metadata) -> Metadata {
    let mut m = m.clone();
    m.configuration.insert(SUSPENDED.to_owned(), "true".to_owned());
    m
}

/// Whether a commit only assigns row ids to files that have none, or only removes them.
pub fn only_numbers_files(operation: &str) -> bool {
    [BACKFILL, UNBACKFILL].contains(&operation)
}

/// Refuses to enable row tracking while a property suspends the assignment of ids: an earlier
/// commit must set the property to false.
fn check_begin(before: &Metadata, after: &Metadata) -> Result<()> {
    if begins(before, after) && is_suspended(before) {
        return Err(Error::invalid_argument(format!(
            "{ENABLED} can't be set while writers give no ids to new files: set {SUSPENDED} to false in a change of its own first"
        )));
    }
    Ok(())
}

fn is_suspended(m: &Metadata) -> bool {
    m.configuration
        .get(SUSPENDED)
        .is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

/// Assigns ids to the files that have none, and raises the high-water mark (P140).
fn finish(attempt: &mut Attempt<'_>) -> Result<()> {
    let (enabled, suspended) = attempt
        .metadata()
        .map_or((false, false), |m| (is_on(m), is_suspended(m)));
    if !attempt.supports(FEATURE.name) || suspended {
        return Ok(());
    }
    let had = |b: &Base<'_>| supported(b.protocol).contains(FEATURE.name);
    if enabled
        && attempt
            .base
            .is_some_and(|b| !is_on(b.metadata) && !had(&b) && b.keeps_files)
    {
        return Err(Error::unsupported_feature(format!(
            "{} can't be enabled by this commit: the files that are there need row ids first (P141); set {ENABLED} = true with alter.set_table_properties",
            FEATURE.name
        )));
    }
    let old = attempt
        .base
        .and_then(|b| b.domains.get(DOMAIN))
        .map_or(Ok(-1), high_water_mark)?;
    let (mut mark, version) = (old, as_i64(attempt.version)?);
    let mut fresh = false;
    for a in &mut attempt.actions {
        let Action::Add(a) = a else { continue };
        if a.base_row_id.is_none() {
            fresh = true;
            let rows = a.stats.as_deref().and_then(num_records).ok_or_else(|| {
                Error::invalid_argument(format!(
                    "the file `{}` has no numRecords statistic: the table feature {} needs it to number the rows (P140)",
                    a.path, FEATURE.name
                ))
            })?;
            let used_up = || Error::invalid_argument("the row ids of the table are used up");
            a.base_row_id = Some(mark.checked_add(1).ok_or_else(used_up)?);
            mark = mark.checked_add(rows).ok_or_else(used_up)?;
        }
        a.default_row_commit_version.get_or_insert(version);
    }
    if mark > old {
        attempt.set_domain(DomainMetadata {
            domain: DOMAIN.to_owned(),
            configuration: json!({"domainName": DOMAIN, "rowIdHighWaterMark": mark}).to_string(),
            removed: false,
        });
    }
    if enabled && let Some(info) = attempt.info() {
        let operation = info.get("operation").and_then(Value::as_str).unwrap_or_default();
        let preserved = info.get("tags").is_some_and(|t| t.get(PRESERVED).is_some());
        if fresh && !preserved && REWRITES.contains(&operation) {
            return Err(Error::unsupported_feature(format!(
                "{operation} adds files without the ids of their rows to a table whose rewritten rows must keep theirs (the table feature {}, P142): use deltaplane's own {operation}, which carries them over, or commit new rows under another operation",
                FEATURE.name
            )));
        }
        let tags = info.entry("tags").or_insert_with(|| json!({}));
        if let Value::Object(tags) = tags {
            // A writer that rewrites rows without their ids sets the tag beforehand.
            tags.entry("delta.rowTracking.preserved")
                .or_insert_with(|| json!("true"));
        }
    }
    Ok(())
}

/// The one of two row tracking domains that has the higher row id.
fn higher(mark: Option<DomainMetadata>, other: Option<DomainMetadata>) -> Result<Option<DomainMetadata>> {
    Ok(match (mark, other) {
        (Some(a), Some(b)) if high_water_mark(&b)? > high_water_mark(&a)? => Some(b),
        (a, b) => a.or(b),
    })
}

fn high_water_mark(d: &DomainMetadata) -> Result<i64> {
    let parsed: Option<Value> = serde_json::from_str(&d.configuration).ok();
    // -1 represents a table that has allocated no id.
    let mark = parsed.and_then(|v| v.get("rowIdHighWaterMark")?.as_i64().filter(|mark| *mark >= -1));
    mark.ok_or_else(|| {
        Error::corrupt_log(format!(
            "the domain {DOMAIN} holds `{}`, which has no rowIdHighWaterMark of -1 or more: row ids can't be given without repeating some",
            d.configuration
        ))
    })
}

fn as_i64(version: u64) -> Result<i64> {
    i64::try_from(version).map_err(|_| Error::internal(format!("version {version} is out of range")))
}

pub(super) static FEATURE: TableFeature = TableFeature {
    requires: &[domain_metadata::FEATURE.name],
    wanted: |v| is_on(v.metadata),
    may_begin: true,
    may_appear: true,
    safe_properties: &[
        safe(ENABLED, switched_on),
        safe(ROW_ID_COLUMN, first_set),
        safe(ROW_VERSION_COLUMN, first_set),
    ],
    check_change: |before, after| before.map_or(Ok(()), |b| check_begin(b.metadata, after.metadata)),
    removable: Some(Removable {
        usage: FeatureUsage::RowIds,
        suspended,
        ..Removable::new(Removal::Properties(PROPERTIES))
    }),
    domain: Some(OwnDomain {
        name: DOMAIN,
        cloned: higher,
        check_drop: |_| Ok(()),
    }),
    finish,
    lasting_properties: &[ROW_ID_COLUMN, ROW_VERSION_COLUMN],
    ..TableFeature::new("rowTracking", Kind::Writer)
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::actions::{Add, Protocol};
    use crate::features::attempt::Base;
    use crate::features::finish as finish_all;

    fn commit(operation: &str, stats: &str) -> Result<Vec<Action>> {
        let metadata = Metadata {
            configuration: [(ENABLED.to_owned(), "true".to_owned())].into(),
            ..Metadata::default()
        };
        let protocol = Protocol {
            min_reader_version: 1,
            min_writer_version: 7,
            reader_features: None,
            writer_features: Some(vec![FEATURE.name.to_owned(), domain_metadata::FEATURE.name.to_owned()]),
        };
        let base = Base {
            version: 4,
            time_ms: None,
            protocol: &protocol,
            metadata: &metadata,
            domains: &BTreeMap::new(),
            keeps_files: true,
        };
        let info = [("operation".to_owned(), json!(operation))].into_iter().collect();
        let add = Add {
            stats: Some(stats.to_owned()),
            ..Add::default()
        };
        finish_all(Some(base), 0, vec![Action::CommitInfo(info), Action::Add(add)])
    }

    #[test]
    fn rows_that_are_rewritten_may_not_lose_their_ids() {
        // P140, P142
        let done = commit("WRITE", r#"{"numRecords":3}"#).unwrap();
        assert!(done.iter().any(
            |a| matches!(a, Action::Add(a) if a.base_row_id == Some(0) && a.default_row_commit_version == Some(5))
        ));
        for operation in REWRITES {
            let e = commit(operation, r#"{"numRecords":3}"#).unwrap_err();
            assert!(e.message().contains(FEATURE.name), "{e}");
        }
        assert!(commit("WRITE", "{}").unwrap_err().message().contains("numRecords"));
    }
}
