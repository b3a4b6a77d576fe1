//! Row tracking (P140–P143): every file has the id of its first row and the version that added it, both given at each
//! attempt from the base's high-water mark. Rewritten rows would need materialised ids: refused.

use serde_json::{Value, json};

use super::attempt::Attempt;
use super::{Kind, TableFeature, domain_metadata, fine};
use crate::actions::{Action, DomainMetadata, Metadata};
use crate::{Error, Result};

/// The domain that holds the highest row id given so far.
pub const DOMAIN: &str = "delta.rowTracking";
const ENABLED: &str = "delta.enableRowTracking";
const SUSPENDED: &str = "delta.rowTrackingSuspended";
const ROW_ID_COLUMN: &str = "delta.rowTracking.materializedRowIdColumnName";
const ROW_VERSION_COLUMN: &str = "delta.rowTracking.materializedRowCommitVersionColumnName";

/// What a commit says of the ids of the rows that it rewrote.
const PRESERVED: &str = "delta.rowTracking.preserved";
/// Operations whose new files hold rows of old ones: whoever carries their ids over sets the tag above beforehand.
const REWRITES: &[&str] = &["UPDATE", "MERGE", "DELETE", "OPTIMIZE", "REORG"];

/// Whether every row has an id, which whoever rewrites rows must carry over.
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

/// Names the hidden columns of a new table that enables row tracking (P141); `unique` makes them nobody else's.
pub fn complete_new(metadata: &mut Metadata, unique: &str) -> Result<()> {
    let is_on = |k: &str| {
        metadata
            .configuration
            .get(k)
            .is_some_and(|v| v.eq_ignore_ascii_case("true"))
    };
    if !is_on(ENABLED) {
        return Ok(());
    }
    if is_on(SUSPENDED) {
        return Err(Error::invalid_argument(format!(
            "{ENABLED} and {SUSPENDED} can't both be true (P141): leave one out"
        )));
    }
    let names = [
        (ROW_ID_COLUMN, "_row-id-col-"),
        (ROW_VERSION_COLUMN, "_row-commit-version-col-"),
    ];
    for (key, prefix) in names {
        metadata
            .configuration
            .insert(key.to_owned(), format!("{prefix}{unique}"));
    }
    Ok(())
}

/// Gives ids to the files that have none and raises the mark (P140).
pub(super) fn finish(attempt: &mut Attempt<'_>) -> Result<()> {
    let on = |m: &Metadata, k: &str| m.configuration.get(k).is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let (enabled, suspended) = attempt
        .metadata()
        .map_or((false, false), |m| (on(m, ENABLED), on(m, SUSPENDED)));
    if !attempt.supports(&FEATURE) || suspended {
        return Ok(());
    }
    if enabled && attempt.base.is_some_and(|b| !on(b.metadata, ENABLED)) {
        return Err(Error::unsupported_feature(format!(
            "{} can't be enabled on a table that exists: its files would need row ids first (P141); create the table with {ENABLED} = true",
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
            let rows = num_records(a.stats.as_deref()).ok_or_else(|| {
                Error::invalid_argument(format!(
                    "the file `{}` has no numRecords statistic: the table feature {} needs it to number the rows (P140)",
                    a.path, FEATURE.name
                ))
            })?;
            a.base_row_id = Some(mark + 1);
            mark = mark
                .checked_add(rows)
                .ok_or_else(|| Error::invalid_argument("the row ids of the table are used up"))?;
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
        let told = info.get("tags").is_some_and(|t| t.get(PRESERVED).is_some());
        if fresh && !told && REWRITES.contains(&operation) {
            return Err(Error::unsupported_feature(format!(
                "{operation} can't rewrite files of this table: its rows have ids (the table feature {}), which this version doesn't carry over into new files (P142); use another Delta program, or replace whole partitions",
                FEATURE.name
            )));
        }
        let tags = info.entry("tags").or_insert_with(|| json!({}));
        if let Value::Object(tags) = tags {
            // Whoever rewrites rows without their ids says so beforehand.
            tags.entry("delta.rowTracking.preserved")
                .or_insert_with(|| json!("true"));
        }
    }
    Ok(())
}

fn high_water_mark(d: &DomainMetadata) -> Result<i64> {
    let parsed: Option<Value> = serde_json::from_str(&d.configuration).ok();
    parsed.and_then(|v| v.get("rowIdHighWaterMark")?.as_i64()).ok_or_else(|| {
        Error::corrupt_log(format!(
            "the domain {DOMAIN} holds `{}`, which has no rowIdHighWaterMark: row ids can't be given without repeating some",
            d.configuration
        ))
    })
}

fn num_records(stats: Option<&str>) -> Option<i64> {
    let stats: Value = serde_json::from_str(stats?).ok()?;
    stats.get("numRecords")?.as_i64().filter(|n| *n >= 0)
}

fn as_i64(version: u64) -> Result<i64> {
    i64::try_from(version).map_err(|_| Error::internal(format!("version {version} is out of range")))
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "rowTracking",
    kind: Kind::Writer,
    legacy: None,
    requires: &[domain_metadata::FEATURE.name],
    wanted: |v| is_on(v.metadata),
    refuse_read: fine,
    refuse_write: fine,
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
