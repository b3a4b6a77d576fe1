//! Replaces a table's columns: another order, other comments, and additional columns. No column is
//! dropped, and no type changes. Pure.

use crate::schema::{ArrayType, DataType, Field, MapType, StructType};
use crate::schema_changes::edit::join_path;
use crate::{Error, Result};

/// The key of a field's metadata that holds its comment.
const COMMENT: &str = "comment";

/// The columns as in `target`, with the table's own metadata for existing columns; and the new
/// columns.
///
/// # Errors
/// `InvalidArgument` where a column is left out, gets another type or may not be null any more.
pub fn replaced(schema: &StructType, target: &StructType) -> Result<(StructType, Vec<Field>)> {
    let mut new = Vec::new();
    let schema = fields(schema, target, &mut Vec::new(), &mut new)?;
    Ok((schema, new))
}

fn refused(path: &[String], what: &str) -> Error {
    Error::invalid_argument(format!("column `{}` {what}", join_path(path)))
}

fn fields(own: &StructType, target: &StructType, path: &mut Vec<String>, new: &mut Vec<Field>) -> Result<StructType> {
    if let Some(gone) = own
        .fields()
        .iter()
        .find(|f| target.field_ignore_case(&f.name).is_none())
    {
        path.push(gone.name.clone());
        return Err(refused(path, "can't be left out: DROP COLUMN takes columns away"));
    }
    let mut out = Vec::with_capacity(target.fields().len());
    for field in target.fields() {
        let Some(own) = own.field_ignore_case(&field.name) else {
            new.push(field.clone());
            out.push(field.clone());
            continue;
        };
        path.push(own.name.clone());
        if own.nullable && !field.nullable {
            return Err(refused(
                path,
                "can't become NOT NULL so: SET NOT NULL looks at its rows first",
            ));
        }
        let mut metadata = own.metadata.clone();
        if let Some(comment) = field.metadata.get(COMMENT) {
            metadata.insert(COMMENT.to_owned(), comment.clone());
        }
        out.push(Field {
            name: own.name.clone(),
            data_type: data_type(&own.data_type, &field.data_type, path, new)?,
            nullable: field.nullable,
            metadata,
        });
        path.pop();
    }
    Ok(StructType::new(out))
}

fn data_type(own: &DataType, target: &DataType, path: &mut Vec<String>, new: &mut Vec<Field>) -> Result<DataType> {
    Ok(match (own, target) {
        (DataType::Struct(own), DataType::Struct(target)) => DataType::Struct(fields(own, target, path, new)?),
        (DataType::Array(own), DataType::Array(target)) => DataType::Array(Box::new(ArrayType {
            element: data_type(&own.element, &target.element, path, new)?,
            contains_null: own.contains_null,
        })),
        (DataType::Map(own), DataType::Map(target)) => DataType::Map(Box::new(MapType {
            key: data_type(&own.key, &target.key, path, new)?,
            value: data_type(&own.value, &target.value, path, new)?,
            value_contains_null: own.value_contains_null,
        })),
        _ if own == target => own.clone(),
        _ => {
            let refusal = format!("stays {own}, it can't become {target} so: ALTER COLUMN … TYPE changes types");
            return Err(refused(path, &refusal));
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn field(name: &str, ty: Value, comment: &str) -> Value {
        json!({"name": name, "type": ty, "nullable": true, "metadata": match comment {
            "" => json!({"kept": 1}),
            comment => json!({"kept": 1, "comment": comment}),
        }})
    }

    fn table(fields: &[Value]) -> StructType {
        StructType::from_json(&json!({"type": "struct", "fields": fields}).to_string()).unwrap()
    }

    fn of(inner: &[Value]) -> Value {
        json!({"type": "array", "containsNull": true, "elementType": {"type": "struct", "fields": inner}})
    }

    #[test]
    fn columns_move_get_comments_and_come_at_every_depth() {
        let own = table(&[
            field("id", json!("long"), "key"),
            field("s", of(&[field("x", json!("integer"), "")]), ""),
        ]);
        let target = table(&[
            field(
                "S",
                of(&[field("y", json!("date"), ""), field("x", json!("integer"), "at")]),
                "",
            ),
            field("more", json!("string"), ""),
            field("ID", json!("long"), ""),
        ]);
        let (replaced_schema, new) = replaced(&own, &target).unwrap();
        let names: Vec<_> = replaced_schema.fields().iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["s", "more", "id"]);
        assert_eq!(
            replaced_schema.field_ignore_case("id").unwrap().metadata,
            *own.field_ignore_case("id").map(|f| &f.metadata).unwrap()
        );
        assert!(replaced_schema.to_json().contains(r#""comment":"at""#));
        assert_eq!(new.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["y", "more"]);
    }

    #[test]
    fn nothing_goes_and_nothing_changes_its_type() {
        let inner = |ty: &str| of(&[field("x", json!(ty), "")]);
        let own = table(&[field("id", json!("long"), ""), field("s", inner("integer"), "")]);
        let refused = |fields: &[Value]| replaced(&own, &table(fields)).unwrap_err().to_string();
        assert!(refused(&[field("s", inner("integer"), "")]).contains("`id` can't be left out"));
        assert!(
            refused(&[field("id", json!("long"), ""), field("s", inner("long"), "")]).contains("`s.x` stays integer")
        );
        let strict = json!({"name": "id", "type": "long", "nullable": false, "metadata": {}});
        assert!(refused(&[strict, field("s", inner("integer"), "")]).contains("NOT NULL"));
    }
}
