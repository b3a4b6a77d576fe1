//! Column mapping (P110–P116) as a table feature. What the mapping means for names is in `mapping`.

use super::{Kind, Refusal, TableFeature, View, supported};
use crate::Result;
use crate::actions::{Metadata, Protocol};
use crate::mapping::Mapping;

fn is_wanted(v: View<'_>) -> bool {
    Mapping::of(&v.metadata.configuration).is_ok_and(|m| m != Mapping::None)
}

fn unknown_mode(v: View<'_>) -> Refusal {
    Mapping::of(&v.metadata.configuration)
        .err()
        .map(|e| format!("but {}", e.message()))
}

fn no_writes(v: View<'_>) -> Refusal {
    is_wanted(v).then(|| "whose names this version can't write by".to_owned())
}

/// The mapping that a table's files have: the property means nothing without the feature (P093).
///
/// # Errors
/// `UnsupportedFeature` for an unknown mode.
pub fn mapping(protocol: &Protocol, metadata: &Metadata) -> Result<Mapping> {
    if supported(protocol).contains(FEATURE.name) {
        Mapping::of(&metadata.configuration)
    } else {
        Ok(Mapping::None)
    }
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "columnMapping",
    kind: Kind::ReaderWriter,
    legacy: Some((2, 5)),
    requires: &[],
    wanted: is_wanted,
    refuse_read: unknown_mode,
    refuse_write: no_writes,
};
