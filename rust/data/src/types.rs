//! The Arrow types in which rows leave and enter this crate: those of `arrow_types`, with every
//! field nullable, because old files may lack any column (P182) and files store all fields as
//! optional (P102).

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, FieldRef, Fields, Schema, SchemaRef};
use deltaplane_protocol::arrow_types::{is_variant, to_arrow_field, to_arrow_type};
use deltaplane_protocol::mapping::{Mapping, NESTED_IDS, id_of};
use deltaplane_protocol::schema::{DataType, Field, StructType};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use serde_json::{Map, Value};

/// The Arrow type of a column's rows.
pub(crate) fn row_type(t: &DataType) -> ArrowType {
    match t {
        DataType::Primitive(_) => to_arrow_type(t),
        _ => relax(&to_arrow_type(t)),
    }
}

/// The Arrow field of a column's rows.
pub(crate) fn row_field(f: &Field) -> ArrowField {
    relaxed(&to_arrow_field(f))
}

/// The Arrow schema of these columns' rows.
pub(crate) fn row_schema<'a>(fields: impl IntoIterator<Item = &'a Field>) -> SchemaRef {
    let fields: Fields = fields.into_iter().map(row_field).collect();
    Arc::new(Schema::new(fields))
}

fn relax(t: &ArrowType) -> ArrowType {
    match t {
        ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(relax_field).collect()),
        ArrowType::List(e) => ArrowType::List(relax_field(e)),
        ArrowType::Map(entries, sorted) => ArrowType::Map(relax_entries(entries), *sorted),
        other => other.clone(),
    }
}

fn relax_field(f: &FieldRef) -> FieldRef {
    Arc::new(relaxed(f))
}

/// A variant has both of its parts, in Arrow as in Parquet.
fn relaxed(f: &ArrowField) -> ArrowField {
    let t = if is_variant(f) {
        f.data_type().clone()
    } else {
        relax(f.data_type())
    };
    f.clone().with_data_type(t).with_nullable(true)
}

/// Entries and keys of a map are never null, in Arrow as in Parquet.
fn relax_entries(entries: &FieldRef) -> FieldRef {
    let ArrowType::Struct(fields) = entries.data_type() else {
        return entries.clone();
    };
    let fields: Fields = fields
        .iter()
        .enumerate()
        .map(|(i, f)| {
            let relaxed = relax_field(f);
            if i == 0 {
                Arc::new(relaxed.as_ref().clone().with_nullable(false))
            } else {
                relaxed
            }
        })
        .collect();
    Arc::new(ArrowField::new(entries.name(), ArrowType::Struct(fields), false))
}

/// The Arrow schema of data files with these columns: physical names, and the ids that the schema's
/// mapping gives to fields, and to elements, keys and values (P111, P115).
pub(crate) fn file_schema(stored: &StructType, mapping: Mapping) -> SchemaRef {
    if mapping == Mapping::None {
        return row_schema(stored.fields());
    }
    Arc::new(Schema::new(file_fields(stored, mapping)))
}

fn file_fields(s: &StructType, mapping: Mapping) -> Fields {
    let fields = s.fields().iter().map(|f| {
        let nested = NestedIds::of(f, mapping);
        let field = ArrowField::new(nested.path.clone(), file_type(&f.data_type, mapping, &nested), true);
        with_id(field, id_of(f))
    });
    fields.collect()
}

/// Ids of what a field holds without being a struct's field, by path.
#[derive(Clone)]
struct NestedIds<'a> {
    ids: Option<&'a Map<String, Value>>,
    path: String,
}

impl<'a> NestedIds<'a> {
    fn of(f: &'a Field, mapping: Mapping) -> Self {
        NestedIds {
            ids: f.metadata.get(NESTED_IDS).and_then(Value::as_object),
            path: mapping.physical_name(f).to_owned(),
        }
    }

    fn below(&self, step: &str) -> Self {
        NestedIds {
            path: format!("{}.{step}", self.path),
            ..*self
        }
    }

    fn id(&self) -> Option<i32> {
        self.ids?
            .get(&self.path)?
            .as_i64()
            .and_then(|id| i32::try_from(id).ok())
    }
}

fn with_id(field: ArrowField, id: Option<i32>) -> ArrowField {
    match id {
        Some(id) => field.with_metadata([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]),
        None => field,
    }
}

/// The type of a field's values in files; `nested` is where they are.
fn file_type(t: &DataType, mapping: Mapping, nested: &NestedIds<'_>) -> ArrowType {
    let part = |name: &str, t: &DataType, nullable: bool| {
        let below = nested.below(name);
        with_id(
            ArrowField::new(name, file_type(t, mapping, &below), nullable),
            below.id(),
        )
    };
    match t {
        DataType::Primitive(_) => row_type(t),
        DataType::Struct(s) => ArrowType::Struct(file_fields(s, mapping)),
        DataType::Array(a) => ArrowType::List(Arc::new(part("element", &a.element, true))),
        DataType::Map(m) => {
            let entries = Fields::from(vec![part("key", &m.key, false), part("value", &m.value, true)]);
            let entries = ArrowField::new("key_value", ArrowType::Struct(entries), false);
            ArrowType::Map(Arc::new(entries), false)
        }
    }
}

/// Whether files can hold values of a type: not of void, of arrays and maps that contain it, or of
/// structs without a field that files can hold (P181).
pub(crate) fn is_storable(t: &DataType) -> bool {
    match t {
        DataType::Primitive(_) | DataType::Array(_) | DataType::Map(_) => !t.contains_void(),
        DataType::Struct(s) => s.fields().iter().any(|f| is_storable(&f.data_type)),
    }
}

/// The stored part of a schema: all columns and fields of structs that files can hold. The others
/// have only nulls.
pub(crate) fn without_void(s: &StructType) -> StructType {
    let fields = s
        .fields()
        .iter()
        .filter(|f| is_storable(&f.data_type))
        .map(|f| Field {
            data_type: match &f.data_type {
                DataType::Struct(inner) => DataType::Struct(without_void(inner)),
                other => other.clone(),
            },
            ..f.clone()
        })
        .collect();
    StructType::new(fields)
}
