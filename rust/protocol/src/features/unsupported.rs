//! Features of the protocol that this build doesn't implement: known by name, so that a refusal can
//! name them. A writer-only feature here doesn't stop reading (P091).

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
