//! Change data feed (P130): appends and whole-file removes need no change files, and this build writes nothing
//! else. What a commit changed is in `crate::changes`.

use super::{Kind, TableFeature, fine};
use crate::actions::Metadata;

const PROPERTY: &str = "delta.enableChangeDataFeed";

/// Whether changes are recorded while the table has this metadata (P132).
pub fn is_on(m: &Metadata) -> bool {
    m.configuration
        .get(PROPERTY)
        .is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "changeDataFeed",
    kind: Kind::Writer,
    legacy: Some((1, 4)),
    requires: &[],
    wanted: |v| is_on(v.metadata),
    refuse_read: fine,
    refuse_write: fine,
};
