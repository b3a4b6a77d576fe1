//! Delta schemas: the types of protocol section "Schema Serialization Format" and their JSON form.
//! Unknown field metadata is preserved (P179); unknown types are refused (P180).
//! Knows nothing of Arrow (see `arrow_types`).

use std::collections::HashMap;
use std::fmt;

use serde_json::{Map, Value, json};

use crate::{Error, Result};

/// A primitive column type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// UTF-8 text.
    String,
    /// 64-bit signed integer.
    Long,
    /// 32-bit signed integer.
    Integer,
    /// 16-bit signed integer.
    Short,
    /// 8-bit signed integer.
    Byte,
    /// 32-bit float.
    Float,
    /// 64-bit float.
    Double,
    /// True or false.
    Boolean,
    /// Bytes.
    Binary,
    /// Days since 1970-01-01 in the proleptic Gregorian calendar.
    Date,
    /// Microseconds since the epoch, UTC.
    Timestamp,
    /// Microseconds since 1970-01-01 00:00:00 of an unnamed zone.
    TimestampNtz,
    /// Fixed-point number.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to `precision`.
        scale: i8,
    },
    /// The type of a column that holds only nulls and is in no file.
    Void,
    /// Semi-structured value (`{metadata, value}` in files).
    Variant,
}

/// Any column type.
#[derive(Debug, Clone, PartialEq)]
pub enum DataType {
    /// A type without children.
    Primitive(Primitive),
    /// A list of elements.
    Array(Box<ArrayType>),
    /// Key-value pairs.
    Map(Box<MapType>),
    /// Named fields.
    Struct(StructType),
}

/// The type of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayType {
    /// Type of every element.
    pub element: DataType,
    /// Whether an element may be null.
    pub contains_null: bool,
}

/// The type of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct MapType {
    /// Type of keys, never null.
    pub key: DataType,
    /// Type of values.
    pub value: DataType,
    /// Whether a value may be null.
    pub value_contains_null: bool,
}

/// One named field of a struct, or one column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Logical name.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// Whether null is allowed.
    pub nullable: bool,
    /// Free metadata, unchanged.
    pub metadata: Map<String, Value>,
}

/// An ordered list of fields: the schema of a table or the type of a struct column.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StructType {
    fields: Vec<Field>,
    /// Lower-case name → position of the first field with it.
    by_name: HashMap<String, usize>,
}

impl DataType {
    /// Whether the type is void or contains it, at any depth.
    pub fn contains_void(&self) -> bool {
        match self {
            DataType::Primitive(p) => *p == Primitive::Void,
            DataType::Array(a) => a.element.contains_void(),
            DataType::Map(m) => m.key.contains_void() || m.value.contains_void(),
            DataType::Struct(s) => s.fields().iter().any(|f| f.data_type.contains_void()),
        }
    }
}

impl From<Primitive> for DataType {
    fn from(p: Primitive) -> Self {
        DataType::Primitive(p)
    }
}

impl Field {
    /// A field without metadata.
    pub fn new(name: impl Into<String>, data_type: impl Into<DataType>, nullable: bool) -> Self {
        Field {
            name: name.into(),
            data_type: data_type.into(),
            nullable,
            metadata: Map::new(),
        }
    }
}

impl StructType {
    /// A struct of these fields, in this order. Names aren't checked: see
    /// [`StructType::check_names`].
    pub fn new(fields: Vec<Field>) -> Self {
        let mut by_name = HashMap::with_capacity(fields.len());
        for (i, f) in fields.iter().enumerate() {
            by_name.entry(f.name.to_lowercase()).or_insert(i);
        }
        StructType { fields, by_name }
    }

    /// The fields in order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field of this exact name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.field_ignore_case(name).filter(|f| f.name == name)
    }

    /// The field of this name, ignoring case as Delta's names do (P180).
    pub fn field_ignore_case(&self, name: &str) -> Option<&Field> {
        self.index_ignore_case(name).and_then(|i| self.fields.get(i))
    }

    /// The position of the field of this name, ignoring case.
    pub fn index_ignore_case(&self, name: &str) -> Option<usize> {
        self.by_name.get(&name.to_lowercase()).copied()
    }

    /// The field at a dotted path given as parts, ignoring case, through structs only.
    pub fn field_at(&self, path: &[impl AsRef<str>]) -> Option<&Field> {
        let (last, parents) = path.split_last()?;
        let mut here = self;
        for p in parents {
            match &here.field_ignore_case(p.as_ref())?.data_type {
                DataType::Struct(s) => here = s,
                _ => return None,
            }
        }
        here.field_ignore_case(last.as_ref())
    }

    /// The schema with every field, at every depth, transformed: first a field, then those inside
    /// its new type.
    pub fn map_fields(&self, change: &mut dyn FnMut(Field) -> Field) -> StructType {
        let fields = self.fields.iter().map(|f| {
            let mut changed = change(f.clone());
            changed.data_type = map_type(&changed.data_type, change);
            changed
        });
        StructType::new(fields.collect())
    }

    /// Refuses empty names, names with NUL characters, which Arrow can't carry, and names that are
    /// equal when case is ignored, at every level (P180).
    pub fn check_names(&self) -> Result<()> {
        let mut seen: HashMap<String, &str> = HashMap::with_capacity(self.fields.len());
        for f in &self.fields {
            if f.name.is_empty() {
                return Err(Error::invalid_argument(
                    "a column has an empty name: give every column a name",
                ));
            }
            if f.name.contains('\0') {
                return Err(Error::invalid_argument(format!(
                    "the column name {:?} holds a NUL character: name the column without it",
                    f.name
                )));
            }
            if let Some(other) = seen.insert(f.name.to_lowercase(), &f.name) {
                return Err(Error::invalid_argument(format!(
                    "two columns have the same name when case is ignored: `{other}` and `{}`: rename one",
                    f.name
                )));
            }
            check_nested_names(&f.data_type)?;
        }
        Ok(())
    }

    /// Parses the JSON of `metaData.schemaString`.
    pub fn from_json(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).map_err(|e| {
            Error::corrupt_log(format!(
                "the table's schemaString isn't JSON ({e}): the log was damaged or written by a faulty program"
            ))
        })?;
        match parse_type(&value)? {
            DataType::Struct(s) => Ok(s),
            other => Err(Error::corrupt_log(format!(
                "the table's schemaString is a {other}, not a struct"
            ))),
        }
    }

    /// The JSON of `metaData.schemaString`.
    pub fn to_json(&self) -> String {
        self.to_value().to_string()
    }

    /// The value of this JSON.
    pub fn to_value(&self) -> Value {
        struct_value(self)
    }
}

fn map_type(t: &DataType, change: &mut dyn FnMut(Field) -> Field) -> DataType {
    match t {
        DataType::Primitive(p) => DataType::Primitive(*p),
        DataType::Struct(s) => DataType::Struct(s.map_fields(change)),
        DataType::Array(a) => DataType::Array(Box::new(ArrayType {
            element: map_type(&a.element, change),
            contains_null: a.contains_null,
        })),
        DataType::Map(m) => DataType::Map(Box::new(MapType {
            key: map_type(&m.key, change),
            value: map_type(&m.value, change),
            value_contains_null: m.value_contains_null,
        })),
    }
}

fn check_nested_names(t: &DataType) -> Result<()> {
    match t {
        DataType::Primitive(_) => Ok(()),
        DataType::Array(a) => check_nested_names(&a.element),
        DataType::Map(m) => check_nested_names(&m.key).and_then(|()| check_nested_names(&m.value)),
        DataType::Struct(s) => s.check_names(),
    }
}

impl Primitive {
    /// The type of this name in a schema's JSON, or `None` for a name that isn't a primitive.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Primitive::String,
            "long" => Primitive::Long,
            "integer" => Primitive::Integer,
            "short" => Primitive::Short,
            "byte" => Primitive::Byte,
            "float" => Primitive::Float,
            "double" => Primitive::Double,
            "boolean" => Primitive::Boolean,
            "binary" => Primitive::Binary,
            "date" => Primitive::Date,
            "timestamp" => Primitive::Timestamp,
            "timestamp_ntz" | "timestampNtz" => Primitive::TimestampNtz,
            "void" | "null" => Primitive::Void,
            "variant" => Primitive::Variant,
            "decimal" => Primitive::Decimal {
                precision: 10,
                scale: 0,
            },
            _ => return parse_decimal(name),
        })
    }
}

fn parse_decimal(name: &str) -> Option<Primitive> {
    let (p, s) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let precision: u8 = p.trim().parse().ok()?;
    let scale: i8 = s.trim().parse().ok()?;
    let legal = (1..=38).contains(&precision) && scale >= 0 && scale.unsigned_abs() <= precision;
    legal.then_some(Primitive::Decimal { precision, scale })
}

/// The error for a type that no primitive type has as its name. Spark has intervals, whose schemas
/// come from its frames, and the format has none (PROTOCOL.md, section "Primitive Types").
fn unknown_type(name: &str) -> Error {
    Error::unsupported_feature(if name.starts_with("interval") {
        format!(
            "the schema has a column of the type `{name}`, which no Delta table has: cast it to text or to a number"
        )
    } else {
        format!(
            "the table's schema has a column of the type `{name}`, which this version of deltaplane doesn't know: use a newer version"
        )
    })
}

fn parse_type(v: &Value) -> Result<DataType> {
    match v {
        Value::String(name) => Primitive::parse(name)
            .map(DataType::Primitive)
            .ok_or_else(|| unknown_type(name)),
        Value::Null => Ok(Primitive::Void.into()),
        Value::Object(o) => parse_complex(o),
        _ => Err(malformed("a type that is neither a name nor an object")),
    }
}

fn parse_complex(o: &Map<String, Value>) -> Result<DataType> {
    let part = |k: &str| {
        o.get(k)
            .ok_or_else(|| malformed(&format!("a complex type without `{k}`")))
    };
    let flag = |k: &str| o.get(k).and_then(Value::as_bool).unwrap_or(true);
    match o.get("type").and_then(Value::as_str) {
        Some("struct") => {
            let fields = part("fields")?
                .as_array()
                .ok_or_else(|| malformed("`fields` that isn't a list"))?;
            let fields = fields.iter().map(parse_field).collect::<Result<Vec<_>>>()?;
            Ok(DataType::Struct(StructType::new(fields)))
        }
        Some("array") => Ok(DataType::Array(Box::new(ArrayType {
            element: parse_type(part("elementType")?)?,
            contains_null: flag("containsNull"),
        }))),
        Some("map") => Ok(DataType::Map(Box::new(MapType {
            key: parse_type(part("keyType")?)?,
            value: parse_type(part("valueType")?)?,
            value_contains_null: flag("valueContainsNull"),
        }))),
        Some(other) => Err(Error::unsupported_feature(format!(
            "the table's schema has the complex type `{other}`, which this version of deltaplane doesn't know: use a newer version"
        ))),
        None => Err(malformed("a complex type without `type`")),
    }
}

fn parse_field(v: &Value) -> Result<Field> {
    let o = v.as_object().ok_or_else(|| malformed("a field that isn't an object"))?;
    let name = o
        .get("name")
        .and_then(Value::as_str)
        .ok_or_else(|| malformed("a field without a name"))?;
    let data_type = parse_type(o.get("type").ok_or_else(|| malformed("a field without a type"))?)?;
    Ok(Field {
        name: name.to_owned(),
        data_type,
        nullable: o.get("nullable").and_then(Value::as_bool).unwrap_or(true),
        metadata: o
            .get("metadata")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default(),
    })
}

fn malformed(what: &str) -> Error {
    Error::corrupt_log(format!("the table's schemaString holds {what}"))
}

fn struct_value(s: &StructType) -> Value {
    let fields: Vec<Value> = s
        .fields
        .iter()
        .map(|f| json!({"name": f.name, "type": type_value(&f.data_type), "nullable": f.nullable, "metadata": f.metadata}))
        .collect();
    json!({"type": "struct", "fields": fields})
}

/// The JSON value of a type, as schemas in the log have it.
pub fn type_value(t: &DataType) -> Value {
    match t {
        DataType::Primitive(p) => Value::String(p.to_string()),
        DataType::Struct(s) => struct_value(s),
        DataType::Array(a) => {
            json!({"type": "array", "elementType": type_value(&a.element), "containsNull": a.contains_null})
        }
        DataType::Map(m) => {
            json!({"type": "map", "keyType": type_value(&m.key), "valueType": type_value(&m.value), "valueContainsNull": m.value_contains_null})
        }
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Primitive::String => "string",
            Primitive::Long => "long",
            Primitive::Integer => "integer",
            Primitive::Short => "short",
            Primitive::Byte => "byte",
            Primitive::Float => "float",
            Primitive::Double => "double",
            Primitive::Boolean => "boolean",
            Primitive::Binary => "binary",
            Primitive::Date => "date",
            Primitive::Timestamp => "timestamp",
            Primitive::TimestampNtz => "timestamp_ntz",
            Primitive::Void => "void",
            Primitive::Variant => "variant",
            Primitive::Decimal { precision, scale } => return write!(f, "decimal({precision},{scale})"),
        })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Primitive(p) => p.fmt(f),
            DataType::Array(a) => write!(f, "array<{}>", a.element),
            DataType::Map(m) => write!(f, "map<{},{}>", m.key, m.value),
            DataType::Struct(s) => s.fmt(f),
        }
    }
}

impl fmt::Display for StructType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct<")?;
        for (i, field) in self.fields.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}:{}", field.name, field.data_type)?;
        }
        f.write_str(">")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn json_round_trip_keeps_unknown_metadata() {
        // P179
        let text = r#"{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":{"type":"map","keyType":"string","valueType":"decimal(10,2)","valueContainsNull":false},"containsNull":true},"nullable":false,"metadata":{"x.y":{"z":1.50}}}]}"#;
        let s = StructType::from_json(text).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&s.to_json()).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
        assert!(s.to_json().contains("1.50"));
    }

    #[test]
    fn unknown_types_are_named() {
        // P180
        let e = StructType::from_json(
            r#"{"type":"struct","fields":[{"name":"a","type":"geometry","nullable":true,"metadata":{}}]}"#,
        )
        .unwrap_err();
        assert!(e.message().contains("geometry"), "{e}");
        let e = StructType::from_json(
            r#"{"type":"struct","fields":[{"name":"a","type":"interval day","nullable":true,"metadata":{}}]}"#,
        )
        .unwrap_err();
        assert!(
            e.message()
                .contains("`interval day`, which no Delta table has: cast it"),
            "{e}"
        );
    }

    #[test]
    fn case_clashes_are_refused() {
        let s = StructType::new(vec![
            Field::new("a", Primitive::Long, true),
            Field::new("A", Primitive::Long, true),
        ]);
        assert!(s.check_names().unwrap_err().message().contains("`a` and `A`"));
    }

    #[test]
    fn hostile_nesting_is_an_error() {
        let deep = format!(
            "{}\"long\"{}",
            r#"{"type":"array","elementType":"#.repeat(10_000),
            ",\"containsNull\":true}".repeat(10_000)
        );
        assert!(StructType::from_json(&deep).is_err());
    }
}
