//! Schemas in the spelling of the Delta API (`element-type`), in that of the log (`elementType`),
//! and as the columns of the classic API.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::api::classic::ColumnInfo;
use crate::error::{CatalogError, Result};
use crate::limits::{MAX_COLUMNS, MAX_KEY_BYTES, MAX_TYPE_DEPTH, MAX_VALUE_BYTES};

/// Keys of nested types: the API's spelling and the log's.
const SPELLINGS: &[(&str, &str)] = &[
    ("element-type", "elementType"),
    ("contains-null", "containsNull"),
    ("key-type", "keyType"),
    ("value-type", "valueType"),
    ("value-contains-null", "valueContainsNull"),
];

/// A schema of the API in the log's spelling, as `schemaString` has it.
pub fn to_log(columns: &Value) -> Value {
    respell(columns, |key| {
        SPELLINGS
            .iter()
            .find(|(api, _)| *api == key)
            .map_or(key, |(_, log)| *log)
    })
}

/// A schema of the log in the API's spelling.
pub fn from_log(schema: &Value) -> Value {
    respell(schema, |key| {
        SPELLINGS
            .iter()
            .find(|(_, log)| *log == key)
            .map_or(key, |(api, _)| *api)
    })
}

fn respell(value: &Value, spelling: fn(&str) -> &str) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| match key.as_str() {
                    "metadata" => (key.clone(), value.clone()),
                    _ => (spelling(key).to_owned(), respell(value, spelling)),
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(|item| respell(item, spelling)).collect()),
        other => other.clone(),
    }
}

/// Refuses a schema that isn't a struct of named fields, or that is too large or too deep.
pub(crate) fn check_columns(columns: &Value) -> Result<()> {
    let mut left = MAX_COLUMNS;
    match columns.get("type").and_then(Value::as_str) {
        Some("struct") => check_type(columns, 0, &mut left),
        _ => Err(CatalogError::invalid("columns must be a type struct with fields")),
    }
}

fn check_type(data_type: &Value, depth: usize, left: &mut usize) -> Result<()> {
    if depth > MAX_TYPE_DEPTH {
        return Err(CatalogError::invalid(format!(
            "types are nested deeper than {MAX_TYPE_DEPTH}"
        )));
    }
    let object = match data_type {
        Value::String(name) if !name.is_empty() && name.len() <= MAX_KEY_BYTES => return Ok(()),
        Value::Object(object) => object,
        _ => return Err(CatalogError::invalid("a type must be a name or an object")),
    };
    let nested = |api: &str, log: &str, left: &mut usize| match object.get(api).or_else(|| object.get(log)) {
        Some(inner) => check_type(inner, depth + 1, left),
        None => Err(CatalogError::invalid(format!("a nested type lacks {api}"))),
    };
    match object.get("type").and_then(Value::as_str) {
        Some("array") => nested("element-type", "elementType", left),
        Some("map") => {
            nested("key-type", "keyType", left)?;
            nested("value-type", "valueType", left)
        }
        Some("struct") => {
            let fields = object.get("fields").and_then(Value::as_array);
            let fields = fields.ok_or_else(|| CatalogError::invalid("a struct lacks its fields"))?;
            let mut names = BTreeSet::new();
            for field in fields {
                *left = left
                    .checked_sub(1)
                    .ok_or_else(|| CatalogError::invalid(format!("more than {MAX_COLUMNS} columns")))?;
                let name = check_field(field)?;
                if !names.insert(name.to_ascii_lowercase()) {
                    return Err(CatalogError::invalid(format!("the column {name:?} occurs twice")));
                }
                check_type(field.get("type").unwrap_or(&Value::Null), depth + 1, left)?;
            }
            Ok(())
        }
        // A decimal as an object, as generated clients may write it.
        Some(name) if !name.is_empty() && name.len() <= MAX_KEY_BYTES => Ok(()),
        _ => Err(CatalogError::invalid("a type lacks its name")),
    }
}

fn check_field(field: &Value) -> Result<&str> {
    let name = field.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.is_empty() || name.len() > MAX_KEY_BYTES || name.contains('\0') {
        return Err(CatalogError::invalid(format!(
            "a column's name must have 1 to {MAX_KEY_BYTES} bytes"
        )));
    }
    if !field.get("nullable").is_none_or(Value::is_boolean) {
        return Err(CatalogError::invalid(format!(
            "nullable of column {name:?} must be true or false"
        )));
    }
    match field.get("metadata") {
        None | Some(Value::Null) => {}
        Some(metadata @ Value::Object(_)) if metadata.to_string().len() <= MAX_VALUE_BYTES => {}
        Some(_) => {
            return Err(CatalogError::invalid(format!(
                "metadata of column {name:?} must be an object of at most {MAX_VALUE_BYTES} bytes"
            )));
        }
    }
    Ok(name)
}

/// The classic API's columns of a schema in either spelling.
pub(crate) fn column_infos(columns: &Value, partition_columns: &[String]) -> Vec<ColumnInfo> {
    let log = to_log(columns);
    let fields = log.get("fields").and_then(Value::as_array);
    fields
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(position, field)| {
            let name = field.get("name").and_then(Value::as_str).unwrap_or_default();
            let data_type = field.get("type").unwrap_or(&Value::Null);
            let text = type_text(data_type);
            let (precision, scale) = decimal(&text);
            let comment = field
                .get("metadata")
                .and_then(|m| m.get("comment"))
                .and_then(Value::as_str);
            ColumnInfo {
                name: name.to_owned(),
                type_name: type_name(data_type),
                type_text: text,
                type_json: field.to_string(),
                // Older clients require them; Unity's own server has 0 where they mean nothing.
                type_precision: Some(precision.unwrap_or(0)),
                type_scale: Some(scale.unwrap_or(0)),
                position: position as i32,
                comment: comment.map(str::to_owned),
                nullable: field.get("nullable").and_then(Value::as_bool).unwrap_or(true),
                partition_index: partition_columns
                    .iter()
                    .position(|column| column.eq_ignore_ascii_case(name))
                    .map(|index| index as i32),
            }
        })
        .collect()
}

/// The API's schema of the classic API's columns: their `type_json` has either a field or its type.
pub(crate) fn columns_of_infos(infos: &[ColumnInfo]) -> Result<Value> {
    let mut sorted: Vec<_> = infos.iter().collect();
    sorted.sort_by_key(|info| info.position);
    let mut fields = Vec::new();
    for info in sorted {
        let json: Value = match serde_json::from_str(&info.type_json) {
            Ok(json) => json,
            Err(_) => Value::String(info.type_text.clone()),
        };
        let field = match json {
            Value::Object(field) if field.contains_key("name") => Value::Object(field),
            data_type => {
                let mut metadata = Map::new();
                if let Some(comment) = &info.comment {
                    metadata.insert("comment".to_owned(), json!(comment));
                }
                json!({"name": info.name, "type": data_type, "nullable": info.nullable, "metadata": metadata})
            }
        };
        fields.push(field);
    }
    let columns = from_log(&json!({"type": "struct", "fields": fields}));
    check_columns(&columns)?;
    Ok(columns)
}

/// Spark's catalog text of a type in the log's spelling, such as `array<bigint>`.
fn type_text(data_type: &Value) -> String {
    let inner = |key: &str| data_type.get(key).map(type_text).unwrap_or_default();
    match data_type {
        Value::String(name) => match name.as_str() {
            "long" => "bigint",
            "integer" => "int",
            "short" => "smallint",
            "byte" => "tinyint",
            other => other,
        }
        .to_owned(),
        Value::Object(object) => match object.get("type").and_then(Value::as_str) {
            Some("array") => format!("array<{}>", inner("elementType")),
            Some("map") => format!("map<{},{}>", inner("keyType"), inner("valueType")),
            Some("struct") => {
                let fields = object.get("fields").and_then(Value::as_array);
                let texts: Vec<_> = fields
                    .into_iter()
                    .flatten()
                    .map(|field| {
                        let name = field.get("name").and_then(Value::as_str).unwrap_or_default();
                        format!("{name}:{}", field.get("type").map(type_text).unwrap_or_default())
                    })
                    .collect();
                format!("struct<{}>", texts.join(","))
            }
            Some("decimal") => {
                let number = |key: &str| object.get(key).and_then(Value::as_i64).unwrap_or_default();
                format!("decimal({},{})", number("precision"), number("scale"))
            }
            other => other.unwrap_or_default().to_owned(),
        },
        _ => String::new(),
    }
}

fn type_name(data_type: &Value) -> String {
    let name = match data_type {
        Value::String(name) => name.as_str(),
        other => other.get("type").and_then(Value::as_str).unwrap_or_default(),
    };
    match name {
        "integer" => "INT".to_owned(),
        name if name.starts_with("decimal") => "DECIMAL".to_owned(),
        name if name.starts_with("interval") => "INTERVAL".to_owned(),
        name => name.to_ascii_uppercase(),
    }
}

fn decimal(text: &str) -> (Option<i32>, Option<i32>) {
    let Some(parts) = text.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')')) else {
        return (None, None);
    };
    let mut numbers = parts.split(',').map(|part| part.trim().parse().ok());
    (numbers.next().flatten(), numbers.next().flatten())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn nested() -> Value {
        json!({"type": "struct", "fields": [
            {"name": "id", "type": "long", "nullable": false, "metadata": {"comment": "key"}},
            {"name": "d", "type": "decimal(10,2)", "nullable": true, "metadata": {}},
            {"name": "m", "type": {"type": "map", "key-type": "string", "value-type":
                {"type": "array", "element-type": {"type": "struct", "fields": [
                    {"name": "x", "type": "integer", "nullable": true, "metadata": {"element-type": 1}}]},
                 "contains-null": true}, "value-contains-null": false}, "nullable": true, "metadata": {}},
        ]})
    }

    #[test]
    fn spellings_convert_both_ways_and_leave_metadata() {
        let log = to_log(&nested());
        let text = log.to_string();
        assert!(
            text.contains("\"elementType\"") && text.contains("\"valueContainsNull\":false"),
            "{text}"
        );
        assert!(text.contains("{\"element-type\":1}"), "{text}");
        assert_eq!(from_log(&log), nested());
    }

    #[test]
    fn classic_columns_have_sparks_texts_and_lead_back() {
        let infos = column_infos(&nested(), &["ID".to_owned()]);
        let texts: Vec<_> = infos
            .iter()
            .map(|i| (i.type_name.as_str(), i.type_text.as_str()))
            .collect();
        assert_eq!(
            texts,
            [
                ("LONG", "bigint"),
                ("DECIMAL", "decimal(10,2)"),
                ("MAP", "map<string,array<struct<x:int>>>")
            ]
        );
        assert_eq!(infos.first().unwrap().partition_index, Some(0));
        assert_eq!(infos.get(1).unwrap().type_precision, Some(10));
        assert_eq!(columns_of_infos(&infos).unwrap(), nested());
    }

    #[test]
    fn hostile_schemas_are_refused() {
        let mut deep = json!("long");
        for _ in 0..100 {
            deep = json!({"type": "array", "element-type": deep, "contains-null": true});
        }
        let field = |data_type: &Value| json!({"name": "a", "type": data_type, "nullable": true, "metadata": {}});
        let schema = |fields: Vec<Value>| json!({"type": "struct", "fields": fields});
        let many = schema(
            (0..MAX_COLUMNS + 1)
                .map(|n| json!({"name": format!("c{n}"), "type": "long"}))
                .collect(),
        );
        for columns in [
            schema(vec![field(&deep)]),
            many,
            schema(vec![field(&json!("long")), json!({"name": "A", "type": "long"})]),
            schema(vec![field(&json!(7))]),
            schema(vec![field(&json!({"type": "array"}))]),
            schema(vec![json!({"type": "long"})]),
            json!({"type": "struct"}),
            json!("struct"),
            json!([]),
        ] {
            assert!(
                check_columns(&columns).is_err(),
                "{}",
                &columns.to_string().chars().take(80).collect::<String>()
            );
        }
        assert!(check_columns(&nested()).is_ok());
    }
}
