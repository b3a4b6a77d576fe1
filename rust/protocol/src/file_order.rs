//! In which order a checkpoint keeps its files, so that those that a predicate wants stand together: by partition values,
//! then along a space-filling curve over the minimums of the columns that tell files apart. Pure; called by the checkpoint
//! writers.

use arrow::array::{Array, ArrayRef, AsArray, StructArray, UInt32Array, UInt64Array};
use arrow::compute::{SortColumn, cast, concat, lexsort_to_indices};
use arrow::datatypes::{DataType as ArrowType, Float64Type};
use arrow::error::ArrowError;

use crate::{Error, Result};

/// Columns that the curve runs through at most: each one more makes the files of a range of one lie further apart.
const MOST_COLUMNS: usize = 4;
/// Bits of a column's place on the curve.
const BITS: u32 = 16;
/// Files that are looked at to see whether a column tells them apart.
const SAMPLE: usize = 1_000;
/// A column counts if a file's range meets at most this share of the others: one that meets most can't be skipped.
const MOST_OVERLAP: f64 = 0.1;

/// The order of the files of these rows of a checkpoint's column `add`, as positions in all of them one after the other.
/// `clustering` are the physical paths of the columns that the table is clustered by; without them those that tell files
/// apart are taken. Rows without parsed structs stay as they are.
pub fn file_order(adds: &[StructArray], clustering: &[Vec<String>]) -> Result<UInt32Array> {
    let mut keys: Vec<ArrayRef> = Vec::new();
    for name in children(adds, &["partitionValues_parsed"]) {
        keys.extend(leaf(adds, &["partitionValues_parsed".to_owned(), name])?);
    }
    let curve = curve(adds, clustering)?;
    keys.extend(curve.map(|c| std::sync::Arc::new(c) as ArrayRef));
    let rows = adds.iter().map(StructArray::len).sum::<usize>();
    if keys.is_empty() {
        return (0..rows)
            .map(|row| {
                u32::try_from(row)
                    .map(Some)
                    .map_err(|_| Error::internal("too many files to sort at once"))
            })
            .collect();
    }
    let columns: Vec<SortColumn> = keys
        .into_iter()
        .map(|values| SortColumn { values, options: None })
        .collect();
    lexsort_to_indices(&columns, None).map_err(failed)
}

/// The place of each file on the curve; `None` where no column tells files apart.
fn curve(adds: &[StructArray], clustering: &[Vec<String>]) -> Result<Option<UInt64Array>> {
    let mut found: Vec<(f64, Vec<f64>)> = Vec::new();
    let every: Vec<Vec<String>> = match clustering {
        [] => paths(adds, &["stats_parsed", "minValues"]),
        chosen => chosen.to_vec(),
    };
    for path in &every {
        let bound = |section: &str| -> Result<Option<Vec<f64>>> {
            let head = ["stats_parsed", section].map(str::to_owned);
            let at: Vec<String> = head.into_iter().chain(path.iter().cloned()).collect();
            leaf(adds, &at)?.map(|a| numbers(&a)).transpose()
        };
        let (Some(min), Some(max)) = (bound("minValues")?, bound("maxValues")?) else {
            continue;
        };
        let overlap = overlap(&min, &max);
        if !clustering.is_empty() || overlap <= MOST_OVERLAP {
            found.push((overlap, min));
        }
    }
    if clustering.is_empty() {
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    found.truncate(MOST_COLUMNS);
    let columns: Vec<Vec<u32>> = found.iter().map(|(_, min)| places(min)).collect();
    let Some(rows) = columns.first().map(Vec::len) else {
        return Ok(None);
    };
    Ok(Some(
        (0..rows)
            .map(|row| interleave(columns.iter().filter_map(|c| c.get(row).copied())))
            .collect(),
    ))
}

/// The bits of these places, the highest ones first.
fn interleave(places: impl Iterator<Item = u32> + Clone) -> u64 {
    let mut key = 0;
    for bit in (0..BITS).rev() {
        for place in places.clone() {
            key = (key << 1) | u64::from((place >> bit) & 1);
        }
    }
    key
}

/// Each value's rank among all, spread over the curve's bits; what is unknown comes last.
fn places(values: &[f64]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let value = |i: &usize| values.get(*i).copied().unwrap_or(f64::NAN);
    order.sort_unstable_by(|a, b| value(a).total_cmp(&value(b)));
    let mut out = vec![0; values.len()];
    let (mut place, mut before) = (0, f64::NAN);
    for (rank, i) in order.iter().enumerate() {
        if value(i) != before {
            place = rank;
            before = value(i);
        }
        let spread = (place as u64 * ((1 << BITS) - 1)) / values.len().max(1) as u64;
        if let Some(slot) = out.get_mut(*i) {
            *slot = u32::try_from(spread).unwrap_or(u32::MAX);
        }
    }
    out
}

/// The share of the other files that a file's range meets, on average over a sample; all where nothing is known.
fn overlap(min: &[f64], max: &[f64]) -> f64 {
    let step = min.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<(f64, f64)> = min.iter().copied().zip(max.iter().copied()).step_by(step).collect();
    let known = || sample.iter().filter(|(min, max)| !min.is_nan() && !max.is_nan());
    let (mut mins, mut maxes): (Vec<f64>, Vec<f64>) = known().copied().unzip();
    mins.sort_unstable_by(f64::total_cmp);
    maxes.sort_unstable_by(f64::total_cmp);
    if mins.len() < 2 {
        return 1.0;
    }
    // Met are those that neither end before this one begins nor begin after it ends.
    let met = |(min, max): &(f64, f64)| {
        let begun = mins.partition_point(|other| other <= max);
        let ended = maxes.partition_point(|other| other < min);
        begun.saturating_sub(ended).saturating_sub(1)
    };
    let all: usize = known().map(met).sum();
    #[allow(clippy::cast_precision_loss)]
    let share = all as f64 / (mins.len() * (mins.len() - 1)) as f64;
    // Files without statistics tell nothing apart.
    #[allow(clippy::cast_precision_loss)]
    let unknown = 1.0 - mins.len() as f64 / sample.len() as f64;
    share.max(unknown)
}

/// Values as numbers in the same order, as near as a double comes; NaN is unknown.
fn numbers(array: &ArrayRef) -> Result<Vec<f64>> {
    #[allow(clippy::cast_precision_loss)]
    let of_text = |text: &str| {
        let mut head = [0; 8];
        head.iter_mut().zip(text.bytes()).for_each(|(slot, byte)| *slot = byte);
        u64::from_be_bytes(head) as f64
    };
    if let Some(texts) = array.as_string_opt::<i32>() {
        return Ok(texts.iter().map(|t| t.map_or(f64::NAN, of_text)).collect());
    }
    let number = match array.data_type() {
        ArrowType::Date32 => cast(array, &ArrowType::Int32).and_then(|a| cast(&a, &ArrowType::Float64)),
        ArrowType::Timestamp(..) => cast(array, &ArrowType::Int64).and_then(|a| cast(&a, &ArrowType::Float64)),
        t if t.is_numeric() => cast(array, &ArrowType::Float64),
        _ => return Ok(vec![f64::NAN; array.len()]),
    };
    let number = number.map_err(failed)?;
    let number = number.as_primitive::<Float64Type>();
    Ok(number.iter().map(|v| v.unwrap_or(f64::NAN)).collect())
}

/// Names below a struct of the column.
fn children(adds: &[StructArray], at: &[&str]) -> Vec<String> {
    let inner = adds.first().and_then(|first| {
        let mut here: ArrayRef = std::sync::Arc::new(first.clone());
        for name in at {
            here = here.as_struct_opt()?.column_by_name(name)?.clone();
        }
        Some(here)
    });
    let fields = inner
        .as_ref()
        .and_then(|a| a.as_struct_opt())
        .map(|s| s.fields().clone());
    fields.iter().flatten().map(|f| f.name().clone()).collect()
}

/// Paths of the leaves below a struct of the column, below that struct.
fn paths(adds: &[StructArray], at: &[&str]) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for name in children(adds, at) {
        let below: Vec<&str> = at.iter().copied().chain([name.as_str()]).collect();
        let inner = paths(adds, &below);
        match inner.is_empty() {
            true => out.push(vec![name]),
            false => out.extend(
                inner
                    .into_iter()
                    .map(|rest| std::iter::once(name.clone()).chain(rest).collect()),
            ),
        }
    }
    out
}

/// A leaf of the column in all arrays, one after the other; `None` where one hasn't got it.
fn leaf(adds: &[StructArray], path: &[String]) -> Result<Option<ArrayRef>> {
    let mut found: Vec<ArrayRef> = Vec::with_capacity(adds.len());
    for add in adds {
        let mut here: ArrayRef = std::sync::Arc::new(add.clone());
        for name in path {
            let next = here.as_struct_opt().and_then(|s| s.column_by_name(name));
            let Some(next) = next.cloned() else { return Ok(None) };
            here = next;
        }
        found.push(here);
    }
    let arrays: Vec<&dyn Array> = found.iter().map(AsRef::as_ref).collect();
    match arrays.is_empty() {
        true => Ok(None),
        false => concat(&arrays).map(Some).map_err(failed),
    }
}

fn failed(e: ArrowError) -> Error {
    Error::internal(format!("files can't be sorted: {e}")).with_source(e)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{Date32Array, Int64Array, StringArray};
    use arrow::datatypes::{Field, Fields};
    use std::sync::Arc;

    fn nested(columns: Vec<(&str, ArrayRef)>) -> ArrayRef {
        let fields: Fields = columns
            .iter()
            .map(|(n, a)| Field::new(*n, a.data_type().clone(), true))
            .collect();
        Arc::new(StructArray::new(
            fields,
            columns.into_iter().map(|(_, a)| a).collect(),
            None,
        ))
    }

    /// Files with a range of `id` that follows their number, one of `noise` that covers all, and a day.
    fn adds(numbers: &[i64], days: &[Option<i32>]) -> StructArray {
        let id = |add: i64| Arc::new(Int64Array::from_iter_values(numbers.iter().map(|n| n * 10 + add))) as ArrayRef;
        let noise = |v: &str| Arc::new(StringArray::from(vec![v; numbers.len()])) as ArrayRef;
        let stats = nested(vec![
            ("minValues", nested(vec![("noise", noise("a")), ("id", id(0))])),
            ("maxValues", nested(vec![("noise", noise("z")), ("id", id(9))])),
        ]);
        let day: ArrayRef = Arc::new(Date32Array::from(days.to_vec()));
        let add = nested(vec![
            ("stats_parsed", stats),
            ("partitionValues_parsed", nested(vec![("day", day)])),
        ]);
        add.as_struct().clone()
    }

    fn order(adds: &[StructArray], clustering: &[&str]) -> Vec<u32> {
        let clustering: Vec<Vec<String>> = clustering.iter().map(|c| vec![(*c).to_owned()]).collect();
        file_order(adds, &clustering).unwrap().values().to_vec()
    }

    #[test]
    fn partitions_come_first_then_what_tells_files_apart() {
        let one = adds(&[7, 3, 5], &[Some(2), Some(1), Some(1)]);
        let two = adds(&[1, 9], &[Some(2), None]);
        assert_eq!(order(&[one.clone(), two.clone()], &[]), [4, 1, 2, 3, 0]);
        assert_eq!(order(&[one, two], &["id"]), [4, 1, 2, 3, 0]);
        let plain = nested(vec![("path", Arc::new(StringArray::from(vec!["b", "a"])) as ArrayRef)]);
        assert_eq!(order(&[plain.as_struct().clone()], &[]), [0, 1]);
        assert!(order(&[], &[]).is_empty());
    }

    #[test]
    fn columns_whose_files_overlap_are_not_followed() {
        assert!(overlap(&[0.0, 10.0, 20.0], &[9.0, 19.0, 29.0]) < 0.01);
        assert!(overlap(&[0.0, 1.0, 2.0], &[50.0, 51.0, 52.0]) > 0.99);
        assert!(overlap(&[f64::NAN, 1.0], &[f64::NAN, 2.0]) > 0.99);
        let mut all = vec![f64::NAN; 10];
        all.extend((0..90).map(f64::from));
        assert!((overlap(&all, &all) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn the_curve_takes_one_bit_of_each_column_in_turn() {
        assert_eq!(interleave([0b10, 0b01].into_iter()), 0b1001);
        assert_eq!(interleave([u32::from(u16::MAX)].into_iter()), u64::from(u16::MAX));
        assert_eq!(places(&[2.0, 1.0, 2.0, f64::NAN]), [16_383, 0, 16_383, 49_151]);
    }
}
