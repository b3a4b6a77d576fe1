//! Measures keys by how few files may contain a value when sorted rows are split into files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_precision_loss)]

use std::sync::Arc;

use arrow::array::{BooleanArray, Float64Array, Int64Array, StringArray, StructArray};
use arrow::datatypes::Field;

use super::*;

/// Numbers that look random, the same each time.
fn noise(seed: u64, rows: usize) -> Vec<i64> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(state >> 33).unwrap()
    };
    (0..rows).map(|_| next()).collect()
}

fn longs(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn order(columns: &[ArrayRef], curve: Curve, files: u64) -> RowOrder {
    let mut sample = Sample::default();
    sample.add(columns).unwrap();
    RowOrder::choose(&sample.columns().unwrap(), curve, files).unwrap()
}

/// The rows of each file.
fn cut(columns: &[ArrayRef], curve: Curve, files: usize) -> Vec<Vec<usize>> {
    let order = order(columns, curve, files as u64);
    let keys = order.keys(columns).unwrap();
    let mut rows: Vec<usize> = (0..keys.len()).collect();
    rows.sort_by_key(|row| keys.value(*row).to_vec());
    match order.file_bytes() {
        0 => rows.chunks(rows.len().div_ceil(files)).map(<[usize]>::to_vec).collect(),
        bytes => {
            let leaf = |row: &usize| keys.value(*row)[..bytes].to_vec();
            rows.chunk_by(|a, b| leaf(a) == leaf(b))
                .map(<[usize]>::to_vec)
                .collect()
        }
    }
}

/// The percentage of files that the values of a column don't lie in, by the files' bounds.
fn skipped(files: &[Vec<usize>], values: &[i64]) -> f64 {
    let bounds: Vec<(i64, i64)> = files
        .iter()
        .map(|rows| {
            let values_skipped = || rows.iter().map(|row| values[*row]);
            (values_skipped().min().unwrap(), values_skipped().max().unwrap())
        })
        .collect();
    let looked_for = values.iter().step_by(97);
    let (mut skipped, mut all) = (0, 0);
    for value in looked_for {
        skipped += bounds.iter().filter(|(min, max)| value < min || max < value).count();
        all += bounds.len();
    }
    100.0 * skipped as f64 / all as f64
}

/// The least and the average percentage over four columns of noise in a hundred files.
fn table(curve: Curve) -> (f64, f64) {
    let values: Vec<Vec<i64>> = (1..5).map(|seed| noise(seed, 100_000)).collect();
    let columns: Vec<ArrayRef> = values.iter().cloned().map(longs).collect();
    let files = cut(&columns, curve, 100);
    assert_eq!(files.len(), 100);
    let by_column: Vec<f64> = values.iter().map(|v| skipped(&files, v)).collect();
    (
        by_column.iter().copied().fold(100.0, f64::min),
        by_column.iter().sum::<f64>() / 4.0,
    )
}

#[test]
fn four_columns_of_noise_are_skipped_by_as_the_models_say() {
    for (curve, least, average) in [
        (Curve::ZOrder, 44.0, 55.0),
        (Curve::Hilbert, 58.0, 61.0),
        (Curve::KdTree, 50.0, 66.0),
    ] {
        let (l, a) = table(curve);
        assert!(l >= least && a >= average, "{curve}: {l:.1} / {a:.1}");
    }
}

#[test]
fn neither_width_nor_spread_of_a_column_matters() {
    // Small numbers, huge ones and ones that mostly are equal: bits are taken from ranks, the
    // highest first.
    let (a, b) = (noise(1, 50_000), noise(2, 50_000));
    let small: Vec<i64> = a.iter().map(|n| n % 200).collect();
    let skewed: Vec<i64> = b.iter().map(|n| (n % 1_000).pow(5)).collect();
    for curve in [Curve::ZOrder, Curve::Hilbert, Curve::KdTree] {
        let files = cut(&[longs(small.clone()), longs(skewed.clone())], curve, 64);
        for values in [&small, &skewed] {
            assert!(
                skipped(&files, values) > 75.0,
                "{curve}: {:.1}",
                skipped(&files, values)
            );
        }
    }
    // A column of two values is halved by the first cuts; files at their edges have both.
    let flag: Vec<i64> = a.iter().map(|n| n % 2).collect();
    let files = cut(&[longs(b), longs(flag.clone())], Curve::ZOrder, 64);
    assert!(skipped(&files, &flag) > 44.0);
}

#[test]
fn files_of_a_tree_are_about_equal() {
    for files in [2, 7, 100] {
        let columns: Vec<ArrayRef> = (1..4).map(|seed| longs(noise(seed, 20_000))).collect();
        let sizes: Vec<usize> = cut(&columns, Curve::KdTree, files).iter().map(Vec::len).collect();
        assert_eq!(sizes.len(), files);
        let equal = 20_000.0 / files as f64;
        assert!(
            sizes.iter().all(|n| (*n as f64 - equal).abs() < equal * 0.1),
            "{sizes:?}"
        );
    }
    let equal = [longs(vec![7; 100])];
    assert_eq!(cut(&equal, Curve::KdTree, 10).len(), 1, "what is equal can't be cut");
}

#[test]
fn one_column_is_sorted_whatever_its_type() {
    let texts = noise(3, 3_000)
        .into_iter()
        .map(|n| (n % 7 != 0).then(|| format!("a long common beginning {n}")));
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let floats = noise(4, 3_000).into_iter().map(|n| match n % 11 {
        0 => None,
        1 => Some(f64::NAN),
        _ => Some(n as f64 - 1e9),
    });
    let floats: ArrayRef = Arc::new(floats.collect::<Float64Array>());
    let flags: ArrayRef = Arc::new(
        noise(5, 3_000)
            .into_iter()
            .map(|n| Some(n % 2 == 0))
            .collect::<BooleanArray>(),
    );
    for column in [texts, floats, flags] {
        let keys = order(std::slice::from_ref(&column), Curve::Hilbert, 10)
            .keys(std::slice::from_ref(&column))
            .unwrap();
        let mut rows: Vec<u64> = (0..3_000).collect();
        rows.sort_by_key(|row| keys.value(usize::try_from(*row).unwrap()).to_vec());
        let rows = arrow::array::UInt64Array::from(rows);
        let sorted = arrow::compute::take(&column, &rows, None).unwrap();
        let converter =
            arrow::row::RowConverter::new(vec![arrow::row::SortField::new(column.data_type().clone())]).unwrap();
        let compared = converter.convert_columns(&[sorted]).unwrap();
        assert!(
            (1..3_000).all(|i| compared.row(i - 1) <= compared.row(i)),
            "{}",
            column.data_type()
        );
    }
}

#[test]
fn a_field_of_a_null_struct_is_null() {
    let child: ArrayRef = longs(vec![1, 2, 3]);
    let field = Arc::new(Field::new("x", child.data_type().clone(), true));
    let nulls = arrow::buffer::NullBuffer::from(vec![true, false, true]);
    let struct_array: ArrayRef = Arc::new(StructArray::new(vec![field].into(), vec![child], Some(nulls)));
    let batch = RecordBatch::try_from_iter([("s", struct_array)]).unwrap();
    let columns = columns_of(&batch, &[vec!["s".to_owned(), "x".to_owned()]]).unwrap();
    assert_eq!((columns[0].is_null(0), columns[0].is_null(1)), (false, true));
    assert!(columns_of(&batch, &[vec!["t".to_owned()]]).is_err());
}

#[test]
fn a_sample_is_bounded_and_takes_rows_that_repeat() {
    let mut sample = Sample::default();
    for _ in 0..40 {
        sample.add(&[longs((0..50_000).map(|n| n % 8).collect())]).unwrap();
    }
    let columns = sample.columns().unwrap();
    let taken = columns[0].as_primitive::<arrow::datatypes::Int64Type>();
    assert!((1 << 17..=1 << 18).contains(&taken.len()), "{}", taken.len());
    for value in 0..8 {
        let share = taken.values().iter().filter(|v| **v == value).count() as f64 / taken.len() as f64;
        assert!((share - 0.125).abs() < 0.01, "{value}: {share}");
    }
    assert!(Sample::default().columns().unwrap().is_empty());
}

#[test]
fn columns_without_an_order_are_refused_by_name() {
    let schema = StructType::from_json(
        r#"{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{}},{"name":"p","type":"string","nullable":true,"metadata":{}},{"name":"s","type":{"type":"struct","fields":[{"name":"Y","type":"date","nullable":true,"metadata":{}}]},"nullable":true,"metadata":{}}]}"#,
    )
    .unwrap();
    let ask = |columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|c| (*c).to_owned()).collect();
        paths(&schema, &["p".to_owned()], &columns)
    };
    assert_eq!(ask(&["X", "s.y"]).unwrap(), [vec!["x"], vec!["s", "Y"]]);
    for (columns, said) in [
        (&[][..], "one to 12 columns"),
        (&["x", "X"], "given twice"),
        (&["p"], "partition column"),
        (&["s"], "no order"),
        (&["z"], "isn't a column"),
        (&["x.y"], "isn't a column"),
    ] {
        let error = ask(columns).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert!("spiral".parse::<Curve>().is_err());
}
