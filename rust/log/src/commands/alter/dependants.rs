//! What depends on a column: constraints, generated columns, invariants, partitioning (P104).

use deltaplane_error::{Error, Result};
use deltaplane_protocol::actions::Metadata;
use deltaplane_protocol::features::mentions;
use deltaplane_protocol::schema::{DataType, Field, StructType};
use deltaplane_protocol::schema_changes::edit::join_path;
use serde_json::Value;

use super::constraints::PREFIX as CONSTRAINTS;

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
