//! Identity columns (P108): values that writers must hand out.

use super::{Kind, TableFeature, View, fine};

fn identity(v: View<'_>) -> Option<String> {
    v.find_field(&|f| f.metadata.contains_key("delta.identity.start"))
}

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "identityColumns",
    kind: Kind::Writer,
    legacy: Some((1, 6)),
    requires: &[],
    wanted: |v| identity(v).is_some(),
    refuse_read: fine,
    refuse_write: |v| {
        identity(v).map(|c| format!("and column `{c}` is an identity column, whose values this version can't hand out"))
    },
};
