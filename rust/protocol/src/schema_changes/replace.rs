//! Replaces a table's columns: another order, other comments, and additional columns. No type
//! changes. Pure.

use crate::schema::{ArrayType, DataType, Field, MapType, StructType};
use crate::schema_changes::edit::join_path;
use crate::{Error, Result};

/// The key of a field's metadata that holds its comment.
const COMMENT: &str = "comment";

/// What replacing the columns of a table makes of them.
#[derive(Debug)]
pub struct Replaced {
    /// The columns as in the target, with the table's own metadata for existing columns.
    pub schema: StructType,
    /// The new columns and fields.
    pub new: Vec<Field>,
    /// The paths of the columns and fields that are left out.
    pub left_out: Vec<Vec<String>>,
}

/// The columns as in `target`.
///
/// # Errors
/// `InvalidArgument` where a column gets another type or may not be null any more, or a struct
/// keeps none of its fields.
pub fn replaced(schema: &StructType, target: &StructType) -> Result<Replaced> {
    let mut walk = Walk::default();
    let schema = walk.fields(schema, target)?;
    Ok(Replaced {
        schema,
        new: walk.new,
        left_out: walk.left_out,
    })
}

#[derive(Default)]
struct Walk {
    path: Vec<String>,
    new: Vec<Field>,
    left_out: Vec<Vec<String>>,
}

impl Walk {
    fn refused(&self, what: &str) -> Error {
        Error::invalid_argument(format!("column `{}` {what}", join_path(&self.path)))
    }

    fn fields(&mut self, own: &StructType, target: &StructType) -> Result<StructType> {
        let stays = |field: &&Field| target.field_ignore_case(&field.name).is_some();
        if !self.path.is_empty() && !own.fields().iter().any(|field| stays(&field)) {
            return Err(self.refused("keeps none of its fields: drop it, and add it under another name"));
        }
        for gone in own.fields().iter().filter(|field| !stays(field)) {
            self.left_out
                .push([&self.path[..], std::slice::from_ref(&gone.name)].concat());
        }
        let mut out = Vec::with_capacity(target.fields().len());
        for field in target.fields() {
            let Some(own) = own.field_ignore_case(&field.name) else {
                self.new.push(field.clone());
                out.push(field.clone());
                continue;
            };
            self.path.push(own.name.clone());
            if own.nullable && !field.nullable {
                return Err(self.refused("can't become NOT NULL so: SET NOT NULL looks at its rows first"));
            }
            let mut metadata = own.metadata.clone();
            if let Some(comment) = field.metadata.get(COMMENT) {
                metadata.insert(COMMENT.to_owned(), comment.clone());
            }
            out.push(Field {
                name: own.name.clone(),
                data_type: self.data_type(&own.data_type, &field.data_type)?,
                nullable: field.nullable,
                metadata,
            });
            self.path.pop();
        }
        Ok(StructType::new(out))
    }

    fn data_type(&mut self, own: &DataType, target: &DataType) -> Result<DataType> {
        Ok(match (own, target) {
            (DataType::Struct(own), DataType::Struct(target)) => DataType::Struct(self.fields(own, target)?),
            (DataType::Array(own), DataType::Array(target)) => DataType::Array(Box::new(ArrayType {
                element: self.data_type(&own.element, &target.element)?,
                contains_null: own.contains_null,
            })),
            (DataType::Map(own), DataType::Map(target)) => DataType::Map(Box::new(MapType {
                key: self.data_type(&own.key, &target.key)?,
                value: self.data_type(&own.value, &target.value)?,
                value_contains_null: own.value_contains_null,
            })),
            _ if own == target => own.clone(),
            _ => {
                let refusal = format!("stays {own}, it can't become {target} so: ALTER COLUMN … TYPE changes types");
                return Err(self.refused(&refusal));
            }
        })
    }
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
        let Replaced { schema, new, left_out } = replaced(&own, &target).unwrap();
        let names: Vec<_> = schema.fields().iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["s", "more", "id"]);
        assert_eq!(
            schema.field_ignore_case("id").unwrap().metadata,
            *own.field_ignore_case("id").map(|f| &f.metadata).unwrap()
        );
        assert!(schema.to_json().contains(r#""comment":"at""#));
        assert_eq!(new.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["y", "more"]);
        assert!(left_out.is_empty());
    }

    #[test]
    fn what_is_left_out_is_listed_at_every_depth() {
        let own = table(&[
            field("id", json!("long"), ""),
            field(
                "s",
                of(&[field("x", json!("integer"), ""), field("y", json!("date"), "")]),
                "",
            ),
        ]);
        let target = table(&[field("S", of(&[field("y", json!("date"), "")]), "")]);
        let paths = replaced(&own, &target).unwrap().left_out;
        assert_eq!(
            paths.iter().map(|path| join_path(path)).collect::<Vec<_>>(),
            ["id", "s.x"]
        );
        let none = table(&[field("s", of(&[field("z", json!("date"), "")]), "")]);
        let refused = replaced(&own, &none).unwrap_err().to_string();
        assert!(refused.contains("`s` keeps none of its fields"), "{refused}");
    }

    #[test]
    fn nothing_changes_its_type() {
        let inner = |ty: &str| of(&[field("x", json!(ty), "")]);
        let own = table(&[field("id", json!("long"), ""), field("s", inner("integer"), "")]);
        let refused = |fields: &[Value]| replaced(&own, &table(fields)).unwrap_err().to_string();
        assert!(
            refused(&[field("id", json!("long"), ""), field("s", inner("long"), "")]).contains("`s.x` stays integer")
        );
        let strict = json!({"name": "id", "type": "long", "nullable": false, "metadata": {}});
        assert!(refused(&[strict, field("s", inner("integer"), "")]).contains("NOT NULL"));
    }
}
