//! Checks whether a data file has content that its table no longer has: rows that a vector deletes,
//! dropped columns, values of a type that was widened since. Such a file is still readable; a purge
//! rewrites it.

use std::collections::HashSet;

use arrow::datatypes::{DataType as ArrowType, Fields};
use deltaplane_error::Result;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::{DataType, Field, Primitive, StructType};
use deltaplane_store::Store;

use super::plan::arrow_metadata;
use super::{FileRead, ReadSpec, source};
use crate::convert::find_column;

/// Whether the file differs from one that a writer would write now; reads its footer unless it has
/// a vector.
///
/// # Errors
/// `FileMissing`, `CorruptFile` with the file's path, and the store's errors.
pub async fn is_outdated(store: &Store, file: &FileRead, spec: &ReadSpec) -> Result<bool> {
    if file.deletion_vector.is_some() {
        return Ok(true);
    }
    let outdated = async {
        let footer = source::open(store, file).await?.footer(false).await?;
        let metadata = arrow_metadata(footer)?;
        Ok(differs(metadata.schema().fields(), spec))
    };
    outdated
        .await
        .map_err(|e: deltaplane_error::Error| e.with_path(file.path.clone()))
}

fn differs(fields: &Fields, spec: &ReadSpec) -> bool {
    let stored = [&spec.stored_row_ids, &spec.stored_row_commit_versions];
    let hidden = |name: &String| stored.iter().any(|s| s.as_ref() == Some(name));
    columns_differ(fields, &spec.schema, spec.mapping, &hidden)
}

/// `hidden` are columns that files may have besides the table's.
fn columns_differ(fields: &Fields, table: &StructType, mapping: Mapping, hidden: &dyn Fn(&String) -> bool) -> bool {
    let place = |f: &Field| find_column(fields, f, mapping);
    let known: HashSet<usize> = table.fields().iter().filter_map(place).collect();
    let dropped = fields
        .iter()
        .enumerate()
        .any(|(i, f)| !known.contains(&i) && !hidden(f.name()));
    let older = |f: &Field| {
        let file_field = place(f).and_then(|i| fields.get(i));
        file_field.is_some_and(|file_field| type_differs(file_field.data_type(), &f.data_type, mapping))
    };
    dropped || table.fields().iter().any(older)
}

fn type_differs(file: &ArrowType, table: &DataType, mapping: Mapping) -> bool {
    match (file, table) {
        (ArrowType::Struct(fields), DataType::Struct(s)) => columns_differ(fields, s, mapping, &|_| false),
        (ArrowType::List(e), DataType::Array(a)) => type_differs(e.data_type(), &a.element, mapping),
        (ArrowType::Map(entries, _), DataType::Map(m)) => match entries.data_type() {
            ArrowType::Struct(parts) => {
                let differs = |part: usize, t| parts.get(part).is_some_and(|p| type_differs(p.data_type(), t, mapping));
                differs(0, &m.key) || differs(1, &m.value)
            }
            _ => false,
        },
        (_, DataType::Primitive(p)) => is_narrower(file, *p),
        _ => false,
    }
}

/// Whether values of the file's type were widened to the table's (P153).
fn is_narrower(file: &ArrowType, table: Primitive) -> bool {
    let integer = match file {
        ArrowType::Int8 => Some(1),
        ArrowType::Int16 => Some(2),
        ArrowType::Int32 => Some(4),
        ArrowType::Int64 => Some(8),
        _ => None,
    };
    match (table, integer) {
        (Primitive::Short, Some(bytes)) => bytes < 2,
        (Primitive::Integer, Some(bytes)) => bytes < 4,
        (Primitive::Long, Some(bytes)) => bytes < 8,
        (Primitive::Double, n) => n.is_some() || *file == ArrowType::Float32,
        (Primitive::Decimal { .. }, Some(_)) => true,
        (Primitive::Decimal { precision, scale }, None) => {
            matches!(file, ArrowType::Decimal128(p, s) if (*p, *s) != (precision, scale))
        }
        (Primitive::TimestampNtz, None) => *file == ArrowType::Date32,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::datatypes::Field as ArrowField;

    use super::*;

    fn file(columns: &[(&str, ArrowType)]) -> Fields {
        columns
            .iter()
            .map(|(n, t)| ArrowField::new(*n, t.clone(), true))
            .collect()
    }

    fn table(columns: &[(&str, Primitive)]) -> ReadSpec {
        let fields = columns.iter().map(|(n, t)| Field::new(*n, *t, true)).collect();
        ReadSpec::new(Arc::new(StructType::new(fields)), Vec::new())
    }

    #[test]
    fn dropped_columns_show_row_ids_and_new_columns_do_not() {
        // P114, P141
        let mut spec = table(&[("a", Primitive::Long), ("new", Primitive::Long)]);
        assert!(!differs(&file(&[("a", ArrowType::Int64)]), &spec));
        let more = file(&[("a", ArrowType::Int64), ("_row-id-col-1", ArrowType::Int64)]);
        assert!(differs(&more, &spec));
        spec.stored_row_ids = Some("_row-id-col-1".to_owned());
        assert!(!differs(&more, &spec));
    }

    #[test]
    fn widened_types_show_at_every_depth() {
        // P153
        let decimal = Primitive::Decimal {
            precision: 12,
            scale: 2,
        };
        for (old, now, differs) in [
            (ArrowType::Int8, Primitive::Integer, true),
            (ArrowType::Int32, Primitive::Integer, false),
            // Without an annotation a byte is stored as an integer.
            (ArrowType::Int32, Primitive::Byte, false),
            (ArrowType::Float32, Primitive::Double, true),
            (ArrowType::Float64, Primitive::Double, false),
            (ArrowType::Int32, Primitive::Double, true),
            (ArrowType::Date32, Primitive::TimestampNtz, true),
            (ArrowType::Decimal128(10, 2), decimal, true),
            (ArrowType::Decimal128(12, 2), decimal, false),
            (ArrowType::Int64, decimal, true),
        ] {
            assert_eq!(is_narrower(&old, now), differs, "{old} in a column of {now:?}");
        }
        let old = ArrowType::List(Arc::new(ArrowField::new("element", ArrowType::Int16, true)));
        let array = |t| {
            DataType::Array(Box::new(deltaplane_protocol::schema::ArrayType {
                element: DataType::Primitive(t),
                contains_null: true,
            }))
        };
        assert!(type_differs(&old, &array(Primitive::Long), Mapping::None));
        assert!(!type_differs(&old, &array(Primitive::Short), Mapping::None));
    }
}
