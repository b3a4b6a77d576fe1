//! Splits batches so that every column fits the 32-bit offsets of table types. Views, dictionaries,
//! runs and large types may represent more bytes or values than such offsets count, in one batch of
//! an ordinary data frame.

use arrow::array::{Array, AsArray, RecordBatch, RunArray};
use arrow::datatypes::{ArrowNativeType, DataType as ArrowType, Int16Type, Int32Type, Int64Type, RunEndIndexType};
use deltaplane_error::{Error, Result};

/// Bytes of text, or values of lists, per column of one batch. Far below the 2 GiB that offsets
/// reach, so that a frame whose views share memory isn't copied as a whole.
pub const MAX_BATCH_BYTES: u64 = 256 << 20;

/// The most bytes of one row's column: the reach of offsets.
const MAX_ROW_BYTES: u64 = i32::MAX as u64;

/// The batch's rows in batches of at most `limit` bytes per column, in order.
///
/// # Errors
/// `InvalidArgument` for a row with a single value beyond the reach of offsets.
pub fn split_batch(batch: RecordBatch, limit: u64, first_row: u64) -> Result<Vec<RecordBatch>> {
    let mut parts = Vec::new();
    split(batch, limit, first_row, &mut parts)?;
    Ok(parts)
}

fn split(batch: RecordBatch, limit: u64, first_row: u64, parts: &mut Vec<RecordBatch>) -> Result<()> {
    let rows = batch.num_rows();
    let mut columns = batch.columns().iter().map(|c| weight(c.as_ref(), 0, rows));
    let heaviest = columns.clone().max().unwrap_or(0);
    if heaviest <= limit || (rows <= 1 && heaviest <= MAX_ROW_BYTES) {
        parts.push(batch);
        return Ok(());
    }
    if rows <= 1 {
        let place = columns.position(|w| w == heaviest).unwrap_or(0);
        let schema = batch.schema();
        let name = schema
            .fields()
            .get(place)
            .map(|f| f.name().as_str())
            .unwrap_or_default();
        return Err(Error::invalid_argument(format!(
            "the data's column `{name}` has a value of {heaviest} bytes in row {first_row}: a value may take 2 GiB at most; store it in a file of its own, or in parts"
        )));
    }
    let half = rows / 2;
    let second = first_row.saturating_add(u64::try_from(half).unwrap_or(0));
    split(batch.slice(0, half), limit, first_row, parts)?;
    split(batch.slice(half, rows - half), limit, second, parts)
}

/// The most bytes of one child's values, or the most values of one list, that rows `from..to` of
/// the array take after flattening. Types whose own offsets reach no further than a table's are
/// measured as well: a dictionary, a run or a list view around them may repeat them.
fn weight(array: &dyn Array, from: usize, to: usize) -> u64 {
    let sum = |weigh: &dyn Fn(usize) -> u64| {
        let valid = (from..to).filter(|i| array.is_valid(*i));
        valid.map(weigh).fold(0, u64::saturating_add)
    };
    match array.data_type() {
        ArrowType::Utf8 => span(array.as_string::<i32>().value_offsets(), from, to),
        ArrowType::LargeUtf8 => span(array.as_string::<i64>().value_offsets(), from, to),
        ArrowType::Binary => span(array.as_binary::<i32>().value_offsets(), from, to),
        ArrowType::LargeBinary => span(array.as_binary::<i64>().value_offsets(), from, to),
        ArrowType::FixedSizeBinary(size) => wide(*size).saturating_mul(wide(to - from)),
        // The low half of a view's first eight bytes is its length.
        ArrowType::Utf8View => sum(&|i| lengths(array.as_string_view().views().get(i))),
        ArrowType::BinaryView => sum(&|i| lengths(array.as_binary_view().views().get(i))),
        ArrowType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            columns.map(|c| weight(c.as_ref(), from, to)).max().unwrap_or(0)
        }
        ArrowType::List(_) => {
            let list = array.as_list::<i32>();
            children(list.values().as_ref(), bounds(list.value_offsets(), from, to))
        }
        ArrowType::LargeList(_) => {
            let list = array.as_list::<i64>();
            children(list.values().as_ref(), bounds(list.value_offsets(), from, to))
        }
        ArrowType::Map(..) => {
            let map = array.as_map();
            children(map.entries(), bounds(map.value_offsets(), from, to))
        }
        ArrowType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            children(array.as_fixed_size_list().values().as_ref(), (from * size, to * size))
        }
        ArrowType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            sum(&|i| children(list.values().as_ref(), view(list.value_offset(i), list.value_size(i))))
        }
        ArrowType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            sum(&|i| children(list.values().as_ref(), view(list.value_offset(i), list.value_size(i))))
        }
        ArrowType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = dictionary.values();
            if values.is_empty() {
                return 0;
            }
            let each: Vec<u64> = (0..values.len()).map(|n| weight(values.as_ref(), n, n + 1)).collect();
            let keys = dictionary.normalized_keys();
            sum(&|i| keys.get(i).and_then(|key| each.get(*key)).copied().unwrap_or(0))
        }
        ArrowType::RunEndEncoded(ends, _) => match ends.data_type() {
            ArrowType::Int16 => runs::<Int16Type>(array, from, to),
            ArrowType::Int32 => runs::<Int32Type>(array, from, to),
            _ => runs::<Int64Type>(array, from, to),
        },
        _ => 0,
    }
}

fn whole<T: ArrowNativeType>(n: T) -> usize {
    n.to_isize().and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
}

fn wide<T: TryInto<u64>>(n: T) -> u64 {
    n.try_into().unwrap_or(0)
}

fn view<T: ArrowNativeType>(offset: T, size: T) -> (usize, usize) {
    (whole(offset), whole(offset).saturating_add(whole(size)))
}

/// The first and last offset of these rows' values.
fn bounds<T: ArrowNativeType>(offsets: &[T], from: usize, to: usize) -> (usize, usize) {
    let offset = |n: usize| offsets.get(n).map_or(0, |o| whole(*o));
    (offset(from), offset(to))
}

fn span<T: ArrowNativeType>(offsets: &[T], from: usize, to: usize) -> u64 {
    let (from, to) = bounds(offsets, from, to);
    wide(to.saturating_sub(from))
}

fn lengths(view: Option<&u128>) -> u64 {
    view.map_or(0, |view| wide(*view & u128::from(u32::MAX)))
}

fn children(values: &dyn Array, (from, to): (usize, usize)) -> u64 {
    wide(to.saturating_sub(from)).max(weight(values, from, to))
}

fn runs<T: RunEndIndexType>(array: &dyn Array, from: usize, to: usize) -> u64 {
    let Some(array) = array.as_any().downcast_ref::<RunArray<T>>() else {
        return 0;
    };
    let offset = array.run_ends().offset();
    let (from, to) = (from + offset, to + offset);
    let (mut sum, mut begin) = (0_u64, 0);
    for (run, end) in array.run_ends().values().iter().enumerate() {
        let end = whole(*end);
        let rows = end.min(to).saturating_sub(begin.max(from));
        if rows > 0 {
            let each = weight(array.values().as_ref(), run, run + 1);
            sum = sum.saturating_add(each.saturating_mul(wide(rows)));
        }
        begin = end;
    }
    sum
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use std::sync::Arc;

    use arrow::array::*;
    use arrow::buffer::OffsetBuffer;
    use arrow::compute::concat_batches;
    use arrow::datatypes::Field;

    use super::*;

    fn text(rows: usize) -> Vec<Option<String>> {
        let value = |n: usize| (!n.is_multiple_of(5)).then(|| "x".repeat(n % 40));
        (0..rows).map(value).collect()
    }

    /// The same rows in every layout whose flattened form may exceed offsets.
    fn layouts() -> Vec<ArrayRef> {
        let rows = text(200);
        let plain: ArrayRef = Arc::new(StringArray::from(rows.clone()));
        let field = Arc::new(Field::new("element", plain.data_type().clone(), true));
        let ends = Int32Array::from_iter_values((1..=200).map(|n| n * 3));
        let runs = RunArray::<Int32Type>::try_new(&ends, plain.as_ref()).unwrap();
        let views = (0..150).map(|n| n % 7).collect::<Vec<i32>>();
        let sizes = vec![9_i32; 150];
        vec![
            plain.clone(),
            Arc::new(StringViewArray::from(rows.clone())),
            Arc::new(LargeStringArray::from(rows.clone())),
            Arc::new(BinaryViewArray::from_iter(rows.iter().map(Option::as_ref))),
            Arc::new(
                rows.iter()
                    .map(Option::as_deref)
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
            Arc::new(runs.slice(4, 400)),
            Arc::new(StructArray::from(vec![(field.clone(), plain.clone())])),
            Arc::new(FixedSizeListArray::new(field.clone(), 4, plain.clone(), None)),
            Arc::new(ListViewArray::new(field, views.into(), sizes.into(), plain, None)),
        ]
    }

    #[test]
    fn parts_are_small_and_together_the_same_rows() {
        for array in layouts() {
            for limit in [150, 1000] {
                for from in [0, 3] {
                    let rows = array.slice(from, array.len() - from);
                    let batch = RecordBatch::try_from_iter([("c", rows)]).unwrap();
                    let parts = split_batch(batch.clone(), limit, 0).unwrap();
                    assert!(parts.len() > 1, "{:?}", array.data_type());
                    for part in &parts {
                        let heavy = weight(part.column(0).as_ref(), 0, part.num_rows());
                        assert!(
                            heavy <= limit || part.num_rows() == 1,
                            "{heavy} {:?}",
                            array.data_type()
                        );
                    }
                    let rows: usize = parts.iter().map(RecordBatch::num_rows).sum();
                    assert_eq!(rows, batch.num_rows());
                    if !matches!(array.data_type(), ArrowType::RunEndEncoded(..) | ArrowType::ListView(_)) {
                        assert_eq!(concat_batches(&batch.schema(), &parts).unwrap(), batch);
                    }
                }
            }
        }
    }

    #[test]
    fn a_value_beyond_the_reach_of_offsets_is_named() {
        let long = 1_u128 << 20;
        let views = vec![u128::from(u32::from_le_bytes(*b"aaaa")) << 32 | long; 3000];
        let field = Arc::new(Field::new("element", ArrowType::Utf8View, true));
        let text = StringViewArray::try_new(views.into(), vec![vec![b'a'; 1 << 20].into()], None).unwrap();
        let lists = ListArray::new(field, OffsetBuffer::new(vec![0, 1, 3000].into()), Arc::new(text), None);
        let batch = RecordBatch::try_from_iter([("big", Arc::new(lists) as ArrayRef)]).unwrap();
        let e = split_batch(batch, MAX_BATCH_BYTES, 7).unwrap_err();
        assert!(e.message().contains("`big`") && e.message().contains("row 8"), "{e}");
    }
}
