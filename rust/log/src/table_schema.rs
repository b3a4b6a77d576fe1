//! A schema within a request, a result or a spec, in the form in which it crosses to other
//! languages. Knows no table.

use std::sync::Arc;

use deltaplane_error::Error;
use deltaplane_protocol::schema::{Field, StructType, type_value};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The columns of a table or of rows. Serialized, it is a struct that holds the text of a
/// `schemaString`, in which numbers of the fields' metadata keep their digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SchemaText", into = "SchemaText")]
pub struct TableSchema(pub Arc<StructType>);

#[derive(Serialize, Deserialize)]
#[serde(rename = "TableSchema", deny_unknown_fields)]
struct SchemaText {
    text: String,
}

impl From<StructType> for TableSchema {
    fn from(schema: StructType) -> Self {
        TableSchema(Arc::new(schema))
    }
}

impl From<TableSchema> for SchemaText {
    fn from(schema: TableSchema) -> Self {
        SchemaText {
            text: schema.0.to_json(),
        }
    }
}

impl TryFrom<SchemaText> for TableSchema {
    type Error = Error;

    fn try_from(schema: SchemaText) -> Result<Self, Error> {
        StructType::from_json(&schema.text).map(Into::into)
    }
}

/// One column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableField {
    /// Its name.
    pub name: String,
    /// A primitive type's name, else the type's parts by the names of a `schemaString`.
    pub data_type: Value,
    /// Whether null is allowed.
    pub nullable: bool,
    /// Free metadata.
    pub metadata: Map<String, Value>,
}

impl From<&Field> for TableField {
    fn from(field: &Field) -> Self {
        TableField {
            name: field.name.clone(),
            data_type: type_value(&field.data_type),
            nullable: field.nullable,
            metadata: field.metadata.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use deltaplane_protocol::schema::Primitive;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_travels_as_its_text_with_the_digits_of_its_metadata() {
        // P179
        let text = r#"{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{"x":1.50}}]}"#;
        let schema: TableSchema = serde_json::from_value(json!({"text": text})).unwrap();
        assert_eq!(schema, StructType::from_json(text).unwrap().into());
        let travelled = serde_json::to_value(&schema).unwrap();
        assert!(travelled["text"].as_str().unwrap().contains("1.50"), "{travelled}");
        assert_eq!(serde_json::from_value::<TableSchema>(travelled).unwrap(), schema);
    }

    #[test]
    fn a_field_has_its_type_as_schemas_write_it() {
        let inner = StructType::new(vec![Field::new("b", Primitive::Date, true)]);
        let field = Field::new("a", deltaplane_protocol::schema::DataType::Struct(inner), false);
        let expected =
            json!({"type": "struct", "fields": [{"name": "b", "type": "date", "nullable": true, "metadata": {}}]});
        let shown = TableField::from(&field);
        assert_eq!(
            (shown.name.as_str(), shown.data_type, shown.nullable),
            ("a", expected, false)
        );
    }

    #[test]
    fn a_text_that_is_no_schema_is_refused() {
        // P180
        let unknown = r#"{"type":"struct","fields":[{"name":"a","type":"geometry"}]}"#;
        for (value, problem) in [
            (json!({"text": "{"}), "isn't JSON"),
            (json!({"text": "\"long\""}), "not a struct"),
            (json!({"text": unknown}), "geometry"),
            (json!({"text": unknown, "version": 1}), "unknown field"),
            (json!("long"), "expected struct"),
        ] {
            let refused = serde_json::from_value::<TableSchema>(value).unwrap_err().to_string();
            assert!(refused.contains(problem), "{refused}");
        }
    }
}
