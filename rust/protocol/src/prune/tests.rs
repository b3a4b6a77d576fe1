//! Single rules of skipping, each with one statistic, and the physical names of the columns whose
//! statistics they use.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, MapBuilder, RecordBatch, StringArray, StringBuilder, StructArray};
use arrow::datatypes::{Field as ArrowField, Fields};

use super::Pruner;
use crate::expr::{Expr, Predicate};
use crate::mapping::Mapping;
use crate::schema::{DataType, Field, Primitive, StructType};

fn schema() -> StructType {
    let x = StructType::new(vec![Field::new("x", Primitive::Integer, true)]);
    let mut mapped = Field::new("mapped", Primitive::Long, true);
    mapped
        .metadata
        .insert("delta.columnMapping.physicalName".into(), "col-1".into());
    let mut was_float = Field::new("wide", Primitive::Double, true);
    was_float.metadata.insert(
        "delta.typeChanges".into(),
        serde_json::json!([{"fromType": "float", "toType": "double"}]),
    );
    StructType::new(vec![
        Field::new("id", Primitive::Long, true),
        Field::new("name", Primitive::String, true),
        Field::new("d", Primitive::Double, true),
        was_float,
        Field::new("ntz", Primitive::TimestampNtz, true),
        Field::new(
            "dec",
            Primitive::Decimal {
                precision: 10,
                scale: 2,
            },
            true,
        ),
        Field::new(
            "big",
            Primitive::Decimal {
                precision: 24,
                scale: 4,
            },
            true,
        ),
        Field::new("ts", Primitive::Timestamp, true),
        Field::new("day", Primitive::Date, true),
        Field::new("s", DataType::Struct(x), true),
        Field::new("b", Primitive::Boolean, true),
        Field::new("part", Primitive::Integer, true),
        mapped,
    ])
}

fn pruner(json: &str) -> Pruner {
    let predicate = Predicate::bind(&Expr::from_json(json).unwrap(), &schema()).unwrap();
    Pruner::new(&predicate, &schema(), &["part".to_owned()], Mapping::Name).unwrap()
}

fn column(name: &str) -> String {
    format!(r#"{{"op":"column","name":["{}"]}}"#, name.replace('.', "\",\""))
}

fn literal(value: &str, ty: &str) -> String {
    format!(r#"{{"op":"literal","value":"{value}","type":"{ty}"}}"#)
}

fn cmp(name: &str, op: &str, value: &str, ty: &str) -> String {
    format!(
        r#"{{"op":"compare","cmp":"{op}","left":{},"right":{}}}"#,
        column(name),
        literal(value, ty)
    )
}

fn not(e: &str) -> String {
    format!(r#"{{"op":"not","arg":{e}}}"#)
}

/// Whether a file with one column's statistics is kept: 10 rows, `nulls` of them null.
fn kept(predicate: &str, name: &str, min: &str, max: &str, nulls: i64) -> bool {
    let nest = |v: String| match name.split_once('.') {
        Some((parent, leaf)) => format!(r#"{{"{parent}":{{"{leaf}":{v}}}}}"#),
        None => format!(r#"{{"{name}":{v}}}"#),
    };
    let value_of = |v: &str| {
        if v.is_empty() {
            "{}".to_owned()
        } else {
            nest(v.to_owned())
        }
    };
    let stats = format!(
        r#"{{"numRecords":10,"minValues":{},"maxValues":{},"nullCount":{}}}"#,
        value_of(min),
        value_of(max),
        nest(nulls.to_string())
    );
    let batch = RecordBatch::try_from_iter([("stats", Arc::new(StringArray::from(vec![stats])) as ArrayRef)]).unwrap();
    pruner(predicate).keep(&batch).unwrap().value(0)
}

#[test]
fn statistics_of_a_type_before_it_was_widened() {
    // P153: 1.1 and 3.3 as floats are 1.10000002384… and 3.29999995232… as doubles
    let wide = |op, v: &str| kept(&cmp("wide", op, v, "double"), "wide", "3.3", "1.1", 0);
    assert!(wide(">", "1.1"), "a minimum above the maximum says nothing");
    let wide = |op, v: &str| kept(&cmp("wide", op, v, "double"), "wide", "1.1", "1.1", 0);
    assert!(wide(">", "1.1") && wide("=", "1.1") && wide("=", "1.100000023841858"));
    assert!(!wide("=", "1.1000001") && !wide("<", "1.1"));
    assert!(kept(&cmp("wide", "<", "3.3", "double"), "wide", "3.3", "4.0", 0));
    // an integer's, a date's
    assert!(
        kept(&cmp("d", "=", "5", "double"), "d", "5", "7", 0) && !kept(&cmp("d", "<", "5", "double"), "d", "5", "7", 0)
    );
    let day = |op, v: &str| {
        kept(
            &cmp("ntz", op, v, "timestamp_ntz"),
            "ntz",
            "\"2024-01-31\"",
            "\"2024-02-01\"",
            0,
        )
    };
    assert!(day("=", "2024-02-01 00:00:00") && !day(">", "2024-02-03 00:00:00") && !day("<", "2024-01-31 00:00:00"));
    // decimals with fewer digits after the point
    let dec = |op, v: &str| kept(&cmp("dec", op, v, "decimal(10,2)"), "dec", "1.5", "2", 0);
    assert!(dec("=", "1.50") && !dec(">", "2.00"));
}

#[test]
fn integers() {
    let k = |op, v: &str| kept(&cmp("id", op, v, "long"), "id", "10", "20", 0);
    for (op, in_file, out) in [
        ("=", "10", "9"),
        ("<", "11", "10"),
        ("<=", "10", "9"),
        (">", "19", "20"),
        (">=", "20", "21"),
        ("<=>", "20", "21"),
    ] {
        assert!(k(op, in_file) && !k(op, out), "{op}");
    }
    assert!(
        !kept(&cmp("id", "!=", "5", "long"), "id", "5", "5", 3)
            && kept(&cmp("id", "!=", "5", "long"), "id", "5", "6", 3)
    );
    assert!(!kept(&not(&cmp("id", "<", "395", "long")), "id", "0", "394", 0));
    // NOT (id <=> 5) is TRUE for nulls too.
    assert!(
        kept(&not(&cmp("id", "<=>", "5", "long")), "id", "5", "5", 3)
            && !kept(&not(&cmp("id", "<=>", "5", "long")), "id", "5", "5", 0)
    );
    assert!(!kept(&cmp("s.x", "=", "11", "integer"), "s.x", "0", "10", 0));
}

#[test]
fn membership_and_arithmetic() {
    let list: Vec<String> = ["399", "1", "2"].iter().map(|v| literal(v, "long")).collect();
    let within = format!(r#"{{"op":"in","arg":{},"list":[{}]}}"#, column("id"), list.join(","));
    assert!(
        !kept(&within, "id", "3", "398", 0) && kept(&within, "id", "2", "3", 0) && kept(&within, "id", "399", "500", 0)
    );
    assert!(!kept(&not(&within), "id", "2", "2", 0) && kept(&not(&within), "id", "2", "3", 0));
    let sum = format!(
        r#"{{"op":"compare","cmp":"=","left":{{"op":"arithmetic","sign":"+","left":{},"right":{}}},"right":{}}}"#,
        column("id"),
        literal("1", "integer"),
        literal("58", "integer")
    );
    assert!(kept(&sum, "id", "57", "57", 0) && !kept(&sum, "id", "58", "70", 0));
}

#[test]
fn nulls() {
    // P165, P166
    let null = format!(r#"{{"op":"is_null","arg":{}}}"#, column("d"));
    let value = format!(r#"{{"op":"is_not_null","arg":{}}}"#, column("d"));
    assert!(kept(&null, "d", "", "", 1) && !kept(&null, "d", "", "", 0));
    assert!(kept(&value, "d", "", "", 9) && !kept(&value, "d", "", "", 10));
    assert!(
        !kept(&cmp("d", ">", "0", "integer"), "d", "", "", 10) && kept(&cmp("d", ">", "0", "integer"), "d", "", "", 9)
    );
    // Booleans have no bounds: all-null is all there is to know.
    assert!(kept(&column("b"), "b", "", "", 0) && !kept(&not(&column("b")), "b", "", "", 10));
    // A count beyond the rows is no count.
    assert!(kept(&value, "d", "", "", 11));
}

#[test]
fn float_maxima_do_not_bound_nan() {
    // P168, Q4
    for (op, v) in [(">", "100"), (">=", "100"), ("=", "NaN"), ("!=", "5")] {
        assert!(kept(&cmp("d", op, v, "double"), "d", "5.0", "5.0", 0), "{op}");
    }
    assert!(
        !kept(&cmp("d", "=", "100", "double"), "d", "-0.0", "5.0", 0)
            && !kept(&cmp("d", "<", "0", "double"), "d", "0.0", "5.0", 0)
    );
    assert!(
        kept(&cmp("d", "=", "0", "double"), "d", "-1.0", "-0.0", 0)
            && kept(&cmp("d", "=", "-0.0", "double"), "d", "0.0", "1.0", 0)
    );
    assert!(
        kept(&cmp("d", "=", "100", "double"), "d", "5.0", "\"NaN\"", 0)
            && !kept(&cmp("d", "=", "1", "double"), "d", "5.0", "\"NaN\"", 0)
    );
}

#[test]
fn decimals_that_went_through_a_double_are_distrusted() {
    // Q3, P164
    let is_kept = |v: &str, min: &str, max: &str| kept(&cmp("big", "=", v, "decimal(24,4)"), "big", min, max, 0);
    assert!(is_kept(
        "12345678901234567890.1234",
        "1.234567890123457e+19",
        "1.234567890123457e+19"
    ));
    assert!(is_kept(
        "1234567890123.1234",
        "1234567890123.1235",
        "1234567890123.1235"
    ));
    assert!(
        is_kept("1234567890.0001", "1234567890.0001", "1234567890.0001")
            && !is_kept("1234567890.0002", "1234567890.0001", "1234567890.0001")
    );
    assert!(!kept(
        &cmp("dec", "=", "12.50", "decimal(4,2)"),
        "dec",
        "12.51",
        "99.99",
        0
    ));
    assert!(!kept(&cmp("dec", "=", "12.505", "decimal(5,3)"), "dec", "0", "99", 0));
}

#[test]
fn timestamps_were_cut_to_milliseconds() {
    // P164, Q5
    let is_kept = |v: &str, max: &str| {
        kept(
            &cmp("ts", "=", v, "timestamp"),
            "ts",
            "\"2020-01-01T00:00:00.000Z\"",
            max,
            0,
        )
    };
    assert!(is_kept("2020-01-01 03:20:00.000999", "\"2020-01-01T03:20:00.000Z\""));
    assert!(is_kept(
        "2020-01-01 03:20:00.000999",
        "\"2019-12-31T22:23:58.000-04:56:02\""
    ));
    assert!(!is_kept("2020-01-01 03:20:00.002", "\"2020-01-01 03:20:00.000\"") && is_kept("2030-01-01", "\"soon\""));
    let day = |v: &str| {
        kept(
            &cmp("day", "<", v, "timestamp"),
            "day",
            "\"2020-01-02\"",
            "\"2020-01-02\"",
            0,
        )
    };
    assert!(day("2020-01-02 00:00:01") && !day("2020-01-02 00:00:00"));
}

#[test]
fn strings_may_be_cut() {
    // P162
    let like = |p: &str| {
        format!(
            r#"{{"op":"like","arg":{},"pattern":"{p}","escape":"\\"}}"#,
            column("name")
        )
    };
    let k = |e: &str| kept(e, "name", "\"abc\"", "\"abd\u{7f}\"", 0);
    assert!(k(&like("abd%")) && k(&like("ab_%z")) && !k(&like("abe%")) && !k(&like("abb%x")) && !k(&like("b")));
    assert!(!k(&not(&like("ab%"))) && k(&not(&like("abc%"))) && k(&not(&like("ab%x"))));
    assert!(k(&cmp("name", ">", "abdzz", "string")) && !k(&cmp("name", ">", "abe", "string")));
}

#[test]
fn unreadable_statistics_keep_the_file() {
    // P165
    let p = pruner(&cmp("id", "=", "5", "long"));
    let texts = [
        None,
        Some(""),
        Some("null"),
        Some("{"),
        Some(r#"{"numRecords":1}"#),
        Some(r#"{"minValues":{"id":9}"#),
        Some(r#"{"minValues":{"id":"9"},"maxValues":{"id":null}}"#),
        Some(r#"{"minValues":{"id":9.5},"maxValues":{"id":8}}"#),
        Some(r#"{"minValues":{"id":9},"maxValues":{"id":3}}"#),
        Some(r#"{"minValues":{"i\u0064":9}}"#),
    ];
    let batch =
        RecordBatch::try_from_iter([("stats", Arc::new(StringArray::from(texts.to_vec())) as ArrayRef)]).unwrap();
    let keep = p.keep(&batch).unwrap();
    let flags: Vec<bool> = (0..keep.len()).map(|i| keep.value(i)).collect();
    // Only the last is readable: an escaped key is the same name.
    assert_eq!(flags, [true, true, true, true, true, true, true, true, true, false]);
    assert_eq!(
        p.keep(&RecordBatch::try_from_iter([("path", Arc::new(StringArray::from(vec!["x"])) as ArrayRef)]).unwrap())
            .unwrap()
            .true_count(),
        1
    );
}

#[test]
fn counts_that_contradict_keep_the_file() {
    // P165: no file has fewer than no rows, and a column without values has no bounds
    let is_kept = |stats: &str| {
        let batch = RecordBatch::try_from_iter([("stats", Arc::new(StringArray::from(vec![stats])) as ArrayRef)]);
        pruner(&cmp("id", "=", "5", "long"))
            .keep(&batch.unwrap())
            .unwrap()
            .value(0)
    };
    for stats in [
        r#"{"numRecords":-1,"nullCount":{"id":-1}}"#,
        r#"{"numRecords":3,"minValues":{"id":5},"maxValues":{"id":5},"nullCount":{"id":3}}"#,
        r#"{"numRecords":0,"maxValues":{"id":5},"nullCount":{"id":0}}"#,
    ] {
        assert!(is_kept(stats), "{stats}");
    }
    assert!(!is_kept(r#"{"numRecords":3,"minValues":{},"nullCount":{"id":3}}"#));
}

fn part_map(values: &[Option<&str>]) -> ArrayRef {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for v in values {
        maps.keys().append_value("part");
        maps.values().append_option(*v);
        maps.append(true).unwrap();
    }
    Arc::new(maps.finish())
}

#[test]
fn partition_values_are_exact_and_checked() {
    // P170
    let p = pruner(&cmp("part", "!=", "2", "integer"));
    assert_eq!(
        (p.partition_columns_needed(), p.stats_leaves_needed().len()),
        (&["part".to_owned()][..], 0)
    );
    let batch =
        RecordBatch::try_from_iter([("partitionValues", part_map(&[Some("1"), Some("02"), None, Some("")]))]).unwrap();
    let keep = p.keep(&batch).unwrap();
    assert_eq!(
        (0..4).map(|i| keep.value(i)).collect::<Vec<_>>(),
        [true, false, false, false]
    );
    let bad = RecordBatch::try_from_iter([("partitionValues", part_map(&[Some("x")]))]).unwrap();
    assert!(
        p.keep(&bad)
            .unwrap_err()
            .message()
            .contains("DELTA_FAILED_CAST_PARTITION_VALUE")
    );
    // Without the column nothing is known.
    let none =
        RecordBatch::try_from_iter([("stats", Arc::new(StringArray::from(vec![Some("{}")])) as ArrayRef)]).unwrap();
    assert!(p.keep(&none).unwrap().value(0));
}

#[test]
fn a_disjunction_over_both_kinds_needs_both() {
    let either = format!(
        r#"{{"op":"or","args":[{},{}]}}"#,
        cmp("part", "=", "1", "integer"),
        cmp("mapped", ">", "5", "long")
    );
    let p = pruner(&either);
    assert_eq!(p.stats_leaves_needed(), [vec!["col-1".to_owned()]]);
    let stats = Arc::new(StringArray::from(vec![
        r#"{"numRecords":1,"maxValues":{"col-1":5}}"#;
        2
    ])) as ArrayRef;
    let batch =
        RecordBatch::try_from_iter([("partitionValues", part_map(&[Some("1"), Some("2")])), ("stats", stats)]).unwrap();
    let keep = p.keep(&batch).unwrap();
    assert!(keep.value(0) && !keep.value(1));
}

#[test]
fn parsed_structs_of_other_integer_width_are_used() {
    let struct_of = |name: &str, a: ArrayRef| -> ArrayRef {
        Arc::new(StructArray::new(
            Fields::from(vec![ArrowField::new(name, a.data_type().clone(), true)]),
            vec![a],
            None,
        ))
    };
    let max = struct_of("id", Arc::new(arrow::array::Int32Array::from(vec![4, 5])));
    let parts = [
        ("maxValues", max.clone()),
        ("minValues", max),
        ("numRecords", Arc::new(Int64Array::from(vec![1, 1])) as ArrayRef),
    ];
    let fields: Fields = parts
        .iter()
        .map(|(n, a)| ArrowField::new(*n, a.data_type().clone(), true))
        .collect();
    let stats: ArrayRef = Arc::new(StructArray::new(
        fields,
        parts.into_iter().map(|(_, a)| a).collect(),
        None,
    ));
    let batch = RecordBatch::try_from_iter([("stats_parsed", stats)]).unwrap();
    let keep = pruner(&cmp("id", ">=", "5", "long")).keep(&batch).unwrap();
    assert!(!keep.value(0) && keep.value(1));
}
