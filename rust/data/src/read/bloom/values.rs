//! Converts values to the bytes that a file's Bloom filters have hashed: those of the file's
//! physical type, which may be narrower than the table's. Exact, or not at all.

use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use deltaplane_protocol::expr::LookupValue;
use parquet::basic::Type as Physical;
use parquet::schema::types::ColumnDescPtr;

const DAY_US: i64 = 24 * 3600 * 1_000_000;
/// Below these numbers each whole number has a floating-point number of its own.
const WHOLE_DOUBLES: f64 = 9_007_199_254_740_992.0;
const WHOLE_FLOATS: f32 = 16_777_216.0;

/// All bytes under which a file with a column of this type may have stored the value; `None` if
/// they aren't known. Equal floating-point numbers have several forms.
pub(super) fn stored_forms(value: &LookupValue, stored: &ArrowType, column: &ColumnDescPtr) -> Option<Vec<Vec<u8>>> {
    use LookupValue as V;
    let single = |bytes: Vec<u8>| Some(vec![bytes]);
    let physical = column.physical_type();
    match (stored, physical, value) {
        (ArrowType::Int8 | ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64, ..) => {
            single(integer(whole(value, 0)?, physical)?)
        }
        (ArrowType::Date32, Physical::INT32, V::Date(days)) => single(days.to_le_bytes().to_vec()),
        (ArrowType::Date32, Physical::INT32, V::Timestamp(micros)) if micros % DAY_US == 0 => {
            single(i32::try_from(micros / DAY_US).ok()?.to_le_bytes().to_vec())
        }
        (ArrowType::Timestamp(unit, _), Physical::INT64, V::Timestamp(micros)) => match unit {
            TimeUnit::Microsecond => single(micros.to_le_bytes().to_vec()),
            TimeUnit::Millisecond if micros % 1000 == 0 => single((micros / 1000).to_le_bytes().to_vec()),
            // Several nanoseconds are one microsecond of the table.
            _ => None,
        },
        (ArrowType::Decimal128(_, scale), _, V::Exact { .. }) => {
            let digits = whole(value, u32::try_from(*scale).ok()?)?;
            match physical {
                Physical::FIXED_LEN_BYTE_ARRAY => {
                    single(big_endian(digits, usize::try_from(column.type_length()).ok()?)?)
                }
                // Bytes of any length may begin with repetitions of the sign.
                Physical::BYTE_ARRAY => None,
                _ => single(integer(digits, physical)?),
            }
        }
        (ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View, Physical::BYTE_ARRAY, V::Bytes(bytes))
        | (ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView, Physical::BYTE_ARRAY, V::Bytes(bytes)) => {
            single(bytes.clone())
        }
        (ArrowType::FixedSizeBinary(length), Physical::FIXED_LEN_BYTE_ARRAY, V::Bytes(bytes)) => {
            (usize::try_from(*length) == Ok(bytes.len())).then(|| vec![bytes.clone()])
        }
        (ArrowType::Float32, Physical::FLOAT, V::Float(v)) => floats(*v),
        (ArrowType::Float32, Physical::FLOAT, V::Double(v)) => {
            // A value that changes is noticed by the comparison.
            #[allow(clippy::cast_possible_truncation)]
            let narrow = *v as f32;
            (f64::from(narrow) == *v).then(|| floats(narrow)).flatten()
        }
        (ArrowType::Float64, Physical::DOUBLE, V::Double(v)) => doubles(*v),
        (ArrowType::Float64, Physical::DOUBLE, V::Float(v)) => doubles(f64::from(*v)),
        _ => None,
    }
}

/// The digits of a number at this scale, if it has no more.
fn whole(value: &LookupValue, to: u32) -> Option<i128> {
    match value {
        LookupValue::Exact { unscaled, scale } if *scale <= to => {
            unscaled.checked_mul(10_i128.checked_pow(to - scale)?)
        }
        LookupValue::Exact { unscaled, scale } => {
            let divisor = 10_i128.checked_pow(scale - to)?;
            (unscaled % divisor == 0).then_some(unscaled / divisor)
        }
        LookupValue::Float(v) if to == 0 => (v.fract() == 0.0 && v.abs() < WHOLE_FLOATS).then_some(*v as i128),
        LookupValue::Double(v) if to == 0 => (v.fract() == 0.0 && v.abs() < WHOLE_DOUBLES).then_some(*v as i128),
        _ => None,
    }
}

fn integer(value: i128, physical: Physical) -> Option<Vec<u8>> {
    match physical {
        Physical::INT32 => Some(i32::try_from(value).ok()?.to_le_bytes().to_vec()),
        Physical::INT64 => Some(i64::try_from(value).ok()?.to_le_bytes().to_vec()),
        _ => None,
    }
}

/// The last bytes of a number, if the others only repeat its sign.
fn big_endian(value: i128, length: usize) -> Option<Vec<u8>> {
    let sign = if value < 0 { 0xff } else { 0 };
    let bytes = value.to_be_bytes();
    let (repeated, last) = bytes.split_at_checked(bytes.len().checked_sub(length)?)?;
    let keeps_sign = last.first().is_some_and(|first| (first & 0x80 != 0) == (value < 0));
    (keeps_sign && repeated.iter().all(|b| *b == sign)).then(|| last.to_vec())
}

fn floats(value: f32) -> Option<Vec<Vec<u8>>> {
    match value {
        v if v.is_nan() => None,
        0.0 => Some([0.0_f32, -0.0].map(|v| v.to_le_bytes().to_vec()).to_vec()),
        v => Some(vec![v.to_le_bytes().to_vec()]),
    }
}

fn doubles(value: f64) -> Option<Vec<Vec<u8>>> {
    match value {
        v if v.is_nan() => None,
        0.0 => Some([0.0_f64, -0.0].map(|v| v.to_le_bytes().to_vec()).to_vec()),
        v => Some(vec![v.to_le_bytes().to_vec()]),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn numbers_are_converted_exactly_or_not_at_all() {
        let exact = |unscaled, scale| LookupValue::Exact { unscaled, scale };
        assert_eq!(whole(&exact(1200, 2), 0), Some(12));
        assert_eq!(whole(&exact(1250, 2), 0), None);
        assert_eq!(whole(&exact(12, 0), 2), Some(1200));
        assert_eq!(whole(&exact(i128::MAX, 0), 2), None);
        assert_eq!(whole(&exact(1, 60), 0), None);
        assert_eq!(whole(&LookupValue::Double(3.0), 0), Some(3));
        for v in [3.5, WHOLE_DOUBLES, f64::NAN, f64::INFINITY, -WHOLE_DOUBLES] {
            assert_eq!(whole(&LookupValue::Double(v), 0), None, "{v}");
        }
        assert_eq!(whole(&LookupValue::Float(WHOLE_FLOATS), 0), None);
        assert_eq!(integer(1 << 31, Physical::INT32), None);
        assert_eq!(integer(-1, Physical::INT32).unwrap(), [0xff; 4]);
        assert_eq!(big_endian(-2, 3).unwrap(), [0xff, 0xff, 0xfe]);
        assert_eq!((big_endian(1, 16).unwrap().len(), big_endian(1, 17)), (16, None));
        assert_eq!((big_endian(128, 1), big_endian(-129, 1)), (None, None));
        assert_eq!(doubles(-0.0).unwrap().len(), 2);
        assert_eq!(floats(f32::NAN), None);
    }
}
