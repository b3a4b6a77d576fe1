//! Files of other writers, projections, missing columns, damage, predicates.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType as A, Int32Type, TimestampMicrosecondType};
use deltaplane_error::Kind;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::Primitive as P;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type as PInt32, Int64Type as PInt64, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::WriteSpec;
use crate::testing::{Folder, batch, file_read, json_schema, schema, text};

type WriteColumn = Box<dyn Fn(&mut SerializedColumnWriter<'_>)>;

/// A file of this Parquet schema, column by column.
fn raw(message: &str, columns: Vec<WriteColumn>) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(message).unwrap());
    let mut out = Vec::new();
    let mut file = SerializedFileWriter::new(&mut out, schema, Arc::new(WriterProperties::new())).unwrap();
    let mut group = file.next_row_group().unwrap();
    for write in columns {
        let mut column = group.next_column().unwrap().unwrap();
        write(&mut column);
        column.close().unwrap();
    }
    group.close().unwrap();
    file.close().unwrap();
    out
}

fn all(t: &Folder, s: &Arc<StructType>, file: FileRead) -> Result<RecordBatch> {
    let spec = ReadSpec::new(s.clone(), vec![]);
    let schema = spec.output_schema()?;
    let batches = t.read(spec, vec![file])?;
    Ok(arrow::compute::concat_batches(&schema, &batches).unwrap())
}

fn int96(day_of_epoch: i64, nanos: u64) -> Int96 {
    let mut v = Int96::new();
    v.set_data(nanos as u32, (nanos >> 32) as u32, (day_of_epoch + 2_440_588) as u32);
    v
}

#[test]
fn int96_is_exact_from_year_1_to_9999() {
    // P182, section 9 of the design: as nanoseconds these wrap
    let day = 86_400_000_000i64;
    let values = vec![
        int96(-719_162, 0),
        int96(2_932_896, 86_399_999_999_000),
        int96(-1, 1_001_000),
        int96(0, 0),
    ];
    let bytes = raw(
        "message m { optional int96 t; optional group s { optional int96 t; } }",
        vec![
            Box::new({
                let v = values.clone();
                move |c| {
                    c.typed::<Int96Type>().write_batch(&v, Some(&[1; 4]), None).unwrap();
                }
            }),
            Box::new(move |c| {
                c.typed::<Int96Type>()
                    .write_batch(&values, Some(&[2; 4]), None)
                    .unwrap();
            }),
        ],
    );
    let t = Folder::new();
    let s = json_schema(
        r#"{"type":"struct","fields":[{"name":"t","type":"timestamp","nullable":true,"metadata":{}},{"name":"s","type":{"type":"struct","fields":[{"name":"t","type":"timestamp_ntz","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]}"#,
    );
    let b = all(&t, &s, t.put("f.parquet", &bytes)).unwrap();
    let expected = [-719_162 * day, 2_932_896 * day + 86_399_999_999, -day + 1_001, 0];
    assert_eq!(
        b.column(0).as_primitive::<TimestampMicrosecondType>().values(),
        &expected
    );
    let nested = b.column(1).as_struct().column(0).clone();
    assert_eq!(nested.as_primitive::<TimestampMicrosecondType>().values(), &expected);
}

#[test]
fn physical_variants_become_the_tables_types() {
    // P182: timestamps of any unit, decimals as integers or bytes, unannotated text, widened
    // integers
    let bytes = raw(
        "message m { required int64 ms (TIMESTAMP(MILLIS,true)); required int64 ns (TIMESTAMP(NANOS,false));
          required int32 d1 (DECIMAL(9,2)); required int64 d2 (DECIMAL(18,2)); required binary d3 (DECIMAL(20,2));
          required binary txt; required int32 wide; required int32 small; }",
        vec![
            Box::new(|c| {
                c.typed::<PInt64>().write_batch(&[-1, 5], None, None).unwrap();
            }),
            Box::new(|c| {
                c.typed::<PInt64>().write_batch(&[-1, 5_999], None, None).unwrap();
            }),
            Box::new(|c| {
                c.typed::<PInt32>().write_batch(&[-150, 5], None, None).unwrap();
            }),
            Box::new(|c| {
                c.typed::<PInt64>().write_batch(&[-150, 5], None, None).unwrap();
            }),
            Box::new(|c| {
                c.typed::<ByteArrayType>()
                    .write_batch(
                        &[ByteArray::from(vec![0xff, 0x6a]), ByteArray::from(vec![5])],
                        None,
                        None,
                    )
                    .unwrap();
            }),
            Box::new(|c| {
                c.typed::<ByteArrayType>()
                    .write_batch(&[ByteArray::from("a"), ByteArray::from("é")], None, None)
                    .unwrap();
            }),
            Box::new(|c| {
                c.typed::<PInt32>().write_batch(&[i32::MIN, 1], None, None).unwrap();
            }),
            Box::new(|c| {
                c.typed::<PInt32>().write_batch(&[-128, 127], None, None).unwrap();
            }),
        ],
    );
    let d = |p| P::Decimal { precision: p, scale: 2 };
    let s = schema(&[
        ("ms", P::Timestamp),
        ("ns", P::TimestampNtz),
        ("d1", d(9)),
        ("d2", d(18)),
        ("d3", d(20)),
        ("txt", P::String),
        ("wide", P::Long),
        ("small", P::Byte),
    ]);
    let t = Folder::new();
    let b = all(&t, &s, t.put("f.parquet", &bytes)).unwrap();
    assert_eq!(
        b.column(0).as_primitive::<TimestampMicrosecondType>().values(),
        &[-1000, 5000]
    );
    assert_eq!(
        b.column(1).as_primitive::<TimestampMicrosecondType>().values(),
        &[-1, 5]
    );
    for i in 2..5 {
        assert_eq!(
            b.column(i).as_primitive::<arrow::datatypes::Decimal128Type>().values(),
            &[-150, 5],
            "{i}"
        );
    }
    assert_eq!(
        text(&b.project(&[5, 6, 7]).unwrap()),
        ["a | -2147483648 | -128", "é | 1 | 127"]
    );
}

#[test]
fn two_level_lists_and_embedded_arrow_types() {
    // P055, P182; what a writer embedded about its own Arrow types doesn't matter
    let bytes = raw(
        "message m { optional group l (LIST) { repeated int32 array; } }",
        vec![Box::new(|c| {
            c.typed::<PInt32>()
                .write_batch(&[1, 2, 3], Some(&[2, 2, 0, 2, 1]), Some(&[0, 1, 0, 0, 0]))
                .unwrap();
        })],
    );
    let s = json_schema(
        r#"{"type":"struct","fields":[{"name":"l","type":{"type":"array","elementType":"integer","containsNull":true},"nullable":true,"metadata":{}}]}"#,
    );
    let t = Folder::new();
    assert_eq!(
        text(&all(&t, &s, t.put("f.parquet", &bytes)).unwrap()),
        ["[1, 2]", "", "[3]", "[]"]
    );
    let dict: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("a")].into_iter().collect();
    let b = batch(vec![
        ("d", Arc::new(dict)),
        (
            "v",
            Arc::new(StringViewArray::from(vec!["x", "a string longer than twelve", "z"])),
        ),
        ("L", Arc::new(LargeStringArray::from(vec!["x", "y", "z"]))),
    ]);
    let s = schema(&[("d", P::String), ("v", P::String), ("l", P::String)]);
    let b = all(&t, &s, t.put_parquet("g.parquet", &b)).unwrap();
    assert!(b.columns().iter().all(|c| *c.data_type() == A::Utf8));
    assert_eq!(
        text(&b),
        ["a | x | x", " | a string longer than twelve | y", "a | z | z"]
    );
}

#[test]
fn columns_are_matched_by_name() {
    // P182: missing is null, extra is ignored, nested too; exact name before one of another case
    let inner = StructArray::from(vec![
        (
            Arc::new(arrow::datatypes::Field::new("B", A::Int32, true)),
            Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef,
        ),
        (
            Arc::new(arrow::datatypes::Field::new("extra", A::Int32, true)),
            Arc::new(Int32Array::from(vec![9, 9])) as ArrayRef,
        ),
    ]);
    let hidden = StructArray::from(vec![(
        Arc::new(arrow::datatypes::Field::new("gone", A::Int32, true)),
        Arc::new(Int32Array::from(vec![9, 9])) as ArrayRef,
    )]);
    let hidden = StructArray::new(
        hidden.fields().clone(),
        hidden.columns().to_vec(),
        Some(vec![true, false].into()),
    );
    let file = batch(vec![
        ("extra", Arc::new(Int32Array::from(vec![7, 7]))),
        ("A", Arc::new(Int32Array::from(vec![5, 6]))),
        ("a", Arc::new(Int32Array::from(vec![3, 4]))),
        ("S", Arc::new(inner)),
        ("h", Arc::new(hidden)),
    ]);
    let int = |n: &str| format!(r#"{{"name":"{n}","type":"integer","nullable":true,"metadata":{{}}}}"#);
    let group = |n: &str, f: &[String]| {
        format!(
            r#"{{"name":"{n}","type":{{"type":"struct","fields":[{}]}},"nullable":true,"metadata":{{}}}}"#,
            f.join(",")
        )
    };
    let s = json_schema(&format!(
        r#"{{"type":"struct","fields":[{}]}}"#,
        [
            group("s", &[int("new"), int("b")]),
            int("a"),
            int("missing"),
            group("h", &[int("new")])
        ]
        .join(",")
    ));
    let t = Folder::new();
    let file = t.put_parquet("f.parquet", &file);
    let b = all(&t, &s, file.clone()).unwrap();
    assert_eq!(text(&b), ["{new: , b: 1} | 3 |  | {new: }", "{new: , b: 2} | 4 |  | "]);
    let spec = ReadSpec {
        columns: Some(vec!["missing".into()]),
        ..ReadSpec::new(s, vec![])
    };
    let b = t.read(spec, vec![file]).unwrap();
    assert_eq!(b.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
}

#[test]
fn the_logs_partition_values_win() {
    // P156, P173: whatever the file holds
    let t = Folder::new();
    let mut file = t.put_parquet(
        "f.parquet",
        &batch(vec![
            ("P", Arc::new(Int32Array::from(vec![1, 2]))),
            ("v", Arc::new(Int32Array::from(vec![3, 4]))),
        ]),
    );
    file.partition_values = BTreeMap::from([("p".to_owned(), Some("-7".to_owned()))]);
    let s = schema(&[("p", P::Integer), ("v", P::Integer)]);
    let spec = ReadSpec::new(s.clone(), vec!["p".into()]);
    let b = t.read(spec.clone(), vec![file.clone()]).unwrap();
    assert_eq!(text(&b[0]), ["-7 | 3", "-7 | 4"]);
    file.partition_values = BTreeMap::from([("p".to_owned(), Some("x".to_owned()))]);
    let e = t.read(spec, vec![file]).unwrap_err();
    assert_eq!(e.kind(), Kind::CorruptLog, "P170");
    assert!(e.message().contains("`p`") && e.path() == Some("f.parquet"), "{e}");
}

#[test]
fn counting_decodes_nothing() {
    let t = Folder::new();
    let s = schema(&[("p", P::Integer), ("v", P::Long)]);
    let v: Int64Array = (0..200_000).collect();
    let p: Int32Array = (0..200_000).map(|i| i % 2).collect();
    let adds = t
        .write(&s, &["p"], &[batch(vec![("p", Arc::new(p)), ("v", Arc::new(v))])])
        .unwrap();
    // Damage the pages: only the footer may be read.
    for a in &adds {
        let path = t.path(&file_read(a).path);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[4..1000].fill(0xff);
        std::fs::write(path, bytes).unwrap();
    }
    for columns in [vec![], vec!["p".to_owned()]] {
        let spec = ReadSpec {
            columns: Some(columns),
            ..ReadSpec::new(s.clone(), vec!["p".into()])
        };
        let rows = t
            .read(spec, adds.iter().map(file_read).collect())
            .unwrap()
            .iter()
            .map(RecordBatch::num_rows)
            .sum::<usize>();
        assert_eq!(rows, 200_000);
    }
    let e = t.read_all(ReadSpec::new(s, vec!["p".into()]), &adds).unwrap_err();
    assert_eq!(e.kind(), Kind::CorruptFile);
}

#[test]
fn damage_is_named() {
    let t = Folder::new();
    let s = schema(&[("v", P::Long)]);
    let v: Int64Array = (0..10_000).collect();
    let good = t.put_parquet("good.parquet", &batch(vec![("v", Arc::new(v))]));
    let bytes = std::fs::read(t.path("good.parquet")).unwrap();
    let missing = FileRead {
        path: "gone.parquet".into(),
        size_bytes: 10,
        ..FileRead::default()
    };
    let e = all(&t, &s, missing).unwrap_err();
    assert_eq!((e.kind(), e.path()), (Kind::FileMissing, Some("gone.parquet")));
    assert!(e.message().contains("restore"), "{e}");
    for (name, bytes) in [
        ("empty", &[][..]),
        ("garbage", &b"this is no parquet file at all"[..]),
        ("cut", &bytes[..bytes.len() / 2]),
        ("tail", &bytes[bytes.len() - 20..]),
    ] {
        let e = all(&t, &s, t.put(name, bytes)).unwrap_err();
        assert_eq!((e.kind(), e.path()), (Kind::CorruptFile, Some(name)), "{e}");
    }
    // Every single damaged byte gives rows or a typed error, never a panic.
    let small: Int64Array = (0..3).collect();
    t.put_parquet("small", &batch(vec![("v", Arc::new(small))]));
    let bytes = std::fs::read(t.path("small")).unwrap();
    for i in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[i] ^= 0xff;
        if let Err(e) = all(&t, &s, t.put("bad", &bad)) {
            assert_eq!(e.kind(), Kind::CorruptFile, "byte {i}: {e:?}");
        }
    }
    assert_eq!(all(&t, &s, good).unwrap().num_rows(), 10_000);
}

#[test]
fn a_type_that_isnt_the_columns_is_named() {
    // P182
    let t = Folder::new();
    let file = t.put_parquet("f", &batch(vec![("a", Arc::new(StringArray::from(vec!["x"])))]));
    let e = all(&t, &schema(&[("a", P::Long)]), file).unwrap_err();
    assert_eq!(e.kind(), Kind::CorruptFile);
    assert!(
        e.message().contains("`a`") && e.message().contains("long") && e.message().contains("Utf8"),
        "{e}"
    );
    let file = t.put_parquet("g", &batch(vec![("a", Arc::new(Int64Array::from(vec![1])))]));
    assert_eq!(
        all(&t, &schema(&[("a", P::Integer)]), file).unwrap_err().kind(),
        Kind::CorruptFile
    );
}

#[test]
fn the_first_error_ends_the_scan() {
    let t = Folder::new();
    let s = schema(&[("v", P::Long)]);
    let good = t.put_parquet("a", &batch(vec![("v", Arc::new(Int64Array::from(vec![1])))]));
    let bad = t.put("b", b"bad");
    let mut batches = {
        use futures::{StreamExt, stream};
        let files = stream::iter([Ok(good.clone()), Ok(bad), Ok(good)]).boxed();
        crate::scan(t.store.clone(), files, Arc::new(ReadSpec::new(s, vec![])), 2)
    };
    let seen = deltaplane_store::block_on(async {
        use futures::StreamExt;
        let mut seen = Vec::new();
        while let Some(b) = batches.next().await {
            seen.push(b.is_ok());
        }
        seen
    });
    assert_eq!(seen, [true, false]);
}

#[test]
fn wrong_projections_are_named() {
    let s = schema(&[("v", P::Long)]);
    for (columns, named) in [(vec!["w"], "`w`"), (vec!["v", "V"], "twice")] {
        let columns = Some(columns.into_iter().map(str::to_owned).collect());
        let e = ReadSpec {
            columns,
            ..ReadSpec::new(s.clone(), vec![])
        }
        .output_schema()
        .unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert!(e.message().contains(named), "{e}");
    }
}

fn predicate(json: &str, s: &StructType) -> Predicate {
    Predicate::bind(&Expr::from_json(json).unwrap(), s).unwrap()
}

fn compare(column: &[&str], cmp: &str, value: &str, t: &str) -> String {
    serde_json::json!({"op": "compare", "cmp": cmp, "left": {"op": "column", "name": column}, "right": {"op": "literal", "value": value, "type": t}}).to_string()
}

#[test]
fn predicates_filter_exactly_and_their_columns_go() {
    let t = Folder::new();
    let s = json_schema(
        r#"{"type":"struct","fields":[
        {"name":"p","type":"integer","nullable":true,"metadata":{}},{"name":"v","type":"long","nullable":true,"metadata":{}},
        {"name":"s","type":{"type":"struct","fields":[{"name":"big","type":"string","nullable":true,"metadata":{}},{"name":"k","type":"long","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]}"#,
    );
    let n = 1000i64;
    let k: Int64Array = (0..n).map(|i| (i % 7 != 0).then_some(i)).collect();
    let big = StringArray::from_iter_values((0..n).map(|i| format!("b{i}")));
    let A::Struct(f) = crate::types::row_schema(s.fields()).field(2).data_type().clone() else {
        panic!()
    };
    let st = StructArray::new(f, vec![Arc::new(big), Arc::new(k)], None);
    let v: Int64Array = (0..n).collect();
    let p: Int32Array = (0..n as i32).map(|i| i % 2).collect();
    let b = batch(vec![("p", Arc::new(p)), ("v", Arc::new(v)), ("s", Arc::new(st))]);
    let spec = WriteSpec {
        row_group_rows: 100,
        ..WriteSpec::new(s.clone(), vec!["p".into()], 0)
    };
    let adds = t.write_spec(spec, &[b]).unwrap();
    let read = |json: &str| {
        let spec = ReadSpec {
            columns: Some(vec!["v".into()]),
            predicate: Some(predicate(json, &s)),
            ..ReadSpec::new(s.clone(), vec!["p".into()])
        };
        let b = t.read_all(spec, &adds).unwrap();
        assert_eq!(b.num_columns(), 1);
        let mut rows = b
            .column(0)
            .as_primitive::<arrow::datatypes::Int64Type>()
            .values()
            .to_vec();
        rows.sort_unstable();
        rows
    };
    assert_eq!(
        read(&compare(&["s", "K"], ">=", "995", "long")),
        [995, 996, 997, 998, 999]
    );
    assert_eq!(read(&compare(&["s", "k"], "=", "14", "long")), [0i64; 0]);
    let both = format!(
        r#"{{"op":"and","args":[{},{}]}}"#,
        compare(&["p"], "=", "1", "integer"),
        compare(&["v"], "<", "6", "long")
    );
    assert_eq!(read(&both), [1, 3, 5]);
    let none = ReadSpec {
        columns: Some(vec![]),
        predicate: Some(predicate(&compare(&["v"], "<", "10", "long"), &s)),
        ..ReadSpec::new(s.clone(), vec!["p".into()])
    };
    assert_eq!(
        t.read(none, adds.iter().map(file_read).collect())
            .unwrap()
            .iter()
            .map(RecordBatch::num_rows)
            .sum::<usize>(),
        10
    );
}

#[test]
fn row_groups_that_cannot_match_are_not_read() {
    let t = Folder::new();
    let s = schema(&[("v", P::Long)]);
    let v: Int64Array = (0..1000).collect();
    let spec = WriteSpec {
        row_group_rows: 100,
        ..WriteSpec::new(s.clone(), vec![], 0)
    };
    let adds = t.write_spec(spec, &[batch(vec![("v", Arc::new(v))])]).unwrap();
    let file = file_read(&adds[0]);
    let path = t.path(&file.path);
    let footer =
        parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap())
            .unwrap();
    let (start, length) = footer.metadata().row_group(3).column(0).byte_range();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[start as usize..(start + length) as usize].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let read = |cmp: &str, value: &str| {
        let p = predicate(&compare(&["v"], cmp, value, "long"), &s);
        t.read(
            ReadSpec {
                predicate: Some(p),
                ..ReadSpec::new(s.clone(), vec![])
            },
            vec![file.clone()],
        )
    };
    assert_eq!(
        read("<", "300")
            .unwrap()
            .iter()
            .map(RecordBatch::num_rows)
            .sum::<usize>(),
        300
    );
    assert_eq!(read("=", "301").unwrap_err().kind(), Kind::CorruptFile);
}

/// A file of one row group with pages of `rows` rows, and its description for reading.
fn paged(t: &Folder, b: &RecordBatch, rows: usize) -> FileRead {
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(rows)
        .set_write_batch_size(rows)
        .build();
    let file = std::fs::File::create(t.path("paged.parquet")).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, b.schema(), Some(properties)).unwrap();
    writer.write(b).unwrap();
    writer.close().unwrap();
    FileRead {
        path: "paged.parquet".into(),
        ..FileRead::default()
    }
}

#[test]
fn pages_that_cannot_match_are_not_read() {
    let t = Folder::new();
    let s = schema(&[("v", P::Long), ("w", P::Long)]);
    let v: Int64Array = (0..1000).collect();
    let w: Int64Array = (0..1000).map(|i| -i).collect();
    let file = paged(&t, &batch(vec![("v", Arc::new(v)), ("w", Arc::new(w))]), 50);
    let path = t.path(&file.path);
    let mut bytes = std::fs::read(&path).unwrap();
    let footer = parquet::file::metadata::ParquetMetaDataReader::new()
        .with_page_index_policy(parquet::file::metadata::PageIndexPolicy::Required)
        .parse_and_finish(&std::fs::File::open(&path).unwrap())
        .unwrap();
    // The pages of rows 500 to 549 of both columns.
    for column in 0..2 {
        let page = &footer.page_index().unwrap().page_locations(0, column).unwrap()[10];
        assert_eq!(page.first_row_index, 500);
        bytes[page.offset as usize..page.offset as usize + page.compressed_page_size as usize].fill(0xff);
    }
    std::fs::write(&path, bytes).unwrap();
    let read = |json: &str| {
        let spec = ReadSpec {
            predicate: Some(predicate(json, &s)),
            ..ReadSpec::new(s.clone(), vec![])
        };
        let rows = t.read(spec, vec![file.clone()])?;
        Ok::<_, Error>(rows.iter().map(RecordBatch::num_rows).sum::<usize>())
    };
    let or = |a: &str, b: &str| format!(r#"{{"op":"or","args":[{a},{b}]}}"#);
    assert_eq!(read(&compare(&["v"], "<", "500", "long")).unwrap(), 500);
    assert_eq!(read(&compare(&["w"], "<=", "-550", "long")).unwrap(), 450);
    assert_eq!(
        read(&or(
            &compare(&["v"], "=", "7", "long"),
            &compare(&["w"], "=", "-777", "long")
        ))
        .unwrap(),
        2
    );
    assert_eq!(
        read(&compare(&["v"], "=", "500", "long")).unwrap_err().kind(),
        Kind::CorruptFile
    );
}

mod properties {
    use super::*;
    use deltaplane_protocol::prune::Pruner;
    use proptest::prelude::*;

    /// Columns of a table with awkward values.
    type Row = (Option<i32>, Option<f64>, Option<String>, Option<i64>, Option<i64>);

    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let double = prop_oneof![Just(f64::NAN), Just(-0.0), Just(0.0), Just(f64::INFINITY), -3.0..3.0f64];
        let row = (
            proptest::option::of(-3..3i32),
            proptest::option::of(double),
            proptest::option::of("[ab\u{10ffff}]{0,4}"),
            proptest::option::of(-3000..3000i64),
            proptest::option::of(-300..300i64),
        );
        proptest::collection::vec(row, 1..60)
    }

    fn leaf() -> impl Strategy<Value = String> {
        let cmp = prop_oneof![
            Just("="),
            Just("!="),
            Just("<"),
            Just("<="),
            Just(">"),
            Just(">="),
            Just("<=>")
        ];
        let value = prop_oneof![
            (-3..3i32).prop_map(|v| (vec!["i"], v.to_string(), "integer")),
            prop_oneof![
                Just("NaN".to_owned()),
                Just("0.0".to_owned()),
                Just("-0.0".to_owned()),
                Just("1.5".to_owned()),
                Just("Infinity".to_owned())
            ]
            .prop_map(|v| (vec!["d"], v, "double")),
            "[ab\u{10ffff}]{0,4}".prop_map(|v| (vec!["s"], v, "string")),
            (-3000..3000i64).prop_map(|v| (
                vec!["t"],
                chrono::DateTime::from_timestamp_micros(v)
                    .unwrap()
                    .format("%Y-%m-%dT%H:%M:%S%.6fZ")
                    .to_string(),
                "timestamp"
            )),
            (-300..300i64).prop_map(|v| (
                vec!["n", "m"],
                format!("{}{}.{:02}", if v < 0 { "-" } else { "" }, v.abs() / 100, v.abs() % 100),
                "decimal(12,2)"
            )),
        ];
        (cmp, value).prop_map(|(cmp, (column, value, t))| compare(&column, cmp, &value, t))
    }

    fn tree() -> impl Strategy<Value = String> {
        leaf().prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 2..3)
                    .prop_map(|a| format!(r#"{{"op":"and","args":[{}]}}"#, a.join(","))),
                proptest::collection::vec(inner.clone(), 2..3)
                    .prop_map(|a| format!(r#"{{"op":"or","args":[{}]}}"#, a.join(","))),
                inner.prop_map(|a| format!(r#"{{"op":"not","arg":{a}}}"#)),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        /// Neither files (by the statistics we write) nor row groups and pages (by Parquet's) that
        /// hold a match are skipped.
        #[test]
        fn skipping_never_loses_a_row(rows in rows(), json in tree(), groups in 1..20usize, batch_rows in 1..20usize) {
            let s = json_schema(r#"{"type":"struct","fields":[
                {"name":"i","type":"integer","nullable":true,"metadata":{}},{"name":"d","type":"double","nullable":true,"metadata":{}},
                {"name":"s","type":"string","nullable":true,"metadata":{}},{"name":"t","type":"timestamp","nullable":true,"metadata":{}},
                {"name":"n","type":{"type":"struct","fields":[{"name":"m","type":"decimal(12,2)","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]}"#);
            let A::Struct(f) = crate::types::row_schema(s.fields()).field(4).data_type().clone() else { panic!() };
            let m: Decimal128Array = rows.iter().map(|r| r.4.map(i128::from)).collect();
            let m = m.with_precision_and_scale(12, 2).unwrap();
            let t: TimestampMicrosecondArray = rows.iter().map(|r| r.3).collect();
            let b = batch(vec![
                ("i", Arc::new(rows.iter().map(|r| r.0).collect::<Int32Array>())),
                ("d", Arc::new(rows.iter().map(|r| r.1).collect::<Float64Array>())),
                ("s", Arc::new(rows.iter().map(|r| r.2.clone()).collect::<StringArray>())),
                ("t", Arc::new(t.with_timezone("UTC"))),
                ("n", Arc::new(StructArray::new(f, vec![Arc::new(m)], None))),
            ]);
            let p = predicate(&json, &s);
            let expected = arrow::compute::filter_record_batch(&b, &p.evaluate(&b).unwrap()).unwrap();
            let folder = Folder::new();
            let spec = WriteSpec {
                row_group_rows: groups,
                stats: crate::StatsConfig { string_prefix_length: 2, ..Default::default() },
                ..WriteSpec::new(s.clone(), vec![], 0)
            };
            let adds = folder.write_spec(spec, std::slice::from_ref(&b)).unwrap();
            let stats: StringArray = adds.iter().map(|a| a.stats.clone()).collect();
            let mask = Pruner::new(&p, &s, &[], Mapping::None).unwrap().keep(&batch(vec![("stats", Arc::new(stats))])).unwrap();
            prop_assert!(mask.value(0) || expected.num_rows() == 0, "file skipped: {json} {:?}", adds[0].stats);
            let columns = [Some(vec!["i".to_owned(), "d".into(), "s".into(), "n".into()]), Some(vec!["n".to_owned()])];
            for (columns, places) in columns.into_iter().zip([vec![0, 1, 2, 4], vec![4]]) {
                let spec = ReadSpec { predicate: Some(p.clone()), columns, batch_rows, ..ReadSpec::new(s.clone(), vec![]) };
                let wanted = text(&expected.project(&places).unwrap());
                prop_assert_eq!(text(&folder.read_all(spec.clone(), &adds).unwrap()), wanted.clone());
                let schema = spec.output_schema().unwrap();
                let read = folder.read(spec, vec![paged(&folder, &b, groups)]).unwrap();
                prop_assert_eq!(text(&arrow::compute::concat_batches(&schema, &read).unwrap()), wanted);
            }
        }
    }
}
