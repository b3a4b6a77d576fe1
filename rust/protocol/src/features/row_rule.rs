//! One rule for written rows: a condition, or a column's value. The rooms that keep such expressions
//! make them; `row_rules` gathers them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::View;
use crate::schema::Field;

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowCheck {
    /// Its name: the constraint's, or the column's whose invariant it is.
    pub name: String,
    /// The condition.
    pub sql: String,
}

/// A column's value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnRule {
    /// The column.
    pub column: String,
    /// The value.
    pub sql: String,
}

/// The top-level columns that have this text in their metadata.
pub(super) fn columns_with(view: View<'_>, key: &str) -> Vec<ColumnRule> {
    let rule = |f: &Field| {
        let sql = f.metadata.get(key).and_then(Value::as_str)?;
        Some(ColumnRule {
            column: f.name.clone(),
            sql: sql.to_owned(),
        })
    };
    view.schema.fields().iter().filter_map(rule).collect()
}

/// The first field below a column that has this in its metadata.
pub(super) fn nested_with(view: View<'_>, key: &str) -> Option<String> {
    view.schema
        .fields()
        .iter()
        .find_map(|f| super::find_in_type(&f.data_type, &|inner| inner.metadata.contains_key(key).then_some(())))
        .map(|(name, ())| name)
}
