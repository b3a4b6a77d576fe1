//! Any variants come back from typed columns as they were, whatever columns the first rows chose
//! (P154).
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use arrow::array::BinaryArray;
use arrow::datatypes::Fields;
use chrono::{DateTime, NaiveDate, NaiveTime};
use parquet_variant::{VariantBuilder, VariantBuilderExt, VariantDecimal4, VariantDecimal8, VariantDecimal16};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::types::row_type;
use crate::variant::unshred;

/// A value that owns what is in it.
#[derive(Debug, Clone)]
pub(crate) enum Any {
    Plain(Variant<'static, 'static>),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Any>),
    Object(Vec<(String, Any)>),
}

fn plain() -> impl Strategy<Value = Any> {
    let time = |micros: i64| DateTime::from_timestamp_micros(micros).unwrap();
    let micros = -62_135_596_800_000_000_i64..253_402_300_799_999_999;
    prop_oneof![
        Just(Variant::Null),
        any::<bool>().prop_map(Variant::from),
        any::<i8>().prop_map(Variant::Int8),
        // Wider than they need be, as no writer should leave them.
        (-300_i16..300).prop_map(Variant::Int16),
        any::<i32>().prop_map(Variant::Int32),
        any::<i64>().prop_map(Variant::Int64),
        (-5_i64..5).prop_map(Variant::Int64),
        any::<f32>()
            .prop_filter("NaN is equal to nothing", |f| !f.is_nan())
            .prop_map(Variant::Float),
        any::<f64>()
            .prop_filter("NaN is equal to nothing", |f| !f.is_nan())
            .prop_map(Variant::Double),
        (-999_i32..999, 0_u8..3).prop_map(|(v, s)| VariantDecimal4::try_new(v, s).unwrap().into()),
        (-999_i64..999, 0_u8..3).prop_map(|(v, s)| VariantDecimal8::try_new(v, s).unwrap().into()),
        (any::<i64>(), 0_u8..38).prop_map(|(v, s)| VariantDecimal16::try_new(v.into(), s).unwrap().into()),
        (-100_000_i32..100_000).prop_map(|d| Variant::Date(NaiveDate::from_num_days_from_ce_opt(719_163 + d).unwrap())),
        micros.clone().prop_map(move |t| Variant::TimestampMicros(time(t))),
        micros.prop_map(move |t| Variant::TimestampNtzMicros(time(t).naive_utc())),
        any::<i64>().prop_map(|t| Variant::TimestampNanos(DateTime::from_timestamp_nanos(t))),
        (0_u32..86_400).prop_map(|s| Variant::Time(NaiveTime::from_num_seconds_from_midnight_opt(s, 0).unwrap())),
        any::<u128>().prop_map(|u| Variant::Uuid(Uuid::from_u128(u))),
    ]
    .prop_map(Any::Plain)
}

pub(crate) fn value() -> impl Strategy<Value = Any> {
    let leaf = prop_oneof![
        plain(),
        "[a-zé]{0,3}".prop_map(Any::Text),
        "x{60,70}".prop_map(Any::Text),
        prop::collection::vec(any::<u8>(), 0..4).prop_map(Any::Bytes),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let fields = prop::collection::btree_map("[abcA]{0,2}", inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Any::List),
            fields.prop_map(|fields| Any::Object(fields.into_iter().collect())),
        ]
    })
}

fn build(v: &Any, out: &mut impl VariantBuilderExt) {
    match v {
        Any::Plain(v) => out.append_value(v.clone()),
        Any::Text(text) => out.append_value(text.as_str()),
        Any::Bytes(bytes) => out.append_value(bytes.as_slice()),
        Any::List(items) => {
            let mut list = out.try_new_list().unwrap();
            items.iter().for_each(|item| build(item, &mut list));
            list.finish();
        }
        Any::Object(fields) => {
            let mut object = out.try_new_object().unwrap();
            for (name, v) in fields {
                build(v, &mut parquet_variant::ObjectFieldBuilder::new(name, &mut object));
            }
            object.finish();
        }
    }
}

pub(crate) fn column(rows: &[Option<Any>]) -> ArrayRef {
    let built: Vec<_> = rows
        .iter()
        .map(|row| {
            row.as_ref().map(|v| {
                let mut builder = VariantBuilder::new();
                build(v, &mut builder);
                builder.finish()
            })
        })
        .collect();
    let ArrowType::Struct(fields) = row_type(&Primitive::Variant.into()) else {
        unreachable!("a variant is a struct");
    };
    let columns = fields.iter().map(|f| -> ArrayRef {
        let parts = built.iter().map(|row| {
            let (metadata, value) = row.as_ref()?;
            Some(if f.name() == METADATA { metadata } else { value }.as_slice())
        });
        Arc::new(parts.collect::<BinaryArray>())
    });
    let nulls = NullBuffer::from_iter(built.iter().map(Option::is_some));
    Arc::new(StructArray::try_new(fields.clone(), columns.collect(), Some(nulls)).unwrap())
}

pub(crate) fn values(array: &ArrayRef) -> Vec<Option<Variant<'_, '_>>> {
    let s = array.as_struct();
    let variant_of = |row| s.is_valid(row).then(|| parts(s, row)).flatten();
    (0..s.len())
        .map(|row| variant_of(row).map(|(m, v)| Variant::try_new(m, v).unwrap()))
        .collect()
}

fn back(array: &ArrayRef, plain: &ArrayRef) -> ArrayRef {
    let ArrowType::Struct(fields) = plain.data_type() else {
        unreachable!("a variant is a struct");
    };
    unshred(array, fields).unwrap()
}

pub(crate) fn choose(rows: &ArrayRef) -> Layout {
    Layout::choose(&Primitive::Variant.into(), rows)
}

/// The layout of these JSON-like values, as its Arrow type.
fn chosen(rows: &[Option<Any>]) -> Option<Shape> {
    match choose(&column(rows)) {
        Layout::Variant(Typed(shape)) => Some(shape),
        _ => None,
    }
}

pub(crate) fn int(i: i8) -> Any {
    Any::Plain(Variant::Int8(i))
}

pub(crate) fn object(fields: &[(&str, Any)]) -> Option<Any> {
    Some(Any::Object(
        fields.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect(),
    ))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_values_come_back(
        rows in prop::collection::vec(prop::option::weighted(0.9, value()), 1..12),
        first in 1_usize..12,
    ) {
        let rows = column(&rows);
        // The columns are those of the first rows; later ones have to live with them.
        let layout = choose(&rows.slice(0, first.min(rows.len())));
        let made = layout.lay_out(&rows).unwrap();
        let field: FieldRef = ArrowField::new("v", rows.data_type().clone(), true).into();
        let expected = layout.field(&field);
        prop_assert_eq!(made.data_type(), expected.data_type());
        if let Layout::Variant(_) = layout {
            let again = back(&made, &rows);
            prop_assert_eq!(values(&again), values(&rows));
        }
    }
}

#[test]
fn what_most_values_are_gets_columns() {
    let text = || Any::Text("x".to_owned());
    let rows = [
        object(&[
            ("a", int(1)),
            ("list", Any::List(vec![int(1), int(2)])),
            ("odd", int(1)),
        ]),
        object(&[
            ("a", Any::Plain(Variant::Int64(1 << 40))),
            ("list", Any::List(vec![])),
            ("odd", text()),
        ]),
        object(&[
            ("a", int(7)),
            ("A", int(7)),
            ("", int(7)),
            ("odd", Any::Plain(Variant::Float(0.5))),
        ]),
        None,
    ];
    let list = Shape::List(Box::new(Shape::Primitive(Kind::Integer)));
    // `a` and `A` can't be told apart by readers that ignore case, `odd` is nothing in particular.
    assert_eq!(chosen(&rows), Some(Shape::Object(vec![("list".to_owned(), list)])));
    let odd = [Some(text()), Some(int(1)), Some(Any::Plain(Variant::Float(0.5)))];
    assert_eq!(chosen(&odd), None);
    assert_eq!(chosen(&[None, Some(Any::Plain(Variant::Null))]), None);
    let rare: Vec<_> = (0..30)
        .map(|i| {
            if i == 0 {
                object(&[("a", int(1)), ("rare", int(1))])
            } else {
                object(&[("a", int(1))])
            }
        })
        .collect();
    assert_eq!(
        chosen(&rare),
        Some(Shape::Object(vec![("a".to_owned(), Shape::Primitive(Kind::Integer))]))
    );
}

#[test]
fn columns_are_bounded_in_number_and_depth() {
    let wide: Vec<_> = (0..2_000).map(|i| (format!("f{i:04}"), int(1))).collect();
    let Some(Shape::Object(fields)) = chosen(&[Some(Any::Object(wide))]) else {
        panic!("an object was to be seen");
    };
    assert_eq!(fields.len(), 256);
    let deep = (0..50).fold(int(1), |inner, _| Any::Object(vec![("a".to_owned(), inner)]));
    let list = (0..50).fold(int(1), |inner, _| Any::List(vec![inner]));
    for deep in [deep, list] {
        let rows = column(&[Some(deep)]);
        let made = choose(&rows).lay_out(&rows).unwrap();
        if made.data_type() != rows.data_type() {
            assert_eq!(values(&back(&made, &rows)), values(&rows));
        }
    }
}

#[test]
fn what_is_no_variant_stays_as_it_came() {
    let good = column(&[object(&[("a", int(1))])]);
    let ArrowType::Struct(fields) = good.data_type() else {
        unreachable!("a variant is a struct");
    };
    let fields: &Fields = fields;
    let broken: ArrayRef = Arc::new(BinaryArray::from_iter_values([b"\xff\xff\xff"]));
    let bad: ArrayRef = Arc::new(StructArray::try_new(fields.clone(), vec![broken.clone(), broken], None).unwrap());
    let made = choose(&good).lay_out(&bad).unwrap();
    let made = made.as_struct();
    assert_eq!(
        parts(made, 0),
        Some((b"\xff\xff\xff".as_slice(), b"\xff\xff\xff".as_slice()))
    );
    assert!(made.column_by_name("typed_value").unwrap().is_null(0));
}
