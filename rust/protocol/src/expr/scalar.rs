//! Single values of primitive columns, from text and to Arrow arrays. The type is stored beside the
//! value: timestamps with and without time zone are both microseconds.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder,
    Int8Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder, new_null_array,
};

use super::text::{Fit, Number, parse_date, parse_instant, parse_timestamp};
use crate::arrow_types::primitive_to_arrow;
use crate::schema::Primitive;
use crate::{Error, Result};

/// One value of a primitive type; the type is stored elsewhere.
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
    /// Microseconds: since the epoch (`timestamp`) or of the local clock (`timestamp_ntz`).
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

/// The scalar of an integer or decimal type with these digits.
pub(crate) fn exact_scalar(ty: Primitive, v: i128) -> Option<Scalar> {
    match ty {
        Primitive::Decimal { .. } => Some(Scalar::Decimal(v)),
        _ => i64::try_from(v).ok().map(Scalar::Integer),
    }
}

impl Scalar {
    /// The value of this text by Spark's ANSI cast, timestamps without offset as UTC; `None` if the
    /// text is invalid.
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
            // Spark drops the offset and keeps the local clock.
            Primitive::TimestampNtz => Scalar::Timestamp(parse_timestamp(text)?.0),
            Primitive::Void | Primitive::Variant => return None,
        })
    }

    /// An array of this one value, for comparison kernels.
    pub(crate) fn to_array(&self, ty: Primitive) -> Result<ArrayRef> {
        to_array([Some(self)], ty)
    }
}

/// An array of the canonical Arrow type; a value of another type becomes null.
pub(crate) fn to_array<'a>(values: impl IntoIterator<Item = Option<&'a Scalar>>, ty: Primitive) -> Result<ArrayRef> {
    let values = values.into_iter();
    let mut builder = ScalarBuilder::new(ty, values.size_hint().0);
    for value in values {
        builder.append(value);
    }
    builder.finish()
}

/// Builds the canonical Arrow array of one type's values; a value of another type becomes null.
pub(crate) struct ScalarBuilder {
    ty: Primitive,
    values: Values,
}

enum Values {
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Boolean(BooleanBuilder),
    Byte(Int8Builder),
    Short(Int16Builder),
    Integer(Int32Builder),
    Long(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Decimal(Decimal128Builder),
    /// No values, only their number.
    Nothing(usize),
}

impl ScalarBuilder {
    /// Without values, with room for some.
    pub(crate) fn new(ty: Primitive, room: usize) -> Self {
        let values = match ty {
            Primitive::String => Values::Text(StringBuilder::with_capacity(room, 0)),
            Primitive::Binary => Values::Binary(BinaryBuilder::with_capacity(room, 0)),
            Primitive::Boolean => Values::Boolean(BooleanBuilder::with_capacity(room)),
            Primitive::Byte => Values::Byte(Int8Builder::with_capacity(room)),
            Primitive::Short => Values::Short(Int16Builder::with_capacity(room)),
            Primitive::Integer => Values::Integer(Int32Builder::with_capacity(room)),
            Primitive::Long => Values::Long(Int64Builder::with_capacity(room)),
            Primitive::Float => Values::Float(Float32Builder::with_capacity(room)),
            Primitive::Double => Values::Double(Float64Builder::with_capacity(room)),
            Primitive::Date => Values::Date(Date32Builder::with_capacity(room)),
            Primitive::Timestamp | Primitive::TimestampNtz => {
                Values::Timestamp(TimestampMicrosecondBuilder::with_capacity(room))
            }
            Primitive::Decimal { .. } => Values::Decimal(Decimal128Builder::with_capacity(room)),
            Primitive::Void | Primitive::Variant => Values::Nothing(0),
        };
        ScalarBuilder { ty, values }
    }

    /// One more value.
    pub(crate) fn append(&mut self, value: Option<&Scalar>) {
        macro_rules! append_as {
            ($builder:expr, $variant:ident, $convert:expr) => {
                $builder.append_option(match value {
                    Some(Scalar::$variant(x)) => $convert(x),
                    _ => None,
                })
            };
        }
        match &mut self.values {
            Values::Text(b) => append_as!(b, Text, Some),
            Values::Binary(b) => append_as!(b, Binary, Some),
            Values::Boolean(b) => append_as!(b, Boolean, |x: &bool| Some(*x)),
            Values::Byte(b) => append_as!(b, Integer, |x: &i64| i8::try_from(*x).ok()),
            Values::Short(b) => append_as!(b, Integer, |x: &i64| i16::try_from(*x).ok()),
            Values::Integer(b) => append_as!(b, Integer, |x: &i64| i32::try_from(*x).ok()),
            Values::Long(b) => append_as!(b, Integer, |x: &i64| Some(*x)),
            Values::Float(b) => append_as!(b, Float, |x: &f32| Some(*x)),
            Values::Double(b) => append_as!(b, Double, |x: &f64| Some(*x)),
            Values::Date(b) => append_as!(b, Date, |x: &i32| Some(*x)),
            Values::Timestamp(b) => append_as!(b, Timestamp, |x: &i64| Some(*x)),
            Values::Decimal(b) => append_as!(b, Decimal, |x: &i128| Some(*x)),
            Values::Nothing(count) => *count += 1,
        }
    }

    /// Appends values of a type stored as integers: integers, days of dates, microseconds of
    /// timestamps.
    pub(crate) fn extend_whole(&mut self, values: impl Iterator<Item = Option<i64>>) {
        match &mut self.values {
            Values::Byte(b) => b.extend(values.map(|v| v.and_then(|v| i8::try_from(v).ok()))),
            Values::Short(b) => b.extend(values.map(|v| v.and_then(|v| i16::try_from(v).ok()))),
            Values::Integer(b) => b.extend(values.map(|v| v.and_then(|v| i32::try_from(v).ok()))),
            Values::Date(b) => b.extend(values.map(|v| v.and_then(|v| i32::try_from(v).ok()))),
            Values::Long(b) => b.extend(values),
            Values::Timestamp(b) => b.extend(values),
            _ => values.for_each(|_| self.append(None)),
        }
    }

    /// Appends values of type double.
    pub(crate) fn extend_doubles(&mut self, values: impl Iterator<Item = Option<f64>>) {
        match &mut self.values {
            Values::Double(b) => b.extend(values),
            _ => values.for_each(|_| self.append(None)),
        }
    }

    /// More unscaled values of a decimal type.
    pub(crate) fn extend_decimals(&mut self, values: impl Iterator<Item = Option<i128>>) {
        match &mut self.values {
            Values::Decimal(b) => b.extend(values),
            _ => values.for_each(|_| self.append(None)),
        }
    }

    /// Appends values of a type whose values are texts.
    pub(crate) fn extend_texts<T: AsRef<str>>(&mut self, values: impl Iterator<Item = Option<T>>) {
        match &mut self.values {
            Values::Text(b) => b.extend(values),
            _ => values.for_each(|_| self.append(None)),
        }
    }

    /// The array.
    pub(crate) fn finish(self) -> Result<ArrayRef> {
        Ok(match self.values {
            Values::Text(mut b) => Arc::new(b.finish()),
            Values::Binary(mut b) => Arc::new(b.finish()),
            Values::Boolean(mut b) => Arc::new(b.finish()),
            Values::Byte(mut b) => Arc::new(b.finish()),
            Values::Short(mut b) => Arc::new(b.finish()),
            Values::Integer(mut b) => Arc::new(b.finish()),
            Values::Long(mut b) => Arc::new(b.finish()),
            Values::Float(mut b) => Arc::new(b.finish()),
            Values::Double(mut b) => Arc::new(b.finish()),
            Values::Date(mut b) => Arc::new(b.finish()),
            Values::Timestamp(mut b) => match self.ty {
                Primitive::Timestamp => Arc::new(b.finish().with_timezone("UTC")),
                _ => Arc::new(b.finish()),
            },
            Values::Decimal(mut b) => {
                let Primitive::Decimal { precision, scale } = self.ty else {
                    return Err(Error::internal("decimals of a type that has none"));
                };
                let typed = b.finish().with_precision_and_scale(precision, scale);
                let unknown = |e| Error::internal(format!("decimal({precision},{scale}) isn't an Arrow type: {e}"));
                Arc::new(typed.map_err(unknown)?)
            }
            Values::Nothing(count) => new_null_array(&primitive_to_arrow(self.ty), count),
        })
    }
}
