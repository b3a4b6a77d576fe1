//! What in a table rests on a column: constraints, generated columns, invariants, partitioning (P104). A name that
//! stands anywhere in an expression counts, in a string literal too: refusing more is safe, missing one isn't.

use std::collections::BTreeSet;

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Metadata;
use deltaplane_protocol::schema::{DataType, Field, StructType};
use deltaplane_protocol::schema_edit::join_path;
use serde_json::Value;

const CONSTRAINTS: &str = "delta.constraints.";
const EXPRESSIONS: &[&str] = &["delta.generationExpression", "delta.invariants"];

/// Refuses a change of a column that an expression of the table uses.
pub(super) fn check_unused(metadata: &Metadata, schema: &StructType, path: &[String], verb: &str) -> Result<()> {
    let constraints = metadata
        .configuration
        .iter()
        .filter_map(|(k, e)| Some((format!("the constraint `{}`", k.strip_prefix(CONSTRAINTS)?), e.clone())));
    let mut fields = Vec::new();
    of_struct(schema, &mut fields);
    let user = constraints.chain(fields).find(|(_, e)| mentions(e, path));
    match user {
        None => Ok(()),
        Some((who, expression)) => Err(Error::invalid_argument(format!(
            "column `{}` can't be {verb}: {who} uses it (`{expression}`); drop that first (DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE)",
            join_path(path)
        ))),
    }
}

fn of_struct(s: &StructType, out: &mut Vec<(String, String)>) {
    for f in s.fields() {
        of_field(f, out);
        of_type(&f.data_type, out);
    }
}

fn of_field(f: &Field, out: &mut Vec<(String, String)>) {
    for key in EXPRESSIONS {
        if let Some(Value::String(e)) = f.metadata.get(*key) {
            out.push((format!("column `{}`", f.name), e.clone()));
        }
    }
}

fn of_type(t: &DataType, out: &mut Vec<(String, String)>) {
    match t {
        DataType::Primitive(_) => {}
        DataType::Array(a) => of_type(&a.element, out),
        DataType::Map(m) => {
            of_type(&m.key, out);
            of_type(&m.value, out);
        }
        DataType::Struct(s) => of_struct(s, out),
    }
}

/// Whether every part of a column's path stands in an expression as a word.
fn mentions(expression: &str, path: &[String]) -> bool {
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
