//! Literals during binding: typed by their own text, before they are compared with a column. Owns
//! reading them from the tree and casts between types; `coerce` does the rest.

use std::cmp::Ordering;

use super::node::Op;
use super::scalar::{Scalar, exact_range, exact_scalar, is_integer};
use super::text::{Fit, Number, has_nanoseconds};
use crate::schema::Primitive;
use crate::{Error, Result};

/// A constant in its original form.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    /// A string that takes exactly the type of the other operand.
    Untyped(String),
    /// A string in SQL: Spark's promotion rules apply.
    Text(String),
    /// An integer or a decimal, of this type.
    Exact(Number, Primitive),
    Float(f32),
    Double(f64),
    /// A time between this microsecond and the next one.
    Between(i64, Primitive),
    /// Any other typed value.
    Other(Scalar, Primitive),
}

pub(crate) fn malformed(text: &str, ty: impl std::fmt::Display) -> Error {
    Error::invalid_argument(format!(
        "the predicate's value '{text}' isn't a {ty}: correct the value or compare it with a column of its type"
    ))
}

/// The type of this name, with SQL's spellings.
pub(crate) fn parse_type(name: &str) -> Result<Primitive> {
    let name = name.to_ascii_lowercase();
    let known = match name.as_str() {
        "bigint" => Some(Primitive::Long),
        "int" => Some(Primitive::Integer),
        "smallint" => Some(Primitive::Short),
        "tinyint" => Some(Primitive::Byte),
        other => Primitive::parse(other),
    };
    known.ok_or_else(|| {
        Error::unsupported_expression(format!(
            "the predicate uses the type `{name}`, which the embedded engine can't compare: use the Spark engine"
        ))
    })
}

/// The type of a literal in the form of a number: days, or microseconds, since 1970-01-01. Texts of
/// dates can't express every value of such a column.
fn counted_type(name: &str) -> Option<Primitive> {
    match name {
        "date_days" => Some(Primitive::Date),
        "timestamp_micros" => Some(Primitive::Timestamp),
        "timestamp_ntz_micros" => Some(Primitive::TimestampNtz),
        _ => None,
    }
}

fn counted(text: &str, ty: Primitive) -> Option<Literal> {
    let number: i64 = text.parse().ok()?;
    let scalar = match ty {
        Primitive::Date => Scalar::Date(i32::try_from(number).ok()?),
        _ => Scalar::Timestamp(number),
    };
    Some(Literal::Other(scalar, ty))
}

impl Literal {
    /// The literal of this text and type name.
    pub(crate) fn parse(value: Option<&str>, type_name: &str) -> Result<Literal> {
        let Some(text) = value else { return Ok(Literal::Null) };
        if type_name == "text" {
            return Ok(Literal::Untyped(text.to_owned()));
        }
        if let Some(ty) = counted_type(type_name) {
            return counted(text, ty).ok_or_else(|| malformed(text, type_name));
        }
        let ty = parse_type(type_name)?;
        let parsed = match ty {
            Primitive::String => Some(Literal::Text(text.to_owned())),
            Primitive::Decimal { .. } => Number::parse(text).map(|n| Literal::Exact(n, ty)),
            Primitive::Binary => parse_hex(text).map(|b| Literal::Other(Scalar::Binary(b), ty)),
            _ => Scalar::parse(text, ty).map(|s| match s {
                Scalar::Timestamp(micros) if has_nanoseconds(text) => Literal::Between(micros, ty),
                other => Literal::of(other, ty),
            }),
        };
        parsed.ok_or_else(|| malformed(text, ty))
    }

    fn of(scalar: Scalar, ty: Primitive) -> Literal {
        match scalar {
            Scalar::Integer(v) => Literal::Exact(Number::whole(v), ty),
            Scalar::Decimal(v) => {
                let scale = match ty {
                    Primitive::Decimal { scale, .. } => scale,
                    _ => 0,
                };
                let mut n = Number::whole(0);
                (n.unscaled, n.scale) = (v, i32::from(scale));
                n.significant = v.unsigned_abs().to_string().len();
                Literal::Exact(n, ty)
            }
            Scalar::Float(v) => Literal::Float(v),
            Scalar::Double(v) => Literal::Double(v),
            Scalar::Text(v) => Literal::Text(v),
            other => Literal::Other(other, ty),
        }
    }

    /// Its type's name, for messages.
    pub(crate) fn type_name(&self) -> String {
        match self {
            Literal::Null => "void".to_owned(),
            Literal::Untyped(_) | Literal::Text(_) => "string".to_owned(),
            Literal::Exact(_, ty) | Literal::Other(_, ty) | Literal::Between(_, ty) => ty.to_string(),
            Literal::Float(_) => "float".to_owned(),
            Literal::Double(_) => "double".to_owned(),
        }
    }

    /// The nearest double of a number.
    pub(crate) fn to_f64(&self) -> Option<f64> {
        match self {
            Literal::Exact(n, _) => n.to_f64(),
            Literal::Float(v) => Some(f64::from(*v)),
            Literal::Double(v) => Some(*v),
            _ => None,
        }
    }

    /// This literal cast to a type, if the result certainly equals Spark's.
    pub(crate) fn cast(self, ty: Primitive) -> Result<Literal> {
        let refused = Error::unsupported_expression(format!(
            "the predicate casts a {} literal to {ty}, which the embedded engine doesn't do: write a literal of the type {ty} or use the Spark engine",
            self.type_name()
        ));
        Ok(match (self, ty) {
            (Literal::Null, _) => Literal::Null,
            (Literal::Text(t) | Literal::Untyped(t), _) => {
                let scalar = Scalar::parse(&t, ty).ok_or_else(|| malformed(&t, ty))?;
                Literal::of(scalar, ty)
            }
            (Literal::Exact(n, _), Primitive::Double) => Literal::Double(n.to_f64().ok_or(refused)?),
            (Literal::Exact(n, _), _) if exact_range(ty).is_some() => {
                match exact_range(ty).map(|(s, l, h)| n.fit(s, l, h)) {
                    Some(Fit::Exact(v)) => Literal::of(exact_scalar(ty, v).ok_or(refused)?, ty),
                    _ => return Err(refused),
                }
            }
            (Literal::Exact(n, from), Primitive::Float) if is_integer(from) || n.significant <= 15 => {
                // Spark goes through a double only for decimals; both round once at these sizes.
                let text = format!("{}e{}", n.unscaled, -i64::from(n.scale));
                Literal::Float(text.parse().map_err(|_| refused)?)
            }
            (Literal::Float(v), Primitive::Double) => Literal::Double(f64::from(v)),
            (same @ Literal::Float(_), Primitive::Float) | (same @ Literal::Double(_), Primitive::Double) => same,
            (Literal::Other(s, from), _) if from == ty => Literal::Other(s, from),
            (Literal::Other(Scalar::Date(d), _), Primitive::Timestamp | Primitive::TimestampNtz) => {
                Literal::Other(Scalar::Timestamp(i64::from(d).saturating_mul(super::text::DAY_US)), ty)
            }
            _ => return Err(refused),
        })
    }

    /// The truth of a comparison of two literals, `None` for NULL.
    pub(crate) fn compare(&self, op: Op, other: &Literal) -> Result<Option<bool>> {
        use Literal::{Exact, Null, Other, Text, Untyped};
        let order = match (self, other) {
            (Null, _) | (_, Null) => return Ok(None),
            (Text(a) | Untyped(a), Text(b) | Untyped(b)) => Some(a.cmp(b)),
            (Exact(a, _), Exact(b, _)) => compare_numbers(*a, *b),
            (Other(a, x), Other(b, y)) if x == y => compare_others(a, b),
            _ => match (self.to_f64(), other.to_f64()) {
                (Some(a), Some(b)) => Some(compare_doubles(a, b)),
                _ => None,
            },
        };
        order.map(|o| Some(op.of(o))).ok_or_else(|| {
            Error::unsupported_expression(format!(
                "the predicate compares two literals of the types {} and {}: leave the comparison out or use the Spark engine",
                self.type_name(),
                other.type_name()
            ))
        })
    }
}

/// Spark's order of doubles: NaN equals itself and is greatest, zeros are equal.
pub(crate) fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn compare_numbers(a: Number, b: Number) -> Option<Ordering> {
    match a.fit(b.scale, i128::MIN, i128::MAX) {
        Fit::Exact(v) => Some(v.cmp(&b.unscaled)),
        Fit::After(v) => Some(if v < b.unscaled {
            Ordering::Less
        } else {
            Ordering::Greater
        }),
        Fit::Above => Some(Ordering::Greater),
        Fit::Below => Some(Ordering::Less),
    }
}

fn compare_others(a: &Scalar, b: &Scalar) -> Option<Ordering> {
    match (a, b) {
        (Scalar::Boolean(a), Scalar::Boolean(b)) => Some(a.cmp(b)),
        (Scalar::Binary(a), Scalar::Binary(b)) => Some(a.cmp(b)),
        (Scalar::Date(a), Scalar::Date(b)) => Some(a.cmp(b)),
        (Scalar::Timestamp(a), Scalar::Timestamp(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    // Spark reads an odd number of digits with a zero before them.
    let padded = if text.len() % 2 == 1 {
        format!("0{text}")
    } else {
        text.to_owned()
    };
    padded
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn counted_literals_reach_every_value() {
        let parsed = |text: String, ty| Literal::parse(Some(&text), ty);
        for days in [i32::MIN, -719_164, i32::MAX] {
            let expected = Literal::Other(Scalar::Date(days), Primitive::Date);
            assert_eq!(parsed(days.to_string(), "date_days").unwrap(), expected);
        }
        for micros in [i64::MIN, 0, i64::MAX] {
            for (name, ty) in [
                ("timestamp_micros", Primitive::Timestamp),
                ("timestamp_ntz_micros", Primitive::TimestampNtz),
            ] {
                let expected = Literal::Other(Scalar::Timestamp(micros), ty);
                assert_eq!(parsed(micros.to_string(), name).unwrap(), expected);
            }
        }
        assert!(parsed((i64::from(i32::MAX) + 1).to_string(), "date_days").is_err());
        assert!(parsed("2024-01-01".to_owned(), "timestamp_micros").is_err());
        assert_eq!(Literal::parse(None, "date_days").unwrap(), Literal::Null);
    }
}
