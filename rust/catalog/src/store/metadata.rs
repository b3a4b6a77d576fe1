//! A managed table's metadata: what updates do to it, the contract that it must keep, and the
//! properties that are derived from it. Pure functions.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::Protocol;
use crate::api::TableUpdate;
use crate::api::requests::check_text;
use crate::api::tables::TableType;
use crate::error::{CatalogError, Result};
use crate::managed_features::{REQUIRED_BOTH, REQUIRED_WRITER};
use crate::store::record::TableRecord;

/// The property with the table's identity, which version 0 must have.
pub(crate) const TABLE_ID: &str = "io.unitycatalog.tableId";
/// Properties with the one value that a managed table may have.
const REQUIRED_PROPERTIES: &[(&str, &str)] = &[
    ("delta.checkpointPolicy", "v2"),
    ("delta.enableDeletionVectors", "true"),
    ("delta.enableInCommitTimestamps", "true"),
    ("delta.checkpoint.writeStatsAsStruct", "true"),
    ("delta.checkpoint.writeStatsAsJson", "true"),
];
/// Properties that the server derives; clients must not set them.
const DERIVED: &[&str] = &[
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.clusteringColumns",
    "delta.rowTracking.rowIdHighWaterMark",
    "delta.lastUpdateVersion",
    "delta.lastCommitTimestamp",
];

/// The protocol that version 0 of a managed table must have at least.
pub(crate) fn required_protocol() -> Protocol {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut writer = owned(REQUIRED_BOTH);
    writer.extend(owned(REQUIRED_WRITER));
    writer.sort();
    Protocol {
        min_reader_version: 3,
        min_writer_version: 7,
        reader_features: Some(owned(REQUIRED_BOTH)),
        writer_features: Some(writer),
    }
}

/// The properties that version 0 of the managed table with this identity must have.
pub(crate) fn required_properties(uuid: &str) -> BTreeMap<String, Option<String>> {
    let fixed = REQUIRED_PROPERTIES
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())));
    fixed.chain([(TABLE_ID.to_owned(), Some(uuid.to_owned()))]).collect()
}

/// Whether the server derives this property.
pub(crate) fn is_derived(key: &str) -> bool {
    DERIVED.contains(&key) || key.starts_with("delta.feature.")
}

/// The properties as readers get them: the table's own, and those derived from protocol and
/// domains.
pub(crate) fn derived_properties(record: &TableRecord) -> BTreeMap<String, String> {
    let mut all = record.properties.clone();
    let mut put = |key: &str, value: String| {
        all.insert(key.to_owned(), value);
    };
    if record.protocol.min_reader_version > 0 {
        put("delta.minReaderVersion", record.protocol.min_reader_version.to_string());
        put("delta.minWriterVersion", record.protocol.min_writer_version.to_string());
    }
    for feature in record.protocol.features() {
        put(&format!("delta.feature.{feature}"), "supported".to_owned());
    }
    let domain = |name: &str, key: &str| record.domains.get(name).and_then(|domain| domain.get(key));
    if let Some(columns) = domain("delta.clustering", "clusteringColumns") {
        put("delta.clusteringColumns", columns.to_string());
    }
    if let Some(mark) = domain("delta.rowTracking", "rowIdHighWaterMark") {
        put("delta.rowTracking.rowIdHighWaterMark", mark.to_string());
    }
    if let Some(version) = record.last_update_version {
        put("delta.lastUpdateVersion", version.to_string());
    }
    if let Some(ms) = record.last_update_ms {
        put("delta.lastCommitTimestamp", ms.to_string());
    }
    all
}

/// Whether an update changes metadata, and thus the etag. Writers of row ids advance their domain
/// with each commit, which is none.
pub(crate) fn changes_metadata(update: &TableUpdate) -> bool {
    match update {
        TableUpdate::AddCommit { .. } | TableUpdate::SetLatestBackfilledVersion { .. } => false,
        TableUpdate::SetDomainMetadata { updates } => updates.keys().any(|domain| domain != "delta.rowTracking"),
        _ => true,
    }
}

/// Whether an update is stored with the table's metadata.
pub(crate) fn touches_record(update: &TableUpdate) -> bool {
    match update {
        TableUpdate::AddCommit { uniform, .. } => uniform.is_some(),
        TableUpdate::SetLatestBackfilledVersion { .. } => false,
        _ => true,
    }
}

/// Applies the updates of metadata, in any order: [`crate::api::UpdateTable::check`] refuses
/// requests in which the order matters.
pub(crate) fn apply(record: &mut TableRecord, updates: &[TableUpdate]) -> Result<()> {
    for update in updates {
        match update {
            TableUpdate::SetProperties { updates } => {
                if let Some(key) = updates.keys().find(|key| is_derived(key)) {
                    return Err(CatalogError::invalid(format!(
                        "the property {key} is derived by the catalog"
                    )));
                }
                record.properties.extend(updates.clone());
            }
            TableUpdate::RemoveProperties { removals } => {
                for key in removals {
                    record.properties.remove(key);
                }
            }
            TableUpdate::SetColumns { columns } => record.columns = columns.clone(),
            TableUpdate::SetTableComment { comment } => {
                check_text("comment", comment)?;
                record.comment = Some(comment.clone());
            }
            TableUpdate::SetProtocol { protocol } => record.protocol = protocol.clone(),
            TableUpdate::SetDomainMetadata { updates } => record.domains.extend(updates.clone()),
            TableUpdate::RemoveDomainMetadata { domains } => {
                for domain in domains {
                    record.domains.remove(domain);
                }
            }
            TableUpdate::SetPartitionColumns { partition_columns } => {
                record.partition_columns = partition_columns.clone();
            }
            TableUpdate::UpdateMetadataSnapshotVersion {
                last_commit_version,
                last_commit_timestamp_ms,
            } => {
                if record.table_type == TableType::Managed {
                    return Err(CatalogError::invalid(
                        "update-metadata-snapshot-version is for external tables",
                    ));
                }
                record.last_update_version = Some(*last_commit_version);
                record.last_update_ms = Some(*last_commit_timestamp_ms);
            }
            TableUpdate::AddCommit { uniform, .. } => record.uniform = uniform.clone(),
            TableUpdate::SetLatestBackfilledVersion { .. } => {}
        }
    }
    check_contract(record)
}

/// Refuses a managed table without the features and properties that it must have.
pub(crate) fn check_contract(record: &TableRecord) -> Result<()> {
    if record.table_type != TableType::Managed {
        return Ok(());
    }
    let protocol = &record.protocol;
    if protocol.min_reader_version < 3 || protocol.min_writer_version < 7 {
        return Err(CatalogError::invalid(
            "a managed table needs reader version 3 and writer version 7",
        ));
    }
    let has = |list: &Option<Vec<String>>, name: &str| list.iter().flatten().any(|feature| feature == name);
    for name in REQUIRED_BOTH {
        if !has(&protocol.reader_features, name) || !has(&protocol.writer_features, name) {
            return Err(CatalogError::invalid(format!(
                "a managed table needs the feature {name} for readers and writers"
            )));
        }
    }
    for name in REQUIRED_WRITER {
        if !has(&protocol.writer_features, name) {
            return Err(CatalogError::invalid(format!(
                "a managed table needs the writer feature {name}"
            )));
        }
    }
    for (key, value) in required_properties(&record.uuid) {
        if record.properties.get(&key) != value.as_ref() {
            return Err(CatalogError::invalid(format!(
                "a managed table needs the property {key} = {}",
                value.unwrap_or_default()
            )));
        }
    }
    Ok(())
}

/// Whether the table's commits must carry their conversion to Iceberg.
pub(crate) fn is_iceberg(record: &TableRecord) -> bool {
    record
        .properties
        .get("delta.universalFormat.enabledFormats")
        .is_some_and(|formats| formats.split(',').any(|format| format.trim() == "iceberg"))
}

/// Refuses a conversion whose file isn't in the table's location.
pub(crate) fn check_uniform(uniform: Option<&Value>, location: &str) -> Result<()> {
    let Some(uniform) = uniform else { return Ok(()) };
    let path = uniform
        .get("iceberg")
        .and_then(|iceberg| iceberg.get("metadata-location"));
    match path.and_then(Value::as_str) {
        Some(path) if crate::api::tables::is_below(path, location) && !path.contains("/../") => Ok(()),
        _ => Err(CatalogError::invalid(
            "uniform.iceberg.metadata-location must be below the table's location",
        )),
    }
}
