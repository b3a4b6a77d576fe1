//! Partition values: the strings of `add.partitionValues` to typed values and back (P170, P171).
//! Reads every legal encoding, writes the canonical one.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType,
};

pub use crate::expr::scalar::Scalar;
use crate::expr::scalar::ScalarBuilder;
use crate::expr::text::{format_date, format_decimal, format_f32, format_f64, format_timestamp, unescape_bytes};
use crate::schema::Primitive;
use crate::{Error, Result};

/// The typed value of a partition string; `None` and `""` are null. Timestamps without time zone
/// are UTC.
pub fn parse_partition_value(text: Option<&str>, ty: Primitive) -> Result<Option<Scalar>> {
    parse(text, ty).map_err(|text| uncastable(None, text, ty))
}

fn parse(text: Option<&str>, ty: Primitive) -> Result<Option<Scalar>, &str> {
    let Some(text) = text.filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    let value = match ty {
        Primitive::Void => return Ok(None),
        Primitive::Binary => Some(Scalar::Binary(unescape_bytes(text))),
        _ => Scalar::parse(text, ty),
    };
    value.map(Some).ok_or(text)
}

fn uncastable(column: Option<&str>, text: &str, ty: Primitive) -> Error {
    let column = column.map(|c| format!(" of the column `{c}`")).unwrap_or_default();
    Error::corrupt_log(format!(
        "DELTA_FAILED_CAST_PARTITION_VALUE: the partition value '{text}'{column} isn't a {ty}: a faulty writer added this file; remove it or restore the table to a version before it"
    ))
}

/// The typed values of a column's partition strings, as the column's canonical Arrow type.
pub fn partition_array<'a>(
    values: impl IntoIterator<Item = Option<&'a str>>,
    column: &str,
    ty: Primitive,
) -> Result<ArrayRef> {
    let values = values.into_iter();
    let mut array = ScalarBuilder::new(ty, values.size_hint().0);
    let mut before: (Option<&str>, Option<Scalar>) = (None, None);
    for text in values {
        // Files of a partition are adjacent: most values equal the previous one.
        if before.0 != text {
            let value = parse(text, ty).map_err(|text| uncastable(Some(column), text, ty))?;
            before = (text, value);
        }
        array.append(before.1.as_ref());
    }
    array.finish()
}

/// The canonical partition string of a row of an array of a canonical Arrow type, `None` for null.
pub fn partition_text(array: &dyn Array, row: usize) -> Result<Option<String>> {
    if row >= array.len() {
        return Err(Error::internal(format!(
            "row {row} of a partition column of {} rows",
            array.len()
        )));
    }
    if array.is_null(row) || *array.data_type() == ArrowType::Null {
        return Ok(None);
    }
    Ok(Some(match array.data_type() {
        ArrowType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        ArrowType::Int8 => array.as_primitive::<Int8Type>().value(row).to_string(),
        ArrowType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
        ArrowType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
        ArrowType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
        ArrowType::Float32 => format_f32(array.as_primitive::<Float32Type>().value(row)),
        ArrowType::Float64 => format_f64(array.as_primitive::<Float64Type>().value(row)),
        ArrowType::Boolean => array.as_boolean().value(row).to_string(),
        ArrowType::Binary => escape_bytes(array.as_binary::<i32>().value(row)),
        ArrowType::Date32 => format_date(array.as_primitive::<Date32Type>().value(row).into()),
        ArrowType::Decimal128(_, scale) => format_decimal(array.as_primitive::<Decimal128Type>().value(row), *scale),
        ArrowType::Timestamp(TimeUnit::Microsecond, zone) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            if zone.is_some() {
                instant_text(micros)
            } else {
                wall_clock_text(micros)
            }
        }
        other => {
            return Err(Error::invalid_argument(format!(
                "a column of the type {other} can't be a partition column: partition by a primitive column"
            )));
        }
    }))
}

fn instant_text(micros: i64) -> String {
    let (seconds, fraction) = format_timestamp(micros, 'T');
    format!("{seconds}.{fraction:06}Z")
}

fn wall_clock_text(micros: i64) -> String {
    let (seconds, fraction) = format_timestamp(micros, ' ');
    if fraction == 0 {
        return seconds;
    }
    let fraction = format!("{fraction:06}");
    format!("{seconds}.{}", fraction.trim_end_matches('0'))
}

/// Plain text if every reader restores the bytes from it, since delta-spark and others use the
/// text's UTF-8 bytes; otherwise the protocol's escapes.
fn escape_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) && !text.contains("\\u") => text.to_owned(),
        _ => bytes.iter().map(|b| format!("\\u{b:04X}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
    use super::*;

    fn round_trip(text: &str, ty: Primitive) -> String {
        let a = partition_array([Some(text)], "c", ty).unwrap();
        partition_text(&a, 0).unwrap().unwrap()
    }

    #[test]
    fn canonical_text_of_every_type() {
        // P170, P171
        let decimal = Primitive::Decimal {
            precision: 10,
            scale: 2,
        };
        for (text, ty, canonical) in [
            ("a b/ä", Primitive::String, "a b/ä"),
            ("-5", Primitive::Byte, "-5"),
            ("32767", Primitive::Short, "32767"),
            ("7", Primitive::Integer, "7"),
            ("-9223372036854775808", Primitive::Long, "-9223372036854775808"),
            ("1", Primitive::Double, "1.0"),
            ("1.0E20", Primitive::Double, "1.0E20"),
            ("NaN", Primitive::Float, "NaN"),
            ("-Infinity", Primitive::Double, "-Infinity"),
            ("-0.0", Primitive::Double, "-0.0"),
            ("true", Primitive::Boolean, "true"),
            ("1.5", decimal, "1.50"),
            ("-0.05", decimal, "-0.05"),
            ("2024-03-10", Primitive::Date, "2024-03-10"),
            (
                "2024-03-10T16:34:56.123456Z",
                Primitive::Timestamp,
                "2024-03-10T16:34:56.123456Z",
            ),
            (
                "2024-03-10 16:34:56",
                Primitive::Timestamp,
                "2024-03-10T16:34:56.000000Z",
            ),
            (
                "2024-03-10 16:34:56.5+01:00",
                Primitive::Timestamp,
                "2024-03-10T15:34:56.500000Z",
            ),
            (
                "2024-03-10 12:34:56.123456",
                Primitive::TimestampNtz,
                "2024-03-10 12:34:56.123456",
            ),
            (
                "2024-03-10 12:34:56.000000",
                Primitive::TimestampNtz,
                "2024-03-10 12:34:56",
            ),
            ("\\u0000\\u00FF", Primitive::Binary, "\\u0000\\u00FF"),
            ("ab\\u00e9", Primitive::Binary, "\\u0061\\u0062\\u00E9"),
            ("a\\u0062 é", Primitive::Binary, "ab é"),
            (
                "\\u005Cu0041",
                Primitive::Binary,
                "\\u005C\\u0075\\u0030\\u0030\\u0034\\u0031",
            ),
        ] {
            assert_eq!(round_trip(text, ty), canonical, "{ty}");
        }
    }

    #[test]
    fn null_and_empty_are_null() {
        // P170, Q2
        for ty in [Primitive::String, Primitive::Integer, Primitive::Binary] {
            let a = partition_array([None, Some("")], "c", ty).unwrap();
            assert_eq!(a.null_count(), 2);
            assert_eq!(partition_text(&a, 0).unwrap(), None);
        }
    }

    #[test]
    fn uncastable_values_are_errors_that_name_column_and_text() {
        // P170
        for (text, ty) in [
            ("x", Primitive::Integer),
            ("300", Primitive::Byte),
            ("1.505", Primitive::Decimal { precision: 5, scale: 2 }),
        ] {
            let e = partition_array([Some("1"), Some(text)], "my col", ty).unwrap_err();
            assert!(
                e.message().contains("DELTA_FAILED_CAST_PARTITION_VALUE")
                    && e.message().contains("my col")
                    && e.message().contains(text),
                "{e}"
            );
        }
    }
}
