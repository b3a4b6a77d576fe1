//! Values in the plain encoding of data pages: their lengths, order and bounds. Knows no page.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type};
use parquet::basic::Type as Physical;
use parquet::data_type::ByteArray;
use parquet::file::statistics::{Statistics, ValueStatistics};

/// Smallest and largest value.
pub(super) type Range<'a> = (&'a [u8], &'a [u8]);

/// The types of values that can be patched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int32,
    Int64,
    Float,
    Double,
    Bytes,
}

impl Kind {
    pub(super) fn of(physical: Physical) -> Option<Kind> {
        match physical {
            Physical::INT32 => Some(Kind::Int32),
            Physical::INT64 => Some(Kind::Int64),
            Physical::FLOAT => Some(Kind::Float),
            Physical::DOUBLE => Some(Kind::Double),
            Physical::BYTE_ARRAY => Some(Kind::Bytes),
            _ => None,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Kind::Float | Kind::Double)
    }

    /// How many bytes each value has.
    pub(super) fn width(self) -> Option<usize> {
        match self {
            Kind::Int32 | Kind::Float => Some(4),
            Kind::Int64 | Kind::Double => Some(8),
            Kind::Bytes => None,
        }
    }

    /// The order of two values; none of them is NaN.
    pub(super) fn order(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Kind::Int32 => int32(a).cmp(&int32(b)),
            Kind::Int64 => int64(a).cmp(&int64(b)),
            Kind::Float => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
            Kind::Double => double(a).partial_cmp(&double(b)).unwrap_or(Ordering::Equal),
            Kind::Bytes => a.cmp(b),
        }
    }

    /// A bound as it is written: a zero gets the sign of the lower or upper zero.
    pub(super) fn bound(self, value: &[u8], upper: bool) -> Vec<u8> {
        let zero = if upper { 0.0 } else { -0.0 };
        match self {
            Kind::Float if float(value) == 0.0 => (zero as f32).to_le_bytes().to_vec(),
            Kind::Double if double(value) == 0.0 => f64::to_le_bytes(zero).to_vec(),
            _ => value.to_vec(),
        }
    }

    /// The smallest and the largest value.
    pub(super) fn extremes<'a>(self, values: impl Iterator<Item = &'a [u8]>) -> Option<(&'a [u8], &'a [u8])> {
        let mut bounds: Option<(&[u8], &[u8])> = None;
        for value in values {
            bounds = Some(match bounds {
                None => (value, value),
                Some((min, max)) if self.order(value, min).is_lt() => (value, max),
                Some((min, max)) if self.order(value, max).is_gt() => (min, value),
                Some(same) => same,
            });
        }
        bounds
    }

    /// Bounds as statistics of a chunk without nulls.
    pub(super) fn statistics(self, min: &[u8], max: &[u8], like: &Statistics) -> Statistics {
        let compatible = like.is_min_max_backwards_compatible();
        macro_rules! value_statistics {
            ($read:expr) => {
                ValueStatistics::new(Some($read(min)), Some($read(max)), None, Some(0), false)
                    .with_backwards_compatible_min_max(compatible)
            };
        }
        match self {
            Kind::Int32 => Statistics::Int32(value_statistics!(int32)),
            Kind::Int64 => Statistics::Int64(value_statistics!(int64)),
            Kind::Float => Statistics::Float(value_statistics!(float).with_nan_count(Some(0))),
            Kind::Double => Statistics::Double(value_statistics!(double).with_nan_count(Some(0))),
            Kind::Bytes => Statistics::ByteArray(value_statistics!(ByteArray::from)),
        }
    }
}

fn int32(bytes: &[u8]) -> i32 {
    i32::from_le_bytes(bytes.try_into().unwrap_or_default())
}

fn int64(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes.try_into().unwrap_or_default())
}

fn float(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().unwrap_or_default())
}

fn double(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// Values as pages hold them, without their lengths.
#[derive(Default)]
pub(super) struct Values {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Values {
    /// New values of a column; `None` if one of them is null or NaN.
    pub(super) fn of(kind: Kind, array: &ArrayRef) -> Option<Values> {
        if array.null_count() > 0 {
            return None;
        }
        let digits = array.as_primitive_opt::<Decimal128Type>();
        let mut values = Values::default();
        match (kind, digits) {
            (Kind::Int32, Some(digits)) => {
                for v in digits.values() {
                    values.push(&i32::try_from(*v).ok()?.to_le_bytes());
                }
            }
            (Kind::Int64, Some(digits)) => {
                for v in digits.values() {
                    values.push(&i64::try_from(*v).ok()?.to_le_bytes());
                }
            }
            (Kind::Int32, None) => {
                let numbers = cast(array, &ArrowType::Int32).ok()?;
                let numbers = numbers.as_primitive_opt::<Int32Type>()?.values();
                numbers.iter().for_each(|v| values.push(&v.to_le_bytes()));
            }
            (Kind::Int64, None) => {
                let numbers = cast(array, &ArrowType::Int64).ok()?;
                let numbers = numbers.as_primitive_opt::<Int64Type>()?.values();
                numbers.iter().for_each(|v| values.push(&v.to_le_bytes()));
            }
            (Kind::Float, _) => {
                let numbers = array.as_primitive_opt::<Float32Type>()?.values();
                numbers.iter().for_each(|v| values.push(&v.to_le_bytes()));
                return numbers.iter().all(|v| !v.is_nan()).then_some(values);
            }
            (Kind::Double, _) => {
                let numbers = array.as_primitive_opt::<Float64Type>()?.values();
                numbers.iter().for_each(|v| values.push(&v.to_le_bytes()));
                return numbers.iter().all(|v| !v.is_nan()).then_some(values);
            }
            (Kind::Bytes, _) => match array.data_type() {
                ArrowType::Utf8 => {
                    let texts = array.as_string_opt::<i32>()?.iter().flatten();
                    texts.for_each(|v| values.push(v.as_bytes()));
                }
                _ => array
                    .as_binary_opt::<i32>()?
                    .iter()
                    .flatten()
                    .for_each(|v| values.push(v)),
            },
        }
        Some(values)
    }

    /// Those of a dictionary's page.
    pub(super) fn parse(kind: Kind, page: &[u8], count: usize) -> Option<Values> {
        let mut values = Values::default();
        let mut rest = page;
        for _ in 0..count {
            let (value, after) = split(kind, rest)?;
            values.push(value);
            rest = after;
        }
        Some(values)
    }

    pub(super) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let from = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(from..*self.ends.get(index)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// The first of plain values, and the rest.
pub(super) fn split(kind: Kind, values: &[u8]) -> Option<(&[u8], &[u8])> {
    match kind.width() {
        Some(width) => values.split_at_checked(width),
        None => {
            let (length, rest) = values.split_first_chunk::<4>()?;
            rest.split_at_checked(u32::from_le_bytes(*length) as usize)
        }
    }
}

/// Appends a plain value.
pub(super) fn put(kind: Kind, value: &[u8], out: &mut Vec<u8>) {
    if kind == Kind::Bytes {
        out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
    }
    out.extend_from_slice(value);
}

/// Widens bounds to what lies within others.
pub(super) fn widen(kind: Kind, bounds: &mut Option<(Vec<u8>, Vec<u8>)>, by: Range<'_>) {
    let wider = match bounds.as_ref() {
        None => (by.0.to_vec(), by.1.to_vec()),
        Some((min, max)) => {
            let values = [min.as_slice(), max, by.0, by.1].into_iter();
            let Some((min, max)) = kind.extremes(values) else {
                return;
            };
            (min.to_vec(), max.to_vec())
        }
    };
    *bounds = Some(wider);
}
