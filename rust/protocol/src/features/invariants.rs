//! Column invariants and NOT NULL (P101, P102). NOT NULL is enforced where rows are written,
//! invariants are conditions over a row.

use serde_json::{Value, json};

use super::hooks::field_key::{FieldKey, Form};
use super::hooks::removal::{Removable, Removal};
use super::row_rule::RowCheck;
use super::{Kind, TableFeature, View};
use crate::schema::{DataType, Field, Primitive, StructType};
use crate::{Error, Result};

const KEY: &str = "delta.invariants";

pub(super) static FEATURE: TableFeature = TableFeature {
    legacy: Some((1, 2)),
    wanted: |v| v.find_field(&|f| !f.nullable || f.metadata.contains_key(KEY)).is_some(),
    in_new_tables: true,
    may_begin: true,
    removable: Some(Removable::new(Removal::Unused(
        "let every column be null with drop_column_not_null",
    ))),
    row_rules: |v, rules| {
        rules.checks.extend(checks(v)?);
        Ok(())
    },
    field_keys: &[FieldKey {
        name: KEY,
        form: Form::Text,
    }],
    example: |e| {
        let condition = r#"{"expression":{"expression":"checked > 0"}}"#;
        e.column("checked", Primitive::Long, &[(KEY, json!(condition))]);
    },
    ..TableFeature::new("invariants", Kind::Writer)
};

/// The invariants, named by their columns.
fn checks(view: View<'_>) -> Result<Vec<RowCheck>> {
    let mut row_checks = Vec::new();
    in_struct(view.schema, "", &mut row_checks)?;
    Ok(row_checks)
}

fn in_struct(s: &StructType, path: &str, checks: &mut Vec<RowCheck>) -> Result<()> {
    for f in s.fields() {
        let name = format!("{path}{}", f.name);
        if let Some(stored) = f.metadata.get(KEY) {
            let sql = expression(stored).ok_or_else(|| unknown_shape(f, &name))?;
            checks.push(RowCheck {
                name: name.clone(),
                sql,
            });
        }
        in_type(&f.data_type, &format!("{name}."), checks)?;
    }
    Ok(())
}

fn in_type(t: &DataType, path: &str, checks: &mut Vec<RowCheck>) -> Result<()> {
    match t {
        DataType::Primitive(_) => Ok(()),
        DataType::Struct(s) => in_struct(s, path, checks),
        DataType::Array(a) => in_type(&a.element, &format!("{path}element."), checks),
        DataType::Map(m) => {
            in_type(&m.key, &format!("{path}key."), checks)?;
            in_type(&m.value, &format!("{path}value."), checks)
        }
    }
}

/// The condition in `{"expression": {"expression": "<sql>"}}`.
fn expression(stored: &Value) -> Option<String> {
    let parsed: Value = serde_json::from_str(stored.as_str()?).ok()?;
    Some(parsed.get("expression")?.get("expression")?.as_str()?.to_owned())
}

fn unknown_shape(f: &Field, name: &str) -> Error {
    Error::unsupported_feature(format!(
        "can't write this table: the invariant of column `{name}` has a shape that this version doesn't know ({}); remove it with the program that set it",
        f.metadata.get(KEY).map(Value::to_string).unwrap_or_default()
    ))
}
