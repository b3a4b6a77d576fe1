//! Look-ups of every type in files of drawn values, damaged filters, and their requests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType as ArrowType;
use deltaplane_protocol::bloom_filters::BloomFilter;
use deltaplane_protocol::expr::{Expr, Predicate};
use deltaplane_protocol::schema::{Field, Primitive as P};
use deltaplane_store::{Location, Options, Store, block_on};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::plan::{FilePlan, Prepared};
use super::super::row_groups::units;
use super::super::source;
use super::super::vectors::LiveRows;
use super::super::{FileRead, Members, ReadSpec};
use super::*;
use crate::testing::{Folder, batch, file_read, schema};
use crate::types::row_type;
use crate::{WriteSpec, counted};

const GROUP_ROWS: usize = 25;

/// A column's type, and the text and type name of a literal of a whole number in it.
struct Kind {
    ty: P,
    literal: fn(i64) -> (String, String),
}

fn decimal(precision: u8, scale: i8) -> P {
    P::Decimal { precision, scale }
}

fn kinds() -> Vec<Kind> {
    macro_rules! kind {
        ($ty:expr, $name:expr) => {
            Kind {
                ty: $ty,
                literal: |n| (n.to_string(), $name.to_owned()),
            }
        };
    }
    vec![
        kind!(P::Byte, "byte"),
        kind!(P::Short, "short"),
        kind!(P::Integer, "integer"),
        kind!(P::Long, "long"),
        kind!(P::Date, "date_days"),
        kind!(P::Timestamp, "timestamp_micros"),
        kind!(P::TimestampNtz, "timestamp_ntz_micros"),
        kind!(decimal(9, 2), "decimal(10,0)"),
        kind!(decimal(18, 4), "decimal(10,0)"),
        kind!(decimal(30, 5), "decimal(10,0)"),
        kind!(P::Float, "float"),
        kind!(P::Double, "double"),
        kind!(P::String, "string"),
        Kind {
            ty: P::Binary,
            literal: |n| {
                (
                    n.to_string().bytes().map(|b| format!("{b:02x}")).collect(),
                    "binary".to_owned(),
                )
            },
        },
    ]
}

/// Whole numbers as values of a type.
fn column(ty: P, values: &[Option<i64>]) -> ArrayRef {
    let numbers: ArrayRef = Arc::new(values.iter().copied().collect::<Int64Array>());
    let steps: &[ArrowType] = match ty {
        P::Date => &[ArrowType::Int32],
        P::Binary => &[ArrowType::Utf8],
        _ => &[],
    };
    let through = steps.iter().fold(numbers, |array, step| cast(&array, step).unwrap());
    cast(&through, &row_type(&ty.into())).unwrap()
}

fn filter(column: &str) -> BloomFilter {
    BloomFilter {
        column: vec![column.to_owned()],
        fpp: 0.001,
        ndv: None,
    }
}

/// A file with a column `v` of this type in short row groups.
fn written(t: &Folder, ty: P, values: &[Option<i64>], filtered: bool) -> FileRead {
    let spec = WriteSpec {
        row_group_rows: GROUP_ROWS,
        bloom_filters: if filtered { vec![filter("v")] } else { Vec::new() },
        ..WriteSpec::new(schema(&[("v", ty)]), vec![], 0)
    };
    let adds = t.write_spec(spec, &[batch(vec![("v", column(ty, values))])]).unwrap();
    file_read(&adds[0])
}

fn equals(literal: &(String, String)) -> Value {
    let right = json!({"op": "literal", "value": literal.0, "type": literal.1});
    json!({"op": "compare", "cmp": "=", "left": {"op": "column", "name": ["v"]}, "right": right})
}

fn one_of(literals: &[(String, String)]) -> Value {
    let list: Vec<_> = literals
        .iter()
        .map(|(value, ty)| json!({"op": "literal", "value": value, "type": ty}))
        .collect();
    json!({"op": "in", "arg": {"op": "column", "name": ["v"]}, "list": list})
}

fn reading(ty: P, tree: &Value) -> ReadSpec {
    let table = schema(&[("v", ty)]);
    let tree = Expr::from_json(&tree.to_string()).unwrap();
    ReadSpec {
        predicate: Some(Predicate::bind(&tree, &table).unwrap()),
        ..ReadSpec::new(table, vec![])
    }
}

fn rows(t: &Folder, spec: &ReadSpec, file: &FileRead) -> usize {
    let batches = t.read(spec.clone(), vec![file.clone()]).unwrap();
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// The row groups that statistics leave, and those that filters exclude.
fn excluded(store: &Store, spec: &ReadSpec, file: &FileRead) -> (HashSet<usize>, HashSet<usize>) {
    block_on(async {
        let source = source::open(store, file).await.unwrap();
        let footer = source.footer(true).await.unwrap();
        let prepared = Arc::new(Prepared::new(spec).unwrap());
        let plan = Arc::new(FilePlan::new(prepared, file, footer).unwrap());
        let live = LiveRows::default();
        let units = units(&plan, file, &live, source.is_remote(), 1, &HashSet::new()).unwrap();
        let absent = absent(&plan, &source, &units).await.unwrap();
        (units.iter().map(|u| u.row_group).collect(), absent)
    })
}

/// Even numbers in an order by which every row group has small and large ones.
fn shuffled(count: i64) -> Vec<Option<i64>> {
    (0..count).map(|n| Some(n * 37 % count * 2)).collect()
}

#[test]
fn every_type_is_looked_up() {
    let t = Folder::new();
    for Kind { ty, literal } in kinds() {
        let count = if ty == P::Byte { 60 } else { 500 };
        let file = written(&t, ty, &shuffled(count), true);
        let plain = written(&t, ty, &shuffled(count), false);
        for (value, has) in [(count, true), (count + 1, false)] {
            let tree = equals(&literal(value & !1 | i64::from(!has)));
            let spec = reading(ty, &tree);
            assert_eq!(rows(&t, &spec, &file), usize::from(has), "{ty} {value}");
            let (left, absent) = excluded(&t.store, &spec, &file);
            assert!(
                left.len() > 1 && absent.len() + 2 >= left.len(),
                "{ty} {left:?} {absent:?}"
            );
            assert_eq!(excluded(&t.store, &spec, &plain).1, HashSet::new());
        }
    }
}

#[test]
fn values_of_widened_types_are_looked_up_as_the_file_stores_them() {
    let t = Folder::new();
    for (from, to) in [
        (P::Byte, P::Long),
        (P::Integer, P::Long),
        (P::Integer, P::Double),
        (P::Integer, decimal(20, 3)),
        (P::Float, P::Double),
        (decimal(9, 2), decimal(30, 5)),
    ] {
        let count = if from == P::Byte { 60 } else { 500 };
        let file = written(&t, from, &shuffled(count), true);
        let literal = kinds().into_iter().find(|k| k.ty == to).map(|k| k.literal);
        let literal = literal.unwrap_or(|n| (n.to_string(), "decimal(10,0)".to_owned()));
        for (value, has) in [(count & !1, true), (count | 1, false)] {
            let spec = reading(to, &equals(&literal(value)));
            assert_eq!(rows(&t, &spec, &file), usize::from(has), "{from} {to}");
            let (left, absent) = excluded(&t.store, &spec, &file);
            assert!(absent.len() + 2 >= left.len(), "{from} {to} {left:?} {absent:?}");
        }
        // Between two numbers of the file's type nothing is excluded wrongly.
        if matches!(to, P::Long | P::Double) {
            let spec = reading(to, &equals(&("7.5".to_owned(), "double".to_owned())));
            assert_eq!(rows(&t, &spec, &file), 0);
        }
    }
}

#[test]
fn equal_floating_point_numbers_are_found_whatever_their_bits() {
    let t = Folder::new();
    let odd = -f64::NAN;
    let table = schema(&[("v", P::Double)]);
    let values: Vec<f64> = (0..50)
        .map(|n| if n < 25 { -0.0 } else { odd })
        .chain([1.0; 25])
        .collect();
    let spec = WriteSpec {
        row_group_rows: GROUP_ROWS,
        bloom_filters: vec![filter("v")],
        ..WriteSpec::new(table, vec![], 0)
    };
    let rows_written = batch(vec![("v", Arc::new(Float64Array::from(values)) as ArrayRef)]);
    let file = file_read(&t.write_spec(spec, &[rows_written]).unwrap()[0]);
    for zero in ["0.0", "-0.0"] {
        assert_eq!(
            rows(&t, &reading(P::Double, &equals(&(zero.into(), "double".into()))), &file),
            25
        );
    }
    assert_eq!(
        rows(
            &t,
            &reading(P::Double, &equals(&("NaN".into(), "double".into()))),
            &file
        ),
        25
    );
    // Readers that look for the bits of one zero or one NaN find them too.
    let source = block_on(source::open(&t.store, &file)).unwrap();
    let footer = block_on(source.footer(false)).unwrap();
    let bytes = std::fs::read(t.path(&file.path)).unwrap();
    let filters: Vec<Sbbf> = footer
        .row_groups()
        .iter()
        .map(|g| {
            Sbbf::read_from_column_chunk(g.column(0), &bytes::Bytes::from(bytes.clone()))
                .unwrap()
                .unwrap()
        })
        .collect();
    assert!(filters[0].check(&0.0_f64) && filters[0].check(&-0.0_f64));
    assert!(filters[1].check(&f64::NAN) && filters[1].check(&-f64::NAN));
    assert!(!filters[2].check(&0.0_f64) && !filters[2].check(&f64::NAN));
}

#[test]
fn excluded_row_groups_are_not_read() {
    let t = Folder::new();
    let file = written(&t, P::Long, &shuffled(100), true);
    let spec = reading(P::Long, &equals(&("101".to_owned(), "long".to_owned())));
    let path = t.path(&file.path);
    let source = block_on(source::open(&t.store, &file)).unwrap();
    let footer = block_on(source.footer(false)).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    for group in footer.row_groups() {
        let (start, length) = group.column(0).byte_range();
        bytes[start as usize..(start + length) as usize].fill(0xff);
    }
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(rows(&t, &spec, &file), 0);
    // Without filters the damage is met.
    for group in footer.row_groups() {
        let start = group.column(0).bloom_filter_offset().unwrap() as usize;
        bytes[start] = 0;
    }
    std::fs::write(&path, &bytes).unwrap();
    assert!(t.read(spec, vec![file]).is_err());
}

#[test]
fn filters_have_the_size_of_their_values() {
    let t = Folder::new();
    let file = written(&t, P::Long, &shuffled(100), true);
    let source = block_on(source::open(&t.store, &file)).unwrap();
    let footer = block_on(source.footer(false)).unwrap();
    let lengths = footer
        .row_groups()
        .iter()
        .map(|g| g.column(0).bloom_filter_length().unwrap());
    assert!(lengths.into_iter().all(|length| length < 150));
}

#[test]
fn few_members_are_looked_up() {
    let t = Folder::new();
    let file = written(&t, P::Long, &shuffled(500), true);
    let texts = written(&t, P::String, &shuffled(500), true);
    let with = |ty: P, members: Members| ReadSpec {
        members: Some(Arc::new(members)),
        ..ReadSpec::new(schema(&[("v", ty)]), vec![])
    };
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![501, 7]));
    let spec = with(P::Long, Members::new("v", std::slice::from_ref(&keys), false).unwrap());
    assert_eq!(rows(&t, &spec, &file), 0);
    assert_eq!(excluded(&t.store, &spec, &file).1.len(), 20);
    let nulls = with(P::Long, Members::new("v", &[keys], true).unwrap());
    assert_eq!(excluded(&t.store, &nulls, &file).1.len(), 0);
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["500", "9"]));
    let spec = with(P::String, Members::new("v", &[keys], false).unwrap());
    assert_eq!(rows(&t, &spec, &texts), 1);
    assert!(excluded(&t.store, &spec, &texts).1.len() >= 18);
    let many: ArrayRef = Arc::new((0..1000).map(|n| n * 2 + 1).collect::<Int64Array>());
    let spec = with(P::Long, Members::new("v", &[many], false).unwrap());
    assert_eq!(excluded(&t.store, &spec, &file).1.len(), 0);
}

#[test]
fn filters_of_a_remote_file_are_one_request() {
    let asked = counted::register("blooming", |tag| tag);
    let store = Store::open(&Location::parse("blooming://h/t").unwrap(), &Options::default()).unwrap();
    let t = Folder::new();
    // Values that don't compress, in row groups of more bytes than a request is worth.
    let values: Vec<Option<i64>> = (0..600_000_i64)
        .map(|n| Some(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) | 1))
        .collect();
    let spec = WriteSpec {
        row_group_rows: 200_000,
        bloom_filters: vec![filter("v")],
        ..WriteSpec::new(schema(&[("v", P::Long)]), vec![], 0)
    };
    let adds = t
        .write_spec(spec, &[batch(vec![("v", column(P::Long, &values))])])
        .unwrap();
    let file = file_read(&adds[0]);
    let bytes = std::fs::read(t.path(&file.path)).unwrap();
    block_on(store.put(&file.path, bytes.into())).unwrap();
    asked.take();
    let spec = reading(P::Long, &equals(&("2".to_owned(), "long".to_owned())));
    let (left, absent) = excluded(&store, &spec, &file);
    assert_eq!((left.len(), absent.len()), (3, 3));
    // The footer, then filters with what lies between them, as far as that is worth a request.
    let requests = asked.take();
    assert!(requests.len() <= 4, "{requests:?}");
    // A small file is in memory once its footer is read.
    let small = written(&t, P::Long, &shuffled(500), true);
    block_on(store.put(&small.path, std::fs::read(t.path(&small.path)).unwrap().into())).unwrap();
    asked.take();
    let spec = reading(P::Long, &equals(&("501".to_owned(), "long".to_owned())));
    assert_eq!(excluded(&store, &spec, &small).1.len(), 20);
    assert_eq!(asked.take().len(), 1);
}

#[test]
fn a_struct_is_looked_up_by_its_field() {
    let t = Folder::new();
    let inner = deltaplane_protocol::schema::StructType::new(vec![Field::new("k", P::Integer, true)]);
    let table = Arc::new(deltaplane_protocol::schema::StructType::new(vec![Field::new(
        "s",
        deltaplane_protocol::schema::DataType::Struct(inner),
        true,
    )]));
    let ArrowType::Struct(fields) = crate::types::row_schema(table.fields()).field(0).data_type().clone() else {
        panic!("a struct is one")
    };
    let k: Int32Array = (0..200).map(|n| Some(n * 37 % 200 * 2)).collect();
    let s: ArrayRef = Arc::new(arrow::array::StructArray::new(fields, vec![Arc::new(k)], None));
    let spec = WriteSpec {
        row_group_rows: GROUP_ROWS,
        bloom_filters: vec![BloomFilter {
            column: vec!["s".to_owned(), "k".to_owned()],
            ..filter("")
        }],
        ..WriteSpec::new(table.clone(), vec![], 0)
    };
    let file = file_read(&t.write_spec(spec, &[batch(vec![("s", s)])]).unwrap()[0]);
    let tree = json!({"op": "compare", "cmp": "=", "left": {"op": "column", "name": ["S", "K"]},
        "right": {"op": "literal", "value": "201", "type": "integer"}});
    let tree = Expr::from_json(&tree.to_string()).unwrap();
    let spec = ReadSpec {
        predicate: Some(Predicate::bind(&tree, &table).unwrap()),
        ..ReadSpec::new(table, vec![])
    };
    let (left, absent) = excluded(&t.store, &spec, &file);
    assert_eq!((left.len(), absent.len()), (8, 8));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_are_the_same_with_and_without_filters(
        kind in 0_usize..14,
        values in prop::collection::vec(prop::option::weighted(0.9, 0_i64..100), 1..120),
        looked_up in prop::collection::vec(-20_i64..120, 1..5),
    ) {
        let t = Folder::new();
        let kinds = kinds();
        let Kind { ty, literal } = &kinds[kind];
        let file = written(&t, *ty, &values, true);
        let plain = written(&t, *ty, &values, false);
        let literals: Vec<_> = looked_up.iter().map(|v| literal(*v)).collect();
        let expected = values.iter().flatten().filter(|v| looked_up.contains(v)).count();
        let spec = reading(*ty, &one_of(&literals));
        prop_assert_eq!(rows(&t, &spec, &file), expected);
        prop_assert_eq!(rows(&t, &spec, &plain), expected);
    }

    #[test]
    fn damaged_filters_change_no_row(place in 0_usize..4096, byte in any::<u8>(), value in 0_i64..260) {
        let t = Folder::new();
        let file = written(&t, P::Long, &shuffled(120), true);
        let path = t.path(&file.path);
        let source = block_on(source::open(&t.store, &file)).unwrap();
        let footer = block_on(source.footer(false)).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        // The header of one of the filters: its bits have no checksum in the format.
        let group = footer.row_group(place % footer.num_row_groups());
        let offset = group.column(0).bloom_filter_offset().unwrap() as usize + place / 8 % 15;
        bytes[offset] = byte;
        std::fs::write(&path, &bytes).unwrap();
        let spec = reading(P::Long, &equals(&(value.to_string(), "long".to_owned())));
        let expected = usize::from(value % 2 == 0 && value < 240);
        prop_assert_eq!(rows(&t, &spec, &file), expected);
    }

    #[test]
    fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..80), cut in 0_usize..80) {
        let _ = (parse(&bytes, false), parse(&bytes, true));
        let mut filter = Sbbf::new_with_num_of_bytes(32);
        filter.insert(&7_i64);
        let mut whole = Vec::new();
        filter.write(&mut whole).unwrap();
        for exact in [false, true] {
            prop_assert!(parse(&whole, exact).unwrap().check(&7_i64));
            prop_assert!(cut >= whole.len() || parse(&whole[..cut], exact).is_none());
        }
        whole.push(0);
        prop_assert!(parse(&whole, false).is_some() && parse(&whole, true).is_none());
    }
}
