//! What `cast_batch` accepts, and how it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType as A, Field as F, Int32Type, TimestampMicrosecondType};
use deltaplane_protocol::schema::Primitive as P;

use super::*;
use crate::testing::{batch, json_schema, schema, text};

fn refused(columns: Vec<(&str, ArrayRef)>, to: &StructType) -> Error {
    cast_batch(&batch(columns), to).unwrap_err()
}

fn ints(v: Vec<Option<i32>>) -> ArrayRef {
    Arc::new(Int32Array::from(v))
}

#[test]
fn columns_are_ordered_and_missing_ones_null() {
    let s = schema(&[("a", P::Integer), ("b", P::Integer), ("c", P::Timestamp)]);
    let b = cast_batch(&batch(vec![("B", ints(vec![Some(1)])), ("a", ints(vec![Some(2)]))]), &s).unwrap();
    assert_eq!(text(&b.project(&[0, 1]).unwrap()), ["2 | 1"]);
    assert!(b.column(2).is_null(0));
    assert_eq!(b.schema(), row_schema(s.fields()));
}

#[test]
fn lossless_casts_are_made() {
    let dict: DictionaryArray<Int32Type> = vec![Some("x"), None].into_iter().collect();
    let millis = TimestampMillisecondArray::from(vec![Some(1), None]).with_timezone("Europe/Paris");
    let nanos = TimestampNanosecondArray::from(vec![Some(2_000), None]);
    let decimal = Decimal128Array::from(vec![Some(150), None])
        .with_precision_and_scale(5, 2)
        .unwrap();
    let list = LargeListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1)]), None]);
    let b = batch(vec![
        ("byte", Arc::new(Int8Array::from(vec![Some(1), None]))),
        ("unsigned", Arc::new(UInt32Array::from(vec![Some(u32::MAX), None]))),
        ("float", Arc::new(Float32Array::from(vec![Some(0.5), None]))),
        ("large", Arc::new(LargeStringArray::from(vec![Some("x"), None]))),
        ("view", Arc::new(StringViewArray::from(vec![Some("x"), None]))),
        ("dict", Arc::new(dict)),
        (
            "fixed",
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some([1u8]), None].into_iter(), 1).unwrap()),
        ),
        ("millis", Arc::new(millis)),
        ("nanos", Arc::new(nanos)),
        ("decimal", Arc::new(decimal)),
        ("date", Arc::new(Date64Array::from(vec![Some(86_400_000), None]))),
        ("list", Arc::new(list)),
        ("null", Arc::new(NullArray::new(2))),
    ]);
    let s = json_schema(&format!(
        r#"{{"type":"struct","fields":[{}]}}"#,
        [
            ("byte", "\"long\""),
            ("unsigned", "\"long\""),
            ("float", "\"double\""),
            ("large", "\"string\""),
            ("view", "\"string\""),
            ("dict", "\"string\""),
            ("fixed", "\"binary\""),
            ("millis", "\"timestamp\""),
            ("nanos", "\"timestamp_ntz\""),
            ("decimal", "\"decimal(10,4)\""),
            ("date", "\"date\""),
            ("list", r#"{"type":"array","elementType":"long","containsNull":true}"#),
            ("null", "\"date\""),
        ]
        .map(|(n, t)| format!(r#"{{"name":"{n}","type":{t},"nullable":true,"metadata":{{}}}}"#))
        .join(",")
    ));
    let out = cast_batch(&b, &s).unwrap();
    let plain: Vec<usize> = (0..13).filter(|i| *i != 7).collect();
    assert_eq!(
        text(&out.project(&plain).unwrap()),
        [
            "1 | 4294967295 | 0.5 | x | x | x | 01 | 1970-01-01T00:00:00.000002 | 1.5000 | 1970-01-02 | [1] | ",
            " |  |  |  |  |  |  |  |  |  |  | "
        ]
    );
    assert_eq!(out.column(7).as_primitive::<TimestampMicrosecondType>().value(0), 1000);
}

#[test]
fn lossy_casts_are_refused_with_both_types() {
    let cases: Vec<(ArrayRef, P, &str)> = vec![
        (Arc::new(Int64Array::from(vec![1])), P::Integer, "Int64"),
        (Arc::new(Float64Array::from(vec![1.0])), P::Float, "Float64"),
        (Arc::new(StringArray::from(vec!["1"])), P::Long, "Utf8"),
        (
            Arc::new(Int32Array::from(vec![1])),
            P::Decimal {
                precision: 20,
                scale: 2,
            },
            "Int32",
        ),
        (Arc::new(Int32Array::from(vec![1])), P::String, "Int32"),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1])),
            P::Timestamp,
            "Timestamp",
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC")),
            P::TimestampNtz,
            "Timestamp",
        ),
        (
            Arc::new(TimestampNanosecondArray::from(vec![1])),
            P::TimestampNtz,
            "nanoseconds",
        ),
        (
            Arc::new(Decimal128Array::from(vec![1]).with_precision_and_scale(10, 4).unwrap()),
            P::Decimal {
                precision: 12,
                scale: 2,
            },
            "Decimal128",
        ),
        (Arc::new(Date32Array::from(vec![1])), P::Timestamp, "Date32"),
    ];
    for (array, to, actual) in cases {
        let e = refused(vec![("c", array)], &schema(&[("c", to)]));
        assert_eq!(e.kind(), Kind::SchemaMismatch);
        assert!(
            e.message().contains("`c`") && e.message().contains(&to.to_string()) && e.message().contains(actual),
            "{e}"
        );
    }
}

#[test]
fn extra_and_ambiguous_columns_are_refused() {
    let s = schema(&[("a", P::Integer)]);
    let e = refused(vec![("a", ints(vec![])), ("z", ints(vec![]))], &s);
    assert!(
        e.kind() == Kind::SchemaMismatch
            && e.message().contains("`z`")
            && e.message().contains("schema_mode=\"merge\""),
        "{e}"
    );
    let e = refused(vec![("a", ints(vec![])), ("A", ints(vec![]))], &s);
    assert!(e.message().contains("more than one"), "{e}");
    let nested = json_schema(
        r#"{"type":"struct","fields":[{"name":"s","type":{"type":"struct","fields":[{"name":"a","type":"integer","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]}"#,
    );
    let st = StructArray::from(vec![(Arc::new(F::new("b", A::Int32, true)), ints(vec![Some(1)]))]);
    assert!(refused(vec![("s", Arc::new(st))], &nested).message().contains("`s.b`"));
}

#[test]
fn not_null_holds_at_every_level() {
    // P102
    let s = json_schema(
        r#"{"type":"struct","fields":[
        {"name":"k","type":"integer","nullable":false,"metadata":{}},
        {"name":"s","type":{"type":"struct","fields":[{"name":"a","type":"integer","nullable":false,"metadata":{}}]},"nullable":true,"metadata":{}},
        {"name":"l","type":{"type":"array","elementType":"integer","containsNull":false},"nullable":true,"metadata":{}}]}"#,
    );
    let st = |a: Vec<Option<i32>>, valid: Vec<bool>| {
        let fields = vec![F::new("a", A::Int32, true)].into();
        Arc::new(StructArray::new(fields, vec![ints(a)], Some(valid.into()))) as ArrayRef
    };
    let good = st(vec![Some(1), Some(2)], vec![true, true]);
    let k = || ints(vec![Some(1), Some(2)]);
    assert!(
        cast_batch(&batch(vec![("k", k()), ("s", good.clone())]), &s).is_ok(),
        "`l` may be null"
    );
    let nulls = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None]), None]);
    for (columns, named, rows) in [
        (
            vec![("k", ints(vec![None, None])), ("s", good.clone())],
            "`k`",
            "2 of 2",
        ),
        (vec![("s", good.clone())], "`k`", "2 of 2"),
        (
            vec![("k", k()), ("s", st(vec![Some(1), None], vec![true, true]))],
            "`s.a`",
            "1 of 2",
        ),
        // A null parent violates too, as in the reference.
        (
            vec![("k", k()), ("s", st(vec![Some(1), Some(2)], vec![true, false]))],
            "`s.a`",
            "1 of 2",
        ),
        (
            vec![("k", k()), ("s", good.clone()), ("l", Arc::new(nulls))],
            "`l.element`",
            "1 of 2",
        ),
    ] {
        let e = refused(columns, &s);
        assert_eq!(e.kind(), Kind::ConstraintViolation);
        assert!(e.message().contains(named) && e.message().contains(rows), "{e}");
    }
}

#[test]
fn values_behind_nulls_are_no_nulls_of_not_null_elements() {
    // P102
    let s = json_schema(
        r#"{"type":"struct","fields":[{"name":"e","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"x","type":"integer","nullable":false,"metadata":{}}]},"containsNull":false},"nullable":true,"metadata":{}},{"name":"m","type":{"type":"map","keyType":"integer","valueType":"integer","valueContainsNull":false},"nullable":true,"metadata":{}}]}"#,
    );
    let nulls = || Some(vec![true, false].into());
    let field = |name: &str, t: &A| Arc::new(F::new(name, t.clone(), true));
    let cast = |x: Vec<Option<i32>>, of_maps: Vec<Option<i32>>| {
        let inner = StructArray::from(vec![(field("x", &A::Int32), ints(x))]);
        let lists = FixedSizeListArray::new(field("item", inner.data_type()), 1, Arc::new(inner), nulls());
        let entries = StructArray::from(vec![
            (Arc::new(F::new("k", A::Int32, false)), ints(vec![Some(1), Some(2)])),
            (field("v", &A::Int32), ints(of_maps)),
        ]);
        let entries_field = Arc::new(F::new("entries", entries.data_type().clone(), false));
        let offsets = arrow::buffer::OffsetBuffer::new(vec![0, 1, 2].into());
        let maps = MapArray::new(entries_field, offsets, entries, nulls(), false);
        cast_batch(&batch(vec![("e", Arc::new(lists)), ("m", Arc::new(maps))]), &s)
    };
    let b = cast(vec![Some(1), None], vec![Some(1), None]).unwrap();
    assert_eq!(
        b.column(0).as_list::<i32>().values().len(),
        1,
        "what a null covers goes to no file"
    );
    for (x, v) in [
        (vec![None, None], vec![Some(1), None]),
        (vec![Some(1), None], vec![None, None]),
    ] {
        assert_eq!(cast(x, v).unwrap_err().kind(), Kind::ConstraintViolation);
    }
}
