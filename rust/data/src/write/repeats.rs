//! Which columns of a file get no dictionary: those whose first values hardly repeat. There a
//! dictionary would only add indexes to the values' bytes, and a look-up per value. Knows neither
//! files nor the table.

use std::hash::BuildHasher;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType as ArrowType;

use crate::hashes::Seed;

/// Fewer values tell too little; examining more costs more than it tells.
const FEWEST_VALUES: usize = 100;
const MOST_VALUES: usize = 16_384;

/// Whether nearly all of a column's first values differ. False for nested types, and for too few
/// values.
pub(super) fn hardly_repeats(column: &ArrayRef) -> bool {
    let first = column.slice(0, column.len().min(MOST_VALUES));
    match first.data_type() {
        ArrowType::Utf8 => all_differ(
            first.len(),
            first.as_string::<i32>().iter().flatten().map(str::as_bytes),
        ),
        ArrowType::LargeUtf8 => all_differ(
            first.len(),
            first.as_string::<i64>().iter().flatten().map(str::as_bytes),
        ),
        ArrowType::Utf8View => all_differ(first.len(), first.as_string_view().iter().flatten().map(str::as_bytes)),
        ArrowType::Binary => all_differ(first.len(), first.as_binary::<i32>().iter().flatten()),
        ArrowType::LargeBinary => all_differ(first.len(), first.as_binary::<i64>().iter().flatten()),
        ArrowType::BinaryView => all_differ(first.len(), first.as_binary_view().iter().flatten()),
        fixed => {
            let Some(width) = fixed.primitive_width() else {
                return false;
            };
            let data = first.to_data();
            let bytes = data.buffers().first().map_or(&[][..], |buffer| buffer.as_slice());
            let bytes = bytes.get(data.offset() * width..).unwrap_or_default();
            let values = bytes.chunks_exact(width).take(data.len()).enumerate();
            all_differ(
                first.len(),
                values.filter(|(i, _)| data.is_valid(*i)).map(|(_, value)| value),
            )
        }
    }
}

/// Whether at least 95 of 100 values differ, judged by hashes: each value sets one bit, and two
/// different values share a bit in less than one of a hundred cases. Uses a hash's first bits,
/// which depend on all bits of the value; others don't if a value ends in zeros, as integral
/// floating-point numbers do.
fn all_differ<'a>(most: usize, values: impl Iterator<Item = &'a [u8]>) -> bool {
    let seed = Seed::default();
    let mut seen = vec![0_u64; most.max(1).next_power_of_two()];
    let unused = u64::BITS - (seen.len() * 64).trailing_zeros();
    let (mut count, mut differ) = (0, 0);
    for value in values {
        count += 1;
        let bit = usize::try_from(seed.hash_one(value) >> unused).unwrap_or(usize::MAX);
        if let Some(word) = seen.get_mut(bit / 64) {
            differ += usize::from(*word & (1 << (bit % 64)) == 0);
            *word |= 1 << (bit % 64);
        }
    }
    count >= FEWEST_VALUES && differ * 100 >= count * 95
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, StringArray, StringViewArray,
    };

    use super::*;

    fn columns(distinct: i64) -> Vec<ArrayRef> {
        let values = || (0..20_000_i64).map(move |i| i % distinct);
        let texts = || values().map(|v| format!("name {v}")).collect::<Vec<_>>();
        vec![
            Arc::new(Int64Array::from_iter_values(values())),
            Arc::new(Float64Array::from_iter_values(values().map(|v| v as f64))),
            Arc::new(Decimal128Array::from_iter_values(values().map(i128::from))),
            Arc::new(StringArray::from_iter_values(texts())),
            Arc::new(StringViewArray::from_iter_values(texts())),
            Arc::new(BinaryArray::from_iter_values(texts())),
        ]
    }

    #[test]
    fn columns_of_all_types_are_told_apart() {
        for column in columns(20_000) {
            assert!(hardly_repeats(&column), "{}", column.data_type());
        }
        for column in columns(10_000) {
            assert!(!hardly_repeats(&column), "{}", column.data_type());
        }
    }

    #[test]
    fn a_slice_s_own_values_count_and_nulls_do_not() {
        let unique_then_same: ArrayRef = Arc::new(Int64Array::from_iter(
            (0..2_000).map(|i| (i % 2 == 0).then_some(i.min(1_000))),
        ));
        assert!(hardly_repeats(&unique_then_same.slice(0, 1_000)));
        assert!(!hardly_repeats(&unique_then_same.slice(1_000, 1_000)));
    }

    #[test]
    fn few_values_and_types_without_a_width_tell_nothing() {
        let few: ArrayRef = Arc::new(Int64Array::from_iter_values(0..99));
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true; 1_000]));
        let none: ArrayRef = Arc::new(Int64Array::from(vec![None; 1_000]));
        for column in [few, flags, none] {
            assert!(!hardly_repeats(&column), "{}", column.data_type());
        }
    }
}
