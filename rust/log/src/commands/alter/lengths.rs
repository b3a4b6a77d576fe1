//! Columns of CHAR(n) and VARCHAR(n): strings whose metadata limits their length (P102). As in
//! Spark, a type may be changed to another if every value of the old type is valid in the new one.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::schema::{DataType, Field, Primitive, StructType};
use deltaplane_protocol::schema_changes::edit::{edit, find, join_path};
use serde_json::{Value, json};

use super::draft::Draft;

/// The key of a column's metadata that holds its type as Spark writes it.
pub(super) const LENGTHS: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// A column's type CHAR(n) or VARCHAR(n), if it has one.
fn lengths_of(field: &Field) -> Option<&str> {
    field.metadata.get(LENGTHS).and_then(Value::as_str)
}

/// Changes a string column to another string type: `to` is its CHAR or VARCHAR type, `None` removes
/// the limit. Returns false for any other change, which is the caller's.
pub(super) fn change(draft: &mut Draft<'_>, path: &[String], kind: Primitive, to: Option<&str>) -> Result<bool> {
    let Some(root) = path.first() else { return Ok(false) };
    let column = find(&draft.schema, std::slice::from_ref(root))?;
    let Some(own) = lengths_of(&column) else {
        return match to {
            None => Ok(false),
            Some(to) => Err(refused(path, &type_of(&find(&draft.schema, path)?), to)),
        };
    };
    if path.len() > 1 {
        return Err(nested(&column));
    }
    let shown = to.map_or_else(|| kind.to_string(), str::to_owned);
    let is_text = column.data_type == DataType::Primitive(Primitive::String) && kind == Primitive::String;
    if !is_text || !to.is_none_or(|to| holds(own, to)) {
        return Err(refused(path, own, &shown));
    }
    draft.schema = edit(&draft.schema, path, |f| {
        let mut f = f.clone();
        match to {
            Some(to) => f.metadata.insert(LENGTHS.to_owned(), json!(to)),
            None => f.metadata.remove(LENGTHS),
        };
        Ok(f)
    })?;
    Ok(true)
}

/// Refuses a change inside a column whose metadata spells out its whole type, since that text would
/// become wrong.
pub(super) fn check_notes(before: &StructType, after: &StructType) -> Result<()> {
    let is_changed = |f: &&Field| {
        let own = before.fields().iter().find(|b| b.name == f.name);
        lengths_of(f).is_some() && own.is_some_and(|b| b.data_type != f.data_type)
    };
    match after.fields().iter().find(is_changed) {
        None => Ok(()),
        Some(f) => Err(nested(f)),
    }
}

fn nested(column: &Field) -> Error {
    Error::unsupported_feature(format!(
        "the column `{}` holds CHAR or VARCHAR within its type {}, which this version changes as a whole only: add another column, and copy its values",
        column.name,
        lengths_of(column).unwrap_or_default()
    ))
}

fn type_of(f: &Field) -> String {
    f.data_type.to_string()
}

fn refused(path: &[String], from: &str, to: &str) -> Error {
    Error::invalid_argument(format!(
        "the type of the column `{}` can't change from {from} to {to}, as values that it may hold wouldn't be of this type (NOT_SUPPORTED_CHANGE_COLUMN)",
        join_path(path)
    ))
}

/// Whether each value of one limited type is valid in the other.
fn holds(own: &str, to: &str) -> bool {
    match (parts(own), parts(to)) {
        (Some((_, was)), Some(("varchar", most))) => was <= most,
        (Some(("char", was)), Some(("char", most))) => was == most,
        _ => false,
    }
}

fn parts(type_text: &str) -> Option<(&str, usize)> {
    let (kind, rest) = type_text.split_once('(')?;
    Some((kind, rest.strip_suffix(')')?.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_becomes_longer_and_char_becomes_varchar() {
        // P102
        for (own, to, fits) in [
            ("varchar(4)", "varchar(10)", true),
            ("varchar(4)", "varchar(4)", true),
            ("varchar(4)", "varchar(3)", false),
            ("varchar(4)", "char(20)", false),
            ("char(3)", "char(3)", true),
            ("char(3)", "char(5)", false),
            ("char(3)", "varchar(3)", true),
            ("char(3)", "varchar(2)", false),
            ("array<char(3)>", "varchar(9)", false),
        ] {
            assert_eq!(holds(own, to), fits, "{own} {to}");
        }
    }
}
