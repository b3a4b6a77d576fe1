//! Fits a user's batch to a table's schema: order, missing columns, lossless casts, NOT NULL.
//! Every refusal names the column. Knows no file and no log; called before rows are written.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::buffer::NullBuffer;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_protocol::schema::{DataType, StructType};

use crate::char_varchar;
use crate::convert::{Convert, Mismatch, Rules};
use crate::hidden_values::without_hidden;
use crate::types::{row_schema, row_type};

/// The batch with exactly the columns of `to`, in its order and in its Arrow types.
///
/// Columns are matched by name ignoring case, nested ones too; missing nullable ones become null;
/// only casts that keep every value are made. The result's fields are all nullable.
///
/// # Errors
/// `SchemaMismatch` for a column the table doesn't have or whose type doesn't fit;
/// `ConstraintViolation` for a null in, or the lack of, a NOT NULL column (P102).
pub fn cast_batch(batch: &RecordBatch, to: &StructType) -> Result<RecordBatch> {
    let by_name = index_names(batch, to)?;
    let mut columns = Vec::with_capacity(to.fields().len());
    for (i, field) in to.fields().iter().enumerate() {
        let array = match by_name.get(&i).and_then(|place| batch.columns().get(*place)) {
            Some(array) => {
                let convert = Convert::new(array.data_type(), &field.data_type, Rules::User, &field.name)
                    .map_err(|m| refusal(&m))?;
                let converted = convert.apply(array).and_then(|a| without_hidden(&a, None));
                converted.map_err(|e| {
                    Error::schema_mismatch(format!(
                        "column `{}` of type {} holds a value that the table's type {} can't hold: {e}",
                        field.name,
                        array.data_type(),
                        field.data_type
                    ))
                })?
            }
            None => new_null_array(&row_type(&field.data_type), batch.num_rows()),
        };
        check_not_null(&field.name, field.nullable, &field.data_type, &array, None)?;
        char_varchar::check(field, &array)?;
        columns.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(row_schema(to.fields()), columns, &options)
        .map_err(|e| Error::internal(format!("a cast batch doesn't fit the table's schema: {e}")))
}

/// Position in the table → position in the batch.
fn index_names(batch: &RecordBatch, to: &StructType) -> Result<HashMap<usize, usize>> {
    let mut places = HashMap::with_capacity(batch.num_columns());
    for (place, field) in batch.schema().fields().iter().enumerate() {
        let Some(i) = to.index_ignore_case(field.name()) else {
            return Err(refusal(&Mismatch::Extra {
                column: field.name().clone(),
            }));
        };
        if places.insert(i, place).is_some() {
            return Err(refusal(&Mismatch::Ambiguous {
                column: field.name().clone(),
            }));
        }
    }
    Ok(places)
}

fn refusal(m: &Mismatch) -> Error {
    Error::schema_mismatch(match m {
        Mismatch::Type {
            column,
            expected,
            actual,
        } => format!(
            "column `{column}` is of type {expected} in the table, the data has {actual}, and no cast between them keeps every value: cast the data first, or give schema_mode=\"overwrite\" with mode=\"overwrite\" to change the table's type"
        ),
        Mismatch::Extra { column } => format!(
            "the data has a column `{column}` that the table doesn't have: drop it, or have it added to the table by schema_mode=\"merge\", in a merge by merge_schema=True"
        ),
        Mismatch::Ambiguous { column } => {
            format!("the data has more than one column named `{column}` when case is ignored: rename or drop one")
        }
    })
}

/// A null parent makes its NOT NULL fields null too, as the reference has it (P102).
fn check_not_null(
    path: &str,
    nullable: bool,
    t: &DataType,
    array: &ArrayRef,
    parent: Option<&NullBuffer>,
) -> Result<()> {
    let own = array.logical_nulls();
    let nulls = NullBuffer::union(own.as_ref(), parent);
    let count = nulls.as_ref().map_or(0, NullBuffer::null_count);
    if !nullable && count > 0 {
        let first = nulls
            .iter()
            .flat_map(|n| n.iter())
            .position(|valid| !valid)
            .unwrap_or(0);
        return Err(Error::new(
            Kind::ConstraintViolation,
            format!(
                "DELTA_NOT_NULL_CONSTRAINT_VIOLATED: NOT NULL constraint violated for column `{path}`: the data has null there in {count} of {} rows, first in row {first}; fill them in, or drop those rows",
                array.len()
            ),
        ));
    }
    match t {
        DataType::Struct(s) => {
            let Some(structs) = array.as_struct_opt() else {
                return Ok(());
            };
            for (f, child) in s.fields().iter().zip(structs.columns()) {
                check_not_null(
                    &format!("{path}.{}", f.name),
                    f.nullable,
                    &f.data_type,
                    child,
                    nulls.as_ref(),
                )?;
            }
            Ok(())
        }
        DataType::Array(a) => {
            let Some(list) = array.as_list_opt::<i32>() else {
                return Ok(());
            };
            let values = used_values(list.values(), list.offsets());
            check_not_null(&format!("{path}.element"), a.contains_null, &a.element, &values, None)
        }
        DataType::Map(m) => {
            let Some(map) = array.as_map_opt() else { return Ok(()) };
            let keys = used_values(map.keys(), map.offsets());
            let values = used_values(map.values(), map.offsets());
            check_not_null(&format!("{path}.key"), false, &m.key, &keys, None)?;
            check_not_null(&format!("{path}.value"), m.value_contains_null, &m.value, &values, None)
        }
        DataType::Primitive(_) => Ok(()),
    }
}

/// The children that a list's offsets reach.
fn used_values(values: &ArrayRef, offsets: &[i32]) -> ArrayRef {
    let offset = |o: Option<&i32>| o.and_then(|v| usize::try_from(*v).ok()).unwrap_or(0);
    let (start, end) = (offset(offsets.first()), offset(offsets.last()));
    values.slice(start, end.saturating_sub(start))
}

#[cfg(test)]
mod tests;
