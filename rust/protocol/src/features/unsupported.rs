//! Features of the protocol that this build doesn't implement: known by name, so that a refusal can
//! name them. A writer-only feature here doesn't stop reading (P091).

use super::{Kind, Refusal, TableFeature, View, never};

fn missing(_: View<'_>) -> Refusal {
    Some("which this version doesn't support".to_owned())
}

const fn reader_writer(name: &'static str, wanted: fn(View<'_>) -> bool) -> TableFeature {
    TableFeature {
        wanted,
        refuse_read: missing,
        refuse_write: missing,
        ..TableFeature::new(name, Kind::ReaderWriter)
    }
}

const fn writer(name: &'static str, requires: &'static [&'static str], wanted: fn(View<'_>) -> bool) -> TableFeature {
    TableFeature {
        requires,
        wanted,
        refuse_write: missing,
        ..TableFeature::new(name, Kind::Writer)
    }
}

pub(super) static FEATURES: &[TableFeature] = &[
    reader_writer("catalogManaged", never),
    reader_writer("catalogOwned-preview", never),
    writer(
        "coordinatedCommits-preview",
        &["inCommitTimestamp", "vacuumProtocolCheck"],
        never,
    ),
];
