//! What a schema needs before files are written by it: legal names, types that files hold, partition columns.
//! Pure. Called by `write_plan`.

use deltaplane_error::{Error, Result};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::{DataType, Primitive, StructType};

/// Partition columns with the schema's spelling; refuses unknown ones, repeated ones, types that
/// can't be partition values, and partitioning by everything (P173).
pub(crate) fn canonical_columns(schema: &StructType, columns: &[String]) -> Result<Vec<String>> {
    let mut out: Vec<String> = Vec::with_capacity(columns.len());
    for c in columns {
        let field = schema.field_ignore_case(c).ok_or_else(|| {
            let names: Vec<&str> = schema.fields().iter().take(20).map(|f| f.name.as_str()).collect();
            Error::invalid_argument(format!(
                "the partition column `{c}` isn't a column of the data, which has: {}",
                names.join(", ")
            ))
        })?;
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

/// A new table needs columns with names that files can hold, and one with a type that they can (P181).
pub(crate) fn check_new_schema(schema: &StructType, partition_columns: &[String], mapping: Mapping) -> Result<()> {
    if schema.fields().is_empty() {
        return Err(Error::invalid_argument(
            "a table needs at least one column: the data has none",
        ));
    }
    check_field_names(schema, mapping)?;
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
    match mapping {
        Mapping::None => check_plain_names(schema),
        Mapping::Name | Mapping::Id => Ok(()),
    }
}

fn check_plain_names(schema: &StructType) -> Result<()> {
    for f in schema.fields() {
        if let Some(c) = f.name.chars().find(|c| ILLEGAL_IN_NAMES.contains(c)) {
            return Err(Error::invalid_argument(format!(
                "the column name `{}` holds {c:?}: without column mapping names can't hold any of ' ,;{{}}()\\n\\t=' (P116); rename the column, or create the table with delta.columnMapping.mode = name",
                f.name
            )));
        }
        match &f.data_type {
            DataType::Struct(s) => check_plain_names(s)?,
            DataType::Array(a) => check_nested_names(&a.element)?,
            DataType::Map(m) => {
                check_nested_names(&m.key)?;
                check_nested_names(&m.value)?;
            }
            DataType::Primitive(_) => {}
        }
    }
    Ok(())
}

fn check_nested_names(t: &DataType) -> Result<()> {
    match t {
        DataType::Struct(s) => check_plain_names(s),
        DataType::Array(a) => check_nested_names(&a.element),
        DataType::Map(m) => check_nested_names(&m.key).and_then(|()| check_nested_names(&m.value)),
        DataType::Primitive(_) => Ok(()),
    }
}
