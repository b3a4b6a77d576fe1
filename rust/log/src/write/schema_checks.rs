//! What a schema needs before files are written by it: legal names, types that files hold,
//! partition columns. Pure.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::features::identity_columns;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::{ArrayType, DataType, Field, MapType, Primitive, StructType};

/// Refuses partition columns that the data doesn't have.
pub(crate) fn check_known(schema: &StructType, columns: &[String]) -> Result<()> {
    columns.iter().try_for_each(|c| known(schema, c).map(drop))
}

fn known<'a>(schema: &'a StructType, column: &str) -> Result<&'a Field> {
    schema.field_ignore_case(column).ok_or_else(|| {
        let names: Vec<&str> = schema.fields().iter().take(20).map(|f| f.name.as_str()).collect();
        Error::invalid_argument(format!(
            "the partition column `{column}` isn't a column of the data, which has: {}",
            names.join(", ")
        ))
    })
}

/// Partition columns with the schema's spelling; refuses unknown ones, repeated ones, types that
/// can't be partition values, and partitioning by everything (P173).
pub(crate) fn canonical_columns(schema: &StructType, columns: &[String]) -> Result<Vec<String>> {
    let mut out: Vec<String> = Vec::with_capacity(columns.len());
    for c in columns {
        let field = known(schema, c)?;
        if !matches!(&field.data_type, DataType::Primitive(p) if !matches!(p, Primitive::Void | Primitive::Variant)) {
            return Err(Error::invalid_argument(format!(
                "a table can't be partitioned by `{c}`: its type {} has no partition values",
                field.data_type
            )));
        }
        if out.contains(&field.name) {
            return Err(Error::invalid_argument(format!(
                "the partition column `{c}` is given twice"
            )));
        }
        out.push(field.name.clone());
    }
    if !out.is_empty() && out.len() == schema.fields().len() {
        return Err(Error::invalid_argument(
            "a table can't be partitioned by all of its columns: files would have none (P173)",
        ));
    }
    Ok(out)
}

/// Characters that names of columns in files may not hold without column mapping (P116).
const ILLEGAL_IN_NAMES: &[char] = &[' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];

/// A new table needs columns with names that files can hold. If `rows` are written to it, it needs
/// a column, and types that files can hold (P181): a table without rows may get them later.
pub(crate) fn check_new_schema(
    schema: &StructType,
    partition_columns: &[String],
    mapping: Mapping,
    rows: bool,
) -> Result<()> {
    check_field_names(schema, mapping)?;
    identity_columns::check(schema, partition_columns)?;
    if !rows {
        return Ok(());
    }
    if schema.fields().is_empty() {
        return Err(Error::invalid_argument(
            "a table needs at least one column: the data has none",
        ));
    }
    check_void(schema, schema)?;
    let in_files = schema.fields().iter().filter(|f| !partition_columns.contains(&f.name));
    if in_files
        .clone()
        .all(|f| f.data_type == DataType::Primitive(Primitive::Void))
    {
        return Err(Error::invalid_argument(
            "every column of the data is of the type void (only nulls): give at least one a type (P181)",
        ));
    }
    Ok(())
}

/// Names at every depth must be ones that files can hold without column mapping (P116).
pub(crate) fn check_field_names(schema: &StructType, mapping: Mapping) -> Result<()> {
    check_added_names(schema, &StructType::default(), mapping)
}

/// The same for names that a table's schema doesn't have yet: the old ones may come from a program
/// that stores any name, and its files hold them.
pub(crate) fn check_added_names(schema: &StructType, old: &StructType, mapping: Mapping) -> Result<()> {
    match mapping {
        Mapping::None => check_plain_names(schema, Some(old)),
        Mapping::Name | Mapping::Id => Ok(()),
    }
}

fn check_plain_names(schema: &StructType, old: Option<&StructType>) -> Result<()> {
    for f in schema.fields() {
        let before = old.and_then(|s| s.field(&f.name));
        if let (None, Some(c)) = (before, f.name.chars().find(|c| ILLEGAL_IN_NAMES.contains(c))) {
            return Err(Error::invalid_argument(format!(
                "the column name `{}` holds {c:?}: without column mapping names can't hold any of ' ,;{{}}()\\n\\t=' (P116); rename the column, or create the table with delta.columnMapping.mode = name",
                f.name
            )));
        }
        check_nested_names(&f.data_type, before.map(|f| &f.data_type))?;
    }
    Ok(())
}

fn check_nested_names(t: &DataType, old: Option<&DataType>) -> Result<()> {
    match (t, old) {
        (DataType::Struct(s), Some(DataType::Struct(old))) => check_plain_names(s, Some(old)),
        (DataType::Array(a), Some(DataType::Array(old))) => check_nested_names(&a.element, Some(&old.element)),
        (DataType::Map(m), Some(DataType::Map(old))) => {
            check_nested_names(&m.key, Some(&old.key))?;
            check_nested_names(&m.value, Some(&old.value))
        }
        (DataType::Struct(s), _) => check_plain_names(s, None),
        (DataType::Array(a), _) => check_nested_names(&a.element, None),
        (DataType::Map(m), _) => check_nested_names(&m.key, None).and_then(|()| check_nested_names(&m.value, None)),
        (DataType::Primitive(_), _) => Ok(()),
    }
}

/// Refuses columns of the data whose types in the table contain void where no file can leave it
/// out: inside arrays and maps, or as all of a struct (P181).
pub(crate) fn check_void(table: &StructType, data: &StructType) -> Result<()> {
    check_void_below(table, data, "")
}

const VOID: DataType = DataType::Primitive(Primitive::Void);

fn check_void_below(table: &StructType, data: &StructType, path: &str) -> Result<()> {
    data.fields().iter().try_for_each(|f| {
        let own = table.field_ignore_case(&f.name).unwrap_or(f);
        check_nested_void(&own.data_type, &f.data_type, &format!("{path}{}", own.name))
    })
}

fn check_nested_void(table: &DataType, data: &DataType, path: &str) -> Result<()> {
    let refuse = |what: &str| {
        Err(Error::schema_mismatch(format!(
            "the column `{path}` is {what} of the type void (only nulls), or of a type that contains it, which no file can hold: cast it to a type (P181)"
        )))
    };
    match (table, data) {
        // Only nulls, which need no place in files.
        (_, DataType::Primitive(_)) => Ok(()),
        (DataType::Array(a), _) if a.element.contains_void() => refuse("an array"),
        (DataType::Map(m), _) if m.key.contains_void() || m.value.contains_void() => refuse("a map"),
        (DataType::Struct(s), _) if s.fields().is_empty() => Err(Error::schema_mismatch(format!(
            "the column `{path}` is a struct without fields, which no file can hold: give it one"
        ))),
        (DataType::Struct(s), _) if s.fields().iter().all(|f| f.data_type == VOID) => refuse("a struct of fields"),
        (DataType::Struct(s), DataType::Struct(d)) => check_void_below(s, d, &format!("{path}.")),
        _ => Ok(()),
    }
}

/// NOT NULL inside arrays and maps is enforced by nobody and refused by the reference (P102).
pub(crate) fn check_nested_not_null(schema: &StructType) -> Result<()> {
    for f in schema.fields() {
        let (kind, inside) = match &f.data_type {
            DataType::Primitive(_) => continue,
            DataType::Struct(s) => {
                check_nested_not_null(s)?;
                continue;
            }
            DataType::Array(_) => ("array", &f.data_type),
            DataType::Map(_) => ("map", &f.data_type),
        };
        if relaxed(inside) != *inside {
            return Err(Error::invalid_argument(format!(
                "DELTA_NESTED_NOT_NULL_CONSTRAINT: the {kind} type of the column `{}` holds a NOT NULL field: NOT NULL can't be asked for inside arrays and maps; make the field nullable",
                f.name
            )));
        }
    }
    Ok(())
}

/// The schema of data without the NOT NULL inside arrays and maps that Arrow's types say in passing
/// (P102).
pub(crate) fn nullable_inside(schema: StructType) -> StructType {
    let fields = schema.fields().iter().map(|f| Field {
        data_type: match &f.data_type {
            DataType::Struct(s) => DataType::Struct(nullable_inside(s.clone())),
            other => relaxed(other),
        },
        ..f.clone()
    });
    StructType::new(fields.collect())
}

/// The type with every field of a struct nullable.
fn relaxed(t: &DataType) -> DataType {
    match t {
        DataType::Primitive(_) => t.clone(),
        DataType::Array(a) => DataType::Array(Box::new(ArrayType {
            element: relaxed(&a.element),
            contains_null: a.contains_null,
        })),
        DataType::Map(m) => DataType::Map(Box::new(MapType {
            key: relaxed(&m.key),
            value: relaxed(&m.value),
            value_contains_null: m.value_contains_null,
        })),
        DataType::Struct(s) => DataType::Struct(StructType::new(
            s.fields()
                .iter()
                .map(|f| Field {
                    data_type: relaxed(&f.data_type),
                    nullable: true,
                    ..f.clone()
                })
                .collect(),
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn array(element: impl Into<DataType>) -> DataType {
        DataType::Array(Box::new(ArrayType {
            element: element.into(),
            contains_null: false,
        }))
    }

    fn structure(name: &str, t: impl Into<DataType>, nullable: bool) -> StructType {
        StructType::new(vec![Field::new(name, t, nullable)])
    }

    #[test]
    fn void_is_refused_where_no_file_can_leave_it_out() {
        // P181
        for bad in [
            structure("c", array(Primitive::Void), true),
            structure(
                "c",
                array(DataType::Struct(StructType::new(vec![
                    Field::new("x", Primitive::Long, true),
                    Field::new("v", Primitive::Void, true),
                ]))),
                true,
            ),
            structure("c", DataType::Struct(structure("x", Primitive::Void, true)), true),
            structure(
                "s",
                DataType::Struct(structure("c", array(Primitive::Void), true)),
                true,
            ),
        ] {
            assert!(check_void(&bad, &bad).unwrap_err().message().contains("void"), "{bad}");
        }
        let fine = vec![
            Field::new("v", Primitive::Void, true),
            Field::new(
                "s",
                DataType::Struct(StructType::new(vec![
                    Field::new("v", Primitive::Void, true),
                    Field::new("x", Primitive::Long, true),
                ])),
                true,
            ),
        ];
        let fine = StructType::new(fine);
        check_void(&fine, &fine).unwrap();
        // The data lacks the column, or has nothing but nulls in it, or the table knows the type.
        let bad = structure("c", array(Primitive::Void), true);
        check_void(&bad, &StructType::new(Vec::new())).unwrap();
        check_void(&bad, &structure("C", Primitive::Void, true)).unwrap();
        check_void(&structure("c", array(Primitive::Long), true), &bad).unwrap();
    }

    #[test]
    fn not_null_inside_arrays_is_refused_or_dropped() {
        // P102
        let declared = structure(
            "a",
            array(DataType::Struct(structure("x", Primitive::Long, false))),
            false,
        );
        let e = check_nested_not_null(&declared).unwrap_err();
        assert!(
            e.message().contains("DELTA_NESTED_NOT_NULL_CONSTRAINT") && e.message().contains("`a`"),
            "{e}"
        );
        let plain = nullable_inside(declared);
        check_nested_not_null(&plain).unwrap();
        assert!(
            plain.fields().iter().all(|f| !f.nullable),
            "the column itself stays NOT NULL"
        );
        let inside = structure("s", DataType::Struct(structure("x", Primitive::Long, false)), false);
        check_nested_not_null(&inside).unwrap();
        assert_eq!(nullable_inside(inside.clone()), inside);
    }
}
