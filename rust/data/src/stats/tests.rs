//! Each rule of protocol section 8, and that bounds always bound.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::*;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::Primitive as P;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{json_schema, schema};

fn one(p: P, array: ArrayRef) -> Value {
    with(&StatsConfig::default(), p, &[array])
}

fn with(config: &StatsConfig, p: P, arrays: &[ArrayRef]) -> Value {
    let mut columns = new_columns(&schema(&[("c", p)]), &[], Mapping::None, config);
    let mut rows = 0;
    for a in arrays {
        rows += a.len() as u64;
        columns[0].as_mut().unwrap().update(a).unwrap();
    }
    serde_json::from_str(&to_json(rows, &columns)).unwrap()
}

fn bounds(v: &Value) -> (Value, Value) {
    (v["minValues"]["c"].clone(), v["maxValues"]["c"].clone())
}

fn doubles(v: Vec<f64>) -> (Value, Value) {
    bounds(&one(P::Double, Arc::new(Float64Array::from(v))))
}

#[test]
fn nan_is_the_maximum() {
    // P168
    assert_eq!(doubles(vec![1.0, f64::NAN, -2.5]), (json!(-2.5), json!("NaN")));
    assert_eq!(doubles(vec![f64::NAN, -f64::NAN]), (json!("NaN"), json!("NaN")));
    let (min, max) = bounds(&with(
        &StatsConfig::default(),
        P::Double,
        &[
            Arc::new(Float64Array::from(vec![f64::NAN])),
            Arc::new(Float64Array::from(vec![1.0, 3.0])),
        ],
    ));
    assert_eq!((min, max), (json!(1.0), json!("NaN")));
}

#[test]
fn infinities_are_strings() {
    // P163
    assert_eq!(
        doubles(vec![f64::INFINITY, f64::NEG_INFINITY]),
        (json!("-Infinity"), json!("Infinity"))
    );
}

#[test]
fn zeros_are_widened_to_both_signs() {
    // P168
    for v in [0.0, -0.0] {
        let (min, max) = doubles(vec![v]);
        assert_eq!(
            (min.to_string(), max.to_string()),
            ("-0.0".to_owned(), "0.0".to_owned())
        );
    }
}

#[test]
fn floats_keep_their_own_digits() {
    let v = one(P::Float, Arc::new(Float32Array::from(vec![0.1, 3.4e38])));
    assert_eq!(v["minValues"]["c"].to_string(), "0.1");
    assert_eq!(v["maxValues"]["c"].as_f64().unwrap() as f32, 3.4e38);
}

#[test]
fn long_strings_are_cut() {
    // P162
    let text = |s: &str| bounds(&one(P::String, Arc::new(StringArray::from(vec![s]))));
    let z = "z".repeat(40);
    assert_eq!(text(&z), (json!("z".repeat(32)), json!("z".repeat(32) + "\u{7f}")));
    let e = "é".repeat(33);
    assert_eq!(text(&e), (json!("é".repeat(32)), json!("é".repeat(32) + "\u{10ffff}")));
    let short = "a".repeat(32);
    assert_eq!(text(&short), (json!(short), json!(short)));
    let run = "a".repeat(32) + &"\u{10ffff}".repeat(3) + "b";
    assert_eq!(text(&run).1, json!("a".repeat(32) + &"\u{10ffff}".repeat(4)));
    let whole = "a".repeat(32) + &"\u{10ffff}".repeat(3);
    assert_eq!(text(&whole).1, json!(whole));
    let hopeless = "\u{10ffff}".repeat(100);
    assert_eq!(text(&hopeless), (json!("\u{10ffff}".repeat(32)), Value::Null));
    assert_eq!(
        text("\u{7f}".repeat(33).as_str()).1,
        json!("\u{7f}".repeat(32) + "\u{10ffff}")
    );
}

#[test]
fn timestamps_are_cut_to_the_millisecond_before() {
    // P163, P164
    let micros = |v: Vec<i64>| Arc::new(TimestampMicrosecondArray::from(v).with_timezone("UTC"));
    assert_eq!(
        bounds(&one(P::Timestamp, micros(vec![-1, 1_704_067_200_123_999]))),
        (json!("1969-12-31T23:59:59.999Z"), json!("2024-01-01T00:00:00.123Z"))
    );
    let ntz = Arc::new(TimestampMicrosecondArray::from(vec![0]));
    assert_eq!(bounds(&one(P::TimestampNtz, ntz)).0, json!("1970-01-01T00:00:00.000"));
    let far = Arc::new(Date32Array::from(vec![-719_163, 2_932_897]));
    assert_eq!(bounds(&one(P::Date, far)), (json!("0000-12-31"), json!("+10000-01-01")));
}

#[test]
fn decimals_are_exact() {
    // P163, Q3
    let d = |v: Vec<i128>| Arc::new(Decimal128Array::from(v).with_precision_and_scale(38, 4).unwrap());
    let p = P::Decimal {
        precision: 38,
        scale: 4,
    };
    let v = one(p, d(vec![-5, 123_456_789_012_345_678_901_234]));
    assert_eq!(v["minValues"]["c"].to_string(), "-0.0005");
    assert_eq!(v["maxValues"]["c"].to_string(), "12345678901234567890.1234");
}

#[test]
fn types_without_bounds_have_a_null_count() {
    // P160
    for (p, a) in [
        (
            P::Boolean,
            Arc::new(BooleanArray::from(vec![Some(true), None])) as ArrayRef,
        ),
        (P::Binary, Arc::new(BinaryArray::from(vec![Some(&b"x"[..]), None]))),
    ] {
        let v = one(p, a);
        assert_eq!(v["nullCount"]["c"], 1);
        assert_eq!(bounds(&v), (Value::Null, Value::Null));
    }
}

#[test]
fn a_column_of_nulls_has_no_bounds() {
    // P165
    let v = one(P::Long, Arc::new(Int64Array::from(vec![None, None])));
    assert_eq!(
        v,
        json!({"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"c": 2}, "tightBounds": true})
    );
}

fn wide() -> Arc<StructType> {
    json_schema(
        r#"{"type":"struct","fields":[
        {"name":"p","type":"string","nullable":true,"metadata":{}},
        {"name":"a","type":"long","nullable":true,"metadata":{}},
        {"name":"s","type":{"type":"struct","fields":[
            {"name":"x.y","type":"long","nullable":true,"metadata":{}},
            {"name":"l","type":{"type":"array","elementType":"long","containsNull":true},"nullable":true,"metadata":{}},
            {"name":"z","type":"long","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}},
        {"name":"b","type":"long","nullable":true,"metadata":{}}]}"#,
    )
}

fn measured(columns: StatsColumns) -> String {
    let config = StatsConfig {
        columns,
        ..StatsConfig::default()
    };
    let columns = new_columns(&wide(), &["p".to_owned()], Mapping::None, &config);
    let v: Value = serde_json::from_str(&to_json(0, &columns)).unwrap();
    v["nullCount"].to_string()
}

#[test]
fn leaves_are_counted_in_schema_order() {
    // P161: partition columns don't count, an array is one leaf
    assert_eq!(measured(StatsColumns::FirstLeaves(0)), "{}");
    assert_eq!(measured(StatsColumns::FirstLeaves(3)), r#"{"a":0,"s":{"l":0,"x.y":0}}"#);
    assert_eq!(
        measured(StatsColumns::FirstLeaves(-1)),
        r#"{"a":0,"b":0,"s":{"l":0,"x.y":0,"z":0}}"#
    );
}

#[test]
fn named_columns_are_found_ignoring_case() {
    // P161
    let named = |n: &[&str]| measured(StatsColumns::Columns(n.iter().map(|n| (*n).to_owned()).collect()));
    assert_eq!(named(&["B", "s.`X.y`"]), r#"{"b":0,"s":{"x.y":0}}"#);
    assert_eq!(named(&["S", "nowhere", "p"]), r#"{"s":{"l":0,"x.y":0,"z":0}}"#);
}

#[test]
fn odd_names_stay_json() {
    let columns = new_columns(
        &schema(&[("a\"b\\\u{1}é", P::Long)]),
        &[],
        Mapping::None,
        &StatsConfig::default(),
    );
    let v: Value = serde_json::from_str(&to_json(0, &columns)).unwrap();
    assert_eq!(v["nullCount"]["a\"b\\\u{1}é"], 0);
}

proptest! {
    #[test]
    fn string_bounds_bound(values in proptest::collection::vec(proptest::option::of("[a-c\u{7e}\u{7f}é\u{10fffe}\u{10ffff}]{0,12}"), 1..20), prefix in 1usize..5) {
        // P162, by UTF-8 bytes
        let config = StatsConfig { string_prefix_length: prefix, ..StatsConfig::default() };
        let v = with(&config, P::String, &[Arc::new(StringArray::from(values.clone()))]);
        let (min, max) = bounds(&v);
        for s in values.iter().flatten() {
            prop_assert!(min.as_str().unwrap().as_bytes() <= s.as_bytes());
            if let Some(max) = max.as_str() {
                prop_assert!(max.as_bytes() >= s.as_bytes());
                prop_assert!(max.chars().count() <= 2 * prefix + 1);
            }
        }
        prop_assert_eq!(v["nullCount"]["c"].as_u64().unwrap() as usize, values.iter().filter(|s| s.is_none()).count());
    }

    #[test]
    fn double_bounds_bound(values in proptest::collection::vec(proptest::num::f64::ANY, 1..20)) {
        let (min, max) = doubles(values.clone());
        let number = |v: &Value| match v.as_str() {
            Some("NaN") => f64::NAN,
            Some("Infinity") => f64::INFINITY,
            Some("-Infinity") => f64::NEG_INFINITY,
            _ => v.to_string().parse().unwrap(),
        };
        let (min, max) = (number(&min), number(&max));
        for v in values {
            // NaN above everything
            prop_assert!(max.is_nan() || v <= max);
            prop_assert!(v.is_nan() || v >= min);
        }
    }

    #[test]
    fn integer_and_time_bounds_bound(values in proptest::collection::vec(-62_135_596_800_000_000i64..=253_402_300_799_999_999, 1..20)) {
        let v = one(P::Long, Arc::new(Int64Array::from(values.clone())));
        prop_assert_eq!(bounds(&v), (json!(values.iter().min().unwrap()), json!(values.iter().max().unwrap())));
        let v = one(P::Timestamp, Arc::new(TimestampMicrosecondArray::from(values.clone()).with_timezone("UTC")));
        let (min, max) = bounds(&v);
        let micros = |v: &Value| chrono::DateTime::parse_from_rfc3339(v.as_str().unwrap()).unwrap().timestamp_micros();
        for v in values {
            prop_assert!(micros(&min) <= v && v < micros(&max) + 1000);
        }
    }
}

#[test]
fn statistics_in_the_form_of_delta_rs() {
    let schema = schema(&[
        ("b", P::Boolean),
        ("t", P::Timestamp),
        ("n", P::TimestampNtz),
        ("y", P::Binary),
    ]);
    let config = StatsConfig {
        as_delta_rs: true,
        ..StatsConfig::default()
    };
    let times = vec![Some(0), None, Some(1_500_000)];
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])),
        Arc::new(TimestampMicrosecondArray::from(times.clone()).with_timezone("UTC")),
        Arc::new(TimestampMicrosecondArray::from(times)),
        Arc::new(BinaryArray::from_opt_vec(vec![Some(b"x"), None, None])),
    ];
    let mut columns = new_columns(&schema, &[], Mapping::None, &config);
    for (column, array) in columns.iter_mut().zip(&arrays) {
        if let Some(column) = column {
            column.update(array).unwrap();
        }
    }
    let stats: Value = serde_json::from_str(&to_json(3, &columns)).unwrap();
    assert_eq!(
        stats["minValues"],
        json!({"b": false, "t": "1970-01-01T00:00:00Z", "n": "1970-01-01 00:00:00"})
    );
    assert_eq!(
        stats["maxValues"],
        json!({"b": true, "t": "1970-01-01T00:00:01.500Z", "n": "1970-01-01 00:00:01.500"})
    );
    assert_eq!(stats["nullCount"], json!({"b": 1, "t": 1, "n": 1}));
}
