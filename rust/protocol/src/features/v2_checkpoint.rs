//! V2 checkpoints (P056–P059): read in every form, written with sidecars where `delta.checkpointPolicy` is `v2`.

use super::{Kind, TableFeature, fine};

/// Table property that chooses the kind of checkpoint.
pub(super) const POLICY: &str = "delta.checkpointPolicy";

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "v2Checkpoint",
    kind: Kind::ReaderWriter,
    legacy: None,
    requires: &[],
    wanted: |v| v.metadata.configuration.get(POLICY).is_some_and(|p| p == "v2"),
    refuse_read: fine,
    refuse_write: fine,
};
