//! Bounds inside variants (P169): for each path to a primitive that has a typed column in the file
//! and is always stored there. Owns which paths have bounds and their format in the log; `leaf`
//! owns the bounds of one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use chrono::{DateTime, NaiveDate};
use deltaplane_error::Result;
use deltaplane_protocol::schema::{DataType, Primitive};
use deltaplane_protocol::z85;
use parquet_variant::{Variant, VariantBuilder, VariantDecimal4, VariantDecimal8, VariantDecimal16};

use super::leaf::{Bound, Leaf};
use crate::variant::{TYPED, VALUE};

/// Paths of one column with bounds in a file: those with the most values. All paths of a wide
/// object would bloat the log.
const MOST_PATHS: usize = 32;
/// Longest path with bounds, in bytes.
const LONGEST_PATH: usize = 512;
/// Days from the first of January of year 1 to that of 1970.
const EPOCH_DAYS: i64 = 719_163;
/// The mask of the basic type in a value's first byte, and its value for an object.
const BASIC_TYPE: u8 = 3;
const OBJECT: u8 = 2;

/// Statistics of one variant column.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    prefix: usize,
    known: BTreeMap<Vec<String>, Path>,
    /// Some object is stored as undecodable bytes, so that it may have any field.
    hidden: bool,
}

#[derive(Debug, Clone)]
struct Path {
    leaf: Leaf,
    primitive: Primitive,
    values: usize,
    /// Some values have another type, or are a variant null.
    mixed: bool,
}

impl Paths {
    pub(super) fn new(prefix: usize) -> Self {
        Paths {
            prefix,
            known: BTreeMap::new(),
            hidden: false,
        }
    }

    /// Adds the next rows in the file's layout; rows that are null in `parent` have no value.
    pub(super) fn update(&mut self, variants: &StructArray, parent: Option<&NullBuffer>) -> Result<()> {
        if variants.column_by_name(TYPED).is_none() {
            return Ok(());
        }
        let nulls = NullBuffer::union(parent, variants.nulls());
        self.hidden |= hides_object(variants, nulls.as_ref());
        self.group(variants, nulls.as_ref(), &mut Vec::new())
    }

    /// A path inside values: their untyped and their typed form.
    fn group(&mut self, forms: &StructArray, parent: Option<&NullBuffer>, path: &mut Vec<String>) -> Result<()> {
        let (Some(value), Some(typed)) = (forms.column_by_name(VALUE), forms.column_by_name(TYPED)) else {
            return Ok(());
        };
        if let Some(fields) = typed.as_struct_opt() {
            let nulls = NullBuffer::union(parent, fields.nulls());
            for (name, field) in fields.column_names().into_iter().zip(fields.columns()) {
                if let Some(field) = field.as_struct_opt() {
                    path.push(name.to_owned());
                    self.group(field, nulls.as_ref(), path)?;
                    path.pop();
                }
            }
            return Ok(());
        }
        let Some(primitive) = bounded(typed.data_type()) else {
            return Ok(());
        };
        let prefix = self.prefix;
        let known = self.known.entry(path.clone()).or_insert_with(|| Path {
            leaf: Leaf::new(&DataType::Primitive(primitive), prefix, false),
            primitive,
            values: 0,
            mixed: false,
        });
        known.mixed |= there(value, parent) > 0;
        known.values += there(typed, parent);
        known.leaf.update(typed, parent)
    }

    /// One of both bounds of all paths, as JSON text; `None` if there is none.
    pub(super) fn text(&self, bound_of: for<'a> fn(&'a Leaf) -> Option<Bound<'a>>) -> Option<String> {
        if self.hidden {
            return None;
        }
        let sound = self.known.iter().filter(|(_, p)| p.is_bounded());
        let mut sound: Vec<_> = sound
            .map(|(path, p)| (normalized(path), p))
            .filter(|(path, _)| path.len() <= LONGEST_PATH)
            .collect();
        sound.sort_by(|(a, p), (b, q)| (Reverse(p.values), a).cmp(&(Reverse(q.values), b)));
        sound.truncate(MOST_PATHS);
        sound.sort_by(|(a, _), (b, _)| a.cmp(b));
        let bounds: Vec<_> = sound
            .iter()
            .filter_map(|(path, p)| Some((path.as_str(), p, bound_of(&p.leaf)?)))
            .collect();
        let mut made = VariantBuilder::new().with_field_names(bounds.iter().map(|(path, ..)| *path));
        let mut object = made.try_new_object().ok()?;
        let mut is_empty = true;
        for (path, p, bound) in &bounds {
            if let Some(v) = variant(p.primitive, bound) {
                object.insert(path, v);
                is_empty = false;
            }
        }
        object.finish();
        let (mut bytes, value) = made.finish();
        bytes.extend(value);
        (!is_empty).then(|| format!("\"{}\"", z85::encode(&bytes)))
    }
}

impl Path {
    /// Whether both bounds are valid for every value at this path. Readers order NaN differently.
    fn is_bounded(&self) -> bool {
        !self.mixed && self.values > 0 && !matches!(self.leaf.max(), Some(Bound::Float(v)) if v.is_nan())
    }
}

/// The number of rows with a value in this column; rows that are null in `parent` have none.
fn there(column: &ArrayRef, parent: Option<&NullBuffer>) -> usize {
    let nulls = NullBuffer::union(parent, column.nulls());
    column.len() - nulls.map_or(0, |n| n.null_count())
}

/// Whether some row has an object as bytes alone. A decodable one has a typed form as soon as some
/// fields have columns, so this one can't be decoded; without such columns its own path counts as
/// mixed.
fn hides_object(variants: &StructArray, nulls: Option<&NullBuffer>) -> bool {
    let (Some(values), Some(typed)) = (
        variants.column_by_name(VALUE).and_then(|c| c.as_binary_opt::<i32>()),
        variants.column_by_name(TYPED),
    ) else {
        return true;
    };
    let is_object = |row: usize| values.value(row).first().is_none_or(|b| b & BASIC_TYPE == OBJECT);
    (0..variants.len()).any(|row| {
        let is_there = nulls.is_none_or(|n| n.is_valid(row));
        is_there && values.is_valid(row) && typed.is_null(row) && is_object(row)
    })
}

/// The type of a typed column that has bounds (P160).
fn bounded(t: &ArrowType) -> Option<Primitive> {
    Some(match t {
        ArrowType::Int64 => Primitive::Long,
        ArrowType::Float32 => Primitive::Float,
        ArrowType::Float64 => Primitive::Double,
        ArrowType::Decimal128(precision, scale) => Primitive::Decimal {
            precision: *precision,
            scale: *scale,
        },
        ArrowType::Date32 => Primitive::Date,
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(_)) => Primitive::Timestamp,
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => Primitive::TimestampNtz,
        ArrowType::Utf8 => Primitive::String,
        _ => return None,
    })
}

/// A bound as a variant. Integers and decimals have the width of their column, so that both bounds
/// have one type.
fn variant<'a>(p: Primitive, bound: &'a Bound<'_>) -> Option<Variant<'a, 'a>> {
    Some(match (p, bound) {
        (Primitive::Long, Bound::Int(v)) => Variant::Int64(*v),
        (Primitive::Date, Bound::Int(v)) => {
            let from_year_one = i32::try_from(v.checked_add(EPOCH_DAYS)?).ok()?;
            Variant::Date(NaiveDate::from_num_days_from_ce_opt(from_year_one)?)
        }
        (Primitive::Timestamp, Bound::Int(v)) => Variant::TimestampMicros(DateTime::from_timestamp_micros(*v)?),
        (Primitive::TimestampNtz, Bound::Int(v)) => {
            Variant::TimestampNtzMicros(DateTime::from_timestamp_micros(*v)?.naive_utc())
        }
        (Primitive::Decimal { precision, scale }, Bound::Decimal(v)) => {
            let scale = u8::try_from(scale).ok()?;
            if precision <= VariantDecimal4::MAX_PRECISION {
                VariantDecimal4::try_new(i32::try_from(*v).ok()?, scale).ok()?.into()
            } else if precision <= VariantDecimal8::MAX_PRECISION {
                VariantDecimal8::try_new(i64::try_from(*v).ok()?, scale).ok()?.into()
            } else {
                VariantDecimal16::try_new(*v, scale).ok()?.into()
            }
        }
        // The bound was a float before.
        #[allow(clippy::cast_possible_truncation)]
        (Primitive::Float, Bound::Float(v)) => Variant::Float(*v as f32),
        (Primitive::Double, Bound::Float(v)) => Variant::Double(*v),
        (Primitive::String, Bound::Text(t)) => Variant::from(t.as_ref()),
        _ => return None,
    })
}

/// A path as RFC 9535 normalises it: `$['a']['b']`.
fn normalized(path: &[String]) -> String {
    let mut out = String::from("$");
    for name in path {
        out.push_str("['");
        for c in name.chars() {
            match c {
                '\u{8}' => out.push_str("\\b"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\u{c}' => out.push_str("\\f"),
                '\r' => out.push_str("\\r"),
                '\'' => out.push_str("\\'"),
                '\\' => out.push_str("\\\\"),
                c if c < ' ' => {
                    let _ = write!(out, "\\u{:04x}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        out.push_str("']");
    }
    out
}

#[cfg(test)]
mod tests;
