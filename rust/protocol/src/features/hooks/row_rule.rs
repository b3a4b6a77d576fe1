//! The rules for written rows: conditions, and columns' values. The features that keep such
//! expressions make them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::features::View;
use crate::schema::Field;
use crate::{Error, Result};

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

/// The rules of a table, in Spark SQL over its columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowRules {
    /// Every row must make these true; false and null break them (P101, P103).
    pub checks: Vec<RowCheck>,
    /// Columns whose value is an expression: computed when absent, compared null-safely when given
    /// (P105).
    pub generated: Vec<ColumnRule>,
    /// Columns with a value of their own when the data doesn't have them; an explicit null stays
    /// (P107).
    pub defaults: Vec<ColumnRule>,
    /// The condition that each row of this write must meet: its rows are a new table's, of which an
    /// overwrite replaces none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
}

impl RowRules {
    /// Whether rows can be written as they come.
    pub fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.generated.is_empty() && self.defaults.is_empty() && self.only.is_none()
    }

    /// The columns that data may lack, since their values are known without it.
    pub fn computed(&self) -> impl Iterator<Item = &str> {
        self.generated.iter().chain(&self.defaults).map(|r| r.column.as_str())
    }

    /// All expressions.
    pub fn expressions(&self) -> impl Iterator<Item = &str> {
        let values = self.generated.iter().chain(&self.defaults).map(|r| r.sql.as_str());
        self.checks.iter().map(|c| c.sql.as_str()).chain(values)
    }

    /// The first expression that uses a column.
    pub fn user_of(&self, column: &str) -> Option<&str> {
        let path = [column.to_owned()];
        self.expressions().find(|sql| mentions(sql, &path))
    }
}

/// The top-level columns that have this text in their metadata; what isn't text can't be obeyed
/// (P104).
pub(in crate::features) fn columns_with(view: View<'_>, key: &str) -> Result<Vec<ColumnRule>> {
    let rule = |f: &Field| match f.metadata.get(key)? {
        Value::Null => None,
        Value::String(sql) => Some(Ok(ColumnRule {
            column: f.name.clone(),
            sql: sql.clone(),
        })),
        odd => Some(Err(Error::unsupported_feature(format!(
            "can't write this table: `{key}` of the column `{}` is {odd}, not the text of an expression; set it right with the program that wrote it",
            f.name
        )))),
    };
    view.schema.fields().iter().filter_map(rule).collect()
}

/// The first field below a column that has this in its metadata.
pub(in crate::features) fn nested_with(view: View<'_>, key: &str) -> Option<String> {
    view.schema
        .fields()
        .iter()
        .find_map(|f| {
            crate::features::find_in_type(&f.data_type, &|inner| inner.metadata.contains_key(key).then_some(()))
        })
        .map(|(name, ())| name)
}

/// Whether every part of a column's path occurs in an expression as a word. A string literal counts
/// too: refusing too much is safe, missing a use isn't.
pub fn mentions(expression: &str, path: &[String]) -> bool {
    let lower = expression.to_lowercase();
    let words: BTreeSet<&str> = lower.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    let quoted: BTreeSet<&str> = lower.split('`').collect();
    path.iter()
        .filter(|p| !matches!(p.to_lowercase().as_str(), "element" | "key" | "value"))
        .all(|p| {
            let part = p.to_lowercase();
            words.contains(part.as_str()) || quoted.contains(part.as_str())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_words() {
        let path = |p: &[&str]| p.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert!(mentions("Amount > 0", &path(&["amount"])));
        assert!(mentions("`a b` is not null", &path(&["A B"])));
        assert!(mentions("s.x > 1", &path(&["s", "x"])));
        assert!(!mentions("s.x > 1", &path(&["s", "y"])));
        assert!(!mentions("amounts > 0", &path(&["amount"])));
    }
}
