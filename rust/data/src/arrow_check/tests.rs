//! Invalid data in every layout: faults that a reader could see are named, others are blanked.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, FixedSizeListArray, Int8Array, Int32Array,
    LargeBinaryArray, ListArray, ListViewArray, RunArray, StringArray, StructArray, make_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Field, Fields, Int8Type, Int32Type};

use super::*;

const BAD: &[u8] = b"caf\xe9 au lait, long enough for a view";

/// The same memory as text: what another program hands over.
fn as_text(array: &dyn Array) -> ArrayRef {
    let to = match array.data_type() {
        ArrowType::Binary => ArrowType::Utf8,
        ArrowType::LargeBinary => ArrowType::LargeUtf8,
        _ => ArrowType::Utf8View,
    };
    let builder = array.to_data().into_builder().data_type(to);
    make_array(unsafe { builder.skip_validation(true) }.build().unwrap())
}

fn texts(values: &[Option<&[u8]>]) -> Vec<ArrayRef> {
    vec![
        as_text(&BinaryArray::from(values.to_vec())),
        as_text(&LargeBinaryArray::from(values.to_vec())),
        as_text(&BinaryViewArray::from_iter(values.to_vec())),
    ]
}

fn list(values: ArrayRef, offsets: Vec<i32>, valid: Vec<bool>) -> ArrayRef {
    let field = Arc::new(Field::new("element", values.data_type().clone(), true));
    Arc::new(ListArray::new(
        field,
        OffsetBuffer::new(offsets.into()),
        values,
        Some(valid.into()),
    ))
}

/// The array in other layouts, each with the same rows.
fn nested(text: &ArrayRef) -> Vec<ArrayRef> {
    let n = text.len();
    let field = Arc::new(Field::new("x", text.data_type().clone(), true));
    let keys = Int32Array::from_iter_values((0..n).map(|i| i32::try_from(i).unwrap()));
    let ends = Int32Array::from_iter_values((0..n).map(|i| i32::try_from(i + 1).unwrap()));
    let offsets: Vec<i32> = (0..=n).map(|i| i32::try_from(i).unwrap()).collect();
    let sizes = vec![1; n];
    vec![
        text.clone(),
        Arc::new(StructArray::new(
            Fields::from(vec![field.clone()]),
            vec![text.clone()],
            None,
        )),
        list(text.clone(), offsets.clone(), vec![true; n]),
        Arc::new(FixedSizeListArray::new(field.clone(), 1, text.clone(), None)),
        Arc::new(ListViewArray::new(
            field,
            offsets[..n].to_vec().into(),
            sizes.into(),
            text.clone(),
            None,
        )),
        Arc::new(DictionaryArray::<Int32Type>::new(keys, text.clone())),
        Arc::new(RunArray::<Int32Type>::try_new(&ends, text).unwrap()),
    ]
}

#[test]
fn text_that_is_no_utf8_is_named_with_column_and_row() {
    for text in texts(&[Some(b"fine"), Some(b"more"), Some(BAD)]) {
        for array in nested(&text) {
            for (from, row) in [(0, 102), (1, 101)] {
                let sliced = array.slice(from, 3 - from);
                let e = check_arrow("c", sliced.to_data(), 100).unwrap_err();
                let said = e.message();
                assert!(said.contains("`c") && said.contains("UTF-8"), "{said}");
                assert!(
                    said.contains(&format!("in row {row}")),
                    "{said} {:?}",
                    array.data_type()
                );
            }
            check_arrow("c", array.slice(0, 2).to_data(), 0).unwrap();
        }
    }
}

#[test]
fn what_no_row_shows_may_be_anything() {
    for text in texts(&[Some(b"fine"), Some(BAD), Some(b"more")]) {
        let valid = vec![true, false, true];
        let builder = text.to_data().into_builder().nulls(Some(valid.clone().into()));
        let masked = make_array(unsafe { builder.skip_validation(true) }.build().unwrap());
        for array in nested(&masked) {
            let clean = check_arrow("c", array.to_data(), 0).unwrap();
            assert_eq!(make_array(clean.clone()).len(), 3);
            quick(&clean).unwrap();
        }
        let behind = list(text.clone(), vec![0, 1, 2, 3], valid);
        let clean = check_arrow("c", behind.to_data(), 0).unwrap();
        let good = list(
            Arc::new(StringArray::from(vec!["fine", "", "more"])),
            vec![0, 1, 2, 3],
            vec![true, false, true],
        );
        if *text.data_type() == ArrowType::Utf8 {
            assert_eq!(&make_array(clean), &good);
        }
    }
}

#[test]
fn keys_views_runs_and_offsets_beyond_their_values_are_refused() {
    let raw = |builder: ArrayDataBuilder| unsafe { builder.skip_validation(true) }.build().unwrap();
    let values = StringArray::from(vec!["a"]).to_data();
    let keys = Int8Array::from(vec![0, 3]).to_data();
    let array = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![0]), Arc::new(StringArray::from(vec!["a"])));
    let builder = ArrayData::builder(array.data_type().clone()).len(2);
    let dictionary = raw(builder.buffers(keys.buffers().to_vec()).child_data(vec![values]));
    let view = raw(ArrayData::builder(ArrowType::Utf8View)
        .len(1)
        .buffers(vec![Buffer::from_vec(vec![99_u128])]));
    let offsets = Buffer::from_vec(vec![0_i32, 4, 2, 6]);
    let text = raw(ArrayData::builder(ArrowType::Utf8)
        .len(3)
        .buffers(vec![offsets, Buffer::from_vec(vec![b'a'; 6])]));
    let ends = Int32Array::from(vec![2, 1]);
    let array = RunArray::<Int32Type>::try_new(&Int32Array::from(vec![1]), &Int32Array::from(vec![1])).unwrap();
    let children = vec![ends.to_data(), Int32Array::from(vec![7, 8]).to_data()];
    let runs = raw(ArrayData::builder(array.data_type().clone())
        .len(2)
        .child_data(children));
    for (data, row) in [(dictionary, Some(1)), (view, Some(0)), (text, Some(1)), (runs, None)] {
        let e = check_arrow("c", data, 0).unwrap_err();
        assert!(e.message().contains("`c`"), "{e}");
        assert!(
            row.is_none_or(|row| e.message().contains(&format!("in row {row}"))),
            "{e}"
        );
    }
}

#[test]
fn offset_of_an_empty_list_may_be_unset() {
    let list_of = |item: ArrowType| ArrowType::List(Arc::new(Field::new("element", item, true)));
    let unset = ArrayData::builder(list_of(ArrowType::Int32))
        .len(0)
        .add_buffer(Buffer::from_slice_ref([-189_153_672]))
        .add_child_data(ArrayData::new_empty(&ArrowType::Int32));
    let unset = unsafe { unset.skip_validation(true) }.build().unwrap();
    let outer = ArrayData::builder(list_of(list_of(ArrowType::Int32)))
        .len(1)
        .add_buffer(Buffer::from_slice_ref([0, 0]))
        .add_child_data(unset);
    let outer = unsafe { outer.skip_validation(true) }.build().unwrap();
    assert!(outer.validate_full().is_err());
    let checked = check_arrow("z", outer, 0).unwrap();
    checked.validate_full().unwrap();
    assert_eq!((checked.len(), checked.child_data()[0].len()), (1, 0));
}
