//! Statistics from the JSON of `add.stats`: only the needed leaves, numbers from their text.
//! Unreadable values are unknown, never an error (P165).

use std::collections::BTreeMap;
use std::fmt;

use arrow::array::{ArrayRef, AsArray, Int64Array, Int64Builder};
use arrow::compute::cast;
use arrow::datatypes::DataType as ArrowType;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::bounds::{Bounds, Leaf, LeafBounds, is_ordered, widen_decimal};
use super::failed;
use super::json_scalar;
use super::json_shape::{Shape, Slot};
use super::json_values::{JsonValues, ReadBound, json_text};
use crate::Result;
use crate::expr::scalar::{Scalar, exact_range};
use crate::expr::text::{DAY_US, Fit, Number, parse_date, parse_instant, parse_timestamp};
use crate::files::lines::Text;
use crate::schema::Primitive;

/// Files whose values are converted to columns together, so that they stay in the processor's
/// caches.
const TOGETHER: usize = 512;
/// Sections of a file's statistics: minima, maxima, counts of nulls.
const SECTIONS: usize = 3;
/// Most shapes to remember: texts with further shapes are parsed.
const MOST_SHAPES: usize = 64;

/// The needed leaves as a tree of names.
#[derive(Default)]
struct Wanted {
    leaf: Option<usize>,
    // A small map: hashing every column's name would take a quarter of the time.
    children: BTreeMap<String, Wanted>,
}

/// One file's raw values of the wanted leaves.
struct FileStats<'o, 'a> {
    num_records: Option<&'a str>,
    tight_bounds: Option<&'a str>,
    min: &'o mut [Option<&'a str>],
    max: &'o mut [Option<&'a str>],
    nulls: &'o mut [Option<&'a str>],
}

/// One leaf's statistics for some files; null is unknown. A leaf without a type has no bounds.
pub(super) struct Column {
    pub(super) min: Option<ArrayRef>,
    pub(super) max: Option<ArrayRef>,
    pub(super) nulls: Int64Array,
}

/// A column while texts are read.
struct Reading {
    /// The bounds, if the leaf's type has any.
    bounds: Option<[JsonValues; 2]>,
    nulls: Int64Builder,
}

impl Reading {
    fn new(leaf: &Leaf, files: usize) -> Self {
        Reading {
            bounds: leaf.ty.map(|ty| [false, true].map(|up| JsonValues::new(ty, up, files))),
            nulls: Int64Builder::with_capacity(files),
        }
    }

    /// Adds the statistics of some files for leaf `at` of `leaves`.
    fn extend(&mut self, files: &[Option<&str>], number: usize, leaves: usize, read: ReadBound) {
        let section_of = |section: usize| {
            files
                .iter()
                .skip(section * leaves + number)
                .step_by(SECTIONS * leaves)
                .copied()
        };
        if let Some([least, greatest]) = &mut self.bounds {
            least.extend(section_of(0), read);
            greatest.extend(section_of(1), read);
        }
        self.nulls
            .extend(section_of(2).map(|raw| raw.and_then(json_scalar::whole)));
    }

    fn done(mut self) -> Result<Column> {
        let (min, max) = match self.bounds {
            Some([min, max]) => (Some(min.finish()?), Some(max.finish()?)),
            None => (None, None),
        };
        Ok(Column {
            min,
            max,
            nulls: self.nulls.finish(),
        })
    }
}

/// The statistics of whole files; `None` is unknown.
#[derive(Default)]
pub(super) struct WholeFiles {
    pub(super) num_records: Vec<Option<i64>>,
    pub(super) tight_bounds: Vec<Option<bool>>,
}

/// The bounds in these JSON texts.
pub(super) fn bounds(leaves: &[Leaf], texts: &ArrayRef) -> Result<Bounds> {
    let (columns, whole) = columns(leaves, texts, bound)?;
    let num_records = Int64Array::from(whole.num_records);
    let mut leaf_bounds = Vec::with_capacity(leaves.len());
    for (leaf, c) in leaves.iter().zip(columns) {
        let is_ordered = leaf.ty.is_some_and(is_ordered);
        let (min, max) = (c.min.filter(|_| is_ordered), c.max.filter(|_| is_ordered));
        leaf_bounds.push(LeafBounds::new(leaf, min, max, &c.nulls, &num_records)?);
    }
    Ok(Bounds { leaves: leaf_bounds })
}

/// The statistics of these leaves, and of whole files, in JSON texts.
pub(super) fn columns(leaves: &[Leaf], texts: &ArrayRef, read: ReadBound) -> Result<(Vec<Column>, WholeFiles)> {
    if let Some(views) = texts.as_string_view_opt() {
        return columns_of(leaves, views.iter(), read);
    }
    let texts = cast(texts, &ArrowType::Utf8).map_err(failed)?;
    columns_of(leaves, texts.as_string::<i32>().iter(), read)
}

fn columns_of<'a>(
    leaves: &[Leaf],
    texts: impl ExactSizeIterator<Item = Option<&'a str>>,
    read: ReadBound,
) -> Result<(Vec<Column>, WholeFiles)> {
    let mut wanted = Wanted::default();
    for (i, leaf) in leaves.iter().enumerate() {
        let node = leaf
            .path
            .iter()
            .fold(&mut wanted, |here, name| here.children.entry(name.clone()).or_default());
        node.leaf = Some(i);
    }
    let mut columns: Vec<Reading> = leaves.iter().map(|leaf| Reading::new(leaf, texts.len())).collect();
    let mut files = WholeFiles::default();
    let (mut shape, mut shapes) = (Shape::default(), 0);
    let a_file = SECTIONS * leaves.len();
    let mut raw = vec![None; a_file * TOGETHER.min(texts.len())];
    let mut filled = 0;
    for text in texts {
        let text = text.unwrap_or_default();
        if filled == raw.len() {
            take(&mut columns, &mut raw, read);
            filled = 0;
        }
        let mut stats = FileStats::new(raw.get_mut(filled..filled + a_file).unwrap_or_default(), leaves.len());
        filled += a_file;
        if !stats.read_like(text, &shape) && stats.read(text, &wanted) && shapes < MOST_SHAPES {
            shape = Shape::of(text, stats.found()).unwrap_or(shape);
            shapes += 1;
        }
        files.num_records.push(stats.num_records.and_then(json_scalar::whole));
        files
            .tight_bounds
            .push(stats.tight_bounds.and_then(|raw| raw.parse().ok()));
    }
    take(&mut columns, raw.get_mut(..filled).unwrap_or_default(), read);
    Ok((columns.into_iter().map(Reading::done).collect::<Result<_>>()?, files))
}

/// Moves the values of some files to their columns, one file after the other.
fn take(columns: &mut [Reading], files: &mut [Option<&str>], read: ReadBound) {
    let leaves = columns.len();
    for (number, column) in columns.iter_mut().enumerate() {
        column.extend(files, number, leaves, read);
    }
    files.fill(None);
}

impl<'o, 'a> FileStats<'o, 'a> {
    /// Writes to these slots, one per section and leaf.
    fn new(places: &'o mut [Option<&'a str>], leaves: usize) -> Self {
        let (min, rest) = places.split_at_mut_checked(leaves).unwrap_or_default();
        let (max, nulls) = rest.split_at_mut_checked(leaves).unwrap_or_default();
        FileStats {
            num_records: None,
            tight_bounds: None,
            min,
            max,
            nulls,
        }
    }

    fn forget(&mut self) {
        self.num_records = None;
        self.tight_bounds = None;
        self.min.fill(None);
        self.max.fill(None);
        self.nulls.fill(None);
    }

    /// Reads a text with the shape of the previous one; false if it differs.
    fn read_like(&mut self, text: &'a str, shape: &Shape) -> bool {
        shape.read(text, |slot, value| {
            let place = match slot {
                Slot::NumRecords => Some(&mut self.num_records),
                Slot::TightBounds => Some(&mut self.tight_bounds),
                Slot::Min(leaf) => self.min.get_mut(leaf),
                Slot::Max(leaf) => self.max.get_mut(leaf),
                Slot::Nulls(leaf) => self.nulls.get_mut(leaf),
                Slot::Other => None,
            };
            if let Some(place) = place {
                *place = Some(value);
            }
        })
    }

    /// The known values with their meaning.
    fn found(&self) -> impl Iterator<Item = (&'a str, Slot)> {
        let whole = [
            (self.num_records, Slot::NumRecords),
            (self.tight_bounds, Slot::TightBounds),
        ];
        let slots_of = |all: &[Option<&'a str>], slot: fn(usize) -> Slot| {
            let known = all.iter().enumerate().filter_map(|(leaf, v)| Some(((*v)?, slot(leaf))));
            known.collect::<Vec<_>>()
        };
        let leaves = [
            slots_of(self.min, Slot::Min),
            slots_of(self.max, Slot::Max),
            slots_of(self.nulls, Slot::Nulls),
        ];
        whole
            .into_iter()
            .filter_map(|(v, slot)| Some((v?, slot)))
            .chain(leaves.into_iter().flatten())
    }

    /// Reads a text in one pass. If it isn't valid JSON of statistics, all values stay unknown:
    /// false.
    fn read(&mut self, text: &'a str, wanted: &Wanted) -> bool {
        self.forget();
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let read = Whole { wanted, stats: self }.deserialize(&mut deserializer);
        let is_sound = read.and_then(|()| deserializer.end()).is_ok();
        if !is_sound {
            self.forget();
        }
        is_sound
    }
}

/// The text of a file's statistics.
struct Whole<'w, 'o, 'p, 'a> {
    wanted: &'w Wanted,
    stats: &'o mut FileStats<'p, 'a>,
}

impl<'a> DeserializeSeed<'a> for Whole<'_, '_, '_, 'a> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Whole<'_, '_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a file's statistics")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        let Whole { wanted, stats } = self;
        while let Some(key) = map.next_key::<Text<'_>>()? {
            let out = match key.as_ref() {
                "numRecords" => {
                    stats.num_records = Some(map.next_value::<&RawValue>()?.get());
                    continue;
                }
                "tightBounds" => {
                    stats.tight_bounds = Some(map.next_value::<&RawValue>()?.get());
                    continue;
                }
                "minValues" => &mut *stats.min,
                "maxValues" => &mut *stats.max,
                "nullCount" => &mut *stats.nulls,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            map.next_value_seed(Seed { wanted, out })?;
        }
        Ok(())
    }
}

/// A struct of one section.
struct Seed<'w, 'o, 'a> {
    wanted: &'w Wanted,
    out: &'o mut [Option<&'a str>],
}

impl<'a> DeserializeSeed<'a> for Seed<'_, '_, 'a> {
    type Value = ();
    fn deserialize<D: Deserializer<'a>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Seed<'_, '_, 'a> {
    type Value = ();

    /// A struct that is null.
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of statistics")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(key) = map.next_key::<Text<'_>>()? {
            let Some(wanted) = self.wanted.children.get(key.as_ref()) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            match wanted.leaf.and_then(|i| self.out.get_mut(i)) {
                Some(slot) => *slot = Some(map.next_value::<&RawValue>()?.get()),
                None => map.next_value_seed(Seed {
                    wanted,
                    out: &mut *self.out,
                })?,
            }
        }
        Ok(())
    }
}

/// The bound in a JSON value, widened if its text may be inexact.
pub(super) fn bound(raw: &str, ty: Primitive, up: bool) -> Option<Scalar> {
    if !raw.starts_with('"') {
        return match ty {
            Primitive::Decimal { precision, scale } => decimal(raw, precision, scale, up),
            Primitive::Float | Primitive::Double if raw != "null" => Scalar::parse(raw, ty),
            Primitive::Byte | Primitive::Short | Primitive::Integer | Primitive::Long => Scalar::parse(raw, ty),
            _ => None,
        };
    }
    let text = json_text(raw)?;
    match ty {
        Primitive::Float | Primitive::Double => Scalar::parse(&text, ty),
        Primitive::Date => parse_date(&text).map(Scalar::Date),
        Primitive::Timestamp => parse_instant(&text).map(|v| Scalar::Timestamp(through_day(&text, v, up))),
        Primitive::TimestampNtz => parse_timestamp(&text).map(|(v, _)| Scalar::Timestamp(through_day(&text, v, up))),
        Primitive::Decimal { precision, scale } => decimal(&text, precision, scale, up),
        _ => None,
    }
}

/// A bound in the form of a date, logged before the column was widened from one, or truncated: an
/// upper bound covers the whole day.
fn through_day(text: &str, v: i64, up: bool) -> i64 {
    if up && !text.contains(':') {
        v.saturating_add(DAY_US - 1)
    } else {
        v
    }
}

fn decimal(text: &str, precision: u8, scale: i8, up: bool) -> Option<Scalar> {
    let n = Number::parse(text)?;
    let (scale_of_number, low, high) = exact_range(Primitive::Decimal { precision, scale })?;
    // Q3: a double holds 15 digits of any decimal; a text with all digits of the scale lost none.
    let exact = !n.exponent && n.significant <= 15 && (precision <= 15 || n.scale == i32::from(scale));
    let v = match n.fit(scale_of_number, low.saturating_mul(2), high.saturating_mul(2)) {
        Fit::Exact(v) => v,
        Fit::After(v) => v.saturating_add(i128::from(up)),
        Fit::Above | Fit::Below => return None,
    };
    Some(Scalar::Decimal(if exact { v } else { widen_decimal(v, up) }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use std::sync::Arc;

    use arrow::array::{Array, StringArray, StringViewArray};
    use arrow::compute::concat;
    use proptest::prelude::*;

    use super::super::logged::logged;
    use super::*;

    fn leaves() -> Vec<Leaf> {
        let leaf = |path: &[&str], ty| Leaf {
            path: path.iter().map(|p| (*p).to_owned()).collect(),
            ty,
            was_float: false,
        };
        vec![
            leaf(&["id"], Some(Primitive::Long)),
            leaf(&["x"], Some(Primitive::Double)),
            leaf(&["s", "name"], Some(Primitive::String)),
            leaf(&["at"], Some(Primitive::Timestamp)),
            leaf(
                &["price"],
                Some(Primitive::Decimal {
                    precision: 12,
                    scale: 2,
                }),
            ),
            leaf(&["list"], None),
        ]
    }

    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            6 => "-?[0-9]{1,9}(\\.[0-9]{1,3})?",
            3 => "\"[a-z ]{0,12}\"",
            2 => "\"20[0-9]{2}-0[1-9]-[12][0-9]T0[0-9]:[0-5][0-9]:[0-5][0-9]\\.[0-9]{3}Z\"",
            1 => Just("null".to_owned()),
            1 => Just("true".to_owned()),
            1 => "[\\[{\"a-z:,0-9\\\\ü]{0,6}",
        ]
    }

    /// Texts of few shapes, as one writer's are, and some with a byte more, fewer or another one.
    fn text() -> impl Strategy<Value = Option<String>> {
        let values = prop::collection::vec(value(), 12);
        let damage = prop_oneof![6 => Just(None), 1 => (any::<prop::sample::Index>(), 0..3u8, "[\"\\\\{}:,0-9 a]").prop_map(Some)];
        (0..3u8, values, damage, 0..20u8).prop_map(|(shape, v, damage, rare)| {
            let sections = |order: [usize; 2]| {
                let bounds = |name: &str, v: &[String]| {
                    format!(
                        r#""{name}":{{"id":{},"x":{},"s":{{"name":{}}},"at":{},"price":{}}}"#,
                        v[0], v[1], v[2], v[3], v[4]
                    )
                };
                order.map(|index| match index {
                    0 => bounds("minValues", &v),
                    _ => bounds("maxValues", &v[5..]),
                })
            };
            let mut text = match shape {
                0 => format!(
                    r#"{{"numRecords":{},{},"nullCount":{{"id":{},"list":0}}}}"#,
                    v[10],
                    sections([0, 1]).join(","),
                    v[11]
                ),
                1 => format!(
                    r#"{{"numRecords": {}, "tightBounds":true,{}}}"#,
                    v[10],
                    sections([1, 0]).join(" , ")
                ),
                _ => format!(
                    r#"{{"other":[{}],{},"numRecords":{},"numRecords":{}}}"#,
                    v[11],
                    sections([0, 0]).join(","),
                    v[10],
                    v[0]
                ),
            };
            if let Some((index, how, byte)) = damage {
                let places: Vec<usize> = text.char_indices().map(|(index, _)| index).collect();
                let index = places[index.index(places.len())];
                let end = index + text[index..].chars().next().unwrap().len_utf8();
                match how {
                    0 => text.insert_str(index, &byte),
                    1 => text.replace_range(index..end, &byte),
                    _ => text.replace_range(index..end, ""),
                }
            }
            (rare > 0).then_some(text)
        })
    }

    fn all(texts: &ArrayRef, read: ReadBound) -> (Vec<[ArrayRef; 3]>, WholeFiles) {
        let (columns, whole) = columns(&leaves(), texts, read).unwrap();
        let none = |c: &Column| Arc::new(Int64Array::new_null(c.nulls.len())) as ArrayRef;
        let arrays = |c: Column| {
            let none = none(&c);
            let nulls: ArrayRef = Arc::new(c.nulls);
            [c.min.unwrap_or_else(|| none.clone()), c.max.unwrap_or(none), nulls]
        };
        (columns.into_iter().map(arrays).collect(), whole)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn texts_read_by_shape_say_what_each_says_by_itself(texts in prop::collection::vec(text(), 1..24)) {
            for read in [bound as ReadBound, logged] {
                let together: ArrayRef = Arc::new(StringArray::from(texts.clone()));
                let views: ArrayRef = Arc::new(StringViewArray::from_iter(texts.clone()));
                // The first text of all has no shape before it.
                let alone: Vec<_> = (0..texts.len()).map(|index| all(&together.slice(index, 1), read)).collect();
                for texts in [&together, &views] {
                    let (together_read, whole) = all(texts, read);
                    for (leaf, arrays) in together_read.iter().enumerate() {
                        for (which, array) in arrays.iter().enumerate() {
                            let each: Vec<&dyn Array> = alone.iter().map(|(leaves, _)| leaves[leaf][which].as_ref()).collect();
                            prop_assert_eq!(array, &concat(&each).unwrap());
                        }
                    }
                    let records: Vec<_> = alone.iter().flat_map(|(_, whole)| whole.num_records.clone()).collect();
                    let tight: Vec<_> = alone.iter().flat_map(|(_, whole)| whole.tight_bounds.clone()).collect();
                    prop_assert_eq!((whole.num_records, whole.tight_bounds), (records, tight));
                }
            }
        }
    }

    #[test]
    fn many_texts_are_taken_in_order() {
        let n = 2 * TOGETHER + 3;
        let text = |number: usize| {
            format!(r#"{{"numRecords":{number},"minValues":{{"id":{number}}},"nullCount":{{"list":{number}}}}}"#)
        };
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..n).map(text)));
        let (arrays, whole) = all(&texts, bound);
        let each: ArrayRef = Arc::new(Int64Array::from_iter_values(0..i64::try_from(n).unwrap()));
        assert_eq!((&arrays[0][0], &arrays[5][2]), (&each, &each));
        assert_eq!(arrays[0][1].null_count(), n);
        assert_eq!(
            whole.num_records.iter().flatten().sum::<i64>(),
            i64::try_from(n * (n - 1) / 2).unwrap()
        );
    }
}
