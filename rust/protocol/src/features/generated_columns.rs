//! Generated columns (P105): their values must equal an expression over the other columns.

use super::row_rule::nested_with;
use super::{Kind, TableFeature, fine};

/// Where a column keeps its expression, as Spark SQL.
pub(super) const KEY: &str = "delta.generationExpression";

pub(super) static FEATURE: TableFeature = TableFeature {
    name: "generatedColumns",
    kind: Kind::Writer,
    legacy: Some((1, 4)),
    requires: &[],
    wanted: |v| v.find_field(&|f| f.metadata.contains_key(KEY)).is_some(),
    refuse_read: fine,
    refuse_write: |v| {
        nested_with(v, KEY)
            .map(|c| format!("and the field `{c}` below a column is generated, which only columns may be"))
    },
};
