//! Append-only tables: no remove may change rows while the property is on (P100).

use super::{Kind, TableFeature, fine};

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "appendOnly",
    kind: Kind::Writer,
    legacy: Some((1, 2)),
    requires: &[],
    wanted: |v| v.is_on("delta.appendOnly"),
    refuse_read: fine,
    refuse_write: fine,
};
