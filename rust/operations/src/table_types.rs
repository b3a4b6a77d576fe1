//! Arrow's many layouts of a column to the one in which a table's rows come: dictionaries, views, runs, large and fixed-size
//! types, unsigned and half-width numbers. The same casts as of an append, for commands that look at rows first.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use deltaplane_data::cast_batch;
use deltaplane_error::Result;
use deltaplane_protocol::arrow_types::{from_arrow_schema, to_arrow_schema};
use deltaplane_protocol::schema::{ArrayType, DataType, Field, MapType, StructType};

/// Rows of this Arrow schema in the Arrow types that a table of their columns has, and those types; nulls may be everywhere.
/// Columns that `table` has get its types: the fields of their structs are found by name, ignoring case.
///
/// # Errors
/// `SchemaMismatch` for a type that tables don't have, `InvalidArgument` for names that differ by case alone.
pub fn rows_in_table_types<R: Iterator<Item = Result<RecordBatch>>>(
    rows: R,
    input_schema: &Schema,
    table: Option<&StructType>,
) -> Result<(SchemaRef, impl Iterator<Item = Result<RecordBatch>> + use<R>)> {
    let columns = table_columns(input_schema, table)?;
    let schema = to_arrow_schema(&columns);
    Ok((schema, rows.map(move |batch| cast_batch(&batch?, &columns))))
}

fn table_columns(input_schema: &Schema, table: Option<&StructType>) -> Result<StructType> {
    let columns = from_arrow_schema(input_schema)?;
    columns.check_names()?;
    let Some(table) = table else {
        return Ok(nullable(&columns));
    };
    let fields = columns.fields().iter().map(|f| Field {
        name: f.name.clone(),
        ..table.field_ignore_case(&f.name).unwrap_or(f).clone()
    });
    Ok(nullable(&StructType::new(fields.collect())))
}

fn nullable(columns: &StructType) -> StructType {
    let fields = columns.fields().iter().map(|f| Field {
        data_type: nullable_type(&f.data_type),
        nullable: true,
        ..f.clone()
    });
    StructType::new(fields.collect())
}

fn nullable_type(of: &DataType) -> DataType {
    match of {
        DataType::Primitive(_) => of.clone(),
        DataType::Struct(s) => DataType::Struct(nullable(s)),
        DataType::Array(a) => DataType::Array(Box::new(ArrayType {
            element: nullable_type(&a.element),
            contains_null: true,
        })),
        DataType::Map(m) => DataType::Map(Box::new(MapType {
            key: nullable_type(&m.key),
            value: nullable_type(&m.value),
            value_contains_null: true,
        })),
    }
}
