//! Default values (P107): expressions for columns that the written data lacks.

use serde_json::json;

use super::row_rule::{columns_with, nested_with};
use super::{Kind, TableFeature};
use crate::schema::Primitive;

/// The key of a column's metadata that has its default as Spark SQL.
pub(super) const KEY: &str = "CURRENT_DEFAULT";

pub(super) static FEATURE: TableFeature = TableFeature {
    wanted: |v| v.find_field(&|f| f.metadata.contains_key(KEY)).is_some(),
    refuse_write: |v| {
        nested_with(v, KEY).map(|c| format!("and the field `{c}` below a column has a default, which only columns may"))
    },
    may_begin: true,
    row_rules: |v, rules| {
        rules.defaults.extend(columns_with(v, KEY)?);
        Ok(())
    },
    example: |e| e.column("filled", Primitive::Long, &[(KEY, json!("1"))]),
    ..TableFeature::new("allowColumnDefaults", Kind::Writer)
};
