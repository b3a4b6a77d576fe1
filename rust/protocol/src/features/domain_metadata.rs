//! Domain metadata (P151): read and preserved; commits of this build touch no domain.

use super::{Kind, TableFeature, fine, never};

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "domainMetadata",
    kind: Kind::Writer,
    legacy: None,
    requires: &[],
    wanted: never,
    refuse_read: fine,
    refuse_write: fine,
};
