//! Single values of primitive columns, from text and to Arrow arrays.
//! The type stands beside the value, never in it: timestamps with and without zone are both
//! microseconds. Used by bound predicates, partition values and statistics.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, new_null_array,
};

use super::text::{Fit, Number, parse_date, parse_instant, parse_timestamp};
use crate::arrow_types::primitive_to_arrow;
use crate::schema::Primitive;
use crate::{Error, Result};

/// One value of a primitive type that is given elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// True or false.
    Boolean(bool),
    /// `byte` to `long`.
    Integer(i64),
    /// `float`.
    Float(f32),
    /// `double`.
    Double(f64),
    /// The digits of a `decimal` at its type's scale.
    Decimal(i128),
    /// `string`.
    Text(String),
    /// `binary`.
    Binary(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds: since the epoch (`timestamp`) or on the wall clock (`timestamp_ntz`).
    Timestamp(i64),
}

/// Whether this is one of the four integer types.
pub(crate) fn is_integer(ty: Primitive) -> bool {
    matches!(
        ty,
        Primitive::Byte | Primitive::Short | Primitive::Integer | Primitive::Long
    )
}

/// Least and greatest value of an integer or decimal type, at its scale.
pub(crate) fn exact_range(ty: Primitive) -> Option<(i32, i128, i128)> {
    let whole = |low: i64, high: i64| Some((0, i128::from(low), i128::from(high)));
    match ty {
        Primitive::Byte => whole(i8::MIN.into(), i8::MAX.into()),
        Primitive::Short => whole(i16::MIN.into(), i16::MAX.into()),
        Primitive::Integer => whole(i32::MIN.into(), i32::MAX.into()),
        Primitive::Long => whole(i64::MIN, i64::MAX),
        Primitive::Decimal { precision, scale } => {
            let high = 10i128.checked_pow(u32::from(precision))? - 1;
            Some((i32::from(scale), -high, high))
        }
        _ => None,
    }
}

/// The scalar of an integer or decimal type that holds these digits.
pub(crate) fn exact_scalar(ty: Primitive, v: i128) -> Option<Scalar> {
    match ty {
        Primitive::Decimal { .. } => Some(Scalar::Decimal(v)),
        _ => i64::try_from(v).ok().map(Scalar::Integer),
    }
}

impl Scalar {
    /// The value of this text as Spark's ANSI cast reads it, timestamps without offset as UTC; `None` if it isn't one.
    pub(crate) fn parse(text: &str, ty: Primitive) -> Option<Scalar> {
        Some(match ty {
            Primitive::String => Scalar::Text(text.to_owned()),
            Primitive::Binary => Scalar::Binary(text.as_bytes().to_vec()),
            Primitive::Boolean => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "t" | "yes" | "y" | "1" => Scalar::Boolean(true),
                "false" | "f" | "no" | "n" | "0" => Scalar::Boolean(false),
                _ => return None,
            },
            Primitive::Byte | Primitive::Short | Primitive::Integer | Primitive::Long => {
                let v: i64 = text.trim().parse().ok()?;
                let (_, low, high) = exact_range(ty)?;
                (low..=high).contains(&i128::from(v)).then_some(Scalar::Integer(v))?
            }
            Primitive::Decimal { .. } => {
                let (scale, low, high) = exact_range(ty)?;
                match Number::parse(text)?.fit(scale, low, high) {
                    Fit::Exact(v) => Scalar::Decimal(v),
                    _ => return None,
                }
            }
            Primitive::Float => Scalar::Float(text.trim().parse().ok()?),
            Primitive::Double => Scalar::Double(text.trim().parse().ok()?),
            Primitive::Date => Scalar::Date(parse_date(text)?),
            Primitive::Timestamp => Scalar::Timestamp(parse_instant(text)?),
            // Spark drops the offset and keeps the wall clock.
            Primitive::TimestampNtz => Scalar::Timestamp(parse_timestamp(text)?.0),
            Primitive::Void | Primitive::Variant => return None,
        })
    }

    /// An array of this one value, for comparison kernels.
    pub(crate) fn to_array(&self, ty: Primitive) -> Result<ArrayRef> {
        to_array([Some(self)], ty)
    }
}

macro_rules! collect {
    ($values:expr, $variant:ident, $array:ty, $convert:expr) => {
        Arc::new(
            $values
                .map(|v| match v {
                    Some(Scalar::$variant(x)) => $convert(x),
                    _ => None,
                })
                .collect::<$array>(),
        ) as ArrayRef
    };
}

/// An array of the canonical Arrow type; a value that isn't of the type becomes null.
pub(crate) fn to_array<'a>(values: impl IntoIterator<Item = Option<&'a Scalar>>, ty: Primitive) -> Result<ArrayRef> {
    let v = values.into_iter();
    Ok(match ty {
        Primitive::String => collect!(v, Text, StringArray, |x: &'a String| Some(x.as_str())),
        Primitive::Binary => collect!(v, Binary, BinaryArray, |x: &'a Vec<u8>| Some(x.as_slice())),
        Primitive::Boolean => collect!(v, Boolean, BooleanArray, |x: &bool| Some(*x)),
        Primitive::Byte => collect!(v, Integer, Int8Array, |x: &i64| i8::try_from(*x).ok()),
        Primitive::Short => collect!(v, Integer, Int16Array, |x: &i64| i16::try_from(*x).ok()),
        Primitive::Integer => collect!(v, Integer, Int32Array, |x: &i64| i32::try_from(*x).ok()),
        Primitive::Long => collect!(v, Integer, Int64Array, |x: &i64| Some(*x)),
        Primitive::Float => collect!(v, Float, Float32Array, |x: &f32| Some(*x)),
        Primitive::Double => collect!(v, Double, Float64Array, |x: &f64| Some(*x)),
        Primitive::Date => collect!(v, Date, Date32Array, |x: &i32| Some(*x)),
        Primitive::TimestampNtz => collect!(v, Timestamp, TimestampMicrosecondArray, |x: &i64| Some(*x)),
        Primitive::Timestamp => {
            let a: TimestampMicrosecondArray = v
                .map(|v| match v {
                    Some(Scalar::Timestamp(x)) => Some(*x),
                    _ => None,
                })
                .collect();
            Arc::new(a.with_timezone("UTC"))
        }
        Primitive::Decimal { precision, scale } => {
            let a: Decimal128Array = v
                .map(|v| match v {
                    Some(Scalar::Decimal(x)) => Some(*x),
                    _ => None,
                })
                .collect();
            let a = a.with_precision_and_scale(precision, scale);
            Arc::new(a.map_err(|e| Error::internal(format!("decimal({precision},{scale}) isn't an Arrow type: {e}")))?)
        }
        Primitive::Void | Primitive::Variant => new_null_array(&primitive_to_arrow(ty), v.count()),
    })
}
