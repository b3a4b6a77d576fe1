//! A set of values of which a column must have one, as with join keys: rows without one are left
//! out before their other columns are decoded, and row groups by few values' Bloom filters.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::expr::{Lookup, LookupValue, Lookups, Scalar};
use deltaplane_protocol::schema::{DataType as TableType, Primitive, StructType};

use crate::hashes::Seed;

/// Up to this many bits per number, a bitmap from the smallest to the largest takes no more memory
/// than a hash set.
const BITS_EACH: u64 = 128;

/// The set.
#[derive(Debug, Clone)]
pub struct Members {
    column: String,
    /// Whether rows stay where the column is null.
    nulls: bool,
    values: Values,
}

#[derive(Debug, Clone)]
enum Values {
    /// A bit for each number from the first one on.
    Dense(i64, BooleanBuffer),
    Sparse(HashSet<i64, Seed>),
    Texts(HashSet<Box<[u8]>, Seed>),
}

impl Members {
    /// The values of these arrays, without nulls, for a top-level column; `None` for unsupported
    /// types: all except integers, dates, timestamps and strings.
    pub fn new(column: &str, arrays: &[ArrayRef], nulls: bool) -> Option<Members> {
        let values = match arrays.first().map(|a| a.data_type()) {
            Some(DataType::Utf8) => {
                let texts = arrays.iter().map(|a| Some(a.as_string_opt::<i32>()?.iter().flatten()));
                let texts = texts.collect::<Option<Vec<_>>>()?.into_iter().flatten();
                Values::Texts(texts.map(|t| t.as_bytes().into()).collect())
            }
            _ => numbers_of(arrays)?,
        };
        Some(Members {
            column: column.to_owned(),
            nulls,
            values,
        })
    }

    /// The column.
    pub fn column(&self) -> &str {
        &self.column
    }

    /// The values as look-ups, if there are at most `most` and rows without a value don't stay.
    pub(super) fn lookups(&self, table: &StructType, most: usize) -> Lookups {
        let of_values = || {
            let TableType::Primitive(ty) = table.field_ignore_case(&self.column)?.data_type else {
                return None;
            };
            let values = self.scalars(ty, most).filter(|v| !v.is_empty())?;
            Some(Lookup {
                column: vec![self.column.clone()],
                values: values.iter().map(|v| LookupValue::of(v, ty)).collect::<Option<_>>()?,
            })
        };
        of_values().map_or(Lookups::Unknown, Lookups::Has)
    }

    /// The values in a column of this type; `None` if there are more than `most`, where the column
    /// may be null, and for a type that the values aren't compared with.
    pub fn scalars(&self, ty: Primitive, most: usize) -> Option<Vec<Scalar>> {
        if self.nulls {
            return None;
        }
        match (&self.values, ty) {
            (Values::Texts(texts), Primitive::String) if texts.len() <= most => {
                let valid = texts.iter().map(|t| str::from_utf8(t).ok());
                valid.map(|t| Some(Scalar::Text(t?.to_owned()))).collect()
            }
            (Values::Texts(_), _) => None,
            (numbers, Primitive::Byte | Primitive::Short | Primitive::Integer | Primitive::Long) => {
                Some(numbers.at_most(most)?.into_iter().map(Scalar::Integer).collect())
            }
            // No row has a day with a larger number.
            (numbers, Primitive::Date) => {
                let days = numbers.at_most(most)?.into_iter().filter_map(|v| i32::try_from(v).ok());
                Some(days.map(Scalar::Date).collect())
            }
            (numbers, Primitive::Timestamp | Primitive::TimestampNtz) => {
                Some(numbers.at_most(most)?.into_iter().map(Scalar::Timestamp).collect())
            }
            _ => None,
        }
    }

    /// Which rows have one of the values; all rows if the column has another type. Never null.
    pub(super) fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let array = batch
            .column_by_name(&self.column)
            .ok_or_else(|| Error::internal("the column of a look-up went missing"))?;
        let matches = match &self.values {
            Values::Texts(texts) => array
                .as_string_opt::<i32>()
                .map(|array| BooleanBuffer::collect_bool(array.len(), |i| texts.contains(array.value(i).as_bytes()))),
            Values::Dense(first, bits) => numbers(array).map(|array| {
                let values = array.as_primitive::<Int64Type>().values();
                let is_in = |v: &i64| {
                    let bit = usize::try_from(v.wrapping_sub(*first)).unwrap_or(usize::MAX);
                    bit < bits.len() && bits.value(bit)
                };
                BooleanBuffer::collect_bool(values.len(), |i| values.get(i).is_some_and(is_in))
            }),
            Values::Sparse(known) => numbers(array).map(|array| {
                let values = array.as_primitive::<Int64Type>().values();
                BooleanBuffer::collect_bool(values.len(), |i| values.get(i).is_some_and(|v| known.contains(v)))
            }),
        };
        let Some(matches) = matches else {
            return Ok(BooleanArray::from(vec![true; array.len()]));
        };
        let matches = match array.nulls().map(NullBuffer::inner) {
            None => matches,
            Some(valid) if self.nulls => &(&matches & valid) | &!valid,
            Some(valid) => &matches & valid,
        };
        Ok(BooleanArray::new(matches, None))
    }
}

impl Values {
    /// All numbers; `None` for texts, and if there are more.
    fn at_most(&self, most: usize) -> Option<Vec<i64>> {
        match self {
            Values::Sparse(known) if known.len() <= most => Some(known.iter().copied().collect()),
            Values::Dense(first, bits) if bits.count_set_bits() <= most => {
                let number = |bit: usize| first.checked_add(i64::try_from(bit).ok()?);
                bits.set_indices().map(number).collect()
            }
            _ => None,
        }
    }
}

/// Values that are integers, or stored as such.
fn numbers(array: &ArrayRef) -> Option<ArrayRef> {
    let whole = matches!(
        array.data_type(),
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Timestamp(TimeUnit::Microsecond, _)
    );
    match array.data_type() {
        DataType::Date32 => cast(&cast(array, &DataType::Int32).ok()?, &DataType::Int64).ok(),
        _ if whole => cast(array, &DataType::Int64).ok(),
        _ => None,
    }
}

fn numbers_of(arrays: &[ArrayRef]) -> Option<Values> {
    let arrays = arrays.iter().map(numbers).collect::<Option<Vec<_>>>()?;
    let all = || {
        arrays
            .iter()
            .flat_map(|a| a.as_primitive::<Int64Type>().iter().flatten())
    };
    let (mut first, mut last, mut count) = (i64::MAX, i64::MIN, 0_u64);
    for v in all() {
        (first, last, count) = (first.min(v), last.max(v), count + 1);
    }
    let span = last.checked_sub(first).and_then(|n| u64::try_from(n).ok());
    Some(match span.filter(|n| *n < count.saturating_mul(BITS_EACH)) {
        Some(span) => {
            let mut bits = BooleanBufferBuilder::new(0);
            bits.append_n(usize::try_from(span).ok()?.checked_add(1)?, false);
            for v in all() {
                bits.set_bit(usize::try_from(v - first).ok()?, true);
            }
            Values::Dense(first, bits.finish())
        }
        None => Values::Sparse(all().collect()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{Date32Array, Float64Array, Int8Array, Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    fn found(values: &ArrayRef, nulls: bool, column: ArrayRef) -> Vec<bool> {
        let members = Members::new("c", std::slice::from_ref(values), nulls).unwrap();
        let batch = RecordBatch::try_from_iter([("c", column)]).unwrap();
        let mask = members.evaluate(&batch).unwrap();
        assert_eq!(mask.null_count(), 0);
        mask.values().iter().collect()
    }

    #[test]
    fn rows_with_one_of_the_values_are_found() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(3), None, Some(-2), Some(9)]));
        let far: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, 3, -2, 9, 1 << 40]));
        for keys in [&keys, &far] {
            let column = || {
                Arc::new(Int64Array::from(vec![
                    Some(9),
                    Some(8),
                    None,
                    Some(-2),
                    Some(-3),
                    Some(3),
                ]))
            };
            assert_eq!(found(keys, false, column()), [true, false, false, true, false, true]);
            assert_eq!(found(keys, true, column()), [true, false, true, true, false, true]);
            assert_eq!(found(keys, false, Arc::new(Int8Array::from(vec![3, 4]))), [true, false]);
            assert_eq!(
                found(keys, false, Arc::new(Date32Array::from(vec![9, 10]))),
                [true, false]
            );
            let instants = TimestampMicrosecondArray::from(vec![-2, 2]).with_timezone("UTC");
            assert_eq!(found(keys, false, Arc::new(instants)), [true, false]);
        }
        assert_eq!(
            found(
                &far,
                false,
                Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX, i64::MAX - 1]))
            ),
            [true, true, false]
        );
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("")]));
        let column = Arc::new(StringArray::from(vec![Some(""), None, Some("A"), Some("a")]));
        assert_eq!(found(&texts, false, column.clone()), [true, false, false, true]);
        assert_eq!(found(&texts, true, column), [true, true, false, true]);
    }

    #[test]
    fn nothing_is_found_by_no_values_and_all_of_another_type() {
        let none: ArrayRef = Arc::new(Int64Array::from(vec![None, None]));
        assert_eq!(
            found(&none, false, Arc::new(Int64Array::from(vec![Some(0), None]))),
            [false, false]
        );
        assert_eq!(found(&none, false, Arc::new(Float64Array::from(vec![0.0]))), [true]);
        assert_eq!(found(&none, false, Arc::new(StringArray::from(vec!["a"]))), [true]);
        assert!(Members::new("c", &[Arc::new(Float64Array::from(vec![0.0]))], false).is_none());
    }
}
