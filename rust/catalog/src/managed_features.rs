//! The table features that Unity's specification names for managed tables.

/// The feature of a table whose commits go through its catalog.
pub(crate) const CATALOG_MANAGED: &str = "catalogManaged";
/// Features of readers and writers that a managed table must have.
pub(crate) const REQUIRED_BOTH: &[&str] = &[
    CATALOG_MANAGED,
    "deletionVectors",
    "v2Checkpoint",
    "vacuumProtocolCheck",
];
/// Features of writers that a managed table must have.
pub(crate) const REQUIRED_WRITER: &[&str] = &["inCommitTimestamp"];
/// Features of readers and writers to enable where a client has them.
pub(crate) const SUGGESTED_BOTH: &[&str] = &["columnMapping"];
/// Features of writers to enable where a client has them.
pub(crate) const SUGGESTED_WRITER: &[&str] = &["domainMetadata", "rowTracking"];

/// Whether readers needn't know a feature. The classic API lists features without saying so.
pub(crate) fn is_writer_only(name: &str) -> bool {
    let all = [
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "clustering",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
    ];
    all.contains(&name)
}
