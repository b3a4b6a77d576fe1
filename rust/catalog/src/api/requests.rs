//! Requests of the Delta API v1.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::columns::check_columns;
use crate::api::tables::{Commit, Protocol, TableType, check_commit};
use crate::error::{CatalogError, ErrorType, Result};
use crate::limits::{MAX_ENTRIES, MAX_INLINE_BYTES, MAX_KEY_BYTES, MAX_TEXT_BYTES, MAX_VALUE_BYTES};
use crate::names::check_name;

/// A request to create a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CreateTable {
    /// The table's name in its schema.
    pub name: String,
    /// For managed tables, the staging table's location.
    pub location: String,
    /// Who owns the files.
    pub table_type: TableType,
    /// The table's comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The schema in the API's spelling.
    pub columns: Value,
    /// Logical names of the partition columns.
    #[serde(default)]
    pub partition_columns: Vec<String>,
    /// The protocol of version 0.
    pub protocol: Protocol,
    /// The properties of version 0.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Domains of version 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain_metadata: Option<BTreeMap<String, Value>>,
    /// Version 0's timestamp, in ms since 1970 (UTC).
    pub last_commit_timestamp_ms: i64,
    /// Conversion to Iceberg, unread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uniform: Option<Value>,
}

impl CreateTable {
    pub(crate) fn check(&self) -> Result<()> {
        check_name("table", &self.name)?;
        check_text("location", &self.location)?;
        check_text("comment", self.comment.as_deref().unwrap_or_default())?;
        check_columns(&self.columns)?;
        check_entries(
            "partition columns",
            self.partition_columns.iter().map(|name| (name.as_str(), "")),
        )?;
        check_protocol(&self.protocol)?;
        check_entries("properties", pairs(&self.properties))?;
        check_domains(self.domain_metadata.iter().flatten())?;
        if self.last_commit_timestamp_ms < 1 {
            return Err(CatalogError::invalid("last-commit-timestamp-ms must be positive"));
        }
        Ok(())
    }
}

/// The requirement of a transaction on a table that it only read.
const LATEST: &str = "assert-latest-version";

/// What an update requires of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssertedTable {
    /// The table's identity.
    pub uuid: String,
    /// The metadata's etag, if the update depends on it.
    pub etag: Option<String>,
}

/// A request to update a table: requirements and updates, all or nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateTable {
    #[serde(default)]
    requirements: Vec<Value>,
    /// The updates, at most one of each type.
    #[serde(default)]
    pub updates: Vec<TableUpdate>,
}

impl UpdateTable {
    /// Updates of the table with this identity.
    pub fn new(asserted: &AssertedTable, updates: Vec<TableUpdate>) -> Self {
        let mut requirements = vec![serde_json::json!({"type": "assert-table-uuid", "uuid": asserted.uuid})];
        if let Some(etag) = &asserted.etag {
            requirements.push(serde_json::json!({"type": "assert-etag", "etag": etag}));
        }
        UpdateTable { requirements, updates }
    }

    /// A requirement without an update, for [`crate::Catalog::update_all`]: the table with this
    /// identity, which a transaction only read, has no version after this one.
    pub fn unchanged(uuid: &str, version: i64) -> Self {
        let requirements = vec![
            serde_json::json!({"type": "assert-table-uuid", "uuid": uuid}),
            serde_json::json!({"type": LATEST, "version": version}),
        ];
        UpdateTable {
            requirements,
            updates: Vec::new(),
        }
    }

    /// The version that must be the latest one, if the request is of [`UpdateTable::unchanged`].
    pub fn unchanged_version(&self) -> Result<Option<i64>> {
        let is_latest = |requirement: &&Value| requirement.get("type").and_then(Value::as_str) == Some(LATEST);
        let mut matches = self.requirements.iter().filter(is_latest);
        let Some(requirement) = matches.next() else {
            return Ok(None);
        };
        if matches.next().is_some() || !self.updates.is_empty() {
            return Err(CatalogError::invalid(format!(
                "the requirement {LATEST} may occur once, in a request without updates"
            )));
        }
        let version = requirement.get("version").and_then(Value::as_i64);
        let version = version.filter(|version| *version >= 0);
        version
            .map(Some)
            .ok_or_else(|| bad(format!("the requirement {requirement} lacks its value")))
    }

    /// The requirements, of which the identity is mandatory.
    pub fn asserted(&self) -> Result<AssertedTable> {
        let mut uuid = None;
        let mut etag = None;
        for requirement in &self.requirements {
            let field = |name: &str| requirement.get(name).and_then(Value::as_str).map(str::to_owned);
            let (slot, value) = match field("type").as_deref() {
                Some("assert-table-uuid") => (&mut uuid, field("uuid")),
                Some("assert-etag") => (&mut etag, field("etag")),
                Some(LATEST) => continue,
                other => return Err(bad(format!("the requirement {other:?} is unknown"))),
            };
            let value = value.ok_or_else(|| bad(format!("the requirement {requirement} lacks its value")))?;
            if slot.replace(value).is_some() {
                return Err(CatalogError::invalid("each requirement may occur once"));
            }
        }
        let uuid = uuid.ok_or_else(|| CatalogError::invalid("the requirement assert-table-uuid is missing"))?;
        Ok(AssertedTable { uuid, etag })
    }

    /// The commit that the request adds.
    pub fn commit(&self) -> Option<&Commit> {
        self.updates.iter().find_map(|update| match update {
            TableUpdate::AddCommit { commit, .. } => Some(commit),
            _ => None,
        })
    }

    /// Checks shape and limits; requirements are checked by [`UpdateTable::asserted`].
    pub(crate) fn check(&self) -> Result<()> {
        if self.updates.is_empty() {
            return Err(CatalogError::invalid("updates must not be empty"));
        }
        let mut actions = BTreeSet::new();
        let mut keys = (BTreeSet::new(), BTreeSet::new());
        let mut domains = (BTreeSet::new(), BTreeSet::new());
        for update in &self.updates {
            if !actions.insert(update.action()) {
                return Err(CatalogError::invalid(format!(
                    "the action {} may occur once",
                    update.action()
                )));
            }
            update.check()?;
            match update {
                TableUpdate::SetProperties { updates } => keys.0.extend(updates.keys()),
                TableUpdate::RemoveProperties { removals } => keys.1.extend(removals),
                TableUpdate::SetDomainMetadata { updates } => domains.0.extend(updates.keys()),
                TableUpdate::RemoveDomainMetadata { domains: removed } => domains.1.extend(removed),
                _ => {}
            }
        }
        let overlap = keys
            .0
            .intersection(&keys.1)
            .chain(domains.0.intersection(&domains.1))
            .next();
        match overlap {
            Some(key) => Err(CatalogError::invalid(format!(
                "{key:?} is set and removed in one request"
            ))),
            None => Ok(()),
        }
    }
}

/// One update of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum TableUpdate {
    /// Sets properties.
    SetProperties {
        /// Values by key.
        updates: BTreeMap<String, String>,
    },
    /// Removes properties.
    RemoveProperties {
        /// The keys.
        removals: Vec<String>,
    },
    /// Replaces the schema.
    SetColumns {
        /// The schema in the API's spelling.
        columns: Value,
    },
    /// Sets the comment.
    SetTableComment {
        /// The comment.
        comment: String,
    },
    /// Ratifies a commit.
    AddCommit {
        /// The commit.
        commit: Commit,
        /// Conversion to Iceberg, unread.
        #[serde(skip_serializing_if = "Option::is_none")]
        uniform: Option<Value>,
    },
    /// Reports that all versions up to one are published.
    SetLatestBackfilledVersion {
        /// That version.
        latest_published_version: i64,
    },
    /// Replaces the protocol.
    SetProtocol {
        /// The protocol.
        protocol: Protocol,
    },
    /// Sets domains.
    SetDomainMetadata {
        /// Values by domain.
        updates: BTreeMap<String, Value>,
    },
    /// Removes domains.
    RemoveDomainMetadata {
        /// The domains.
        domains: Vec<String>,
    },
    /// Replaces the partition columns.
    SetPartitionColumns {
        /// Their logical names.
        partition_columns: Vec<String>,
    },
    /// Reports an external table's version.
    UpdateMetadataSnapshotVersion {
        /// The last version that changed metadata.
        last_commit_version: i64,
        /// Its timestamp, in ms since 1970 (UTC).
        last_commit_timestamp_ms: i64,
    },
}

/// The fields of all actions. serde's tagged enums can't read numbers of any precision.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct AnyUpdate {
    action: String,
    updates: Option<Value>,
    removals: Option<Vec<String>>,
    columns: Option<Value>,
    comment: Option<String>,
    commit: Option<Commit>,
    uniform: Option<Value>,
    latest_published_version: Option<i64>,
    protocol: Option<Protocol>,
    domains: Option<Vec<String>>,
    partition_columns: Option<Vec<String>>,
    last_commit_version: Option<i64>,
    last_commit_timestamp_ms: Option<i64>,
}

impl<'de> Deserialize<'de> for TableUpdate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let any = AnyUpdate::deserialize(deserializer)?;
        let lacks = |field: &'static str| move || D::Error::missing_field(field);
        let map = |value: Option<Value>| value.ok_or_else(lacks("updates"));
        Ok(match any.action.as_str() {
            "set-properties" => TableUpdate::SetProperties {
                updates: serde_json::from_value(map(any.updates)?).map_err(D::Error::custom)?,
            },
            "remove-properties" => TableUpdate::RemoveProperties {
                removals: any.removals.ok_or_else(lacks("removals"))?,
            },
            "set-columns" => TableUpdate::SetColumns {
                columns: any.columns.ok_or_else(lacks("columns"))?,
            },
            "set-table-comment" => TableUpdate::SetTableComment {
                comment: any.comment.ok_or_else(lacks("comment"))?,
            },
            "add-commit" => TableUpdate::AddCommit {
                commit: any.commit.ok_or_else(lacks("commit"))?,
                uniform: any.uniform,
            },
            "set-latest-backfilled-version" => TableUpdate::SetLatestBackfilledVersion {
                latest_published_version: any
                    .latest_published_version
                    .ok_or_else(lacks("latest-published-version"))?,
            },
            "set-protocol" => TableUpdate::SetProtocol {
                protocol: any.protocol.ok_or_else(lacks("protocol"))?,
            },
            "set-domain-metadata" => {
                let mut updates: BTreeMap<String, Value> =
                    serde_json::from_value(map(any.updates)?).map_err(D::Error::custom)?;
                // Generated clients send all known domains, and null for those that don't change.
                updates.retain(|_, value| !value.is_null());
                TableUpdate::SetDomainMetadata { updates }
            }
            "remove-domain-metadata" => TableUpdate::RemoveDomainMetadata {
                domains: any.domains.ok_or_else(lacks("domains"))?,
            },
            "set-partition-columns" => TableUpdate::SetPartitionColumns {
                partition_columns: any.partition_columns.ok_or_else(lacks("partition-columns"))?,
            },
            "update-metadata-snapshot-version" => TableUpdate::UpdateMetadataSnapshotVersion {
                last_commit_version: any.last_commit_version.ok_or_else(lacks("last-commit-version"))?,
                last_commit_timestamp_ms: any
                    .last_commit_timestamp_ms
                    .ok_or_else(lacks("last-commit-timestamp-ms"))?,
            },
            other => return Err(D::Error::custom(format_args!("the action {other:?} is unknown"))),
        })
    }
}

impl TableUpdate {
    /// The action's name.
    pub fn action(&self) -> &'static str {
        match self {
            TableUpdate::SetProperties { .. } => "set-properties",
            TableUpdate::RemoveProperties { .. } => "remove-properties",
            TableUpdate::SetColumns { .. } => "set-columns",
            TableUpdate::SetTableComment { .. } => "set-table-comment",
            TableUpdate::AddCommit { .. } => "add-commit",
            TableUpdate::SetLatestBackfilledVersion { .. } => "set-latest-backfilled-version",
            TableUpdate::SetProtocol { .. } => "set-protocol",
            TableUpdate::SetDomainMetadata { .. } => "set-domain-metadata",
            TableUpdate::RemoveDomainMetadata { .. } => "remove-domain-metadata",
            TableUpdate::SetPartitionColumns { .. } => "set-partition-columns",
            TableUpdate::UpdateMetadataSnapshotVersion { .. } => "update-metadata-snapshot-version",
        }
    }

    fn check(&self) -> Result<()> {
        let names = |what, list: &[String]| check_entries(what, list.iter().map(|name| (name.as_str(), "")));
        match self {
            TableUpdate::SetProperties { updates } => check_entries("properties", pairs(updates)),
            TableUpdate::RemoveProperties { removals } => names("properties", removals),
            TableUpdate::SetColumns { columns } => check_columns(columns),
            TableUpdate::SetTableComment { comment } => check_text("comment", comment),
            TableUpdate::AddCommit { commit, .. } => {
                check_commit(commit)?;
                match &commit.content {
                    Some(content) if content.len() > MAX_INLINE_BYTES => Err(CatalogError::invalid(format!(
                        "an inline commit may have {MAX_INLINE_BYTES} bytes, this one has {}: stage it as a file",
                        content.len()
                    ))),
                    Some(content) if content.len() as i64 != commit.file_size => Err(CatalogError::invalid(
                        "file-size must be the number of bytes of the inline commit",
                    )),
                    _ => Ok(()),
                }
            }
            TableUpdate::SetProtocol { protocol } => check_protocol(protocol),
            TableUpdate::SetDomainMetadata { updates } => check_domains(updates.iter()),
            TableUpdate::RemoveDomainMetadata { domains } => names("domains", domains),
            TableUpdate::SetPartitionColumns { partition_columns } => names("partition columns", partition_columns),
            TableUpdate::SetLatestBackfilledVersion {
                latest_published_version: version,
            }
            | TableUpdate::UpdateMetadataSnapshotVersion {
                last_commit_version: version,
                ..
            } => {
                if *version < 0 {
                    return Err(CatalogError::invalid(format!(
                        "the version {version} must not be negative"
                    )));
                }
                Ok(())
            }
        }
    }
}

fn check_protocol(protocol: &Protocol) -> Result<()> {
    check_entries("features", protocol.features().into_iter().map(|name| (name, "")))
}

fn bad(message: String) -> CatalogError {
    CatalogError::new(ErrorType::BadRequest, message)
}

fn pairs(map: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    map.iter().map(|(key, value)| (key.as_str(), value.as_str()))
}

pub(crate) fn check_text(what: &str, text: &str) -> Result<()> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(CatalogError::invalid(format!(
            "the {what} has {} bytes; at most {MAX_TEXT_BYTES}",
            text.len()
        )));
    }
    if text.contains('\0') {
        return Err(CatalogError::invalid(format!("the {what} contains a NUL character")));
    }
    Ok(())
}

pub(crate) fn check_entries<'a>(what: &str, entries: impl Iterator<Item = (&'a str, &'a str)>) -> Result<()> {
    for (count, (key, value)) in entries.enumerate() {
        if count >= MAX_ENTRIES {
            return Err(CatalogError::invalid(format!("more than {MAX_ENTRIES} {what}")));
        }
        if key.is_empty() || key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
            return Err(CatalogError::invalid(format!(
                "a key of the {what} must have 1 to {MAX_KEY_BYTES} bytes, and its value at most {MAX_VALUE_BYTES}"
            )));
        }
        // PostgreSQL can't store it, and no table needs it.
        if key.contains('\0') || value.contains('\0') {
            return Err(CatalogError::invalid(format!("the {what} contain a NUL character")));
        }
    }
    Ok(())
}

fn check_domains<'a>(domains: impl Iterator<Item = (&'a String, &'a Value)>) -> Result<()> {
    let texts: Vec<_> = domains.map(|(name, value)| (name, value.to_string())).collect();
    check_entries(
        "domains",
        texts.iter().map(|(name, text)| (name.as_str(), text.as_str())),
    )
}
