//! Round trips through files, partition layout, size and memory bounds, refusals.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType as A, Int32Type};
use deltaplane_error::Kind;
use deltaplane_protocol::paths;
use deltaplane_protocol::schema::{Field, Primitive as P, StructType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;
use crate::testing::{Folder, batch, file_read, json_schema, schema, stats, text};
use crate::{ReadSpec, cast_batch};

fn all_primitives() -> (Arc<StructType>, RecordBatch) {
    let s = schema(&[
        ("s", P::String),
        ("l", P::Long),
        ("i", P::Integer),
        ("h", P::Short),
        ("y", P::Byte),
        ("f", P::Float),
        ("d", P::Double),
        ("b", P::Boolean),
        ("x", P::Binary),
        ("dt", P::Date),
        ("ts", P::Timestamp),
        ("tn", P::TimestampNtz),
        ("d9", P::Decimal { precision: 9, scale: 2 }),
        (
            "d18",
            P::Decimal {
                precision: 18,
                scale: 0,
            },
        ),
        (
            "d38",
            P::Decimal {
                precision: 38,
                scale: 10,
            },
        ),
    ]);
    let decimal = |v: Vec<Option<i128>>, p, sc| {
        Arc::new(Decimal128Array::from(v).with_precision_and_scale(p, sc).unwrap()) as ArrayRef
    };
    let max38 = 10i128.pow(38) - 1;
    let b = batch(vec![
        (
            "s",
            Arc::new(StringArray::from(vec![Some("a"), None, Some("é\u{10FFFF}"), Some("")])),
        ),
        (
            "l",
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX), Some(0)])),
        ),
        (
            "i",
            Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX), Some(0)])),
        ),
        (
            "h",
            Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX), Some(0)])),
        ),
        (
            "y",
            Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX), Some(0)])),
        ),
        (
            "f",
            Arc::new(Float32Array::from(vec![
                Some(-0.0),
                None,
                Some(f32::MAX),
                Some(f32::NEG_INFINITY),
            ])),
        ),
        (
            "d",
            Arc::new(Float64Array::from(vec![
                Some(1e300),
                None,
                Some(f64::MIN_POSITIVE),
                Some(0.1),
            ])),
        ),
        (
            "b",
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)])),
        ),
        (
            "x",
            Arc::new(BinaryArray::from(vec![
                Some(&b"\x00\xff"[..]),
                None,
                Some(b""),
                Some(b"z"),
            ])),
        ),
        (
            "dt",
            Arc::new(Date32Array::from(vec![Some(-719_162), None, Some(2_932_896), Some(0)])),
        ),
        (
            "ts",
            Arc::new(
                TimestampMicrosecondArray::from(vec![
                    Some(-62_135_596_800_000_000),
                    None,
                    Some(253_402_300_799_999_999),
                    Some(-1),
                ])
                .with_timezone("UTC"),
            ),
        ),
        (
            "tn",
            Arc::new(TimestampMicrosecondArray::from(vec![
                Some(-62_135_596_800_000_000),
                None,
                Some(253_402_300_799_999_999),
                Some(1),
            ])),
        ),
        (
            "d9",
            decimal(vec![Some(-999_999_999), None, Some(999_999_999), Some(150)], 9, 2),
        ),
        (
            "d18",
            decimal(vec![Some(-5), None, Some(999_999_999_999_999_999), Some(0)], 18, 0),
        ),
        ("d38", decimal(vec![Some(-max38), None, Some(max38), Some(1)], 38, 10)),
    ]);
    (s, b)
}

#[test]
fn all_primitive_types_round_trip() {
    let (s, b) = all_primitives();
    for compression in [
        Compression::Uncompressed,
        Compression::Snappy,
        Compression::Zstd(1),
        Compression::Gzip,
        Compression::Lz4Raw,
    ] {
        let t = Folder::new();
        let spec = WriteSpec {
            compression,
            ..WriteSpec::new(s.clone(), vec![], 5)
        };
        let adds = t.write_spec(spec, std::slice::from_ref(&b)).unwrap();
        assert_eq!(adds.len(), 1);
        assert_eq!(
            adds[0].size as u64,
            std::fs::metadata(t.path(&adds[0].path)).unwrap().len(),
            "P031"
        );
        assert_eq!(adds[0].modification_time, 5);
        assert_eq!(t.read_all(ReadSpec::new(s.clone(), vec![]), &adds).unwrap(), b);
    }
}

#[test]
fn statistics_of_all_primitive_types() {
    // P160, P163, P168
    let (s, b) = all_primitives();
    let t = Folder::new();
    let adds = t.write(&s, &[], &[b]).unwrap();
    let text = adds[0].stats.clone().unwrap();
    let v = stats(&adds[0]);
    assert_eq!(v["numRecords"], 4);
    assert_eq!(v["tightBounds"], true);
    for f in s.fields() {
        assert_eq!(v["nullCount"][&f.name], 1, "{}", f.name);
        let bounded = !["b", "x"].contains(&f.name.as_str());
        assert_eq!(v["minValues"].get(&f.name).is_some(), bounded, "{}", f.name);
        assert_eq!(v["maxValues"].get(&f.name).is_some(), bounded, "{}", f.name);
    }
    for part in [
        r#""l":-9223372036854775808"#,
        r#""l":9223372036854775807"#,
        r#""dt":"0001-01-01""#,
        r#""dt":"9999-12-31""#,
        r#""ts":"0001-01-01T00:00:00.000Z""#,
        r#""ts":"9999-12-31T23:59:59.999Z""#,
        r#""tn":"9999-12-31T23:59:59.999""#,
        r#""d9":-9999999.99"#,
        r#""d38":9999999999999999999999999999.9999999999"#,
        r#""d":1e+300"#,
        r#""f":"-Infinity""#,
    ] {
        assert!(
            text.contains(part) || text.contains(&part.replace("e+", "e")),
            "{part} in {text}"
        );
    }
}

fn nested() -> (Arc<StructType>, RecordBatch) {
    let s = json_schema(
        r#"{"type":"struct","fields":[
        {"name":"s","type":{"type":"struct","fields":[
            {"name":"a","type":"integer","nullable":true,"metadata":{}},
            {"name":"t","type":{"type":"struct","fields":[{"name":"x","type":"string","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]},
         "nullable":true,"metadata":{}},
        {"name":"l","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]},"containsNull":true},"nullable":true,"metadata":{}},
        {"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"array","elementType":"integer","containsNull":true},"valueContainsNull":true},"nullable":true,"metadata":{}}]}"#,
    );
    let target = crate::types::row_schema(s.fields());
    let A::Struct(sf) = target.field(0).data_type() else {
        panic!()
    };
    let A::Struct(tf) = sf[1].data_type() else { panic!() };
    let x = Arc::new(StringArray::from(vec![Some("u"), Some("hidden"), None]));
    let t = StructArray::new(tf.clone(), vec![x], Some(vec![true, true, false].into()));
    let a = Arc::new(Int32Array::from(vec![Some(1), Some(-99), None]));
    // Row 1 is a null struct over values that must not be seen.
    let st = StructArray::new(sf.clone(), vec![a, Arc::new(t)], Some(vec![true, false, true].into()));
    let A::List(le) = target.field(1).data_type() else {
        panic!()
    };
    let A::Struct(kf) = le.data_type() else { panic!() };
    let k = StructArray::new(
        kf.clone(),
        vec![Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))],
        Some(vec![true, false, true].into()),
    );
    let l = ListArray::new(
        le.clone(),
        arrow::buffer::OffsetBuffer::new(vec![0, 2, 2, 3].into()),
        Arc::new(k),
        Some(vec![true, false, true].into()),
    );
    let A::Map(me, _) = target.field(2).data_type() else {
        panic!()
    };
    let A::Struct(kv) = me.data_type() else { panic!() };
    let A::List(ve) = kv[1].data_type() else { panic!() };
    let values = ListArray::new(
        ve.clone(),
        arrow::buffer::OffsetBuffer::new(vec![0, 2, 2].into()),
        Arc::new(Int32Array::from(vec![Some(1), None])),
        Some(vec![true, false].into()),
    );
    let entries = StructArray::new(
        kv.clone(),
        vec![Arc::new(StringArray::from(vec!["k1", "k2"])), Arc::new(values)],
        None,
    );
    let m = MapArray::new(
        me.clone(),
        arrow::buffer::OffsetBuffer::new(vec![0, 2, 2, 2].into()),
        entries,
        Some(vec![true, true, false].into()),
        false,
    );
    let b = RecordBatch::try_new(target, vec![Arc::new(st), Arc::new(l), Arc::new(m)]).unwrap();
    (s, b)
}

#[test]
fn nested_types_round_trip_with_nested_statistics() {
    // P160: a null struct makes its leaves null; arrays and maps have a null count only
    let (s, b) = nested();
    let t = Folder::new();
    let adds = t.write(&s, &[], std::slice::from_ref(&b)).unwrap();
    let v = stats(&adds[0]);
    assert_eq!(
        v["nullCount"],
        serde_json::json!({"s": {"a": 2, "t": {"x": 2}}, "l": 1, "m": 1})
    );
    assert_eq!(v["minValues"], serde_json::json!({"s": {"a": 1, "t": {"x": "u"}}}));
    let back = t.read_all(ReadSpec::new(s.clone(), vec![]), &adds).unwrap();
    assert_eq!(text(&back), text(&b));
    let spec = ReadSpec {
        columns: Some(vec!["M".into(), "s".into()]),
        ..ReadSpec::new(s, vec![])
    };
    let part = t.read_all(spec, &adds).unwrap();
    assert_eq!(part.column(0), back.column(2));
    assert_eq!(part.column(1), back.column(0));
}

#[test]
fn partition_values_are_escaped_and_come_back() {
    // P027, P171, P172
    let values = [
        Some("a/b"),
        Some("a%b"),
        Some("a b"),
        Some("é"),
        Some("}"),
        None,
        Some(""),
        Some("x%20y"),
        Some("#?"),
        Some("__HIVE_DEFAULT_PARTITION__"),
    ];
    let s = schema(&[("p", P::String), ("v", P::Integer)]);
    let v: Int32Array = (0..10).collect();
    let b = batch(vec![
        ("p", Arc::new(StringArray::from(values.to_vec()))),
        ("v", Arc::new(v)),
    ]);
    let t = Folder::new();
    let adds = t.write(&s, &["p"], &[b]).unwrap();
    // null and the empty string are the same partition
    assert_eq!(adds.len(), 9);
    let dirs: Vec<_> = adds.iter().map(|a| a.path.split('/').next().unwrap()).collect();
    for expected in [
        "p=a%252Fb",
        "p=a%2525b",
        "p=a%20b",
        "p=%7D",
        "p=__HIVE_DEFAULT_PARTITION__",
        "p=x%252520y",
    ] {
        assert!(
            dirs.contains(&expected) || expected == "p=%7D",
            "{expected} in {dirs:?}"
        );
    }
    for a in &adds {
        assert!(t.path(&paths::decode(&a.path).unwrap()).is_file(), "{}", a.path);
        assert_eq!(a.partition_values.len(), 1);
    }
    let back = t.read_all(ReadSpec::new(s, vec!["p".into()]), &adds).unwrap();
    let p = back.column(0).as_string::<i32>();
    let mut rows: Vec<_> = back
        .column(1)
        .as_primitive::<Int32Type>()
        .iter()
        .zip(p.iter())
        .map(|(v, p)| (v.unwrap(), p))
        .collect();
    rows.sort_unstable();
    let expected: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(i, p)| (i as i32, p.filter(|p| !p.is_empty())))
        .collect();
    assert_eq!(rows, expected);
    assert_eq!(
        stats(&adds[0])["minValues"].get("p"),
        None,
        "P160: no statistics for partition columns"
    );
}

#[test]
fn every_primitive_type_can_partition() {
    let (s, b) = all_primitives();
    for f in s.fields() {
        let t = Folder::new();
        let adds = t.write(&s, &[&f.name], std::slice::from_ref(&b)).unwrap();
        let back = t
            .read_all(ReadSpec::new(s.clone(), vec![f.name.clone()]), &adds)
            .unwrap();
        assert_eq!(back.num_rows(), 4, "{}", f.name);
        let key = back.column_by_name("l").unwrap().clone();
        if f.name != "l" {
            let order = arrow::compute::sort_to_indices(&key, None, None).unwrap();
            let got = arrow::compute::take(back.column_by_name(&f.name).unwrap(), &order, None).unwrap();
            let order = arrow::compute::sort_to_indices(b.column(1), None, None).unwrap();
            let want = arrow::compute::take(b.column_by_name(&f.name).unwrap(), &order, None).unwrap();
            let plain = |a: ArrayRef| {
                if a.data_type().is_temporal() && !matches!(a.data_type(), A::Date32) {
                    arrow::compute::cast(&a, &A::Int64).unwrap()
                } else {
                    a
                }
            };
            let (got, want) = (plain(got), plain(want));
            let cell = |a: &ArrayRef, i| {
                (!a.is_null(i))
                    .then(|| arrow::util::display::array_value_to_string(a, i).unwrap())
                    .filter(|t| !t.is_empty())
            };
            for i in 0..4 {
                assert_eq!(cell(&got, i), cell(&want, i), "{} row {i}", f.name);
            }
        }
    }
}

#[test]
fn more_partitions_than_open_files_make_one_file_each() {
    let s = schema(&[("p", P::Integer), ("v", P::Integer)]);
    let t = Folder::new();
    let spec = WriteSpec {
        max_open_partitions: 2,
        ..WriteSpec::new(s.clone(), vec!["P".into()], 0)
    };
    let batches: Vec<_> = (0..20)
        .map(|k| {
            let p: Int32Array = (0..20_000).map(|i| i % 10).collect();
            let v: Int32Array = (0..20_000).map(|i| i + k * 20_000).collect();
            batch(vec![("p", Arc::new(p)), ("v", Arc::new(v))])
        })
        .collect();
    let adds = t.write_spec(spec, &batches).unwrap();
    assert_eq!(adds.len(), 10);
    for a in &adds {
        assert_eq!(stats(a)["numRecords"], 40_000);
    }
    let back = t.read_all(ReadSpec::new(s, vec!["p".into()]), &adds).unwrap();
    assert_eq!(back.num_rows(), 400_000);
}

#[test]
fn rows_of_a_batch_that_several_cores_sort_keep_their_order() {
    let s = schema(&[("p", P::Long), ("q", P::String), ("v", P::Integer)]);
    // Partitions in places of several shares, of one share alone, and of the last row.
    let n = 300_001;
    let part_of = |i: i32| match i {
        70_000..70_010 => -1,
        300_000 => -2,
        _ => i64::from(i.wrapping_mul(7_919) % 11),
    };
    let p: Int64Array = (0..n).map(part_of).collect();
    let q = StringArray::from_iter_values((0..n).map(|i| format!("q{}", i % 2)));
    let v: Int32Array = (0..n).collect();
    let rows = batch(vec![("p", Arc::new(p)), ("q", Arc::new(q)), ("v", Arc::new(v))]);
    for by in [vec!["p".to_owned()], vec!["p".to_owned(), "q".to_owned()]] {
        let t = Folder::new();
        let spec = WriteSpec::new(s.clone(), by.clone(), 0);
        let adds = t.write_spec(spec, std::slice::from_ref(&rows)).unwrap();
        let mut seen = Vec::new();
        for add in &adds {
            let back = t
                .read_all(ReadSpec::new(s.clone(), by.clone()), std::slice::from_ref(add))
                .unwrap();
            let (p, v) = (
                back.column(0).as_primitive(),
                back.column(2).as_primitive::<Int32Type>(),
            );
            let p: &Int64Array = p;
            assert!(v.values().is_sorted(), "{}", add.path);
            assert!(v.values().iter().zip(p.values()).all(|(v, p)| part_of(*v) == *p));
            seen.extend_from_slice(v.values());
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..n), "{by:?}");
    }
}

/// The footer's reader of a data file.
fn opened(t: &Folder, add: &Add) -> ParquetRecordBatchReaderBuilder<std::fs::File> {
    ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(t.path(&add.path)).unwrap()).unwrap()
}

fn group_rows(t: &Folder, add: &Add) -> Vec<i64> {
    let groups = opened(t, add);
    groups.metadata().row_groups().iter().map(|g| g.num_rows()).collect()
}

#[test]
fn a_row_group_has_a_quarter_of_a_million_rows_unless_another_size_is_set() {
    let s = schema(&[("v", P::Integer)]);
    let b = batch(vec![("v", Arc::new(Int32Array::from_iter_values(0..600_000)))]);
    let t = Folder::new();
    let spec = || WriteSpec::new(s.clone(), vec![], 0);
    let by_default = t.write_spec(spec(), std::slice::from_ref(&b)).unwrap();
    assert_eq!(group_rows(&t, &by_default[0]), [262_144, 262_144, 75_712]);
    let larger = WriteSpec {
        row_group_rows: 500_000,
        ..spec()
    };
    let larger = t.write_spec(larger, &[b]).unwrap();
    assert_eq!(group_rows(&t, &larger[0]), [500_000, 100_000]);
}

#[test]
fn files_and_row_groups_end_at_their_sizes() {
    let s = schema(&[("v", P::Long), ("t", P::String)]);
    let n = 500_000i64;
    let v: Int64Array = (0..n)
        .map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64))
        .collect();
    let text = StringArray::from_iter_values((0..n).map(|i| format!("row {i}")));
    let b = batch(vec![("v", Arc::new(v)), ("t", Arc::new(text))]);
    let t = Folder::new();
    let spec = WriteSpec {
        target_file_size_bytes: 1 << 20,
        row_group_rows: 100_000,
        ..WriteSpec::new(s.clone(), vec![], 0)
    };
    let adds = t.write_spec(spec, std::slice::from_ref(&b)).unwrap();
    assert!(adds.len() >= 3, "{}", adds.len());
    let rows: u64 = adds.iter().map(|a| stats(a)["numRecords"].as_u64().unwrap()).sum();
    assert_eq!(rows, n as u64);
    assert!(adds.windows(2).all(|w| w[0].path < w[1].path), "in order");
    let groups: Vec<_> = adds.iter().flat_map(|add| group_rows(&t, add)).collect();
    assert!(groups.iter().all(|rows| *rows <= 100_000), "{groups:?}");
    assert!(groups.contains(&100_000), "{groups:?}");
    for small in [1000, 65_536] {
        let back = t
            .read_all(
                ReadSpec {
                    batch_rows: small,
                    ..ReadSpec::new(s.clone(), vec![])
                },
                &adds,
            )
            .unwrap();
        assert_eq!(back, b, "in the order written");
    }
}

#[test]
fn no_rows_make_no_file() {
    let s = schema(&[("v", P::Long)]);
    let t = Folder::new();
    assert!(t.write(&s, &[], &[]).unwrap().is_empty());
    let empty = batch(vec![("v", Arc::new(Int64Array::from(Vec::<i64>::new())))]);
    assert!(t.write(&s, &[], &[empty]).unwrap().is_empty());
    assert!(t.keys().is_empty());
}

#[test]
fn abort_leaves_nothing() {
    let s = schema(&[("p", P::Integer), ("v", P::Integer)]);
    let p: Int32Array = (0..100_000).map(|i| i / 20_000).collect();
    let b = batch(vec![("p", Arc::new(p.clone())), ("v", Arc::new(p))]);
    let t = Folder::new();
    deltaplane_store::block_on(async {
        let spec = WriteSpec {
            target_file_size_bytes: 1,
            ..WriteSpec::new(s, vec!["p".into()], 0)
        };
        let mut w = FileWriter::new(t.store.clone(), spec).unwrap();
        w.write(b.clone()).await.unwrap();
        w.write(b).await.unwrap();
        w.abort().await;
    });
    assert!(t.keys().is_empty(), "{:?}", t.keys());
}

#[test]
fn void_columns_are_not_written() {
    // P181
    let s = json_schema(
        r#"{"type":"struct","fields":[{"name":"n","type":"void","nullable":true,"metadata":{}},{"name":"v","type":"integer","nullable":true,"metadata":{}},
        {"name":"s","type":{"type":"struct","fields":[{"name":"n","type":"void","nullable":true,"metadata":{}},{"name":"k","type":"integer","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]}"#,
    );
    let input = batch(vec![("v", Arc::new(Int32Array::from(vec![1, 2])))]);
    let b = cast_batch(&input, &s).unwrap();
    let t = Folder::new();
    let adds = t.write(&s, &[], std::slice::from_ref(&b)).unwrap();
    let file = std::fs::File::open(t.path(&adds[0].path)).unwrap();
    let parquet = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(
        parquet
            .parquet_schema()
            .columns()
            .iter()
            .map(|c| c.path().string())
            .collect::<Vec<_>>(),
        ["v", "s.k"]
    );
    assert_eq!(t.read_all(ReadSpec::new(s, vec![]), &adds).unwrap().num_rows(), 2);
    for hopeless in [
        r#"{"type":"struct","fields":[{"name":"n","type":"void","nullable":true,"metadata":{}}]}"#,
        r#"{"type":"struct","fields":[{"name":"n","type":{"type":"array","elementType":"void","containsNull":true},"nullable":true,"metadata":{}}]}"#,
        r#"{"type":"struct","fields":[]}"#,
    ] {
        let e = t.write(&json_schema(hopeless), &[], &[]).unwrap_err();
        assert_eq!(e.kind(), Kind::SchemaMismatch);
    }
}

#[test]
fn columns_of_void_inside_are_left_out_and_read_as_nulls() {
    // P181
    let s = json_schema(
        r#"{"type":"struct","fields":[{"name":"v","type":"integer","nullable":true,"metadata":{}},
        {"name":"l","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{}},{"name":"n","type":"void","nullable":true,"metadata":{}}]},"containsNull":true},"nullable":true,"metadata":{}},
        {"name":"m","type":{"type":"map","keyType":"string","valueType":"void","valueContainsNull":true},"nullable":true,"metadata":{}},
        {"name":"s","type":{"type":"struct","fields":[{"name":"l","type":{"type":"array","elementType":"void","containsNull":true},"nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]}"#,
    );
    let b = cast_batch(&batch(vec![("v", Arc::new(Int32Array::from(vec![1, 2])))]), &s).unwrap();
    let t = Folder::new();
    let adds = t.write(&s, &[], std::slice::from_ref(&b)).unwrap();
    let file = std::fs::File::open(t.path(&adds[0].path)).unwrap();
    let parquet = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    assert_eq!(parquet.parquet_schema().columns().len(), 1);
    let rows = t.read_all(ReadSpec::new(s, vec![]), &adds).unwrap();
    assert_eq!(
        rows.columns()
            .iter()
            .map(|c| c.logical_null_count())
            .collect::<Vec<_>>(),
        [0, 2, 2, 2]
    );
}

#[test]
fn wrong_partition_columns_are_named() {
    // P173
    let s = schema(&[("p", P::Integer), ("v", P::Integer)]);
    let t = Folder::new();
    for (columns, named) in [
        (vec!["q"], "`q`"),
        (vec!["p", "v"], "all columns"),
        (vec!["p", "P"], "twice"),
    ] {
        let e = t.write(&s, &columns, &[]).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert!(e.message().contains(named), "{e}");
    }
    let (nested, _) = nested();
    assert!(t.write(&nested, &["s"], &[]).unwrap_err().message().contains("`s`"));
}

#[test]
fn files_have_the_canonical_parquet_types() {
    // P102, section 4: optional fields, integers for small decimals, INT64 microseconds,
    // three-level lists
    let (s, b) = all_primitives();
    let t = Folder::new();
    let adds = t.write(&s, &[], &[b]).unwrap();
    let (s2, b2) = nested();
    let nested = t.write(&s2, &[], &[b2]).unwrap();
    let open = |a: &Add| opened(&t, a);
    let file = open(&adds[0]);
    let physical = |name: &str| {
        let columns = file.parquet_schema().columns();
        columns.iter().find(|c| c.name() == name).unwrap().physical_type()
    };
    use parquet::basic::Type::*;
    for (name, t) in [
        ("ts", INT64),
        ("tn", INT64),
        ("dt", INT32),
        ("d9", INT32),
        ("d18", INT64),
        ("d38", FIXED_LEN_BYTE_ARRAY),
        ("y", INT32),
    ] {
        assert_eq!(physical(name), t, "{name}");
    }
    assert!(
        file.parquet_schema()
            .root_schema()
            .get_fields()
            .iter()
            .all(|f| f.is_optional())
    );
    assert!(
        file.metadata()
            .file_metadata()
            .created_by()
            .unwrap()
            .starts_with("deltaplane version ")
    );
    assert!(file.metadata().file_metadata().key_value_metadata().is_none());
    assert!(file.metadata().row_group(0).column(0).column_index_offset().is_some());
    let paths: Vec<_> = open(&nested[0])
        .parquet_schema()
        .columns()
        .iter()
        .map(|c| c.path().string())
        .collect();
    assert_eq!(
        paths,
        [
            "s.a",
            "s.t.x",
            "l.list.element.k",
            "m.key_value.key",
            "m.key_value.value.list.element"
        ]
    );
}

#[test]
fn twenty_thousand_columns() {
    let fields: Vec<_> = (0..20_000)
        .map(|i| Field::new(format!("c{i}"), P::Integer, true))
        .collect();
    let s = Arc::new(StructType::new(fields));
    let array: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let b = RecordBatch::try_new(crate::types::row_schema(s.fields()), vec![array; 20_000]).unwrap();
    let t = Folder::new();
    let adds = t.write(&s, &[], std::slice::from_ref(&b)).unwrap();
    assert_eq!(stats(&adds[0])["nullCount"].as_object().unwrap().len(), 32, "P161");
    assert_eq!(t.read_all(ReadSpec::new(s, vec![]), &adds).unwrap(), b);
    assert_eq!(file_read(&adds[0]).path, adds[0].path);
}

#[test]
fn more_small_files_than_large_ones_end_at_once() {
    let closing = |files: usize, bytes: u64| -> Vec<_> {
        let on_its_way = || OnItsWay {
            bytes,
            add: deltaplane_store::handle().spawn(async { Ok(Add::default()) }),
        };
        std::iter::repeat_with(on_its_way).take(files).collect()
    };
    assert!(has_room(&closing(MAX_SMALL_CLOSING - 1, 1 << 10), 1 << 10));
    assert!(!has_room(&closing(MAX_SMALL_CLOSING, 1 << 10), 1 << 10));
    assert!(has_room(&closing(MAX_CLOSING - 1, 100 << 20), 100 << 20));
    assert!(!has_room(&closing(MAX_CLOSING, 100 << 20), 1 << 10));
    assert!(!has_room(&closing(MAX_CLOSING, 1 << 10), SMALL_CLOSING_BYTES));
}
