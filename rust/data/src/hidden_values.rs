//! Removes the values behind nulls of lists and maps. Arrow lets a null list cover values (a
//! fixed-size list always does), which no reader may see: a check or a writer that reads all values
//! of a child would count them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, ListArray, MapArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::filter;
use arrow::datatypes::DataType as ArrowType;
use arrow::error::ArrowError;

/// The array with every null list and map empty, at every depth; the same array if nothing is
/// hidden. `parent`: nulls of the structs around it.
pub(crate) fn without_hidden(array: &ArrayRef, parent: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let nulls = || NullBuffer::union(array.nulls(), parent);
    match array.data_type() {
        ArrowType::Struct(fields) => {
            let (structs, nulls) = (array.as_struct(), nulls());
            let columns = structs.columns().iter();
            let shown: Vec<ArrayRef> = columns
                .map(|c| without_hidden(c, nulls.as_ref()))
                .collect::<Result<_, _>>()?;
            if shown
                .iter()
                .zip(structs.columns())
                .all(|(new, old)| Arc::ptr_eq(new, old))
            {
                return Ok(array.clone());
            }
            let shown = StructArray::try_new_with_length(fields.clone(), shown, array.nulls().cloned(), array.len())?;
            Ok(Arc::new(shown))
        }
        ArrowType::List(field) => {
            let list = array.as_list::<i32>();
            let (offsets, hidden) = shown_offsets(list.offsets(), list.values().len(), nulls().as_ref());
            let values = match &hidden {
                Some(keep) => filter(list.values(), keep)?,
                None => list.values().clone(),
            };
            let values = without_hidden(&values, None)?;
            if hidden.is_none() && Arc::ptr_eq(&values, list.values()) {
                return Ok(array.clone());
            }
            Ok(Arc::new(ListArray::try_new(
                field.clone(),
                offsets,
                values,
                list.nulls().cloned(),
            )?))
        }
        ArrowType::Map(field, sorted) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            let (offsets, hidden) = shown_offsets(map.offsets(), entries.len(), nulls().as_ref());
            let shown = match &hidden {
                Some(keep) => filter(&entries, keep)?,
                None => entries.clone(),
            };
            let shown = without_hidden(&shown, None)?;
            if hidden.is_none() && Arc::ptr_eq(&shown, &entries) {
                return Ok(array.clone());
            }
            let entries = shown.as_struct().clone();
            let nulls = map.nulls().cloned();
            Ok(Arc::new(MapArray::try_new(
                field.clone(),
                offsets,
                entries,
                nulls,
                *sorted,
            )?))
        }
        _ => Ok(array.clone()),
    }
}

/// Offsets of lists of `values` values without those that nulls cover, and which values remain;
/// `None` if nulls cover nothing.
pub(crate) fn shown_offsets(
    offsets: &OffsetBuffer<i32>,
    values: usize,
    nulls: Option<&NullBuffer>,
) -> (OffsetBuffer<i32>, Option<BooleanArray>) {
    let length = |n: usize| offsets.get(n).zip(offsets.get(n + 1)).map_or(0, |(a, b)| b - a);
    let covers = |nulls: &&NullBuffer| nulls.iter().enumerate().any(|(n, valid)| !valid && length(n) > 0);
    let Some(nulls) = nulls.filter(|n| n.null_count() > 0).filter(covers) else {
        return (offsets.clone(), None);
    };
    let whole = |n: i32| usize::try_from(n).unwrap_or(0);
    let first = whole(offsets.first());
    let mut keep = BooleanBufferBuilder::new(values);
    keep.append_n(first, false);
    let lengths = nulls.iter().enumerate().map(|(n, valid)| {
        keep.append_n(whole(length(n)), valid);
        if valid { whole(length(n)) } else { 0 }
    });
    let offsets = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    keep.append_n(values.saturating_sub(keep.len()), false);
    (offsets, Some(BooleanArray::new(keep.finish(), None)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::Int32Array;
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    fn lists(offsets: Vec<i32>, valid: Vec<bool>, values: ArrayRef) -> ArrayRef {
        let field = Arc::new(Field::new("element", values.data_type().clone(), true));
        Arc::new(ListArray::new(
            field,
            OffsetBuffer::new(offsets.into()),
            values,
            Some(valid.into()),
        ))
    }

    fn numbers() -> ArrayRef {
        Arc::new(Int32Array::from(vec![Some(1), Some(2), None, Some(4), Some(5)]))
    }

    #[test]
    fn values_behind_nulls_are_left_out_at_every_depth() {
        let inner = lists(vec![1, 2, 3, 5], vec![true, false, true], numbers());
        let shown = without_hidden(&inner, None).unwrap();
        assert_eq!(&shown, &inner, "the rows are the same");
        let values = shown.as_list::<i32>().values().as_primitive::<Int32Type>().clone();
        assert_eq!(values, Int32Array::from(vec![2, 4, 5]));
        let outer = lists(vec![0, 1, 3], vec![true, false], inner.clone());
        let shown = without_hidden(&outer, None).unwrap();
        assert_eq!(&shown, &outer);
        assert_eq!(shown.as_list::<i32>().values().len(), 1);
        let fields = vec![Field::new("l", inner.data_type().clone(), true)];
        let nulls = NullBuffer::from(vec![true, true, false]);
        let structs: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![inner], Some(nulls)));
        let shown = without_hidden(&structs, None).unwrap();
        assert_eq!(shown.as_struct().column(0).as_list::<i32>().values().len(), 1);
    }

    #[test]
    fn what_hides_nothing_stays_the_same_array() {
        for valid in [vec![true, true], vec![true, false]] {
            let plain = lists(vec![0, 5, 5], valid, numbers());
            assert!(Arc::ptr_eq(&without_hidden(&plain, None).unwrap(), &plain));
        }
    }
}
