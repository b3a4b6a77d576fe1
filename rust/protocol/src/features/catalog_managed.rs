//! Catalog-managed tables (P158): a catalog decides which commits count, so the files of the log
//! tell it only together with the catalog's answers. Commits carry their own time and the id of
//! their transaction.

use std::collections::BTreeMap;

use super::attempt::Attempt;
use super::{
    Directives, Kind, TableFeature, deletion_vectors, in_commit_timestamp, supported, unsupported, v2_checkpoint,
};
use crate::actions::Protocol;
use crate::{Error, Result};

/// The property with the table's id in Unity Catalog.
const TABLE_ID: &str = "io.unitycatalog.tableId";
/// The properties that Unity Catalog requires of managed tables.
const REQUIRED: [&str; 6] = [
    TABLE_ID,
    in_commit_timestamp::ENABLED,
    deletion_vectors::PROPERTY,
    v2_checkpoint::POLICY,
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct",
];

/// What decides the commits of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// The store: the first put of a version's name.
    FileSystem,
    /// A catalog.
    Catalog,
}

impl Authority {
    /// Of a table that was opened before, where the two were compared: for other processes that
    /// only plan.
    pub fn of_opened(protocol: &Protocol) -> Self {
        match is_managed(protocol) {
            true => Authority::Catalog,
            false => Authority::FileSystem,
        }
    }

    /// Refuses to read a table whose commits a catalog decides without that catalog. An older
    /// version of a table may not have the feature yet.
    pub(crate) fn check_read(self, protocol: &Protocol) -> Result<()> {
        match self == Authority::FileSystem && is_managed(protocol) {
            true => Err(unsupported(
                "open",
                FEATURE.name,
                "by which a catalog decides which of its commits count, and it was opened by its location alone; open it by its name in that catalog",
            )),
            false => Ok(()),
        }
    }

    /// Refuses a commit that would leave a table whose protocol contradicts what decides its
    /// commits.
    pub fn check_commit(self, protocol: &Protocol) -> Result<()> {
        match (self, is_managed(protocol)) {
            (Authority::FileSystem, true) => Err(Error::unsupported_feature(format!(
                "a table gets the feature {} only where its catalog creates it: create the table by its name in the catalog, and copy the rows",
                FEATURE.name
            ))),
            (Authority::Catalog, false) => Err(Error::unsupported_feature(format!(
                "the catalog says that it manages this table, whose protocol lacks the feature {}: open the table by its location, or create a new one in the catalog",
                FEATURE.name
            ))),
            _ => Ok(()),
        }
    }
}

/// Whether a catalog decides the commits of a table of this protocol.
pub fn is_managed(protocol: &Protocol) -> bool {
    supported(protocol).contains(FEATURE.name)
}

/// Asks for the feature and for what it needs, in a new table that a catalog manages.
pub fn ask(asked: &mut Directives, configuration: &mut BTreeMap<String, String>) {
    asked.features.insert(FEATURE.name.to_owned());
    configuration
        .entry(in_commit_timestamp::ENABLED.to_owned())
        .or_insert_with(|| "true".to_owned());
}

/// Retains the properties that the table's catalog requires, where the table is replaced by a
/// definition that doesn't name them.
pub fn retain(before: &BTreeMap<String, String>, after: &mut BTreeMap<String, String>) {
    for (key, value) in REQUIRED.iter().filter_map(|key| before.get_key_value(*key)) {
        after.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

fn check_actions(attempt: &mut Attempt<'_>) -> Result<()> {
    if !attempt.supports(FEATURE.name) {
        return Ok(());
    }
    if attempt.metadata().and_then(in_commit_timestamp::enabled_from).is_none() {
        return Err(Error::invalid_argument(format!(
            "the commits of a table that a catalog manages ({}) carry their own times: leave {} on",
            FEATURE.name,
            in_commit_timestamp::ENABLED
        )));
    }
    let info = attempt.info();
    let is_named = info.is_some_and(|i| {
        let id = i.get("txnId").and_then(serde_json::Value::as_str);
        id.is_some_and(|id| !id.is_empty()) && in_commit_timestamp::stamp_of(i).is_some()
    });
    match is_named {
        true => Ok(()),
        false => Err(Error::internal(
            "a commit to a catalog-managed table lacks its time or its transaction's id",
        )),
    }
}

pub(super) static FEATURE: TableFeature = TableFeature {
    requires: &["inCommitTimestamp", "vacuumProtocolCheck"],
    may_appear: true,
    needs_catalog: true,
    log_properties: &[TABLE_ID],
    check_actions,
    ..TableFeature::new("catalogManaged", Kind::ReaderWriter)
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::features::tests::protocol;

    #[test]
    fn a_protocol_must_fit_what_decides_the_commits() {
        // P158
        let managed = protocol(
            3,
            7,
            Some(&["catalogManaged", "vacuumProtocolCheck"]),
            Some(&["catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"]),
        );
        let plain = protocol(1, 2, None, None);
        let message = |checked: Result<()>| checked.unwrap_err().message().to_owned();
        let by_path = message(Authority::FileSystem.check_read(&managed));
        assert!(
            by_path.contains("catalogManaged") && by_path.contains("by its name"),
            "{by_path}"
        );
        assert!(message(Authority::FileSystem.check_commit(&managed)).contains("catalogManaged"));
        assert!(message(Authority::Catalog.check_commit(&plain)).contains("by its location"));
        Authority::FileSystem.check_read(&plain).unwrap();
        Authority::FileSystem.check_commit(&plain).unwrap();
        Authority::Catalog.check_read(&managed).unwrap();
        Authority::Catalog.check_commit(&managed).unwrap();
        // A version from before the feature.
        Authority::Catalog.check_read(&plain).unwrap();
    }
}
