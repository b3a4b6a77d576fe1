//! Properties: evaluation is the naive model; the normal form means the same; no file with a
//! matching row is ever dropped, whatever legal or sloppy statistics its writer left (P162-P168,
//! Q3, Q4).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Int64Array, MapBuilder, RecordBatch, StringArray, StringBuilder, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{Field as ArrowField, Fields, Schema};
use proptest::prelude::*;

use super::Pruner;
use super::model::{BIG, MILLION, SMALL, Value, clock, leaves, partition_columns, predicate, row, schema, truth};
use crate::arrow_types::to_arrow_schema;
use crate::expr::scalar::{Scalar, to_array};
use crate::expr::text::{format_date, format_decimal};
use crate::expr::{Comparison, Expr, Predicate, Sign, evaluate};
use crate::mapping::Mapping;
use crate::partition_values::partition_text;
use crate::schema::Primitive;

type Row = Vec<Option<Value>>;

fn scalar(v: &Value, ty: Primitive) -> Scalar {
    match (v, ty) {
        (Value::Exact(v), SMALL) => Scalar::Decimal(v / 10_000),
        (Value::Exact(v), BIG) => Scalar::Decimal(v / 100),
        (Value::Exact(v), _) => Scalar::Integer((v / MILLION).try_into().unwrap()),
        (Value::Float(v), _) => Scalar::Float(*v),
        (Value::Double(v), _) => Scalar::Double(*v),
        (Value::Text(v), _) => Scalar::Text(v.clone()),
        (Value::Bytes(v), _) => Scalar::Binary(v.clone()),
        (Value::Bool(v), _) => Scalar::Boolean(*v),
        (Value::Days(v), _) => Scalar::Date((*v).try_into().unwrap()),
        (Value::Micros(v), _) => Scalar::Timestamp(*v),
    }
}

/// One array per leaf, nested as the schema; a null leaf in a struct is a null struct every other
/// row.
fn columns(rows: &[Row], tys: &[(Vec<&str>, Primitive)]) -> Vec<(String, ArrayRef)> {
    let mut out = Vec::new();
    for (i, (path, ty)) in tys.iter().enumerate() {
        let values: Vec<Option<Scalar>> = rows.iter().map(|r| r[i].as_ref().map(|v| scalar(v, *ty))).collect();
        let array = to_array(values.iter().map(Option::as_ref), *ty).unwrap();
        if let [parent, name] = path.as_slice() {
            let nulls: Vec<bool> = (0..rows.len()).map(|r| array.is_valid(r) || r % 2 == 0).collect();
            // Under a null struct anything may stand.
            let filled = if nulls.contains(&false) {
                Arc::new(Int64Array::from_iter((0..rows.len()).map(|r| match &values[r] {
                    Some(Scalar::Integer(v)) => Some(*v),
                    _ if !nulls[r] => Some(7),
                    _ => None,
                }))) as ArrayRef
            } else {
                array
            };
            let fields = Fields::from(vec![ArrowField::new(*name, filled.data_type().clone(), true)]);
            out.push((
                (*parent).to_owned(),
                Arc::new(StructArray::new(fields, vec![filled], Some(NullBuffer::from(nulls)))) as ArrayRef,
            ));
        } else {
            out.push((path[0].to_owned(), array));
        }
    }
    out
}

fn rows_batch(rows: &[Row]) -> RecordBatch {
    let arrays = columns(rows, &leaves()).into_iter().map(|(_, a)| a).collect();
    RecordBatch::try_new(to_arrow_schema(&schema()), arrays).unwrap()
}

/// What a writer does with statistics.
#[derive(Debug, Clone)]
struct Writer {
    /// No statistics at all, JSON, or a parsed struct.
    form: u8,
    /// Decimals and integers through a double, as delta-rs.
    doubles: bool,
    /// `"NaN"` as maximum, no maximum, or NaN left out of it.
    nan: u8,
    /// Rows deleted by a deletion vector that the statistics still cover.
    wide: bool,
    /// Leaves without statistics, by bit.
    missing: u16,
}

fn writer() -> impl Strategy<Value = Writer> {
    (
        0..8u8,
        any::<bool>(),
        0..3u8,
        any::<bool>(),
        prop_oneof![3 => Just(0u16), 1 => any::<u16>()],
    )
        .prop_map(|(form, doubles, nan, wide, missing)| Writer {
            form,
            doubles,
            nan,
            wide,
            missing,
        })
}

fn compare(a: &Value, b: &Value) -> std::cmp::Ordering {
    use Value::{Bytes, Days, Double, Exact, Float, Micros, Text};
    match (a, b) {
        (Exact(a), Exact(b)) => a.cmp(b),
        (Text(a), Text(b)) => a.cmp(b),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (Days(a), Days(b)) | (Micros(a), Micros(b)) => a.cmp(b),
        (Double(a), Double(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        (Float(a), Float(b)) => a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        _ => std::cmp::Ordering::Equal,
    }
}

fn is_nan(v: &Value) -> bool {
    matches!(v, Value::Double(d) if d.is_nan()) || matches!(v, Value::Float(f) if f.is_nan())
}

/// Minimum and maximum as the writer saw them, strings cut (P162), timestamps cut to milliseconds
/// (P163).
fn min_max(values: &[&Value], ty: Primitive, w: &Writer) -> (Option<Value>, Option<Value>) {
    if matches!(ty, Primitive::Boolean | Primitive::Binary) {
        return (None, None);
    }
    let counted: Vec<&Value> = values.iter().copied().filter(|v| w.nan != 2 || !is_nan(v)).collect();
    let min = counted.iter().copied().min_by(|a, b| compare(a, b)).cloned();
    let max = counted.iter().copied().max_by(|a, b| compare(a, b)).cloned();
    let max = max.filter(|v| w.nan != 1 || !is_nan(v));
    let cut = |v: Value, up: bool| match v {
        Value::Text(t) if t.chars().count() > 3 => {
            let head: String = t.chars().take(3).collect();
            if !up {
                return Value::Text(head);
            }
            let first = t.chars().nth(3).unwrap();
            let counted = if first < '\u{7f}' {
                format!("{head}\u{7f}")
            } else {
                format!("{t}\u{10FFFF}")
            };
            Value::Text(counted)
        }
        Value::Micros(m) => Value::Micros(m.div_euclid(1000) * 1000),
        other => other,
    };
    (min.map(|v| cut(v, false)), max.map(|v| cut(v, true)))
}

fn json_value(v: &Value, ty: Primitive, w: &Writer) -> String {
    let number = |text: String| {
        let double = |t: &str| serde_json::to_string(&t.parse::<f64>().unwrap()).unwrap();
        if w.doubles && matches!(ty, Primitive::Decimal { .. }) {
            double(&text)
        } else {
            text
        }
    };
    let float = |v: f64| match v {
        v if v.is_nan() => "\"NaN\"".to_owned(),
        v if v.is_infinite() => format!("\"{}Infinity\"", if v < 0.0 { "-" } else { "" }),
        v => format!("{v:?}"),
    };
    match v {
        Value::Exact(v) => match ty {
            SMALL => number(format_decimal(v / 10_000, 2)),
            BIG => number(format_decimal(v / 100, 4)),
            _ => (v / MILLION).to_string(),
        },
        Value::Double(v) => float(*v),
        Value::Float(v) if v.is_finite() => format!("{v:?}"),
        Value::Float(v) => float(f64::from(*v)),
        Value::Text(t) => serde_json::to_string(t).unwrap(),
        Value::Days(d) => format!("\"{}\"", format_date(*d)),
        Value::Micros(m) if ty == Primitive::TimestampNtz => format!("\"{}\"", &clock(*m).replace(' ', "T")[..23]),
        Value::Micros(m) => format!("\"{}Z\"", &clock(*m)[..23]),
        Value::Bytes(_) | Value::Bool(_) => unreachable!(),
    }
}

struct Stats {
    min: Row,
    max: Row,
    nulls: Vec<Option<i64>>,
    rows: i64,
}

fn stats(rows: &[Row], w: &Writer) -> Stats {
    let mut s = Stats {
        min: vec![],
        max: vec![],
        nulls: vec![],
        rows: rows.len().try_into().unwrap(),
    };
    for (i, (_, ty)) in leaves().iter().enumerate().take(14) {
        let known = w.missing >> i & 1 == 0;
        let values: Vec<&Value> = rows.iter().filter_map(|r| r[i].as_ref()).collect();
        let (min, max) = if known { min_max(&values, *ty, w) } else { (None, None) };
        s.min.push(min);
        s.max.push(max);
        s.nulls
            .push(known.then(|| i64::try_from(rows.len() - values.len()).unwrap()));
    }
    s
}

fn json(s: &Stats, w: &Writer) -> String {
    let section = |text_of: &dyn Fn(usize) -> Option<String>| {
        let mut parts = Vec::new();
        for (i, (path, _)) in leaves().iter().enumerate().take(14) {
            let Some(text) = text_of(i) else { continue };
            match path.as_slice() {
                [name] => parts.push(format!("\"{name}\":{text}")),
                [parent, name] => parts.push(format!("\"{parent}\":{{\"{name}\":{text}}}")),
                _ => unreachable!(),
            }
        }
        format!("{{{}}}", parts.join(","))
    };
    let ty = |i: usize| leaves()[i].1;
    format!(
        r#"{{"numRecords":{},"tightBounds":{},"minValues":{},"maxValues":{},"nullCount":{}}}"#,
        s.rows,
        !w.wide,
        section(&|i| s.min[i].as_ref().map(|v| json_value(v, ty(i), w))),
        section(&|i| s.max[i].as_ref().map(|v| json_value(v, ty(i), w))),
        section(&|i| s.nulls[i].map(|n| n.to_string())),
    )
}

fn structs(all: &[Option<Stats>]) -> ArrayRef {
    let tys: Vec<_> = leaves().into_iter().take(14).collect();
    let empty = || vec![None; 14];
    let section = |row_of: &dyn Fn(&Stats) -> Row| -> ArrayRef {
        let rows: Vec<Row> = all.iter().map(|s| s.as_ref().map_or_else(empty, row_of)).collect();
        let columns = columns(&rows, &tys);
        let fields: Fields = columns
            .iter()
            .map(|(n, a)| ArrowField::new(n, a.data_type().clone(), true))
            .collect();
        Arc::new(StructArray::new(
            fields,
            columns.into_iter().map(|(_, a)| a).collect(),
            None,
        ))
    };
    let count_tys: Vec<_> = tys.iter().map(|(p, _)| (p.clone(), Primitive::Long)).collect();
    let counts: Vec<Row> = all
        .iter()
        .map(|s| {
            s.as_ref().map_or_else(empty, |s| {
                s.nulls
                    .iter()
                    .map(|n| n.map(|n| Value::Exact(i128::from(n) * MILLION)))
                    .collect()
            })
        })
        .collect();
    let counts = columns(&counts, &count_tys);
    let fields: Fields = counts
        .iter()
        .map(|(n, a)| ArrowField::new(n, a.data_type().clone(), true))
        .collect();
    let counts: ArrayRef = Arc::new(StructArray::new(
        fields,
        counts.into_iter().map(|(_, a)| a).collect(),
        None,
    ));
    let records: ArrayRef = Arc::new(Int64Array::from_iter(all.iter().map(|s| s.as_ref().map(|s| s.rows))));
    let parts = [
        ("numRecords", records),
        ("minValues", section(&|s| s.min.clone())),
        ("maxValues", section(&|s| s.max.clone())),
        ("nullCount", counts),
    ];
    let fields: Fields = parts
        .iter()
        .map(|(n, a)| ArrowField::new(*n, a.data_type().clone(), true))
        .collect();
    let nulls = NullBuffer::from_iter(all.iter().map(Option::is_some));
    Arc::new(StructArray::new(
        fields,
        parts.into_iter().map(|(_, a)| a).collect(),
        Some(nulls),
    ))
}

/// A batch of adds: each file's live rows, and rows that a deletion vector took.
fn files_batch(files: &[(Vec<Row>, Vec<Row>, Writer)]) -> RecordBatch {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    let (mut texts, mut parsed) = (Vec::new(), Vec::new());
    for (rows, deleted, w) in files {
        let batch = rows_batch(rows);
        for name in partition_columns() {
            maps.keys().append_value(&name);
            maps.values()
                .append_option(partition_text(batch.column_by_name(&name).unwrap(), 0).unwrap());
        }
        maps.append(true).unwrap();
        let mut covered = rows.clone();
        if w.wide {
            covered.extend(deleted.iter().cloned());
        }
        let stats = stats(&covered, w);
        texts.push((w.form == 1 || w.form > 3).then(|| json(&stats, w)));
        parsed.push((w.form == 2 || w.form == 3 || w.form == 7).then_some(stats));
    }
    let maps: ArrayRef = Arc::new(maps.finish());
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let parsed = structs(&parsed);
    let columns = [("partitionValues", maps), ("stats", texts), ("stats_parsed", parsed)];
    let fields: Vec<ArrowField> = columns
        .iter()
        .map(|(n, a)| ArrowField::new(*n, a.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(
        Arc::new(Schema::new(fields)),
        columns.into_iter().map(|(_, a)| a).collect(),
    )
    .unwrap()
}

fn file() -> impl Strategy<Value = (Vec<Row>, Vec<Row>, Writer)> {
    (
        prop::collection::vec(row(), 1..5),
        prop::collection::vec(row(), 0..3),
        writer(),
    )
        .prop_map(|(mut rows, deleted, w)| {
            // The empty string is null in a partition (P170).
            let partition: Row = rows[0][14..]
                .iter()
                .map(|v| v.clone().filter(|v| *v != Value::Text(String::new())))
                .collect();
            for r in &mut rows {
                r.truncate(14);
                r.extend(partition.iter().cloned());
            }
            (rows, deleted, w)
        })
}

fn bind(e: &Expr) -> Option<Predicate> {
    Predicate::bind(e, &schema()).ok()
}

fn truths(a: &BooleanArray) -> Vec<Option<bool>> {
    a.iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn evaluation_is_the_model(e in predicate(), rows in prop::collection::vec(row(), 1..8)) {
        let p = bind(&e);
        prop_assume!(p.is_some());
        let expected: Vec<Option<bool>> = rows.iter().map(|r| truth(&e, r)).collect();
        prop_assert_eq!(truths(&p.unwrap().evaluate(&rows_batch(&rows)).unwrap()), expected);
    }

    #[test]
    fn the_normal_form_means_the_same(e in predicate(), rows in prop::collection::vec(row(), 1..8)) {
        let p = bind(&e);
        prop_assume!(p.is_some());
        let (p, batch) = (p.unwrap(), rows_batch(&rows));
        prop_assert_eq!(truths(&evaluate(&p.node().normal_form(), &batch).unwrap()), truths(&p.evaluate(&batch).unwrap()));
    }

    #[test]
    fn no_file_with_a_match_is_dropped(e in predicate(), files in prop::collection::vec(file(), 1..5)) {
        let p = bind(&e);
        prop_assume!(p.is_some());
        let p = p.unwrap();
        let pruner = Pruner::new(&p, &schema(), &partition_columns(), Mapping::None).unwrap();
        let mask = pruner.keep(&files_batch(&files)).unwrap();
        prop_assert_eq!(mask.null_count(), 0);
        for (i, (rows, ..)) in files.iter().enumerate() {
            let matched = p.evaluate(&rows_batch(rows)).unwrap().true_count() > 0;
            prop_assert!(!matched || mask.value(i), "file {} was dropped", i);
        }
        if p.partition_only(&partition_columns()) {
            // Partition values are exact: nothing more is kept than matches.
            for (i, (rows, ..)) in files.iter().enumerate() {
                prop_assert_eq!(mask.value(i), p.evaluate(&rows_batch(rows)).unwrap().true_count() > 0);
            }
        }
    }

    #[test]
    fn trees_survive_json(e in predicate()) {
        prop_assert_eq!(Expr::from_json(&serde_json::to_string(&e).unwrap()).unwrap(), e);
    }

    #[test]
    fn hostile_statistics_are_no_error(text in "\\PC{0,60}", e in predicate()) {
        // P165
        let p = bind(&e);
        prop_assume!(p.is_some());
        let pruner = Pruner::new(&p.unwrap(), &schema(), &partition_columns(), Mapping::None).unwrap();
        let texts: ArrayRef = Arc::new(StringArray::from(vec![
            format!(r#"{{"numRecords":3,"minValues":{text},"maxValues":[1],"nullCount":null}}"#),
            text,
            r#"{"numRecords":1e3,"minValues":{"long":"x","day":5,"s":null,"n":7,"d":[]},"nullCount":{"long":-1}}"#.to_owned(),
        ]));
        let batch = RecordBatch::try_from_iter([("stats", texts)]).unwrap();
        prop_assert!(pruner.keep(&batch).is_ok());
    }
}

/// Whole numbers around `column ± k op v`, and the ends of their types.
fn whole(ty: &'static str) -> impl Strategy<Value = i64> {
    let (low, high) = match ty {
        "integer" => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    prop_oneof![8 => -12..12i64, 1 => low..=low + 3, 1 => high - 3..=high]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// P164: arithmetic on either side of the column, compared from either side.
    #[test]
    fn no_file_with_a_match_of_arithmetic_is_dropped(
        column in prop::sample::select(vec![(0usize, "tiny"), (1, "Int"), (2, "long")]),
        (ty, k, v) in prop::sample::select(vec!["integer", "long"]).prop_flat_map(|ty| (Just(ty), whole(ty), whole(ty))),
        sign in prop::sample::select(vec![Sign::Plus, Sign::Minus, Sign::Times]),
        cmp in prop::sample::select(vec![Comparison::Eq, Comparison::Ne, Comparison::Lt, Comparison::Le,
            Comparison::Gt, Comparison::Ge, Comparison::NullSafeEq]),
        (is_left, is_compared_left, is_negated) in any::<(bool, bool, bool)>(),
        values in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.8, -20..20i128), 1..4), 1..5),
    ) {
        let literal = |n: i64| Box::new(Expr::Literal { value: Some(n.to_string()), type_name: ty.to_owned() });
        let (index, name) = column;
        let (named, other) = (Box::new(Expr::Column { name: vec![name.to_owned()] }), literal(k));
        let (left, right) = if is_left { (named, other) } else { (other, named) };
        let (sum, v) = (Box::new(Expr::Arithmetic { sign, left, right }), literal(v));
        let (left, right) = if is_compared_left { (sum, v) } else { (v, sum) };
        let compared = Expr::Compare { cmp, left, right };
        let e = if is_negated { Expr::Not { arg: Box::new(compared) } } else { compared };
        let p = bind(&e).unwrap();
        let writer = Writer { form: 1, doubles: false, nan: 0, wide: false, missing: 0 };
        let files: Vec<(Vec<Row>, Vec<Row>, Writer)> = values.iter().map(|file| {
            let rows = file.iter().map(|value| {
                let mut row: Row = vec![None; leaves().len()];
                row[index] = value.map(|n| Value::Exact(n * MILLION));
                row
            });
            (rows.collect(), Vec::new(), writer.clone())
        }).collect();
        let pruner = Pruner::new(&p, &schema(), &partition_columns(), Mapping::None).unwrap();
        let mask = pruner.keep(&files_batch(&files)).unwrap();
        for (i, (rows, ..)) in files.iter().enumerate() {
            // A sum beyond its type is an error when the file is read.
            let Ok(matches) = p.evaluate(&rows_batch(rows)) else { continue };
            let matched = matches.true_count() > 0;
            prop_assert!(!matched || mask.value(i), "file {} was dropped: {:?}", i, e);
            let value = |r: &Row| r[index].clone();
            let (first, has_one) = (value(&rows[0]), rows.iter().all(|r| value(r) == value(&rows[0])));
            // Of one value the bounds tell all.
            if has_one && first.is_some() && sign != Sign::Times && cmp != Comparison::NullSafeEq {
                prop_assert_eq!(mask.value(i), matched, "file {}: {:?}", i, e);
            }
        }
    }
}

/// P168, Q4: each comparison and list of floats over each file of up to two values and a null,
/// whatever its writer makes of NaN.
#[test]
fn no_file_with_a_match_of_floats_is_dropped() {
    use Comparison::{Eq, Ge, Gt, Le, Lt, Ne, NullSafeEq};
    let pool = [None, Some(-1.5_f32), Some(2.0), Some(f32::NAN)];
    let mut files: Vec<(Vec<Row>, Vec<Row>, Writer)> = Vec::new();
    let row = |v: Option<f32>| {
        let mut row: Row = vec![None; leaves().len()];
        (row[3], row[4]) = (v.map(Value::Float), v.map(|v| Value::Double(f64::from(v))));
        row
    };
    for (form, nan) in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)] {
        let writer = Writer {
            form,
            doubles: false,
            nan,
            wide: false,
            missing: 0,
        };
        for (a, b) in pool.iter().flat_map(|a| pool.iter().map(move |b| (*a, *b))) {
            files.push((vec![row(a), row(b)], Vec::new(), writer.clone()));
        }
    }
    let batch = files_batch(&files);
    let literal = |v: &str, ty: &str| Expr::Literal {
        value: Some(v.to_owned()),
        type_name: ty.to_owned(),
    };
    let texts = ["-3", "-1.5", "0", "2", "100", "NaN"];
    for (name, ty) in [("f", "float"), ("d", "double")] {
        let column = || {
            Box::new(Expr::Column {
                name: vec![name.to_owned()],
            })
        };
        let compared = [Eq, Ne, Lt, Le, Gt, Ge, NullSafeEq].into_iter().flat_map(|cmp| {
            let compare = move |v: &str| Expr::Compare {
                cmp,
                left: column(),
                right: Box::new(literal(v, ty)),
            };
            texts.iter().map(move |v| compare(v)).collect::<Vec<_>>()
        });
        let lists = texts
            .iter()
            .flat_map(|a| texts.iter().map(move |b| [*a, *b]))
            .map(|pair| Expr::In {
                arg: column(),
                list: pair.iter().map(|v| literal(v, ty)).collect(),
            });
        for e in compared
            .chain(lists)
            .flat_map(|e| [e.clone(), Expr::Not { arg: Box::new(e) }])
        {
            let p = bind(&e).unwrap();
            let mask = Pruner::new(&p, &schema(), &partition_columns(), Mapping::None)
                .unwrap()
                .keep(&batch)
                .unwrap();
            for (i, (rows, _, w)) in files.iter().enumerate() {
                let matched = p.evaluate(&rows_batch(rows)).unwrap().true_count() > 0;
                assert!(!matched || mask.value(i), "{e:?} drops the rows {rows:?} of {w:?}");
            }
        }
    }
}

#[test]
fn batches_of_rows_can_be_joined() {
    // Guards the generator itself: all batches have one schema.
    let batch = rows_batch(&[vec![None; 16]]);
    assert_eq!(concat_batches(&batch.schema(), [&batch, &batch]).unwrap().num_rows(), 2);
}
