//! The order of a checkpoint's files, so that files which match a predicate are adjacent: by
//! partition values, then along a space-filling curve over the minimums of selective columns. An
//! order is chosen once and recorded, so that sorted runs can be merged later. Pure.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    StringArray, StructArray,
};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType as ArrowType, Fields, Float64Type};
use arrow::error::ArrowError;
use serde::{Deserialize, Serialize};

use crate::curves::z_order;
use crate::{Error, Result};

/// Columns of the curve at most: each further one spreads the files of a range of one column.
const MOST_COLUMNS: usize = 4;
/// Bits of a column's position on the curve. More bits would lengthen the note in each footer;
/// within a position the values themselves decide.
const BITS: u32 = 8;
/// Files in the sample that decides whether a column is selective.
const SAMPLE: usize = 1_000;
/// A column is selective if a file's range overlaps at most this share of the others: a column
/// whose ranges overlap most others can't skip files.
const MOST_OVERLAP: f64 = 0.1;
/// A table that has grown by this factor gets a new order, for which all of its files are sorted.
const MOST_GROWTH: u64 = 2;
/// An order for this many files suits any larger table: its cuts tell enough files apart, and
/// sorting all files again would take minutes within a commit.
const ENOUGH_FILES: u64 = 1_000_000;

/// An order of files, independent of the files that are sorted by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileOrder {
    partitions: Vec<Column>,
    curve: Vec<Curved>,
    /// Whether the table's clustering determined the curve's columns.
    clustered: bool,
    /// Number of the table's files when it was chosen.
    files: u64,
}

/// A leaf of the column `add`: its path, and its Arrow type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Column {
    path: Vec<String>,
    #[serde(rename = "type")]
    ty: String,
}

/// A column of the curve: the distribution of its minimums.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Curved {
    #[serde(flatten)]
    column: Column,
    /// Ascending; a value's rank is the number of cuts that aren't above it.
    cuts: Vec<f64>,
}

impl FileOrder {
    /// Chooses the order for a table with this number of files, of which these rows of a
    /// checkpoint's column `add` are a sample. `clustering` are the physical paths of the
    /// clustering columns; without them, columns whose bounds separate files are chosen.
    pub fn choose(sample: &[StructArray], clustering: &[Vec<String>], files: u64) -> Result<FileOrder> {
        let fields = sample.first().map(|s| s.fields().clone()).unwrap_or_default();
        let mut columns: Vec<(f64, Curved)> = Vec::new();
        for (path, leaf_path) in candidates(&fields, clustering) {
            let (Some(min), Some(max)) = (leaf(sample, &leaf_path)?, leaf(sample, &below("maxValues", &path))?) else {
                continue;
            };
            let (mins, maxes) = (numbers(&min)?, numbers(&max)?);
            let overlap = overlap(&mins, &maxes);
            if !clustering.is_empty() || overlap <= MOST_OVERLAP {
                let column = Column {
                    path: leaf_path,
                    ty: min.data_type().to_string(),
                };
                let cuts = cuts(mins);
                columns.push((overlap, Curved { column, cuts }));
            }
        }
        if clustering.is_empty() {
            columns.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        columns.truncate(MOST_COLUMNS);
        Ok(FileOrder {
            partitions: partitions(&fields),
            curve: columns.into_iter().map(|(_, curved)| curved).collect(),
            clustered: !clustering.is_empty(),
            files,
        })
    }

    /// Whether it still suits the table: the table has the same partition columns, the curve's
    /// columns with the same types, the same clustering, and hasn't outgrown it. `adds` are the
    /// fields of the column `add`.
    pub fn fits(&self, adds: &Fields, clustering: &[Vec<String>], files: u64) -> bool {
        let there = |c: &Curved| field(adds, &c.column.path).is_some_and(|t| t.to_string() == c.column.ty);
        let same_columns = match clustering {
            [] => !self.clustered,
            _ => {
                let asked: Vec<Vec<String>> = candidates(adds, clustering)
                    .into_iter()
                    .map(|(_, leaf_path)| leaf_path)
                    .collect();
                let ours: Vec<Vec<String>> = self.curve.iter().map(|c| c.column.path.clone()).collect();
                self.clustered && asked.into_iter().take(MOST_COLUMNS).eq(ours)
            }
        };
        same_columns
            && self.partitions == partitions(adds)
            && self.curve.iter().all(there)
            && (self.files >= ENOUGH_FILES || files <= self.files.saturating_mul(MOST_GROWTH))
    }

    /// A key for each of these rows of a checkpoint's column `add`; files are sorted by the bytes
    /// of their keys.
    ///
    /// # Errors
    /// `Internal` if the rows' columns can't be read.
    pub fn keys(&self, adds: &StructArray) -> Result<BinaryArray> {
        let batch = std::slice::from_ref(adds);
        let mut values: Vec<Values> = Vec::new();
        for column in &self.partitions {
            values.extend(leaf(batch, &column.path)?.map(|a| Values::of(&a)).transpose()?);
        }
        let mut curve: Vec<(&[f64], Vec<f64>)> = Vec::new();
        for Curved { column, cuts } in &self.curve {
            if let Some(array) = leaf(batch, &column.path)? {
                curve.push((cuts, numbers(&array)?));
            }
        }
        let mut keys = BinaryBuilder::with_capacity(adds.len(), adds.len() * 16 * (values.len() + curve.len()));
        let (mut key, mut places) = (Vec::new(), Vec::new());
        for row in 0..adds.len() {
            key.clear();
            for v in &values {
                v.write(row, &mut key);
            }
            let numbers = || {
                curve
                    .iter()
                    .map(|(cuts, all)| (*cuts, all.get(row).copied().unwrap_or(f64::NAN)))
            };
            // Once for all bits: each rank is a search through the cuts.
            places.clear();
            places.extend(numbers().map(|(cuts, v)| place(cuts, v)));
            let on_curve = z_order(places.iter().copied(), BITS);
            key.extend(u32::try_from(on_curve).unwrap_or(u32::MAX).to_be_bytes());
            for (_, v) in numbers() {
                key.extend(ordered(v));
            }
            keys.append_value(&key);
        }
        Ok(keys.finish())
    }

    /// Whether the order is empty: every sequence of files is then sorted.
    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty() && self.curve.is_empty()
    }

    /// Paths below the column `add` of the partition columns' values.
    pub fn partition_paths(&self) -> impl Iterator<Item = &[String]> {
        self.partitions.iter().map(|c| c.path.as_slice())
    }

    /// Paths below the column `add` of the curve's minimums.
    pub fn curve_paths(&self) -> impl Iterator<Item = &[String]> {
        self.curve.iter().map(|c| c.column.path.as_slice())
    }

    /// As text for a footer.
    pub fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::internal(format!("an order can't be noted: {e}")).with_source(e))
    }

    /// From a footer's text; `None` if it is invalid.
    pub fn from_text(text: &str) -> Option<FileOrder> {
        serde_json::from_str(text).ok()
    }
}

/// Partition values of some files, in the form needed for keys.
enum Values {
    Flags(BooleanArray),
    Longs(Int64Array),
    Decimals(Decimal128Array),
    Doubles(Float64Array),
    Texts(StringArray),
    Bytes(BinaryArray),
    Unordered,
}

impl Values {
    fn of(array: &ArrayRef) -> Result<Values> {
        let long = |a: &ArrayRef| cast(a, &ArrowType::Int64).map(|a| a.as_primitive().clone());
        let values = match array.data_type() {
            ArrowType::Boolean => Ok(Values::Flags(array.as_boolean().clone())),
            ArrowType::Date32 => cast(array, &ArrowType::Int32).and_then(|a| long(&a)).map(Values::Longs),
            ArrowType::Timestamp(..) => long(array).map(Values::Longs),
            ArrowType::Decimal128(..) => Ok(Values::Decimals(array.as_primitive().clone())),
            ArrowType::Utf8 => Ok(Values::Texts(array.as_string().clone())),
            ArrowType::Binary => Ok(Values::Bytes(array.as_binary().clone())),
            t if t.is_integer() => long(array).map(Values::Longs),
            t if t.is_floating() => cast(array, &ArrowType::Float64).map(|a| Values::Doubles(a.as_primitive().clone())),
            _ => Ok(Values::Unordered),
        };
        values.map_err(failed)
    }

    /// Appends a row's value so that no encoding is a prefix of another: nulls come first.
    fn write(&self, row: usize, key: &mut Vec<u8>) {
        let array: &dyn Array = match self {
            Values::Flags(a) => a,
            Values::Longs(a) => a,
            Values::Decimals(a) => a,
            Values::Doubles(a) => a,
            Values::Texts(a) => a,
            Values::Bytes(a) => a,
            Values::Unordered => return,
        };
        if array.is_null(row) {
            return key.push(0);
        }
        key.push(1);
        match self {
            Values::Flags(a) => key.push(u8::from(a.value(row))),
            Values::Longs(a) => key.extend((a.value(row) ^ i64::MIN).to_be_bytes()),
            Values::Decimals(a) => key.extend((a.value(row) ^ i128::MIN).to_be_bytes()),
            Values::Doubles(a) => key.extend(ordered(a.value(row))),
            Values::Texts(a) => escaped(a.value(row).as_bytes(), key),
            Values::Bytes(a) => escaped(a.value(row), key),
            Values::Unordered => {}
        }
    }
}

/// Terminated bytes: a zero is followed by a one, the end isn't.
fn escaped(bytes: &[u8], key: &mut Vec<u8>) {
    for b in bytes {
        key.push(*b);
        if *b == 0 {
            key.push(1);
        }
    }
    key.extend([0, 0]);
}

/// A number's bytes in sort order; NaN, which represents an unknown value, comes last.
fn ordered(value: f64) -> [u8; 8] {
    let bits = if value.is_nan() { f64::NAN } else { value }.to_bits();
    let bits = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    bits.to_be_bytes()
}

/// The candidate columns of the curve, as paths below a section and below `add`.
fn candidates(adds: &Fields, clustering: &[Vec<String>]) -> Vec<(Vec<String>, Vec<String>)> {
    let all = match (clustering, field(adds, &below("minValues", &[]))) {
        ([], Some(ArrowType::Struct(columns))) => leaves(columns),
        ([], _) => Vec::new(),
        (chosen, _) => chosen.to_vec(),
    };
    let there = |(_, leaf_path): &(Vec<String>, Vec<String>)| {
        field(adds, leaf_path).is_some_and(|t| !matches!(t, ArrowType::Struct(_)))
    };
    let paths = all.into_iter().map(|path| (path.clone(), below("minValues", &path)));
    paths.filter(there).collect()
}

fn below(section: &str, path: &[String]) -> Vec<String> {
    let head = ["stats_parsed", section].map(str::to_owned);
    head.into_iter().chain(path.iter().cloned()).collect()
}

/// The partition columns among the fields of the column `add`.
fn partitions(adds: &Fields) -> Vec<Column> {
    let parsed = "partitionValues_parsed".to_owned();
    match field(adds, std::slice::from_ref(&parsed)) {
        Some(ArrowType::Struct(columns)) => columns
            .iter()
            .map(|c| Column {
                path: vec![parsed.clone(), c.name().clone()],
                ty: c.data_type().to_string(),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The boundaries of a column's ranks, so that each rank has the same number of these values.
fn cuts(mut values: Vec<f64>) -> Vec<f64> {
    values.retain(|v| v.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    let places = 1_usize << BITS;
    let quantile = |place: usize| values.get(place * values.len() / places).copied();
    let mut cuts: Vec<f64> = (1..places).filter_map(quantile).collect();
    cuts.dedup();
    cuts
}

fn place(cuts: &[f64], value: f64) -> u32 {
    // Unknown values come last.
    let place = match value.is_nan() {
        true => 1 << BITS,
        false => cuts.partition_point(|cut| *cut <= value),
    };
    u32::try_from(place).unwrap_or(u32::MAX).min((1 << BITS) - 1)
}

/// The average share of other files whose ranges overlap a file's range, over a sample; 1 if
/// nothing is known.
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
    // Two ranges overlap unless one ends before the other begins.
    let met = |(min, max): &(f64, f64)| {
        let begun = mins.partition_point(|other| other <= max);
        let ended = maxes.partition_point(|other| other < min);
        begun.saturating_sub(ended).saturating_sub(1)
    };
    let all: usize = known().map(met).sum();
    #[allow(clippy::cast_precision_loss)]
    let share = all as f64 / (mins.len() * (mins.len() - 1)) as f64;
    // Files without statistics count as overlapping.
    #[allow(clippy::cast_precision_loss)]
    let unknown = 1.0 - mins.len() as f64 / sample.len() as f64;
    share.max(unknown)
}

/// Values as doubles in the same order, approximately; NaN is unknown.
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

/// The type at this path through structs.
fn field<'a>(fields: &'a Fields, path: &[String]) -> Option<&'a ArrowType> {
    let (name, rest) = path.split_first()?;
    let (_, field_of_name) = fields.find(name)?;
    match (field_of_name.data_type(), rest) {
        (field_of_name, []) => Some(field_of_name),
        (ArrowType::Struct(inner), rest) => field(inner, rest),
        _ => None,
    }
}

/// Paths of the leaves below a struct.
fn leaves(fields: &Fields) -> Vec<Vec<String>> {
    let below = |f: &std::sync::Arc<arrow::datatypes::Field>| match f.data_type() {
        ArrowType::Struct(inner) => leaves(inner),
        _ => vec![Vec::new()],
    };
    let named = |f: &std::sync::Arc<arrow::datatypes::Field>| {
        let name = f.name().clone();
        let rest = below(f).into_iter();
        rest.map(move |rest| std::iter::once(name.clone()).chain(rest).collect())
            .collect::<Vec<Vec<String>>>()
    };
    fields.iter().flat_map(named).collect()
}

/// A leaf of the column from all arrays, concatenated; `None` if one lacks it.
fn leaf(adds: &[StructArray], path: &[String]) -> Result<Option<ArrayRef>> {
    let mut arrays_of_leaf: Vec<ArrayRef> = Vec::with_capacity(adds.len());
    for add in adds {
        let mut here: ArrayRef = std::sync::Arc::new(add.clone());
        for name in path {
            let next = here.as_struct_opt().and_then(|s| s.column_by_name(name));
            let Some(next) = next.cloned() else { return Ok(None) };
            here = next;
        }
        arrays_of_leaf.push(here);
    }
    let arrays: Vec<&dyn Array> = arrays_of_leaf.iter().map(AsRef::as_ref).collect();
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
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use arrow::array::Date32Array;
    use arrow::datatypes::Field;
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

    /// Files with a range of `id` that follows their number, one of `noise` that covers all, and a
    /// day.
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

    fn order(adds: &[StructArray], clustering: &[&str]) -> Vec<usize> {
        let clustering: Vec<Vec<String>> = clustering.iter().map(|c| vec![(*c).to_owned()]).collect();
        let files = adds.iter().map(|a| a.len() as u64).sum();
        let order = FileOrder::choose(adds, &clustering, files).unwrap();
        assert_eq!(FileOrder::from_text(&order.to_text().unwrap()).unwrap(), order);
        let keys: Vec<Vec<u8>> = adds
            .iter()
            .flat_map(|a| {
                let keys = order.keys(a).unwrap();
                keys.iter().map(|k| k.unwrap().to_vec()).collect::<Vec<_>>()
            })
            .collect();
        let mut rows: Vec<usize> = (0..keys.len()).collect();
        rows.sort_by(|a, b| keys[*a].cmp(&keys[*b]));
        rows
    }

    #[test]
    fn partitions_come_first_then_what_tells_files_apart() {
        let batch = adds(&[7, 3, 5], &[Some(2), Some(1), Some(1)]);
        let two = adds(&[1, 9], &[Some(2), None]);
        assert_eq!(order(&[batch.clone(), two.clone()], &[]), [4, 1, 2, 3, 0]);
        assert_eq!(order(&[batch, two], &["id"]), [4, 1, 2, 3, 0]);
        let plain = nested(vec![("path", Arc::new(StringArray::from(vec!["b", "a"])) as ArrayRef)]);
        assert_eq!(order(&[plain.as_struct().clone()], &[]), [0, 1]);
        assert!(order(&[], &[]).is_empty());
    }

    #[test]
    fn an_order_is_kept_while_it_suits_the_table() {
        let few = adds(&[7, 3, 5], &[Some(2), Some(1), Some(1)]);
        let order = FileOrder::choose(std::slice::from_ref(&few), &[], 3).unwrap();
        let fields = few.fields();
        assert!(order.fits(fields, &[], 6));
        assert!(!order.fits(fields, &[], 7), "outgrown");
        let large = FileOrder::choose(std::slice::from_ref(&few), &[], ENOUGH_FILES).unwrap();
        assert!(large.fits(fields, &[], 1_000 * ENOUGH_FILES), "never outgrown");
        assert!(!order.fits(fields, &[vec!["id".to_owned()]], 3), "clustered since");
        assert!(!order.fits(&Fields::empty(), &[], 3), "other columns");
        let by_id = FileOrder::choose(std::slice::from_ref(&few), &[vec!["id".to_owned()]], 3).unwrap();
        assert!(by_id.fits(fields, &[vec!["id".to_owned()]], 3));
        assert!(!by_id.fits(fields, &[vec!["noise".to_owned()]], 3));
        assert!(!by_id.fits(fields, &[], 3));
        assert_eq!(FileOrder::from_text("{\"partitions\":1}"), None);
    }

    #[test]
    fn keys_are_ordered_as_their_values() {
        let texts = ["", "a", "a\0", "a\0b", "ab", "b"];
        let bytes = texts.map(|t| {
            let mut key = Vec::new();
            escaped(t.as_bytes(), &mut key);
            key
        });
        assert!(bytes.is_sorted());
        let numbers = [f64::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-300, 7.0, f64::INFINITY, f64::NAN];
        assert!(numbers.map(ordered).is_sorted());
        assert_eq!(ordered(-f64::NAN), ordered(f64::NAN));
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
        assert_eq!(z_order([0b10, 0b01].into_iter(), BITS), 0b1001);
        assert_eq!(z_order([255].into_iter(), BITS), 255);
        let cuts = cuts((0..512).map(f64::from).chain([f64::NAN]).collect());
        assert_eq!((cuts.len(), cuts[0]), (255, 2.0));
        let place_of = |v: f64| place(&cuts, v);
        assert_eq!(
            [
                place_of(-1.0),
                place_of(2.0),
                place_of(3.9),
                place_of(1e9),
                place_of(f64::NAN)
            ],
            [0, 1, 1, 255, 255]
        );
        assert!(super::cuts(vec![1.0; 9]).len() == 1 && super::cuts(vec![]).is_empty());
    }
}
