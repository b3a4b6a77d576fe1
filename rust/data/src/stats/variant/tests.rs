//! Bounds of variants bound every value, and exist only where each value has their type (P169).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::BinaryArray;
use deltaplane_protocol::mapping::Mapping;
use parquet_variant::{VariantMetadata, VariantPath, VariantPathElement};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::shred::tests::{Any, choose, column, int, object, value, values};
use crate::stats::{StatsConfig, new_columns, to_json};
use crate::testing::schema;

/// The statistics of a file that begins with the first batch.
fn stats(batches: &[ArrayRef]) -> Value {
    let config = StatsConfig::default();
    let mut columns = new_columns(&schema(&[("v", Primitive::Variant)]), &[], Mapping::None, &config);
    let layout = choose(&batches[0]);
    let mut rows = 0;
    for batch in batches {
        let stats = columns[0].as_mut().unwrap();
        stats.update(batch).unwrap();
        stats.update_typed(&layout.lay_out(batch).unwrap()).unwrap();
        rows += batch.len() as u64;
    }
    serde_json::from_str(&to_json(rows, &columns)).unwrap()
}

/// The bytes of one of both bounds: names, then the value and what fills the last group up.
fn bytes(stats: &Value, section: &str) -> Option<(Vec<u8>, usize)> {
    let bytes = z85::decode(stats[section]["v"].as_str()?).unwrap();
    // The header, the number of names, the end of the last one: each name's offset is as wide as
    // the header says.
    let width = usize::from(bytes[0] >> 6) + 1;
    let offset = |n: usize| {
        let from = 1 + n * width;
        (0..width).fold(0, |v, i| v | usize::from(bytes[from + i]) << (8 * i))
    };
    let names = offset(0);
    Some((bytes.clone(), 1 + (names + 2) * width + offset(names + 1)))
}

/// Which bound each path has.
fn bounds<'a>(stats: &'a Option<(Vec<u8>, usize)>) -> Vec<(String, Variant<'a, 'a>)> {
    let Some((bytes, end)) = stats else { return Vec::new() };
    let (names, value) = bytes.split_at(*end);
    let names = VariantMetadata::try_new(names).unwrap();
    // What fills the group up is no part of the value.
    let whole = (0..4).find_map(|n| Variant::try_new_with_metadata(names.clone(), &value[..value.len() - n]).ok());
    let Some(Variant::Object(object)) = whole else {
        panic!("no object: {value:?}")
    };
    object.iter().map(|(path, v)| (path.to_owned(), v)).collect()
}

/// What a row has at a path without odd characters.
fn at<'a>(row: &'a Variant<'_, '_>, path: &str) -> Option<Variant<'a, 'a>> {
    let inner = path.strip_prefix('$').unwrap();
    let names = inner
        .split("['")
        .filter(|s| !s.is_empty())
        .map(|s| s.strip_suffix("']").unwrap());
    row.get_path(
        &names
            .map(|n| VariantPathElement::field(n.to_owned()))
            .collect::<VariantPath<'_>>(),
    )
}

/// The order of two values of one type; `None` if they are of different ones.
fn order(a: &Variant<'_, '_>, b: &Variant<'_, '_>) -> Option<Ordering> {
    let whole = |v: &Variant<'_, '_>| match v {
        Variant::Int8(_) | Variant::Int16(_) | Variant::Int32(_) | Variant::Int64(_) => v.as_int64(),
        _ => None,
    };
    if let (Some(a), Some(b)) = (whole(a), whole(b)) {
        return Some(a.cmp(&b));
    }
    match (a, b) {
        (Variant::Float(a), Variant::Float(b)) => Some(a.total_cmp(b)),
        (Variant::Double(a), Variant::Double(b)) => Some(a.total_cmp(b)),
        (Variant::Decimal4(a), Variant::Decimal4(b)) if a.scale() == b.scale() => Some(a.integer().cmp(&b.integer())),
        (Variant::Decimal8(a), Variant::Decimal8(b)) if a.scale() == b.scale() => Some(a.integer().cmp(&b.integer())),
        (Variant::Decimal16(a), Variant::Decimal16(b)) if a.scale() == b.scale() => Some(a.integer().cmp(&b.integer())),
        (Variant::Date(a), Variant::Date(b)) => Some(a.cmp(b)),
        (Variant::TimestampMicros(a), Variant::TimestampMicros(b)) => Some(a.cmp(b)),
        (Variant::TimestampNtzMicros(a), Variant::TimestampNtzMicros(b)) => Some(a.cmp(b)),
        _ => Some(a.as_string()?.cmp(b.as_string()?)),
    }
}

/// A file's rows, most of which look alike, so that there are bounds.
fn rows() -> impl Strategy<Value = Vec<Option<Any>>> {
    let number = prop_oneof![
        4 => (-3_i64..3).prop_map(|i| Any::Plain(Variant::Int64(i << 40))),
        1 => any::<i8>().prop_map(int),
        1 => Just(Any::Plain(Variant::Null)),
    ];
    let real = prop_oneof![
        8 => any::<f64>().prop_map(|f| Any::Plain(Variant::Double(f))),
        1 => Just(Any::Plain(Variant::Double(f64::NAN))),
        1 => Just(Any::Plain(Variant::Float(0.5))),
    ];
    let text = "[a-cé]{0,3}|x{30,40}|\u{10ffff}{31,80}".prop_map(Any::Text);
    let like = (number, real, text, value()).prop_map(|(n, d, s, any)| {
        object(&[
            ("n", n.clone()),
            ("d", d),
            ("s", s.clone()),
            ("o", object(&[("n", n), ("s", s)]).unwrap()),
            ("any", any),
        ])
    });
    prop::collection::vec(
        prop_oneof![8 => like, 1 => value().prop_map(Some), 1 => Just(None)],
        1..12,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn bounds_bound_every_value(all in rows(), first in 1_usize..12) {
        let all = column(&all);
        let first = first.min(all.len());
        let stats = stats(&[all.slice(0, first), all.slice(first, all.len() - first)]);
        let (min, max) = (bytes(&stats, "minValues"), bytes(&stats, "maxValues"));
        let (min, max) = (bounds(&min), bounds(&max));
        for row in values(&all).into_iter().flatten() {
            for (bounds, outside) in [(&min, Ordering::Less), (&max, Ordering::Greater)] {
                for (path, bound) in bounds {
                    if let Some(v) = at(&row, path) {
                        let ordering = order(&v, bound);
                        prop_assert!(ordering.is_some_and(|o| o != outside), "{path}: {v:?} and {bound:?}");
                    }
                }
            }
        }
        // Both are of one type, and a path has a largest value only beside a smallest one.
        for (path, bound) in &max {
            let (_, least) = min.iter().find(|(p, _)| p == path).unwrap();
            prop_assert!(order(least, bound).unwrap() != Ordering::Greater);
        }
        prop_assert!(min.len() <= MOST_PATHS);
    }
}

fn both(rows: &[Option<Any>]) -> (Vec<String>, Vec<String>) {
    let stats = stats(&[column(rows)]);
    let text = |section| {
        let read_stats = bytes(&stats, section);
        bounds(&read_stats)
            .into_iter()
            .map(|(path, v)| format!("{path} {v:?}"))
            .collect()
    };
    (text("minValues"), text("maxValues"))
}

#[test]
fn paths_have_the_bounds_of_their_typed_columns() {
    let text = |t: &str| Any::Text(t.to_owned());
    let row = |n: i8, s: &str| object(&[("a", text(s)), ("b", object(&[("c", int(n))]).unwrap())]);
    let (min, max) = both(&[row(1, "min-string"), None, row(100, "variant"), row(7, "n")]);
    assert_eq!(
        min,
        [
            "$['a'] ShortString(ShortString(\"min-string\"))",
            "$['b']['c'] Int64(1)"
        ]
    );
    assert_eq!(
        max,
        ["$['a'] ShortString(ShortString(\"variant\"))", "$['b']['c'] Int64(100)"]
    );
    // A value alone is at the root; lists have no paths.
    assert_eq!(both(&[Some(int(3)), Some(int(-3))]).0, ["$ Int64(-3)"]);
    assert_eq!(both(&[Some(Any::List(vec![int(1)]))]), (vec![], vec![]));
    // No bounds for truths and bytes (P160).
    let bytes = Any::Bytes(vec![1]);
    assert_eq!(
        both(&[object(&[("b", bytes), ("t", Any::Plain(true.into()))])]),
        (vec![], vec![])
    );
}

#[test]
fn another_type_or_a_null_anywhere_takes_the_bounds() {
    let plain = |v| Any::Plain(v);
    let others = [
        plain(Variant::Null),
        Any::Text("7".into()),
        plain(Variant::Double(7.0)),
        Any::List(vec![]),
    ];
    for other in others {
        let row = |v: Any| object(&[("a", v), ("b", int(1))]);
        let (min, max) = both(&[row(int(1)), row(int(2)), row(other)]);
        assert_eq!(
            (min.as_slice(), max.as_slice()),
            (["$['b'] Int64(1)".to_owned()].as_slice(), min.as_slice())
        );
    }
    let nan = [plain(Variant::Double(1.0)), plain(Variant::Double(f64::NAN))].map(Some);
    assert_eq!(both(&nan), (vec![], vec![]));
    let zeros = [Some(plain(Variant::Double(0.0)))];
    assert_eq!(
        both(&zeros),
        (vec!["$ Double(-0.0)".to_owned()], vec!["$ Double(0.0)".to_owned()])
    );
}

#[test]
fn an_object_that_cannot_be_read_takes_all_bounds() {
    let good = column(&[object(&[("a", int(1))]), object(&[("a", int(2))])]);
    let fields = match good.data_type() {
        ArrowType::Struct(fields) => fields.clone(),
        _ => unreachable!("a variant is a struct"),
    };
    // An object of one field whose name isn't there.
    let parts: Vec<ArrayRef> = fields
        .iter()
        .map(|f| -> ArrayRef {
            let part: &[u8] = if f.name() == VALUE {
                &[2, 1, 9, 0, 2, 0x0c, 5]
            } else {
                &[1, 0, 0]
            };
            Arc::new(BinaryArray::from_iter_values([part]))
        })
        .collect();
    let bad: ArrayRef = Arc::new(StructArray::try_new(fields, parts, None).unwrap());
    assert!(stats(std::slice::from_ref(&good))["minValues"]["v"].is_string());
    assert!(stats(&[good, bad])["minValues"]["v"].is_null());
}

#[test]
fn the_most_frequent_paths_have_bounds_and_their_number_is_limited() {
    let row = |n: usize| {
        let fields: Vec<_> = (0..n).map(|i| (format!("f{i:03}"), int(1))).collect();
        Some(Any::Object(fields))
    };
    let (min, _) = both(&[row(100), row(10), row(100)]);
    assert_eq!(min.len(), MOST_PATHS);
    assert!(min[9].starts_with("$['f009']") && min[31].starts_with("$['f031']"));
    let long = "x".repeat(LONGEST_PATH);
    assert_eq!(
        both(&[object(&[(&long, int(1)), ("a", int(2))])]).0,
        ["$['a'] Int64(2)"]
    );
    // All values above every short bound: there is a smallest one only.
    let high = Some(Any::Text("\u{10ffff}".repeat(100)));
    let (min, max) = both(&[high]);
    assert_eq!((min.len(), max.len()), (1, 0));
}

#[test]
fn odd_names_are_escaped() {
    let path = |name: &str| normalized(&[name.to_owned(), "b".to_owned()]);
    assert_eq!(path("a b.c\"é"), "$['a b.c\"é']['b']");
    assert_eq!(
        path("'\\\u{8}\t\n\u{c}\r\u{1f}\u{7f}"),
        "$['\\'\\\\\\b\\t\\n\\f\\r\\u001f\u{7f}']['b']"
    );
    assert_eq!(normalized(&[]), "$");
}
