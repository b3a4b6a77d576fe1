//! Features of the protocol that this build doesn't implement: known by name, so that a refusal can
//! name them. A writer-only feature here doesn't stop reading (P091).

use std::borrow::Cow;

use super::{Kind, Refusal, TableFeature, View, never};

/// Of the forerunners of catalogManaged.
fn superseded(_: View<'_>) -> Refusal {
    Some("which this version doesn't support, because catalogManaged replaced it".to_owned())
}

const fn writer(name: &'static str, requires: &'static [&'static str], wanted: fn(View<'_>) -> bool) -> TableFeature {
    TableFeature {
        requires,
        wanted,
        refuse_write: superseded,
        ..TableFeature::new(name, Kind::Writer)
    }
}

pub(super) static FEATURES: &[TableFeature] = &[
    TableFeature {
        refuse_read: superseded,
        refuse_write: superseded,
        ..TableFeature::new("catalogOwned-preview", Kind::ReaderWriter)
    },
    writer(
        "coordinatedCommits-preview",
        &["inCommitTimestamp", "vacuumProtocolCheck"],
        never,
    ),
];

/// Features of proposals (RFCs) for the protocol that this build doesn't implement, by
/// `protocol_rfcs` of delta-io/delta. Tables of delta-spark use some of them with `-preview` behind
/// their names.
const PROPOSED: &[&str] = &[
    "adaptiveMetadata",
    "collations",
    "columnMappingUsageTracking",
    "geospatial",
    "icebergWriterCompatV1",
    "redirectReaderWriter",
    "redirectWriterOnly",
    "timestampNanos",
];

/// An unknown feature as a refusal shows it: one of a proposal says so.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    match PROPOSED.contains(&name.strip_suffix("-preview").unwrap_or(name)) {
        true => format!("{name} (of a proposal for the Delta protocol, an RFC that deltaplane doesn't support)").into(),
        false => name.into(),
    }
}
