//! Partition columns of an add batch as typed arrays. Owns the choice of the source: the log's
//! strings are authoritative, the parsed struct is a shortcut where both can't differ.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, MapArray, RecordBatch, RecordBatchOptions};
use arrow::compute::nullif;
use arrow::datatypes::{DataType as ArrowType, Field, Fields, Schema};

use super::failed;
use crate::Result;
use crate::arrow_types::primitive_to_arrow;
use crate::expr::child;
use crate::files::rows::map_values;
use crate::partition_values::partition_array;
use crate::schema::Primitive;

/// A partition column that a predicate needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PartitionColumn {
    pub(super) logical: String,
    pub(super) physical: String,
    pub(super) ty: Primitive,
}

/// The typed values by logical name, and whether the batch had them at all.
pub(super) struct Partitions {
    pub(super) batch: RecordBatch,
    pub(super) known: BooleanArray,
}

/// Reads the partition columns of a batch of adds.
pub(super) fn batch(columns: &[PartitionColumn], files: &RecordBatch) -> Result<Partitions> {
    let rows = files.num_rows();
    let maps = files.column_by_name("partitionValues").and_then(|c| c.as_map_opt());
    let parsed = files.column_by_name("partitionValues_parsed");
    let mut known = BooleanArray::from(vec![true; rows]);
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for c in columns {
        let (array, values_known) = match (parsed_column(c, parsed)?, maps) {
            (Some(pair), _) => pair,
            (None, Some(maps)) => from_maps(c, maps)?,
            (None, None) => (
                arrow::array::new_null_array(&primitive_to_arrow(c.ty), rows),
                BooleanArray::from(vec![false; rows]),
            ),
        };
        known = arrow::compute::and(&known, &values_known).map_err(failed)?;
        arrays.push(array);
    }
    let fields: Vec<Field> = columns
        .iter()
        .zip(&arrays)
        .map(|(c, a)| Field::new(&c.logical, a.data_type().clone(), true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).map_err(failed)?;
    Ok(Partitions { batch, known })
}

/// Whether a parsed struct of these fields may be used, if it is complete: only for types whose
/// text is unambiguous.
pub(super) fn is_believed(c: &PartitionColumn, fields: &Fields) -> bool {
    // A timestamp without time zone is in the writer's session zone for Spark, and UTC here.
    let one_meaning = !matches!(c.ty, Primitive::Timestamp | Primitive::TimestampNtz | Primitive::Binary);
    let data_type = fields.find(&c.physical).map(|(_, f)| f.data_type());
    one_meaning && data_type == Some(&primitive_to_arrow(c.ty))
}

/// The values of the parsed struct, if it may be used and is complete.
fn parsed_column(c: &PartitionColumn, parsed: Option<&ArrayRef>) -> Result<Option<(ArrayRef, BooleanArray)>> {
    let is_believed = |parsed: &ArrayRef| match parsed.data_type() {
        ArrowType::Struct(fields) => is_believed(c, fields),
        _ => false,
    };
    let Some(parsed) = parsed.filter(|p| p.null_count() == 0 && is_believed(p)) else {
        return Ok(None);
    };
    let Some(mut array) = child(parsed, &c.physical)? else {
        return Ok(None);
    };
    if let Some(texts) = array.as_string_opt::<i32>() {
        // The empty string is null (P170).
        array = nullif(&array, &texts.iter().map(|t| Some(t == Some(""))).collect()).map_err(failed)?;
    }
    let known = BooleanArray::from(vec![true; array.len()]);
    Ok(Some((array, known)))
}

fn from_maps(c: &PartitionColumn, maps: &MapArray) -> Result<(ArrayRef, BooleanArray)> {
    let array = partition_array(map_values(maps, &c.physical), &c.logical, c.ty)?;
    let known = (0..maps.len()).map(|row| Some(maps.is_valid(row))).collect();
    Ok((array, known))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{BinaryArray, Int64Array, MapBuilder, StringBuilder, StructArray, TimestampMicrosecondArray};

    use super::*;

    /// The value to use where the log's text and the parsed struct differ.
    fn believed(ty: Primitive, text: &str, parsed: ArrayRef) -> ArrayRef {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        maps.keys().append_value("p");
        maps.values().append_value(text);
        maps.append(true).unwrap();
        let field = Arc::new(Field::new("p", parsed.data_type().clone(), true));
        let parsed: ArrayRef = Arc::new(StructArray::from(vec![(field, parsed)]));
        let maps: ArrayRef = Arc::new(maps.finish());
        let files =
            RecordBatch::try_from_iter([("partitionValues", maps), ("partitionValues_parsed", parsed)]).unwrap();
        let column = PartitionColumn {
            logical: "p".to_owned(),
            physical: "p".to_owned(),
            ty,
        };
        Arc::clone(batch(&[column], &files).unwrap().batch.column(0))
    }

    #[test]
    fn only_texts_with_one_meaning_have_a_shortcut() {
        // P170: writers parse moments in zones of their own.
        let moments = TimestampMicrosecondArray::from(vec![5]);
        let text_of_moment = "1970-01-01 00:00:00.000007";
        for (ty, parsed) in [
            (Primitive::TimestampNtz, moments.clone()),
            (Primitive::Timestamp, moments.with_timezone("UTC")),
        ] {
            let was_believed = believed(ty, text_of_moment, Arc::new(parsed));
            assert_eq!(
                was_believed
                    .as_primitive::<arrow::datatypes::TimestampMicrosecondType>()
                    .value(0),
                7
            );
        }
        let bytes = believed(
            Primitive::Binary,
            "text",
            Arc::new(BinaryArray::from(vec![b"other".as_ref()])),
        );
        assert_eq!(bytes.as_binary::<i32>().value(0), b"text");
        let number = believed(Primitive::Long, "7", Arc::new(Int64Array::from(vec![5])));
        assert_eq!(number.as_primitive::<arrow::datatypes::Int64Type>().value(0), 5);
    }
}
