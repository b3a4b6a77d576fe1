//! Default values (P107): an expression for columns that the data doesn't have.

use super::row_rule::nested_with;
use super::{Kind, TableFeature, fine};

/// Where a column keeps its default, as Spark SQL.
pub(super) const KEY: &str = "CURRENT_DEFAULT";

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "allowColumnDefaults",
    kind: Kind::Writer,
    legacy: None,
    requires: &[],
    wanted: |v| v.find_field(&|f| f.metadata.contains_key(KEY)).is_some(),
    refuse_read: fine,
    refuse_write: |v| {
        nested_with(v, KEY).map(|c| format!("and the field `{c}` below a column has a default, which only columns may"))
    },
};
