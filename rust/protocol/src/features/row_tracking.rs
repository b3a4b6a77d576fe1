//! Row tracking (P140–P143): each row has an id and the version that last wrote it, stored in hidden columns
//! or following from the file's first id. Read here; writing such tables is refused until ids can be assigned.

use super::{Kind, TableFeature, fine};
use crate::actions::Metadata;

const ENABLED: &str = "delta.enableRowTracking";

/// Whether every row has an id.
pub fn is_on(m: &Metadata) -> bool {
    m.configuration
        .get(ENABLED)
        .is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

/// The physical names of the hidden columns of row ids and of row commit versions (P141).
pub fn materialised(m: &Metadata) -> (Option<String>, Option<String>) {
    let name = |key: &str| m.configuration.get(key).cloned();
    (
        name("delta.rowTracking.materializedRowIdColumnName"),
        name("delta.rowTracking.materializedRowCommitVersionColumnName"),
    )
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "rowTracking",
    kind: Kind::Writer,
    legacy: None,
    requires: &["domainMetadata"],
    wanted: |v| is_on(v.metadata),
    refuse_read: fine,
    refuse_write: |_| Some("which this version doesn't support".to_owned()),
};
