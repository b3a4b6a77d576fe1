//! V2 checkpoints (P056–P059): read in every form, written with sidecars where
//! `delta.checkpointPolicy` is `v2`.

use super::hooks::removal::{Removable, Removal};
use super::hooks::safe_property::safe;
use super::{Kind, TableFeature};
use crate::actions::Action;

/// Table property that chooses the kind of checkpoint.
pub(crate) const POLICY: &str = "delta.checkpointPolicy";

pub(super) static FEATURE: TableFeature = TableFeature {
    wanted: |v| v.metadata.configuration.get(POLICY).is_some_and(|p| p == "v2"),
    may_begin: true,
    may_appear: true,
    safe_properties: &[safe(POLICY, |_, new| new == "v2")],
    removable: Some(Removable {
        uses: Some(|a| matches!(a, Action::Metadata(m) if m.configuration.get(POLICY).is_some_and(|p| p == "v2"))),
        ..Removable::new(Removal::Properties(&[POLICY]))
    }),
    example: |e| e.property(POLICY, "v2"),
    ..TableFeature::new("v2Checkpoint", Kind::ReaderWriter)
};
