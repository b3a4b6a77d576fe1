//! Generated columns (P105): their values must equal an expression over the other columns.

use serde_json::json;

use super::hooks::field_key::{FieldKey, Form};
use super::hooks::removal::{Removable, Removal};
use super::row_rule::{columns_with, nested_with};
use super::{Kind, TableFeature};
use crate::schema::Primitive;

/// The key of a column's metadata that has its expression as Spark SQL.
pub(super) const KEY: &str = "delta.generationExpression";

pub(super) static FEATURE: TableFeature = TableFeature {
    legacy: Some((1, 4)),
    wanted: |v| v.find_field(&|f| f.metadata.contains_key(KEY)).is_some(),
    refuse_write: |v| {
        nested_with(v, KEY)
            .map(|c| format!("and the field `{c}` below a column is generated, which only columns may be"))
    },
    removable: Some(Removable::new(Removal::Unused(
        "generated columns can't become plain ones: rewrite the table without them",
    ))),
    row_rules: |v, rules| {
        rules.generated.extend(columns_with(v, KEY)?);
        Ok(())
    },
    field_keys: &[FieldKey {
        name: KEY,
        form: Form::Text,
    }],
    example: |e| e.column("made", Primitive::Long, &[(KEY, json!("id + 1"))]),
    ..TableFeature::new("generatedColumns", Kind::Writer)
};
