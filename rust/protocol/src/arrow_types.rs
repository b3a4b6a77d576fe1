//! The mapping between Delta types and Arrow types, both ways. A table's columns have the canonical
//! Arrow type of each Delta type; many Arrow types are accepted as input.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, FieldRef, Fields, Schema, SchemaRef, TimeUnit};

use crate::schema::{ArrayType, DataType, Field, MapType, Primitive, StructType};
use crate::{Error, Result};

/// The Arrow schema of a table: names, types and nullability of its columns in order.
pub fn to_arrow_schema(s: &StructType) -> SchemaRef {
    Arc::new(Schema::new(to_arrow_fields(s)))
}

fn to_arrow_fields(s: &StructType) -> Fields {
    s.fields().iter().map(to_arrow_field).collect()
}

/// The same schema with the fields' metadata: a string stays as it is, any other value becomes its
/// JSON text. Elements, keys and values have no metadata in a Delta schema.
pub fn to_arrow_schema_with_metadata(s: &StructType) -> SchemaRef {
    Arc::new(Schema::new(annotated_fields(&to_arrow_fields(s), s)))
}

fn annotated_fields(fields: &Fields, s: &StructType) -> Fields {
    let annotated = fields.iter().zip(s.fields()).map(|(arrow, own)| {
        let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut metadata: HashMap<String, String> = own.metadata.iter().map(|(k, v)| (k.clone(), text(v))).collect();
        // Metadata that declares the Arrow type of a variant takes precedence.
        metadata.extend(arrow.metadata().iter().map(|(k, v)| (k.clone(), v.clone())));
        let data_type = annotated_type(arrow.data_type(), &own.data_type);
        let field = arrow.as_ref().clone().with_data_type(data_type);
        Arc::new(field.with_metadata(metadata))
    });
    annotated.collect()
}

fn annotated_child(arrow: &FieldRef, t: &DataType) -> FieldRef {
    Arc::new(
        arrow
            .as_ref()
            .clone()
            .with_data_type(annotated_type(arrow.data_type(), t)),
    )
}

fn annotated_type(arrow: &ArrowType, t: &DataType) -> ArrowType {
    match (arrow, t) {
        (ArrowType::Struct(fields), DataType::Struct(s)) => ArrowType::Struct(annotated_fields(fields, s)),
        (ArrowType::List(element), DataType::Array(a)) => ArrowType::List(annotated_child(element, &a.element)),
        (ArrowType::Map(entries, sorted), DataType::Map(m)) => match entries.data_type() {
            ArrowType::Struct(fields) => {
                let types = [&m.key, &m.value];
                let fields = fields.iter().zip(types).map(|(f, t)| annotated_child(f, t)).collect();
                let entries = entries.as_ref().clone().with_data_type(ArrowType::Struct(fields));
                ArrowType::Map(Arc::new(entries), *sorted)
            }
            _ => arrow.clone(),
        },
        _ => arrow.clone(),
    }
}

/// A schema of rows whose columns are NOT NULL, at every depth, where the table declares them so
/// (P102). Columns that the table hasn't stay as they are.
pub fn with_declared_nullability(rows: &Schema, table: &StructType) -> SchemaRef {
    let fields = rows.fields().iter().map(|field| match table.field(field.name()) {
        Some(own) => declared_field(field, &own.data_type, own.nullable),
        None => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Fields>(),
        rows.metadata().clone(),
    ))
}

fn declared_field(field: &FieldRef, t: &DataType, nullable: bool) -> FieldRef {
    let data_type = match (field.data_type(), t) {
        (ArrowType::Struct(fields), DataType::Struct(s)) => {
            let own = fields.iter().zip(s.fields());
            ArrowType::Struct(
                own.map(|(f, own)| declared_field(f, &own.data_type, own.nullable))
                    .collect(),
            )
        }
        (ArrowType::List(element), DataType::Array(a)) => {
            ArrowType::List(declared_field(element, &a.element, a.contains_null))
        }
        (ArrowType::Map(entries, sorted), DataType::Map(m)) => match entries.data_type() {
            ArrowType::Struct(parts) => {
                let own = [(&m.key, false), (&m.value, m.value_contains_null)];
                let parts = parts.iter().zip(own);
                let parts = parts.map(|(part, (t, nullable))| declared_field(part, t, nullable));
                let parts = ArrowType::Struct(parts.collect());
                ArrowType::Map(Arc::new(entries.as_ref().clone().with_data_type(parts)), *sorted)
            }
            _ => field.data_type().clone(),
        },
        (other, _) => other.clone(),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type).with_nullable(nullable))
}

/// The Arrow field of a column.
pub fn to_arrow_field(f: &Field) -> ArrowField {
    named(&f.name, &f.data_type, f.nullable)
}

/// Arrow's name for variants, in the metadata of a field whose type is their struct (P154).
const EXTENSION: (&str, &str) = ("ARROW:extension:name", "arrow.parquet.variant");

fn named(name: &str, t: &DataType, nullable: bool) -> ArrowField {
    let field = ArrowField::new(name, to_arrow_type(t), nullable);
    if *t != DataType::Primitive(Primitive::Variant) {
        return field;
    }
    let (key, name) = EXTENSION;
    field.with_metadata(HashMap::from([(key.to_owned(), name.to_owned())]))
}

/// Whether a field is declared to contain variants.
pub fn is_variant(f: &ArrowField) -> bool {
    let (key, name) = EXTENSION;
    f.metadata().get(key).is_some_and(|n| n == name) && matches!(f.data_type(), ArrowType::Struct(_))
}

/// The canonical Arrow type of a Delta type.
pub fn to_arrow_type(t: &DataType) -> ArrowType {
    match t {
        DataType::Primitive(p) => primitive_to_arrow(*p),
        DataType::Struct(s) => ArrowType::Struct(to_arrow_fields(s)),
        DataType::Array(a) => ArrowType::List(Arc::new(named("element", &a.element, a.contains_null))),
        DataType::Map(m) => {
            let entries = Fields::from(vec![
                named("key", &m.key, false),
                named("value", &m.value, m.value_contains_null),
            ]);
            let entries = ArrowField::new("key_value", ArrowType::Struct(entries), false);
            ArrowType::Map(Arc::new(entries), false)
        }
    }
}

/// The canonical Arrow type of a Delta primitive.
pub fn primitive_to_arrow(p: Primitive) -> ArrowType {
    match p {
        Primitive::String => ArrowType::Utf8,
        Primitive::Long => ArrowType::Int64,
        Primitive::Integer => ArrowType::Int32,
        Primitive::Short => ArrowType::Int16,
        Primitive::Byte => ArrowType::Int8,
        Primitive::Float => ArrowType::Float32,
        Primitive::Double => ArrowType::Float64,
        Primitive::Boolean => ArrowType::Boolean,
        Primitive::Binary => ArrowType::Binary,
        Primitive::Date => ArrowType::Date32,
        Primitive::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        Primitive::TimestampNtz => ArrowType::Timestamp(TimeUnit::Microsecond, None),
        Primitive::Decimal { precision, scale } => ArrowType::Decimal128(precision, scale),
        Primitive::Void => ArrowType::Null,
        Primitive::Variant => ArrowType::Struct(Fields::from(vec![
            ArrowField::new("metadata", ArrowType::Binary, false),
            ArrowField::new("value", ArrowType::Binary, false),
        ])),
    }
}

/// The Delta schema that holds every value of this Arrow schema without loss.
///
/// Unsigned integers become the next wider signed type (`uint64` becomes `decimal(20,0)`),
/// timestamps of any unit microseconds, dictionaries and views their values. `time`, `duration` and
/// `interval` have no Delta type and are refused by name. All metadata of fields is kept as text:
/// `features::arrow_metadata` selects what a table stores of it.
pub fn from_arrow_schema(s: &Schema) -> Result<StructType> {
    from_arrow_fields(s.fields(), &mut Vec::new())
}

fn from_arrow_fields(fields: &Fields, path: &mut Vec<String>) -> Result<StructType> {
    let fields = fields
        .iter()
        .map(|f| from_arrow_field(f, path))
        .collect::<Result<Vec<_>>>()?;
    Ok(StructType::new(fields))
}

fn from_arrow_field(f: &ArrowField, path: &mut Vec<String>) -> Result<Field> {
    path.push(f.name().clone());
    let data_type = type_of(f, path)?;
    path.pop();
    let metadata = f.metadata().iter();
    Ok(Field {
        metadata: metadata.map(|(key, text)| (key.clone(), text.clone().into())).collect(),
        ..Field::new(f.name(), data_type, f.is_nullable())
    })
}

fn type_of(f: &ArrowField, path: &mut Vec<String>) -> Result<DataType> {
    if is_variant(f) {
        return Ok(Primitive::Variant.into());
    }
    from_arrow_type(f.data_type(), path)
}

fn from_arrow_type(t: &ArrowType, path: &mut Vec<String>) -> Result<DataType> {
    let primitive = |p: Primitive| Ok(DataType::Primitive(p));
    match t {
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => primitive(Primitive::String),
        ArrowType::Int64 | ArrowType::UInt32 => primitive(Primitive::Long),
        ArrowType::Int32 | ArrowType::UInt16 => primitive(Primitive::Integer),
        ArrowType::Int16 | ArrowType::UInt8 => primitive(Primitive::Short),
        ArrowType::Int8 => primitive(Primitive::Byte),
        ArrowType::UInt64 => primitive(Primitive::Decimal {
            precision: 20,
            scale: 0,
        }),
        ArrowType::Float16 | ArrowType::Float32 => primitive(Primitive::Float),
        ArrowType::Float64 => primitive(Primitive::Double),
        ArrowType::Boolean => primitive(Primitive::Boolean),
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => {
            primitive(Primitive::Binary)
        }
        ArrowType::Date32 | ArrowType::Date64 => primitive(Primitive::Date),
        ArrowType::Timestamp(_, None) => primitive(Primitive::TimestampNtz),
        ArrowType::Timestamp(_, Some(_)) => primitive(Primitive::Timestamp),
        ArrowType::Decimal32(p, s)
        | ArrowType::Decimal64(p, s)
        | ArrowType::Decimal128(p, s)
        | ArrowType::Decimal256(p, s)
            if (1..=38).contains(p) && *s >= 0 && s.unsigned_abs() <= *p =>
        {
            primitive(Primitive::Decimal {
                precision: *p,
                scale: *s,
            })
        }
        ArrowType::Null => primitive(Primitive::Void),
        ArrowType::Dictionary(_, v) => from_arrow_type(v, path),
        ArrowType::RunEndEncoded(_, v) => from_arrow_type(v.data_type(), path),
        ArrowType::Struct(fields) => Ok(DataType::Struct(from_arrow_fields(fields, path)?)),
        ArrowType::List(e)
        | ArrowType::LargeList(e)
        | ArrowType::ListView(e)
        | ArrowType::LargeListView(e)
        | ArrowType::FixedSizeList(e, _) => Ok(DataType::Array(Box::new(ArrayType {
            element: type_of(e, path)?,
            contains_null: e.is_nullable(),
        }))),
        ArrowType::Map(entries, _) => from_arrow_map(entries, path),
        other => Err(Error::schema_mismatch(format!(
            "column `{}` has the Arrow type {other}, for which Delta has no type: cast it first (durations and times to a long or a string, decimals to at most 38 digits)",
            path.join(".")
        ))),
    }
}

fn from_arrow_map(entries: &ArrowField, path: &mut Vec<String>) -> Result<DataType> {
    let ArrowType::Struct(fields) = entries.data_type() else {
        return Err(Error::internal("an Arrow map without entries"));
    };
    let [key, value] = fields.as_ref() else {
        return Err(Error::internal("an Arrow map whose entries aren't key and value"));
    };
    Ok(DataType::Map(Box::new(MapType {
        key: type_of(key, path)?,
        value: type_of(value, path)?,
        value_contains_null: value.is_nullable(),
    })))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn delta_to_arrow_and_back_is_the_identity() {
        let text = r#"{"type":"struct","fields":[{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"struct","fields":[{"name":"d","type":"decimal(38,10)","nullable":true,"metadata":{}}]},"valueContainsNull":false},"nullable":false,"metadata":{}},{"name":"t","type":"timestamp","nullable":true,"metadata":{}},{"name":"n","type":"timestamp_ntz","nullable":true,"metadata":{}},{"name":"l","type":{"type":"array","elementType":"byte","containsNull":true},"nullable":true,"metadata":{}},{"name":"v","type":{"type":"array","elementType":"variant","containsNull":true},"nullable":true,"metadata":{}}]}"#;
        let s = StructType::from_json(text).unwrap();
        let mut plain = from_arrow_schema(&to_arrow_schema(&s)).unwrap();
        plain = plain.map_fields(&mut |f| Field::new(f.name, f.data_type, f.nullable));
        assert_eq!(plain, s);
    }

    #[test]
    fn columns_are_not_null_where_the_table_declares_them_so() {
        let text = r#"{"type":"struct","fields":[{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"struct","fields":[{"name":"d","type":"long","nullable":false,"metadata":{}}]},"valueContainsNull":false},"nullable":false,"metadata":{}},{"name":"l","type":{"type":"array","elementType":"byte","containsNull":false},"nullable":true,"metadata":{}}]}"#;
        let table = StructType::from_json(text).unwrap();
        let relaxed = StructType::from_json(&text.replace("false", "true")).unwrap();
        let rows = to_arrow_schema(&relaxed);
        assert_ne!(rows, to_arrow_schema(&table));
        assert_eq!(with_declared_nullability(&rows, &table), to_arrow_schema(&table));
        let other = Schema::new(vec![ArrowField::new("_file", ArrowType::Utf8, false)]);
        assert_eq!(*with_declared_nullability(&other, &table), other);
    }

    #[test]
    fn metadata_of_fields_goes_to_arrow_and_back_as_text() {
        let text = r#"{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{"comment":"deep"}}]},"containsNull":true},"nullable":true,"metadata":{"comment":"top","n":1}},{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"struct","fields":[{"name":"y","type":"long","nullable":true,"metadata":{"k":"v"}}]},"valueContainsNull":true},"nullable":true,"metadata":{}}]}"#;
        let s = StructType::from_json(text).unwrap();
        let there = from_arrow_schema(&to_arrow_schema_with_metadata(&s)).unwrap();
        assert_eq!(there.to_json(), s.to_json().replace("\"n\":1", "\"n\":\"1\""));
        assert!(to_arrow_schema(&s).fields().iter().all(|f| f.metadata().is_empty()));
    }

    #[test]
    fn types_without_a_delta_type_are_named() {
        let s = Schema::new(vec![ArrowField::new("t", ArrowType::Duration(TimeUnit::Second), true)]);
        assert!(from_arrow_schema(&s).unwrap_err().message().contains("`t`"));
    }
}
