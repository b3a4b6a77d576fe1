//! The Arrow types in which rows leave and enter this crate: those of `arrow_types`, with every field
//! nullable, because old files may lack any column (P182) and files store all fields as optional (P102).

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, FieldRef, Fields, Schema, SchemaRef};
use deltaplane_protocol::arrow_types::to_arrow_type;
use deltaplane_protocol::schema::{DataType, Field, Primitive, StructType};

/// The Arrow type of a column's rows.
pub(crate) fn row_type(t: &DataType) -> ArrowType {
    relax(&to_arrow_type(t))
}

/// The Arrow field of a column's rows.
pub(crate) fn row_field(f: &Field) -> ArrowField {
    ArrowField::new(&f.name, row_type(&f.data_type), true)
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
    Arc::new(
        f.as_ref()
            .clone()
            .with_data_type(relax(f.data_type()))
            .with_nullable(true),
    )
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

/// What of a schema is stored in files: everything but void columns (P181).
pub(crate) fn without_void(s: &StructType) -> StructType {
    let fields = s
        .fields()
        .iter()
        .filter(|f| f.data_type != DataType::Primitive(Primitive::Void))
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
