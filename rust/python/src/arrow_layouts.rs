//! Arrow's many layouts of a column to the one in which a table's rows come: dictionaries, views, runs, large and fixed-size
//! types, unsigned and half-width numbers. The same casts as of an append, for commands that look at rows first. Boundary.

use deltaplane_boundary::boundary;
use deltaplane_data::cast_batch;
use deltaplane_protocol::arrow_types::{from_arrow_schema, to_arrow_schema};
use deltaplane_protocol::schema::{ArrayType, DataType, Field, MapType, StructType};
use futures::StreamExt;
use pyo3::prelude::*;

use crate::arrow_bridge::ArrowStream;
use crate::errors::run;
use crate::incoming::reader_of;

/// The rows of a stream in the Arrow types that a table of its columns has; nulls may stand everywhere. Columns that `table`
/// has, a schema as JSON, get its types: the fields of their structs are found by name, ignoring case.
#[boundary]
#[pyfunction]
#[pyo3(signature = (rows, table = None))]
pub(crate) fn rows_in_table_types(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    table: Option<&str>,
) -> PyResult<ArrowStream> {
    let reader = reader_of(rows)?;
    let input_schema = reader.schema();
    let columns = run(py, || {
        let columns = from_arrow_schema(&input_schema)?;
        columns.check_names()?;
        let Some(table) = table.map(StructType::from_json).transpose()? else {
            return Ok(nullable(&columns));
        };
        let fields = columns.fields().iter().map(|f| Field {
            name: f.name.clone(),
            ..table.field_ignore_case(&f.name).unwrap_or(f).clone()
        });
        Ok(nullable(&StructType::new(fields.collect())))
    })?;
    let schema = to_arrow_schema(&columns);
    let cast = reader.map(move |batch| cast_batch(&batch?, &columns));
    Ok(ArrowStream::new(schema, futures::stream::iter(cast).boxed()))
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
