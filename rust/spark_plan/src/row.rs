//! Partition values as Spark's `UnsafeRow`: null bits, eight bytes a value, then what is longer. In
//! the byte order of this machine, since driver and JVM share it.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use deltaplane_error::{Error, Result};

/// Digits that Spark keeps in a long; more are stored as a big integer's bytes.
const LONG_DIGITS: u8 = 18;

enum Value {
    Null,
    Fixed([u8; 8]),
    Bytes(Vec<u8>),
}

/// The row at `at` of these columns.
pub fn unsafe_row(columns: &[ArrayRef], row: usize) -> Result<Vec<u8>> {
    let bitset = columns.len().div_ceil(64) * 8;
    let mut nulls = vec![0u64; columns.len().div_ceil(64)];
    let mut fixed = Vec::with_capacity(columns.len() * 8);
    let mut variable = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        match value(column, row)? {
            Value::Null => {
                if let Some(word) = nulls.get_mut(i / 64) {
                    *word |= 1 << (i % 64);
                }
                fixed.extend_from_slice(&[0; 8]);
            }
            Value::Fixed(bytes) => fixed.extend_from_slice(&bytes),
            Value::Bytes(bytes) => {
                let offset = bitset + columns.len() * 8 + variable.len();
                fixed.extend_from_slice(&(((offset as u64) << 32) | bytes.len() as u64).to_ne_bytes());
                variable.extend_from_slice(&bytes);
                variable.resize(variable.len().next_multiple_of(8), 0);
            }
        }
    }
    let words = nulls.iter().flat_map(|w| w.to_ne_bytes());
    Ok(words.chain(fixed).chain(variable).collect())
}

/// Narrow values stand in the first bytes of their eight.
fn narrow<const N: usize>(bytes: [u8; N]) -> Value {
    let mut out = [0; 8];
    out.iter_mut().zip(bytes).for_each(|(o, b)| *o = b);
    Value::Fixed(out)
}

fn value(column: &ArrayRef, row: usize) -> Result<Value> {
    if column.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match column.data_type() {
        DataType::Boolean => narrow([u8::from(column.as_boolean().value(row))]),
        DataType::Int8 => narrow(column.as_primitive::<Int8Type>().value(row).to_ne_bytes()),
        DataType::Int16 => narrow(column.as_primitive::<Int16Type>().value(row).to_ne_bytes()),
        DataType::Int32 => narrow(column.as_primitive::<Int32Type>().value(row).to_ne_bytes()),
        DataType::Date32 => narrow(column.as_primitive::<Date32Type>().value(row).to_ne_bytes()),
        DataType::Float32 => narrow(column.as_primitive::<Float32Type>().value(row).to_ne_bytes()),
        DataType::Int64 => narrow(column.as_primitive::<Int64Type>().value(row).to_ne_bytes()),
        DataType::Float64 => narrow(column.as_primitive::<Float64Type>().value(row).to_ne_bytes()),
        DataType::Timestamp(_, _) => narrow(
            column
                .as_primitive::<TimestampMicrosecondType>()
                .value(row)
                .to_ne_bytes(),
        ),
        DataType::Decimal128(precision, _) => decimal(column.as_primitive::<Decimal128Type>().value(row), *precision)?,
        DataType::Utf8 => Value::Bytes(column.as_string::<i32>().value(row).as_bytes().to_vec()),
        DataType::Binary => Value::Bytes(column.as_binary::<i32>().value(row).to_vec()),
        other => return Err(Error::internal(format!("no partition column has the type {other}"))),
    })
}

fn decimal(unscaled: i128, precision: u8) -> Result<Value> {
    if precision <= LONG_DIGITS {
        let long = i64::try_from(unscaled).map_err(|_| Error::internal("a decimal has more digits than its type"))?;
        return Ok(narrow(long.to_ne_bytes()));
    }
    // A Java BigInteger: big-endian, two's complement, no byte more than needed.
    let bytes = unscaled.to_be_bytes();
    let sign = if unscaled < 0 { 0xff } else { 0 };
    let redundant = bytes
        .windows(2)
        .take_while(|w| matches!(w, [a, b] if *a == sign && (b ^ sign) < 0x80))
        .count();
    Ok(Value::Bytes(bytes.get(redundant..).unwrap_or_default().to_vec()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int32Array, StringArray};

    use super::*;

    #[test]
    fn a_row_has_null_bits_eight_bytes_a_value_and_the_long_values_after_them() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![Some(-2)])),
            Arc::new(StringArray::from(vec![None::<&str>])),
            Arc::new(StringArray::from(vec![Some("abcdefghi")])),
        ];
        let row = unsafe_row(&columns, 0).unwrap();
        let place = (32u64 << 32) | 9;
        let fixed = [
            &0b10u64.to_ne_bytes()[..],
            &(-2i32).to_ne_bytes(),
            &[0; 12],
            &place.to_ne_bytes(),
        ]
        .concat();
        assert_eq!(row, [&fixed[..], b"abcdefghi", &[0; 7]].concat());
    }

    #[test]
    fn decimals_are_longs_or_the_least_bytes_of_a_big_integer() {
        let bytes = |unscaled: i128, precision: u8| {
            let array = Decimal128Array::from(vec![unscaled])
                .with_precision_and_scale(precision, 2)
                .unwrap();
            unsafe_row(&[Arc::new(array) as ArrayRef], 0).unwrap()
        };
        assert_eq!(bytes(-5, 18), [&[0; 8][..], &(-5i64).to_ne_bytes()].concat());
        // Java's BigInteger.toByteArray: -1 is one byte, 128 needs a zero before it.
        for (unscaled, expected) in [(-1, &[0xff][..]), (128, &[0, 0x80]), (-128, &[0x80]), (0, &[0])] {
            let place = ((16u64 << 32) | expected.len() as u64).to_ne_bytes();
            let mut padded = expected.to_vec();
            padded.resize(8, 0);
            assert_eq!(
                bytes(unscaled, 38),
                [&[0; 8][..], &place, &padded].concat(),
                "{unscaled}"
            );
        }
    }
}
