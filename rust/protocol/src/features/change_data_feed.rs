//! Change data feed (P130): appends and whole-file removes need no change files, and this build
//! writes nothing else.

use super::{Kind, TableFeature, fine};

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "changeDataFeed",
    kind: Kind::Writer,
    legacy: Some((1, 4)),
    requires: &[],
    wanted: |v| v.is_on("delta.enableChangeDataFeed"),
    refuse_read: fine,
    refuse_write: fine,
};
