//! The statistics of one leaf column: null count, smallest and largest value by Spark's order.
//! Knows the rules for NaN, zero signs and truncation (P160, P162, P163, P168); knows no other
//! column.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{max, max_boolean, max_string, min, min_boolean, min_string, nullif};
use arrow::datatypes::{
    ArrowNativeTypeOp, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use deltaplane_error::{Error, Result};
use deltaplane_protocol::schema::{DataType, Primitive};

use super::text;

/// One leaf's statistics so far.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    /// `None` for arrays and maps, which have a null count only.
    kind: Option<Primitive>,
    prefix: usize,
    /// Whether the statistics are in delta-rs's form.
    as_delta_rs: bool,
    nulls: u64,
    bounds: Bounds,
}

/// A smallest or largest value, as far as statistics express it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Bound<'a> {
    /// Whole numbers, days and microseconds.
    Int(i64),
    Decimal(i128),
    /// NaN is above everything.
    Float(f64),
    Text(Cow<'a, str>),
}

#[derive(Debug, Clone)]
enum Bounds {
    /// No value yet, or a type without bounds.
    Empty,
    Int(i64, i64),
    Decimal(i128, i128),
    /// Of the values that aren't NaN, if there were any; whether there was a NaN.
    Float(Option<(f64, f64)>, bool),
    Text(String, String),
}

impl Leaf {
    pub(super) fn new(t: &DataType, prefix: usize, as_delta_rs: bool) -> Self {
        let kind = match t {
            DataType::Primitive(p) => Some(*p),
            _ => None,
        };
        Leaf {
            kind,
            prefix,
            as_delta_rs,
            nulls: 0,
            bounds: Bounds::Empty,
        }
    }

    /// Takes in rows; those that are null in `parent` count as null (P160).
    pub(super) fn update(&mut self, array: &ArrayRef, parent: Option<&NullBuffer>) -> Result<()> {
        let masked = match parent.filter(|p| p.null_count() > 0) {
            Some(parent) => mask(array, parent)?,
            None => array.clone(),
        };
        let nulls = masked.logical_null_count();
        self.nulls += u64::try_from(nulls).unwrap_or(u64::MAX);
        if nulls == masked.len() {
            return Ok(());
        }
        let bounds = match self.kind {
            Some(Primitive::Boolean) if self.as_delta_rs => booleans(&masked),
            Some(Primitive::Byte) => ints::<Int8Type>(&masked),
            Some(Primitive::Short) => ints::<Int16Type>(&masked),
            Some(Primitive::Integer) => ints::<Int32Type>(&masked),
            Some(Primitive::Long) => ints::<Int64Type>(&masked),
            Some(Primitive::Date) => ints::<Date32Type>(&masked),
            Some(Primitive::Timestamp | Primitive::TimestampNtz) => ints::<TimestampMicrosecondType>(&masked),
            Some(Primitive::Float) => floats::<Float32Type>(&masked),
            Some(Primitive::Double) => floats::<Float64Type>(&masked),
            Some(Primitive::Decimal { .. }) => decimals(&masked),
            Some(Primitive::String) => strings(&masked),
            _ => return Ok(()),
        };
        let bounds = bounds.ok_or_else(|| {
            Error::internal(format!(
                "statistics of a column of Arrow type {} were asked as {:?}",
                array.data_type(),
                self.kind
            ))
        })?;
        self.bounds.merge(bounds);
        Ok(())
    }

    /// Takes in rows that are known to be null.
    pub(super) fn count_nulls(&mut self, rows: u64) {
        self.nulls = self.nulls.saturating_add(rows);
    }

    pub(super) fn null_count(&self) -> u64 {
        self.nulls
    }

    /// The lower bound; `None` if there is none.
    pub(super) fn min(&self) -> Option<Bound<'_>> {
        match &self.bounds {
            Bounds::Empty => None,
            Bounds::Int(min, _) => Some(Bound::Int(*min)),
            Bounds::Decimal(min, _) => Some(Bound::Decimal(*min)),
            Bounds::Float(Some((min, _)), _) => Some(Bound::Float(if *min == 0.0 { -0.0 } else { *min })),
            Bounds::Float(None, _) => Some(Bound::Float(f64::NAN)),
            Bounds::Text(min, _) => Some(Bound::Text(text::lower_prefix(min, self.prefix).into())),
        }
    }

    /// The upper bound; `None` if there is none.
    pub(super) fn max(&self) -> Option<Bound<'_>> {
        match &self.bounds {
            Bounds::Empty => None,
            Bounds::Int(_, max) => Some(Bound::Int(*max)),
            Bounds::Decimal(_, max) => Some(Bound::Decimal(*max)),
            // NaN is above everything (P168).
            Bounds::Float(_, true) | Bounds::Float(None, false) => Some(Bound::Float(f64::NAN)),
            Bounds::Float(Some((_, max)), false) => Some(Bound::Float(if *max == 0.0 { 0.0 } else { *max })),
            Bounds::Text(_, max) => text::upper_prefix(max, self.prefix).map(|t| Bound::Text(t.into())),
        }
    }

    /// A bound as JSON; `None` if JSON can't express it.
    pub(super) fn json(&self, bound: &Bound<'_>) -> Option<String> {
        match bound {
            Bound::Int(v) => self.int_text(*v),
            Bound::Decimal(v) => self.decimal_text(*v),
            Bound::Float(v) => Some(self.float_text(*v)),
            Bound::Text(t) => Some(text::string(t)),
        }
    }

    fn int_text(&self, v: i64) -> Option<String> {
        match self.kind {
            Some(Primitive::Boolean) => Some((v != 0).to_string()),
            Some(Primitive::Date) => text::date(v),
            Some(Primitive::Timestamp) if self.as_delta_rs => text::exact_time(v, "T", "Z"),
            Some(Primitive::TimestampNtz) if self.as_delta_rs => text::exact_time(v, " ", ""),
            Some(Primitive::Timestamp) => text::timestamp(v, "Z"),
            Some(Primitive::TimestampNtz) => text::timestamp(v, ""),
            _ => Some(v.to_string()),
        }
    }

    fn decimal_text(&self, v: i128) -> Option<String> {
        match self.kind {
            Some(Primitive::Decimal { scale, .. }) => Some(text::decimal(v, scale)),
            _ => None,
        }
    }

    fn float_text(&self, v: f64) -> String {
        // A float's own shortest digits, not those of the double it widens to.
        #[allow(clippy::cast_possible_truncation)]
        let single = v as f32;
        if self.kind == Some(Primitive::Float) {
            text::float(single)
        } else {
            text::double(v)
        }
    }
}

impl Bounds {
    fn merge(&mut self, other: Bounds) {
        let merged = match (std::mem::replace(self, Bounds::Empty), other) {
            (Bounds::Int(a, b), Bounds::Int(c, d)) => Bounds::Int(a.min(c), b.max(d)),
            (Bounds::Decimal(a, b), Bounds::Decimal(c, d)) => Bounds::Decimal(a.min(c), b.max(d)),
            (Bounds::Float(a, n), Bounds::Float(b, m)) => Bounds::Float(wider(a, b), n || m),
            (Bounds::Text(a, b), Bounds::Text(c, d)) => Bounds::Text(a.min(c), b.max(d)),
            (_, other) => other,
        };
        *self = merged;
    }
}

fn wider(a: Option<(f64, f64)>, b: Option<(f64, f64)>) -> Option<(f64, f64)> {
    match (a, b) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (a, b) => a.or(b),
    }
}

/// The array with null wherever its parent is null: values below a null parent are meaningless.
fn mask(array: &ArrayRef, parent: &NullBuffer) -> Result<ArrayRef> {
    let null_parent = BooleanArray::new(!parent.inner(), None);
    nullif(array, &null_parent).map_err(|e| Error::internal(format!("masking a nested column for its statistics: {e}")))
}

fn ints<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<Bounds>
where
    T::Native: ArrowNativeTypeOp + Into<i64>,
{
    let a = array.as_primitive_opt::<T>()?;
    Some(Bounds::Int(min(a)?.into(), max(a)?.into()))
}

fn booleans(array: &ArrayRef) -> Option<Bounds> {
    let a = array.as_boolean_opt()?;
    Some(Bounds::Int(min_boolean(a)?.into(), max_boolean(a)?.into()))
}

fn decimals(array: &ArrayRef) -> Option<Bounds> {
    let a = array.as_primitive_opt::<Decimal128Type>()?;
    Some(Bounds::Decimal(min(a)?, max(a)?))
}

fn strings(array: &ArrayRef) -> Option<Bounds> {
    let a: &StringArray = array.as_string_opt::<i32>()?;
    Some(Bounds::Text(min_string(a)?.to_owned(), max_string(a)?.to_owned()))
}

fn floats<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<Bounds>
where
    T::Native: Into<f64>,
{
    let a: &PrimitiveArray<T> = array.as_primitive_opt::<T>()?;
    let mut range = (f64::INFINITY, f64::NEG_INFINITY);
    let (mut any, mut nan) = (false, false);
    let mut take = |v: T::Native| {
        let v: f64 = v.into();
        nan |= v.is_nan();
        any |= !v.is_nan();
        // Comparisons with NaN are false, so NaN leaves the range alone.
        range.0 = if v < range.0 { v } else { range.0 };
        range.1 = if v > range.1 { v } else { range.1 };
    };
    match a.nulls() {
        None => a.values().iter().for_each(|v| take(*v)),
        Some(_) => a.iter().flatten().for_each(take),
    }
    Some(Bounds::Float(any.then_some(range), nan))
}
