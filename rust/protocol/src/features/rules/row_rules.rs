//! What users' expressions ask of every written row: conditions to meet, values to compute, values of
//! absent columns. Gathered from the rooms that keep them; evaluated by whoever has the rows.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::features::View;
use crate::features::row_rule::{ColumnRule, RowCheck, columns_with, mentions};

/// The rules of a table, in Spark SQL over its columns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowRules {
    /// Every row must make these true; false and null break them (P101, P103).
    pub checks: Vec<RowCheck>,
    /// Columns whose value is an expression: computed when absent, compared null-safely when given (P105).
    pub generated: Vec<ColumnRule>,
    /// Columns with a value of their own when the data doesn't have them; an explicit null stays (P107).
    pub defaults: Vec<ColumnRule>,
    /// The condition that each row of this write must meet: its rows are a new table's, of which an overwrite replaces none.
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

/// The rules of a table with this metadata.
pub fn row_rules(view: View<'_>) -> Result<RowRules> {
    let mut checks = crate::features::check_constraints::checks(view);
    checks.extend(crate::features::invariants::checks(view)?);
    Ok(RowRules {
        checks,
        generated: columns_with(view, crate::features::generated_columns::KEY)?,
        defaults: columns_with(view, crate::features::column_defaults::KEY)?,
        only: None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::actions::Metadata;
    use crate::schema::StructType;

    fn rules(schema: &str, configuration: &[(&str, &str)]) -> Result<RowRules> {
        let metadata = Metadata {
            configuration: configuration
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            ..Metadata::default()
        };
        let schema = StructType::from_json(schema).unwrap();
        row_rules(View {
            metadata: &metadata,
            schema: &schema,
        })
    }

    fn field(name: &str, metadata: &str) -> String {
        format!(
            r#"{{"type":"struct","fields":[{{"name":"{name}","type":"long","nullable":true,"metadata":{metadata}}}]}}"#
        )
    }

    #[test]
    fn each_room_gives_its_rules() {
        // P101, P103, P105, P107
        let all = r#"{"delta.invariants":"{\"expression\":{\"expression\":\"a > 0\"}}","delta.generationExpression":"1 + 1","CURRENT_DEFAULT":"7"}"#;
        let found = rules(&field("a", all), &[("delta.constraints.small", "a < 9")]).unwrap();
        let names: Vec<_> = found.checks.iter().map(|c| (c.name.as_str(), c.sql.as_str())).collect();
        assert_eq!(names, [("small", "a < 9"), ("a", "a > 0")]);
        assert_eq!(found.generated.first().unwrap().sql, "1 + 1");
        assert_eq!(found.defaults.first().unwrap().sql, "7");
        assert_eq!(found.computed().collect::<Vec<_>>(), ["a", "a"]);
        assert!(!found.is_empty() && rules(&field("a", "{}"), &[]).unwrap().is_empty());
    }

    #[test]
    fn expressions_are_text() {
        // P104
        for key in ["delta.generationExpression", "CURRENT_DEFAULT"] {
            let e = rules(&field("a", &format!(r#"{{"{key}":5}}"#)), &[]).unwrap_err();
            assert!(e.message().contains(key) && e.message().contains("`a`"), "{e}");
        }
    }

    #[test]
    fn an_invariant_of_another_shape_is_refused() {
        // P101
        for odd in [r#""a > 0""#, r#""{\"rule\":1}""#, r#"{"expression":1}"#] {
            let e = rules(&field("a", &format!(r#"{{"delta.invariants":{odd}}}"#)), &[]).unwrap_err();
            assert!(e.message().contains("invariant"), "{}", e.message());
        }
    }
}
