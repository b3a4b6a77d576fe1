//! Arrow's many layouts of a column to the one in which a table's rows come: dictionaries, views,
//! runs, large and fixed-size types, unsigned and half-width numbers. The same casts as of an
//! append, for commands that look at rows first.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use deltaplane_data::cast_batch;
use deltaplane_error::Result;
use deltaplane_protocol::arrow_types::{from_arrow_schema, to_arrow_schema};
use deltaplane_protocol::schema::{ArrayType, DataType, Field, MapType, StructType};

/// Rows of this Arrow schema in the Arrow types that a table of their columns has, and those types;
/// nulls may be everywhere. Columns that `table` has get its types: the fields of their structs are
/// found by name, ignoring case.
///
/// # Errors
/// `SchemaMismatch` for a type that tables don't have, `InvalidArgument` for names that differ by
/// case alone.
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

fn nullable_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Primitive(_) => data_type.clone(),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, DictionaryArray, Int32Array, StringViewArray, UInt8Array};
    use arrow::datatypes::{DataType as ArrowType, Int16Type, Int32Type, Int64Type};
    use deltaplane_error::Kind;
    use deltaplane_protocol::schema::Primitive;

    use super::*;

    fn cast(batch: &RecordBatch, table: Option<&StructType>) -> Result<(SchemaRef, RecordBatch)> {
        let (schema, mut rows) = rows_in_table_types([Ok(batch.clone())].into_iter(), &batch.schema(), table)?;
        let rows = rows.next().unwrap()?;
        assert_eq!(rows.schema().fields(), schema.fields());
        Ok((schema, rows))
    }

    fn column(name: &str, values: impl arrow::array::Array + 'static) -> RecordBatch {
        RecordBatch::try_from_iter([(name, Arc::new(values) as ArrayRef)]).unwrap()
    }

    #[test]
    fn dictionaries_views_and_unsigned_numbers_come_in_the_types_of_tables() {
        let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        let (_, rows) = cast(&column("word", words), None).unwrap();
        assert_eq!(
            rows.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
            ["a", "b", "a"]
        );
        let (_, rows) = cast(&column("view", StringViewArray::from(vec!["x"])), None).unwrap();
        assert_eq!(rows.column(0).as_string::<i32>().value(0), "x");
        let (_, rows) = cast(&column("byte", UInt8Array::from(vec![255])), None).unwrap();
        assert_eq!(rows.column(0).as_primitive::<Int16Type>().value(0), 255);
    }

    #[test]
    fn columns_of_the_table_get_its_types_and_keep_their_own_names() {
        let table = StructType::new(vec![Field::new("ID", Primitive::Long, false)]);
        let (schema, rows) = cast(&column("id", Int32Array::from(vec![7])), Some(&table)).unwrap();
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().value(0), 7);
        let field = schema.field(0);
        assert_eq!(
            (field.name().as_str(), field.data_type(), field.is_nullable()),
            ("id", &ArrowType::Int64, true)
        );
    }

    #[test]
    fn names_that_differ_by_case_alone_are_refused() {
        let column = Arc::new(Int32Array::from(vec![1])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("a", column.clone()), ("A", column)]).unwrap();
        let kind = cast(&batch, None).map(drop).unwrap_err().kind();
        assert_eq!(kind, Kind::InvalidArgument);
    }
}
