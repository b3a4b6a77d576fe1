//! Column invariants and NOT NULL (P101, P102). NOT NULL is enforced where rows are written;
//! invariant expressions can't be evaluated yet, so writing to such a table is refused (P104).

use super::{Kind, TableFeature, fine};

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "invariants",
    kind: Kind::Writer,
    legacy: Some((1, 2)),
    requires: &[],
    wanted: |v| {
        v.find_field(&|f| !f.nullable || f.metadata.contains_key("delta.invariants"))
            .is_some()
    },
    refuse_read: fine,
    refuse_write: |v| {
        v.find_field(&|f| f.metadata.contains_key("delta.invariants"))
            .map(|c| format!("and column `{c}` has an invariant expression, which this version can't check"))
    },
};
