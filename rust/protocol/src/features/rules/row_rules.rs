//! The rules that users' expressions define for every written row: conditions to meet, values to
//! compute, values of absent columns. Collected from the features that store them; the caller with
//! the rows evaluates them.

use crate::Result;
use crate::features::row_rule::RowRules;
use crate::features::{View, all};

/// The rules of a table with this metadata.
pub fn row_rules(view: View<'_>) -> Result<RowRules> {
    let mut rules = RowRules::default();
    all().try_for_each(|f| (f.row_rules)(view, &mut rules))?;
    Ok(rules)
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
        let rules_of_field = rules(&field("a", all), &[("delta.constraints.small", "a < 9")]).unwrap();
        let names: Vec<_> = rules_of_field
            .checks
            .iter()
            .map(|c| (c.name.as_str(), c.sql.as_str()))
            .collect();
        assert_eq!(names, [("small", "a < 9"), ("a", "a > 0")]);
        assert_eq!(rules_of_field.generated.first().unwrap().sql, "1 + 1");
        assert_eq!(rules_of_field.defaults.first().unwrap().sql, "7");
        assert_eq!(rules_of_field.computed().collect::<Vec<_>>(), ["a", "a"]);
        assert!(!rules_of_field.is_empty() && rules(&field("a", "{}"), &[]).unwrap().is_empty());
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
